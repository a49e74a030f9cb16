// SPDX-License-Identifier: Apache-2.0
/*
 * The polling policy: a moving mean of a queue's arrival gaps and the window that follows from it.
 * Called by the worker that owns the queue, once per look at it.
 */
#include "policy/poll.h"

#include "base/atomic.h"
#include "base/clock.h"

struct poll_limits poll_limits(uint64_t wakeup, uint64_t per_us, bool scarce)
{
	uint64_t least = POLL_WAKEUP_MIN_US * per_us, most = POLL_WAKEUP_MAX_US * per_us;
	uint64_t cost = wakeup ? MIN(MAX(wakeup, least), most) : most;

	if (scarce)
		cost = POLL_RECHECK_US * per_us;
	return (struct poll_limits){
		.shortest = cost,
		.longest = scarce ? cost : 2 * cost,
		.recheck = POLL_RECHECK_US * per_us,
		.gap_max = POLL_GAP_MAX_US * per_us,
	};
}

void poll_found(struct poll_state *state, uint64_t now, const struct poll_limits *limits)
{
	uint64_t gap = MIN(MAX(clock_since(state->last, now), (uint64_t)1), limits->gap_max);

	if (!state->last)
		gap = 0;
	else if (state->gap)
		gap = MAX((state->gap * (POLL_WEIGHT - 1) + gap) / POLL_WEIGHT, (uint64_t)1);
	store_relaxed(&state->gap, gap); /* control shows it */
	state->last = now;
}

void poll_found_any(struct poll_state *all, uint64_t now, const struct poll_limits *limits)
{
	if (!all->last || clock_since(all->last, now) > limits->recheck)
		poll_found(all, now, limits);
	else
		all->last = now;
}

bool poll_give_up(const struct poll_state *state, const struct poll_state *all, uint64_t now,
		  const struct poll_limits *limits)
{
	uint64_t window, gap = state->gap;

	if (limits->always)
		return false;
	if (!state->last)
		return true;
	if (all->gap && all->gap < gap)
		gap = all->gap;
	if (!gap || gap > limits->longest)
		window = limits->recheck;
	else
		window = MIN(MAX(gap * POLL_GAPS, limits->shortest), limits->longest);
	return clock_since(state->last, now) >= window;
}
