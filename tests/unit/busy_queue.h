/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of a pool's workers, of a port that carries nothing: a turn of one that is busy lasts a
 * while, and each notes the thread that it is in. The linker is told to wrap clock_gettime().
 */
#ifndef RINGWAY_TEST_BUSY_QUEUE_H
#define RINGWAY_TEST_BUSY_QUEUE_H

#include "pool_rig.h"

#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

#define QUEUES	3
#define MORE	14 /* come later: then two workers have all that there is room for, and one more */
#define TURN_US 50
#define TICK_US 20000 /* between two measurements, which are a second apart in the switch */
#define TICKS	400
#define WAKES	50 /* work for the quiet queue comes every so many turns of the greedy one */

struct busy_queue {
	struct port_queue q;
	uint32_t work;	   /* turns that are waiting to be done; UINT32_MAX: without end */
	uint32_t restless; /* its worker never sleeps */
	uint32_t held;	   /* the turn from which on none ends; 0: no such */
	uint32_t inside;   /* threads in a turn of it */
	uint32_t shared;   /* turns in which there was another one */
	uint32_t turns;
	uint32_t bytes;	   /* that each has */
	uint32_t summed;   /* bytes that are summed in each */
	uint32_t lasts_us; /* that each takes of its CPU, and does not count */
	uint64_t thread;   /* of the last turn */
	uint64_t armed;	   /* the thread that did it; 0: it is not */
	uint32_t foreign;  /* times that another one undid it */
	uint32_t disarmed; /* times that its worker was told to look at it */
	/* Work comes to that one while this one has the worker. */
	struct busy_queue *quiet;
	uint32_t since;	 /* how many turns this one had had then */
	uint32_t waited; /* how many it had until that was done, at most */
	bool gone;
};

static struct port port;
static struct busy_queue queue[QUEUES + MORE];
static unsigned queues;

static bool time_counts; /* else no thread seems to have had a CPU in any turn */

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
	if (clock != CLOCK_THREAD_CPUTIME_ID || load_relaxed(&time_counts))
		return __real_clock_gettime(clock, ret);
	*ret = (struct timespec){ 0 };
	return 0;
}

static inline struct busy_queue *busy_queue(struct port_queue *q)
{
	return container_of(q, struct busy_queue, q);
}

static inline void enter(struct busy_queue *q)
{
	if (__atomic_fetch_add(&q->inside, 1, __ATOMIC_ACQ_REL))
		add_relaxed(&q->shared, 1);
	store_relaxed(&q->thread, (uint64_t)pthread_self());
}

static inline void leave(struct busy_queue *q)
{
	__atomic_fetch_sub(&q->inside, 1, __ATOMIC_ACQ_REL);
}

static inline void greet(struct busy_queue *q)
{
	uint32_t had = load_relaxed(&q->turns);

	if (load_relaxed(&q->quiet->work)) {
		store_relaxed(&q->waited, MAX(load_relaxed(&q->waited), had - q->since));
	} else if (had % WAKES == 0) {
		q->since = had;
		store_release(&q->quiet->work, 1u); /* without a kick: it is looked at */
	}
}

static inline bool stays(const struct busy_queue *q)
{
	uint32_t held = load_acquire(&q->held);

	return held && load_relaxed(&q->turns) >= held;
}

static inline bool collect(struct port_queue *of, struct batch *b, struct virtq_calls *calls)
{
	struct busy_queue *q = busy_queue(of);
	uint32_t work = load_acquire(&q->work);
	uint64_t end = clock_ns() + TURN_US * 1000;
	uint64_t cpu_end = clock_cpu_ns() + load_relaxed(&q->lasts_us) * 1000ull;

	enter(q);
	add_relaxed(&q->turns, 1);
	if (load_acquire(&q->quiet))
		greet(q);
	while ((work && (clock_ns() < end || clock_cpu_ns() < cpu_end)) || stays(q))
		;
	if (work && work != UINT32_MAX)
		__atomic_fetch_sub(&q->work, 1, __ATOMIC_ACQ_REL);
	leave(q);
	batch_begin(b);
	b->bytes = load_relaxed(&q->bytes);
	b->summed = load_relaxed(&q->summed);
	return work;
}

static inline void complete(struct port_queue *of, const struct batch *b, struct virtq_calls *calls)
{
}

static inline bool ready(struct port_queue *of)
{
	return load_acquire(&busy_queue(of)->work);
}

static inline bool arm(struct port_queue *of)
{
	store_relaxed(&busy_queue(of)->armed, (uint64_t)pthread_self());
	return ready(of) || load_relaxed(&busy_queue(of)->restless);
}

static inline void disarm(struct port_queue *of)
{
	struct busy_queue *q = busy_queue(of);
	uint64_t by = load_relaxed(&q->armed);

	if (by && by != (uint64_t)pthread_self())
		add_relaxed(&q->foreign, 1);
	store_relaxed(&q->armed, (uint64_t)0);
	add_relaxed(&q->disarmed, 1);
}

static const struct port_ops ops = {
	.collect = collect,
	.complete = complete,
	.ready = ready,
	.arm = arm,
	.disarm = disarm,
};

static inline void come(void)
{
	struct port_queue *q = &queue[queues].q;

	q->port = &port;
	q->index = queues++;
	q->kick = eventfd(0, EFD_NONBLOCK);
	pool_queue_up(pool, q);
}

static inline int begin(const struct port_ops *with, bool always_poll)
{
	memset(queue, 0, sizeof(queue));
	queues = 0;
	store_relaxed(&time_counts, false); /* turns are held for any time */
	port = (struct port){ .ops = with, .name = "busy" };
	if (rig_begin(2, always_poll))
		return -1;
	while (queues < QUEUES)
		come();
	return 0;
}

static inline int setup(void **state)
{
	return begin(&ops, false);
}

static inline void go(struct busy_queue *q)
{
	pool_queue_gone(pool, &q->q);
	q->gone = true;
}

static inline int teardown(void **state)
{
	for (unsigned i = 0; i < queues; i++)
		store_release(&queue[i].held, 0u);
	for (unsigned i = 0; i < queues; i++) {
		if (!queue[i].gone)
			go(&queue[i]);
	}
	pool_close(pool);
	for (unsigned i = 0; i < queues; i++)
		close(queue[i].q.kick);
	rig_end();
	return 0;
}

static inline void work(struct busy_queue *q, uint32_t turns)
{
	uint64_t one = 1;

	store_release(&q->work, turns);
	assert_int_equal(write(q->q.kick, &one, sizeof(one)), sizeof(one));
}

/* Holds the queue's worker in its turn `at`, or in the next one. */
static inline void hold_at(struct busy_queue *q, uint32_t at)
{
	store_release(&q->held, MAX(at, 1u));
	for (unsigned i = 0; i < TICKS * TICK_US / 1000; i++) {
		if (load_acquire(&q->inside) && stays(q))
			break;
		usleep(1000);
	}
	assert_true(load_acquire(&q->inside) && stays(q));
}

static inline void let_go(struct busy_queue *q)
{
	store_release(&q->held, 0u);
}

#endif
