/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much a queue gets of its worker: the same work as any other that always has some.
 *
 * Work is counted in bytes of frames that are passed on: those taken, and beyond them what else was
 * done for them, be they in pieces, cut, summed or copied more than once. A turn ends with the
 * frame whose bytes reach its share, which may be much longer than what was left. What all that is
 * too much adds up, and a queue that owes a whole turn sits one out. Nothing here depends on the
 * clock, which would charge a queue for the time in which its worker had lost its CPU.
 */
#ifndef RINGWAY_POLICY_SHARE_H
#define RINGWAY_POLICY_SHARE_H

#include "base/base.h"

/* A frame of the usual length: one more copy counts as no less. */
#define SHARE_FRAME 1536u
/* What making a segment adds to copying its bytes, by bench/beside (docs/performance.md). */
#define SHARE_SEGMENT 640u
/* Adding bytes up while they are copied: one part in so many of copying them. */
#define SHARE_SUM 3u
/* One descriptor of a chain of several: to walk it, and to copy a piece by itself. */
#define SHARE_PIECE 128u
/* Segments may be of one byte, and flooded to thousands. */
#define SHARE_MORE_MAX (1u << 30)

/* One more copy of a flooded frame of this length. */
static inline uint32_t share_flooding(uint32_t len)
{
	return MAX(len, SHARE_FRAME);
}

/*
 * What was done for frames beyond passing them on: so many segments were made, so many bytes
 * summed, so much flooded, and so many pieces walked, be they of frames or of what is none.
 */
static inline uint32_t share_more(uint32_t segments, uint32_t summed, uint32_t flooded,
				  uint32_t pieces)
{
	uint64_t more = (uint64_t)segments * SHARE_SEGMENT + summed / SHARE_SUM + flooded +
			(uint64_t)pieces * SHARE_PIECE;

	return (uint32_t)MIN(more, (uint64_t)SHARE_MORE_MAX);
}

static inline bool share_sits_out(uint32_t *debt, uint32_t share)
{
	if (likely(*debt < share))
		return false;
	*debt -= share;
	return true;
}

/* A turn brought so much. */
static inline void share_took(uint32_t *debt, uint32_t share, uint32_t bytes, uint32_t more)
{
	uint32_t sum = *debt + bytes + more;

	*debt = sum > share ? sum - share : 0;
}

#endif
