/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much a queue gets of its worker: the same bytes as any other that always has work.
 *
 * A turn ends with the frame that reaches its share, which may be much longer than what was left.
 * What that is too much adds up, and a queue that owes a whole turn sits one out; so those with
 * large frames get no more bytes than others.
 */
#ifndef RINGWAY_POLICY_SHARE_H
#define RINGWAY_POLICY_SHARE_H

#include "base/base.h"

static inline bool share_sits_out(uint32_t *debt, uint32_t share)
{
	if (likely(*debt < share))
		return false;
	*debt -= share;
	return true;
}

/* A turn brought so much. */
static inline void share_took(uint32_t *debt, uint32_t share, uint32_t bytes)
{
	uint32_t sum = *debt + bytes;

	*debt = sum > share ? sum - share : 0;
}

#endif
