// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include "base/base.h"

uint64_t clock_cycles_per_us(void)
{
	static uint64_t rate;
	const uint64_t window_ns = 10000000;

	if (!rate) {
		uint64_t ns = clock_ns(), cycles = clock_cycles();

		while (clock_ns() - ns < window_ns)
			;
		cycles = clock_cycles() - cycles;
		ns = clock_ns() - ns;
		rate = MAX(cycles * 1000 / ns, (uint64_t)1);
	}
	return rate;
}
