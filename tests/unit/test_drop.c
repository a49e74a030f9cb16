// SPDX-License-Identifier: Apache-2.0
/* The table of drop reasons: complete, and no name twice, for they are counters' names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "base/drop.h"

static void every_reason_has_a_name_of_its_own_and_a_text(void **state)
{
	for (unsigned i = 0; i < DROP_COUNT; i++) {
		assert_non_null(drop_name(i));
		assert_true(strspn(drop_name(i), "abcdefghijklmnopqrstuvwxyz_") ==
			    strlen(drop_name(i)));
		assert_true(strlen(drop_text(i)) > 8);
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(drop_name(i), drop_name(k));
	}
}

static void the_sides_are_as_the_table_says(void **state)
{
	assert_int_equal(drop_side(DROP_CHAIN_HEAD), DROP_INGRESS);
	assert_int_equal(drop_side(DROP_HEADER_BAD), DROP_INGRESS);
	assert_int_equal(drop_side(DROP_NO_DESTINATION), DROP_INGRESS);
	assert_int_equal(drop_side(DROP_SAME_PORT), DROP_INGRESS);
	assert_int_equal(drop_side(DROP_FULL), DROP_EGRESS);
	assert_int_equal(drop_side(DROP_HEADER_LIES), DROP_EGRESS);
	assert_int_equal(drop_side(DROP_NO_MEMORY), DROP_EGRESS);
	assert_string_equal(drop_name(DROP_FULL), "full");
	assert_string_equal(drop_name(DROP_SAME_PORT), "same_port");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_reason_has_a_name_of_its_own_and_a_text),
		cmocka_unit_test(the_sides_are_as_the_table_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
