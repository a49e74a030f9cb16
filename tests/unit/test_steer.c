// SPDX-License-Identifier: Apache-2.0
/* Steering: a flow goes to the pair it was sent on, another by its hash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy/steer.h"

/* Hashes as they come: spread over all 32 bits. */
static uint32_t flow(uint32_t i)
{
	return i * 2654435761u;
}

/* The first `n` receive. */
static struct steer_pairs first(unsigned n)
{
	struct steer_pairs pairs = { .n = n };

	for (unsigned i = 0; i < n; i++) {
		pairs.pair[i] = (uint8_t)i;
		pairs.receives[i] = true;
	}
	return pairs;
}

static unsigned pick(const struct steer_table *table, uint32_t flow, struct steer_pairs pairs)
{
	return steer_pick(table, flow, &pairs);
}

/* Clauses: 5.1.6.5.6a */
static void a_flow_goes_to_the_pair_it_was_sent_on(void **state)
{
	struct steer_table table = { { 0 } };

	for (unsigned pair = 0; pair < 128; pair++) {
		steer_note(&table, flow(1), pair);
		assert_int_equal(pick(&table, flow(1), first(128)), pair);
	}
}

static void an_unknown_flow_goes_by_its_hash_to_every_pair_alike(void **state)
{
	static const unsigned pairs[] = { 1, 2, 3, 8, 128 };
	struct steer_table table = { { 0 } };

	for (unsigned k = 0; k < ARRAY_SIZE(pairs); k++) {
		unsigned hits[128] = { 0 }, share = 100000 / pairs[k];

		for (uint32_t i = 0; i < 100000; i++) {
			unsigned pair = pick(&table, flow(i), first(pairs[k]));

			assert_true(pair < pairs[k]);
			hits[pair]++;
		}
		for (unsigned i = 0; i < pairs[k]; i++)
			assert_in_range(hits[i], share * 8 / 10, share * 12 / 10);
	}
}

/* Clauses: 5.1.6.5.6b */
static void a_pair_that_is_no_more_is_not_picked(void **state)
{
	struct steer_table table = { { 0 } };

	for (uint32_t i = 0; i < 1000; i++) {
		steer_note(&table, flow(i), 7);
		assert_true(pick(&table, flow(i), first(7)) < 7);
		assert_int_equal(pick(&table, flow(i), first(8)), 7);
		assert_int_equal(pick(&table, flow(i), first(1)), 0);
	}
}

/* ethtool -L, or a driver that starts its pairs in any order: names of pairs stay what they are. */
static void a_pair_that_stops_moves_only_its_own_flows(void **state)
{
	struct steer_table table = { { 0 } };
	struct steer_pairs pairs = { .n = 2,
				     .pair = { 1, 3 },
				     .receives = { [1] = true, [3] = true } };

	for (unsigned pair = 0; pair < 4; pair++)
		steer_note(&table, pair, pair);
	assert_int_equal(steer_pick(&table, 1, &pairs), 1);
	assert_int_equal(steer_pick(&table, 3, &pairs), 3);
	assert_true(pairs.receives[steer_pick(&table, 0, &pairs)]);
	assert_true(pairs.receives[steer_pick(&table, 2, &pairs)]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flow_goes_to_the_pair_it_was_sent_on),
		cmocka_unit_test(an_unknown_flow_goes_by_its_hash_to_every_pair_alike),
		cmocka_unit_test(a_pair_that_is_no_more_is_not_picked),
		cmocka_unit_test(a_pair_that_stops_moves_only_its_own_flows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
