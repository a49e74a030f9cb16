/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing frames that lie in several spans, piece by piece. Workers, under the lock of
 * the ring whose guest's memory it is; whoever moves a cursor knows that the bytes are there.
 */
#ifndef RINGWAY_FRAME_CURSOR_H
#define RINGWAY_FRAME_CURSOR_H

#include "frame/batch.h"
#include "guest/access.h"

/* A place in a list of spans: where the next byte is read from, or goes. */
struct cursor {
	const struct span *span;
	uint32_t done; /* bytes of it */
};

/* The next piece of at most `n` bytes; the cursor moves on behind it. There are `n` bytes. */
static inline uintptr_t cursor_next(struct cursor *c, uint32_t n, uint32_t *ret_part)
{
	uintptr_t at;

	while (c->done == c->span->len) {
		c->span++;
		c->done = 0;
	}
	at = c->span->at + c->done;
	*ret_part = MIN(n, c->span->len - c->done);
	c->done += *ret_part;
	return at;
}

static inline void cursor_skip(struct cursor *c, uint32_t n)
{
	for (uint32_t part; n; n -= part)
		cursor_next(c, n, &part);
}

static inline void cursor_write(struct cursor *to, const void *from, uint32_t n)
{
	const uint8_t *p = from;

	for (uint32_t part; n; p += part, n -= part) {
		uintptr_t at = cursor_next(to, n, &part);

		guest_copy_out(at, p, part);
	}
}

static inline void cursor_copy(struct cursor *to, uintptr_t from, uint32_t n)
{
	for (uint32_t part; n; from += part, n -= part) {
		uintptr_t at = cursor_next(to, n, &part);

		guest_copy(at, from, part);
	}
}

#endif
