/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both guests of a switch, played by one polling thread.
 *
 * A closed loop: a fixed number of frames is under way, and what arrives at one guest is sent back
 * to the other from the same buffer, as a forwarding guest would. So both directions are loaded,
 * the switch is never flooded, and each frame that is missing is noticed: frames of a flow carry
 * numbers, and a gap is a loss, which is made good by a new frame. The thread never asks for calls
 * and kicks only when the switch wants it, so that a poll-mode switch and one that sleeps are both
 * treated as a busy guest would.
 *
 * The first cache line of a buffer holds the virtio-net header, Ethernet, IPv4 and UDP headers and
 * the number: it is read at arrival and written anew at sending. With `data` the rest is copied
 * out and in as well.
 */
#include "cmd/bench_load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "driver/driver.h"

#define BURST	     32
#define LINE	     64
#define MAGIC	     0x52574c44u
#define WARM_UP	     0.1     /* of the measured time */
#define STALL_US     200000  /* without any arrival: what is under way is lost */
#define DRAIN_US     1000000 /* that frames under way at the end have to arrive */
#define PREEMPTED_US 1000    /* no turn takes so long: the kernel ran somebody else */
#define TOP_UP_TURNS 1024    /* between looks for losses to make good */
#define PATH_TRIES   500
#define PATH_TRY_US  10000

/* What the first cache line of a buffer holds. */
struct stamp {
	struct virtio_net_hdr_mrg_rxbuf vnet;
	uint8_t dst[6], src[6];
	uint16_t ethertype;
	uint8_t version, tos;
	uint16_t total_len, id, fragment;
	uint8_t ttl, protocol;
	uint16_t ip_csum;
	uint32_t ip_src, ip_dst;
	uint16_t src_port, dst_port, udp_len, udp_csum;
	uint32_t number;
	uint16_t flow; /* index in load.flow of the sender's */
	uint32_t magic;
} __attribute__((packed));

_Static_assert(sizeof(struct stamp) == LINE, "the stamp is a cache line");

struct flow {
	struct stamp stamp cache_aligned;
	uint32_t sent;	   /* number of the next frame to send */
	uint32_t expected; /* of the next to arrive; earlier ones arrived or are lost */
};

/* A queue pair of one guest. */
struct lane {
	struct driver_ring *rx, *tx;
	void **spare; /* buffers that are in no ring */
	unsigned spares;
	struct flow *flow; /* that it sends */
};

struct load {
	const struct load_config *config;
	struct driver *driver[2];
	struct lane *lane; /* of guest A, then of B */
	struct flow *flow; /* same order */
	unsigned lanes;	   /* of both */
	uint32_t buffer;   /* bytes of an rx buffer */
	uint32_t frame;	   /* bytes of a frame and its virtio-net header */
	uint64_t received, lost;
	uint8_t *scratch;
	bool echo; /* what arrives is sent back */
};

/* Makes the buffer the next frame of the lane's flow. */
static inline void stamp(struct load *l, struct lane *lane, void *buffer)
{
	struct flow *flow = lane->flow;
	struct stamp *s = buffer;

	*s = flow->stamp;
	s->number = flow->sent++;
	if (l->config->data)
		memcpy(s + 1, l->scratch, l->frame - LINE);
}

/* Counts an arrived frame; false if it is none of ours, whole. */
static inline bool account(struct load *l, const struct stamp *s, uint32_t len, unsigned guest)
{
	struct flow *flow;
	uint32_t ahead;

	if (len != l->frame || s->magic != MAGIC || s->flow >= l->lanes ||
	    (s->flow >= l->config->queues) == (guest == 1))
		return false;
	flow = &l->flow[s->flow];
	ahead = s->number - flow->expected;
	if (likely(ahead == 0)) {
		flow->expected++;
	} else if (ahead <= flow->sent - flow->expected) {
		l->lost += ahead;
		flow->expected = s->number + 1;
	} else if (l->lost) {
		l->lost--; /* late, and so taken for lost before */
	}
	l->received++;
	return true;
}

static void collect_spares(struct lane *lane)
{
	struct driver_done done[BURST];
	unsigned n;

	while ((n = ring_take(lane->tx, done, BURST))) {
		for (unsigned i = 0; i < n; i++)
			lane->spare[lane->spares++] = done[i].token;
	}
}

static void post_spares(struct load *l, struct lane *lane)
{
	unsigned n = MIN(lane->spares, ring_room(lane->rx));

	lane->spares -= n;
	ring_add_buffers(lane->rx, lane->spare + lane->spares, n, l->buffer, true);
	ring_flush(lane->rx);
}

/* Receives a burst and sends it back. Returns how many frames arrived. */
static unsigned turn(struct load *l, unsigned guest, struct lane *lane)
{
	struct driver_done done[BURST];
	void *back[BURST];
	unsigned n, sent = 0;

	if (!ring_pending(lane->rx))
		return 0;
	collect_spares(lane);
	n = ring_take(lane->rx, done, MIN(BURST, ring_room(lane->tx)));
	for (unsigned i = 0; i < n; i++)
		prefetch_write(done[i].token);
	ring_prefetch_room(lane->tx, n);
	ring_prefetch_room(lane->rx, n);
	for (unsigned i = 0; i < n; i++) {
		struct stamp *s = done[i].token;
		bool ours = account(l, s, done[i].len, guest);

		if (l->config->data && done[i].len > LINE)
			memcpy(l->scratch, s + 1, done[i].len - LINE);
		if (likely(ours && l->echo)) {
			stamp(l, lane, s);
			back[sent++] = s;
		} else {
			lane->spare[lane->spares++] = s;
		}
	}
	ring_add_buffers(lane->tx, back, sent, l->frame, false);
	ring_flush(lane->tx);
	post_spares(l, lane);
	return n;
}

static uint32_t under_way(const struct load *l)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < l->lanes; i++)
		n += l->flow[i].sent - l->flow[i].expected;
	return n;
}

/* Sends new frames until the window is full again. */
static unsigned top_up(struct load *l)
{
	unsigned lanes = l->config->oneway ? l->config->queues : l->lanes, n = 0;
	uint32_t window = l->config->window, missing = window - MIN(window, under_way(l));

	for (unsigned i = 0; i < lanes && missing; i++) {
		struct lane *lane = &l->lane[i];
		uint32_t share = (missing + lanes - i - 1) / (lanes - i);

		collect_spares(lane);
		missing -= share;
		for (; share && lane->spares && ring_room(lane->tx); share--, n++) {
			void *buffer = lane->spare[--lane->spares];

			stamp(l, lane, buffer);
			ring_add_buffers(lane->tx, &buffer, 1, l->frame, false);
		}
		ring_flush(lane->tx);
	}
	return n;
}

/* Nothing arrives any more: give up what is under way. */
static void give_up(struct load *l)
{
	l->lost += under_way(l);
	for (unsigned i = 0; i < l->lanes; i++)
		l->flow[i].expected = l->flow[i].sent;
}

static int check_rings(const struct load *l, struct error *err)
{
	for (unsigned i = 0; i < 2; i++) {
		const char *broken = driver_broken(l->driver[i]);

		if (broken)
			return error_set(err, EPROTO, "port %c %s", "AB"[i], broken);
	}
	return 0;
}

/*
 * Runs for `cycles`, sending anew if `refill`, else until nothing is under way. Adds the cycles of
 * turns that moved frames to *busy.
 */
static void run(struct load *l, uint64_t cycles, bool refill, uint64_t *busy)
{
	uint64_t start = clock_cycles(), last = start, arrival = start;
	uint64_t stall = STALL_US * clock_cycles_per_us();
	uint64_t preempted = PREEMPTED_US * clock_cycles_per_us();
	unsigned turns = 0;

	while (last - start < cycles && (refill || under_way(l))) {
		unsigned moved = 0;
		uint64_t now;

		for (unsigned i = 0; i < l->lanes; i++)
			moved += turn(l, i >= l->config->queues, &l->lane[i]);
		if (refill && (l->config->oneway || ++turns % TOP_UP_TURNS == 0))
			moved += top_up(l);
		now = clock_cycles();
		if (moved) {
			*busy += now - last < preempted ? now - last : 0;
			arrival = now;
		} else if (refill && now - arrival > stall) {
			give_up(l);
			top_up(l);
			arrival = now;
		}
		last = now;
	}
}

static uint16_t ip_checksum(const void *header)
{
	uint16_t words[10];
	uint32_t sum = 0;

	memcpy(words, header, sizeof(words));
	for (unsigned i = 0; i < ARRAY_SIZE(words); i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

/* Flow `index`: from guest A's or B's queue to the other's. */
static void make_flow(struct load *l, unsigned index)
{
	unsigned queues = l->config->queues, guest = index >= queues,
		 queue = index - guest * queues;
	struct stamp *s = &l->flow[index].stamp;

	*s = (struct stamp){ .ethertype = htons(0x0800),
			     .version = 0x45,
			     .ttl = 64,
			     .protocol = 17,
			     .flow = (uint16_t)index,
			     .magic = MAGIC };
	memcpy(s->src, (uint8_t[]){ 2, 0, 0, 0, 0, (uint8_t)(0xa + guest) }, 6);
	memcpy(s->dst, (uint8_t[]){ 2, 0, 0, 0, 0, (uint8_t)(0xb - guest) }, 6);
	s->total_len = htons((uint16_t)(l->config->size - 14));
	s->udp_len = htons((uint16_t)(l->config->size - 34));
	s->ip_src = htonl(0x0a000001 + guest);
	s->ip_dst = htonl(0x0a000002 - guest);
	s->src_port = s->dst_port = htons((uint16_t)(1024 + queue));
	s->ip_csum = ip_checksum(&s->version);
}

static int make_lane(struct load *l, unsigned index)
{
	struct driver *d = l->driver[index >= l->config->queues];
	unsigned pair = index % l->config->queues;
	struct driver_pool *rx = &d->pool[DRIVER_RX(pair)], *tx = &d->pool[DRIVER_TX(pair)];
	struct lane *lane = &l->lane[index];

	lane->rx = &d->ring[DRIVER_RX(pair)];
	lane->tx = &d->ring[DRIVER_TX(pair)];
	lane->flow = &l->flow[index];
	lane->spare = calloc(rx->n + tx->n, sizeof(*lane->spare));
	if (!lane->spare)
		return -ENOMEM;
	memcpy(lane->spare, tx->free, tx->n * sizeof(*tx->free));
	memcpy(lane->spare + tx->n, rx->free, rx->n * sizeof(*rx->free));
	lane->spares = rx->n + tx->n;
	for (unsigned i = 0; i < lane->spares; i++)
		memset(lane->spare[i], 0, l->buffer); /* the pages exist before it counts */
	ring_calls_off(lane->rx);
	ring_calls_off(lane->tx);
	post_spares(l, lane);
	return 0;
}

static int set_up(struct load *l, struct error *err)
{
	const struct load_config *c = l->config;
	struct driver_config guest = { .pairs = c->queues, .quirks = DRIVER_NO_RX_BUFFERS };
	int rc;

	l->lanes = 2 * c->queues;
	l->frame = c->size + (uint32_t)sizeof(struct virtio_net_hdr_mrg_rxbuf);
	l->buffer = MAX(2048u, l->frame);
	guest.rx_buffer = guest.tx_buffer = l->buffer;
	for (unsigned i = 0; i < 2; i++) {
		guest.connect = c->socket[i];
		rc = driver_open(&guest, &l->driver[i], err);
		if (rc)
			return rc;
		if (l->driver[i]->hdr_len != sizeof(struct virtio_net_hdr_mrg_rxbuf))
			return error_set(err, ENOTSUP, "%s: offers no header of 12 bytes",
					 c->socket[i]);
	}
	l->lane = calloc(l->lanes, sizeof(*l->lane));
	l->flow = aligned_alloc(CACHE_LINE, l->lanes * sizeof(*l->flow));
	l->scratch = calloc(1, l->buffer);
	if (!l->lane || !l->flow || !l->scratch)
		return error_set(err, ENOMEM, "no memory");
	memset(l->flow, 0, l->lanes * sizeof(*l->flow));
	for (unsigned i = 0; i < l->lanes; i++) {
		make_flow(l, i);
		rc = make_lane(l, i);
		if (rc)
			return error_set(err, -rc, "no memory");
	}
	return 0;
}

static void tear_down(struct load *l)
{
	for (unsigned i = 0; i < l->lanes && l->lane; i++)
		free(l->lane[i].spare);
	free(l->lane);
	free(l->flow);
	free(l->scratch);
	driver_close(l->driver[0]);
	driver_close(l->driver[1]);
}

/* One broadcast frame from each guest, by which a learning switch learns its address. */
static void announce(struct load *l)
{
	for (unsigned i = 0; i < l->lanes; i++) {
		struct lane *lane = &l->lane[i];
		struct stamp *s;

		collect_spares(lane);
		if (!lane->spares || !ring_room(lane->tx))
			continue;
		s = lane->spare[--lane->spares];
		*s = lane->flow->stamp;
		memset(s->dst, 0xff, sizeof(s->dst));
		s->ethertype = htons(0x88b5); /* local experimental */
		s->magic = ~MAGIC;
		ring_add_buffers(lane->tx, (void **)&s, 1, LOAD_SIZE_MIN + sizeof(s->vnet), false);
		ring_flush(lane->tx);
	}
}

/* Announces until both guests hear each other: some switches need seconds to take up a port. */
static int find_path(struct load *l, struct error *err)
{
	unsigned heard = 0;

	for (unsigned i = 0; i < PATH_TRIES; i++) {
		announce(l);
		usleep(PATH_TRY_US);
		for (unsigned k = 0; k < l->lanes; k++) {
			if (turn(l, k >= l->config->queues, &l->lane[k]))
				heard |= k >= l->config->queues ? 2 : 1;
		}
		if (heard == 3)
			return check_rings(l, err);
	}
	return error_set(err, ENOLINK, "no frames arrive from %s at %s",
			 l->config->socket[heard & 2 ? 1 : 0],
			 l->config->socket[heard & 2 ? 0 : 1]);
}

static int measure(struct load *l, struct load_result *ret, struct error *err)
{
	double per_s = (double)clock_cycles_per_us() * 1e6;
	uint64_t cycles = (uint64_t)(l->config->seconds * per_s), busy = 0, start, received, lost;
	uint64_t counted, took;

	top_up(l);
	run(l, (uint64_t)((double)cycles * WARM_UP), true, &busy);
	busy = 0;
	received = l->received;
	lost = l->lost;
	start = clock_cycles();
	run(l, cycles, true, &busy);
	took = clock_cycles() - start;
	counted = l->received - received;
	if (!counted)
		return error_set(err, ENOLINK, "no frames arrived in %.1f s", l->config->seconds);
	ret->seconds = (double)took / per_s;
	ret->frames_per_s = (double)counted / ret->seconds;
	ret->cycles_per_frame = (double)busy / (double)counted;
	l->echo = false;
	run(l, DRAIN_US * clock_cycles_per_us(), false, &busy);
	give_up(l);
	ret->received = l->received - received;
	ret->lost = l->lost > lost ? l->lost - lost : 0; /* late ones may count for before */
	ret->sent = ret->received + ret->lost;
	return check_rings(l, err);
}

int load_run(const struct load_config *config, struct load_result *ret, struct error *err)
{
	struct load l = { .config = config, .echo = !config->oneway };
	int rc;

	memset(ret, 0, sizeof(*ret));
	clock_cycles_per_us();
	ret->line_round_trip_ns = line_round_trip();
	rc = cpu_pin_self(config->cpu);
	if (rc)
		return error_set(err, -rc, "CPU %u cannot be used", config->cpu);
	rc = set_up(&l, err);
	if (!rc)
		rc = find_path(&l, err);
	if (!rc)
		rc = measure(&l, ret, err);
	tear_down(&l);
	return rc;
}
