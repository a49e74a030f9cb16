/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: one line an event on stderr, `level port: text`.
 *
 * It never waits: what cannot be written at once is lost, and counted. Of one port it takes
 * LOG_BURST lines at once and then one a second, since a front-end can make it say things; the
 * others are counted too. Both numbers are told when there is a line again, or by log_tick().
 *
 * For the control thread and the command line only. The datapath never logs: it counts, and the
 * control thread says what the counters mean.
 */
#ifndef RINGWAY_BASE_LOG_H
#define RINGWAY_BASE_LOG_H

#include "base/base.h"

#define LOG_BURST 10

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Events above this level are not written; LOG_INFO at start. With LOG_DEBUG no port is limited. */
void log_set_level(enum log_level level);

/* `port` is the port's name, or NULL for what concerns the whole switch. */
void log_event(enum log_level level, const char *port, const char *fmt, ...) printf_like(3, 4);

/* Once a second. */
void log_tick(void);

#endif
