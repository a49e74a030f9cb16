// SPDX-License-Identifier: Apache-2.0
/* Errors for people, and the log's lines as they arrive on stderr. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

static void an_error_ends_a_function_with_its_code_and_text(void **state)
{
	struct error err;

	assert_int_equal(error_set(&err, ENODEV, "no %s at %u", "port", 7u), -ENODEV);
	assert_string_equal(err.text, "no port at 7");
}

static void a_long_error_is_cut_and_ended(void **state)
{
	char text[1000];
	struct error err;

	memset(&err, 'y', sizeof(err));
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	error_set(&err, EINVAL, "%s", text);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

/* Runs `write_log` with stderr in a file, and returns what was written. */
static const char *captured(void (*write_log)(void))
{
	static char text[4096];
	FILE *file = tmpfile();
	int saved = dup(STDERR_FILENO);
	size_t n;

	assert_non_null(file);
	fflush(stderr);
	dup2(fileno(file), STDERR_FILENO);
	write_log();
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	return text;
}

static void write_levels(void)
{
	log_event(LOG_ERROR, "vm1", "a %d", 1);
	log_event(LOG_WARN, "vm1", "b");
	log_event(LOG_INFO, NULL, "c");
	log_event(LOG_DEBUG, "vm1", "d");
}

static void an_event_is_a_line_with_level_and_port(void **state)
{
	assert_string_equal(captured(write_levels),
			    "error vm1: a 1\nwarn vm1: b\ninfo ringway: c\n");
}

static void events_above_the_level_are_not_written(void **state)
{
	log_set_level(LOG_ERROR);
	assert_string_equal(captured(write_levels), "error vm1: a 1\n");
	log_set_level(LOG_DEBUG);
	assert_string_equal(captured(write_levels),
			    "error vm1: a 1\nwarn vm1: b\ninfo ringway: c\ndebug vm1: d\n");
	log_set_level(LOG_INFO);
}

static void write_long(void)
{
	char text[2000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_event(LOG_INFO, NULL, "%s", text);
}

static void a_long_event_is_still_one_line(void **state)
{
	const char *text = captured(write_long), *end = strchr(text, '\n');

	assert_non_null(end);
	assert_true(end[1] == '\0' && end - text < 600);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_ends_a_function_with_its_code_and_text),
		cmocka_unit_test(a_long_error_is_cut_and_ended),
		cmocka_unit_test(an_event_is_a_line_with_level_and_port),
		cmocka_unit_test(events_above_the_level_are_not_written),
		cmocka_unit_test(a_long_event_is_still_one_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
