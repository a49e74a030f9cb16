// SPDX-License-Identifier: Apache-2.0
/* Holding back for full receivers: how long, and who stops for it. */
#include "policy/full.h"

#include "base/clock.h"

void full_sent(struct full_state *state, const void *receiver, uint64_t now, uint64_t per_us)
{
	if (likely(state->receiver == receiver))
		return;
	if (state->receiver)
		state->several_till = now + FULL_SEVERAL_US * per_us;
	state->receiver = receiver;
}

bool full_enough(const struct full_state *state, uint64_t since, uint64_t moved, uint64_t now,
		 uint64_t per_us)
{
	uint64_t from = now < state->several_till ? since : MAX(since, moved);

	return clock_since(from, now) >= FULL_HOLD_US * per_us ||
	       clock_since(since, now) >= FULL_MOVING_US * per_us;
}

void full_holds(struct full_state *state, unsigned batches, uint64_t now, uint64_t per_us)
{
	uint64_t time = clock_since(state->reckoned, now);

	if (state->stops)
		state->credit -= MIN(state->credit, time);
	else
		state->credit = MIN(state->credit + time / FULL_SHARE, FULL_CREDIT_US * per_us);
	state->reckoned = now;
	if (now >= state->several_till)
		state->stops = batches > 0;
	else /* A stop shorter than from look to look is not worth it. */
		state->stops = batches == FULL_BATCHES &&
			       state->credit >= (state->stops ? 1 : FULL_RETRY_US * per_us);
}
