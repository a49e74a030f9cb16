// SPDX-License-Identifier: Apache-2.0
#include "bench/histogram.h"

/* The greatest value that belongs there. */
static uint64_t bucket_end(unsigned bucket)
{
	unsigned shift = bucket >> HISTOGRAM_BITS;
	uint64_t mantissa = bucket & ((1u << HISTOGRAM_BITS) - 1);

	if (!shift)
		return mantissa;
	shift--;
	return ((mantissa | 1u << HISTOGRAM_BITS) << shift) + ((1ull << shift) - 1);
}

uint64_t histogram_quantile(const struct histogram *h, double share)
{
	double exact = share * (double)h->n;
	uint64_t rank = (uint64_t)exact, seen = 0;

	if ((double)rank < exact || !rank)
		rank++;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= rank)
			return MIN(bucket_end(i), h->max);
	}
	return h->max;
}
