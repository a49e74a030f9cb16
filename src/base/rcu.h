/* SPDX-License-Identifier: Apache-2.0 */
/*
 * liburcu's quiescent-state flavour, made known to the thread sanitizer.
 *
 * What a worker reaches by pointer without a lock (the port table, its set of queues, a ring's
 * call descriptor) is replaced by control and freed by `rcu_free_later()`. A worker holds no such
 * pointer across `rcu_quiescent()` or while it is offline; it is offline around every wait.
 * Debian's liburcu is not instrumented, so the two edges that it provides (everything before a
 * reader's quiescent state happens before the callback; publication by rcu_assign_pointer) are
 * spelled out for the sanitizer here and nowhere else.
 */
#ifndef RINGWAY_BASE_RCU_H
#define RINGWAY_BASE_RCU_H

#include <urcu-qsbr.h>

#include "base/atomic.h"
#include "base/base.h"

#if defined(__SANITIZE_THREAD__)
#define RINGWAY_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RINGWAY_TSAN 1
#endif
#endif

#ifdef RINGWAY_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
extern char rcu_tsan_grace;
#define RCU_TSAN_RELEASE() __tsan_release(&rcu_tsan_grace)
#define RCU_TSAN_ACQUIRE() __tsan_acquire(&rcu_tsan_grace)
#else
#define RCU_TSAN_RELEASE() ((void)0)
#define RCU_TSAN_ACQUIRE() ((void)0)
#endif

/* Publishes a pointer; the partner is rcu_read(). Whoever alone writes to it. */
#define rcu_publish(p, v) store_release(&(p), (v))

/* Any thread that is registered and online. */
#define rcu_read(p) load_acquire(&(p))

static inline void rcu_quiescent(void)
{
	RCU_TSAN_RELEASE();
	rcu_quiescent_state();
}

static inline void rcu_offline(void)
{
	RCU_TSAN_RELEASE();
	rcu_thread_offline();
}

static inline void rcu_online(void)
{
	rcu_thread_online();
}

/* A part of each object that workers may reach without a lock: its end needs no memory. */
struct rcu_item {
	struct rcu_head head;
	void (*release)(struct rcu_item *item);
};

/*
 * Makes the thread that carries out rcu_free_later(), which liburcu would make when it is first
 * needed, and abort() if it then cannot. Comes before any other thread that reads. 0 or a negative
 * errno. Control thread.
 */
int rcu_start(void);

/*
 * Calls `release(item)` after a grace period, on liburcu's own thread: it may free memory and close
 * descriptors, nothing more. In order; never blocks, never fails. Before rcu_start() there are no
 * readers, and it is called at once. Control thread, which is registered with liburcu and offline
 * but for this moment.
 */
void rcu_free_later(struct rcu_item *item, void (*release)(struct rcu_item *item));

/*
 * Waits until all that was handed to rcu_free_later() is released. For the end of the process, in
 * place of liburcu's own barrier, which the thread sanitizer does not see through. Control thread,
 * offline.
 */
void rcu_drain(void);

#endif
