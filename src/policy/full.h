/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to do for a receiver without room: a unicast frame is held back for a while, and who sent it
 * perhaps stopped; a copy of a flooded one is dropped.
 *
 * A queue that sends to one receiver stops while it holds anything: that pushes back on the sender
 * as a full wire would, and harms nobody else. A queue that sends to several would make all of them
 * wait for the slowest, be it stuck or merely taking one buffer at a time. So it goes on while it
 * holds no more than a batch, which is enough for a modest sender to stand in line at a receiver
 * that others fill; and when it holds more, it stops for a part of its time only: a credit that
 * grows while it goes on.
 *
 * Pure; the state is a queue's. Times are in any one unit, of which `per_us` are a microsecond.
 * What may be defined by -D is what bench/full.py compares.
 */
#ifndef RINGWAY_POLICY_FULL_H
#define RINGWAY_POLICY_FULL_H

#include "base/base.h"

/*
 * How long frames wait for a receiver that takes nothing. A guest under emulation needs
 * milliseconds to refill its ring, one with KVM tens of microseconds; but either may not run for a
 * while on a busy machine, where with 5 ms eight times as much was lost.
 */
#ifndef FULL_HOLD_US
#define FULL_HOLD_US 20000u
#endif

/*
 * And how long in all for a single one that takes some: an emulated guest with a dozen buffers
 * needs 80 us for each of the 90 segments that a batch may come to.
 */
#ifndef FULL_MOVING_US
#define FULL_MOVING_US 50000u
#endif

/* How often a sleeping worker tries again: cheaper than making the receiver kick for room. */
#define FULL_RETRY_US 100u

/*
 * That a queue holds at most. The last is begun when those before it have no room for all that was
 * collected, and then it stops, so that as long as it may nothing is lost.
 */
#define FULL_BATCHES 2u

/* The stops of a queue that sends to several: one part in this many of its time, and at most. */
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
	bool stops;	       /* it is not collected from */
	uint64_t credit;       /* time that it may stop for while it sends to several */
	uint64_t reckoned;     /* when that was */
};

/* The queue sends to `receiver`, any name for it, at `now`. */
void full_sent(struct full_state *state, const void *receiver, uint64_t now, uint64_t per_us);

/* A frame waits since `since`; of those beside it something was taken at `moved`: long enough? */
bool full_enough(const struct full_state *state, uint64_t since, uint64_t moved, uint64_t now,
		 uint64_t per_us);

/* So many batches are held, in part or whole: does the queue stop? */
void full_holds(struct full_state *state, unsigned batches, uint64_t now, uint64_t per_us);

#endif
