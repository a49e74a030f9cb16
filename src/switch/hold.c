// SPDX-License-Identifier: Apache-2.0
/*
 * Hold: two private batches per queue, the newer one in use only while the older one is.
 *
 * A held frame looks like any other: its first bytes in a snapshot, the rest in one span, which
 * points into an arena behind the batch. So a port's egress takes it without knowing. Frames are
 * appended in the order in which they were refused and tried again in that order; nothing is moved
 * until all of a batch are gone. Whoever holds one batch has room for any that is collected; only
 * pages that are written to take memory.
 *
 * A port may be removed, and its index and even its memory used again, while a frame waits for it:
 * a port is known by its serial number, which is looked at before anything else.
 */
#include "switch/hold.h"

#include <stdlib.h>

#include "base/rcu.h"
#include "guest/access.h"
#include "policy/full.h"
#include "policy/share.h"

#define ARENA_BYTES ((size_t)BATCH_BYTES + FRAME_LEN_MAX)

struct held {
	frame_set waiting;
	uint64_t moved;	   /* when one of them, or a part of it, was delivered last; in cycles */
	size_t arena_used; /* bytes */
	struct {
		uint16_t index;
		uint64_t serial;
		uint64_t since; /* when it was refused */
	} dest[BATCH_FRAMES];
	struct batch batch;
	uint8_t arena[ARENA_BYTES] cache_aligned;
};

struct hold {
	unsigned first; /* the older one */
	struct held held[FULL_BATCHES];
};

static struct held *older(struct hold *hold)
{
	return &hold->held[hold->first];
}

static struct held *newer(struct hold *hold)
{
	return &hold->held[!hold->first];
}

static struct hold *hold_new(void)
{
	struct hold *hold = aligned_alloc(CACHE_LINE, sizeof(struct hold));

	if (hold)
		hold->first = hold->held[0].waiting = hold->held[1].waiting = 0;
	return hold;
}

bool hold_empty(const struct port_queue *queue)
{
	return !queue->hold || !older(queue->hold)->waiting;
}

unsigned hold_frames(const struct port_queue *queue)
{
	const struct hold *hold = rcu_read(queue->hold);
	unsigned n = 0;

	for (unsigned i = 0; hold && i < FULL_BATCHES; i++)
		n += (unsigned)__builtin_popcount(load_relaxed(&hold->held[i].waiting));
	return n;
}

/* Those that wait for the port with this number. */
static frame_set frames_for(const struct held *held, uint64_t serial)
{
	frame_set set = 0;
	unsigned i;

	batch_for_each (i, held->waiting) {
		if (held->dest[i].serial == serial)
			set |= 1u << i;
	}
	return set;
}

bool hold_has(const struct port_queue *queue, const struct port *dest)
{
	return !hold_empty(queue) && (frames_for(older(queue->hold), dest->serial) ||
				      frames_for(newer(queue->hold), dest->serial));
}

/* Copies what is not in the snapshot; the sender may write to it meanwhile, to its own harm. */
static void copy_rest(struct held *held, struct frame *to, const struct batch *b,
		      const struct frame *from)
{
	uint32_t missing = from->len - from->head_len, copied = 0;
	uintptr_t at = (uintptr_t)held->arena + held->arena_used;

	for (unsigned i = 0; i < from->spans; i++) {
		const struct span *span = &b->span[from->span + i];
		uint32_t n = MIN(span->len, missing - copied);

		guest_copy_in((void *)(at + copied), span->at, n);
		copied += n;
	}
	to->len = from->head_len + copied;
	to->span = (uint16_t)held->batch.spans;
	to->spans = copied ? 1 : 0;
	if (copied)
		held->batch.span[held->batch.spans++] = (struct span){ at, copied };
	held->arena_used += copied;
}

static bool fits(const struct held *held, const struct frame *f)
{
	if (!held->waiting)
		return true;
	return held->batch.n < BATCH_FRAMES &&
	       f->len - f->head_len <= ARENA_BYTES - held->arena_used;
}

/* Behind all that is held already; NULL: there is no room. */
static struct held *find_room(struct hold *hold, const struct frame *f, uint64_t now)
{
	struct held *held = older(hold);

	if (newer(hold)->waiting || !fits(held, f))
		held = newer(hold);
	if (!fits(held, f))
		return NULL;
	if (!held->waiting) {
		held->moved = now;
		held->arena_used = 0;
		batch_begin(&held->batch);
	}
	return held;
}

static void copy_frame(struct held *held, const struct batch *b, unsigned number,
		       const struct port *dest, uint64_t now)
{
	const struct frame *from = &b->frame[number];
	size_t offset = (size_t)(from->head - b->snapshot[number]);
	unsigned slot = held->batch.n;
	struct frame *to = &held->batch.frame[slot];

	*to = *from;
	to->head = held->batch.snapshot[slot] + offset;
	memcpy(to->head, from->head, from->head_len);
	copy_rest(held, to, b, from);
	held->dest[slot].index = dest->index;
	held->dest[slot].serial = dest->serial;
	held->dest[slot].since = now;
	store_relaxed(&held->waiting, held->waiting | 1u << slot);
	held->batch.bytes += to->len;
	held->batch.n++;
}

/* A frame's segments are told for the one port that did not take them all. */
static void drop(struct port *dest, struct batch *b, frame_set set, enum drop reason)
{
	unsigned i;

	batch_for_each (i, set)
		b->frame[i].segments = 0;
	port_egress_drop(dest, reason, (unsigned)__builtin_popcount(set));
}

void hold_none(struct port *dest, struct batch *b, frame_set set)
{
	drop(dest, b, set, DROP_FULL);
}

void hold_add(struct port_queue *queue, struct port *dest, struct batch *b, frame_set set,
	      uint64_t now)
{
	frame_set lost = 0;
	unsigned i;

	if (!queue->hold)
		rcu_publish(queue->hold, hold_new());
	if (!queue->hold) {
		drop(dest, b, set, DROP_NO_MEMORY);
		return;
	}
	batch_for_each (i, set) {
		struct held *held = find_room(queue->hold, &b->frame[i], now);

		if (held)
			copy_frame(held, b, i, dest, now);
		else
			lost |= 1u << i;
		b->frame[i].segments = 0;
	}
	drop(dest, b, lost, DROP_FULL);
}

static struct port *find_dest(struct vswitch *sw, const struct held *held, unsigned slot)
{
	struct port *port = rcu_read(sw->ports[held->dest[slot].index]);

	return port && port->serial == held->dest[slot].serial ? port : NULL;
}

/* Of frames that wait for the rest of theirs. */
static unsigned segments_out(const struct held *held)
{
	unsigned n = 0, i;

	batch_for_each (i, held->waiting)
		n += held->batch.frame[i].segments;
	return n;
}

/* Delivers what there is room for, but nothing that has others before it; returns the rest. */
static frame_set deliver(struct vswitch *sw, struct held *held, const struct held *before,
			 struct virtq_calls *calls)
{
	frame_set todo = held->waiting, left = 0;

	while (todo) {
		unsigned slot = (unsigned)__builtin_ctz(todo);
		uint64_t serial = held->dest[slot].serial;
		frame_set set = frames_for(held, serial);
		struct port *port = find_dest(sw, held, slot);

		if (before && frames_for(before, serial))
			left |= set;
		else if (port) /* else there is nobody left to count for */
			left |= port->ops->egress(port, &held->batch, set, calls);
		todo &= ~set;
	}
	return left;
}

/* Drops what has waited for too long; returns the rest. */
static frame_set give_up(struct vswitch *sw, const struct full_state *full, const struct held *held,
			 frame_set set, uint64_t now)
{
	frame_set left = set;
	unsigned i;

	batch_for_each (i, set) {
		struct port *port;

		if (!full_enough(full, held->dest[i].since, held->moved, now, sw->per_us))
			continue;
		port = find_dest(sw, held, i);
		if (port)
			port_egress_drop(port, DROP_FULL, 1);
		left &= ~(1u << i);
	}
	return left;
}

/* True if anything moved. */
static bool retry(struct vswitch *sw, struct port_queue *queue, struct held *held,
		  const struct held *before, struct virtq_calls *calls, uint64_t now)
{
	unsigned segments = segments_out(held);
	frame_set refused = deliver(sw, held, before, calls);
	frame_set left = give_up(sw, &queue->full, held, refused, now);
	bool taken = refused != held->waiting || segments_out(held) != segments;

	store_relaxed(&held->waiting, left);
	if (taken)
		held->moved = now;
	queue->debt += share_more(held->batch.segments, held->batch.summed, 0, held->batch.pieces);
	held->batch.segments = held->batch.summed = held->batch.pieces = 0;
	return taken || left != refused;
}

bool hold_retry(struct vswitch *sw, struct port_queue *queue, struct virtq_calls *calls,
		uint64_t now)
{
	struct hold *hold = queue->hold;
	bool moved;

	if (hold_empty(queue))
		return false;
	moved = retry(sw, queue, older(hold), NULL, calls, now);
	if (newer(hold)->waiting)
		moved |= retry(sw, queue, newer(hold), older(hold), calls, now);
	if (!older(hold)->waiting && newer(hold)->waiting)
		hold->first = !hold->first;
	full_holds(&queue->full, !!older(hold)->waiting + !!newer(hold)->waiting, now, sw->per_us);
	return moved;
}
