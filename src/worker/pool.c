// SPDX-License-Identifier: Apache-2.0
/*
 * The control side of the workers: threads, and who owns which queue.
 *
 * A worker's set of queues has slots. A queue that is served for the first time takes a free one,
 * and keeps it until it is gone for good: it may go down and come up in between, always with the
 * same worker, which may still be in a turn of it, and which goes on delivering what the queue
 * holds. To leave a slot takes no memory and cannot fail; the worker may be in a turn until the end
 * of a grace period. A kick's epoll event says slot and queue.
 */
#include "worker/pool.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rcu.h"
#include "policy/place.h"
#include "worker/wakeup.h"
#include "worker/worker.h"

#define SLOTS_MIN	8u
#define WATCHDOG_NS	100000000u
#define WATCHDOG_SIGNAL SIGUSR1

struct pool {
	unsigned n, started;
	uint64_t wakeup; /* what one costs; cycles */
	uint32_t last_id;
	struct worker worker[];
};

/* Its only purpose is to interrupt a write: no SA_RESTART. */
static void watchdog_handler(int sig)
{
}

static void wake(struct worker *w)
{
	uint64_t one = 1;

	if (write(w->wake, &one, sizeof(one)) < 0)
		log_event(LOG_ERROR, NULL, "cannot wake a worker: %s", strerror(errno));
}

static int watch(struct worker *w, int fd, uint64_t data)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = data };

	return epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
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

/* `room` slots, the first of them as in `before` (NULL: none); NULL: no memory. */
static struct queue_set *set_new(unsigned room, const struct queue_set *before)
{
	struct queue_set *set = calloc(1, sizeof(*set) + room * sizeof(set->queue[0]));

	if (!set)
		return NULL;
	set->room = room;
	if (before) {
		set->end = before->end;
		memcpy(set->queue, before->queue, before->end * sizeof(set->queue[0]));
	}
	return set;
}

static void set_release(struct rcu_item *item)
{
	free(container_of(item, struct queue_set, rcu));
}

static int worker_open(struct worker *w, struct error *err)
{
	int r;

	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	w->wake = w->epoll < 0 ? -1 : eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (w->wake < 0)
		return error_set(err, errno, "cannot make a worker: %s", error_reason(errno));
	w->set = set_new(SLOTS_MIN, NULL);
	w->batch = aligned_alloc(CACHE_LINE, sizeof(*w->batch));
	if (!w->set || !w->batch)
		return error_set(err, ENOMEM, "cannot make a worker: %s", strerror(ENOMEM));
	memset(w->batch, 0, sizeof(*w->batch));
	r = check_sleep(w, err);
	if (r)
		return r;
	r = watch(w, w->wake, WORKER_WAKE);
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
	for (unsigned i = 0; i < workers; i++) {
		pool->worker[i].sw = sw;
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

int pool_start(struct pool *pool, struct error *err)
{
	struct sigaction action = { .sa_handler = watchdog_handler };

	sigaction(WATCHDOG_SIGNAL, &action, NULL);
	pool->wakeup = wakeup_measure();
	for (; pool->started < pool->n; pool->started++) {
		struct worker *w = &pool->worker[pool->started];
		int r;

		w->limits = poll_limits(pool->wakeup, w->per_us);
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
		wake(&pool->worker[i]);
	}
	for (unsigned i = 0; i < pool->started; i++)
		join(&pool->worker[i]);
	for (unsigned i = 0; i < pool->n; i++)
		worker_free(&pool->worker[i]);
	free(pool);
}

static struct worker *find_owner(const struct pool *pool, const struct port_queue *queue,
				 unsigned *ret_slot)
{
	for (unsigned i = 0; i < pool->n; i++) {
		const struct worker *w = &pool->worker[i];

		for (unsigned slot = 0; slot < w->set->end; slot++) {
			if (w->set->queue[slot] == queue) {
				*ret_slot = slot;
				return (struct worker *)w;
			}
		}
	}
	return NULL;
}

static struct worker *place(struct pool *pool)
{
	unsigned load[WORKERS_MAX];

	for (unsigned i = 0; i < pool->n; i++)
		load[i] = pool->worker[i].queues;
	return &pool->worker[place_queue(load, pool->n)];
}

/* A free slot; -ENOMEM if there is none and none can be made. */
static int find_slot(struct worker *w)
{
	struct queue_set *before = w->set, *set;
	unsigned slot = 0;

	while (slot < before->end && before->queue[slot])
		slot++;
	if (slot < before->room)
		return (int)slot;
	set = set_new(2 * before->room, before);
	if (!set)
		return -ENOMEM;
	rcu_publish(w->set, set);
	rcu_free_later(&before->rcu, set_release);
	return (int)slot;
}

/* The queue's worker and slot, found or made. */
static int give_slot(struct pool *pool, struct port_queue *queue, struct worker **ret_w,
		     unsigned *ret_slot)
{
	struct worker *w = find_owner(pool, queue, ret_slot);
	int slot;

	*ret_w = w;
	if (w)
		return 0;
	w = *ret_w = place(pool);
	slot = find_slot(w);
	if (slot < 0)
		return slot;
	*ret_slot = (unsigned)slot;
	rcu_publish(w->set->queue[slot], queue);
	rcu_publish(w->set->end, MAX(w->set->end, *ret_slot + 1));
	return 0;
}

void pool_queue_up(struct pool *pool, struct port_queue *queue)
{
	struct worker *w;
	unsigned slot;
	int r;

	if (give_slot(pool, queue, &w, &slot)) {
		log_event(LOG_ERROR, queue->port->name, "no memory to serve a queue");
		return;
	}
	if (!queue->served) {
		store_relaxed(&queue->id, ++pool->last_id);
		r = queue->kick < 0 ? -EBADF
				    : watch(w, queue->kick, (uint64_t)slot << 32 | queue->id);
		if (r && queue->kick >= 0)
			log_event(LOG_WARN, queue->port->name,
				  "cannot watch a kick (%s): a queue is looked at every "
				  "millisecond",
				  strerror(-r));
		store_relaxed(&queue->watched, !r);
		store_release(&queue->served, true); /* partner: pass() in worker.c */
		w->queues++;
	}
	wake(w);
}

void pool_queue_down(struct pool *pool, struct port_queue *queue)
{
	struct worker *w;
	unsigned slot;

	w = find_owner(pool, queue, &slot);
	if (!w || !queue->served)
		return;
	if (queue->watched)
		epoll_ctl(w->epoll, EPOLL_CTL_DEL, queue->kick, NULL);
	store_relaxed(&queue->served, false);
	w->queues--;
}

void pool_queue_gone(struct pool *pool, struct port_queue *queue)
{
	struct worker *w;
	unsigned slot, end;

	pool_queue_down(pool, queue);
	w = find_owner(pool, queue, &slot);
	if (!w)
		return;
	end = w->set->end;
	rcu_publish(w->set->queue[slot], NULL);
	while (end && !w->set->queue[end - 1])
		end--;
	rcu_publish(w->set->end, end);
}

/* The ring whose call's write has lasted too long, or NULL. */
static const struct virtq *hangs_in(const struct worker *w)
{
	/* partner: call() in virtq/notify.c. The times tell one write from the next. */
	const struct virtq *ring = load_acquire(&w->calls.writing_to);
	uint64_t since = load_acquire(&w->calls.writing_since);
	uint64_t now = clock_ns();

	if (!ring || now < since || now - since <= WATCHDOG_NS)
		return NULL;
	if (load_acquire(&w->calls.writing_to) != ring ||
	    load_relaxed(&w->calls.writing_since) != since)
		return NULL;
	return ring;
}

const struct virtq *pool_watchdog(struct pool *pool)
{
	for (unsigned i = 0; i < pool->n; i++) {
		const struct virtq *ring = hangs_in(&pool->worker[i]);

		if (ring) {
			pthread_kill(pool->worker[i].thread, WATCHDOG_SIGNAL);
			return ring;
		}
	}
	return NULL;
}

unsigned pool_workers(const struct pool *pool)
{
	return pool->n;
}

static uint64_t thread_cpu_ns(pthread_t thread)
{
	struct timespec ts;
	clockid_t clock;

	if (pthread_getcpuclockid(thread, &clock) || clock_gettime(clock, &ts))
		return 0;
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
		.wakeup_ns = pool->wakeup * 1000 / w->per_us,
	};
}

int pool_owner(const struct pool *pool, const struct port_queue *queue)
{
	unsigned at;
	const struct worker *w = find_owner(pool, queue, &at);

	return w && queue->served ? (int)(w - pool->worker) : -1;
}
