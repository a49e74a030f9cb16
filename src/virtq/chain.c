// SPDX-License-Identifier: Apache-2.0
/*
 * Walking a descriptor chain into spans of host memory.
 *
 * The two ring formats differ in what comes next: in a split ring and its indirect tables the
 * descriptor says so, in packed ones it is the neighbour, and how many there are was counted before
 * (2.8.6) or follows from the table's length (2.8.7). Each descriptor is copied once to a local
 * before anything in it is looked at, and everything in it is checked: direction, `next`, number of
 * links, the indirect table, and that every byte lies in a region. The number of links is bounded,
 * for a chain and for a batch, so a loop ends, and soon.
 */
#include "virtq/chain.h"

/*
 * The table that a chain is in now, and how many more of its descriptors the chain may use (split)
 * or has (packed, where `slot` is the one that it is at).
 */
struct chain_table {
	uintptr_t at;
	uint32_t size, slot;
	uint32_t links;
	bool indirect;
};

/* Does another descriptor follow `d` in its chain? */
static bool chain_goes_on(const struct virtq *vq, const struct chain_table *table,
			  const struct vring_desc *d)
{
	return vq->packed ? table->links > 1 : d->flags & VRING_DESC_F_NEXT;
}

/* A descriptor in the split ring's form; a packed one has its flags behind its id (2.8.5). */
static void chain_load(const struct virtq *vq, uintptr_t at, struct vring_desc *d)
{
	guest_load_desc(at, d);
	if (vq->packed)
		d->flags = d->next;
}

/*
 * 2.7.5.3, 2.8.7: a table of whole descriptors, contiguous, not within another, and the last of its
 * chain. Loads the table's first descriptor into *d.
 */
static enum drop chain_enter_indirect(const struct virtq *vq, struct chain_table *table,
				      struct vring_desc *d)
{
	uint32_t run = 0;
	uintptr_t at;

	if (!vq->indirect || table->indirect || chain_goes_on(vq, table, d) || !d->len ||
	    d->len % DESC_SIZE)
		return DROP_CHAIN_INDIRECT;
	if (vq->packed && d->len / DESC_SIZE > CHAIN_LINKS_MAX)
		return DROP_CHAIN_PIECES;
	at = guest_translate(vq->mem, d->addr, d->len, &run);
	if (!at || run != d->len)
		return DROP_MEMORY;
	table->at = at;
	table->size = d->len / DESC_SIZE;
	table->slot = 0;
	table->links = MIN(table->size, CHAIN_LINKS_MAX);
	table->indirect = true;
	chain_load(vq, at, d);
	return DROP_NONE;
}

/* A buffer of the guest's as one span, or as several where it runs on into another region. */
static enum drop chain_add_spans(const struct guest_memory *mem, uint64_t gpa, uint32_t len,
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

/* The next descriptor of the chain, in *d; its end is DROP_NONE with *ret_more false. */
static enum drop chain_next(const struct virtq *vq, struct chain_table *table, struct vring_desc *d,
			    bool *ret_more)
{
	uint32_t next = d->next;

	*ret_more = chain_goes_on(vq, table, d);
	if (!*ret_more)
		return DROP_NONE;
	if (unlikely(!--table->links))
		return DROP_CHAIN_LOOP;
	if (vq->packed)
		next = table->slot = table->slot + 1 == table->size ? 0 : table->slot + 1;
	if (unlikely(next >= table->size))
		return DROP_CHAIN_NEXT;
	chain_load(vq, table->at + next * DESC_SIZE, d);
	return DROP_NONE;
}

/*
 * Must be read by the device where it may only be written, or the other way round (2.7.4.2).
 * DPDK's driver leaves WRITE set in the packed tables of all that it sends. No device minds, so
 * neither does this one: it never writes to what was sent.
 */
static bool wrong_direction(const struct virtq *vq, const struct chain_table *table, uint16_t flags,
			    uint16_t write)
{
	return ((flags ^ write) & VRING_DESC_F_WRITE) && !(vq->packed && table->indirect && !write);
}

enum drop chain_walk(const struct virtq *vq, struct vring_desc d, uint16_t slot, uint16_t slots,
		     uint16_t write, struct span *spans, unsigned max, unsigned *links,
		     unsigned *ret_spans, uint64_t *ret_len)
{
	struct chain_table table = { .at = vq->addr.desc, .size = vq->size, .slot = slot };
	bool more = true;
	uint64_t total = 0;
	unsigned n = 0;
	enum drop drop;

	table.links = vq->packed ? slots : MIN(table.size, CHAIN_LINKS_MAX);
	if (unlikely(table.links > CHAIN_LINKS_MAX)) {
		/* More descriptors than may be walked were looked at, to find its end. */
		*links = 0;
		return DROP_CHAIN_PIECES;
	}
	while (more) {
		if (d.flags & VRING_DESC_F_INDIRECT) {
			drop = chain_enter_indirect(vq, &table, &d);
			if (drop)
				return drop;
			continue;
		}
		if (unlikely(!*links))
			return DROP_CHAIN_PIECES;
		--*links;
		if (unlikely(wrong_direction(vq, &table, d.flags, write)))
			return DROP_CHAIN_DIRECTION;
		/* A frame may look at many rx chains: each link shall use up some of its spans. */
		if (unlikely(write && !d.len))
			return DROP_MEMORY;
		drop = chain_add_spans(vq->mem, d.addr, d.len, spans, max, &n);
		if (unlikely(drop))
			return drop;
		total += d.len;
		drop = chain_next(vq, &table, &d, &more);
		if (unlikely(drop))
			return drop;
	}
	*ret_spans = n;
	*ret_len = total;
	return DROP_NONE;
}
