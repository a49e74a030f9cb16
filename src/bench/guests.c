// SPDX-License-Identifier: Apache-2.0
/* The guests at work: frames in and out. Everything here costs time of the measured kind. */
#include "bench/guests.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"

#define BURST	     32
#define ANNOUNCEMENT 0x88b5 /* ethertype: local experimental */

/* Bytes of frame `number` and its virtio-net header. */
static inline uint32_t length_of(const struct guests *g, uint32_t number)
{
	static const uint32_t imix[12] = { 64, 570, 64, 64, 570, 64, 1518, 64, 570, 64, 64, 570 };

	if (likely(g->config->size != GUESTS_IMIX))
		return g->frame;
	return imix[number % ARRAY_SIZE(imix)] + (uint32_t)sizeof(struct virtio_net_hdr_mrg_rxbuf);
}

/* One of the guest's addresses, and the same one of the other's. */
static inline void pick_mac(struct stamp *s, unsigned macs, uint32_t number)
{
	uint16_t mac = (uint16_t)((uint64_t)(number * 2654435761u) * macs >> 32);

	memcpy(s->src + 3, &mac, sizeof(mac));
	memcpy(s->dst + 3, &mac, sizeof(mac));
}

/* Makes the buffer's first cache line the next frame of the lane's flow. Returns its length. */
static inline uint32_t stamp(struct guests *g, struct lane *lane, struct stamp *s)
{
	struct flow *flow = lane->flow;
	uint32_t number = flow->sent++, len = length_of(g, number);

	memcpy(s, &flow->stamp, STAMP_LINE);
	s->number = number;
	if (g->config->macs > 1)
		pick_mac(s, g->config->macs, number);
	if (unlikely(g->config->size == GUESTS_IMIX))
		frames_set_length(s, len);
	if (unlikely(flow->kept != NULL))
		flow->kept[number % SENT_KEPT] = (struct sent){ clock_cycles(), g->asked };
	return len;
}

static void note_latency(struct guests *g, const struct lane *lane, const struct sent *sent)
{
	uint64_t now = clock_cycles();

	if (lane->guest == 1) {
		g->asked = sent->when;
		histogram_add(&g->times->one_way, now - sent->when);
	} else if (sent->asked) {
		histogram_add(&g->times->round_trip, now - sent->asked);
	}
}

/* Counts an arrived frame; false if it is none of ours, whole. */
static inline bool account(struct guests *g, const struct lane *lane, const struct stamp *s,
			   uint32_t len)
{
	struct flow *flow;
	uint32_t ahead;

	if (len < STAMP_LINE || s->magic != FRAMES_MAGIC || s->ethertype != htons(FRAMES_IPV4) ||
	    s->flow >= g->lanes || g->lane[s->flow].guest == lane->guest ||
	    len != length_of(g, s->number))
		return false;
	flow = &g->flow[s->flow];
	ahead = s->number - flow->expected;
	if (likely(ahead == 0)) {
		flow->expected++;
	} else if (ahead <= flow->sent - flow->expected) {
		g->lost += ahead;
		flow->expected = s->number + 1;
	} else if (g->lost) {
		g->lost--; /* late, and so taken for lost before */
	}
	g->received++;
	if (unlikely(flow->kept != NULL))
		note_latency(g, lane, &flow->kept[s->number % SENT_KEPT]);
	return true;
}

/* Where piece `i` of a frame in these buffers begins. */
static inline uint8_t *piece_at(const struct guests *g, void *const *buffer, unsigned i)
{
	return g->config->form.mergeable ? buffer[i] : (uint8_t *)buffer[0] + (size_t)i * g->piece;
}

/* What `data` adds: all but the first cache line, out or in. */
static void touch(const struct guests *g, void *const *buffer, uint32_t len, bool in)
{
	uint32_t at = STAMP_LINE;
	unsigned i = 0;

	for (uint32_t left = len; left; i++) {
		uint32_t part = MIN(left, g->piece), skip = i ? 0 : MIN(part, at);
		uint8_t *from = piece_at(g, buffer, i) + skip,
			*to = g->scratch + (len - left) + skip;

		if (in)
			memcpy(from, to, part - skip);
		else
			memcpy(to, from, part - skip);
		left -= part;
	}
}

static inline void free_chain(struct lane *lane, struct chain *chain)
{
	for (unsigned i = 0; i < chain->n; i++)
		lane->spare[lane->spares++] = chain->buffer[i];
	chain->next = lane->free;
	lane->free = chain;
}

static void collect_spares(const struct guests *g, struct lane *lane)
{
	struct driver_done done[BURST];
	unsigned n;

	while ((n = ring_take(lane->tx, done, BURST))) {
		for (unsigned i = 0; i < n; i++) {
			if (likely(g->plain))
				lane->spare[lane->spares++] = done[i].token;
			else
				free_chain(lane, done[i].token);
		}
	}
}

/* A chain for a frame in `n` buffers. There is room. */
static void send_chain(const struct guests *g, struct lane *lane, void *const *buffer, unsigned n,
		       uint32_t len)
{
	struct driver_piece pieces[FRAME_BUFFERS_MAX];
	struct chain *chain = lane->free;
	bool indirect = g->config->form.indirect;
	unsigned k = 0;

	lane->free = chain->next;
	chain->n = n;
	memcpy(chain->buffer, buffer, n * sizeof(*buffer));
	for (unsigned i = 0; len; i++) {
		uint32_t part = MIN(len, g->piece), head = sizeof(struct virtio_net_hdr_mrg_rxbuf);
		uint8_t *at = piece_at(g, buffer, i);

		len -= part;
		if (indirect && !i) {
			pieces[k++] = (struct driver_piece){ at, head };
			at += head;
			part -= head;
		}
		pieces[k++] = (struct driver_piece){ at, part };
	}
	if (ring_add(lane->tx, pieces, k, 0, indirect, chain))
		free_chain(lane, chain);
}

static unsigned buffers_of(const struct guests *g, uint32_t len)
{
	return g->config->form.mergeable ? (len + g->buffer - 1) / g->buffer : 1;
}

void guests_post(struct guests *g, struct lane *lane)
{
	struct driver_piece pieces[FRAME_BUFFERS_MAX];
	unsigned n = MIN(lane->spares, ring_room(lane->rx));

	if (likely(g->piece == g->buffer)) {
		lane->spares -= n;
		ring_add_buffers(lane->rx, lane->spare + lane->spares, n, g->buffer, true);
		ring_flush(lane->rx);
		return;
	}
	while (lane->spares) {
		void *buffer = lane->spare[lane->spares - 1];

		for (n = 0; n < g->buffer / g->piece; n++)
			pieces[n] = (struct driver_piece){ piece_at(g, &buffer, n), g->piece };
		if (ring_add(lane->rx, pieces, 0, n, g->config->form.indirect, buffer))
			break;
		lane->spares--;
	}
	ring_flush(lane->rx);
}

/* A new frame of `len` bytes with the flow's stamp; false if there is no room. */
static bool send_new(struct guests *g, struct lane *lane, uint32_t len)
{
	unsigned n = buffers_of(g, len);
	void **buffer;

	collect_spares(g, lane);
	if (lane->spares < n || ring_room(lane->tx) < g->slots)
		return false;
	lane->spares -= n;
	buffer = lane->spare + lane->spares;
	if (g->config->data)
		touch(g, buffer, len, true);
	stamp(g, lane, buffer[0]);
	if (g->plain)
		ring_add_buffers(lane->tx, buffer, 1, len, false);
	else
		send_chain(g, lane, buffer, n, len);
	return true;
}

bool guests_send(struct guests *g, struct lane *lane)
{
	return send_new(g, lane, length_of(g, lane->flow->sent));
}

void guests_announce(struct guests *g, struct lane *lane)
{
	struct flow *flow = lane->flow, kept = *flow;
	struct stamp *s = &flow->stamp;

	memset(&s->vnet, 0, sizeof(s->vnet));
	memset(s->dst, 0xff, sizeof(s->dst));
	s->ethertype = htons(ANNOUNCEMENT);
	if (send_new(g, lane, GUESTS_SIZE_MIN + sizeof(s->vnet)))
		ring_flush(lane->tx);
	*flow = kept;
}

static unsigned turn_plain(struct guests *g, struct lane *lane)
{
	struct driver_done done[BURST];
	void *back[BURST];
	bool echo = g->echo[lane->guest], data = g->config->data,
	     imix = g->config->size == GUESTS_IMIX;
	unsigned n = ring_take(lane->rx, done, MIN(BURST, ring_room(lane->tx))), sent = 0;

	for (unsigned i = 0; i < n; i++)
		prefetch_write(done[i].token);
	ring_prefetch_room(lane->tx, n);
	ring_prefetch_room(lane->rx, n);
	for (unsigned i = 0; i < n; i++) {
		struct stamp *s = done[i].token;
		uint32_t len = done[i].len;
		bool ours = account(g, lane, s, len);

		if (data && len > STAMP_LINE)
			memcpy(g->scratch, (uint8_t *)s + STAMP_LINE, len - STAMP_LINE);
		if (unlikely(!ours || !echo)) {
			lane->spare[lane->spares++] = s;
			continue;
		}
		if (data)
			memcpy((uint8_t *)s + STAMP_LINE, g->scratch,
			       length_of(g, lane->flow->sent) - STAMP_LINE);
		len = stamp(g, lane, s);
		if (unlikely(imix))
			ring_add_buffers(lane->tx, (void **)&s, 1, len, false);
		else
			back[sent++] = s;
	}
	ring_add_buffers(lane->tx, back, sent, g->frame, false);
	return n;
}

/* A frame with all its buffers. False if none is there, or if the device promised more than it
 * used. */
static bool take_frame(const struct guests *g, struct lane *lane, struct chain *ret,
		       uint32_t *ret_len)
{
	struct driver_done done;
	unsigned n = 1;

	if (!ring_take(lane->rx, &done, 1))
		return false;
	ret->buffer[0] = done.token;
	*ret_len = done.len;
	if (g->config->form.mergeable)
		n = ((struct stamp *)done.token)->vnet.num_buffers;
	for (ret->n = 1; ret->n < n; ret->n++) {
		if (n > FRAME_BUFFERS_MAX || !ring_take(lane->rx, &done, 1)) {
			ring_break(lane->rx, "num_buffers is more than was used");
			return false;
		}
		ret->buffer[ret->n] = done.token;
		*ret_len += done.len;
	}
	return true;
}

static unsigned turn_chains(struct guests *g, struct lane *lane)
{
	struct chain frame;
	uint32_t len;
	unsigned n = 0;

	for (; n < BURST && ring_room(lane->tx) >= g->slots && take_frame(g, lane, &frame, &len);
	     n++) {
		struct stamp *s = frame.buffer[0];
		bool whole = account(g, lane, s, len) && frame.n == buffers_of(g, len);

		if (whole && g->config->data)
			touch(g, frame.buffer, len, false);
		if (!whole || !g->echo[lane->guest]) {
			while (frame.n)
				lane->spare[lane->spares++] = frame.buffer[--frame.n];
			continue;
		}
		len = length_of(g, lane->flow->sent);
		if (g->config->data)
			touch(g, frame.buffer, len, true);
		stamp(g, lane, s);
		send_chain(g, lane, frame.buffer, frame.n, len);
	}
	return n;
}

unsigned guests_turn(struct guests *g, struct lane *lane)
{
	unsigned n;

	if (!ring_pending(lane->rx))
		return 0;
	collect_spares(g, lane);
	n = g->plain ? turn_plain(g, lane) : turn_chains(g, lane);
	ring_flush(lane->tx);
	guests_post(g, lane);
	return n;
}

uint32_t guests_under_way(const struct guests *g)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < g->lanes; i++)
		n += g->flow[i].sent - g->flow[i].expected;
	return n;
}

void guests_give_up(struct guests *g)
{
	g->lost += guests_under_way(g);
	for (unsigned i = 0; i < g->lanes; i++)
		g->flow[i].expected = g->flow[i].sent;
}

struct guests_waiting guests_waiting(struct guests *g)
{
	struct guests_waiting w = { 0 };

	for (unsigned i = 0; i < g->lanes; i++) {
		collect_spares(g, &g->lane[i]);
		w.untaken[g->lane[i].guest] += ring_outstanding(g->lane[i].tx);
	}
	/* Only now: a chain is returned when its frame is there. */
	for (unsigned i = 0; i < g->lanes; i++)
		w.unread[g->lane[i].guest] += ring_pending(g->lane[i].rx) > 0;
	return w;
}

int guests_check(const struct guests *g, struct error *err)
{
	for (unsigned i = 0; i < 2; i++) {
		const char *broken = driver_broken(g->driver[i]);

		if (broken)
			return error_set(err, EPROTO, "port %c %s", "AB"[i], broken);
	}
	return 0;
}
