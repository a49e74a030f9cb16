// SPDX-License-Identifier: Apache-2.0
/* The polling policy, from tables: a load in, the window out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy/poll.h"

#define PER_US 2100u /* as a time stamp counter's */
#define WAKEUP 20u   /* us */

static struct poll_limits limits;
static const struct poll_state alone; /* no other queue of the worker is known of */

/* For how many microseconds after the last arrival the queue is polled. */
static unsigned window_us(const struct poll_state *state)
{
	unsigned us = 0;

	while (!poll_give_up(state, &alone, state->last + (uint64_t)us * PER_US, &limits))
		us++;
	return us;
}

static struct poll_state load(uint64_t gap_cycles, unsigned arrivals)
{
	struct poll_state state = { 0 };
	uint64_t now = 1000000;

	for (unsigned i = 0; i < arrivals; i++, now += gap_cycles)
		poll_found(&state, now, &limits);
	return state;
}

static void the_window_follows_the_arrival_rate(void **state)
{
	static const struct {
		unsigned gap_ns, window;
	} rows[] = {
		{ 100, WAKEUP },
		{ 1000, WAKEUP },
		{ 5000, WAKEUP },
		{ 8000, 32 },
		{ 10000, 40 },
		{ 12500, WAKEUP * 2 },
		{ 30000, WAKEUP * 2 },
		{ 39000, WAKEUP * 2 },
		{ 41000, POLL_RECHECK_US },
		{ 100000, POLL_RECHECK_US },
		{ 1000000, POLL_RECHECK_US },
		{ 1000000000, POLL_RECHECK_US },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct poll_state s = load((uint64_t)rows[i].gap_ns * PER_US / 1000, 200);

		assert_in_range(window_us(&s), rows[i].window, rows[i].window + 1);
	}
}

static void a_queue_that_never_had_work_is_armed_at_once(void **state)
{
	struct poll_state s = { 0 };

	assert_true(poll_give_up(&s, &alone, 5, &limits));
	assert_true(poll_give_up(&s, &alone, UINT64_MAX, &limits));
}

static void one_arrival_tells_no_rate(void **state)
{
	struct poll_state s = load(0, 1);

	assert_int_equal(window_us(&s), POLL_RECHECK_US);
	s = load(1 * PER_US, 2);
	assert_int_equal(window_us(&s), WAKEUP);
}

static void a_long_silence_is_made_up_for(void **state)
{
	struct poll_state s = load(1 * PER_US, 100);
	uint64_t now = s.last;
	unsigned arrivals = 0;

	now += (uint64_t)3600 * 1000000 * PER_US;
	poll_found(&s, now, &limits);
	assert_int_equal(window_us(&s), POLL_RECHECK_US);
	while (window_us(&s) < WAKEUP) {
		now += 1 * PER_US;
		poll_found(&s, now, &limits);
		arrivals++;
	}
	assert_in_range(arrivals, 1, 22);

	/* The same from the worst that the mean can be. */
	s = load((uint64_t)1000000 * PER_US, 1000);
	now = s.last;
	for (arrivals = 0; window_us(&s) < WAKEUP; arrivals++) {
		now += 1 * PER_US;
		poll_found(&s, now, &limits);
	}
	assert_in_range(arrivals, 1, 30);
}

static void a_hiccup_of_a_busy_queue_does_not_arm_it(void **state)
{
	struct poll_state s = load(PER_US / 5, 1000);

	assert_false(poll_give_up(&s, &alone, s.last + 15u * PER_US, &limits));
}

static void a_clock_that_steps_back_is_no_age(void **state)
{
	struct poll_state s = load(1 * PER_US, 100);
	uint64_t gap = s.gap;

	assert_false(poll_give_up(&s, &alone, s.last - 100, &limits));
	poll_found(&s, s.last - 100, &limits);
	assert_true(s.gap > 0 && s.gap <= gap);
}

static void rare_arrivals_cost_little_and_dense_ones_find_the_queue_polled(void **state)
{
	static const struct {
		unsigned gap_us, polled_min, polled_max; /* percent of the time */
	} rows[] = { { 5, 100, 100 }, { 10, 100, 100 }, { 100, 0, 3 }, { 1000, 0, 1 } };

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct poll_state s = load((uint64_t)rows[i].gap_us * PER_US, 100);
		unsigned window = window_us(&s), polled;

		polled = MIN(window, rows[i].gap_us) * 100 / rows[i].gap_us;
		assert_in_range(polled, rows[i].polled_min, rows[i].polled_max);
	}
}

/* Each of two queues has a frame every 2 * `gap_us`, `gap_us` after the other one's. */
static unsigned window_of_one_in_two_us(unsigned gap_us, unsigned answer_us)
{
	struct poll_state queue[2] = { 0 }, all = { 0 };
	uint64_t now = 1000000;
	unsigned us = 0;

	for (unsigned i = 0; i < 200; i++) {
		now += (uint64_t)(i % 2 ? answer_us : 2 * gap_us - answer_us) * PER_US;
		poll_found(&queue[i % 2], now, &limits);
		poll_found_any(&all, now, &limits);
	}
	while (!poll_give_up(&queue[1], &all, now + (uint64_t)us * PER_US, &limits))
		us++;
	return us;
}

static void a_worker_that_hears_from_another_queue_soon_stays_awake(void **state)
{
	static const struct {
		unsigned gap_us, answer_us, window;
	} rows[] = {
		{ 15, 15, WAKEUP * 2 },	     /* each queue by itself is polled */
		{ 30, 30, WAKEUP * 2 },	     /* both together are */
		{ 50, 50, POLL_RECHECK_US }, /* not even they */
		{ 30, 1, POLL_RECHECK_US },  /* answered at once, and then nothing for 59 us */
		{ 15, 1, WAKEUP * 2 },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		assert_in_range(window_of_one_in_two_us(rows[i].gap_us, rows[i].answer_us),
				rows[i].window, rows[i].window + 1);
}

static void a_worker_that_always_polls_arms_nothing(void **state)
{
	struct poll_limits always = limits;
	struct poll_state none = { 0 }, rare = load((uint64_t)1000000 * PER_US, 100);

	always.always = true;
	assert_false(poll_give_up(&none, &alone, UINT64_MAX, &always));
	assert_false(poll_give_up(&rare, &alone, UINT64_MAX, &always));
}

static void the_bounds_follow_what_a_wake_up_costs(void **state)
{
	static const struct {
		unsigned wakeup_ns, shortest, longest;
	} rows[] = {
		{ 0, 40, 80 },	   { 3000, 12, 24 },  { 15000, 15, 30 },
		{ 20000, 20, 40 }, { 40000, 40, 80 }, { 3000000, 40, 80 },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		limits = poll_limits((uint64_t)rows[i].wakeup_ns * PER_US / 1000, PER_US, false);
		struct poll_state dense = load(PER_US / 10, 200);
		struct poll_state sparse = load((rows[i].longest - 1u) * PER_US, 200);
		struct poll_state rare = load((rows[i].longest + 1u) * PER_US, 200);

		assert_int_equal(window_us(&dense), rows[i].shortest);
		assert_int_equal(window_us(&sparse), rows[i].longest);
		assert_int_equal(window_us(&rare), POLL_RECHECK_US);
	}
	limits = poll_limits(WAKEUP * PER_US, PER_US, false);
}

/* Whatever the gaps, no queue is polled for longer than the look for a burst's second part. */
static void rationed_time_is_not_spent_on_polling(void **state)
{
	struct poll_limits scarce = poll_limits(WAKEUP * PER_US, PER_US, true);

	for (uint64_t gap = 1; gap < 1000 * PER_US; gap = gap * 3 / 2 + 1) {
		struct poll_state s = { 0 };
		uint64_t now = 1;

		for (unsigned i = 0; i < 100; i++)
			poll_found(&s, now += gap, &scarce);
		assert_true(poll_give_up(&s, &alone, now + POLL_RECHECK_US * PER_US, &scarce));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_window_follows_the_arrival_rate),
		cmocka_unit_test(a_queue_that_never_had_work_is_armed_at_once),
		cmocka_unit_test(one_arrival_tells_no_rate),
		cmocka_unit_test(a_long_silence_is_made_up_for),
		cmocka_unit_test(a_hiccup_of_a_busy_queue_does_not_arm_it),
		cmocka_unit_test(a_clock_that_steps_back_is_no_age),
		cmocka_unit_test(rare_arrivals_cost_little_and_dense_ones_find_the_queue_polled),
		cmocka_unit_test(a_worker_that_hears_from_another_queue_soon_stays_awake),
		cmocka_unit_test(a_worker_that_always_polls_arms_nothing),
		cmocka_unit_test(the_bounds_follow_what_a_wake_up_costs),
		cmocka_unit_test(rationed_time_is_not_spent_on_polling),
	};

	limits = poll_limits(WAKEUP * PER_US, PER_US, false);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
