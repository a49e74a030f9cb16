// SPDX-License-Identifier: Apache-2.0
/*
 * The Internet checksum, compared with one that adds byte by byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

#include "net/checksum.h"
#include "plain_net.h"

#define ROOM 66000

static const uint32_t lengths[] = { 0,	 1,    2,    3,	   7,	 8,    15,   16,    17,	  31,  32,
				    33,	 59,   60,   63,   64,	 65,   79,   80,    127,  128, 129,
				    255, 1447, 1448, 1449, 1514, 4096, 9014, 65535, 65536 };

static uint8_t *source, *target;

static int setup(void **state)
{
	source = malloc(ROOM);
	target = malloc(ROOM);
	if (!source || !target)
		return -1;
	srand(1);
	for (unsigned i = 0; i < ROOM; i++)
		source[i] = (uint8_t)(rand() >> 7);
	return 0;
}

static int teardown(void **state)
{
	free(source);
	free(target);
	return 0;
}

/* In network byte order, and 0 for 0xffff, which is the same number here. */
static uint32_t value(const struct checksum *c)
{
	uint32_t sum = __builtin_bswap16(checksum_fold(c->sum));

	return sum % 0xffff;
}

static void test_fold_brings_all_carries_round(void **state)
{
	static const uint64_t sums[] = { 0,
					 1,
					 0xffff,
					 0x10000,
					 0x1fffe,
					 0xffffffff,
					 0xffff0000ffff,
					 0x100000000,
					 0xfffeffffffff0001,
					 0xfffffffffffffffe,
					 0xffffffffffffffff };

	for (unsigned i = 0; i < ARRAY_SIZE(sums); i++) {
		uint16_t folded = checksum_fold(sums[i]);

		assert_int_equal(folded % 0xffff, sums[i] % 0xffff);
		assert_int_equal(!folded, !sums[i]);
	}
}

static void test_numbers_are_added_as_they_lie_in_a_frame(void **state)
{
	static const uint8_t bytes[] = { 0x12, 0x34, 0xfe, 0xdc };
	struct checksum c = { 0 };

	checksum_add16(&c, 0x1234);
	checksum_add16(&c, 0xfedc);
	assert_int_equal(value(&c), plain_sum(0, bytes, 4) % 0xffff);
}

static void test_sums_at_every_length_and_alignment(void **state)
{
	for (unsigned i = 0; i < ARRAY_SIZE(lengths); i++) {
		for (unsigned at = 0; at < (lengths[i] < 2000 ? 17 : 3); at++) {
			struct checksum c = { 0 };

			checksum_add(&c, source + at, lengths[i]);
			assert_int_equal(value(&c), plain_sum(0, source + at, lengths[i]) % 0xffff);
			assert_int_equal(c.odd, lengths[i] % 2);
		}
	}
}

static void test_no_carry_is_lost(void **state)
{
	memset(target, 0xff, ROOM);
	for (uint32_t n = 1; n <= 65536; n = n * 3 / 2 + 1) {
		struct checksum c = { 0 };

		checksum_add(&c, target, n);
		assert_int_equal(value(&c), n % 2 ? 0xff00 : 0);
		assert_int_not_equal(checksum_fold(c.sum), 0);
	}
}

static void test_pieces_of_any_length_make_one_sum(void **state)
{
	for (unsigned round = 0; round < 300; round++) {
		uint32_t n = (uint32_t)rand() % 3000, at = 0;
		struct checksum added = { 0 }, copied = { 0 };

		memset(target, 0, n);
		while (at < n) {
			uint32_t part = MIN((uint32_t)rand() % (round % 2 ? 9 : 300), n - at);

			checksum_add(&added, source + at, part);
			checksum_copy(&copied, target + at, source + at, part);
			at += part;
		}
		assert_int_equal(value(&added), plain_sum(0, source, n) % 0xffff);
		assert_int_equal(value(&copied), value(&added));
		assert_memory_equal(target, source, n);
	}
}

static void test_a_copy_is_whole_and_no_byte_longer(void **state)
{
	for (unsigned i = 0; i < ARRAY_SIZE(lengths); i++) {
		for (unsigned shift = 0; shift < 9; shift++) {
			uint32_t n = lengths[i], from = shift * 5 % 16, to = 16 + shift * 3 % 16;
			struct checksum c = { 0 };

			memset(target, 0xa5, n + 64);
			checksum_copy(&c, target + to, source + from, n);
			assert_memory_equal(target + to, source + from, n);
			assert_int_equal(value(&c), plain_sum(0, source + from, n) % 0xffff);
			for (unsigned k = 0; k < 16; k++) {
				assert_int_equal(target[to - 1 - k], 0xa5);
				assert_int_equal(target[to + n + k], 0xa5);
			}
		}
	}
}

/*
 * Source and destination overlap, so each store changes bytes of the source, before or after they
 * are copied. Whatever is stored then, the sum must be that of what is there at the end: no byte
 * of the source was looked at twice, and none stored twice.
 */
static void test_a_source_that_changes_is_summed_as_it_was_stored(void **state)
{
	for (int shift = -100; shift <= 100; shift++) {
		for (uint32_t n = 1; n < 400; n += 1 + n / 8) {
			uint8_t *to = target + 100 + shift;
			struct checksum c = { 0 };

			memcpy(target, source, 600);
			checksum_copy(&c, to, target + 100, n);
			assert_int_equal(value(&c), plain_sum(0, to, n) % 0xffff);
		}
	}
}

static void test_only_a_udp_checksum_is_never_zero(void **state)
{
	const struct checksum zero = { .sum = 0xffff }, one = { .sum = 0xfffe };

	assert_int_equal(checksum_finish(&zero, CSUM_OFFSET_UDP), 0xffff);
	assert_int_equal(checksum_finish(&zero, CSUM_OFFSET_TCP), 0);
	assert_int_equal(checksum_finish(&one, CSUM_OFFSET_UDP), 1);
	assert_int_equal(checksum_finish(&one, CSUM_OFFSET_TCP), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fold_brings_all_carries_round),
		cmocka_unit_test(test_numbers_are_added_as_they_lie_in_a_frame),
		cmocka_unit_test(test_sums_at_every_length_and_alignment),
		cmocka_unit_test(test_no_carry_is_lost),
		cmocka_unit_test(test_pieces_of_any_length_make_one_sum),
		cmocka_unit_test(test_a_copy_is_whole_and_no_byte_longer),
		cmocka_unit_test(test_a_source_that_changes_is_summed_as_it_was_stored),
		cmocka_unit_test(test_only_a_udp_checksum_is_never_zero),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
