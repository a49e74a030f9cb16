// SPDX-License-Identifier: Apache-2.0
/*
 * Never blocks. O_NONBLOCK would be everybody's who shares the description, so a pipe or terminal
 * is opened anew for each line, which makes a description of our own. What cannot be opened (a
 * socket, somebody else's terminal) is asked first whether it has room, which for a socket means
 * enough.
 *
 * A port's lines are paid for at one a second, and it may have LOG_BURST of them ahead.
 */
#include "base/log.h"

#include <ctype.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allowance.h"
#include "base/clock.h"

#define LOG_PORTS 64 /* that are watched; the one that was quiet for longest makes room */
#define SECOND	  1000000000ull

struct port_lines {
	char port[32];
	struct allowance allowance; /* clock_ns() */
	unsigned left_out;
};

static enum log_level log_threshold = LOG_INFO;
static unsigned long lost;
static struct port_lines ports[LOG_PORTS];

void log_set_level(enum log_level level)
{
	log_threshold = level;
}

static int open_own(void)
{
	struct stat st;

	if (fstat(STDERR_FILENO, &st) || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
		return -1;
	return open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static bool write_now(const char *line, int len)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
	int own = open_own();
	bool written;

	if (own >= 0) {
		written = write(own, line, (size_t)len) == len;
		close(own);
		return written;
	}
	return poll(&p, 1, 0) == 1 && p.revents & POLLOUT &&
	       write(STDERR_FILENO, line, (size_t)len) == len;
}

static void write_line(const char *line, int len)
{
	char told[80];

	if (lost) {
		int n = snprintf(told, sizeof(told),
				 "warn ringway: %lu lines lost, the log could not be written\n",
				 lost);

		if (write_now(told, n))
			lost = 0;
	}
	if (len && (lost || !write_now(line, len)))
		lost++;
}

static void tell_left_out(struct port_lines *lines)
{
	char line[100];

	if (!lines->left_out)
		return;
	write_line(line, snprintf(line, sizeof(line), "warn %s: %u lines left out, of too many\n",
				  lines->port, lines->left_out));
	lines->left_out = 0;
}

static struct port_lines *lines_of(const char *port)
{
	struct port_lines *quiet = &ports[0];

	for (unsigned i = 0; i < LOG_PORTS; i++) {
		if (!strcmp(ports[i].port, port))
			return &ports[i];
		if (ports[i].allowance.paid_until < quiet->allowance.paid_until)
			quiet = &ports[i];
	}
	tell_left_out(quiet);
	snprintf(quiet->port, sizeof(quiet->port), "%s", port);
	quiet->allowance.paid_until = 0;
	return quiet;
}

static bool allowed(const char *port)
{
	struct port_lines *lines = lines_of(port);
	uint64_t now = clock_ns();

	if (allowance_wait(&lines->allowance, now, (LOG_BURST - 1) * SECOND)) {
		lines->left_out++;
		return false;
	}
	tell_left_out(lines);
	allowance_take(&lines->allowance, now, SECOND);
	return true;
}

void log_event(enum log_level level, const char *port, const char *fmt, ...)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
	char text[512], line[600];
	va_list args;

	if (level > log_threshold || (port && log_threshold < LOG_DEBUG && !allowed(port)))
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	/* Part of it may come from a peer: an event stays one line. */
	for (char *c = text; *c; c++) {
		if (iscntrl((unsigned char)*c))
			*c = '?';
	}
	write_line(line, snprintf(line, sizeof(line), "%s %.31s: %s\n", names[level],
				  port ? port : "ringway", text));
}

void log_tick(void)
{
	uint64_t now = clock_ns();

	for (unsigned i = 0; i < LOG_PORTS; i++) {
		if (ports[i].allowance.paid_until <= now)
			tell_left_out(&ports[i]);
	}
	write_line("", 0);
}
