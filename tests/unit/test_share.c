// SPDX-License-Identifier: Apache-2.0
/* Shares of a worker, from turns of queues that always have work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy/share.h"

#define SHARE 49152u

/* Bytes that a queue gets in some passes, with frames of this length. */
static uint64_t bytes_in(unsigned passes, uint32_t frame, unsigned frames_max)
{
	uint32_t debt = 0;
	uint64_t sum = 0;

	for (unsigned i = 0; i < passes; i++) {
		uint32_t bytes = 0;

		if (share_sits_out(&debt, SHARE))
			continue;
		for (unsigned n = 0; n < frames_max && bytes < SHARE; n++)
			bytes += frame;
		share_took(&debt, SHARE, bytes, 0);
		sum += bytes;
	}
	return sum;
}

static void large_frames_get_no_more_bytes_than_small_ones(void **state)
{
	static const uint32_t frames[] = { 1514, 9014, 20000, 32768, 49152, 49153, 65226, 65535 };

	for (unsigned i = 0; i < ARRAY_SIZE(frames); i++) {
		uint64_t bytes = bytes_in(10000, frames[i], 64);

		assert_in_range(bytes, 9990ull * SHARE, 10002ull * SHARE);
	}
}

/* A queue whose turns are full and make so much more work gets so many of 1000. */
static unsigned turns_with(uint32_t more)
{
	uint32_t debt = 0;
	unsigned turns = 0;

	for (unsigned i = 0; i < 1000; i++) {
		if (share_sits_out(&debt, SHARE))
			continue;
		share_took(&debt, SHARE, SHARE, more);
		turns++;
	}
	return turns;
}

static void what_is_more_than_passing_frames_on_is_paid_with_turns(void **state)
{
	static const struct {
		uint32_t segments, summed, flooded, pieces;
		unsigned turns; /* of 1000 */
	} rows[] = {
		{ 0, 0, 0, 0, 1000 },	      { 0, 60, 0, 0, 1000 },
		{ 0, SHARE, 0, 0, 750 },      /* all of it is summed */
		{ 34, 0, 0, 0, 693 },	      /* and cut: 34 segments of 1446 bytes */
		{ 34, SHARE, 0, 0, 563 },     /* and both */
		{ 0, 0, SHARE, 0, 500 },      /* or copied to one more */
		{ 0, 0, 62 * SHARE, 0, 16 },  /* to 62 more, */
		{ 0, 0, 4094 * SHARE, 0, 1 }, /* and to as many as there may be */
		{ 0, 0, 0, 17, 957 },	      /* large frames as guests have them */
		{ 0, 0, 0, 2048, 157 },	      /* and as none has */
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned turns = turns_with(share_more(rows[i].segments, rows[i].summed,
						       rows[i].flooded, rows[i].pieces));

		assert_in_range(turns, rows[i].turns, rows[i].turns + 1);
	}
	assert_int_equal(share_more(UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX),
			 SHARE_MORE_MAX);
}

static void a_copy_of_a_short_frame_is_work_as_well(void **state)
{
	assert_int_equal(share_flooding(60), SHARE_FRAME);
	assert_int_equal(share_flooding(SHARE_FRAME + 1), SHARE_FRAME + 1);
	assert_int_equal(share_flooding(65535), 65535);
}

/* What was not taken of a turn is not owed to anybody. */
static void small_turns_save_nothing(void **state)
{
	uint32_t debt = 0;

	for (unsigned i = 0; i < 100; i++) {
		assert_false(share_sits_out(&debt, SHARE));
		share_took(&debt, SHARE, 60, 0);
	}
	share_took(&debt, SHARE, 2 * SHARE, 0);
	assert_true(share_sits_out(&debt, SHARE));
	assert_false(share_sits_out(&debt, SHARE));
}

static void what_lasted_costs_its_time_at_the_least(void **state)
{
	static const struct {
		uint32_t before, counted; /* owed, and after what was counted */
		uint64_t us, passed, cpu;
		uint32_t after;
	} turn[] = {
		{ 0, 7, SHARE_LONG_US - 1, 500, 500, 7 }, /* usual */
		{ 0, 0, 120, 500, 500, 120 * SHARE_US - SHARE },
		{ 0, 0, 120, 500, 501, 120 * SHARE_US - SHARE }, /* clocks differ */
		{ 40, 0, 120, 500, 500, 40 + 120 * SHARE_US - SHARE },
		{ 0, 1000000, 120, 500, 500, 1000000 },		     /* more was counted */
		{ 0, 7, 4000, 5000, 1000, 7 },			     /* its worker had no CPU */
		{ 0, 0, 4000, 5000, 2000, 1000 * SHARE_US - SHARE }, /* for some of it */
		{ 0, 7, 4000, UINT64_MAX / 2300, 1000000, 7 },	     /* it has slept */
		{ 0, 0, UINT64_MAX / SHARE_US, 0, 0, SHARE_MORE_MAX - SHARE },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(turn); i++) {
		uint32_t debt = turn[i].counted;

		share_lasted(&debt, turn[i].before, SHARE, turn[i].us, turn[i].passed, turn[i].cpu);
		assert_int_equal(debt, turn[i].after);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(large_frames_get_no_more_bytes_than_small_ones),
		cmocka_unit_test(what_is_more_than_passing_frames_on_is_paid_with_turns),
		cmocka_unit_test(a_copy_of_a_short_frame_is_work_as_well),
		cmocka_unit_test(small_turns_save_nothing),
		cmocka_unit_test(what_lasted_costs_its_time_at_the_least),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
