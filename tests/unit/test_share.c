/* SPDX-License-Identifier: Apache-2.0 */
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
		share_took(&debt, SHARE, bytes);
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

/* What was not taken of a turn is not owed to anybody. */
static void small_turns_save_nothing(void **state)
{
	uint32_t debt = 0;

	for (unsigned i = 0; i < 100; i++) {
		assert_false(share_sits_out(&debt, SHARE));
		share_took(&debt, SHARE, 60);
	}
	share_took(&debt, SHARE, 2 * SHARE);
	assert_true(share_sits_out(&debt, SHARE));
	assert_false(share_sits_out(&debt, SHARE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(large_frames_get_no_more_bytes_than_small_ones),
		cmocka_unit_test(small_turns_save_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
