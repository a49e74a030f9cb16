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
 * The next chain, looked ahead at by the stage, which is filled again from what is available when
 * it is used up; `taken` chains before it were looked at but not consumed. NULL if the ring has no
 * more.
 */
static inline const struct split_entry *next_entry(struct virtq *vq, struct split_stage *stage,
						   unsigned taken)
{
	if (unlikely(stage->next == stage->n)) {
		unsigned n = split_available(vq, taken + 1);

		if (n <= taken)
			return NULL;
		split_stage_fill(vq, stage, taken, MIN(n - taken, BATCH_FRAMES),
				 VRING_DESC_F_WRITE);
	}
	return &stage->entry[stage->next++];
}

/* Adds a chain to `t`; false if it is malformed. */
static inline bool take_chain(const struct virtq *vq, const struct split_entry *e, struct taking *t)
{
	unsigned spans = 1;
	uint64_t room;

	t->chain[t->chains].head = e->head;
	t->chains++;
	if (e->whole && t->spans < BATCH_SPANS) {
		t->span[t->spans] = (struct span){ .at = e->at, .len = e->len };
		room = e->len;
	} else if (e->bad || chain_walk(vq, e->desc, VRING_DESC_F_WRITE, &t->span[t->spans],
					BATCH_SPANS - t->spans, &spans, &room)) {
		return false;
	}
	t->chain[t->chains - 1].room = room;
	t->spans += spans;
	t->room += room;
	return true;
}

/*
 * Buffers for `need` bytes, beginning with `e`. DROP_NONE: they are in `t`. DROP_FULL: the ring has
 * too few now. DROP_RX_CHAIN: the last chain of `t` is malformed, and none of them is of use.
 * DROP_TOO_BIG: they would not fit even into an idle ring.
 */
static enum drop take(struct virtq *vq, struct split_stage *stage, const struct split_entry *e,
		      uint64_t need, struct taking *t)
{
	t->chains = t->spans = 0;
	t->room = 0;
	for (;;) {
		if (unlikely(!take_chain(vq, e, t)))
			return DROP_RX_CHAIN;
		if (t->room >= need)
			return DROP_NONE;
		if (!vq->mergeable || t->chains == MIN(vq->size, BATCH_SPANS))
			return DROP_TOO_BIG;
		e = next_entry(vq, stage, t->chains);
		if (!e)
			return DROP_FULL;
	}
}

/* The header as the receiver shall see it: 5.1.6.4.1, num_buffers is 1 without mergeable buffers.
 */
static inline struct virtio_net_hdr_mrg_rxbuf rx_header(const struct frame *f, unsigned buffers)
{
	struct virtio_net_hdr_mrg_rxbuf hdr = { .num_buffers = (uint16_t)buffers };

	if (unlikely(!f->plain))
		hdr.hdr = f->hdr;
	return hdr;
}

/* Into one stretch of memory. */
static inline void copy_whole(const struct virtq *vq, const struct batch *b, const struct frame *f,
			      uintptr_t to, unsigned buffers)
{
	struct virtio_net_hdr_mrg_rxbuf hdr = rx_header(f, buffers);

	if (likely(vq->hdr_len == VNET_HDR_LEN))
		guest_copy_out(to, &hdr, VNET_HDR_LEN);
	else
		guest_copy_out(to, &hdr, VNET_HDR_LEN_LEGACY);
	to += vq->hdr_len;
	guest_copy_out(to, f->head, f->head_len);
	to += f->head_len;
	for (unsigned i = 0; i < f->spans; i++) {
		const struct span *s = &b->span[f->span + i];

		guest_copy(to, s->at, s->len);
		to += s->len;
	}
}

/* Into whatever the chains are made of. */
static void copy_pieces(const struct virtq *vq, const struct batch *b, const struct frame *f,
			struct taking *t)
{
	struct virtio_net_hdr_mrg_rxbuf hdr = rx_header(f, t->chains);
	struct sink sink = { .span = t->span };

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
	if (unlikely(!f->plain)) {
		enum drop drop = vnet_hdr_accept(&f->hdr, vq->features);

		if (drop || f->hdr.gso_type)
			return drop;
	}
	if (unlikely(vq->mtu && f->len > (uint32_t)vq->mtu + ETH_HEADER_LEN + VLAN_TAG_LEN))
		return DROP_TOO_BIG;
	return DROP_NONE;
}

/* A frame for which one plain buffer is not enough. */
static enum drop deliver_pieces(struct virtq *vq, const struct batch *b, const struct frame *f,
				struct split_stage *stage, const struct split_entry *e,
				struct taking *t)
{
	uint64_t need = vq->hdr_len + (uint64_t)f->len;
	enum drop drop = take(vq, stage, e, need, t);

	switch (drop) {
	case DROP_NONE:
		copy_pieces(vq, b, f, t);
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

static inline enum drop deliver_frame(struct virtq *vq, const struct batch *b,
				      const struct frame *f, struct split_stage *stage,
				      struct taking *t)
{
	uint32_t need = (uint32_t)vq->hdr_len + f->len;
	const struct split_entry *e;
	enum drop drop = refuse(vq, f);

	if (unlikely(drop))
		return drop;
	e = next_entry(vq, stage, 0);
	if (unlikely(!e))
		return DROP_FULL;
	if (unlikely(!e->whole || e->len < need))
		return deliver_pieces(vq, b, f, stage, e, t);
	copy_whole(vq, b, f, e->at, 1);
	split_used_store(vq, vq->used_next++, e->head, need);
	vq->avail_next++;
	return DROP_NONE;
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
	split_stage_fill(vq, &stage, 0, n, VRING_DESC_F_WRITE);
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
