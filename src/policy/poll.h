/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to stop polling a queue and arm it instead (kicks on, and sleep if nothing else is polled).
 *
 * Pure: measured arrival gaps in, a decision out; times are in any one unit (the worker's: cycles).
 * Polling costs CPU for as long as it lasts, arming costs a wake-up at the next arrival. So a queue
 * is polled for a few of its own mean gaps, if that is less than a bound, and otherwise not at all.
 *
 * A worker that polls one queue is awake for all of them, and what comes to one is often the answer
 * to what came to another. So a queue is also polled if its worker as a whole will not be without
 * work for long: two guests that sleep until they are called, and ask and answer, have 1.7 times
 * the round trips then, for about the same CPU time each, as a wake-up costs as much as the wait.
 *
 * What a wake-up costs differs by ten between hosts, so it is measured when the workers start, and
 * all bounds follow from it. A window of 0 costs 12 us of latency at 100 kpps where one of 50 us
 * costs a third of a CPU at 10 kpps and gains little there (docs/performance.md): no one window
 * serves both.
 */
#ifndef RINGWAY_POLICY_POLL_H
#define RINGWAY_POLICY_POLL_H

#include "base/base.h"

/* Windows, in mean gaps: arrivals at random leave one gap in 50 longer than four of their mean. */
#define POLL_GAPS 4u
/* A queue with rare arrivals is looked at again for this long: bursts come in pieces. */
#define POLL_RECHECK_US 2u
/* A silence counts as no more than this, so that 22 arrivals make up for it. */
#define POLL_GAP_MAX_US 1000u
/* An arrival's part in the moving mean: one in this many. */
#define POLL_WEIGHT 8u
/*
 * What a wake-up is believed to cost at least, so that 100 000 frames a second are polled for
 * everywhere, and at most: a machine that was busy when it was measured exaggerates.
 */
#define POLL_WAKEUP_MIN_US 12u
#define POLL_WAKEUP_MAX_US 40u

struct poll_limits {
	/*
	 * The shortest window of a queue with traffic: what a wake-up costs the sender and us
	 * together. Polling for as long as a wake-up takes never costs more than twice the best
	 * choice.
	 */
	uint64_t shortest;
	/* The longest, and the mean gap from which on a queue is not polled. */
	uint64_t longest;
	uint64_t recheck, gap_max;
	bool always; /* never arm: whoever gives a CPU to a worker alone wants no wake-up at all */
};

/*
 * `wakeup`: what one costs, 0 if that is not known; `per_us`: units of time in a microsecond.
 * `scarce`: CPU time is rationed to less than the workers could use. Whatever polling takes is
 * missing later then, when the kernel stops all of them for tens of milliseconds, so no queue is
 * polled for long.
 */
struct poll_limits poll_limits(uint64_t wakeup, uint64_t per_us, bool scarce);

struct poll_state {
	uint64_t last; /* when work was last found; 0: never */
	uint64_t gap;  /* moving mean of the time between arrivals; 0: nothing known */
};

/* Work was found at `now`. */
void poll_found(struct poll_state *state, uint64_t now, const struct poll_limits *limits);

/*
 * Work was found at `now` in any of a worker's queues. The gap of `all` is the mean of silences
 * alone, between the last work and this, that were longer than a recheck: a request and what is
 * answered at once are not two arrivals in half the time.
 */
void poll_found_any(struct poll_state *all, uint64_t now, const struct poll_limits *limits);

/* None was found at `now`: true to arm the queue. `all`: of the worker that has it. */
bool poll_give_up(const struct poll_state *state, const struct poll_state *all, uint64_t now,
		  const struct poll_limits *limits);

#endif
