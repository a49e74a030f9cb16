// SPDX-License-Identifier: Apache-2.0
#include "virtq/notify.h"

#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "virtq/ring.h"

/* 2.7.7.2: if the event index was crossed since `before`; without one, unless the flag says no. */
static bool split_wants_call(const struct virtq *vq, uint16_t before)
{
	uint16_t event;

	if (!vq->event_idx)
		return !(guest_load16(split_avail_flags(vq)) & VRING_AVAIL_F_NO_INTERRUPT);
	event = guest_load16(split_used_event(vq));
	return (uint16_t)(vq->used_next - event - 1) < (uint16_t)(vq->used_next - before);
}

/*
 * What was used since the last look counts. After a start it is not known what was last called, so
 * the driver is called once to be sure.
 */
static bool wants_call(struct virtq *vq)
{
	uint32_t before = vq->called_at;
	bool first = !vq->called;

	if (vq->state == VIRTQ_STOPPED || vq->state == VIRTQ_BROKEN)
		return false;
	vq->called_at = vq->packed ? vq->used_slots : vq->used_next;
	vq->called = true;
	if (first)
		return true;
	return vq->packed ? packed_wants_call(vq, before) : split_wants_call(vq, (uint16_t)before);
}

/*
 * The one write that a front-end can make block (it shares the file description and can clear
 * O_NONBLOCK), so it says what it is doing: control interrupts it by a signal if it lasts. Only a
 * write that blocks is interrupted; that front-end's other rings might be next. A saturated eventfd
 * is readable, which is all that a call means; any other error is the front-end's loss.
 */
static void call(struct virtq_calls *calls, const struct virtq *vq, const struct virtq_call *to)
{
	const uint32_t *blocked_in =
		load_acquire(&calls->blocked_in); /* partner: pool_watchdog() */
	uint64_t one = 1;

	if (unlikely(blocked_in == vq->retired))
		return;
	store_relaxed(&calls->writing_since, clock_ns());
	store_release(&calls->writing_to, vq); /* partner: the watchdog's acquire */
	if (write(to->fd, &one, sizeof(one)) < 0 && errno == EINTR && !blocked_in)
		store_release(&calls->blocked_in, vq->retired); /* partner: pool_watchdog() */
	store_release(&calls->writing_to, NULL);
}

void virtq_calls_note(struct virtq_calls *calls, struct virtq *vq)
{
	pthread_mutex_lock(&vq->lock);
	virtq_calls_add(calls, vq);
	pthread_mutex_unlock(&vq->lock);
}

void virtq_calls_look(struct virtq_calls *calls)
{
	struct virtq *vq = calls->first, *next;

	if (!vq)
		return;
	calls->first = NULL;
	fence_store_load(); /* partner: the driver's, from used_event to its look at used->idx */
	for (; vq; vq = next) {
		const struct virtq_call *to = NULL;

		pthread_mutex_lock(&vq->lock);
		next = vq->call_next;
		vq->call_pending = false;
		if (vq->call && wants_call(vq)) {
			to = vq->call;
			count(&vq->calls, 1);
		}
		pthread_mutex_unlock(&vq->lock);
		if (to)
			call(calls, vq, to);
	}
}
