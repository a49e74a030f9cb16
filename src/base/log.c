// SPDX-License-Identifier: Apache-2.0
/*
 * Never blocks. O_NONBLOCK would be everybody's who shares the description, so a pipe or terminal
 * is opened anew for each line, which makes a description of our own. What cannot be opened (a
 * socket, somebody else's terminal) is asked first whether it has room, which for a socket means
 * enough.
 *
 * What a source has that was left out and not told yet puts it into a list, so that however many
 * sources there are, each is limited by itself and log_tick() looks at those alone.
 */
#include "base/log.h"

#include <ctype.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

#define SECOND 1000000000ull

static enum log_level log_threshold = LOG_INFO;
static unsigned long lost;
static CDS_LIST_HEAD(untold);

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
				 "warn ringway: %lu line%s lost, the log could not be written\n",
				 lost, plural_s(lost));

		if (write_now(told, n))
			lost = 0;
	}
	if (len && (lost || !write_now(line, len)))
		lost++;
}

void log_end(struct log_source *source)
{
	char line[100];

	if (!source->untold)
		return;
	write_line(line,
		   snprintf(line, sizeof(line), "warn %.31s: %u line%s left out, of too many\n",
			    source->name, source->untold, plural_s(source->untold)));
	source->untold = 0;
	cds_list_del(&source->node);
}

static bool allowed(struct log_source *source)
{
	uint64_t now = clock_ns(), cost;

	if (!source->max)
		return true;
	cost = SECOND / source->max;
	if (allowance_wait(&source->allowance, now, LOG_BURST * SECOND - cost)) {
		if (!source->untold++)
			cds_list_add_tail(&source->node, &untold);
		source->left_out++;
		return false;
	}
	log_end(source);
	allowance_take(&source->allowance, now, cost);
	return true;
}

void log_event(enum log_level level, struct log_source *source, const char *fmt, ...)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
	char text[512], line[600];
	va_list args;

	if (level > log_threshold || (source && log_threshold < LOG_DEBUG && !allowed(source)))
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
				  source ? source->name : "ringway", text));
}

void log_tick(void)
{
	struct log_source *source, *next;
	uint64_t now = clock_ns();

	cds_list_for_each_entry_safe(source, next, &untold, node)
	{
		if (source->allowance.paid_until <= now)
			log_end(source);
	}
	write_line("", 0);
}
