/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A virtio-net device as a vhost-user front-end configures it: features, memory, rings.
 *
 * It belongs to a port and outlives the sessions that configure it, one at a time. Control thread
 * only; what the datapath needs of it is in the rings (virtq/virtq.h), which the device starts,
 * stops and remaps. A ring processes when it is *started* (a SET_VRING_KICK came, with or without
 * a descriptor, and no GET_VRING_BASE since), *mapped* (its addresses lie in the memory table) and
 * *enabled* (SET_VRING_ENABLE, or VHOST_USER_F_PROTOCOL_FEATURES was not agreed to). It does not
 * wait for a kick: one that came too early was not lost, and after a reconnect none comes.
 *
 * Ring 2k is rx of queue pair k, ring 2k+1 is tx (virtio 1.3, 5.1.2).
 */
#ifndef RINGWAY_VHOST_DEVICE_H
#define RINGWAY_VHOST_DEVICE_H

#include "base/error.h"
#include "guest/memory.h"
#include "vhost/features.h"
#include "virtq/virtq.h"

#define VHOST_PAIRS_MAX 128
#define VHOST_RINGS_MAX (2 * VHOST_PAIRS_MAX)

/* Front-end's (user) addresses of a ring's parts, from SET_VRING_ADDR. */
struct vhost_ring_addr {
	uint64_t desc, avail, used;
};

struct vhost_ring {
	struct virtq vq; /* first: the datapath's part, by itself in its cache lines */
	struct vhost_ring_addr addr;
	unsigned index;
	uint16_t size, base;
	bool has_addr;
	bool started;
	bool enabled;
	bool was_enabled; /* since the session began: a ring that never was is left alone */
	int kick;	  /* eventfd, -1 if none */
};

struct vhost_device;

/*
 * What the owner of a device (a port) is told, on the control thread, after the fact.
 */
struct vhost_device_hooks {
	/* `ring` began or ceased to process or drain, or has another kick descriptor. */
	void (*ring_changed)(struct vhost_device *dev, struct vhost_ring *ring);
};

struct vhost_device {
	const struct vhost_device_hooks *hooks;
	uint64_t offered;	    /* features offered at the next negotiation */
	uint64_t features;	    /* agreed */
	uint64_t protocol_features; /* agreed */
	uint8_t status;		    /* virtio status byte, from SET_STATUS */
	uint16_t mtu;		    /* the port's, or the front-end's by NET_SET_MTU; 0: no limit */
	struct guest_memory *mem;   /* NULL until a table came */
	unsigned rings;		    /* one more than the highest index that exists */
	struct vhost_ring
		*ring[VHOST_RINGS_MAX]; /* made at first mention, kept until the end; written
					   with rcu_publish(), for workers that pick rx rings */
};

int device_init(struct vhost_device *dev, const struct vhost_device_hooks *hooks);
/* Stops all rings; they are freed after a grace period. */
void device_destroy(struct vhost_device *dev);

/* Ends a session: rings stopped, descriptors closed, memory unmapped, features forgotten. */
void device_reset(struct vhost_device *dev);

/*
 * Each of these is one message of the protocol. 0 or a negative errno with `err` filled; the device
 * is unchanged by a request that failed. `fd`s are taken over on success only.
 */
int device_set_features(struct vhost_device *dev, uint64_t features, struct error *err);
int device_set_memory(struct vhost_device *dev, struct guest_mapping *const *mappings, unsigned n,
		      struct error *err);
int device_add_region(struct vhost_device *dev, struct guest_mapping *mapping, struct error *err);
int device_del_region(struct vhost_device *dev, const struct guest_region_desc *desc,
		      struct error *err);
int device_set_size(struct vhost_device *dev, unsigned index, uint32_t size, struct error *err);
int device_set_addr(struct vhost_device *dev, unsigned index, const struct vhost_ring_addr *addr,
		    struct error *err);
int device_set_base(struct vhost_device *dev, unsigned index, uint32_t base, struct error *err);
int device_get_base(struct vhost_device *dev, unsigned index, uint32_t *ret_base,
		    struct error *err);
int device_set_kick(struct vhost_device *dev, unsigned index, int fd, struct error *err);
int device_set_call(struct vhost_device *dev, unsigned index, int fd, struct error *err);
int device_set_enabled(struct vhost_device *dev, unsigned index, bool enabled, struct error *err);

/* Queue pairs of which at least one ring processes. */
unsigned device_pairs_up(const struct vhost_device *dev);

#endif
