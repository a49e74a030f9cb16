/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log-linear histogram: each power of two is cut into 64 buckets of the same width, so a value is
 * known to 1/64 of itself whatever its size, adding one takes a few instructions, and the memory is
 * fixed. Below 128 values are exact.
 */
#ifndef RINGWAY_BENCH_HISTOGRAM_H
#define RINGWAY_BENCH_HISTOGRAM_H

#include "base/base.h"

#define HISTOGRAM_BITS	  6
#define HISTOGRAM_BUCKETS ((64u - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS)

struct histogram {
	uint64_t n, max;
	uint64_t bucket[HISTOGRAM_BUCKETS];
};

static inline unsigned histogram_bucket(uint64_t value)
{
	unsigned top = 63u - (unsigned)__builtin_clzll(value | (1u << HISTOGRAM_BITS));
	unsigned shift = top - HISTOGRAM_BITS;

	return (shift << HISTOGRAM_BITS) + (unsigned)(value >> shift);
}

static inline void histogram_add(struct histogram *h, uint64_t value)
{
	h->bucket[histogram_bucket(value)]++;
	h->n++;
	h->max = MAX(h->max, value);
}

/*
 * The least value, up to the width of its bucket above it, that `share` (0 to 1) of all values do
 * not exceed; 0 if there are none.
 */
uint64_t histogram_quantile(const struct histogram *h, double share);

#endif
