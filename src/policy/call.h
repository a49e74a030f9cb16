/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to look at event indexes and call, now or later. Whether a driver wants a call at all is
 * said by its event index at that look.
 *
 * A full fence and a look per burst costs the switch 1.4 times, after every eighth burst or a
 * microsecond without work only 1.01 (docs/performance.md). Eight bursts of small frames take some
 * 10 us, but of 64 KiB each they take over a millisecond, in which a receiver sleeps for nothing:
 * so what is published is never looked at later than a bound. Pure; times are in any one unit.
 */
#ifndef RINGWAY_POLICY_CALL_H
#define RINGWAY_POLICY_CALL_H

#include "base/base.h"
#include "base/clock.h"

#define CALL_BURSTS    8u
#define CALL_IDLE_US   1u
#define CALL_LATEST_US 50u

struct call_state {
	unsigned bursts; /* published since the last look */
	uint64_t first;	 /* when the oldest of them was */
	uint64_t idle;	 /* since when nothing was found to do; 0: not idle */
};

/* A burst was published at `now`. */
static inline void call_published(struct call_state *state, uint64_t now)
{
	if (!state->bursts++)
		state->first = now;
}

/* A pass ended at `now`, and moved frames or none. */
static inline void call_passed(struct call_state *state, bool moved, uint64_t now)
{
	if (moved)
		state->idle = 0;
	else if (!state->idle)
		state->idle = now;
}

/* Event indexes were looked at. */
static inline void call_looked(struct call_state *state)
{
	state->bursts = 0;
}

/* Look at `now`? `per_us`: units of time in a microsecond. */
static inline bool call_due(const struct call_state *state, uint64_t now, uint64_t per_us)
{
	if (state->idle && clock_since(state->idle, now) >= CALL_IDLE_US * per_us)
		return true;
	return state->bursts >= CALL_BURSTS ||
	       (state->bursts && clock_since(state->first, now) >= CALL_LATEST_US * per_us);
}

#endif
