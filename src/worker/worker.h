/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker: a thread that collects from its queues and forwards, or sleeps.
 *
 * Private to this directory; pool.c is the control side.
 */
#ifndef RINGWAY_WORKER_WORKER_H
#define RINGWAY_WORKER_WORKER_H

#include <pthread.h>

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
	int epoll;	       /* kicks of its queues and `wake`, edge-triggered and never read */
	int wake;	       /* eventfd: a queue has come, or stop */
	int cpu;	       /* to pin to, or -1 */
	uint32_t stop;
	uint64_t per_us; /* cycles */
	struct poll_limits limits;

	/* The worker's. */
	struct virtq_calls calls cache_aligned;
	struct batch *batch;
	unsigned pass;	   /* counts the rounds over its queues */
	uint64_t looked;   /* when it looked at armed ones last */
	unsigned uncalled; /* bursts since it last looked at event indexes */
	uint64_t idle;	   /* since when nothing was found; 0: not idle */

	/* Written by the worker, read by control. */
	uint64_t busy_cycles, frames, bursts, sleeps;
	uint32_t armed;
};

void *worker_main(void *worker);

/* What a kick's epoll event carries, and what the wake-up's does. */
#define WORKER_WAKE UINT64_MAX

#endif
