// SPDX-License-Identifier: Apache-2.0
/* Placement, from tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/base.h"
#include "policy/place.h"

static void a_new_queue_goes_to_the_first_worker_with_the_least_load(void **state)
{
	static const struct {
		unsigned load[4], workers, worker;
	} rows[] = {
		{ { 0 }, 1, 0 },	  { { 9 }, 1, 0 },	    { { 0, 0, 0 }, 3, 0 },
		{ { 1, 0, 0 }, 3, 1 },	  { { 1, 1, 0 }, 3, 2 },    { { 1, 1, 1 }, 3, 0 },
		{ { 5, 2, 2, 7 }, 4, 1 }, { { 5, 4, 3, 2 }, 4, 3 }, { { 2, 1, 0, 0 }, 2, 1 },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(place_queue(rows[i].load, rows[i].workers), rows[i].worker);
}

static void a_queue_without_load_counts_for_something(void **state)
{
	assert_int_equal(place_expect(0), PLACE_QUEUE_MIN);
	assert_int_equal(place_expect(PLACE_QUEUE_MIN), PLACE_QUEUE_MIN);
	assert_int_equal(place_expect(700), 700);
}

static void a_load_is_a_mean_that_forgets(void **state)
{
	unsigned load = place_load(0, 1000, 1000);

	assert_in_range(load, 400, 600); /* one second does not tell */
	for (unsigned i = 0; i < 4; i++)
		load = place_load(load, 1000, 1000);
	assert_in_range(load, 900, 1000);
	for (unsigned i = 0; i < 12; i++)
		load = place_load(load, 0, 1000);
	assert_int_equal(load, 0);
	/* Of a worker that lost its CPU in between, and of no time at all. */
	assert_in_range(place_load(0, 5000, 1000), 0, 1000);
	assert_int_equal(place_load(0, 5, 0), 0);
}

static void a_worker_is_helped_only_if_it_is_busy_and_another_less_so(void **state)
{
	static const struct {
		unsigned load[3], workers;
		bool worth;
		unsigned from, to;
	} rows[] = {
		{ { 1000 }, 1, false, 0, 0 },	      { { 1000, 0 }, 2, true, 0, 1 },
		{ { 0, 1000 }, 2, true, 1, 0 },	      { { 450, 0 }, 2, false, 0, 0 },
		{ { 1000, 1000 }, 2, false, 0, 0 },   { { 1000, 900 }, 2, false, 0, 0 },
		{ { 900, 600, 100 }, 3, true, 0, 2 }, { { 300, 600, 200 }, 3, true, 1, 2 },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned from, to;
		bool worth = place_sides(rows[i].load, rows[i].workers, &from, &to);

		assert_int_equal(worth, rows[i].worth);
		if (worth)
			assert_true(from == rows[i].from && to == rows[i].to);
	}
}

static void a_move_has_to_relieve_the_busier_of_the_two(void **state)
{
	static const struct {
		unsigned from, to, queue, gain;
	} rows[] = {
		{ 1000, 0, 500, 500 },	{ 1000, 0, 250, 250 },	 { 1000, 0, 750, 250 },
		{ 1000, 0, 1000, 0 }, /* all that it has: the same elsewhere */
		{ 1000, 0, 100, 0 },  /* too little */
		{ 1000, 0, 950, 0 },	{ 1000, 500, 250, 250 }, { 1000, 700, 250, 0 },
		{ 1000, 1000, 300, 0 }, { 600, 0, 300, 300 },	 { 600, 500, 300, 0 },
		{ 100, 0, 1000, 0 }, /* measured at different times */
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(place_gain(rows[i].from, rows[i].to, rows[i].queue), rows[i].gain);
}

/* Whatever the loads, moving stops: each move relieves somebody by PLACE_GAIN. */
static void moves_come_to_an_end(void **state)
{
	enum { QUEUES = 12, WORKERS = 4 };
	uint32_t random = 1;

	for (unsigned round = 0; round < 1000; round++) {
		unsigned queue[QUEUES], at[QUEUES], moves = 0;

		for (unsigned i = 0; i < QUEUES; i++) {
			random = random * 1664525 + 1013904223;
			queue[i] = (random >> 8) % 500;
			at[i] = (random >> 24) % WORKERS;
		}
		for (; moves < 100; moves++) {
			unsigned load[WORKERS] = { 0 }, from, to, best = QUEUES, most = 0;

			for (unsigned i = 0; i < QUEUES; i++)
				load[at[i]] += queue[i];
			if (!place_sides(load, WORKERS, &from, &to))
				break;
			for (unsigned i = 0; i < QUEUES; i++) {
				unsigned gain = place_gain(load[from], load[to], queue[i]);

				if (at[i] == from && gain > most) {
					most = gain;
					best = i;
				}
			}
			if (best == QUEUES)
				break;
			at[best] = to;
		}
		assert_in_range(moves, 0, QUEUES);
	}
}

static void half_of_the_cpus_but_one_to_four_work(void **state)
{
	static const unsigned rows[][2] = { { 0, 1 }, { 1, 1 }, { 2, 1 }, { 3, 1 },   { 4, 2 },
					    { 6, 3 }, { 8, 4 }, { 9, 4 }, { 1024, 4 } };

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(place_workers(rows[i][0], UINT32_MAX), rows[i][1]);
}

static void no_more_workers_than_a_limit_of_cpu_time_keeps_busy(void **state)
{
	static const unsigned rows[][2] = { { 0, 1 },	 { 500, 1 },  { 1000, 1 }, { 1999, 1 },
					    { 2000, 2 }, { 3500, 3 }, { 64000, 4 } };

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(place_workers(16, rows[i][0]), rows[i][1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_queue_goes_to_the_first_worker_with_the_least_load),
		cmocka_unit_test(a_queue_without_load_counts_for_something),
		cmocka_unit_test(a_load_is_a_mean_that_forgets),
		cmocka_unit_test(a_worker_is_helped_only_if_it_is_busy_and_another_less_so),
		cmocka_unit_test(a_move_has_to_relieve_the_busier_of_the_two),
		cmocka_unit_test(moves_come_to_an_end),
		cmocka_unit_test(half_of_the_cpus_but_one_to_four_work),
		cmocka_unit_test(no_more_workers_than_a_limit_of_cpu_time_keeps_busy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
