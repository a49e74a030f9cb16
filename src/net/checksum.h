/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Internet checksum (RFC 1071): over private bytes, and over bytes while they are copied out of
 * memory that may change meanwhile.
 *
 * Words are added as they lie in memory, whatever the machine's byte order: the result is stored by
 * memcpy(), never swapped. Pure, but for checksum_copy()'s copy.
 */
#ifndef RINGWAY_NET_CHECKSUM_H
#define RINGWAY_NET_CHECKSUM_H

#include "base/base.h"

/* Where the checksum lies in its header; it names the protocol as well. */
#define CSUM_OFFSET_TCP 16
#define CSUM_OFFSET_UDP 6

/*
 * A sum under way over the pieces of one stretch of bytes, in order. Begins as { 0 }. Each piece
 * adds at most 0xffff, so nothing wraps.
 */
struct checksum {
	uint64_t sum;
	bool odd; /* an odd number of bytes so far: the next one is the second of a word */
};

/* One's complement addition of all four words; zero only if all of them are. */
static inline uint16_t checksum_fold(uint64_t sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* Adds a 16-bit number as it would lie in the frame; where in a word the sum is does not matter. */
static inline void checksum_add16(struct checksum *c, uint16_t number)
{
	c->sum += __builtin_bswap16(number);
}

/* Adds the next `n` bytes, which nobody else can write to. */
void checksum_add(struct checksum *c, const void *bytes, size_t n);

/*
 * Copies `n` bytes that somebody else may be writing to, and adds exactly what it has stored: each
 * byte is loaded once. `to` is never read. Any alignment.
 */
void checksum_copy(struct checksum *c, void *to, const void *from, size_t n);

/*
 * What goes into the checksum field that lies `csum_offset` bytes into its header, as it is stored.
 * A UDP checksum is never 0, which would mean that there is none (RFC 768). No other protocol for
 * which the difference matters has its checksum there.
 */
static inline uint16_t checksum_finish(const struct checksum *c, uint16_t csum_offset)
{
	uint16_t field = (uint16_t)~checksum_fold(c->sum);

	return field || csum_offset != CSUM_OFFSET_UDP ? field : 0xffff;
}

#endif
