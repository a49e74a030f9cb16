/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains that were looked ahead at, and those that are to be returned: what both ring formats
 * share.
 *
 * Looking ahead is done in stages, so that the cache misses of many chains overlap. It takes
 * nothing: the ring's `avail_next` moves when a chain is consumed. Private to this directory; the
 * ring's lock is held.
 */
#ifndef RINGWAY_VIRTQ_ENTRY_H
#define RINGWAY_VIRTQ_ENTRY_H

#include "virtq/chain.h"

struct ring_entry {
	uintptr_t at; /* of a whole chain */
	uint32_t len;
	uint16_t head;	/* what returns it: split: its first descriptor; packed: its id */
	uint16_t slot;	/* packed: of its first descriptor */
	uint16_t slots; /* that consuming it moves avail_next on by */
	bool whole;	/* the common case: the chain is one descriptor, of one span */
	/* What follows is there if it is not. */
	bool bad; /* split: the head is outside the ring */
	struct vring_desc desc;
};

struct ring_stage {
	unsigned n, next;
	uint16_t at, round; /* where the look ahead goes on, as avail_next and round */
	struct ring_entry entry[BATCH_FRAMES];
};

/* What was used since the last publication: the first of it, which is written last; packed only. */
struct used_list {
	uintptr_t first_at; /* 0: nothing */
	uint64_t first;
};

static inline void ring_break(struct virtq *vq)
{
	vq->state = VIRTQ_BROKEN;
	count(&vq->breaks, 1);
}

static inline void entry_prefetch(uintptr_t at, bool write)
{
	if (write) {
		prefetch_write((void *)at);
		prefetch_write((void *)(at + CACHE_LINE));
	} else {
		prefetch((void *)at);
		prefetch((void *)(at + CACHE_LINE));
	}
}

/* Where the buffer of its first descriptor `d` is; true if that is all. `write`: chain_walk(). */
static inline bool entry_look(const struct virtq *vq, struct ring_entry *e,
			      const struct vring_desc *d, uint16_t write)
{
	const uint16_t shape = VRING_DESC_F_NEXT | VRING_DESC_F_INDIRECT | VRING_DESC_F_WRITE;
	uint32_t run = 0;
	uintptr_t at = guest_translate(vq->mem, d->addr, d->len, &run);

	e->at = at;
	e->len = d->len;
	e->whole = true;
	if (likely(at)) {
		entry_prefetch(at, write);
		if (likely((d->flags & shape) == write && run == d->len))
			return true;
	}
	e->whole = e->bad = false;
	e->desc = *d;
	return false;
}

static inline bool entry_bad(const struct ring_entry *e)
{
	return !e->whole && e->bad;
}

/* As chain_walk(), unless there is nothing to walk. */
static inline enum drop entry_walk(const struct virtq *vq, const struct ring_entry *e,
				   uint16_t write, struct span *spans, unsigned max,
				   unsigned *links, unsigned *ret_spans, uint64_t *ret_len)
{
	if (unlikely(entry_bad(e)))
		return DROP_CHAIN_HEAD;
	if (unlikely(!e->whole))
		return chain_walk(vq, e->desc, e->slot, e->slots, write, spans, max, links,
				  ret_spans, ret_len);
	if (unlikely(!max))
		return DROP_CHAIN_PIECES;
	spans[0] = (struct span){ .at = e->at, .len = e->len };
	*ret_spans = 1;
	*ret_len = e->len;
	return DROP_NONE;
}

#endif
