// SPDX-License-Identifier: Apache-2.0
/*
 * Hold: one private batch per queue.
 *
 * A held frame looks like any other: its first bytes in a snapshot, the rest in one span, which
 * points into an arena behind the batch. So a port's egress takes it without knowing. Frames are
 * appended in the order in which they were refused and tried again in that order; nothing is moved
 * until all are gone. There is room for any batch that was collected; only pages that are written
 * to take memory.
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

struct hold {
	frame_set waiting;
	uint64_t since;	   /* when the first of them was refused; in cycles */
	uint64_t wait;	   /* how long they may wait, as it looks now */
	size_t arena_used; /* bytes */
	struct {
		uint16_t index;
		uint64_t serial;
	} dest[BATCH_FRAMES];
	struct batch batch;
	uint8_t arena[] cache_aligned;
};

static struct hold *hold_new(void)
{
	size_t size = sizeof(struct hold) + ARENA_BYTES;
	struct hold *hold =
		aligned_alloc(CACHE_LINE, (size + CACHE_LINE - 1) & ~(CACHE_LINE - 1ul));

	if (hold)
		hold->waiting = 0;
	return hold;
}

bool hold_empty(const struct port_queue *queue)
{
	return !queue->hold || !queue->hold->waiting;
}

unsigned hold_frames(const struct port_queue *queue)
{
	const struct hold *hold = rcu_read(queue->hold);

	return hold ? (unsigned)__builtin_popcount(load_relaxed(&hold->waiting)) : 0;
}

/* Copies what is not in the snapshot; the sender may write to it meanwhile, to its own harm. */
static void copy_rest(struct hold *hold, struct frame *to, const struct batch *b,
		      const struct frame *from)
{
	uint32_t missing = from->len - from->head_len, copied = 0;
	uintptr_t at = (uintptr_t)hold->arena + hold->arena_used;

	for (unsigned i = 0; i < from->spans; i++) {
		const struct span *span = &b->span[from->span + i];
		uint32_t n = MIN(span->len, missing - copied);

		guest_copy_in((void *)(at + copied), span->at, n);
		copied += n;
	}
	to->len = from->head_len + copied;
	to->span = (uint16_t)hold->batch.spans;
	to->spans = copied ? 1 : 0;
	if (copied)
		hold->batch.span[hold->batch.spans++] = (struct span){ at, copied };
	hold->arena_used += copied;
}

static bool copy_frame(struct hold *hold, const struct batch *b, unsigned number,
		       const struct port *dest)
{
	const struct frame *from = &b->frame[number];
	size_t offset = (size_t)(from->head - b->snapshot[number]);
	unsigned slot = hold->batch.n;
	struct frame *to = &hold->batch.frame[slot];

	if (slot == BATCH_FRAMES || from->len - from->head_len > ARENA_BYTES - hold->arena_used)
		return false;
	*to = *from;
	to->head = hold->batch.snapshot[slot] + offset;
	memcpy(to->head, from->head, from->head_len);
	copy_rest(hold, to, b, from);
	hold->dest[slot].index = dest->index;
	hold->dest[slot].serial = dest->serial;
	store_relaxed(&hold->waiting, hold->waiting | 1u << slot);
	hold->batch.bytes += to->len;
	hold->batch.n++;
	return true;
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

void hold_add(struct vswitch *sw, struct port_queue *queue, struct port *dest, struct batch *b,
	      frame_set set, uint64_t now)
{
	bool begins = hold_empty(queue);
	frame_set lost = 0;
	uint64_t wait = 0;
	unsigned i;

	if (begins) {
		wait = full_wait(&queue->full, now, sw->per_us);
		if (!wait) {
			drop(dest, b, set, DROP_FULL);
			return;
		}
	}
	if (!queue->hold)
		rcu_publish(queue->hold, hold_new());
	if (!queue->hold) {
		drop(dest, b, set, DROP_NO_MEMORY);
		return;
	}
	if (begins) {
		queue->hold->since = now;
		queue->hold->wait = wait;
		queue->hold->arena_used = 0;
		batch_begin(&queue->hold->batch);
	}
	batch_for_each (i, set) {
		if (!copy_frame(queue->hold, b, i, dest))
			lost |= 1u << i;
		b->frame[i].segments = 0;
	}
	drop(dest, b, lost, DROP_NO_MEMORY);
}

/* The waiting frames that have the destination of `slot`. */
static frame_set same_dest(const struct hold *hold, unsigned slot)
{
	frame_set set = 0;
	unsigned i;

	batch_for_each (i, hold->waiting) {
		if (hold->dest[i].serial == hold->dest[slot].serial)
			set |= 1u << i;
	}
	return set;
}

static struct port *find_dest(struct vswitch *sw, const struct hold *hold, unsigned slot)
{
	struct port *port = rcu_read(sw->ports[hold->dest[slot].index]);

	return port && port->serial == hold->dest[slot].serial ? port : NULL;
}

/* Delivers and perhaps gives up the rest; returns what still waits. */
static frame_set retry_dest(struct port *port, struct hold *hold, frame_set set,
			    struct virtq_calls *calls, bool give_up)
{
	frame_set left = port->ops->egress(port, &hold->batch, set, calls);

	if (!give_up)
		return left;
	port_egress_drop(port, DROP_FULL, (unsigned)__builtin_popcount(left));
	return 0;
}

/* Of frames that wait for the rest of theirs. */
static unsigned segments_out(const struct hold *hold)
{
	unsigned n = 0, i;

	batch_for_each (i, hold->waiting)
		n += hold->batch.frame[i].segments;
	return n;
}

static bool retry_all(struct vswitch *sw, struct hold *hold, struct virtq_calls *calls,
		      bool give_up)
{
	frame_set todo = hold->waiting, left = 0;
	unsigned segments = segments_out(hold);
	bool moved;

	while (todo) {
		unsigned slot = (unsigned)__builtin_ctz(todo);
		frame_set set = same_dest(hold, slot);
		struct port *port = find_dest(sw, hold, slot);

		/* Without a port there is nobody left to count for. */
		if (port)
			left |= retry_dest(port, hold, set, calls, give_up);
		todo &= ~set;
	}
	moved = left != hold->waiting || segments_out(hold) != segments;
	store_relaxed(&hold->waiting, left);
	return moved;
}

bool hold_retry(struct vswitch *sw, struct port_queue *queue, struct virtq_calls *calls,
		uint64_t now)
{
	struct hold *hold = queue->hold;
	uint64_t waited;
	bool moved;

	if (hold_empty(queue))
		return false;
	waited = now > hold->since ? now - hold->since : 0;
	moved = retry_all(sw, hold, calls, waited >= hold->wait);
	queue->debt += share_more(hold->batch.segments, hold->batch.summed, 0);
	hold->batch.segments = hold->batch.summed = 0;
	if (hold_empty(queue))
		full_waited(&queue->full, waited);
	else if (moved)
		hold->wait = full_moved(&queue->full, now, hold->wait, waited, sw->per_us);
	return moved;
}
