/* SPDX-License-Identifier: Apache-2.0 */
/* `ringway bench --latency`: how late frames are, and what that costs, by workers of two kinds. */
#ifndef RINGWAY_BENCH_PACED_H
#define RINGWAY_BENCH_PACED_H

#include "bench/table.h"

/* Prints on stdout. 0, or -errno with `err` filled. */
int paced_run(const struct table_config *config, struct error *err);

#endif
