/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking a descriptor chain of a split ring into spans of host memory.
 *
 * Each descriptor is copied once to a local before anything in it is looked at, and everything in
 * it is checked: direction, `next`, number of links, the indirect table, and that every byte lies
 * in a region. The number of links is bounded, so a loop ends, and soon.
 *
 * Private to this directory.
 */
#ifndef RINGWAY_VIRTQ_CHAIN_H
#define RINGWAY_VIRTQ_CHAIN_H

#include <linux/virtio_ring.h>

#include "guest/access.h"
#include "virtq/virtq.h"

#define DESC_SIZE sizeof(struct vring_desc)

/*
 * One more than the pieces that are ever of use. Descriptors of no length make no piece, and an
 * indirect table may claim to have 2^28 of them: the table's size alone is no bound.
 */
#define CHAIN_LINKS_MAX (BATCH_SPANS + 1)

/* The table that a chain is in now, and how many more of its descriptors the chain may use. */
struct chain_table {
	uintptr_t at;
	uint32_t size;
	uint32_t links;
	bool indirect;
};

/*
 * 2.7.5.3: a table of whole descriptors, contiguous, not within another, and the last of its chain.
 * Loads the table's first descriptor into *d.
 */
static inline enum drop chain_enter_indirect(const struct virtq *vq, struct chain_table *table,
					     struct vring_desc *d)
{
	uint32_t run = 0;
	uintptr_t at;

	if (!vq->indirect || table->indirect || d->flags & VRING_DESC_F_NEXT || !d->len ||
	    d->len % DESC_SIZE)
		return DROP_CHAIN_INDIRECT;
	at = guest_translate(vq->mem, d->addr, d->len, &run);
	if (!at || run != d->len)
		return DROP_MEMORY;
	table->at = at;
	table->size = d->len / DESC_SIZE;
	table->links = MIN(table->size, CHAIN_LINKS_MAX);
	table->indirect = true;
	guest_load_desc(at, d);
	return DROP_NONE;
}

/* A buffer of the guest's as one span, or as several where it runs on into another region. */
static inline enum drop chain_add_spans(const struct guest_memory *mem, uint64_t gpa, uint32_t len,
					struct span *spans, unsigned max, unsigned *n)
{
	while (len) {
		uint32_t run = 0;
		uintptr_t at = guest_translate(mem, gpa, len, &run);

		if (unlikely(!at))
			return DROP_MEMORY;
		if (unlikely(*n == max))
			return DROP_CHAIN_PIECES;
		spans[(*n)++] = (struct span){ .at = at, .len = run };
		gpa += run;
		len -= run;
	}
	return DROP_NONE;
}

/*
 * Walks the chain whose head descriptor is `d`; `write` is VRING_DESC_F_WRITE for a chain that the
 * device writes to, 0 for one that it reads. On DROP_NONE the spans and their total length are
 * returned.
 */
static inline enum drop chain_walk(const struct virtq *vq, struct vring_desc d, uint16_t write,
				   struct span *spans, unsigned max, unsigned *ret_spans,
				   uint64_t *ret_len)
{
	struct chain_table table = { .at = vq->addr.desc, .size = vq->size };
	uint64_t total = 0;
	unsigned n = 0;
	enum drop drop;

	table.links = MIN(table.size, CHAIN_LINKS_MAX);
	for (;;) {
		if (d.flags & VRING_DESC_F_INDIRECT) {
			drop = chain_enter_indirect(vq, &table, &d);
			if (drop)
				return drop;
			continue;
		}
		if (unlikely((d.flags ^ write) & VRING_DESC_F_WRITE))
			return DROP_CHAIN_DIRECTION;
		/* A frame may look at many rx chains: each link shall use up some of its spans. */
		if (unlikely(write && !d.len))
			return DROP_MEMORY;
		drop = chain_add_spans(vq->mem, d.addr, d.len, spans, max, &n);
		if (unlikely(drop))
			return drop;
		total += d.len;
		if (!(d.flags & VRING_DESC_F_NEXT))
			break;
		if (unlikely(!--table.links))
			return DROP_CHAIN_LOOP;
		if (unlikely(d.next >= table.size))
			return DROP_CHAIN_NEXT;
		guest_load_desc(table.at + d.next * DESC_SIZE, &d);
	}
	*ret_spans = n;
	*ret_len = total;
	return DROP_NONE;
}

#endif
