/* SPDX-License-Identifier: Apache-2.0 */
/* `ringway bench`: this switch, measured between two guests played by this process. */
#ifndef RINGWAY_BENCH_TABLE_H
#define RINGWAY_BENCH_TABLE_H

#include "base/error.h"
#include "bench/figures.h"

#define TABLE_REPEAT_MAX FIGURES_MAX

struct table_config {
	double seconds;	 /* of each run */
	unsigned repeat; /* of each load; medians are printed */
	bool json;
};

/* Prints on stdout. 0, or -errno with `err` filled. */
int table_run(const struct table_config *config, struct error *err);

#endif
