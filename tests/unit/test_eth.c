// SPDX-License-Identifier: Apache-2.0
/* MAC addresses as numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

#include "net/eth.h"

static void the_first_byte_on_the_wire_is_the_most_significant(void **state)
{
	const uint8_t frame[ETH_HEADER_LEN] = { 0x02, 0x11, 0x22, 0x33, 0x44, 0x55, 0xfe,
						0xdc, 0xba, 0x98, 0x76, 0x54, 8,    0 };

	assert_true(frame_dst(frame) == 0x021122334455);
	assert_true(frame_src(frame) == 0xfedcba987654);
}

static void addresses_are_read_from_the_header_alone(void **state)
{
	uint8_t *exact = malloc(ETH_HEADER_LEN);

	assert_non_null(exact);
	memset(exact, 0xff, ETH_HEADER_LEN);
	assert_true(frame_src(exact) == 0xffffffffffffu);
	free(exact);
}

static void the_lowest_bit_of_the_first_byte_makes_a_group(void **state)
{
	assert_true(mac_is_group(0xffffffffffffu));
	assert_true(mac_is_group(0x01005e000001));
	assert_true(mac_is_group(0x333300000001));
	assert_false(mac_is_group(0x021122334455));
	assert_false(mac_is_group(0xfeffffffffff));
	assert_false(mac_is_group(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_byte_on_the_wire_is_the_most_significant),
		cmocka_unit_test(addresses_are_read_from_the_header_alone),
		cmocka_unit_test(the_lowest_bit_of_the_first_byte_makes_a_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
