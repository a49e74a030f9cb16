// SPDX-License-Identifier: Apache-2.0
/*
 * Finishing checksums and making segments, during the one copy.
 *
 * The payload is copied first, each word loaded once, added and stored, so that the sum is of what
 * the receiver got, whatever the sender does to its buffer meanwhile. Then the headers, which are
 * private and in the snapshot, are completed and written in front of it.
 *
 * Segments are delivered as there are buffers for them. A frame of which some have to wait says how
 * many it has behind it, and its sender's worker holds it as one that waits whole.
 */
#include "virtq/offload.h"

#include "frame/cut.h"
#include "frame/finish.h"
#include "net/plan.h"

/* Copies `n` bytes and adds them to `sum`, unless it is NULL. */
static void transfer(struct source *from, struct cursor *to, uint32_t n, struct checksum *sum)
{
	while (n) {
		uint32_t part, stored;
		uintptr_t at = source_next(from, n, &part);

		for (n -= part; part; at += stored, part -= stored) {
			uintptr_t dest = cursor_next(to, part, &stored);

			if (sum)
				guest_copy_sum(sum, dest, at, stored);
			else
				guest_copy(dest, at, stored);
		}
	}
}

/* Buffers for a segment of `len` bytes; on DROP_NONE they are in `t`. */
static enum drop take_segment(struct virtq *vq, struct ring_stage *stage, uint32_t len,
			      struct taking *t)
{
	const struct ring_entry *e = next_entry(vq, stage);

	return e ? take(vq, stage, e, (uint64_t)vq->hdr_len + len, t) : DROP_FULL;
}

/* Where the payload goes, behind headers that are written later. */
static struct cursor behind(const struct virtq *vq, const struct taking *t, uint32_t head_len)
{
	struct cursor to = { .span = t->span };

	cursor_skip(&to, vq->hdr_len + head_len);
	return to;
}

static void write_head(struct virtq *vq, struct taking *t, const struct virtio_net_hdr *hdr,
		       const uint8_t *head, uint32_t head_len, uint32_t len)
{
	struct virtio_net_hdr_mrg_rxbuf full = { .hdr = *hdr, .num_buffers = (uint16_t)t->chains };
	struct cursor to = { .span = t->span };

	cursor_write(&to, &full, vq->hdr_len);
	cursor_write(&to, head, head_len);
	put_used(vq, t, (uint64_t)vq->hdr_len + len);
}

/* Into one stretch of memory, as nearly all frames are. */
static void finish_whole(const struct virtq *vq, const struct batch *b, const struct frame *f,
			 uintptr_t to)
{
	static const struct virtio_net_hdr_mrg_rxbuf plain = { .num_buffers = 1 };
	uintptr_t frame = to + vq->hdr_len, rest = frame + f->head_len;
	struct checksum sum = finish_begin(f);
	uint16_t value;

	put_header(vq, to, &plain);
	guest_copy_out(frame, f->head, f->head_len);
	for (unsigned i = 0; i < f->spans; i++) {
		const struct span *s = &b->span[f->span + i];

		guest_copy_sum(&sum, rest, s->at, s->len);
		rest += s->len;
	}
	value = checksum_finish(&sum, f->hdr.csum_offset);
	guest_copy_out(frame + f->hdr.csum_start + f->hdr.csum_offset, &value, sizeof(value));
}

/* Into whatever the chains are made of. */
static void finish_pieces(struct virtq *vq, const struct batch *b, const struct frame *f,
			  struct taking *t)
{
	const struct virtio_net_hdr plain = { 0 };
	struct source from = source_from(b, f, f->head_len);
	struct cursor to = behind(vq, t, f->head_len);
	struct checksum sum = finish_begin(f);
	uint8_t head[SNAPSHOT_ROOM];

	transfer(&from, &to, f->len - f->head_len, &sum);
	/* A copy: the same frame may go to others in another form. */
	memcpy(head, f->head, f->head_len);
	finish_end(f, &sum, head);
	write_head(vq, t, &plain, head, f->head_len, f->len);
}

static enum drop finish(struct virtq *vq, struct batch *b, const struct frame *f,
			struct ring_stage *stage, struct taking *t)
{
	uint32_t need = (uint32_t)vq->hdr_len + f->len;
	const struct ring_entry *e;
	enum drop drop;

	if ((uint32_t)f->hdr.csum_start + f->hdr.csum_offset + sizeof(uint16_t) > f->head_len)
		return DROP_HEADER_TOO_LONG;
	if (!take_allows(vq, f->len))
		return DROP_TOO_BIG;
	e = next_entry(vq, stage);
	if (!e)
		return DROP_FULL;
	if (e->whole && e->len >= need) {
		finish_whole(vq, b, f, e->at);
		ring_use(vq, &t->used, e->head, 1, need, vq->packed);
		ring_consume(vq, vq->packed);
	} else {
		drop = take(vq, stage, e, need, t);
		if (drop)
			return drop;
		finish_pieces(vq, b, f, t);
	}
	b->summed += f->len;
	return DROP_NONE;
}

static enum drop deliver_segment(struct virtq *vq, struct source *from, const struct segments *s,
				 uint32_t i, bool finished, struct ring_stage *stage,
				 struct taking *t)
{
	struct virtio_net_hdr hdr = { 0 };
	uint8_t head[SNAPSHOT_ROOM];
	struct checksum sum = { 0 };
	struct cursor to;
	enum drop drop = take_segment(vq, stage, segment_len(s, i), t);

	if (drop)
		return drop;
	to = behind(vq, t, s->header_len);
	transfer(from, &to, segment_payload(s, i), finished ? &sum : NULL);
	segment_header(s, i, head);
	if (finished)
		segment_finish(s, head, &sum);
	else
		hdr = segment_hdr(s);
	write_head(vq, t, &hdr, head, s->header_len, segment_len(s, i));
	return DROP_NONE;
}

/* From where it was left off until there is no more room. */
static enum drop segment(struct virtq *vq, struct batch *b, struct frame *f, bool finished,
			 struct ring_stage *stage, struct taking *t)
{
	uint32_t first = f->segments, i = first;
	struct segments s;
	struct source from;
	enum drop drop = frame_cut(b, f, &s, &from);

	if (drop)
		return drop;
	if (!take_allows(vq, segment_len(&s, 0)))
		return DROP_TOO_BIG;
	for (; i < s.n && !drop; i += !drop)
		drop = deliver_segment(vq, &from, &s, i, finished, stage, t);
	count(&vq->segments, i - first);
	b->segments += i - first;
	if (finished)
		b->summed += (i - first) * s.size;
	f->segments = drop == DROP_FULL ? (uint16_t)i : 0;
	return drop;
}

enum drop deliver_converted(struct virtq *vq, struct batch *b, struct frame *f,
			    struct ring_stage *stage, struct taking *t)
{
	/* Who agreed to have it whole is here because its buffers are too small. */
	enum plan plan = plan_frame(&f->hdr, vq->features, false);
	enum drop drop = plan == PLAN_FINISH
				 ? finish(vq, b, f, stage, t)
				 : segment(vq, b, f, plan == PLAN_SEGMENT_FINISH, stage, t);

	if (drop)
		stage_begin(vq, stage);
	return drop;
}
