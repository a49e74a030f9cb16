/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a few runs of the same load. Pure. */
#ifndef RINGWAY_BENCH_FIGURES_H
#define RINGWAY_BENCH_FIGURES_H

#include "base/base.h"

/* Sorts them; the mean of the middle two if their number is even. */
double figures_median(double *v, unsigned n);

#define FIGURES_MAX 100

/* How two things compare that were measured in turn: of each pair's ratio a / b; up to FIGURES_MAX
 * of them. */
struct ratio {
	double median, least, most;
};
struct ratio figures_ratio(const double *a, const double *b, unsigned n);

#endif
