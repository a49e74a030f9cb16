// SPDX-License-Identifier: Apache-2.0
/* Holding back for full receivers: the credit of a queue that sends to several. Its worker. */
#include "policy/full.h"

#include "base/clock.h"

static void fill(struct full_state *state, uint64_t now, uint64_t per_us)
{
	state->credit += clock_since(state->filled, now) / FULL_SHARE;
	state->credit = MIN(state->credit, FULL_CREDIT_US * per_us);
	state->filled = now;
}

void full_sent(struct full_state *state, const void *receiver, uint64_t now, uint64_t per_us)
{
	if (likely(state->receiver == receiver))
		return;
	if (state->receiver)
		state->several_till = now + FULL_SEVERAL_US * per_us;
	state->receiver = receiver;
}

uint64_t full_wait(struct full_state *state, uint64_t now, uint64_t per_us)
{
	fill(state, now, per_us);
	if (now >= state->several_till)
		return FULL_HOLD_US * per_us;
	/* Less than a look apart it is not worth the copy. */
	return state->credit < FULL_RETRY_US * per_us ? 0 : state->credit;
}

uint64_t full_moved(const struct full_state *state, uint64_t now, uint64_t wait, uint64_t waited,
		    uint64_t per_us)
{
	if (now < state->several_till)
		return wait;
	return MIN(waited + FULL_HOLD_US * per_us, FULL_MOVING_US * per_us);
}

void full_waited(struct full_state *state, uint64_t time)
{
	state->credit -= MIN(state->credit, time);
}
