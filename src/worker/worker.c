// SPDX-License-Identifier: Apache-2.0
/*
 * The datapath's loop.
 *
 * A pass visits each queue once, with at most one batch from each, and who makes more work than
 * that sits turns out, so a busy queue cannot starve the others. Sleeping is decided per queue: a
 * queue is *polled*, or *armed* (its kicks are on and in epoll) when policy/poll says that waiting
 * is cheaper. The worker sleeps when all are armed, in a stream of large frames by the clock
 * first (policy/nap); while some are polled it looks at the armed ones itself, every 16th pass or
 * 20 us, instead of asking epoll. Calls are made late (policy/call) but before any sleep.
 *
 * Pointers got from RCU (the queue set, queues, ports, rings listed for calls) live until the
 * worker is quiescent: at the end of a pass, and only when no calls are pending.
 */
#include "worker/worker.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/rcu.h"
#include "policy/share.h"
#include "switch/hold.h"

#define ARMED_LOOK_PASSES 16u
#define ARMED_LOOK_US	  20u
#define QUIESCENT_PASSES  64u
#define KICKLESS_LOOK_NS  1000000 /* a queue without a kick descriptor is looked at this often */
#define EVENTS_MAX	  64

void worker_wake(struct worker *w)
{
	uint64_t one = 1;

	if (write(w->wake, &one, sizeof(one)) < 0)
		(void)0; /* it would be full: the worker is awake */
}

static void wake_queue(struct port_queue *q)
{
	q->port->ops->disarm(q);
	store_relaxed(&q->armed, false);
}

/* Work was not found: go on polling, or ask for a kick. */
static void rest(struct worker *w, struct port_queue *q, uint64_t now)
{
	bool stream = nap_stream(&w->nap) && !w->limits.always;

	if (!stream && !poll_give_up(&q->poll, &w->poll, now, &w->limits))
		return;
	if (q->port->ops->arm(q))
		q->port->ops->disarm(q); /* something came in between */
	else
		store_relaxed(&q->armed, true);
}

/* The queue has moved a burst: what passed since `*now`, which goes on, is its time. */
static void charge(struct worker *w, struct port_queue *q, uint64_t *now)
{
	uint64_t end = clock_cycles();

	count(&w->busy_cycles, end - *now);
	count(&q->busy, end - *now);
	call_published(&w->call, end);
	*now = end;
}

/* Tries again to deliver what the queue holds; true if it moved frames. */
static bool retry(struct worker *w, struct port_queue *q, uint64_t *now)
{
	bool moved = hold_retry(w->sw, q, &w->calls, *now);

	if (moved)
		charge(w, q, now);
	return moved;
}

/* One turn of one queue; true if it moved frames. */
static bool turn(struct worker *w, struct port_queue *q, uint64_t *now)
{
	const uint64_t begin = *now;
	const struct port_ops *ops = q->port->ops;
	struct batch *b = w->batch;
	bool moved = retry(w, q, now);

	if (q->armed || q->full.stops)
		return moved;
	if (!ops->collect(q, b, &w->calls)) {
		rest(w, q, begin);
		return moved;
	}
	nap_moved(&w->nap, b->n, ops->always_kicks ? b->bytes : 0);
	switch_forward(w->sw, q, b, &w->calls, begin);
	ops->complete(q, b, &w->calls);
	share_took(&q->debt, BATCH_BYTES, b->bytes,
		   share_more(b->segments, b->summed, b->flooded, b->pieces));
	poll_found(&q->poll, begin, &w->limits);
	poll_found_any(&w->poll, begin, &w->limits);
	charge(w, q, now);
	count(&w->bursts, 1);
	count(&w->frames, b->n);
	return true;
}

/* A turn was long, and began with the debt `owed`: what it costs by the clock. */
static void pay_for_time(struct worker *w, struct port_queue *q, uint32_t owed, uint64_t begin,
			 uint64_t end)
{
	uint64_t cpu_us = clock_cpu_ns() / 1000;

	share_lasted(&q->debt, owed, BATCH_BYTES, (end - begin) / w->per_us,
		     (end - w->timed) / w->per_us, cpu_us - w->timed_cpu_us);
	w->timed = end;
	w->timed_cpu_us = cpu_us;
}

static bool paid_turn(struct worker *w, struct port_queue *q, uint64_t *now)
{
	const uint64_t begin = *now;
	uint32_t owed = q->debt;
	bool moved = turn(w, q, now);

	if (unlikely(*now - begin > SHARE_LONG_US * w->per_us))
		pay_for_time(w, q, owed, begin, *now);
	return moved;
}

static void look_at_calls(struct worker *w)
{
	virtq_calls_look(&w->calls);
	call_looked(&w->call);
}

/* A queue that has come, or come again, begins polled. */
static void adopt(struct port_queue *q, uint32_t id)
{
	q->owned = id;
	store_relaxed(&q->armed, false);
	q->poll.last = 0;
	store_relaxed(&q->poll.gap, 0);
}

/* What a pass found out. */
struct pass {
	bool moved;	/* frames */
	bool polled;	/* a queue wants the next pass at once */
	bool held;	/* frames wait for room at their receiver */
	bool kickless;	/* a queue can only be looked at */
	uint32_t armed; /* queues */
};

/*
 * Between two turns: from here on it is another worker's, which has perhaps had a kick already and
 * thought that it was not its own. So the queue is to be looked at, even if it was empty just now.
 */
static void pass_on(struct worker *w, struct port_queue *q)
{
	uint16_t heir = load_acquire(&q->heir); /* partner: move_begin() */

	wake_queue(q);
	store_release(&q->owner, heir); /* partner: visit(), kicked() */
	worker_wake(w + heir - w->number);
}

/* `*now` goes on if the queue moves frames. */
static void visit(struct worker *w, struct port_queue *q, uint64_t *now, bool look, struct pass *p)
{
	uint32_t id;

	if (load_acquire(&q->owner) != w->number) /* partner: pass_on(), give() */
		return;
	if (unlikely(load_relaxed(&q->heir) != w->number)) {
		pass_on(w, q);
		return;
	}
	if (unlikely(!load_acquire(&q->served))) { /* partner: pool_queue_up() */
		p->moved |= retry(w, q, now);
		p->held |= !hold_empty(q);
		return;
	}
	id = load_relaxed(&q->id);
	if (unlikely(q->owned != id))
		adopt(q, id);
	if (q->armed && look && q->port->ops->ready(q))
		wake_queue(q);
	if ((!q->armed || !hold_empty(q)) && !share_sits_out(&q->debt, BATCH_BYTES))
		p->moved |= paid_turn(w, q, now);
	p->held |= !hold_empty(q);
	if (q->armed) {
		p->armed++;
		p->kickless |= !load_relaxed(&q->watched);
	} else {
		p->polled |= !q->full.stops;
	}
}

/* Is it time to look at armed queues? Passes may be long. */
static bool look_now(struct worker *w, uint64_t now)
{
	bool look =
		w->pass++ % ARMED_LOOK_PASSES == 0 || now - w->looked > ARMED_LOOK_US * w->per_us;

	if (look)
		w->looked = now;
	return look;
}

static struct pass pass(struct worker *w, uint64_t *now)
{
	const struct queue_set *set = rcu_read(w->set);
	bool look = look_now(w, *now);
	unsigned end = rcu_read(set->end);
	struct pass p = { 0 };

	for (unsigned i = 0; i < end; i++) {
		struct port_queue *q = rcu_read(set->queue[i]);

		if (q)
			visit(w, q, now, look, &p);
		if (w->call.bursts && call_due(&w->call, *now, w->per_us))
			look_at_calls(w);
	}
	store_relaxed(&w->armed, p.armed);
	return p;
}

static void call_late(struct worker *w, bool moved, uint64_t now)
{
	call_passed(&w->call, moved, now);
	if (w->calls.first && call_due(&w->call, now, w->per_us))
		look_at_calls(w);
}

/* The kick's event says in which slot its queue is, unless that has gone since. */
static void kicked(const struct worker *w, const struct queue_set *set, uint64_t event)
{
	struct port_queue *q = rcu_read(set->queue[event >> 32]);

	/* Partner: pass_on(), give(). */
	if (!q || load_acquire(&q->owner) != w->number || q->owned != (uint32_t)event)
		return;
	count(&q->kicks, 1);
	wake_queue(q);
}

/* Deaf to kicks, which are still there afterwards. */
static void nap(void)
{
	const struct timespec time = { .tv_nsec = NAP_US * 1000 };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static void sleep_until_kicked(struct worker *w, struct pass p, uint64_t now)
{
	struct timespec limit = { .tv_nsec = p.held ? FULL_RETRY_US * 1000 : KICKLESS_LOOK_NS };
	struct epoll_event events[EVENTS_MAX];
	const struct queue_set *set;
	int n;

	look_at_calls(w);
	count(&w->sleeps, 1);
	rcu_offline();
	w->timed = 0; /* so long ago that nothing can be said of the next long turn */
	if (nap_sleep(&w->nap, now, w->per_us, p.held))
		nap();
	n = epoll_pwait2(w->epoll, events, EVENTS_MAX, p.held || p.kickless ? &limit : NULL, NULL);
	rcu_online();
	if (n <= 0) {
		w->pass = 0; /* time is up: look at all of them */
		return;
	}
	set = rcu_read(w->set);
	for (int i = 0; i < n; i++) {
		if (events[i].data.u64 == WORKER_WAKE)
			w->pass = 0; /* control has changed something: look at all of them */
		else
			kicked(w, set, events[i].data.u64);
	}
}

static void run(struct worker *w)
{
	uint64_t now = clock_cycles();

	while (!load_relaxed(&w->stop)) {
		struct pass p = pass(w, &now);

		if (!p.moved)
			now = clock_cycles();
		call_late(w, p.moved, now);
		if (!p.moved && !p.polled) {
			sleep_until_kicked(w, p, now);
			now = clock_cycles();
		} else {
			/* Control waits for it: calls must not be pending for ever. */
			if (w->pass % QUIESCENT_PASSES == 0)
				look_at_calls(w);
			if (!w->calls.first)
				rcu_quiescent();
		}
	}
}

void *worker_main(void *arg)
{
	struct worker *w = arg;

	if (w->cpu >= 0)
		cpu_pin_self((unsigned)w->cpu);
	rcu_register_thread();
	run(w);
	rcu_offline();
	rcu_unregister_thread();
	return NULL;
}
