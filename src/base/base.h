/* SPDX-License-Identifier: Apache-2.0 */
/* What every file may use without saying so. */
#ifndef RINGWAY_BASE_BASE_H
#define RINGWAY_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/param.h> /* defines MIN and MAX too, less carefully */

#define CACHE_LINE 64

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
/* Each argument is evaluated once. */
#undef MIN
#undef MAX
#define MIN(a, b)                              \
	({                                     \
		__auto_type min_a = (a);       \
		__auto_type min_b = (b);       \
		min_a < min_b ? min_a : min_b; \
	})
#define MAX(a, b)                              \
	({                                     \
		__auto_type max_a = (a);       \
		__auto_type max_b = (b);       \
		max_a > max_b ? max_a : max_b; \
	})
#define BIT(n) (1ULL << (n))

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define likely(x)	       __builtin_expect(!!(x), 1)
#define unlikely(x)	       __builtin_expect(!!(x), 0)
#define cache_aligned	       __attribute__((aligned(CACHE_LINE)))
#define printf_like(fmt, args) __attribute__((format(printf, fmt, args)))

/*
 * A function of which its callers get one each, in which their constant arguments leave nothing of
 * the choices that are made by them. (Coverage is counted in one for all.)
 */
#ifndef instantiated
#define instantiated __attribute__((always_inline)) inline
#endif

/* For messages: "%u port%s", n, plural_s(n). */
#define plural_s(n) ((n) == 1 ? "" : "s")

#define prefetch(p)	  __builtin_prefetch((p), 0, 3)
#define prefetch_write(p) __builtin_prefetch((p), 1, 3)

#endif
