/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to stop polling a queue and arm it instead (kicks on, and sleep if nothing else is polled).
 *
 * Pure: measured arrival gaps in, a decision out; times are in any one unit (the worker's: cycles).
 * Polling costs CPU for as long as it lasts, arming costs a wake-up at the next arrival. So a queue
 * is polled for a few of its own mean gaps, if that is less than a bound, and otherwise not at all.
 */
#ifndef RINGWAY_POLICY_POLL_H
#define RINGWAY_POLICY_POLL_H

#include "base/base.h"

struct poll_state {
	uint64_t last; /* when work was last found */
	uint64_t gap;  /* moving mean of the time between arrivals; 0: nothing known */
};

/* Work was found at `now`. */
void poll_found(struct poll_state *state, uint64_t now, uint64_t per_us);

/* None was found at `now`: true to arm the queue. `per_us`: units of time in a microsecond. */
bool poll_give_up(const struct poll_state *state, uint64_t now, uint64_t per_us);

#endif
