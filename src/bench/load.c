// SPDX-License-Identifier: Apache-2.0
/*
 * A closed loop: a fixed number of frames is under way. So both directions are loaded, the switch
 * is never flooded, and a frame that is lost is made good by a new one. Few frames under way make
 * it request and response: what A sends, B answers.
 *
 * An open loop: A sends at random times, a Poisson process of some rate from a seed, and B answers
 * or not. Latency counts from when a frame was sent, not from when it was due: a generator that did
 * not get its CPU says nothing of the switch. How late it was is told besides.
 *
 * The guests poll, and then never ask for calls; or (`calls`) an rx ring is left alone until its
 * call comes, is then emptied, and asks for the next one, as real drivers do. Kicks are made only
 * when the switch wants them, so that a poll-mode switch and one that sleeps are both treated as a
 * guest would.
 */
#include "bench/load.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "bench/stalled.h"
#include "bench/trace.h"

#define WINDOW_BUFFERS 256     /* under way, if it is not said how many frames */
#define WARM_UP	       0.1     /* of the measured time */
#define STALL_US       1000000 /* without any arrival: what waits nowhere is lost */
#define PATIENCE_US    5000000 /* for the first frame to arrive, and for the last */
#define PREEMPTED_US   1000    /* no turn takes so long: the kernel ran somebody else */
#define TOP_UP_TURNS   1024    /* between looks for losses to make good */
#define SEND_MOST      32      /* of an open loop, before it looks at what has arrived */
#define SLEEP_US       10000   /* longest, without a call; if a turn takes more, it was no look */

struct load {
	struct guests guests;
	const struct load_config *config;
	unsigned window;
	uint64_t per_us; /* cycles */
	uint64_t random;
	double due;	       /* cycles: when the next frame of an open loop is sent */
	unsigned next;	       /* the lane that it is sent on */
	uint64_t sent;	       /* of an open loop */
	uint64_t received;     /* before it counted */
	uint64_t busy;	       /* cycles of turns that moved frames */
	struct pollfd *fds;    /* of each lane's calls, if the guests sleep */
	FILE *trace;	       /* NULL: none is wanted */
	struct histogram late; /* cycles */
};

/* Sends new frames until the window is full again. */
static unsigned top_up(struct load *l)
{
	struct guests *g = &l->guests;
	/* What is timed is A's requests. */
	bool from_a = l->config->oneway || g->times;
	unsigned lanes = from_a ? g->config->queues : g->lanes, n = 0;
	uint32_t missing = l->window - MIN(l->window, guests_under_way(g));

	for (unsigned i = 0; i < lanes && missing; i++) {
		struct lane *lane = &g->lane[i];
		uint32_t share = (missing + lanes - i - 1) / (lanes - i);

		missing -= share;
		for (; share && guests_send(g, lane); share--)
			n++;
		ring_flush(lane->tx);
	}
	return n;
}

/* A random time with an exponential distribution, in cycles. */
static double gap(struct load *l)
{
	double u;

	/* xorshift64* */
	l->random ^= l->random >> 12;
	l->random ^= l->random << 25;
	l->random ^= l->random >> 27;
	u = (double)((l->random * 2685821657736338717u) >> 11) / (double)(1ull << 53);
	return -log1p(-u) * (double)l->per_us * 1e6 / l->config->rate;
}

/* Sends what is due, as far as there is room; not all at once, for there is receiving to do. */
static unsigned send_due(struct load *l)
{
	struct guests *g = &l->guests;
	uint64_t now = clock_cycles();
	unsigned n = 0;

	while (l->due <= (double)now && n < SEND_MOST) {
		struct lane *lane = &g->lane[l->next];

		if (!guests_send(g, lane))
			break;
		ring_flush(lane->tx);
		histogram_add(&l->late, now - (uint64_t)l->due);
		l->next = (l->next + 1) % g->config->queues;
		l->due += gap(l);
		l->sent++;
		n++;
		now = clock_cycles();
	}
	return n;
}

/* Who has been called? If nobody is `awake`, waits until a call comes or a frame is due. */
static void look_for_calls(struct load *l, bool awake)
{
	struct guests *g = &l->guests;
	double ns = awake ? 0 : SLEEP_US * 1e3, now = (double)clock_cycles();
	struct timespec most;

	if (l->config->rate)
		ns = fmin(ns, fmax(0, (l->due - now) * 1e3 / (double)l->per_us));
	most = (struct timespec){ 0, (long)ns };
	if (ppoll(l->fds, g->lanes, &most, NULL) > 0)
		guests_calls(g);
}

/* One look at each rx ring that is looked at. How many frames arrived. */
static unsigned turn(struct load *l)
{
	struct guests *g = &l->guests;
	unsigned moved = 0, awake = 0;

	for (unsigned i = 0; i < g->lanes; i++) {
		struct lane *lane = &g->lane[i];
		unsigned n;

		if (l->fds && !lane->awake)
			continue;
		n = guests_turn(g, lane);
		moved += n;
		if (l->fds && !n) {
			lane->awake = ring_calls_on(lane->rx);
			if (lane->awake)
				ring_calls_off(lane->rx);
		}
		awake += lane->awake;
	}
	if (l->fds && awake < g->lanes)
		look_for_calls(l, awake);
	return moved;
}

/* Nothing has arrived for long: what waits nowhere is lost, and is made good. */
static void make_good(struct load *l)
{
	if (stalled_waits(&l->guests))
		return;
	guests_give_up(&l->guests);
	if (!l->config->rate)
		top_up(l);
}

/* Adds a turn to how long nothing has arrived. While this thread had no CPU it could not see. */
static uint64_t silence(const struct load *l, uint64_t before, uint64_t turn, bool arrived)
{
	return arrived ? 0 : before + MIN(turn, SLEEP_US * l->per_us);
}

/* What is measured has not come once since it counts. */
static bool nothing_yet(const struct load *l)
{
	const struct guests *g = &l->guests;

	if (g->times && !l->config->oneway)
		return !g->times->round_trip.n;
	return g->received == l->received;
}

/* Runs for `cycles`, sending anew, and, if it is `measured`, until there is something to tell. */
static void run(struct load *l, uint64_t cycles, bool measured)
{
	uint64_t start = clock_cycles(), last = start, silent = 0;
	const uint64_t patience = cycles + PATIENCE_US * l->per_us;
	unsigned turns = 0;

	while (last - start < cycles || (measured && nothing_yet(l) && last - start < patience)) {
		unsigned arrived = turn(l), moved = arrived;
		uint64_t now;

		if (l->config->rate)
			moved += send_due(l);
		else if (l->config->oneway || ++turns % TOP_UP_TURNS == 0)
			moved += top_up(l);
		now = clock_cycles();
		if (moved)
			l->busy += now - last < PREEMPTED_US * l->per_us ? now - last : 0;
		silent = silence(l, silent, now - last, arrived);
		if (silent > STALL_US * l->per_us) {
			make_good(l);
			silent = 0;
		}
		last = now;
	}
}

/* Until nothing is under way any more, or what is has to be lost. */
static void drain(struct load *l)
{
	struct guests *g = &l->guests;
	uint64_t start = clock_cycles(), last = start, silent = 0;

	while (guests_under_way(g) && last - start < PATIENCE_US * l->per_us &&
	       (silent <= STALL_US * l->per_us || stalled_waits(g))) {
		bool arrived = turn(l);
		uint64_t now = clock_cycles();

		silent = silence(l, silent, now - last, arrived);
		last = now;
	}
	guests_give_up(g);
}

static struct load_times times_of(const struct load *l, const struct histogram *h)
{
	double ns = 1e3 / (double)l->per_us;

	return (struct load_times){ h->n, (uint64_t)((double)histogram_quantile(h, 0.5) * ns),
				    (uint64_t)((double)histogram_quantile(h, 0.99) * ns),
				    (uint64_t)((double)histogram_quantile(h, 0.999) * ns),
				    (uint64_t)((double)h->max * ns) };
}

static double cpu_seconds(clockid_t clock)
{
	struct timespec used;

	if (clock_gettime(clock, &used))
		return 0;
	return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* CPU time of the switch. */
static double watched_seconds(const struct load *l)
{
	clockid_t clock;

	if (!l->config->watched || clock_getcpuclockid(l->config->watched, &clock))
		return 0;
	return cpu_seconds(clock);
}

/* From here on it counts. */
static void reset(struct load *l)
{
	struct guests *g = &l->guests;

	l->busy = l->sent = 0;
	l->received = g->received;
	memset(&l->late, 0, sizeof(l->late));
	if (g->times)
		memset(g->times, 0, sizeof(*g->times));
}

static void begin(struct load *l)
{
	struct guests *g = &l->guests;

	g->echo[1] = !l->config->oneway;
	g->echo[0] = !l->config->oneway && !l->config->rate;
	for (unsigned i = 0; i < g->lanes; i++)
		g->lane[i].awake = true;
	l->due = (double)clock_cycles();
	if (!l->config->rate)
		top_up(l);
	run(l, (uint64_t)(l->config->seconds * WARM_UP * 1e6 * (double)l->per_us), false);
}

/* When A sent the last frames of its first queue. */
static int record(const struct load *l, struct error *err)
{
	const struct flow *flow = l->guests.lane[0].flow;
	uint64_t when[TRACE_FRAMES];
	unsigned n = MIN(flow->sent, TRACE_FRAMES);
	char what[128];

	for (unsigned i = 0; i < n; i++)
		when[i] = flow->kept[(flow->sent - n + i) % SENT_KEPT].when * 1000 / l->per_us;
	snprintf(what, sizeof(what), "%.0f frames/s (0: closed loop), %u under way, guests %s",
		 l->config->rate, l->window, l->config->calls ? "sleep" : "poll");
	return trace_write(l->trace, what, when, n, err);
}

static int measure(struct load *l, struct load_result *ret, struct error *err)
{
	struct guests *g = &l->guests;
	double per_s = (double)l->per_us * 1e6, cpu, watched;
	uint64_t lost, counted, kicks, calls, start;
	int rc;

	begin(l);
	reset(l);
	lost = g->lost;
	kicks = guests_kicks(g);
	calls = guests_calls(g);
	cpu = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
	watched = watched_seconds(l);
	start = clock_cycles();
	run(l, (uint64_t)(l->config->seconds * per_s), true);
	ret->seconds = (double)(clock_cycles() - start) / per_s;
	ret->cpu = (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - cpu) / ret->seconds;
	watched = watched_seconds(l) - watched;
	ret->watched_cpu = watched / ret->seconds;
	if (nothing_yet(l))
		return stalled_error(g, ret->seconds, l->config->watched, watched, err);
	counted = g->received - l->received;
	ret->frames_per_s = (double)counted / ret->seconds;
	ret->sent_per_s = (double)l->sent / ret->seconds;
	ret->cycles_per_frame = (double)l->busy / (double)counted;
	ret->kicks_per_frame = (double)(guests_kicks(g) - kicks) / (double)counted;
	ret->calls_per_frame = (double)(guests_calls(g) - calls) / (double)counted;
	g->echo[0] = false;
	g->echo[1] = l->config->rate && !l->config->oneway;
	drain(l);
	ret->received = g->received - l->received;
	ret->lost = g->lost > lost ? g->lost - lost : 0; /* late ones may count for before */
	ret->sent = ret->received + ret->lost;
	ret->late = times_of(l, &l->late);
	if (g->times) {
		ret->one_way = times_of(l, &g->times->one_way);
		ret->round_trip = times_of(l, &g->times->round_trip);
	}
	rc = l->trace ? record(l, err) : 0;
	return rc ? rc : guests_check(g, err);
}

static int prepare(struct load *l, struct error *err)
{
	const struct load_config *c = l->config;
	struct guests *g = &l->guests;

	l->window = c->window ? c->window : MAX(1u, WINDOW_BUFFERS / guests_buffers(g));
	l->random = c->seed + 0x9e3779b97f4a7c15u;
	if (!c->calls)
		return 0;
	prctl(PR_SET_TIMERSLACK, 1UL);
	l->fds = calloc(g->lanes, sizeof(*l->fds));
	if (!l->fds)
		return error_no_memory(err);
	for (unsigned i = 0; i < g->lanes; i++)
		l->fds[i] = (struct pollfd){ .fd = g->lane[i].rx->call, .events = POLLIN };
	return 0;
}

int load_run(const struct load_config *config, struct load_result *ret, struct error *err)
{
	struct load *l = calloc(1, sizeof(*l));
	cpu_set_t before;
	bool known = !sched_getaffinity(0, sizeof(before), &before);
	int rc;

	if (!l)
		return error_no_memory(err);
	memset(ret, 0, sizeof(*ret));
	l->config = config;
	l->per_us = clock_cycles_per_us();
	ret->line_round_trip_ns = line_round_trip();
	ret->wake_up_ns = line_wake_up();
	rc = config->trace ? trace_create(config->trace, &l->trace, err) : 0;
	if (!rc)
		rc = guests_open(&l->guests, &config->guests, err);
	if (!rc)
		rc = prepare(l, err);
	ret->window = l->window;
	if (!rc)
		rc = measure(l, ret, err);
	guests_close(&l->guests);
	if (known) /* what is started next would inherit the one CPU */
		sched_setaffinity(0, sizeof(before), &before);
	if (l->trace)
		fclose(l->trace);
	free(l->fds);
	free(l);
	return rc;
}
