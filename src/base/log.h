/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: one line an event on stderr, `level port: text`.
 *
 * For the control thread and the command line only. The datapath never logs: it counts, and the
 * control thread says what the counters mean.
 */
#ifndef RINGWAY_BASE_LOG_H
#define RINGWAY_BASE_LOG_H

#include "base/base.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Events above this level are not written; LOG_INFO at start. */
void log_set_level(enum log_level level);

/* `port` is the port's name, or NULL for what concerns the whole switch. */
void log_event(enum log_level level, const char *port, const char *fmt, ...) printf_like(3, 4);

#endif
