// SPDX-License-Identifier: Apache-2.0
/*
 * Two threads that wake each other by eventfds, as a driver and a worker do: on different CPUs,
 * since on one CPU the kernel merely switches from one to the other, in a third of the time. The
 * lower quartile of some rounds, because whatever else runs on the machine gets in between; of
 * those before the first in which one of the two got no CPU for too long.
 */
#include "worker/wakeup.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/cpu.h"

#define ROUNDS	    8
#define SETTLE_NS   1000000 /* the other one is asleep by then, and its CPU too */
#define PATIENCE_MS 100

struct pair {
	int there, back;
	unsigned cpu; /* the sleeper's */
	uint64_t woken[ROUNDS];
};

static bool wait_for(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t value;

	if (poll(&p, 1, PATIENCE_MS) != 1)
		return false;
	return read(fd, &value, sizeof(value)) > 0;
}

static void wake(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0)
		(void)0; /* the other one loses its patience */
}

static void *sleeper(void *arg)
{
	struct pair *pair = arg;

	cpu_pin_self(pair->cpu);
	for (unsigned i = 0; i < ROUNDS && wait_for(pair->there); i++) {
		pair->woken[i] = clock_cycles();
		wake(pair->back);
	}
	return NULL;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t measure(struct pair *pair)
{
	const struct timespec settle = { .tv_nsec = SETTLE_NS };
	uint64_t cost[ROUNDS];
	unsigned n;

	for (n = 0; n < ROUNDS; n++) {
		uint64_t begin, written;

		nanosleep(&settle, NULL);
		begin = clock_cycles();
		wake(pair->there);
		written = clock_cycles();
		if (!wait_for(pair->back))
			break;
		cost[n] = written - begin + clock_since(begin, pair->woken[n]);
	}
	qsort(cost, n, sizeof(cost[0]), compare);
	return n ? cost[n / 4] : 0;
}

static unsigned last_of(const cpu_set_t *cpus)
{
	unsigned cpu = CPU_SETSIZE - 1;

	while (cpu && !CPU_ISSET(cpu, cpus))
		cpu--;
	return cpu;
}

static uint64_t measure_apart(struct pair *pair, int cpu)
{
	cpu_set_t all, others;
	uint64_t cost = 0;
	pthread_t thread;

	CPU_ZERO(&all);
	sched_getaffinity(0, sizeof(all), &all);
	pair->cpu = cpu < 0 ? last_of(&all) : (unsigned)cpu;
	others = all;
	CPU_CLR(pair->cpu, &others);
	if (!pthread_create(&thread, NULL, sleeper, pair)) {
		sched_setaffinity(0, sizeof(others), &others); /* fails if there are none */
		cost = measure(pair);
		pthread_join(thread, NULL);
		sched_setaffinity(0, sizeof(all), &all);
	}
	return cost;
}

uint64_t wakeup_measure(int cpu)
{
	struct pair pair = { .there = eventfd(0, EFD_CLOEXEC), .back = eventfd(0, EFD_CLOEXEC) };
	uint64_t cost = 0;

	if (pair.there >= 0 && pair.back >= 0)
		cost = measure_apart(&pair, cpu);
	if (pair.there >= 0)
		close(pair.there);
	if (pair.back >= 0)
		close(pair.back);
	return cost;
}
