/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A closed loop: a fixed number of frames is under way. So both directions are loaded, the switch
 * is never flooded, and a frame that is lost is made good by a new one. The thread never asks for
 * calls and kicks only when the switch wants it, so that a poll-mode switch and one that sleeps are
 * both treated as a busy guest would.
 */
#include "bench/load.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

#define WINDOW_BUFFERS 256     /* under way, if it is not said how many frames */
#define WARM_UP	       0.1     /* of the measured time */
#define STALL_US       200000  /* without any arrival: what is under way is lost */
#define DRAIN_US       1000000 /* that frames under way at the end have to arrive */
#define PREEMPTED_US   1000    /* no turn takes so long: the kernel ran somebody else */
#define TOP_UP_TURNS   1024    /* between looks for losses to make good */

struct load {
	struct guests guests;
	const struct load_config *config;
	unsigned window;
};

/* Sends new frames until the window is full again. */
static unsigned top_up(struct load *l)
{
	struct guests *g = &l->guests;
	unsigned lanes = l->config->oneway ? g->config->queues : g->lanes, n = 0;
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

/*
 * Runs for `cycles`, sending anew if `refill`, else until nothing is under way. Adds the cycles of
 * turns that moved frames to *busy.
 */
static void run(struct load *l, uint64_t cycles, bool refill, uint64_t *busy)
{
	struct guests *g = &l->guests;
	uint64_t start = clock_cycles(), last = start, arrival = start;
	uint64_t stall = STALL_US * clock_cycles_per_us();
	uint64_t preempted = PREEMPTED_US * clock_cycles_per_us();
	unsigned turns = 0;

	while (last - start < cycles && (refill || guests_under_way(g))) {
		unsigned moved = 0;
		uint64_t now;

		for (unsigned i = 0; i < g->lanes; i++)
			moved += guests_turn(g, &g->lane[i]);
		if (refill && (l->config->oneway || ++turns % TOP_UP_TURNS == 0))
			moved += top_up(l);
		now = clock_cycles();
		if (moved) {
			*busy += now - last < preempted ? now - last : 0;
			arrival = now;
		} else if (refill && now - arrival > stall) {
			guests_give_up(g);
			top_up(l);
			arrival = now;
		}
		last = now;
	}
}

static int measure(struct load *l, struct load_result *ret, struct error *err)
{
	struct guests *g = &l->guests;
	double per_s = (double)clock_cycles_per_us() * 1e6;
	uint64_t cycles = (uint64_t)(l->config->seconds * per_s), busy = 0, start, took;
	uint64_t received, lost, counted, kicks, calls;

	g->echo = !l->config->oneway;
	top_up(l);
	run(l, (uint64_t)((double)cycles * WARM_UP), true, &busy);
	busy = 0;
	received = g->received;
	lost = g->lost;
	kicks = guests_kicks(g);
	calls = guests_calls(g);
	start = clock_cycles();
	run(l, cycles, true, &busy);
	took = clock_cycles() - start;
	counted = g->received - received;
	if (!counted)
		return error_set(err, ENOLINK, "no frames arrived in %.1f s", l->config->seconds);
	ret->seconds = (double)took / per_s;
	ret->frames_per_s = (double)counted / ret->seconds;
	ret->cycles_per_frame = (double)busy / (double)counted;
	ret->kicks_per_frame = (double)(guests_kicks(g) - kicks) / (double)counted;
	ret->calls_per_frame = (double)(guests_calls(g) - calls) / (double)counted;
	g->echo = false;
	run(l, DRAIN_US * clock_cycles_per_us(), false, &busy);
	guests_give_up(g);
	ret->received = g->received - received;
	ret->lost = g->lost > lost ? g->lost - lost : 0; /* late ones may count for before */
	ret->sent = ret->received + ret->lost;
	return guests_check(g, err);
}

int load_run(const struct load_config *config, struct load_result *ret, struct error *err)
{
	struct load l = { .config = config };
	int rc;

	memset(ret, 0, sizeof(*ret));
	clock_cycles_per_us();
	ret->line_round_trip_ns = line_round_trip();
	rc = guests_open(&l.guests, &config->guests, err);
	if (!rc) {
		l.window = config->window;
		if (!l.window)
			l.window = MAX(1u, WINDOW_BUFFERS / guests_buffers(&l.guests));
		ret->window = l.window;
		rc = measure(&l, ret, err);
	}
	guests_close(&l.guests);
	return rc;
}
