// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

static enum log_level log_threshold = LOG_INFO;

void log_set_level(enum log_level level)
{
	log_threshold = level;
}

void log_event(enum log_level level, const char *port, const char *fmt, ...)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
	char line[512];
	va_list args;

	if (level > log_threshold)
		return;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	/* Part of it may come from a peer: an event stays one line. */
	for (char *c = line; *c; c++) {
		if (iscntrl((unsigned char)*c))
			*c = '?';
	}
	fprintf(stderr, "%s %s: %s\n", names[level], port ? port : "ringway", line);
}
