// SPDX-License-Identifier: Apache-2.0
/* Medians and ratios of a few runs, from tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "bench/figures.h"

static void a_median_is_the_middle_or_the_mean_of_two(void **state)
{
	double one[] = { 7 }, odd[] = { 9, 1, 5 }, even[] = { 8, 2, 100, 4 };

	assert_true(figures_median(one, 1) == 7);
	assert_true(figures_median(odd, 3) == 5);
	assert_true(figures_median(even, 4) == 6);
}

/* A machine that gets slower slows both of a pair: pairs are compared, not medians. */
static void ratios_are_of_the_runs_in_turn(void **state)
{
	static const double a[] = { 1, 30, 12 }, b[] = { 2, 20, 12 };
	struct ratio r = figures_ratio(a, b, 3);

	assert_true(r.least == 0.5 && r.median == 1 && r.most == 1.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_median_is_the_middle_or_the_mean_of_two),
		cmocka_unit_test(ratios_are_of_the_runs_in_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
