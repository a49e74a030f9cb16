/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only way to a guest's bytes.
 *
 * A guest changes its memory whenever it likes. Each load here happens exactly once (volatile, or a
 * copy into private memory behind which the compiler cannot look again), so a value that was
 * checked is the value that is used. Stores come through here as well: this is where a dirty log
 * will hook.
 *
 * All of these want the lock of one of the guest's rings held (guest/memory.h), and an address and
 * length that guest_translate() vouched for.
 */
#ifndef RINGWAY_GUEST_ACCESS_H
#define RINGWAY_GUEST_ACCESS_H

#include <string.h>

#include "base/atomic.h"
#include "base/base.h"
#include "net/checksum.h"

static inline uint16_t guest_load16(uintptr_t at)
{
	return *(const volatile uint16_t *)at;
}

/* Partner: the driver's write barrier before it stores an index (2.7.13.3.1). */
static inline uint16_t guest_load16_acquire(uintptr_t at)
{
	return load_acquire((const uint16_t *)at);
}

static inline uint64_t guest_load64(uintptr_t at)
{
	return *(const volatile uint64_t *)at;
}

/* Partner: the driver's release of a packed descriptor's flags (2.8.21.1). */
static inline uint64_t guest_load64_acquire(uintptr_t at)
{
	return load_acquire((const uint64_t *)at);
}

static inline void guest_store32(uintptr_t at, uint32_t v)
{
	*(volatile uint32_t *)at = v;
}

static inline void guest_store16(uintptr_t at, uint16_t v)
{
	*(volatile uint16_t *)at = v;
}

/* Partner: the driver's read barrier after it loads an index (2.7.14). */
static inline void guest_store16_release(uintptr_t at, uint16_t v)
{
	store_release((uint16_t *)at, v);
}

/* Partner: the driver's acquire of a packed descriptor's flags (2.8.22.1). */
static inline void guest_store64_release(uintptr_t at, uint64_t v)
{
	store_release((uint64_t *)at, v);
}

/* A used entry: written in one go, though it is aligned to 4 bytes only (2.7). */
static inline void guest_store64(uintptr_t at, uint64_t v)
{
	typedef uint64_t entry __attribute__((aligned(4), may_alias));

	*(volatile entry *)at = v;
}

/*
 * A descriptor, as two loads of eight bytes. Those of the ring are aligned; nobody says so of an
 * indirect table.
 */
static inline void guest_load_desc(uintptr_t at, void *desc)
{
	typedef uint64_t word __attribute__((aligned(1), may_alias));
	const volatile word *from = (const volatile word *)at;
	uint64_t words[2] = { from[0], from[1] };

	memcpy(desc, words, sizeof(words));
}

/*
 * Up to 128 bytes with overlapping moves of the compiler's widest baseline vector: for headers and
 * small frames the call into libc costs more than the copy.
 */
static inline void copy_small(void *to, const void *from, size_t n)
{
	typedef uint8_t vec __attribute__((vector_size(16), aligned(1), may_alias));
	typedef uint64_t u64 __attribute__((aligned(1), may_alias));
	typedef uint32_t u32 __attribute__((aligned(1), may_alias));
	typedef uint16_t u16 __attribute__((aligned(1), may_alias));
	uint8_t *t = to;
	const uint8_t *f = from;

	if (n > 64) {
		vec v[8];

		for (unsigned i = 0; i < 4; i++) {
			v[i] = ((const vec *)f)[i];
			v[4 + i] = ((const vec *)(f + n - 64))[i];
		}
		for (unsigned i = 0; i < 4; i++) {
			((vec *)t)[i] = v[i];
			((vec *)(t + n - 64))[i] = v[4 + i];
		}
	} else if (n > 32) {
		vec v0 = ((const vec *)f)[0], v1 = ((const vec *)f)[1];
		vec v2 = ((const vec *)(f + n - 32))[0], v3 = ((const vec *)(f + n - 32))[1];

		((vec *)t)[0] = v0;
		((vec *)t)[1] = v1;
		((vec *)(t + n - 32))[0] = v2;
		((vec *)(t + n - 32))[1] = v3;
	} else if (n >= 16) {
		vec first = *(const vec *)f, last = *(const vec *)(f + n - 16);

		*(vec *)t = first;
		*(vec *)(t + n - 16) = last;
	} else if (n >= 8) {
		u64 first = *(const u64 *)f, last = *(const u64 *)(f + n - 8);

		*(u64 *)t = first;
		*(u64 *)(t + n - 8) = last;
	} else if (n >= 4) {
		u32 first = *(const u32 *)f, last = *(const u32 *)(f + n - 4);

		*(u32 *)t = first;
		*(u32 *)(t + n - 4) = last;
	} else if (n >= 2) {
		u16 first = *(const u16 *)f, last = *(const u16 *)(f + n - 2);

		*(u16 *)t = first;
		*(u16 *)(t + n - 2) = last;
	} else if (n) {
		*t = *f;
	}
}

#define COPY_SMALL 128

static inline void copy_any(void *to, const void *from, size_t n)
{
	if (n <= COPY_SMALL)
		copy_small(to, from, n);
	else
		memcpy(to, from, n);
	/* What was copied in is looked at in the copy, and never again in the guest. */
	compiler_barrier();
}

static inline void guest_copy_in(void *to, uintptr_t from, size_t n)
{
	copy_any(to, (const void *)from, n);
}

static inline void guest_copy_out(uintptr_t to, const void *from, size_t n)
{
	copy_any((void *)to, from, n);
}

/* From one guest's memory straight into another's. */
static inline void guest_copy(uintptr_t to, uintptr_t from, size_t n)
{
	copy_any((void *)to, (const void *)from, n);
}

/* The same, and adds exactly the bytes that were stored to `sum` (net/checksum.h). */
static inline void guest_copy_sum(struct checksum *sum, uintptr_t to, uintptr_t from, size_t n)
{
	checksum_copy(sum, (void *)to, (const void *)from, n);
}

#endif
