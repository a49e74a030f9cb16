/* SPDX-License-Identifier: Apache-2.0 */
/* What every file may use without saying so. */
#ifndef RINGWAY_BASE_BASE_H
#define RINGWAY_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CACHE_LINE 64

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)     ((a) < (b) ? (a) : (b))
#define MAX(a, b)     ((a) > (b) ? (a) : (b))
#define BIT(n)	      (1ULL << (n))

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define likely(x)	       __builtin_expect(!!(x), 1)
#define unlikely(x)	       __builtin_expect(!!(x), 0)
#define cache_aligned	       __attribute__((aligned(CACHE_LINE)))
#define printf_like(fmt, args) __attribute__((format(printf, fmt, args)))

#define prefetch(p)	  __builtin_prefetch((p), 0, 3)
#define prefetch_write(p) __builtin_prefetch((p), 1, 3)

#endif
