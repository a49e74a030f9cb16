// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include "base/base.h"

#define WINDOW_NS 10000000
#define TRIES	  8

struct instant {
	uint64_t ns, cycles;
};

/* Now, by both clocks: the closest of some tries, for between two readings another may run. */
static struct instant instant(void)
{
	struct instant best = { 0 };
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < TRIES; i++) {
		uint64_t before = clock_cycles(), ns = clock_ns(), took = clock_cycles() - before;

		if (took < least) {
			least = took;
			best = (struct instant){ ns, before + took / 2 };
		}
	}
	return best;
}

uint64_t clock_cycles_per_us(void)
{
	static uint64_t rate;

	if (!rate) {
		struct instant begin = instant(), end;

		while (clock_ns() - begin.ns < WINDOW_NS)
			;
		end = instant();
		rate = MAX((end.cycles - begin.cycles) * 1000 / (end.ns - begin.ns), (uint64_t)1);
	}
	return rate;
}
