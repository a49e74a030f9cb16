// SPDX-License-Identifier: Apache-2.0
/* The calling policy, from tables: bursts that come so often in, how late and how often looks are
 * out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy/call.h"

#define PER_US 2100u /* as a time stamp counter's */

static void looks_are_few_and_never_late(void **state)
{
	static const struct {
		unsigned burst_ns, looks_max, late_us_max; /* looks in 800 bursts */
	} rows[] = {
		{ 300, 100, 4 },    { 1000, 100, 10 },	  { 5000, 100, 45 },
		{ 20000, 400, 65 }, { 200000, 800, 200 },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct call_state s = { 0 };
		uint64_t now = 1000000, step = (uint64_t)rows[i].burst_ns * PER_US / 1000, late = 0;
		unsigned looks = 0;

		for (unsigned n = 0; n < 800; n++) {
			call_published(&s, now);
			now += step; /* the next burst has been moved */
			if (!call_due(&s, now, PER_US))
				continue;
			late = MAX(late, now - s.first);
			call_looked(&s);
			looks++;
		}
		assert_in_range(looks, 1, rows[i].looks_max);
		assert_in_range(late / PER_US, 0, rows[i].late_us_max);
	}
}

static void without_work_it_looks_after_a_microsecond(void **state)
{
	struct call_state s = { 0 };

	call_published(&s, 1000);
	call_passed(&s, true, 1100);
	call_passed(&s, false, 1200);
	assert_false(call_due(&s, 1200 + PER_US - 1, PER_US));
	call_passed(&s, false, 1300);
	assert_true(call_due(&s, 1200 + PER_US, PER_US));
	call_passed(&s, true, 1200 + PER_US);
	assert_false(call_due(&s, 1200 + PER_US, PER_US));
}

static void a_clock_that_steps_back_is_no_age(void **state)
{
	struct call_state s = { 0 };

	call_published(&s, 5000);
	call_passed(&s, false, 5000);
	assert_false(call_due(&s, 4000, PER_US));
}

static void nothing_published_is_never_late(void **state)
{
	struct call_state s = { 0 };

	call_published(&s, 5000);
	call_looked(&s);
	call_passed(&s, true, 6000);
	assert_false(call_due(&s, 5000u + 1000000u * PER_US, PER_US));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(looks_are_few_and_never_late),
		cmocka_unit_test(without_work_it_looks_after_a_microsecond),
		cmocka_unit_test(a_clock_that_steps_back_is_no_age),
		cmocka_unit_test(nothing_published_is_never_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
