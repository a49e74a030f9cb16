/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The split ring's layout, and taking available entries from it (virtio 1.3, 2.7.6, 2.7.8).
 *
 * Private to this directory; the ring's lock is held.
 */
#ifndef RINGWAY_VIRTQ_SPLIT_H
#define RINGWAY_VIRTQ_SPLIT_H

#include "virtq/entry.h"

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
 * How many entries are available from `from` on, at most `want` of which matter: the driver's
 * index, a cache line that it is writing to, is only read again when too few are known. An index
 * that is ahead by more than the ring holds breaks the ring.
 */
static inline unsigned split_available(struct virtq *vq, uint16_t from, unsigned want)
{
	const uint16_t ahead = from - vq->avail_next;
	uint16_t all = vq->avail_seen - vq->avail_next;

	if (all < ahead + want) {
		vq->avail_seen = guest_load16_acquire(split_avail_idx(vq));
		all = vq->avail_seen - vq->avail_next;
		if (unlikely(all > vq->size)) {
			ring_break(vq);
			vq->avail_seen = vq->avail_next;
			return 0;
		}
		vq->avail_most = MAX(vq->avail_most, all);
	}
	return all > ahead ? (unsigned)(all - ahead) : 0;
}

static inline unsigned split_stage_fill(struct virtq *vq, struct ring_stage *stage, unsigned max,
					uint16_t write)
{
	const unsigned n = MIN(split_available(vq, stage->at, max), max), size = vq->size;
	const uintptr_t desc = vq->addr.desc;

	for (unsigned i = 0; i < n; i++) {
		uint16_t head = guest_load16(split_avail_entry(vq, (uint16_t)(stage->at + i)));

		stage->entry[i].head = head;
		stage->entry[i].slots = 1;
		prefetch((void *)(desc + head * DESC_SIZE)); /* harmless wherever that is */
	}
	for (unsigned i = 0; i < n; i++) {
		struct ring_entry *e = &stage->entry[i];
		struct vring_desc d;

		if (unlikely(e->head >= size)) {
			e->whole = false;
			e->bad = true;
			continue;
		}
		guest_load_desc(desc + e->head * DESC_SIZE, &d);
		entry_look(vq, e, &d, write);
	}
	stage->at += n;
	stage->n = n;
	stage->next = 0;
	return n;
}

#endif
