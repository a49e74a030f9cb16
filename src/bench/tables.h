/* SPDX-License-Identifier: Apache-2.0 */
/* `ringway bench`: this switch, measured between two guests played by this process. */
#ifndef RINGWAY_BENCH_TABLES_H
#define RINGWAY_BENCH_TABLES_H

#include "base/error.h"
#include "bench/figures.h"

#define TABLES_REPEAT_MAX FIGURES_MAX

struct tables_config {
	double seconds;	 /* of each run */
	unsigned repeat; /* of each load; medians are printed */
	bool json;
};

/*
 * What frames cost; or (`--latency`) how late they are and what that costs, by workers of two
 * kinds. Both print on stdout. 0, or -errno with `err` filled.
 */
int costs_run(const struct tables_config *config, struct error *err);
int paced_run(const struct tables_config *config, struct error *err);

#endif
