// SPDX-License-Identifier: Apache-2.0
/*
 * rx: frames into the driver's buffers, copied straight from the sender's memory.
 *
 * For each frame: take chains until it fits (one, or several with mergeable buffers), copy, write
 * its virtio-net header and its used entries. `avail_next` moves when all of it is there, so giving
 * buffers back is forgetting that they were looked at. One release of the used index publishes the
 * whole list.
 */
#include "net/eth.h"
#include "virtq/notify.h"
#include "virtq/split.h"

#define VLAN_TAG_LEN 4

/* What one frame takes from the ring. */
struct taking {
	unsigned chains, spans;
	uint64_t room;
	struct {
		uint16_t head;
		uint64_t room;
	} chain[BATCH_SPANS];
	struct span span[BATCH_SPANS];
};

/* Where the next byte goes. */
struct sink {
	struct span *span;
};

static void sink_write(struct sink *sink, const void *from, uint32_t n)
{
	const uint8_t *p = from;

	while (n) {
		uint32_t part = MIN(n, sink->span->len);

		guest_copy_out(sink->span->at, p, part);
		p += part;
		n -= part;
		sink->span->at += part;
		sink->span->len -= part;
		if (!sink->span->len)
			sink->span++;
	}
}

static void sink_copy(struct sink *sink, uintptr_t from, uint32_t n)
{
	while (n) {
		uint32_t part = MIN(n, sink->span->len);

		guest_copy(sink->span->at, from, part);
		from += part;
		n -= part;
		sink->span->at += part;
		sink->span->len -= part;
		if (!sink->span->len)
			sink->span++;
	}
}

/*
 * Takes one more chain, looked ahead at by the stage, which is filled again from what is available
 * when it is used up. False if the ring has no more.
 */
static inline bool take_head(struct virtq *vq, struct split_stage *stage, const struct taking *t,
			     unsigned *ret_entry)
{
	if (unlikely(stage->next == stage->n)) {
		unsigned n = split_available(vq, t->chains + 1);

		if (n <= t->chains)
			return false;
		split_stage_fill(vq, stage, t->chains, MIN(n - t->chains, BATCH_FRAMES), true);
	}
	*ret_entry = stage->next++;
	return true;
}

/*
 * Buffers for `need` bytes. DROP_NONE: they are in `t`. DROP_FULL: the ring has too few now.
 * DROP_RX_CHAIN: the last chain of `t` is malformed, and none of them is of use. DROP_TOO_BIG: they
 * would not fit even into an idle ring.
 */
static inline enum drop take(struct virtq *vq, struct split_stage *stage, uint64_t need,
			     struct taking *t)
{
	t->chains = t->spans = 0;
	t->room = 0;
	do {
		unsigned e, spans;
		uint64_t room;

		if (!take_head(vq, stage, t, &e))
			return t->chains == vq->size ? DROP_TOO_BIG : DROP_FULL;
		t->chain[t->chains].head = stage->entry[e].head;
		t->chains++;
		if (unlikely(stage->entry[e].bad ||
			     chain_walk(vq, stage->entry[e].desc, VRING_DESC_F_WRITE,
					&t->span[t->spans], BATCH_SPANS - t->spans, &spans, &room)))
			return DROP_RX_CHAIN;
		t->chain[t->chains - 1].room = room;
		t->spans += spans;
		t->room += room;
		if (unlikely(t->room < need && !vq->mergeable))
			return DROP_TOO_BIG;
	} while (t->room < need && t->chains < BATCH_SPANS);
	return t->room < need ? DROP_TOO_BIG : DROP_NONE;
}

/* The header as the receiver shall see it: 5.1.6.4.1, num_buffers is 1 without mergeable buffers.
 */
static inline void fill_header(struct virtio_net_hdr_mrg_rxbuf *hdr, const struct frame *f,
			       unsigned buffers)
{
	hdr->hdr = f->hdr;
	hdr->num_buffers = (uint16_t)buffers;
}

static inline void copy_frame(struct virtq *vq, const struct batch *b, const struct frame *f,
			      struct taking *t)
{
	struct virtio_net_hdr_mrg_rxbuf hdr;
	struct sink sink = { .span = t->span };

	fill_header(&hdr, f, t->chains);
	if (likely(f->spans <= 1 && t->span[0].len >= vq->hdr_len + f->len)) {
		uintptr_t to = t->span[0].at + vq->hdr_len;

		if (likely(vq->hdr_len == VNET_HDR_LEN))
			guest_copy_out(t->span[0].at, &hdr, VNET_HDR_LEN);
		else
			guest_copy_out(t->span[0].at, &hdr, VNET_HDR_LEN_LEGACY);
		guest_copy_out(to, f->head, f->head_len);
		if (f->spans)
			guest_copy(to + f->head_len, b->span[f->span].at, b->span[f->span].len);
		return;
	}
	sink_write(&sink, &hdr, vq->hdr_len);
	sink_write(&sink, f->head, f->head_len);
	for (unsigned i = 0; i < f->spans; i++)
		sink_copy(&sink, b->span[f->span + i].at, b->span[f->span + i].len);
}

/* Returns the chains of `t` used, holding `len` bytes in all. */
static inline void put_used(struct virtq *vq, const struct taking *t, uint64_t len)
{
	for (unsigned i = 0; i < t->chains; i++) {
		uint64_t part = MIN(len, t->chain[i].room);

		if (likely(t->chain[i].head < vq->size))
			split_used_store(vq, vq->used_next++, t->chain[i].head, (uint32_t)part);
		len -= part;
	}
	vq->avail_next += t->chains;
}

/* Reasons not to deliver that lie in the frame and what the driver agreed to. */
static inline enum drop refuse(const struct virtq *vq, const struct frame *f)
{
	if (!vnet_hdr_plain(&f->hdr)) {
		enum drop drop = vnet_hdr_accept(&f->hdr, vq->features);

		if (drop || f->hdr.gso_type)
			return drop;
	}
	if (unlikely(vq->mtu && f->len > (uint32_t)vq->mtu + ETH_HEADER_LEN + VLAN_TAG_LEN))
		return DROP_TOO_BIG;
	return DROP_NONE;
}

static enum drop deliver_frame(struct virtq *vq, const struct batch *b, const struct frame *f,
			       struct split_stage *stage, struct taking *t)
{
	uint64_t need = vq->hdr_len + (uint64_t)f->len;
	enum drop drop = refuse(vq, f);

	if (unlikely(drop))
		return drop;
	drop = take(vq, stage, need, t);
	switch (drop) {
	case DROP_NONE:
		copy_frame(vq, b, f, t);
		put_used(vq, t, need);
		return DROP_NONE;
	case DROP_RX_CHAIN:
		/* Returned with nothing in them, or the next frame would meet the same. */
		put_used(vq, t, 0);
		return DROP_RX_CHAIN;
	default:
		/* Given back; the stage has run ahead of them. */
		stage->n = stage->next = 0;
		return drop;
	}
}

frame_set virtq_deliver(struct virtq *vq, struct batch *b, frame_set set, struct virtq_calls *calls)
{
	struct split_stage stage = { .n = 0 };
	struct taking t;
	uint64_t frames = 0, bytes = 0;
	frame_set refused = 0;
	unsigned i, n = (unsigned)__builtin_popcount(set);
	uint16_t used_before;

	pthread_mutex_lock(&vq->lock);
	used_before = vq->used_next;
	if (unlikely(!vq->running)) {
		count(&vq->stats.dropped[DROP_PORT_DOWN], n);
		goto unlock;
	}
	n = MIN(split_available(vq, n), n);
	split_stage_fill(vq, &stage, 0, n, true);
	batch_for_each (i, set) {
		const struct frame *f = &b->frame[i];
		enum drop drop = deliver_frame(vq, b, f, &stage, &t);

		if (likely(!drop)) {
			frames++;
			bytes += f->len;
		} else if (drop == DROP_FULL) {
			refused = set & ~((1u << i) - 1);
			break;
		} else {
			count(&vq->stats.dropped[drop], 1);
		}
	}
	count(&vq->stats.frames, frames);
	count(&vq->stats.bytes, bytes);
	if (vq->used_next != used_before) {
		split_used_publish(vq);
		virtq_calls_add(calls, vq);
	}
unlock:
	pthread_mutex_unlock(&vq->lock);
	return refused;
}
