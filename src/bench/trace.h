/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When frames came to a queue, for replaying it to the policies (tests/unit/test_replay.c).
 *
 * Text: a first line that begins with '#' and says what was recorded; then a line for each frame,
 * the ns since the one before it. The first frame's is 0.
 */
#ifndef RINGWAY_BENCH_TRACE_H
#define RINGWAY_BENCH_TRACE_H

#include <stdio.h>

#include "base/error.h"

#define TRACE_FRAMES 2000u /* longest */

/* An empty one, the caller's to close. 0, or -errno with `err` filled. */
int trace_create(const char *path, FILE **ret, struct error *err);

/* `when`: of each frame, in ns from anywhere. 0, or -errno with `err` filled. */
int trace_write(FILE *file, const char *what, const uint64_t *when, unsigned n, struct error *err);

/* Times from 1 ns on. How many frames there are, or -errno with `err` filled. */
int trace_read(const char *path, uint64_t when[TRACE_FRAMES], struct error *err);

#endif
