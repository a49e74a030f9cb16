/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A virtqueue seen from the driver (virtio 1.3, 2.7; packed ones in ring_packed.h), written apart
 * from src/virtq: the two share no code, so that a misreading of the specification cannot cancel
 * itself out.
 *
 * The driver believes nothing that the device can write. Which descriptors are in flight, how they
 * are chained and how much may be written to them is kept in private slots; what the used ring says
 * is read once and checked against those, and a device that lies breaks the ring, not the driver.
 *
 * The short functions are inline because a benchmark's generator must cost less than what it
 * measures. One thread at a time.
 */
#ifndef RINGWAY_DRIVER_RING_H
#define RINGWAY_DRIVER_RING_H

#include <linux/virtio_ring.h>
#include <string.h>

#include "base/atomic.h"
#include "base/base.h"
#include "driver/memory.h"

#define DRIVER_RING_MAX	  32768
#define DRIVER_PIECES_MAX 256 /* descriptors of one chain that the driver makes */

enum driver_kicks {
	DRIVER_KICK_AS_ASKED, /* as used->flags or the event index says (2.7.9.2, 2.7.10.2) */
	DRIVER_KICK_ALWAYS,
	DRIVER_KICK_NEVER,
};

/* A stretch of guest memory, which becomes one descriptor. */
struct driver_piece {
	void *at;
	uint32_t len;
};

/* What came back: the token given with the chain, and used.len. */
struct driver_done {
	void *token;
	uint32_t len;
};

/* The private record of a descriptor. */
struct driver_slot {
	void *token;
	uint32_t capacity; /* bytes that the device may write into the chain */
	uint16_t count;	   /* head of a chain in flight: its descriptors in the ring; else 0 */
	uint16_t next;	   /* split: descriptor that follows in the chain */
};

/* Packed: a slot, and the wrap counter there. */
struct driver_place {
	unsigned slot, wrap;
};

/* With in-order: what one used entry tells of, until all of it is taken. */
struct driver_batch {
	bool open;
	uint16_t last; /* the last of its chains */
	uint32_t len;  /* written to that; all others are used completely */
};

struct driver_ring {
	bool packed;
	bool in_order; /* chains come back in their order, and one used entry may tell of many */
	struct vring_desc *desc;
	struct vring_avail *avail;
	struct vring_used *used;
	uint16_t *used_event, *avail_event;
	struct vring_desc *tables; /* DRIVER_PIECES_MAX for each descriptor; NULL: no indirect */
	uint64_t to_gpa;	   /* own address + to_gpa = guest-physical */

	struct vring_packed_desc *packed_desc;
	struct vring_packed_desc_event *driver_event, *device_event;
	struct vring_packed_desc *first; /* of those that are not published, and its flags */
	uint16_t first_flags;
	struct driver_place add, take;
	uint16_t room;			    /* free slots */
	uint16_t slots_added, slots_kicked; /* modulo 2^16 */

	struct driver_slot *slot;
	uint16_t *free; /* a queue: the oldest free descriptor, or id, is used first */
	uint16_t free_first, free_count;

	uint16_t size, mask; /* the mask is of the next power of two */
	uint16_t avail_next; /* next available entry to write; packed: chains made so far */
	uint16_t published;  /* what avail->idx says, or would say */
	uint16_t kicked_at;  /* `published` when a kick was last considered */
	uint16_t used_next;  /* next used entry to read; packed: chains returned so far */
	struct driver_batch batch;
	bool event_idx;
	enum driver_kicks kicks;
	int kick, call;	    /* eventfds, -1: none; the ring closes them */
	const char *broken; /* what the device did wrong; NULL while it behaves */
	uint64_t kicked, frames;
};

/* Where a device begins in a new ring, for SET_VRING_BASE: packed: both wrap counters are 1. */
static inline uint32_t ring_base(const struct driver_ring *r)
{
	return r->packed ? 0x80008000 : 0;
}

/* Bytes of guest memory that a ring takes. */
size_t ring_bytes(unsigned size, bool indirect);

/*
 * Makes an empty ring in `mem`. `size`, up to DRIVER_RING_MAX, is a power of two unless the ring is
 * packed. `seed` not 0 shuffles the descriptors, so that chains do not run through neighbours, or
 * the ids. 0 or -errno.
 */
int ring_init(struct driver_ring *r, struct driver_memory *mem, unsigned size, bool packed,
	      bool event_idx, bool indirect, uint32_t seed);
void ring_destroy(struct driver_ring *r);

/*
 * Makes a chain of `out` device-readable and then `in` device-writable pieces available, in a table
 * of its own if `indirect`. 0, or -ENOSPC if the ring has no room. Nothing is published yet.
 */
int ring_add(struct driver_ring *r, const struct driver_piece *pieces, unsigned out, unsigned in,
	     bool indirect, void *token);

/* The ring is of no use any more; remembers the first reason. */
void ring_break(struct driver_ring *r, const char *reason);

/* Writes the kick's eventfd. */
void ring_kick(struct driver_ring *r);

/* Takes one chain's descriptors back into the queue of free ones. */
void ring_free_chain(struct driver_ring *r, uint16_t head);

/* As ring_take(), with in-order. */
unsigned ring_take_in_order(struct driver_ring *r, struct driver_done *done, unsigned max);

static inline uint64_t ring_gpa(const struct driver_ring *r, const void *at)
{
	return (uint64_t)(uintptr_t)at + r->to_gpa;
}

static inline uint16_t ring_room(const struct driver_ring *r)
{
	return r->packed ? r->room : r->free_count;
}

/* Chains that the device has and has not returned. */
static inline uint16_t ring_outstanding(const struct driver_ring *r)
{
	return (uint16_t)(r->published - r->used_next);
}

static inline uint16_t ring_pop_free(struct driver_ring *r)
{
	uint16_t i = r->free[r->free_first++ & r->mask];

	r->free_count--;
	return i;
}

static inline void ring_push_free(struct driver_ring *r, uint16_t i)
{
	r->free[(uint16_t)(r->free_first + r->free_count) & r->mask] = i;
	r->free_count++;
}

/* May the device say that of the chain `id`? It breaks the ring if not. */
static inline bool ring_believes(struct driver_ring *r, uint32_t id, uint32_t len)
{
	if (unlikely(id >= r->size || !r->slot[id].count)) {
		ring_break(r, r->packed ? "used an id that is not in flight"
					: "used a descriptor that is not in flight");
		return false;
	}
	if (unlikely(len > r->slot[id].capacity)) {
		ring_break(r, "used more bytes than were writable");
		return false;
	}
	return true;
}

#include "driver/ring_packed.h"

/* Fetches the descriptors that the next `n` chains of one piece will be written to. */
static inline void ring_prefetch_room(const struct driver_ring *r, unsigned n)
{
	const unsigned per_line = CACHE_LINE / sizeof(struct vring_desc);

	if (r->packed)
		return; /* they follow each other: the hardware sees that */
	for (unsigned i = 0; i < n; i += per_line)
		prefetch_write(&r->desc[r->free[(uint16_t)(r->free_first + i) & r->mask]]);
}

static inline void ring_write_desc(struct vring_desc *desc, uint64_t gpa, uint32_t len,
				   uint16_t flags, uint16_t next)
{
	desc->addr = gpa;
	desc->len = len;
	desc->flags = flags;
	desc->next = next;
}

/*
 * ring_add() for `n` buffers of one piece each, whose tokens are themselves; the caller has looked
 * at ring_room(). The ring's fields are kept in registers, since every store might change them as
 * far as the compiler knows.
 */
static inline void ring_add_buffers(struct driver_ring *r, void *const *buffers, unsigned n,
				    uint32_t len, bool writable)
{
	const uint64_t rest = len | (uint64_t)(writable ? VRING_DESC_F_WRITE : 0) << 32;
	const uint32_t capacity = writable ? len : 0;
	const uint64_t to_gpa = r->to_gpa;
	const uint16_t mask = r->mask, *free = r->free;
	uint16_t *avail = r->avail->ring;
	struct vring_desc *desc = r->desc;
	struct driver_slot *slot = r->slot;
	uint16_t at = r->avail_next, from = r->free_first;

	if (r->packed) {
		packed_add_buffers(r, buffers, n, len, writable);
		return;
	}
	r->avail_next += (uint16_t)n;
	r->free_first += (uint16_t)n;
	r->free_count -= (uint16_t)n;
	for (unsigned i = 0; i < n; i++) {
		uint16_t d = free[from++ & mask];
		uint64_t words[2] = { (uint64_t)(uintptr_t)buffers[i] + to_gpa, rest };

		memcpy(&desc[d], words, sizeof(words));
		slot[d] = (struct driver_slot){ buffers[i], capacity, 1, 0 };
		avail[at++ & mask] = d;
	}
}

/* Partner: the device's acquire of avail->idx (2.7.13.3.1). */
static inline void ring_publish(struct driver_ring *r)
{
	r->published = r->avail_next;
	if (r->packed)
		packed_publish(r);
	else
		store_release(&r->avail->idx, r->published);
}

/* Does the device ask for a kick about what was published since the last look? */
static inline bool ring_kick_asked(struct driver_ring *r)
{
	uint16_t new = r->published, old = r->kicked_at;
	uint16_t slots = r->slots_added - r->slots_kicked;

	r->kicked_at = new;
	r->slots_kicked = r->slots_added;
	if (new == old || r->kicks == DRIVER_KICK_NEVER)
		return false;
	if (r->kicks == DRIVER_KICK_ALWAYS)
		return true;
	fence_store_load(); /* the index is out before the device's wish is read (2.7.13.4.1) */
	if (r->packed)
		return packed_kick_asked(r, slots);
	if (r->event_idx)
		return (uint16_t)(new - load_relaxed(r->avail_event) - 1) < (uint16_t)(new - old);
	return !(load_relaxed(&r->used->flags) & VRING_USED_F_NO_NOTIFY);
}

/* Publishes, and kicks if that is asked for. */
static inline void ring_flush(struct driver_ring *r)
{
	ring_publish(r);
	if (unlikely(ring_kick_asked(r)))
		ring_kick(r);
}

/*
 * How many chains were returned and not taken; packed: whether there are. Partner: the device's
 * release of used->idx (2.7.14).
 */
static inline uint16_t ring_pending(const struct driver_ring *r)
{
	if (r->packed)
		return r->batch.open || packed_pending(r);
	return (uint16_t)(load_acquire(&r->used->idx) - r->used_next);
}

/*
 * Takes up to `max` returned chains, in the order in which the device returned them; their
 * descriptors are free again. 0 for ever once the device has lied.
 */
static inline unsigned ring_take(struct driver_ring *r, struct driver_done *done, unsigned max)
{
	const uint16_t pending = ring_pending(r), mask = r->mask;
	const struct vring_used_elem *used = r->used->ring;
	struct driver_slot *slots = r->slot;
	uint16_t next = r->used_next;
	unsigned n;

	if (!pending || unlikely(r->broken))
		return 0;
	if (!r->packed && unlikely(pending > ring_outstanding(r))) {
		ring_break(r, "used index beyond what is in flight");
		return 0;
	}
	if (r->in_order)
		return ring_take_in_order(r, done, max);
	if (r->packed)
		return packed_take(r, done, max);
	max = MIN(max, (unsigned)pending);
	for (n = 0; n < max; n++) {
		const struct vring_used_elem *e = &used[next & mask];
		uint32_t id = load_relaxed(&e->id), len = load_relaxed(&e->len);
		struct driver_slot *slot = &slots[id & mask];

		if (!ring_believes(r, id, len))
			break;
		done[n] = (struct driver_done){ slot->token, len };
		if (likely(slot->count == 1)) {
			slot->count = 0;
			ring_push_free(r, (uint16_t)id);
		} else {
			ring_free_chain(r, (uint16_t)id);
		}
		next++;
	}
	r->used_next = next;
	return n;
}

/*
 * How many chains the device has ever returned, modulo 2^16. *ret_base (NULL: not wanted) is where
 * it goes on if it has taken no others: what GET_VRING_BASE ought to say.
 */
uint16_t ring_used(const struct driver_ring *r, uint32_t *ret_base);

/*
 * Asks for no calls. With the event index (2.7.10.1) there is no way to say so for ever: it asks
 * for one at an index far ahead, and so holds for 32768 used entries.
 */
void ring_calls_off(struct driver_ring *r);

/* Asks for a call at the next used entry; true if one is there already. */
bool ring_calls_on(struct driver_ring *r);

/*
 * Waits until chains have been returned, by a call, for at most `timeout_ms`. False if none came.
 * Leaves calls on. Without a call descriptor it looks every millisecond.
 */
bool ring_wait(struct driver_ring *r, int timeout_ms);

#endif
