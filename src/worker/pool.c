// SPDX-License-Identifier: Apache-2.0
/* The workers' threads: start, end, watchdog, figures. Which queues they have is queues.c. */
#include "worker/pool.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "worker/wakeup.h"
#include "worker/worker.h"

#define SLOTS_MIN	8u
#define WATCHDOG_NS	100000000u
#define WATCHDOG_SIGNAL SIGUSR1

/* Its only purpose is to interrupt a write: no SA_RESTART. */
static void watchdog_handler(int sig)
{
}

/* A sleep of less than a millisecond needs epoll_pwait2(); better told at once than found out. */
static int check_sleep(const struct worker *w, struct error *err)
{
	struct timespec none = { 0 };
	struct epoll_event event;

	if (epoll_pwait2(w->epoll, &event, 1, &none, NULL) < 0)
		return error_set(err, errno, "epoll_pwait2: %s; Linux 5.11 or later is needed",
				 strerror(errno));
	return 0;
}

static int worker_open(struct worker *w, struct error *err)
{
	int r;

	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	w->wake = w->epoll < 0 ? -1 : eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (w->wake < 0)
		return error_set(err, errno, "cannot make a worker: %s", error_reason(errno));
	w->set = queue_set_new(SLOTS_MIN, NULL);
	w->batch = aligned_alloc(CACHE_LINE, sizeof(*w->batch));
	if (!w->set || !w->batch)
		return error_set(err, ENOMEM, "cannot make a worker: %s", strerror(ENOMEM));
	memset(w->batch, 0, sizeof(*w->batch));
	r = check_sleep(w, err);
	if (r)
		return r;
	r = worker_watch(w, w->wake, WORKER_WAKE);
	return r ? error_set(err, -r, "cannot make a worker: %s", strerror(-r)) : 0;
}

static void worker_free(struct worker *w)
{
	if (w->epoll >= 0)
		close(w->epoll);
	if (w->wake >= 0)
		close(w->wake);
	free(w->set);
	free(w->batch);
}

/* It may hang in a call's write, and the watchdog's timer does not run any more. */
static void join(struct worker *w)
{
	struct timespec end;

	do {
		clock_gettime(CLOCK_REALTIME, &end);
		end.tv_sec += (end.tv_nsec + WATCHDOG_NS) / 1000000000;
		end.tv_nsec = (end.tv_nsec + WATCHDOG_NS) % 1000000000;
		pthread_kill(w->thread, WATCHDOG_SIGNAL);
	} while (pthread_timedjoin_np(w->thread, NULL, &end));
}

int pool_open(struct vswitch *sw, unsigned workers, const unsigned *cpus, struct pool **ret,
	      struct error *err)
{
	size_t size = sizeof(struct pool) + workers * sizeof(struct worker);
	struct pool *pool =
		aligned_alloc(CACHE_LINE, (size + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1));
	int r = 0;

	if (!pool)
		return error_set(err, ENOMEM, "no memory for workers");
	memset(pool, 0, size);
	pool->n = workers;
	pool->scarce = cpu_quota() / 1000 < workers;
	for (unsigned i = 0; i < workers; i++) {
		pool->worker[i].sw = sw;
		pool->worker[i].number = i + 1;
		pool->worker[i].cpu = cpus ? (int)cpus[i] : -1;
		pool->worker[i].per_us = clock_cycles_per_us();
		pool->worker[i].epoll = pool->worker[i].wake = -1;
	}
	for (unsigned i = 0; !r && i < workers; i++)
		r = worker_open(&pool->worker[i], err);
	if (r)
		pool_close(pool);
	else
		*ret = pool;
	return r;
}

int pool_start(struct pool *pool, bool always_poll, struct error *err)
{
	struct sigaction action = { .sa_handler = watchdog_handler };

	sigaction(WATCHDOG_SIGNAL, &action, NULL);
	pool->wakeup = wakeup_measure(pool->worker[0].cpu);
	for (; pool->started < pool->n; pool->started++) {
		struct worker *w = &pool->worker[pool->started];
		int r;

		w->limits = poll_limits(pool->wakeup, w->per_us, pool->scarce);
		w->limits.always = always_poll;
		r = pthread_create(&w->thread, NULL, worker_main, w);

		if (r)
			return error_set(err, r, "cannot start a worker: %s", strerror(r));
	}
	return 0;
}

void pool_close(struct pool *pool)
{
	for (unsigned i = 0; i < pool->started; i++) {
		store_relaxed(&pool->worker[i].stop, 1u);
		worker_wake(&pool->worker[i]);
	}
	for (unsigned i = 0; i < pool->started; i++)
		join(&pool->worker[i]);
	for (unsigned i = 0; i < pool->n; i++)
		worker_free(&pool->worker[i]);
	free(pool);
}

/* Inside a call's write for too long: it blocks, or the worker does not get to run. */
static bool hangs(const struct worker *w)
{
	/* partner: call() in virtq/notify.c. The times tell one write from the next. */
	const struct virtq *ring = load_acquire(&w->calls.writing_to);
	uint64_t since = load_acquire(&w->calls.writing_since);
	uint64_t now = clock_ns();

	if (!ring || now - since <= WATCHDOG_NS)
		return false;
	return load_acquire(&w->calls.writing_to) == ring &&
	       load_relaxed(&w->calls.writing_since) == since;
}

void pool_watchdog(struct pool *pool, void (*blame)(void *ctx, const struct virtq_callee *callee),
		   void *ctx)
{
	for (unsigned i = 0; i < pool->n; i++) {
		struct worker *w = &pool->worker[i];
		/* partner: call() in virtq/notify.c, in both directions */
		const struct virtq_callee *callee = load_acquire(&w->calls.dear);

		if (callee) {
			blame(ctx, callee);
			store_release(&w->calls.dear, NULL);
		}
		if (hangs(w))
			pthread_kill(w->thread, WATCHDOG_SIGNAL);
	}
}

uint64_t pool_progress(const struct pool *pool)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < pool->n; i++) {
		const struct worker *w = &pool->worker[i];

		sum += load_relaxed(&w->bursts) + load_relaxed(&w->sleeps);
		/* In this order: the one is set before the other is not any more. */
		if (load_acquire(&w->calls.writing_to) || load_relaxed(&w->calls.dear))
			sum += clock_ns();
	}
	return sum;
}

unsigned pool_workers(const struct pool *pool)
{
	return pool->n;
}

static uint64_t thread_cpu_ns(pthread_t thread)
{
	struct timespec ts = { 0 };
	clockid_t clock;

	if (!pthread_getcpuclockid(thread, &clock))
		clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void pool_report(struct pool *pool, unsigned worker, struct worker_report *ret)
{
	struct worker *w = &pool->worker[worker];

	*ret = (struct worker_report){
		.worker = worker,
		.cpu = w->cpu,
		.cpu_ns = thread_cpu_ns(w->thread),
		.busy_cycles = load_relaxed(&w->busy_cycles),
		.frames = load_relaxed(&w->frames),
		.bursts = load_relaxed(&w->bursts),
		.sleeps = load_relaxed(&w->sleeps),
		.queues = w->queues,
		.armed = load_relaxed(&w->armed),
		.load = w->load,
		.wakeup_ns = pool->wakeup * 1000 / w->per_us,
	};
}
