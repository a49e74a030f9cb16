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

/* What was collected in this turn, by itself so that it can be kept in registers. */
struct progress {
	unsigned n, spans, chains, links;
	uint32_t bytes;
};

/* What a chain holds, and what of it is not copied yet: `n` spans from spans[first] on. */
struct taken {
	uint64_t len;
	unsigned first, n;
};

/* Copies the first bytes of a chain, virtio-net header included, to `to`. */
static enum drop take_pieces(const struct virtq *vq, const struct ring_entry *e, uint8_t *to,
			     struct span *spans, unsigned max, unsigned *links, struct taken *ret)
{
	enum drop drop = entry_walk(vq, e, 0, spans, max, links, &ret->n, &ret->len);

	if (likely(!drop && ret->n))
		ret->first = gather(to, spans, (uint32_t)MIN(ret->len, (uint64_t)SNAPSHOT_COPIED));
	return drop;
}

static instantiated enum drop take_first(const struct virtq *vq, const struct ring_entry *e,
					 uint8_t *to, struct span *spans, struct progress *p,
					 struct taken *ret)
{
	if (likely(e->whole && p->spans < BATCH_SPANS)) {
		uint32_t n = MIN(e->len, SNAPSHOT_COPIED);

		guest_copy_in(to, e->at, n);
		spans[0] = (struct span){ .at = e->at + n, .len = e->len - n };
		*ret = (struct taken){ .len = e->len, .n = e->len > n };
		return DROP_NONE;
	}
	struct taken taken = { 0 };
	unsigned links = p->links;
	enum drop drop = take_pieces(vq, e, to, spans, BATCH_SPANS - p->spans, &links, &taken);

	p->links = links;
	*ret = taken;
	return drop;
}

/*
 * Headers that may have to be edited can be longer than what is copied of every frame. Returns how
 * many spans were consumed whole.
 */
static unsigned extend_head(struct frame *f, struct span *spans)
{
	uint32_t end = frame_edit_end(f), more = end - f->head_len;

	if (end <= f->head_len)
		return 0;
	f->head_len = (uint16_t)end;
	return gather(f->head + f->head_len - more, spans, more);
}

static enum drop bad_length(uint64_t total, unsigned hdr_len)
{
	if (total < hdr_len)
		return DROP_HEADER_SHORT;
	return total > FRAME_LEN_MAX ? DROP_FRAME_LONG : DROP_FRAME_SHORT;
}

/* One chain to one frame; on DROP_NONE it is the batch's next. */
static instantiated enum drop collect_chain(const struct virtq *vq, struct batch *b,
					    const struct ring_entry *e, struct progress *p)
{
	const unsigned hdr_len = vq->hdr_len;
	struct frame *f = &b->frame[p->n];
	struct span *spans = &b->span[p->spans];
	/* A legacy header is shorter; the frame begins at the same place all the same. */
	uint8_t *head = b->snapshot[p->n] + VNET_HDR_LEN;
	struct taken t;
	enum drop drop = take_first(vq, e, head - hdr_len, spans, p, &t);

	if (unlikely(drop))
		return drop;
	/* Less than nothing is more than any length. */
	if (unlikely(t.len - hdr_len - ETH_HEADER_LEN > FRAME_LEN_MAX - ETH_HEADER_LEN))
		return bad_length(t.len, hdr_len);
	f->len = (uint32_t)t.len - hdr_len;
	f->head = head;
	f->head_len = (uint16_t)MIN(f->len, SNAPSHOT_COPIED - hdr_len);
	f->segments = 0;
	f->hashed = false;
	drop = frame_take_header(f, head - hdr_len, vq->features);
	if (unlikely(drop))
		return drop;
	if (unlikely(!f->plain))
		t.first += extend_head(f, spans + t.first);
	f->span = (uint16_t)(p->spans + t.first);
	f->spans = (uint16_t)(t.n - t.first);
	if (unlikely(!f->plain && plan_finish_for_all(&f->hdr, f->head, f->head_len)))
		frame_finish(b, f);
	if (f->spans)
		p->spans += t.n;
	p->bytes += f->len;
	p->n++;
	return DROP_NONE;
}

/* A head outside a split ring names no chain that could be returned. */
static instantiated void consume(struct virtq *vq, struct batch *b, const struct ring_entry *e,
				 unsigned *chains, const bool packed)
{
	if (likely(packed || !entry_bad(e))) {
		b->chain[*chains].head = e->head;
		if (packed)
			b->chain[*chains].slots = e->slots;
		++*chains;
	}
	ring_consume(vq, packed);
}

/*
 * A queue that the guest has disabled: its chains are returned unread, so that a driver which waits
 * for them can go on.
 */
static void drain(struct virtq *vq, struct batch *b, const struct ring_stage *stage)
{
	for (unsigned i = 0; i < stage->n; i++) {
		const struct ring_entry *e = &stage->entry[i];

		drop_count(vq, entry_bad(e) ? DROP_CHAIN_HEAD : DROP_QUEUE_DISABLED);
		consume(vq, b, e, &b->chains, vq->packed);
	}
}

static instantiated void collect(struct virtq *vq, struct batch *b, const struct ring_stage *stage,
				 const bool packed)
{
	struct progress p = { .links = CHAIN_LINKS_MAX };

	for (unsigned i = 0; i < stage->n && p.bytes < BATCH_BYTES; i++) {
		const struct ring_entry *e = &stage->entry[i];
		unsigned links = p.links;
		enum drop drop = collect_chain(vq, b, e, &p);

		if (unlikely(drop)) {
			bool alone = !p.spans && links == CHAIN_LINKS_MAX;

			if (drop == DROP_CHAIN_PIECES && !alone)
				break; /* perhaps it fits into a batch of its own: the next */
			drop_count(vq, drop);
		}
		consume(vq, b, e, &p.chains, packed);
	}
	b->n = p.n;
	b->spans = p.spans;
	b->chains = p.chains;
	b->bytes = p.bytes;
	b->pieces = CHAIN_LINKS_MAX - p.links;
	count(&vq->stats.frames, p.n);
	count(&vq->stats.bytes, p.bytes);
}

/* True: chains were taken. */
static instantiated bool fill(struct virtq *vq, struct batch *b, const bool packed)
{
	struct ring_stage stage;

	stage_begin(vq, &stage);
	if (!stage_fill(vq, &stage, BATCH_FRAMES, 0, packed))
		return false;
	batch_begin(b);
	/* Its state does not say: the ring may have been broken by what comes behind these. */
	if (likely(vq->enabled))
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
	struct used_list list = { 0 };

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
