// SPDX-License-Identifier: Apache-2.0
/* Errors for people, and the log's lines as they arrive on stderr. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
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

static struct log_source vm1 = { .name = "vm1", .max = LOG_MAX };
static struct log_source noisy = { .name = "noisy", .max = LOG_MAX };
static struct log_source other = { .name = "other", .max = LOG_MAX };

static void write_levels(void)
{
	log_event(LOG_ERROR, &vm1, "a %d", 1);
	log_event(LOG_WARN, &vm1, "b");
	log_event(LOG_INFO, NULL, "c");
	log_event(LOG_DEBUG, &vm1, "d");
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
		log_event(LOG_WARN, &noisy, "again");
		log_event(LOG_WARN, NULL, "whole");
	}
	log_event(LOG_WARN, &other, "once");
}

static void write_after_flood(void)
{
	sleep(1);
	log_tick(); /* it has not been quiet long enough for this to say anything */
	log_event(LOG_WARN, &noisy, "then");
	log_event(LOG_WARN, &noisy, "too much");
}

/* A busy machine may take its time, in which lines become free again. */
static void a_port_that_says_too_much_is_limited_and_the_rest_counted(void **state)
{
	uint64_t begin = clock_ns();
	const char *text = captured(write_flood);
	unsigned written = count(text, "noisy: again"), told = 0;

	assert_in_range(written, LOG_BURST, LOG_BURST + (clock_ns() - begin) / 1000000000);
	assert_int_equal(count(text, "ringway: whole"), 3 * LOG_BURST);
	assert_int_equal(count(text, "other: once"), 1);
	text = captured(write_after_flood);
	assert_int_equal(sscanf(text, "warn noisy: %u lines left out, of too many\n", &told), 1);
	assert_in_range(told, 1, 3 * LOG_BURST - written);
	assert_int_equal(count(text, "noisy: then"), 1);
	if (clock_ns() - begin < 2000000000)
		assert_int_equal(count(text, "too much"), 0);
}

#define MANY 200u /* more noisy ports than any table of them might hold */

static struct log_source many[MANY];

static void write_of_many_ports(void)
{
	for (unsigned i = 0; i < 2 * LOG_BURST; i++) {
		for (unsigned k = 0; k < MANY; k++)
			log_event(LOG_WARN, &many[k], "again");
	}
}

static void end_many_ports(void)
{
	for (unsigned k = 0; k < MANY; k++)
		log_end(&many[k]);
	log_tick();
}

static void each_of_many_noisy_ports_is_limited_and_told_of_at_its_end(void **state)
{
	uint64_t begin = clock_ns();
	const char *text;
	unsigned written;

	for (unsigned k = 0; k < MANY; k++)
		many[k] = (struct log_source){ .name = "many", .max = LOG_MAX };
	text = captured(write_of_many_ports);
	written = count(text, ": again");
	assert_in_range(written, MANY * LOG_BURST,
			MANY * (LOG_BURST + (clock_ns() - begin) / 1000000000));
	assert_true(many[0].left_out && many[MANY - 1].left_out <= LOG_BURST);
	text = captured(end_many_ports);
	assert_int_equal(count(text, "lines left out"), MANY);
	assert_int_equal(count(captured(end_many_ports), "left out"), 0);
}

static void write_200(void)
{
	for (unsigned i = 0; i < 200; i++)
		log_event(LOG_WARN, &other, "again");
}

static void a_port_may_be_allowed_more_lines_or_all(void **state)
{
	unsigned written;

	other = (struct log_source){ .name = "other", .max = 15 };
	written = count(captured(write_200), ": again");
	assert_in_range(written, 15 * LOG_BURST, 199);
	assert_int_equal(other.left_out, 200 - written);
	log_end(&other);
	other = (struct log_source){ .name = "other", .max = 0 };
	assert_int_equal(count(captured(write_200), ": again"), 200);
	assert_int_equal(other.left_out, 0);
}

/*
 * Logs 20000 lines to the first of two descriptors, and reads from the second only then. A terminal
 * hands on what was written a while later, in parts.
 */
static void log_unread(int writer, int reader)
{
	static char text[1 << 20];
	struct pollfd arrives = { .fd = reader, .events = POLLIN };
	int saved = dup(STDERR_FILENO);
	const char *warning = NULL;
	unsigned told;
	size_t len = 0;

	dup2(writer, STDERR_FILENO);
	alarm(60);
	for (unsigned i = 0; i < 20000; i++)
		log_event(LOG_WARN, NULL, "line");
	while (!warning || !strchr(warning, '\n')) {
		if (poll(&arrives, 1, 10) == 1) {
			ssize_t n = read(reader, text + len, sizeof(text) - 1 - len);

			assert_true(n > 0);
			len += (size_t)n;
			text[len] = '\0';
		} else {
			log_tick();
		}
		warning = strstr(text, " lines lost");
	}
	alarm(0);
	dup2(saved, STDERR_FILENO);
	close(saved);
	while (warning > text && warning[-1] != ' ')
		warning--;
	assert_int_equal(sscanf(warning, "%u lines lost", &told), 1);
	assert_true(count(text, ": line") > 10);
	/* Of a terminal the last may be cut. */
	assert_in_range(count(text, ": line") + told, 20000 - 20, 20000 + 1);
	close(writer);
	close(reader);
}

static void a_pipe_that_nobody_reads_blocks_nobody_and_the_loss_is_told(void **state)
{
	int pipes[2];

	assert_int_equal(pipe(pipes), 0);
	log_unread(pipes[1], pipes[0]);
}

static void nor_does_a_socket(void **state)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	log_unread(pair[1], pair[0]);
}

static void nor_does_a_terminal(void **state)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY);

	if (master < 0 || grantpt(master) || unlockpt(master))
		skip();
	log_unread(open(ptsname(master), O_RDWR | O_NOCTTY), master);
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
		cmocka_unit_test(each_of_many_noisy_ports_is_limited_and_told_of_at_its_end),
		cmocka_unit_test(a_port_may_be_allowed_more_lines_or_all),
		cmocka_unit_test(a_pipe_that_nobody_reads_blocks_nobody_and_the_loss_is_told),
		cmocka_unit_test(nor_does_a_socket),
		cmocka_unit_test(nor_does_a_terminal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
