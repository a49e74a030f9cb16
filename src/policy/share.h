/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much a queue gets of its worker: the same work as any other that always has some.
 *
 * Work is counted in bytes of frames that are passed on: those taken, and beyond them what else was
 * done for them, be they in pieces, cut, summed or copied more than once. A turn ends with the
 * frame whose bytes reach its share, which may be much longer than what was left. What all that is
 * too much adds up, and a queue that owes a whole turn sits one out.
 *
 * What cannot be counted is paid for by time, above all memory that has to be faulted in: a turn
 * that is very long costs no less than what it took of the CPU. A clock does not tell that, since
 * the worker may have lost the CPU in it, and asking for its CPU time is a system call, too dear
 * for each turn. So it is asked after long ones alone, and all that the worker has lost since the
 * last of them is taken off.
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
/* No usual turn lasts so long. */
#define SHARE_LONG_US 100u
/* What a microsecond is worth: copying these bytes between memories that no cache holds. */
#define SHARE_US 4096u
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

/*
 * A turn lasted `us`. Since the last long one `passed`, without a sleep, and the worker had `cpu`
 * of it. What the turn costs is at the least that, beyond the debt `before` it.
 */
static inline void share_lasted(uint32_t *debt, uint32_t before, uint32_t share, uint64_t us,
				uint64_t passed, uint64_t cpu)
{
	uint64_t lost = passed > cpu ? passed - cpu : 0;

	if (us < lost + SHARE_LONG_US)
		return;
	share_took(&before, share, (uint32_t)MIN((us - lost) * SHARE_US, (uint64_t)SHARE_MORE_MAX),
		   0);
	*debt = MAX(*debt, before);
}

#endif
