/* SPDX-License-Identifier: Apache-2.0 */
/* Frames for a port of several queues, which were each found one: queue by queue. */
#ifndef RINGWAY_PORT_SPREAD_H
#define RINGWAY_PORT_SPREAD_H

#include "frame/batch.h"

/* Takes those out of *set that go to the same queue as its first, in their order. */
static inline frame_set spread_take(const uint8_t queue[BATCH_FRAMES], frame_set *set)
{
	unsigned i, first = (unsigned)__builtin_ctz(*set);
	frame_set same = 0;

	batch_for_each (i, *set) {
		if (queue[i] == queue[first])
			same |= 1u << i;
	}
	*set &= ~same;
	return same;
}

#endif
