/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of a guest's rx queues a flow goes to: the pair on which the guest itself sends that flow,
 * so that both directions are handled by the same CPU of the guest; a flow it has not sent yet goes
 * by its hash. Pure; the table belongs to a port, entries are single bytes written by the workers
 * of its tx queues.
 */
#ifndef RINGWAY_POLICY_STEER_H
#define RINGWAY_POLICY_STEER_H

#include "base/base.h"

#define STEER_BUCKETS	1024u
#define STEER_PAIRS_MAX 128u

struct steer_table {
	uint8_t pair[STEER_BUCKETS]; /* pair + 1; 0: not known */
};

/* The guest sent a frame of this flow on `pair`, below STEER_PAIRS_MAX. */
void steer_note(struct steer_table *table, uint32_t flow, unsigned pair);

/* The pairs that receive. */
struct steer_pairs {
	unsigned n; /* at least 1 */
	uint8_t pair[STEER_PAIRS_MAX];
	bool receives[STEER_PAIRS_MAX];
};

/* The one of `pairs` to receive this flow. */
unsigned steer_pick(const struct steer_table *table, uint32_t flow,
		    const struct steer_pairs *pairs);

#endif
