// SPDX-License-Identifier: Apache-2.0
/*
 * rx: frames into the driver's buffers, copied straight from the sender's memory.
 *
 * For each frame: take chains until it fits (one, or several with mergeable buffers), copy, write
 * its virtio-net header and its used entries. One release of the used index publishes the whole
 * list. Frames that this driver can only have with a finished checksum, or in segments, are
 * offload.c's; of those in segments it may have a part, and the rest later.
 */
#include "net/plan.h"
#include "virtq/notify.h"
#include "virtq/offload.h"
#include "virtq/take.h"

/* As the receiver shall see it. 5.1.6.4.1: num_buffers is 1 without mergeable buffers. */
static inline struct virtio_net_hdr_mrg_rxbuf rx_header(const struct frame *f, unsigned buffers)
{
	struct virtio_net_hdr_mrg_rxbuf hdr = { .num_buffers = (uint16_t)buffers };

	if (!f->plain)
		hdr.hdr = f->hdr;
	return hdr;
}

/* Into one stretch of memory: one buffer. */
static inline void copy_whole(const struct virtq *vq, const struct batch *b, const struct frame *f,
			      uintptr_t to)
{
	static const struct virtio_net_hdr_mrg_rxbuf plain = { .num_buffers = 1 };

	if (likely(f->plain)) {
		put_header(vq, to, &plain);
	} else {
		struct virtio_net_hdr_mrg_rxbuf hdr = rx_header(f, 1);

		put_header(vq, to, &hdr);
	}
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
	struct cursor to = { .span = t->span };

	cursor_write(&to, &hdr, vq->hdr_len);
	cursor_write(&to, f->head, f->head_len);
	for (unsigned i = 0; i < f->spans; i++)
		cursor_copy(&to, b->span[f->span + i].at, b->span[f->span + i].len);
}

/* A frame for which one plain buffer is not enough. */
static enum drop deliver_pieces(struct virtq *vq, struct batch *b, struct frame *f,
				struct ring_stage *stage, const struct ring_entry *e,
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
		return DROP_RX_CHAIN;
	default:
		stage_begin(vq, stage);
		/* A large frame for which its buffers are too small may come in segments. */
		if (drop == DROP_TOO_BIG && !f->plain && f->hdr.gso_type)
			return deliver_converted(vq, b, f, stage, t);
		return drop;
	}
}

static instantiated enum drop deliver_frame(struct virtq *vq, struct batch *b, struct frame *f,
					    struct ring_stage *stage, struct taking *t,
					    const bool packed)
{
	uint32_t need = (uint32_t)vq->hdr_len + f->len;
	const struct ring_entry *e;

	if (unlikely(!f->plain && plan_frame(&f->hdr, vq->features, !f->segments) != PLAN_PASS))
		return deliver_converted(vq, b, f, stage, t);
	if (unlikely((f->plain || !f->hdr.gso_type) && !take_allows(vq, f->len)))
		return DROP_TOO_BIG;
	e = next_entry(vq, stage);
	if (unlikely(!e))
		return DROP_FULL;
	if (unlikely(!e->whole || e->len < need))
		return deliver_pieces(vq, b, f, stage, e, t);
	copy_whole(vq, b, f, e->at);
	ring_use(vq, &t->used, e->head, 1, need, packed);
	ring_consume(vq, packed);
	return DROP_NONE;
}

static instantiated frame_set deliver(struct virtq *vq, struct batch *b, frame_set set,
				      struct virtq_calls *calls, const bool packed)
{
	struct ring_stage stage;
	struct taking t;
	uint64_t frames = 0, bytes = 0;
	frame_set refused = 0;
	uint16_t used_before = vq->used_next;
	unsigned i;

	t.links = CHAIN_LINKS_MAX;
	t.used.first_at = 0;
	stage_begin(vq, &stage);
	stage_fill(vq, &stage, (unsigned)__builtin_popcount(set), VRING_DESC_F_WRITE, packed);
	batch_for_each (i, set) {
		struct frame *f = &b->frame[i];
		enum drop drop = deliver_frame(vq, b, f, &stage, &t, packed);

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
	b->pieces += CHAIN_LINKS_MAX - t.links;
	if (packed ? t.used.first_at != 0 : vq->used_next != used_before) {
		ring_publish(vq, &t.used, packed);
		virtq_calls_add(calls, vq);
	}
	return refused;
}

frame_set virtq_deliver(struct virtq *vq, struct batch *b, frame_set set, struct virtq_calls *calls)
{
	frame_set refused = 0;

	pthread_mutex_lock(&vq->lock);
	if (unlikely(vq->state != VIRTQ_RUNNING))
		count(&vq->stats.dropped[DROP_PORT_DOWN], (uint64_t)__builtin_popcount(set));
	else if (vq->packed)
		refused = deliver(vq, b, set, calls, true);
	else
		refused = deliver(vq, b, set, calls, false);
	pthread_mutex_unlock(&vq->lock);
	return refused;
}
