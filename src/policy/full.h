/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to do for a receiver without room: a unicast frame is held back for a while (and with it its
 * queue), a copy of a flooded one is dropped. Pure.
 */
#ifndef RINGWAY_POLICY_FULL_H
#define RINGWAY_POLICY_FULL_H

#include "base/base.h"

/*
 * How long a frame waits for room. A guest under emulation needs milliseconds to refill its ring,
 * one with KVM tens of microseconds; a receiver that is stuck costs its senders no more than this
 * per batch.
 */
#define FULL_HOLD_US 5000u

/* How often a sleeping worker tries again: cheaper than making the receiver kick for room. */
#define FULL_RETRY_US 100u

static inline bool full_give_up(uint64_t held_for, uint64_t per_us)
{
	return held_for >= FULL_HOLD_US * per_us;
}

#endif
