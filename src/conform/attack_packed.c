// SPDX-License-Identifier: Apache-2.0
/* A guest that writes into its packed rings what there cannot be; as in attack_chains.c. */
#include "conform/cases.h"

#include <stdio.h>
#include <unistd.h>

#define REACT_US 50000

/* One descriptor in the tx ring. */
static int put_one(struct kit *k, uint32_t len, uint16_t id, unsigned flags)
{
	const struct driver_config c = { .extra = 1u << 20 };
	struct driver_ring *tx;
	struct driver *d;
	int rc = kit_open_running(k, &c, &d); /* so that the ring is looked at */

	if (rc)
		return rc;
	tx = &d->ring[DRIVER_TX(0)];
	packed_put(tx, ring_gpa(tx, driver_memory_alloc(&d->mem, 1u << 19, 64)), len, id, flags);
	packed_publish(tx);
	ring_kick(tx);
	usleep(REACT_US);
	kit_hang_up(k);
	return CONFORM_PASSED;
}

/* 2.8.6: an id is the driver's own, of any value; it comes back as it was. */
int case_packed_ids(struct kit *k)
{
	static const uint16_t ids[] = { 256, 0x7fff, 0xffff };
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < ARRAY_SIZE(ids) && !rc; i++)
		rc = put_one(k, 100, ids[i], 0);
	return rc;
}

/* Every slot says that another follows. */
/* Clauses: 2.8.6b */
int case_packed_endless(struct kit *k)
{
	struct driver *d;
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < 2 && !rc; i++) {
		struct driver_ring *r;

		rc = kit_open_running(k, NULL, &d);
		if (rc)
			return rc;
		r = &d->ring[DRIVER_TX(0)];
		for (unsigned slot = r->size; slot--;) {
			/* What is before the next slot is of the next round. */
			const struct driver_place at = { slot, slot >= r->add.slot };

			r->packed_desc[slot].addr = ring_gpa(r, d->mem.base);
			r->packed_desc[slot].len = i ? 100 : 0;
			store_release(&r->packed_desc[slot].flags,
				      packed_flags_available(&at) | VRING_DESC_F_NEXT);
		}
		ring_kick(r);
		usleep(REACT_US);
		kit_hang_up(k);
	}
	return rc;
}

/* Clauses: 2.8.7b */
int case_packed_tables(struct kit *k)
{
	static const uint32_t lengths[] = { 0, 1, 15, 17, 240, 32800, 1 << 19, UINT32_MAX & ~15u };
	static char doing[32];
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < ARRAY_SIZE(lengths) && !rc; i++) {
		snprintf(doing, sizeof(doing), "of %u bytes", lengths[i]);
		k->doing = doing;
		rc = put_one(k, lengths[i], 0, VRING_DESC_F_INDIRECT);
	}
	return rc;
}
