/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: one line an event on stderr, `level port: text`.
 *
 * It never waits: what cannot be written at once is lost, and counted. Since a front-end can make
 * it say things, each port is a source with an allowance of its own: LOG_BURST seconds' worth of
 * lines at once, and then so many a second; the others are left out, and counted too. Both numbers
 * are told when there is a line again, or by log_tick().
 *
 * For the control thread and the command line only. The datapath never logs: it counts, and the
 * control thread says what the counters mean.
 */
#ifndef RINGWAY_BASE_LOG_H
#define RINGWAY_BASE_LOG_H

#include <urcu/list.h>

#include "base/allowance.h"
#include "base/base.h"

#define LOG_BURST   10
#define LOG_MAX	    1u /* lines a second, if nothing else is said */
#define LOG_MAX_END 1000u

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* What lines come from. Whoever owns it fills in the first two; the rest is 0 at first. */
struct log_source {
	const char *name;
	unsigned max; /* lines a second; 0: no limit */
	struct allowance allowance;
	uint64_t left_out; /* ever */
	unsigned untold;   /* of these, not told in the log yet; then it is in a list */
	struct cds_list_head node;
};

/* Events above this level are not written; LOG_INFO at start. With LOG_DEBUG nobody is limited. */
void log_set_level(enum log_level level);

/* `source` is NULL for what concerns the whole switch. */
void log_event(enum log_level level, struct log_source *source, const char *fmt, ...)
	printf_like(3, 4);

/* Before the source goes away: tells what was left out. */
void log_end(struct log_source *source);

/* Once a second. */
void log_tick(void);

#endif
