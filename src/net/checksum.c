// SPDX-License-Identifier: Apache-2.0
/*
 * One loop for both: with or without storing.
 *
 * Each 64-bit lane adds whole lanes modulo 2^64, and apart from that their upper halves. The sum of
 * the lower halves is then the difference: it is known modulo 2^64 and is smaller. That is
 * three instructions for 16 bytes of baseline x86-64 or arm64, one fewer than masking the halves.
 *
 * What was loaded goes through an empty asm, so that the compiler cannot see that it came from
 * memory: it would be free to load it once for the sum and again for the copy, and a guest
 * could change it in between. For the same reason the end is not done by overlapping
 * moves, as copies usually do it, but in smaller and smaller ones.
 */
#include "net/checksum.h"

typedef uint64_t lanes __attribute__((vector_size(16)));
typedef uint64_t lanes_at __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t u64_at __attribute__((aligned(1), may_alias));
typedef uint32_t u32_at __attribute__((aligned(1), may_alias));
typedef uint16_t u16_at __attribute__((aligned(1), may_alias));

#if defined(__x86_64__)
#define VECTOR_REGISTER "+x"
#elif defined(__aarch64__)
#define VECTOR_REGISTER "+w"
#endif

struct sums {
	lanes all;  /* modulo 2^64 */
	lanes high; /* of the upper halves */
};

/* The 16 bytes at offset `at`. */
static instantiated void step(struct sums *s, uint8_t *to, const uint8_t *from, size_t at,
			      bool store)
{
	lanes v = *(const lanes_at *)(from + at);

	asm("" : VECTOR_REGISTER(v));
	if (store)
		*(lanes_at *)(to + at) = v;
	s->all += v;
	s->high += v >> 32;
}

/* Two 32-bit halves for each lane: the sum of at most 2^31 lanes cannot wrap. */
static inline uint64_t collapse(const struct sums *s)
{
	lanes total = s->all - (s->high << 32) + s->high;

	return total[0] + total[1];
}

/* The bytes from offset `at` to `n`, fewer than 16. */
static instantiated uint64_t rest(uint8_t *to, const uint8_t *from, size_t at, size_t n, bool store)
{
	uint64_t sum = 0;

#define REST(type)                                               \
	do {                                                     \
		if (n & sizeof(type)) {                          \
			uint64_t v = *(const type *)(from + at); \
                                                                 \
			asm("" : "+r"(v));                       \
			if (store)                               \
				*(type *)(to + at) = (type)v;    \
			sum += (v & 0xffffffff) + (v >> 32);     \
			at += sizeof(type);                      \
		}                                                \
	} while (0)
	REST(u64_at);
	REST(u32_at);
	REST(u16_at);
	REST(uint8_t);
#undef REST
	return sum;
}

/* The sum of `n` bytes that begin a word, copied if `store`. */
static instantiated uint16_t walk(uint8_t *to, const uint8_t *from, size_t n, bool store)
{
	uint64_t sum = 0;
	size_t at = 0;

	if (n >= 16) {
		struct sums even = { .all = { 0 }, .high = { 0 } }, odd = even;

		for (; n - at >= 64; at += 64) {
			step(&even, to, from, at, store);
			step(&odd, to, from, at + 16, store);
			step(&even, to, from, at + 32, store);
			step(&odd, to, from, at + 48, store);
		}
		for (; n - at >= 16; at += 16)
			step(&even, to, from, at, store);
		sum = collapse(&even) + collapse(&odd);
	}
	return checksum_fold(sum + rest(to, from, at, n, store));
}

/* Appends a piece: a sum of words that begin at an odd byte is the same with its bytes swapped. */
static inline void append(struct checksum *c, uint16_t sum, size_t n)
{
	c->sum += c->odd ? __builtin_bswap16(sum) : sum;
	c->odd ^= n & 1;
}

void checksum_add(struct checksum *c, const void *bytes, size_t n)
{
	append(c, walk(NULL, bytes, n, false), n);
}

void checksum_copy(struct checksum *c, void *to, const void *from, size_t n)
{
	append(c, walk(to, from, n, true), n);
}
