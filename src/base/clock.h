/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two clocks: cycles for the datapath (the time stamp counter: constant rate, a few ns to read)
 * and nanoseconds for everybody else. `clock_cycles_per_us()` joins them.
 */
#ifndef RINGWAY_BASE_CLOCK_H
#define RINGWAY_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* What the calling thread has had of its CPUs: a system call, some 200 ns. */
static inline uint64_t clock_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_cycles(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t v;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
	return v;
#else
	return clock_ns();
#endif
}

/* How long ago `then` was. Counters of two cores may differ a little, which is no age. */
static inline uint64_t clock_since(uint64_t then, uint64_t now)
{
	return now > then ? now - then : 0;
}

/* Measured once, in about 10 ms, by the first caller: call it before the threads start. */
uint64_t clock_cycles_per_us(void);

#endif
