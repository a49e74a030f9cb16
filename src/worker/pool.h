/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of workers: datapath threads, each of which owns queues and alone collects from them.
 *
 * Control thread only. Which worker a queue goes to, and when it moves, is policy/place's decision.
 * A worker's set of queues has slots, which change one by one under its eyes; a set that is full is
 * replaced by a larger one, and freed after a grace period.
 */
#ifndef RINGWAY_WORKER_POOL_H
#define RINGWAY_WORKER_POOL_H

#include "switch/switch.h"

#define WORKERS_MAX 64

struct pool;

struct worker_report {
	unsigned worker;
	int cpu;		 /* pinned to, or -1 */
	uint64_t cpu_ns;	 /* CPU time of the thread */
	uint64_t busy_cycles;	 /* of turns that moved frames */
	uint64_t frames, bursts; /* collected */
	uint64_t sleeps;
	unsigned queues, armed; /* owned; of them waiting for a kick */
	unsigned load;		/* thousandths of a CPU spent on frames, over a few seconds */
	uint64_t wakeup_ns;	/* what waking one costs here, as measured at start; 0: not known */
};

/*
 * Makes a pool of `workers` workers; queues may come up from here on. `cpus`: one for each, or NULL
 * to leave the placement to the kernel. The calling thread is registered with liburcu first. 0 or a
 * negative errno with `err` filled.
 */
int pool_open(struct vswitch *sw, unsigned workers, const unsigned *cpus, struct pool **ret,
	      struct error *err);
/*
 * Starts their threads. `always_poll`: they never sleep. 0 or a negative errno with `err` filled;
 * pool_close() either way.
 */
int pool_start(struct pool *pool, bool always_poll, struct error *err);
/* Stops and joins them; all queues are down already or never will be served again. */
void pool_close(struct pool *pool);

/*
 * A queue begins or ceases to be served, or its kick descriptor has changed (down, then up). Up
 * again, while it is, wakes its worker.
 */
void pool_queue_up(struct pool *pool, struct port_queue *queue);
void pool_queue_down(struct pool *pool, struct port_queue *queue);
/* It will not come up again; what it holds for others is lost. Valid for a grace period more. */
void pool_queue_gone(struct pool *pool, struct port_queue *queue);

/* Once a second: measures loads, and moves a queue if that pays. */
void pool_balance(struct pool *pool);

/*
 * Watchdog: interrupts all workers that make no progress inside a call's write. Those that did
 * block there say so, and who spent too much time there; the next time `blame` is told whom they
 * called, and ends that session; until then it is not called.
 */
void pool_watchdog(struct pool *pool, void (*blame)(void *ctx, const struct virtq_callee *callee),
		   void *ctx);

/*
 * Changes whenever a worker has done something, or been woken to, while one is calling, and while
 * one has a device to blame.
 */
uint64_t pool_progress(const struct pool *pool);

unsigned pool_workers(const struct pool *pool);
void pool_report(struct pool *pool, unsigned worker, struct worker_report *ret);
/* Index of the worker that serves the queue, or -1. */
int pool_owner(const struct pool *pool, const struct port_queue *queue);

#endif
