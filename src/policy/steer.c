// SPDX-License-Identifier: Apache-2.0
/*
 * Steering. The table is indexed by the hash's low bits, and a flow without an entry is spread by
 * its high bits. Entries race harmlessly: whichever pair is read, it is one the guest has used.
 */
#include "policy/steer.h"

#include "base/atomic.h"

_Static_assert((STEER_BUCKETS & (STEER_BUCKETS - 1)) == 0, "the hash is masked");

void steer_note(struct steer_table *table, uint32_t flow, unsigned pair)
{
	uint8_t *entry = &table->pair[flow % STEER_BUCKETS];

	/* Only when it changes, or each frame would take the line from the other workers. */
	if (load_relaxed(entry) != pair + 1)
		store_relaxed(entry, (uint8_t)(pair + 1));
}

unsigned steer_pick(const struct steer_table *table, uint32_t flow, const struct steer_pairs *pairs)
{
	unsigned noted = load_relaxed(&table->pair[flow % STEER_BUCKETS]);

	if (noted && pairs->receives[noted - 1])
		return noted - 1;
	return pairs->pair[(uint64_t)flow * pairs->n >> 32];
}
