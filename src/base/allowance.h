/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of something one may have: a rate, and what may come at once. It is one point in time,
 * up to which all that was taken is paid for; it may lie some way ahead of the clock.
 */
#ifndef RINGWAY_BASE_ALLOWANCE_H
#define RINGWAY_BASE_ALLOWANCE_H

#include "base/base.h"

struct allowance {
	uint64_t paid_until; /* ns, by the clock of whoever asks */
};

/* How long until something may be taken; 0: now. */
static inline uint64_t allowance_wait(const struct allowance *a, uint64_t now, uint64_t ahead)
{
	return a->paid_until > now + ahead ? a->paid_until - (now + ahead) : 0;
}

static inline void allowance_take(struct allowance *a, uint64_t now, uint64_t cost)
{
	a->paid_until = MAX(a->paid_until, now) + cost;
}

#endif
