// SPDX-License-Identifier: Apache-2.0
/* Placement of queues on workers, and how many workers there are. Control thread. */
#include "policy/place.h"

#include "base/base.h"

/* More workers than this have to be asked for: each is a CPU that the guests do not get. */
#define PLACE_WORKERS_MAX 4u

unsigned place_queue(const unsigned *queues_of_worker, unsigned workers)
{
	unsigned best = 0;

	for (unsigned i = 1; i < workers; i++) {
		if (queues_of_worker[i] < queues_of_worker[best])
			best = i;
	}
	return best;
}

unsigned place_workers(unsigned cpus)
{
	return MIN(MAX(cpus / 2, 1u), PLACE_WORKERS_MAX);
}
