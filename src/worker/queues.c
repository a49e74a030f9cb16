// SPDX-License-Identifier: Apache-2.0
/*
 * Which worker has which queue: control's side of it.
 *
 * A worker's set of queues has slots. A queue that is served for the first time takes a free one,
 * and keeps it until it is moved or gone for good: it may go down and come up in between, with the
 * same worker, which may still be in a turn of it, and which goes on delivering what the queue
 * holds. To leave a slot takes no memory and cannot fail; the worker may be in a turn until the end
 * of a grace period. A kick's epoll event says slot and queue.
 *
 * Loads are measured once a second, and policy/place says whether a queue is to be moved. How that
 * is done is worker.h's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rcu.h"
#include "policy/place.h"
#include "worker/worker.h"

struct queue_set *queue_set_new(unsigned room, const struct queue_set *before)
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

/* The worker that owns the queue, or will: there is one. */
static struct worker *heir_of(struct pool *pool, const struct port_queue *queue)
{
	return &pool->worker[queue->heir - 1];
}

static bool moves(const struct pool *pool, const struct port_queue *queue)
{
	return pool->move.queue == queue;
}

/* Slots */

static struct worker *place(struct pool *pool)
{
	unsigned load[WORKERS_MAX];

	for (unsigned i = 0; i < pool->n; i++) {
		const struct queue_set *set = pool->worker[i].set;

		load[i] = 0;
		for (unsigned slot = 0; slot < set->end; slot++) {
			if (set->queue[slot])
				load[i] += place_expect(set->queue[slot]->load.load);
		}
	}
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
	set = queue_set_new(2 * before->room, before);
	if (!set)
		return -ENOMEM;
	rcu_publish(w->set, set);
	rcu_free_later(&before->rcu, set_release);
	return (int)slot;
}

static int take_slot(struct worker *w, struct port_queue *queue)
{
	int slot = find_slot(w);

	if (slot < 0)
		return slot;
	queue->slot = (unsigned)slot;
	rcu_publish(w->set->queue[slot], queue);
	rcu_publish(w->set->end, MAX(w->set->end, queue->slot + 1));
	return 0;
}

static void leave_slot(struct worker *w, unsigned slot)
{
	unsigned end = w->set->end;

	rcu_publish(w->set->queue[slot], NULL);
	while (end && !w->set->queue[end - 1])
		end--;
	rcu_publish(w->set->end, end);
}

/* Kicks */

int worker_watch(struct worker *w, int fd, uint64_t data)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = data };

	return epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static void watch_kick(struct worker *w, struct port_queue *queue)
{
	int r = queue->kick < 0
			? -EBADF
			: worker_watch(w, queue->kick, (uint64_t)queue->slot << 32 | queue->id);

	if (r && queue->kick >= 0)
		log_event(LOG_WARN, &queue->port->log,
			  "cannot watch a kick (%s): a queue is looked at every millisecond",
			  strerror(-r));
	store_relaxed(&queue->watched, !r);
}

static void unwatch_kick(struct worker *w, const struct port_queue *queue)
{
	epoll_ctl(w->epoll, EPOLL_CTL_DEL, queue->kick, NULL);
}

/* Up, down, gone */

static int give(struct pool *pool, struct port_queue *queue)
{
	struct worker *w = place(pool);
	int r = take_slot(w, queue);

	if (r)
		return r;
	store_relaxed(&queue->heir, (uint16_t)w->number);
	store_release(&queue->owner, (uint16_t)w->number); /* partner: visit(), kicked() */
	return 0;
}

void pool_queue_up(struct pool *pool, struct port_queue *queue)
{
	struct worker *w;

	if (!queue->heir && give(pool, queue)) {
		log_event(LOG_ERROR, &queue->port->log, "no memory to serve a queue");
		return;
	}
	w = heir_of(pool, queue);
	if (!queue->served) {
		store_relaxed(&queue->id, ++pool->last_id);
		watch_kick(w, queue);
		store_release(&queue->served, true); /* partner: visit() in worker.c */
		w->queues++;
	}
	worker_wake(w);
}

void pool_queue_down(struct pool *pool, struct port_queue *queue)
{
	struct worker *w;

	if (!queue->served)
		return;
	w = heir_of(pool, queue);
	unwatch_kick(w, queue);
	if (moves(pool, queue))
		unwatch_kick(pool->move.from, queue);
	store_relaxed(&queue->served, false);
	w->queues--;
}

void pool_queue_gone(struct pool *pool, struct port_queue *queue)
{
	if (!queue->heir)
		return;
	pool_queue_down(pool, queue);
	leave_slot(heir_of(pool, queue), queue->slot);
	if (moves(pool, queue)) {
		leave_slot(pool->move.from, pool->move.slot);
		pool->move.queue = NULL;
	}
}

int pool_owner(const struct pool *pool, const struct port_queue *queue)
{
	return queue->served ? load_relaxed(&queue->owner) - 1 : -1;
}

/* Moves */

/* True: none is under way any more. */
static bool move_end(struct pool *pool)
{
	struct port_queue *queue = pool->move.queue;

	if (!queue)
		return true;
	if (load_relaxed(&queue->owner) != queue->heir)
		return false;
	unwatch_kick(pool->move.from, queue);
	leave_slot(pool->move.from, pool->move.slot);
	pool->move.queue = NULL;
	return true;
}

/* Without memory it stays where it is. */
static void move_begin(struct pool *pool, struct port_queue *queue, struct worker *from,
		       struct worker *to)
{
	unsigned slot = queue->slot;

	if (take_slot(to, queue))
		return;
	pool->move.queue = queue;
	pool->move.from = from;
	pool->move.slot = slot;
	watch_kick(to, queue);
	from->queues--;
	to->queues++;
	queue->load.moves++;
	pool->rest = PLACE_REST;
	/* Partner: pass_on(), whose heir is woken only then, and has to find the slot. */
	store_release(&queue->heir, (uint16_t)to->number);
	worker_wake(from);
}

/* Since the last time. */
static void measure(struct pool *pool)
{
	uint64_t now = clock_cycles(), elapsed = now - pool->measured;

	pool->measured = now;
	for (unsigned i = 0; i < pool->n; i++) {
		struct worker *w = &pool->worker[i];
		uint64_t busy = load_relaxed(&w->busy_cycles);

		w->load = place_load(w->load, busy - w->counted, elapsed);
		w->counted = busy;
		for (unsigned slot = 0; slot < w->set->end; slot++) {
			struct port_queue *queue = w->set->queue[slot];

			if (!queue || queue->heir != w->number)
				continue;
			busy = load_relaxed(&queue->busy);
			queue->load.load =
				place_load(queue->load.load, busy - queue->load.busy, elapsed);
			queue->load.busy = busy;
		}
	}
}

static bool rests(struct pool *pool)
{
	if (!pool->rest)
		return false;
	pool->rest--;
	return true;
}

void pool_balance(struct pool *pool)
{
	unsigned load[WORKERS_MAX], most = 0, from, to;
	struct port_queue *best = NULL;
	const struct queue_set *set;

	measure(pool);
	for (unsigned i = 0; i < pool->n; i++)
		load[i] = pool->worker[i].load;
	if (!move_end(pool) || rests(pool) || !place_sides(load, pool->n, &from, &to))
		return;
	set = pool->worker[from].set;
	for (unsigned slot = 0; slot < set->end; slot++) {
		struct port_queue *queue = set->queue[slot];
		unsigned gain;

		if (!queue || !queue->served)
			continue;
		gain = place_gain(load[from], load[to], queue->load.load);
		if (gain > most) {
			most = gain;
			best = queue;
		}
	}
	if (best)
		move_begin(pool, best, &pool->worker[from], &pool->worker[to]);
}
