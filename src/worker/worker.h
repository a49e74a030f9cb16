/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker: a thread that collects from its queues and forwards, or sleeps.
 *
 * Private to this directory; pool.c is the control side.
 *
 * A queue has one owner, which alone touches it, and moves from one worker to another like this.
 * Control puts it into the heir's set as well, watches its kicks there too, and names the heir; the
 * owner passes it on between two turns, with all that is known and held of it, and wakes the heir;
 * control takes it out of the old set later. So nothing waits for anybody.
 */
#ifndef RINGWAY_WORKER_WORKER_H
#define RINGWAY_WORKER_WORKER_H

#include <pthread.h>

#include "policy/call.h"
#include "policy/nap.h"
#include "worker/pool.h"

/* What a worker serves. Slots change one by one; the whole is only replaced to grow (RCU). */
struct queue_set {
	struct rcu_item rcu;
	unsigned room;		    /* slots */
	unsigned end;		    /* one more than the last slot in use */
	struct port_queue *queue[]; /* NULL: free */
};

struct worker {
	/* Control's, or fixed before the thread starts. */
	pthread_t thread;
	struct vswitch *sw;
	struct queue_set *set; /* rcu_publish() by control, rcu_read() by the worker */
	unsigned queues;       /* in it */
	unsigned number;       /* from 1; its place among its peers */
	unsigned load;	       /* thousandths of a CPU, of late */
	uint64_t counted;      /* busy cycles that `load` has taken in */
	int epoll;	       /* kicks of its queues and `wake`, edge-triggered and never read */
	int wake;	       /* eventfd: a queue has come, or stop */
	int cpu;	       /* to pin to, or -1 */
	uint32_t stop;
	uint64_t per_us; /* cycles */
	struct poll_limits limits;

	/* The worker's. */
	struct virtq_calls calls cache_aligned;
	struct batch *batch;
	struct call_state call;
	struct poll_state poll; /* of all its queues together */
	struct nap_state nap;
	unsigned pass;	 /* counts the rounds over its queues */
	uint64_t looked; /* when it looked at armed ones last */
	/* The last turn that was long, if it has not slept since (policy/share). */
	uint64_t timed;	       /* when it ended */
	uint64_t timed_cpu_us; /* what the worker had had of its CPUs */

	/* Written by the worker, read by control. */
	uint64_t busy_cycles, frames, bursts, sleeps;
	uint32_t armed;
};

struct pool {
	unsigned n, started;
	bool scarce;	   /* a cgroup gives them less CPU time than they could use */
	uint64_t wakeup;   /* what one costs; cycles */
	uint64_t measured; /* when loads were; cycles */
	uint32_t last_id;
	unsigned rest; /* seconds in which nothing is moved */
	/* On its way, at most one: it is still in this slot of the old worker. */
	struct {
		struct port_queue *queue; /* NULL: none */
		struct worker *from;
		unsigned slot;
	} move;
	struct worker worker[];
};

void *worker_main(void *worker);
void worker_wake(struct worker *w);

/* queues.c */

/* `room` slots, the first of them as in `before` (NULL: none); NULL: no memory. */
struct queue_set *queue_set_new(unsigned room, const struct queue_set *before);
/* Wakes the worker by `fd`. 0 or a negative errno. */
int worker_watch(struct worker *w, int fd, uint64_t data);

/* What a kick's epoll event carries, and what the wake-up's does. */
#define WORKER_WAKE UINT64_MAX

#endif
