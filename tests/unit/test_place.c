// SPDX-License-Identifier: Apache-2.0
/* Placement, from tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/base.h"
#include "policy/place.h"

static void a_queue_goes_to_the_first_worker_with_the_fewest(void **state)
{
	static const struct {
		unsigned queues[4], workers, worker;
	} rows[] = {
		{ { 0 }, 1, 0 },	  { { 9 }, 1, 0 },	    { { 0, 0, 0 }, 3, 0 },
		{ { 1, 0, 0 }, 3, 1 },	  { { 1, 1, 0 }, 3, 2 },    { { 1, 1, 1 }, 3, 0 },
		{ { 5, 2, 2, 7 }, 4, 1 }, { { 5, 4, 3, 2 }, 4, 3 }, { { 2, 1, 0, 0 }, 2, 1 },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(place_queue(rows[i].queues, rows[i].workers), rows[i].worker);
}

static void half_of_the_cpus_but_one_to_four_work(void **state)
{
	static const unsigned rows[][2] = { { 0, 1 }, { 1, 1 }, { 2, 1 }, { 3, 1 },   { 4, 2 },
					    { 6, 3 }, { 8, 4 }, { 9, 4 }, { 1024, 4 } };

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(place_workers(rows[i][0]), rows[i][1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_queue_goes_to_the_first_worker_with_the_fewest),
		cmocka_unit_test(half_of_the_cpus_but_one_to_four_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
