// SPDX-License-Identifier: Apache-2.0
#include "bench/figures.h"

#include <stdlib.h>

static int by_value(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

double figures_median(double *v, unsigned n)
{
	qsort(v, n, sizeof(v[0]), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

struct ratio figures_ratio(const double *a, const double *b, unsigned n)
{
	double v[FIGURES_MAX];
	double median;

	for (unsigned i = 0; i < n; i++)
		v[i] = a[i] / b[i];
	median = figures_median(v, n);
	return (struct ratio){ median, v[0], v[n - 1] };
}
