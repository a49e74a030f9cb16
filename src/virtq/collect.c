// SPDX-License-Identifier: Apache-2.0
/*
 * tx: from available chains to frames, and back to the driver.
 *
 * For each chain: walk it to spans, copy the virtio-net header and the first bytes to the frame's
 * snapshot, check the header there. What is bad about a chain is counted and costs that chain
 * alone; it is returned with the others, in order, or the driver would wait for it for ever.
 */
#include "frame/finish.h"
#include "net/eth.h"
#include "net/plan.h"
#include "virtq/notify.h"
#include "virtq/ring.h"

static void drop_count(struct virtq *vq, enum drop reason)
{
	count(&vq->stats.dropped[reason], 1);
}

/*
 * Copies the first bytes of the chain to `to` and moves the spans on past them. Returns how many
 * spans were consumed whole.
 */
static unsigned gather_pieces(uint8_t *to, struct span *spans, uint32_t n)
{
	unsigned done = 0;

	while (n) {
		uint32_t part = MIN(n, spans[done].len);

		guest_copy_in(to, spans[done].at, part);
		to += part;
		n -= part;
		spans[done].at += part;
		spans[done].len -= part;
		if (!spans[done].len)
			done++;
	}
	return done;
}

static inline unsigned gather(uint8_t *to, struct span *spans, uint32_t n)
{
	if (unlikely(spans[0].len < n))
		return gather_pieces(to, spans, n);
	guest_copy_in(to, spans[0].at, n);
	spans[0].at += n;
	spans[0].len -= n;
	return !spans[0].len;
}

/*
 * Headers that may have to be edited can be longer than what is copied of every frame. Returns how
 * many spans were consumed whole.
 */
static unsigned extend_head(struct frame *f, struct span *spans, uint32_t end)
{
	unsigned consumed = gather(f->head + f->head_len, spans, end - f->head_len);

	f->head_len = (uint16_t)end;
	return consumed;
}

/* One chain to one frame; on DROP_NONE it is the batch's next. */
static instantiated enum drop collect_chain(struct virtq *vq, struct batch *b,
					    const struct ring_entry *e, unsigned *links)
{
	struct frame *f = &b->frame[b->n];
	struct span *spans = &b->span[b->spans];
	uint8_t *hdr = b->snapshot[b->n] + VNET_HDR_LEN - vq->hdr_len;
	unsigned n, consumed;
	uint32_t edit_end;
	uint64_t total;
	enum drop drop;

	drop = entry_walk(vq, e, 0, spans, BATCH_SPANS - b->spans, links, &n, &total);
	if (unlikely(drop))
		return drop;
	if (unlikely(total < vq->hdr_len))
		return DROP_HEADER_SHORT;
	total -= vq->hdr_len;
	if (unlikely(total < ETH_HEADER_LEN))
		return DROP_FRAME_SHORT;
	if (unlikely(total > FRAME_LEN_MAX))
		return DROP_FRAME_LONG;

	/* A legacy header is shorter; the frame begins at the same place all the same. */
	f->len = (uint32_t)total;
	f->head = b->snapshot[b->n] + VNET_HDR_LEN;
	f->head_len = (uint16_t)MIN(f->len, SNAPSHOT_COPIED - vq->hdr_len);
	consumed = gather(hdr, spans, (uint32_t)vq->hdr_len + f->head_len);
	drop = frame_take_header(f, hdr, vq->features);
	if (unlikely(drop))
		return drop;
	edit_end = frame_edit_end(f);
	if (unlikely(edit_end > f->head_len))
		consumed += extend_head(f, spans + consumed, edit_end);
	f->span = (uint16_t)(b->spans + consumed);
	f->spans = (uint16_t)(n - consumed);
	f->hashed = false;
	if (unlikely(!f->plain && plan_finish_for_all(&f->hdr, f->head, f->head_len)))
		frame_finish(b, f);
	if (f->spans)
		b->spans += n;
	b->bytes += f->len;
	b->n++;
	return DROP_NONE;
}

/* A head outside a split ring names no chain that could be returned. */
static instantiated void consume(struct virtq *vq, struct batch *b, const struct ring_entry *e,
				 const bool packed)
{
	if (likely(packed || !e->bad)) {
		b->chain[b->chains].head = e->head;
		b->chain[b->chains++].slots = e->slots;
	}
	ring_consume(vq, e->slots, packed);
}

/*
 * A queue that the guest has disabled: its chains are returned unread, so that a driver which waits
 * for them can go on.
 */
static void drain(struct virtq *vq, struct batch *b, const struct ring_stage *stage)
{
	for (unsigned i = 0; i < stage->n; i++) {
		const struct ring_entry *e = &stage->entry[i];

		drop_count(vq, e->bad ? DROP_CHAIN_HEAD : DROP_QUEUE_DISABLED);
		consume(vq, b, e, vq->packed);
	}
}

static instantiated void collect(struct virtq *vq, struct batch *b, const struct ring_stage *stage,
				 const bool packed)
{
	unsigned links = CHAIN_LINKS_MAX;

	for (unsigned i = 0; i < stage->n && b->bytes < BATCH_BYTES; i++) {
		const struct ring_entry *e = &stage->entry[i];
		bool alone = !b->spans && links == CHAIN_LINKS_MAX;
		enum drop drop = collect_chain(vq, b, e, &links);

		if (unlikely(drop)) {
			if (drop == DROP_CHAIN_PIECES && !alone)
				break; /* perhaps it fits into a batch of its own: the next */
			drop_count(vq, drop);
		}
		consume(vq, b, e, packed);
	}
	count(&vq->stats.frames, b->n);
	count(&vq->stats.bytes, b->bytes);
}

/* True: chains were taken. */
static instantiated bool fill(struct virtq *vq, struct batch *b, const bool packed)
{
	struct ring_stage stage;

	stage_begin(vq, &stage);
	if (!stage_fill(vq, &stage, BATCH_FRAMES, 0, packed))
		return false;
	b->n = b->spans = b->chains = b->bytes = 0;
	if (likely(vq->state == VIRTQ_RUNNING))
		collect(vq, b, &stage, packed);
	else
		drain(vq, b, &stage);
	return true;
}

bool virtq_collect(struct virtq *vq, struct batch *b)
{
	bool taken = false;

	pthread_mutex_lock(&vq->lock);
	if (virtq_active(vq->state))
		taken = vq->packed ? fill(vq, b, true) : fill(vq, b, false);
	if (!taken)
		pthread_mutex_unlock(&vq->lock);
	return taken;
}

static instantiated void give_back(struct virtq *vq, const struct batch *b, const bool packed)
{
	struct used_list list;

	used_list_begin(&list);
	for (unsigned i = 0; i < b->chains; i++)
		ring_use(vq, &list, b->chain[i].head, b->chain[i].slots, 0, packed);
	ring_publish(vq, &list, packed);
}

void virtq_complete(struct virtq *vq, const struct batch *b, struct virtq_calls *calls)
{
	if (vq->packed)
		give_back(vq, b, true);
	else
		give_back(vq, b, false);
	virtq_calls_add(calls, vq);
	pthread_mutex_unlock(&vq->lock);
}
