/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory ordering, by name.
 *
 * Nothing else in the tree touches ordering. Memory is shared with three kinds of peers: other
 * threads of ringway, guests (through the rings) and front-ends (through eventfds, which order by
 * themselves). Whoever uses an acquire or a release names its partner in a comment at the call.
 *
 * A counter has one writer; its reader is the control thread. `count()` is the writer's side and
 * compiles to a plain add.
 */
#ifndef RINGWAY_BASE_ATOMIC_H
#define RINGWAY_BASE_ATOMIC_H

#include <stdint.h>

#define load_relaxed(p)	    __atomic_load_n((p), __ATOMIC_RELAXED)
#define store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define load_acquire(p)	    __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

/* The datapath's only read-modify-writes; the second is a counter of many writers. */
#define exchange_acquire(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE)
#define add_relaxed(p, v)      __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)

/* Gives `n` references back: true for the last ones, who see what all others did before. */
#define references_last(p, n) (__atomic_sub_fetch((p), (n), __ATOMIC_ACQ_REL) == 0)

/* A counter of one writer, read by others at any time. */
static inline void count(uint64_t *counter, uint64_t n)
{
	store_relaxed(counter, load_relaxed(counter) + n);
}

/* Orders earlier stores before later loads: the one thing acquire and release cannot. */
static inline void fence_store_load(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* The compiler may neither move accesses across this nor read anything again that it has read. */
static inline void compiler_barrier(void)
{
	__asm__ volatile("" ::: "memory");
}

#endif
