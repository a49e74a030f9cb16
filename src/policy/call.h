/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to look at event indexes and call: a full fence and a look per burst costs the switch 1.4
 * times, after every eighth burst or a microsecond without work only 1.01 (docs/performance.md).
 * Pure.
 */
#ifndef RINGWAY_POLICY_CALL_H
#define RINGWAY_POLICY_CALL_H

#include "base/base.h"

#define CALL_BURSTS  8u
#define CALL_IDLE_NS 1000u

static inline bool call_due(unsigned bursts, uint64_t idle, uint64_t per_us)
{
	return bursts >= CALL_BURSTS || idle * 1000 >= CALL_IDLE_NS * per_us;
}

#endif
