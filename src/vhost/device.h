/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A virtio-net device as a vhost-user front-end configures it: features, memory, rings.
 *
 * It belongs to a port and outlives the sessions that configure it, one at a time. Control thread
 * only; what the datapath needs of it is in the rings (virtq/virtq.h), which the device starts
 * and stops. A ring processes when it is *started* (a SET_VRING_KICK came, with or without
 * a descriptor, and no GET_VRING_BASE since), *mapped* (its addresses lie in the memory table) and
 * *enabled* (SET_VRING_ENABLE, or VHOST_USER_F_PROTOCOL_FEATURES was not agreed to). It does not
 * wait for a kick: one that came too early was not lost, and after a reconnect none comes.
 *
 * Ring 2k is rx of queue pair k, ring 2k+1 is tx (virtio 1.3, 5.1.2).
 */
#ifndef RINGWAY_VHOST_DEVICE_H
#define RINGWAY_VHOST_DEVICE_H

#include "base/allowance.h"
#include "base/error.h"
#include "base/refusal.h"
#include "guest/memory.h"
#include "vhost/features.h"
#include "vhost/foreign.h"
#include "virtq/virtq.h"

#define VHOST_PAIRS_MAX 128
#define VHOST_RINGS_MAX (2 * VHOST_PAIRS_MAX)
#define DEVICE_MTU_MIN	68 /* virtio 1.3, 5.1.4.1 */

/* What a front-end may take of what all of them share, if nothing else is said. */
#define DEVICE_MEMORY_MAX_GIB 1024u /* a 64th of the address space that there is for guests */
#define DEVICE_MESSAGES_MAX   1000u /* a second */

/* Call descriptors that wait to be closed: QEMU may replace all of them at once. */
#define VHOST_CALLS_RETIRED_MAX (4 * VHOST_RINGS_MAX)

/* Front-end's (user) addresses of a ring's parts, from SET_VRING_ADDR. */
struct vhost_ring_addr {
	uint64_t desc, avail, used;
};

struct vhost_ring {
	struct virtq vq; /* first: the datapath's part, by itself in its cache lines */
	struct rcu_item rcu;
	struct vhost_ring_addr addr;
	unsigned index;
	uint16_t size;
	uint32_t base;	       /* as virtq_stop() has it */
	uint32_t refused_size; /* too large for the owner's size_max; 0: none */
	bool has_addr;
	bool started;
	bool enabled; /* by SET_VRING_ENABLE; ring_enabled() is the whole truth */
	int kick;     /* eventfd, -1 if none */

	/* What the owner was told last, and whether it has to look though both are the same. */
	enum virtq_state told_state;
	int told_kick;
	bool news;
};

struct vhost_device;

/*
 * What the owner of a device (a port) is told, on the control thread: `ring` began or ceased to
 * process or drain, began anew, or has another kick descriptor: look at virtq_state() and
 * ring->kick, and have its worker look at it: its kicks may be off, whatever that believes. Also
 * when one that processes has another call descriptor: what was published before it came has
 * perhaps never been called. A kick that goes is announced in three steps: `kick` becomes -1, this
 * is called, and only then is it closed, because the front-end holds the same eventfd, which would
 * otherwise stay in an epoll set. So whoever watches the old one takes it out of there before
 * returning. It must not call back into the device.
 */
typedef void (*device_ring_changed)(struct vhost_device *dev, struct vhost_ring *ring);

/* What the owner says. */
struct vhost_device_options {
	uint64_t offered;  /* features, from the next GET_FEATURES on */
	uint16_t mtu;	   /* 0: no limit */
	uint16_t size_max; /* of a ring that a driver sets up from now on */
	bool finish_csum;  /* the guest gets no frame whose checksum is left to it */
	uint16_t memory_max_gib;
	unsigned messages_max; /* a second; 0: no limit */
};

struct vhost_device {
	device_ring_changed ring_changed; /* NULL: nobody wants to know */
	struct vhost_device_options options;
	uint64_t told;		    /* features that were offered in this session */
	uint64_t features;	    /* agreed; meaningful once `agreed` */
	uint64_t refused;	    /* what the last SET_FEATURES asked for in vain; see there */
	uint64_t protocol_features; /* agreed */
	bool agreed;		    /* a SET_FEATURES was accepted in this session */
	uint8_t status;		    /* virtio status byte, from SET_STATUS */
	uint16_t front_mtu;	    /* the front-end's, by NET_SET_MTU, in this session; 0: none */
	struct guest_memory *mem;   /* NULL until a table came */
	struct allowance messages;  /* of all sessions; theirs (vhost/session.c) */
	unsigned rings;		    /* one more than the highest index that exists */
	struct foreign *foreign;    /* descriptors of its front-ends that do not close */
	uint64_t refusals[REFUSAL_COUNT];	  /* ever, of whatever session */
	struct virtq_callee callee;		  /* retired: VHOST_CALLS_RETIRED_MAX */
	struct vhost_ring *ring[VHOST_RINGS_MAX]; /* made at first mention, kept until the end */
};

/* Offers features_offered(), with the limits above. Allocates nothing. */
void device_init(struct vhost_device *dev, device_ring_changed ring_changed);
/*
 * At any time. Running rings take over the MTU and finish_csum at once. Features that this session
 * was offered stay on offer in it: its front-end has told its guest.
 */
void device_set_options(struct vhost_device *dev, const struct vhost_device_options *options);
/* Stops all rings, of which the owner is told; they are freed after a grace period. */
void device_destroy(struct vhost_device *dev);

/* Ends a session: rings stopped, descriptors closed, memory unmapped, features forgotten. */
void device_reset(struct vhost_device *dev);

/*
 * Each of these is one message of the protocol. 0 or a negative errno with `err` filled; the device
 * is unchanged by a request that failed. `fd`s are taken over on success only, mappings never (the
 * device takes references of its own). refusal_of() has a name for each errno.
 */

/* What to offer, which is noted. */
uint64_t device_offer(struct vhost_device *dev);
/*
 * Accepted each time it comes: firmware, kernel and a DPDK driver each negotiate. Running rings go
 * on with the new features. ENOTSUP: bits that were not offered, which `refused` keeps: a front-end
 * that wants no answer believes that they were agreed to, so no ring starts until the next
 * SET_FEATURES.
 */
int device_set_features(struct vhost_device *dev, uint64_t features, struct error *err);
int device_set_protocol_features(struct vhost_device *dev, uint64_t features, struct error *err);
/* All rings move to the new table at once; one that is not in it stops until a table has it. */
int device_set_memory(struct vhost_device *dev, struct guest_mapping *const *mappings, unsigned n,
		      struct error *err);
/*
 * A region is known by guest-physical address, user address and size. One that is there is mapped
 * anew, and one that is not there need not be removed: QEMU 7.2 says both once for each queue pair.
 */
int device_add_region(struct vhost_device *dev, struct guest_mapping *mapping, struct error *err);
int device_del_region(struct vhost_device *dev, const struct guest_region_desc *desc,
		      struct error *err);
/*
 * EFBIG: larger than the owner allows; the ring has no size then, and refused_size tells why. Of a
 * running ring: a new size stops it until the next SET_VRING_KICK, because who sets a ring up
 * from the first message on has forgotten the old one; a new base or address restarts it there.
 */
int device_set_size(struct vhost_device *dev, unsigned index, uint32_t size, struct error *err);
int device_set_base(struct vhost_device *dev, unsigned index, uint32_t base, struct error *err);
int device_set_addr(struct vhost_device *dev, unsigned index, const struct vhost_ring_addr *addr,
		    struct error *err);
/* Stops the ring and closes its kick descriptor. */
int device_get_base(struct vhost_device *dev, unsigned index, uint32_t *ret_base,
		    struct error *err);
int device_set_kick(struct vhost_device *dev, unsigned index, int fd, struct error *err);
int device_set_call(struct vhost_device *dev, unsigned index, int fd, struct error *err);
/* Rings send no errors: the descriptor is only checked, and closed. */
int device_set_err(struct vhost_device *dev, unsigned index, int fd, struct error *err);
int device_set_enabled(struct vhost_device *dev, unsigned index, bool enabled, struct error *err);
/*
 * 0 is a reset of the virtio device: rings stop. Memory, features and descriptors stay: QEMU sends
 * only the difference of its memory afterwards, and features anew. FEATURES_OK does not stick after
 * a SET_FEATURES that was refused (virtio 1.3, 2.1.2).
 */
int device_set_status(struct vhost_device *dev, uint64_t status, struct error *err);
/* As the driver set it, and DEVICE_NEEDS_RESET if a ring is broken. */
uint8_t device_status(const struct vhost_device *dev);
/* The lowest ring that the guest has made senseless, or -1. */
int device_broken_ring(const struct vhost_device *dev);
int device_set_front_mtu(struct vhost_device *dev, uint64_t mtu, struct error *err);

/* Bytes of guest memory that are mapped. */
uint64_t device_memory(const struct vhost_device *dev);

/* The smaller of the owner's limit and the front-end's; 0: no limit. */
uint16_t device_mtu(const struct vhost_device *dev);

/* Queue pairs of which at least one ring processes. */
unsigned device_pairs_up(const struct vhost_device *dev);

#endif
