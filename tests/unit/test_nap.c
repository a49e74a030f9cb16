// SPDX-License-Identifier: Apache-2.0
/* The policy of naps, from what a worker moves between two sleeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy/nap.h"

#define PER_US 2100u /* as a time stamp counter's */
#define LARGE  65226u
#define ACK    66u

/* `large` frames from a tap and as many acknowledgements, then a sleep: true if it is a nap. */
static bool turn(struct nap_state *s, unsigned large, unsigned small, uint64_t us)
{
	for (unsigned i = 0; i < large; i++)
		nap_moved(s, 1, LARGE);
	for (unsigned i = 0; i < small; i++)
		nap_moved(s, 1, ACK);
	return nap_sleep(s, us * PER_US, PER_US, false);
}

static void a_stream_of_large_frames_is_worth_naps(void **state)
{
	struct nap_state s = { 0 };

	for (unsigned i = 0; i < 100; i++)
		assert_true(turn(&s, 2, 2, 1000 + 250 * i));
}

static void one_frame_for_each_wake_up_is_not(void **state)
{
	struct nap_state s = { 0 };

	for (unsigned i = 0; i < 100; i++)
		assert_false(turn(&s, 1, 1, 1000 + 250 * i));
}

static void among_small_frames_there_are_none(void **state)
{
	struct nap_state s = { 0 };

	assert_false(turn(&s, 0, 10000, 1000));
	assert_false(turn(&s, 10, 200, 2000));
	nap_moved(&s, 1, LARGE);
	assert_true(nap_stream(&s));
	nap_moved(&s, 8, 8 * ACK);
	assert_false(nap_stream(&s));
}

/* Large frames from a port whose kicks can be turned off count as none. */
static void a_guest_is_no_reason(void **state)
{
	struct nap_state s = { 0 };

	for (unsigned i = 0; i < 10; i++)
		nap_moved(&s, 1, 0);
	assert_false(nap_stream(&s));
	assert_false(nap_sleep(&s, 1000 * PER_US, PER_US, false));
}

/* A request, and an answer of some large frames, one after the other, with nothing else to do. */
static void who_waits_for_answers_waits_for_few_naps(void **state)
{
	struct nap_state s = { 0 };
	uint64_t us = 1000, napped = 0;

	for (unsigned i = 0; i < 1000; i++) {
		if (turn(&s, 3, 3, us)) {
			us += NAP_US;
			napped += NAP_US;
		}
		us += 50;
		assert_false(turn(&s, 0, 1, us));
		us += 50;
	}
	assert_in_range(napped, NAP_US, (us - 1000) / 20);
}

/* One that brings less than the next needs is not in vain. */
static void a_stream_may_falter(void **state)
{
	struct nap_state s = { 0 };

	assert_true(turn(&s, 3, 3, 1000));
	assert_false(turn(&s, 1, 1, 1200));
	assert_true(turn(&s, 3, 3, 1400));
	assert_false(turn(&s, 0, 1, 1600));
	assert_false(turn(&s, 3, 3, 1600 + NAP_PAUSE_US - 1));
	assert_true(turn(&s, 3, 3, 1600 + NAP_PAUSE_US));
}

/* No nap was taken, so none was in vain: the stream goes on with one when there is room. */
static void to_wait_for_room_is_no_nap(void **state)
{
	struct nap_state s = { 0 };

	nap_moved(&s, 3, 3 * LARGE);
	assert_false(nap_sleep(&s, 1000 * PER_US, PER_US, true));
	assert_false(turn(&s, 0, 1, 1100));
	assert_true(turn(&s, 3, 3, 1200));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_of_large_frames_is_worth_naps),
		cmocka_unit_test(one_frame_for_each_wake_up_is_not),
		cmocka_unit_test(among_small_frames_there_are_none),
		cmocka_unit_test(a_guest_is_no_reason),
		cmocka_unit_test(who_waits_for_answers_waits_for_few_naps),
		cmocka_unit_test(a_stream_may_falter),
		cmocka_unit_test(to_wait_for_room_is_no_nap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
