/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a frame's bytes in order, wherever they are, and cutting it into segments (net/segment.h)
 * on the way.
 */
#ifndef RINGWAY_FRAME_CUT_H
#define RINGWAY_FRAME_CUT_H

#include "frame/cursor.h"
#include "net/segment.h"

/* A place in a frame: what follows in its snapshot, then in the sender's memory. */
struct source {
	const uint8_t *head;
	uint32_t head_left;
	struct cursor rest;
};

/* The next piece of at most `n` bytes; the source moves on behind it. There are `n` bytes. */
static inline uintptr_t source_next(struct source *from, uint32_t n, uint32_t *ret_part)
{
	const uint8_t *at = from->head;

	if (!from->head_left)
		return cursor_next(&from->rest, n, ret_part);
	*ret_part = MIN(n, from->head_left);
	from->head += *ret_part;
	from->head_left -= *ret_part;
	return (uintptr_t)at;
}

/* From byte `offset` of the frame on. */
static inline struct source source_from(const struct batch *b, const struct frame *f,
					uint32_t offset)
{
	struct source from = {
		.head = f->head,
		.head_left = f->head_len,
		.rest = { .span = &b->span[f->span] },
	};

	for (uint32_t part; offset; offset -= part)
		source_next(&from, offset, &part);
	return from;
}

/*
 * Prepares cutting a frame that has a GSO type. *ret_from is where the payload of its next segment,
 * f->segments, begins. DROP_NONE, or why it cannot be cut.
 */
enum drop frame_cut(const struct batch *b, const struct frame *f, struct segments *ret,
		    struct source *ret_from);

#endif
