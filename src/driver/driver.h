/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A userspace virtio-net driver behind a vhost-user front-end: a guest without a virtual machine.
 *
 * For benchmarks, for tests of the device, and to try a switch by hand. It follows the
 * specification and checks that the device does: used entries, lengths, num_buffers. One thread
 * at a time per driver; the rings of one driver may be run by different threads once it is open.
 *
 * Ring 2k is rx of queue pair k, ring 2k+1 is tx (virtio 1.3, 5.1.2), both seen from the guest.
 */
#ifndef RINGWAY_DRIVER_DRIVER_H
#define RINGWAY_DRIVER_DRIVER_H

#include <linux/virtio_config.h>
#include <linux/virtio_net.h>

#include "driver/frontend.h"

#define DRIVER_PAIRS_MAX 128
#define DRIVER_RX(pair)	 (2u * (pair))
#define DRIVER_TX(pair)	 (2u * (pair) + 1)

/* vhost-user protocol features. */
#define DRIVER_PROTOCOL_KNOWN                                                   \
	(BIT(VHOST_USER_PROTOCOL_F_MQ) | BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK) | \
	 BIT(VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS) | BIT(VHOST_USER_PROTOCOL_F_STATUS))

/* Ways in which real front-ends and guests differ. */
enum {
	/* SET_VRING_ENABLE for all rings before features and memory, as QEMU does. */
	DRIVER_ENABLE_FIRST = 1 << 0,
	/* Each pair's tx ring before its rx ring, in all that is said about rings. */
	DRIVER_TX_FIRST = 1 << 1,
	/* ADD_MEM_REG in place of SET_MEM_TABLE, if the device agrees to memory slots. */
	DRIVER_MEM_SLOTS = 1 << 2,
	/* Kicks or calls without a descriptor. */
	DRIVER_NO_KICK_FD = 1 << 3,
	DRIVER_NO_CALL_FD = 1 << 4,
	/* Rings are made, but nothing is said about them: see driver_ring_start(), _enable(). */
	DRIVER_RINGS_LATER = 1 << 5,
	/* Chains run through descriptors in random order. */
	DRIVER_SHUFFLE = 1 << 6,
	/* No rx buffers are posted. */
	DRIVER_NO_RX_BUFFERS = 1 << 7,
};

/* How a buffer is cut into descriptors: `len[i]` bytes each, the last takes what remains. */
struct driver_shape {
	unsigned n;    /* 0: one descriptor */
	bool indirect; /* in a table of its own */
	uint32_t len[DRIVER_PIECES_MAX];
};

struct driver_config {
	const char *connect, *listen; /* path of the socket, or both NULL: `fd` */
	int fd;			      /* a connected socket, taken over */
	int timeout_ms;		      /* of each step of the handshake; 0: 5000 */
	uint64_t features;  /* agreed to as far as offered; 0: driver_features_default() */
	uint64_t protocol;  /* vhost-user protocol features, same; 0: DRIVER_PROTOCOL_KNOWN */
	unsigned pairs;	    /* 0: 1 */
	unsigned ring_size; /* 0: 256 */
	unsigned regions;   /* of memory; 0: 1 */
	uint64_t gpa;	    /* where guest-physical memory begins */
	size_t extra;	    /* bytes of guest memory for driver_memory_alloc() by the caller */
	uint32_t rx_buffer; /* bytes of each rx buffer, header included; 0: 2048 */
	uint32_t tx_buffer; /* longest header and frame; 0: 2048 */
	struct driver_shape rx_shape; /* of the rx buffers */
	unsigned quirks;
	enum driver_kicks kicks;
};

/* Buffers of one ring that are not in flight. */
struct driver_pool {
	void **free;
	unsigned n;
};

struct driver {
	struct driver_config config; /* with defaults filled in; `listen` and `connect` are stale */
	struct frontend fe;
	struct driver_memory mem;
	unsigned hdr_len; /* 10 or 12 bytes (5.1.6.1) */
	bool mergeable;
	unsigned rings;
	struct driver_ring *ring;
	struct driver_pool *pool; /* one for each ring */
	size_t rx_stride, tx_stride;
};

/* A received frame. */
struct driver_frame {
	struct virtio_net_hdr_mrg_rxbuf hdr;
	uint32_t len;	   /* of the frame, without the header */
	unsigned buffers;  /* that it took */
	uint64_t used_len; /* sum of used.len */
};

/* VERSION_1, mergeable buffers, event index, indirect descriptors, any layout, several queues. */
uint64_t driver_features_default(void);

/*
 * Connects, shakes hands, starts and enables the rings and posts rx buffers. 0 with *ret filled, or
 * -errno with `err` filled.
 */
int driver_open(const struct driver_config *config, struct driver **ret, struct error *err);
void driver_close(struct driver *d); /* NULL is allowed */

/* Single steps, for tests and for DRIVER_RINGS_LATER. */
int driver_ring_start(struct driver *d, unsigned index, uint32_t base, struct error *err);
int driver_ring_enable(struct driver *d, unsigned index, bool on, struct error *err);
/* GET_VRING_BASE. */
int driver_ring_stop(struct driver *d, unsigned index, uint32_t *ret_base, struct error *err);

/*
 * Makes header and frame available as one chain, not yet published (driver_flush()). `shape` NULL:
 * one descriptor; `hdr` NULL: nothing to offload. 0, -ENOSPC (ring full), -EMSGSIZE.
 */
int driver_send(struct driver *d, unsigned pair, const struct virtio_net_hdr *hdr,
		const void *frame, uint32_t len, const struct driver_shape *shape);
/* Publishes what was sent or posted, and kicks if the device asks for it. */
void driver_flush(struct driver *d, unsigned index);
/* Takes returned tx buffers back; how many. */
unsigned driver_reclaim(struct driver *d, unsigned pair);

/* Makes all free rx buffers of the pair available and publishes them. */
void driver_post(struct driver *d, unsigned pair);
/*
 * Takes one frame: 1, 0 (none there), or -EPROTO: the device broke the rules, see
 * driver_broken(). The buffers are posted again, in handfuls, by this function; at once by
 * driver_post().
 */
int driver_receive(struct driver *d, unsigned pair, void *to, size_t room,
		   struct driver_frame *ret);
/* The same, waiting for a call at most `timeout_ms` (0 then). */
int driver_receive_wait(struct driver *d, unsigned pair, void *to, size_t room,
			struct driver_frame *ret, int timeout_ms);

/* What the device did wrong on any ring, or NULL. */
const char *driver_broken(const struct driver *d);

#endif
