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
		assert_non_null(drop_reasons[i].name);
		assert_true(strspn(drop_reasons[i].name, "abcdefghijklmnopqrstuvwxyz_") ==
			    strlen(drop_reasons[i].name));
		assert_true(strlen(drop_reasons[i].text) > 8);
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(drop_reasons[i].name, drop_reasons[k].name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_reason_has_a_name_of_its_own_and_a_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
