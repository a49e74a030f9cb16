/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A virtqueue seen from the device.
 *
 * One lock per ring, and one rule: whoever touches the ring or, through it, the guest's memory
 * holds the lock. A worker holds a tx ring's from virtq_collect() to virtq_complete(), and within
 * that an rx ring's for one virtq_deliver(): tx before rx, one of each, so it cannot deadlock.
 * Control takes it for a moment to start, stop or move the ring, and so needs no grace period
 * to unmap memory. Uncontended it costs a few cycles per batch.
 *
 * The split ring is virtio 1.3, 2.7, the packed one 2.8; clause numbers in the code refer to that
 * document.
 */
#ifndef RINGWAY_VIRTQ_VIRTQ_H
#define RINGWAY_VIRTQ_VIRTQ_H

#include <pthread.h>

#include "base/drop.h"
#include "base/rcu.h"
#include "frame/batch.h"
#include "guest/memory.h"

struct virtq_calls; /* virtq/notify.h: rings that were published to are noted there */

#define VIRTQ_SIZE_MAX 32768 /* 2.7: the largest split ring */

/* Who is called by a ring: a front-end, the same of all rings of its device. All atomic. */
struct virtq_callee {
	uint32_t retired;    /* call descriptors that were replaced and are not closed yet */
	uint64_t paid_until; /* for calls that cost too much: base/allowance.h, by clock_ns() */
};

/* An eventfd of the front-end's, replaced as a whole and freed after a grace period. */
struct virtq_call {
	struct rcu_item rcu;
	struct virtq_callee *callee;
	int fd;
};

/*
 * Where the three parts of a ring are; all 0 when they are not mapped. Packed: the ring, and the
 * event suppression of driver and device.
 */
struct virtq_addr {
	uintptr_t desc, avail, used;
};

enum virtq_state {
	VIRTQ_STOPPED,
	VIRTQ_DISABLED, /* was not enabled since its start */
	VIRTQ_DRAINING, /* was, and is not now: tx returns chains and drops what is in them */
	VIRTQ_RUNNING,
	VIRTQ_BROKEN, /* available index or base made no sense; only a restart mends it */
};

/* What control tells a ring when it starts. */
struct virtq_setup {
	const struct guest_memory *mem;
	struct virtq_addr addr;
	uint16_t size;	   /* at most VIRTQ_SIZE_MAX; of a split ring a power of 2 */
	uint32_t base;	   /* the next available entry to take: virtq_stop() */
	uint64_t features; /* agreed; the header length follows from them */
	uint16_t mtu;	   /* rx: longest packet without segmentation offload; 0: no limit */
};

struct virtq {
	pthread_mutex_t lock;

	/* Set by control with the lock held. */
	const struct guest_memory *mem;
	struct virtq_addr addr;
	uint64_t features;
	uint16_t size;
	uint16_t mtu;
	uint8_t hdr_len;
	bool packed, event_idx, indirect, mergeable;
	bool enabled, was_enabled;
	bool lost; /* packed: it began at a slot that was used already, so its base is wrong */
	enum virtq_state state;
	struct virtq_call *call; /* RCU; NULL: the driver is never called */

	/* The holder's. */
	uint16_t avail_next; /* the next available entry to take; packed: slot, also to be used */
	uint16_t round;	     /* packed: the flags of what is used there: packed.h */
	uint16_t avail_seen; /* avail->idx when last read */
	uint16_t avail_most; /* entries that were ever there at once */
	uint16_t used_next;  /* split: the next used entry to write */
	uint32_t used_slots; /* packed: that were ever passed, modulo 2^32 */
	uint32_t called_at;  /* used_next, or used_slots, when calls were last considered */
	bool called; /* called_at means something: the first look after a start always calls */
	bool kicks_on;
	bool call_pending;	 /* in some worker's list of rings to look at */
	struct virtq *call_next; /* of that list, which is that worker's */

	/* The holder's too, read by control at any time. */
	struct frame_counters stats; /* tx: at ingress; rx: at egress */
	uint64_t segments;	     /* rx: made of some frames, which count as one each */
	uint64_t calls;		     /* eventfd writes */
	uint64_t breaks;	     /* times that it became broken */

	struct virtq_callee *callee;
} cache_aligned;

/* `callee`, perhaps shared with other rings, lives as long. */
void virtq_init(struct virtq *vq, struct virtq_callee *callee);
void virtq_destroy(struct virtq *vq);

/*
 * Control thread; each takes the lock. A split ring that starts reads its used index from the
 * guest. One that is started already goes on where it is, whatever `base` says, in the new setup.
 * Kicks are off afterwards: its worker wants to be told.
 */
void virtq_start(struct virtq *vq, const struct virtq_setup *setup);
/* Is it started, with this setup but for the base? Without the lock: only control writes these. */
bool virtq_runs_as(const struct virtq *vq, const struct virtq_setup *setup);
/*
 * Returns the next available entry that was not taken, for VHOST_USER_GET_VRING_BASE. Packed: its
 * slot, in bit 15 the wrap counter there, and the same of the next used slot in the upper half.
 */
uint32_t virtq_stop(struct virtq *vq);
/* Disabled: rx takes no buffers; tx returns its chains and counts the frames as dropped. */
void virtq_set_enabled(struct virtq *vq, bool enabled);
/*
 * Another call descriptor, -1: none; the one before is closed after a grace period. 0 and `fd` is
 * the ring's, or -ENOMEM (never for -1) and it is not.
 */
int virtq_set_call(struct virtq *vq, int fd);

/*
 * tx, the queue's worker. Takes up to 32 chains that are there and makes frames of them; malformed
 * chains and bad frames are counted. If it returns true, chains were taken (perhaps none with a
 * frame) and the lock is held until virtq_complete(), which returns them all to the driver.
 */
bool virtq_collect(struct virtq *vq, struct batch *b);
void virtq_complete(struct virtq *vq, const struct batch *b, struct virtq_calls *calls);

/*
 * rx, any worker. Copies the frames of `set` into the driver's buffers, in order, until the ring is
 * full; what cannot be delivered for another reason is counted as dropped. Returns the frames for
 * which there was no room: the first that did not fit, perhaps after some of its segments (which
 * its `segments` says), and all behind it.
 */
frame_set virtq_deliver(struct virtq *vq, struct batch *b, frame_set set,
			struct virtq_calls *calls);

/* Takes the lock. Control. */
enum virtq_state virtq_state(struct virtq *vq);

/* Is there something to do for a worker, whose tx ring this is? */
static inline bool virtq_active(enum virtq_state state)
{
	return state == VIRTQ_RUNNING || state == VIRTQ_DRAINING;
}

/* Are there available entries? Takes the lock, reads one index. */
bool virtq_ready(struct virtq *vq);
/* Asks for kicks, then looks again: true if entries are already there (kicks stay on). */
bool virtq_kicks_on(struct virtq *vq);
void virtq_kicks_off(struct virtq *vq);

#endif
