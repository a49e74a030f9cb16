// SPDX-License-Identifier: Apache-2.0
/*
 * Two threads that wake each other by eventfds, as a driver and a worker do. The median of some
 * rounds, because whatever else runs on the machine gets in between.
 */
#include "worker/wakeup.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"

#define ROUNDS	    11
#define SETTLE_NS   1000000 /* the other one is asleep by then, and its CPU too */
#define PATIENCE_MS 100

struct pair {
	int there, back;
	uint64_t woken[ROUNDS];
};

static bool wait_for(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t value;

	return poll(&p, 1, PATIENCE_MS) == 1 && read(fd, &value, sizeof(value)) > 0;
}

static bool wake(int fd)
{
	uint64_t one = 1;

	return write(fd, &one, sizeof(one)) > 0;
}

static void *sleeper(void *arg)
{
	struct pair *pair = arg;

	for (unsigned i = 0; i < ROUNDS && wait_for(pair->there); i++) {
		pair->woken[i] = clock_cycles();
		if (!wake(pair->back))
			break;
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

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t begin, written;

		nanosleep(&settle, NULL);
		begin = clock_cycles();
		if (!wake(pair->there))
			return 0;
		written = clock_cycles();
		if (!wait_for(pair->back))
			return 0;
		cost[i] = written - begin + clock_since(begin, pair->woken[i]);
	}
	qsort(cost, ROUNDS, sizeof(cost[0]), compare);
	return cost[ROUNDS / 2];
}

uint64_t wakeup_measure(void)
{
	struct pair pair = { .there = eventfd(0, EFD_CLOEXEC), .back = eventfd(0, EFD_CLOEXEC) };
	uint64_t cost = 0;
	pthread_t thread;

	if (pair.there >= 0 && pair.back >= 0 && !pthread_create(&thread, NULL, sleeper, &pair)) {
		cost = measure(&pair);
		pthread_join(thread, NULL);
	}
	if (pair.there >= 0)
		close(pair.there);
	if (pair.back >= 0)
		close(pair.back);
	return cost;
}
