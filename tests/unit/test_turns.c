// SPDX-License-Identifier: Apache-2.0
/* Which queue gets how many turns of its worker, of two that always have work. */
#include "busy_queue.h"

#include "policy/share.h"

#define BEFORE (10 * 16) /* turns of the greedy one before the quiet one's: ten times 16 */

/* Of one worker; counted in turns, whatever else the machine has to do. */
static void a_greedy_queue_does_not_starve_another(void **state)
{
	usleep(TICK_US); /* all sleep */
	store_release(&queue[0].quiet, &queue[2]);
	work(&queue[0], UINT32_MAX);
	for (unsigned i = 0; i < TICKS && load_relaxed(&queue[0].turns) < 40 * WAKES; i++)
		usleep(TICK_US);
	assert_in_range(load_relaxed(&queue[0].turns), 40 * WAKES, UINT32_MAX);
	print_message("# up to %u turns of the greedy one went before\n",
		      load_relaxed(&queue[0].waited));
	assert_in_range(load_relaxed(&queue[0].waited), 0, BEFORE);
	assert_in_range(load_relaxed(&queue[2].turns), 20, UINT32_MAX);
}

/* Three turns of the first, which makes a third too much work, for four of the other's. */
static void three_turns_for_four(void)
{
	uint32_t large, small;

	store_relaxed(&queue[2].bytes, BATCH_BYTES);
	work(&queue[0], UINT32_MAX);
	hold_at(&queue[0], 1);
	work(&queue[2], UINT32_MAX);
	large = load_relaxed(&queue[0].turns);
	small = load_relaxed(&queue[2].turns);
	let_go(&queue[0]);
	hold_at(&queue[2], small + 400);
	assert_in_range(load_relaxed(&queue[0].turns) - large, 300 - 5, 300 + 5);
	let_go(&queue[2]);
}

static void who_takes_more_than_a_turn_sits_turns_out(void **state)
{
	store_relaxed(&queue[0].bytes, BATCH_BYTES * 4 / 3);
	three_turns_for_four();
}

static void who_makes_more_work_of_the_same_bytes_does_so_too(void **state)
{
	store_relaxed(&queue[0].bytes, BATCH_BYTES);
	store_relaxed(&queue[0].summed, BATCH_BYTES / 3 * SHARE_SUM);
	three_turns_for_four();
}

/* Its turns take so long that it gets less than one of many; of the first it is not known. */
static void who_takes_long_for_few_bytes_sits_turns_out(void **state)
{
	uint32_t before;

	store_relaxed(&time_counts, true);
	store_relaxed(&queue[0].lasts_us, 1000);
	work(&queue[0], UINT32_MAX);
	hold_at(&queue[0], 1);
	work(&queue[2], UINT32_MAX);
	before = load_relaxed(&queue[0].turns);
	let_go(&queue[0]);
	hold_at(&queue[2], load_relaxed(&queue[2].turns) + 400);
	assert_in_range(load_relaxed(&queue[0].turns) - before, 2, 100);
	let_go(&queue[2]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_greedy_queue_does_not_starve_another),
		TEST(who_takes_more_than_a_turn_sits_turns_out),
		TEST(who_makes_more_work_of_the_same_bytes_does_so_too),
		TEST(who_takes_long_for_few_bytes_sits_turns_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
