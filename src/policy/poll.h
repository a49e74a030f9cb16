/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to stop polling a queue and arm it instead (kicks on, and sleep if nothing else is polled).
 *
 * Pure: measured arrival gaps in, a decision out; times are in any one unit (the worker's: cycles).
 * Polling costs CPU for as long as it lasts, arming costs a wake-up at the next arrival. So a queue
 * is polled for a few of its own mean gaps, if that is less than a bound, and otherwise not at all.
 *
 * The figures are from docs/performance.md: a window of 0 costs 12 us of latency at 100 kpps, one
 * of 50 us costs a third of a CPU at 10 kpps and gains little there. No one window serves both.
 */
#ifndef RINGWAY_POLICY_POLL_H
#define RINGWAY_POLICY_POLL_H

#include "base/base.h"

/* Windows, in mean gaps: arrivals at random leave one gap in 50 longer than four of their mean. */
#define POLL_GAPS 4u
/*
 * The shortest window of a queue with traffic: what a wake-up costs the sender and us together.
 * Polling for as long as a wake-up takes never costs more than twice the best choice.
 */
#define POLL_MIN_US 20u
/* The longest, and the mean gap from which on a queue is not polled: it sends less than 20 kpps. */
#define POLL_MAX_US 50u
/* A queue with rare arrivals is looked at again for this long: bursts come in pieces. */
#define POLL_RECHECK_US 2u
/* A silence counts as no more than this, so that 22 arrivals make up for it. */
#define POLL_GAP_MAX_US 1000u
/* An arrival's part in the moving mean: one in this many. */
#define POLL_WEIGHT 8u

struct poll_state {
	uint64_t last; /* when work was last found; 0: never */
	uint64_t gap;  /* moving mean of the time between arrivals; 0: nothing known */
};

/* Work was found at `now`. */
void poll_found(struct poll_state *state, uint64_t now, uint64_t per_us);

/* None was found at `now`: true to arm the queue. `per_us`: units of time in a microsecond. */
bool poll_give_up(const struct poll_state *state, uint64_t now, uint64_t per_us);

#endif
