/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking rx buffers: chains off the ring until there is room for what is to be delivered, filling
 * them, and returning them used.
 *
 * `avail_next` moves when all of it is there, so giving buffers back is forgetting that they were
 * looked at. Private to this directory; the ring's lock is held.
 */
#ifndef RINGWAY_VIRTQ_TAKE_H
#define RINGWAY_VIRTQ_TAKE_H

#include "frame/cursor.h"
#include "net/eth.h"
#include "virtq/ring.h"

/* What one frame takes from the ring. */
struct taking {
	unsigned links; /* that may still be walked, for all frames */
	unsigned chains, spans;
	uint64_t room;
	struct {
		uint16_t head, slots;
		uint64_t room;
	} chain[BATCH_SPANS];
	struct span span[BATCH_SPANS];
	struct used_list used; /* of all frames since the last publication */
};

/*
 * The next chain, looked ahead at by the stage, which is filled again from what is available when
 * it is used up. NULL if the ring has no more.
 */
static inline const struct ring_entry *next_entry(struct virtq *vq, struct ring_stage *stage)
{
	if (unlikely(stage->next == stage->n) &&
	    !stage_fill(vq, stage, BATCH_FRAMES, VRING_DESC_F_WRITE, vq->packed))
		return NULL;
	return &stage->entry[stage->next++];
}

/* May a frame of this length go to this driver, MTU considered (5.1.4.1)? Tags are not counted. */
static inline bool take_allows(const struct virtq *vq, uint32_t len)
{
	return !vq->mtu || len <= (uint32_t)vq->mtu + ETH_HEADER_LEN + VLAN_TAGS_MAX * VLAN_TAG_LEN;
}

/* One of the two lengths: moves of a length known here. */
static inline void put_header(const struct virtq *vq, uintptr_t to,
			      const struct virtio_net_hdr_mrg_rxbuf *hdr)
{
	if (likely(vq->hdr_len == VNET_HDR_LEN))
		guest_copy_out(to, hdr, VNET_HDR_LEN);
	else
		guest_copy_out(to, hdr, VNET_HDR_LEN_LEGACY);
}

/* Adds a chain to `t`, or says why not. */
static inline enum drop take_chain(const struct virtq *vq, const struct ring_entry *e,
				   struct taking *t)
{
	unsigned spans;
	uint64_t room;
	enum drop drop;

	t->chain[t->chains].head = e->head;
	t->chain[t->chains].slots = e->slots;
	t->chain[t->chains].room = 0;
	t->chains++;
	drop = entry_walk(vq, e, VRING_DESC_F_WRITE, &t->span[t->spans], BATCH_SPANS - t->spans,
			  &t->links, &spans, &room);
	if (unlikely(drop))
		return drop;
	/* 5.1.6.3.1; a frame may look at many, so each has to be of some use. */
	if (unlikely(vq->mergeable && room < vq->hdr_len))
		return DROP_RX_CHAIN;
	t->chain[t->chains - 1].room = room;
	t->spans += spans;
	t->room += room;
	return DROP_NONE;
}

/* Returns the chains of `t` used, holding `len` bytes in all. */
static inline void put_used(struct virtq *vq, struct taking *t, uint64_t len)
{
	for (unsigned i = 0; i < t->chains; i++) {
		uint64_t part = MIN(len, t->chain[i].room);

		/* A head outside a split ring names no chain that could be returned. */
		if (likely(vq->packed || t->chain[i].head < vq->size))
			ring_use(vq, &t->used, t->chain[i].head, t->chain[i].slots, (uint32_t)part,
				 vq->packed);
		ring_consume(vq, vq->packed);
		len -= part;
	}
}

/*
 * Buffers for `need` bytes, beginning with `e`. DROP_NONE: they are in `t`. DROP_FULL: the ring has
 * too few now. DROP_RX_CHAIN: one was malformed, and all up to it are returned with nothing in
 * them, or the next frame would meet the same. DROP_TOO_BIG: they would not fit even into an idle
 * ring.
 */
static inline enum drop take(struct virtq *vq, struct ring_stage *stage, const struct ring_entry *e,
			     uint64_t need, struct taking *t)
{
	const bool alone = t->links == CHAIN_LINKS_MAX;

	t->chains = t->spans = 0;
	t->room = 0;
	for (;;) {
		enum drop drop = take_chain(vq, e, t);

		if (unlikely(drop)) {
			/* Perhaps it can be walked when no others were before: the next time. */
			if (drop == DROP_CHAIN_PIECES && !alone)
				return DROP_FULL;
			put_used(vq, t, 0);
			return DROP_RX_CHAIN;
		}
		if (t->room >= need)
			return DROP_NONE;
		if (!vq->mergeable || t->chains == BATCH_SPANS)
			return DROP_TOO_BIG;
		e = next_entry(vq, stage);
		if (!e)
			return t->chains < vq->avail_most ? DROP_FULL : DROP_TOO_BIG;
	}
}

#endif
