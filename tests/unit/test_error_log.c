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
	static char text[65536];
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

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

static void write_flood(void)
{
	for (unsigned i = 0; i < 3 * LOG_BURST; i++) {
		log_event(LOG_WARN, "noisy", "again");
		log_event(LOG_WARN, NULL, "whole");
	}
	log_event(LOG_WARN, "other", "once");
}

static void write_after_flood(void)
{
	sleep(1);
	log_tick(); /* it has not been quiet long enough for this to say anything */
	log_event(LOG_WARN, "noisy", "then");
	log_event(LOG_WARN, "noisy", "too much");
}

static void a_port_that_says_too_much_is_limited_and_the_rest_counted(void **state)
{
	const char *text = captured(write_flood);

	assert_int_equal(count(text, "noisy: again"), LOG_BURST);
	assert_int_equal(count(text, "ringway: whole"), 3 * LOG_BURST);
	assert_int_equal(count(text, "other: once"), 1);
	assert_string_equal(captured(write_after_flood),
			    "warn noisy: 20 lines left out, of too many\nwarn noisy: then\n");
}

static void write_of_many_ports(void)
{
	char name[16];

	for (unsigned i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "p%u", i);
		log_event(LOG_WARN, name, "once");
	}
}

static void ports_do_not_use_up_the_lines_of_others(void **state)
{
	const char *text = captured(write_of_many_ports);

	assert_int_equal(count(text, ": once"), 1000);
	assert_int_equal(count(text, "left out"), 0);
}

static void a_log_that_nobody_reads_blocks_nobody_and_the_loss_is_told(void **state)
{
	static char text[1 << 20];
	int saved = dup(STDERR_FILENO), pipes[2];
	unsigned written, told;
	ssize_t n;

	assert_int_equal(pipe(pipes), 0);
	dup2(pipes[1], STDERR_FILENO);
	alarm(10);
	for (unsigned i = 0; i < 20000; i++)
		log_event(LOG_WARN, NULL, "line");
	n = read(pipes[0], text, sizeof(text) - 1);
	assert_true(n > 0 && n < (ssize_t)sizeof(text) - 1);
	text[n] = '\0';
	written = count(text, ": line\n");
	log_tick();
	alarm(0);
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(pipes[1]);
	n = read(pipes[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_int_equal(sscanf(text, "warn ringway: %u lines lost", &told), 1);
	assert_true(written > 1000);
	assert_int_equal(written + told, 20000);
	close(pipes[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_ends_a_function_with_its_code_and_text),
		cmocka_unit_test(a_long_error_is_cut_and_ended),
		cmocka_unit_test(an_event_is_a_line_with_level_and_port),
		cmocka_unit_test(events_above_the_level_are_not_written),
		cmocka_unit_test(a_long_event_is_still_one_line),
		cmocka_unit_test(a_port_that_says_too_much_is_limited_and_the_rest_counted),
		cmocka_unit_test(ports_do_not_use_up_the_lines_of_others),
		cmocka_unit_test(a_log_that_nobody_reads_blocks_nobody_and_the_loss_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
