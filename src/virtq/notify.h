/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls: telling drivers that used entries are there, rarely, but never too late.
 *
 * A fence and a look at the event index per burst costs 1.4 times the whole switch, so a worker
 * collects the rings that it has published to and looks at all of them at once: after
 * CALL_BURSTS bursts, CALL_LATEST_US after the first, CALL_IDLE_US without work, and before it
 * sleeps. A ring is in at most one worker's list; whoever publishes to it meanwhile is covered by
 * that worker's look.
 */
#ifndef RINGWAY_VIRTQ_NOTIFY_H
#define RINGWAY_VIRTQ_NOTIFY_H

#include "virtq/virtq.h"

struct virtq_calls {
	struct virtq *first; /* chained through call_next, which belongs to whoever has it listed */
	/*
	 * For control's watchdog, for a front-end can make its eventfd block. All atomic. The ring
	 * whose descriptor is being written (NULL: none) and since when, by clock_ns(): reason to
	 * interrupt the worker, which may merely have lost its CPU.
	 */
	const struct virtq *writing_to;
	uint64_t writing_since;
	/*
	 * In whose call a write was interrupted, which is proof that it blocked, or whose calls
	 * have taken too much of this worker's time. They are not made until control has ended that
	 * session and says so by NULL.
	 */
	const struct virtq_callee *dear;
	uint64_t wary_till; /* until when calls are weighed, by clock_ns(); the worker's */
};

/* Notes that `vq` was published to; the lock of `vq` is held. */
static inline void virtq_calls_add(struct virtq_calls *calls, struct virtq *vq)
{
	if (!vq->call_pending) {
		vq->call_pending = true;
		vq->call_next = calls->first;
		calls->first = vq;
	}
}

/* The same for who does not hold the lock: a ring whose driver is to be called in any case. */
void virtq_calls_note(struct virtq_calls *calls, struct virtq *vq);

/*
 * One fence, a look at each ring's event index, at most one eventfd write each; empties the list.
 * No lock is held by the caller. The rings stay valid because the worker was not quiescent since it
 * listed them.
 */
void virtq_calls_look(struct virtq_calls *calls);

#endif
