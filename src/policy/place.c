// SPDX-License-Identifier: Apache-2.0
/* Placement of queues on workers, and how many workers there are. Control thread. */
#include "policy/place.h"

#include "base/base.h"

/* More workers than this have to be asked for: each is a CPU that the guests do not get. */
#define PLACE_WORKERS_MAX 4u

unsigned place_load(unsigned load, uint64_t busy, uint64_t elapsed)
{
	uint64_t last = elapsed ? MIN(busy * 1000 / elapsed, (uint64_t)1000) : 0;

	return (unsigned)((load * (PLACE_WEIGHT - 1) + last) / PLACE_WEIGHT);
}

unsigned place_expect(unsigned load)
{
	return MAX(load, PLACE_QUEUE_MIN);
}

unsigned place_queue(const unsigned *load, unsigned workers)
{
	unsigned best = 0;

	for (unsigned i = 1; i < workers; i++) {
		if (load[i] < load[best])
			best = i;
	}
	return best;
}

bool place_sides(const unsigned *load, unsigned workers, unsigned *ret_from, unsigned *ret_to)
{
	unsigned most = 0;

	for (unsigned i = 1; i < workers; i++) {
		if (load[i] > load[most])
			most = i;
	}
	*ret_from = most;
	*ret_to = place_queue(load, workers);
	return load[most] >= PLACE_BUSY && load[most] - load[*ret_to] >= PLACE_GAIN;
}

unsigned place_gain(unsigned from, unsigned to, unsigned queue)
{
	unsigned most = MAX(from - MIN(queue, from), to + queue);

	return from >= most + PLACE_GAIN ? from - most : 0;
}

unsigned place_workers(unsigned cpus, unsigned quota)
{
	return MIN(MAX(MIN(cpus / 2, quota / 1000), 1u), PLACE_WORKERS_MAX);
}
