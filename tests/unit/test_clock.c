// SPDX-License-Identifier: Apache-2.0
/* Clocks that are read by one whom the kernel stops just then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/clock.h"

#define STOPPED_US 30000

static unsigned readings, stop_at;

/* In place of the library's. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, ts);

	if (++readings == stop_at)
		usleep(STOPPED_US);
	return rc;
}

/* What a long comparison says, in which a stop matters little. */
static uint64_t rate_over_half_a_second(void)
{
	uint64_t ns = clock_ns(), cycles = clock_cycles();

	usleep(500000);
	cycles = clock_cycles() - cycles;
	return cycles * 1000 / (clock_ns() - ns);
}

static void one_who_is_stopped_while_it_measures_gets_the_rate_all_the_same(void **state)
{
	uint64_t rate = rate_over_half_a_second(), measured;

	stop_at = readings + 1;
	measured = clock_cycles_per_us();
	assert_true(readings >= stop_at);
	assert_in_range(measured, rate - rate / 50, rate + rate / 50);
	assert_int_equal(clock_cycles_per_us(), measured);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_who_is_stopped_while_it_measures_gets_the_rate_all_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
