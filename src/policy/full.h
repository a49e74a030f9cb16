/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to do for a receiver without room: a unicast frame is held back for a while (and with it its
 * queue), a copy of a flooded one is dropped.
 *
 * A queue that sends to one receiver may wait for it time and again, and longer for one that takes
 * something meanwhile: that pushes back on the sender as a full wire would, and harms nobody else.
 * A queue that sends to several makes all of them wait for the slowest, be it stuck or merely
 * taking one buffer at a time, so there its waits have to stay within a part of its time: a credit
 * that grows while it lives, and is spent by waiting.
 *
 * Pure; the state is a queue's. Times are in any one unit, of which `per_us` are a microsecond.
 * What may be defined by -D is what bench/full.py compares.
 */
#ifndef RINGWAY_POLICY_FULL_H
#define RINGWAY_POLICY_FULL_H

#include "base/base.h"

/*
 * How long frames wait for a single receiver that takes nothing. A guest under emulation needs
 * milliseconds to refill its ring, one with KVM tens of microseconds; but either may not run for a
 * while on a busy machine, where with 5 ms eight times as much was lost.
 */
#ifndef FULL_HOLD_US
#define FULL_HOLD_US 20000u
#endif

/*
 * And how long in all for one that takes some: an emulated guest with a dozen buffers needs 80 us
 * for each of the 90 segments that a batch may come to.
 */
#ifndef FULL_MOVING_US
#define FULL_MOVING_US 50000u
#endif

/* How often a sleeping worker tries again: cheaper than making the receiver kick for room. */
#define FULL_RETRY_US 100u

/* The waits of a queue that sends to several: one part in this many of its time, and at most. */
#define FULL_SHARE 8u
#ifndef FULL_CREDIT_US
#define FULL_CREDIT_US 5000u
#endif

/* For so long after a change of receivers a queue is one that sends to several. */
#ifndef FULL_SEVERAL_US
#define FULL_SEVERAL_US 1000000u
#endif

struct full_state {
	const void *receiver;  /* that was sent to last */
	uint64_t several_till; /* when it will be one that sends to a single receiver; 0: it is */
	uint64_t credit;       /* time that it may wait while it is not */
	uint64_t filled;       /* when that was last added to */
};

/* The queue sends to `receiver`, any name for it, at `now`. */
void full_sent(struct full_state *state, const void *receiver, uint64_t now, uint64_t per_us);

/* A receiver has no room: how long may the queue wait from `now` on? 0: not at all. */
uint64_t full_wait(struct full_state *state, uint64_t now, uint64_t per_us);

/* After `waited` of `wait` it took something: how long may the queue wait in all? */
uint64_t full_moved(const struct full_state *state, uint64_t now, uint64_t wait, uint64_t waited,
		    uint64_t per_us);

/* It has waited for that long. */
void full_waited(struct full_state *state, uint64_t time);

#endif
