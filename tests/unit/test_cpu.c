// SPDX-License-Identifier: Apache-2.0
/* CPU lists, on whatever CPUs this process may use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpu.h"

static cpu_set_t usable;

static unsigned usable_cpu(unsigned from)
{
	while (from < CPU_SETSIZE && !CPU_ISSET(from, &usable))
		from++;
	return from;
}

static int parse(const char *text, unsigned *cpus)
{
	struct error err = { "" };
	int n = cpu_list_parse(text, 2, cpus, &err);

	/* A refusal is explained, and names what was refused. */
	assert_int_equal(n < 0, err.text[0] != '\0');
	return n;
}

static void lists_come_out_in_the_order_they_were_given(void **state)
{
	unsigned a = usable_cpu(0), b = usable_cpu(a + 1), cpus[2];
	char text[64];

	snprintf(text, sizeof(text), "%u", a);
	assert_int_equal(parse(text, cpus), 1);
	assert_int_equal(cpus[0], a);
	snprintf(text, sizeof(text), "%u-%u", a, a);
	assert_int_equal(parse(text, cpus), 1);
	if (b == CPU_SETSIZE)
		skip();
	snprintf(text, sizeof(text), "%u,%u", b, a);
	assert_int_equal(parse(text, cpus), 2);
	assert_int_equal(cpus[0], b);
	assert_int_equal(cpus[1], a);
	if (b == a + 1) {
		snprintf(text, sizeof(text), "%u-%u", a, b);
		assert_int_equal(parse(text, cpus), 2);
		assert_int_equal(cpus[0], a);
		assert_int_equal(cpus[1], b);
	}
}

static void what_is_no_list_is_refused(void **state)
{
	static const char *const bad[] = { "",	 ",",	       "-",	      "0,",   ",0",
					   "0-", "-0",	       "1-0",	      "a",    "0x1",
					   "0 ", " 0",	       "0;1",	      "0--1", "0-1-2",
					   "+0", "4294967296", "99999999999", "1024" };
	unsigned cpus[2];

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(parse(bad[i], cpus), -EINVAL);
}

static void a_cpu_named_twice_is_refused(void **state)
{
	unsigned a = usable_cpu(0), cpus[2];
	char text[64];

	snprintf(text, sizeof(text), "%u,%u", a, a);
	assert_int_equal(parse(text, cpus), -EINVAL);
}

static void more_than_the_caller_takes_are_refused(void **state)
{
	unsigned a = usable_cpu(0), b = usable_cpu(a + 1), cpus[2] = { 0, 4711 };
	struct error err;
	char text[64];

	if (b == CPU_SETSIZE)
		skip();
	snprintf(text, sizeof(text), "%u,%u", a, b);
	assert_int_equal(cpu_list_parse(text, 1, cpus, &err), -EINVAL);
	assert_int_equal(cpus[1], 4711);
}

static void a_cpu_that_is_not_there_is_refused_by_number(void **state)
{
	unsigned cpus[2];
	struct error err;

	if (CPU_ISSET(1023, &usable))
		skip();
	assert_int_equal(cpu_list_parse("1023", 2, cpus, &err), -ENODEV);
	assert_non_null(strstr(err.text, "1023"));
}

static void write_max(const char *folder, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/cpu.max", folder);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void the_least_limit_of_a_cgroup_and_those_above_counts(void **state)
{
	static const struct {
		const char *root, *inner;
		unsigned quota;
	} rows[] = {
		{ "max 100000\n", "max 100000\n", CPU_NO_QUOTA },
		{ "max 100000\n", "50000 100000\n", 500 },
		{ "150000 100000\n", "max 100000\n", 1500 },
		{ "30000 10000\n", "10000 100000\n", 100 },
		{ "10000 100000\n", "30000 10000\n", 100 },
		{ "", "1 0\n", CPU_NO_QUOTA },
		{ "nonsense", "99999999999999999999 1", CPU_NO_QUOTA },
	};
	char root[] = "/tmp/ringway-cpu-XXXXXX", inner[64], path[96];

	assert_non_null(mkdtemp(root));
	snprintf(inner, sizeof(inner), "%s/inner", root);
	assert_int_equal(mkdir(inner, 0700), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		write_max(root, rows[i].root);
		write_max(inner, rows[i].inner);
		assert_int_equal(cpu_quota_of(root, "/inner"), rows[i].quota);
		assert_int_equal(cpu_quota_of(root, "/inner/none"), rows[i].quota);
	}
	write_max(root, "70000 100000");
	assert_int_equal(cpu_quota_of(root, "/"), 700);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/cpu.max", i ? root : inner);
		unlink(path);
		rmdir(i ? root : inner);
	}
}

static void pinning_leaves_one_cpu(void **state)
{
	assert_int_equal(cpu_available(), CPU_COUNT(&usable));
	assert_int_equal(cpu_pin_self(usable_cpu(0)), 0);
	assert_int_equal(cpu_available(), 1);
	assert_true(cpu_pin_self(CPU_SETSIZE - 1) < 0 || CPU_ISSET(CPU_SETSIZE - 1, &usable));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_come_out_in_the_order_they_were_given),
		cmocka_unit_test(what_is_no_list_is_refused),
		cmocka_unit_test(a_cpu_named_twice_is_refused),
		cmocka_unit_test(more_than_the_caller_takes_are_refused),
		cmocka_unit_test(a_cpu_that_is_not_there_is_refused_by_number),
		cmocka_unit_test(the_least_limit_of_a_cgroup_and_those_above_counts),
		cmocka_unit_test(pinning_leaves_one_cpu),
	};

	sched_getaffinity(0, sizeof(usable), &usable);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
