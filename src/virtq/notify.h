/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls: telling drivers that used entries are there, rarely, but never too late.
 *
 * A fence and a look at the event index per burst costs 1.4 times the whole switch, so a worker
 * collects the rings that it has published to and looks at all of them at once: after
 * CALL_BURSTS bursts, after CALL_IDLE_NS without work, and before it sleeps. A ring is in at most
 * one worker's list; whoever publishes to it meanwhile is covered by that worker's look.
 */
#ifndef RINGWAY_VIRTQ_NOTIFY_H
#define RINGWAY_VIRTQ_NOTIFY_H

#include "virtq/virtq.h"

#define CALLS_MAX 64

struct virtq_calls {
	unsigned n;
	struct virtq *ring[CALLS_MAX];
	/*
	 * The descriptor being written and since when, for control's watchdog: a front-end can make
	 * its eventfd block. 0 while no write is under way.
	 */
	uint64_t writing_since; /* clock_cycles() */
	const struct virtq *writing_to;
};

/* Notes that `vq` was published to; lock of `vq` held. Full lists are looked at by the caller. */
static inline void virtq_calls_add(struct virtq_calls *calls, struct virtq *vq)
{
	if (!vq->call_pending) {
		vq->call_pending = true;
		calls->ring[calls->n++] = vq;
	}
}

static inline bool virtq_calls_full(const struct virtq_calls *calls)
{
	return calls->n == CALLS_MAX;
}

/* One fence, a look at each ring's event index, at most one eventfd write each; empties the list.
 */
void virtq_calls_look(struct virtq_calls *calls);

#endif
