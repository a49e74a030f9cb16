// SPDX-License-Identifier: Apache-2.0
/* The histogram against the same samples, sorted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/histogram.h"

#define SAMPLES 20000

static const double shares[] = { 0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1 };

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The quantile is the sample of that rank, and above it by no more than 1/64. */
static void compare(uint64_t *sample, unsigned n)
{
	struct histogram h;

	memset(&h, 0, sizeof(h));
	for (unsigned i = 0; i < n; i++)
		histogram_add(&h, sample[i]);
	qsort(sample, n, sizeof(*sample), by_value);
	assert_int_equal(h.n, n);
	assert_int_equal(h.max, sample[n - 1]);
	for (unsigned i = 0; i < ARRAY_SIZE(shares); i++) {
		double rank = shares[i] * n;
		unsigned at = (unsigned)rank - (rank == (unsigned)rank && rank > 0 ? 1 : 0);
		uint64_t exact = sample[at], got = histogram_quantile(&h, shares[i]);

		assert_true(got >= exact);
		assert_true(got - exact <= exact / 64);
	}
}

static void quantiles_are_those_of_the_sorted_samples(void **state)
{
	uint64_t *sample = malloc(SAMPLES * sizeof(*sample)), seed = 88172645463325252u;

	assert_non_null(sample);
	for (unsigned bits = 1; bits <= 64; bits++) {
		for (unsigned i = 0; i < SAMPLES; i++)
			sample[i] = next_random(&seed) >> (64 - bits);
		compare(sample, SAMPLES);
	}
	/* All sizes at once, and few of them. */
	for (unsigned n = 1; n < SAMPLES; n = n * 3 + 1) {
		for (unsigned i = 0; i < n; i++)
			sample[i] = next_random(&seed) >> next_random(&seed) % 64;
		compare(sample, n);
	}
	free(sample);
}

static void small_values_are_exact(void **state)
{
	for (uint64_t v = 0; v < 128; v++) {
		struct histogram h;

		memset(&h, 0, sizeof(h));
		histogram_add(&h, v);
		histogram_add(&h, 1000);
		assert_int_equal(histogram_quantile(&h, 0.5), v);
	}
}

static void every_value_has_a_bucket_and_they_are_in_order(void **state)
{
	unsigned last = 0;

	for (unsigned bit = 0; bit < 64; bit++) {
		for (uint64_t part = 0; part < 64; part++) {
			uint64_t value = (1ull << bit) + (bit >= 6 ? part << (bit - 6) : 0);
			unsigned bucket = histogram_bucket(value);

			assert_in_range(bucket, last, HISTOGRAM_BUCKETS - 1);
			last = bucket;
		}
	}
	assert_int_equal(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
}

static void nothing_is_zero(void **state)
{
	static const struct histogram none;

	assert_int_equal(histogram_quantile(&none, 0.5), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles_are_those_of_the_sorted_samples),
		cmocka_unit_test(small_values_are_exact),
		cmocka_unit_test(every_value_has_a_bucket_and_they_are_in_order),
		cmocka_unit_test(nothing_is_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
