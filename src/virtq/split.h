/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The split ring's layout, and taking available entries from it (virtio 1.3, 2.7.6, 2.7.8).
 *
 * Private to this directory; the ring's lock is held.
 */
#ifndef RINGWAY_VIRTQ_SPLIT_H
#define RINGWAY_VIRTQ_SPLIT_H

#include "virtq/chain.h"

static inline uintptr_t split_avail_flags(const struct virtq *vq)
{
	return vq->addr.avail;
}

static inline uintptr_t split_avail_idx(const struct virtq *vq)
{
	return vq->addr.avail + 2;
}

static inline uintptr_t split_avail_entry(const struct virtq *vq, uint16_t index)
{
	return vq->addr.avail + 4 + 2u * (index & (vq->size - 1));
}

/* Behind the available ring: at which used index the driver wants to be called (2.7.10). */
static inline uintptr_t split_used_event(const struct virtq *vq)
{
	return vq->addr.avail + 4 + 2u * vq->size;
}

static inline uintptr_t split_used_flags(const struct virtq *vq)
{
	return vq->addr.used;
}

static inline uintptr_t split_used_idx(const struct virtq *vq)
{
	return vq->addr.used + 2;
}

static inline uintptr_t split_used_entry(const struct virtq *vq, uint16_t index)
{
	return vq->addr.used + 4 + 8u * (index & (vq->size - 1));
}

/* Behind the used ring: at which available index the device wants to be kicked. */
static inline uintptr_t split_avail_event(const struct virtq *vq)
{
	return vq->addr.used + 4 + 8u * vq->size;
}

static inline void split_used_store(const struct virtq *vq, uint16_t index, uint16_t head,
				    uint32_t len)
{
	guest_store64(split_used_entry(vq, index), head | (uint64_t)len << 32);
}

/* Makes used entries up to used_next visible; partner: the driver's acquire of used->idx. */
static inline void split_used_publish(const struct virtq *vq)
{
	guest_store16_release(split_used_idx(vq), vq->used_next);
}

/*
 * How many entries are available, at most `want` of which matter: the driver's index, a cache line
 * that it is writing to, is only read again when too few are known. An index that is ahead by more
 * than the ring holds breaks the ring.
 */
static inline unsigned split_available(struct virtq *vq, unsigned want)
{
	uint16_t n = vq->avail_seen - vq->avail_next;

	if (n < want || unlikely(n > vq->size)) {
		vq->avail_seen = guest_load16_acquire(split_avail_idx(vq));
		n = vq->avail_seen - vq->avail_next;
		if (unlikely(n > vq->size)) {
			vq->state = VIRTQ_BROKEN;
			vq->avail_seen = vq->avail_next;
			return 0;
		}
		vq->avail_most = MAX(vq->avail_most, n);
	}
	return n;
}

/*
 * Entries that were looked ahead at, in stages so that their cache misses overlap: heads, then
 * descriptors, then the first lines of each buffer. Looking does not take: `avail_next` moves when
 * the entry is consumed.
 */
struct split_entry {
	uintptr_t at; /* of a whole chain */
	uint32_t len;
	uint16_t head;
	bool bad;   /* the head is outside the ring */
	bool whole; /* the common case: the chain is one descriptor, of one span */
	struct vring_desc desc;
};

struct split_stage {
	unsigned n, next;
	struct split_entry entry[BATCH_FRAMES];
};

static inline void split_prefetch(uintptr_t at, bool write)
{
	if (write) {
		prefetch_write((void *)at);
		prefetch_write((void *)(at + CACHE_LINE));
	} else {
		prefetch((void *)at);
		prefetch((void *)(at + CACHE_LINE));
	}
}

/* `write` is VRING_DESC_F_WRITE or 0, as in chain_walk(). */
static inline void split_stage_fill(struct virtq *vq, struct split_stage *stage, unsigned first,
				    unsigned n, uint16_t write)
{
	const uint16_t shape = VRING_DESC_F_NEXT | VRING_DESC_F_INDIRECT | VRING_DESC_F_WRITE;

	stage->n = n;
	stage->next = 0;
	for (unsigned i = 0; i < n; i++) {
		uint16_t at = (uint16_t)(vq->avail_next + first + i);
		uint16_t head = guest_load16(split_avail_entry(vq, at));

		stage->entry[i].head = head;
		stage->entry[i].bad = head >= vq->size;
		prefetch((void *)(vq->addr.desc + head * DESC_SIZE));
	}
	for (unsigned i = 0; i < n; i++) {
		struct split_entry *e = &stage->entry[i];
		uint32_t run = 0;

		e->whole = false;
		if (unlikely(e->bad))
			continue;
		guest_load_desc(vq->addr.desc + e->head * DESC_SIZE, &e->desc);
		e->at = guest_translate(vq->mem, e->desc.addr, e->desc.len, &run);
		if (unlikely(!e->at))
			continue;
		e->len = e->desc.len;
		e->whole = (e->desc.flags & shape) == write && run == e->len;
		split_prefetch(e->at, write);
	}
}

#endif
