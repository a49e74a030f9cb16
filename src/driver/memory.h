/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a pretended guest: memfds, mapped one behind the other.
 *
 * Guest-physical addresses and our own run in parallel, so a buffer may lie across two regions and
 * is still one stretch here; the device maps the regions wherever it likes. Rings go into the first
 * region, because a ring must lie in one. Memory is never given back before the end.
 */
#ifndef RINGWAY_DRIVER_MEMORY_H
#define RINGWAY_DRIVER_MEMORY_H

#include "base/error.h"

#define DRIVER_REGIONS_MAX 32

/* What the device is told of a region, and the file behind it. */
struct driver_region {
	uint64_t gpa, size, uva, offset;
	int fd;
};

struct driver_memory {
	uint8_t *base;
	size_t size;
	uint64_t gpa; /* of base */
	size_t used;  /* from base: handed out so far */
	unsigned n;
	struct driver_region region[DRIVER_REGIONS_MAX];
};

/*
 * Makes `regions` regions: the first holds `first` bytes and its share of `rest`, the others theirs
 * each. `gpa` is that of the first byte. 0 or -errno with `err` filled.
 */
int driver_memory_create(struct driver_memory *mem, size_t first, size_t rest, unsigned regions,
			 uint64_t gpa, struct error *err);
void driver_memory_destroy(struct driver_memory *mem);

/* `align` is a power of two. NULL if there is no room; zeroed. */
void *driver_memory_alloc(struct driver_memory *mem, size_t size, size_t align);

static inline uint64_t driver_memory_gpa(const struct driver_memory *mem, const void *at)
{
	return mem->gpa + (uint64_t)((const uint8_t *)at - mem->base);
}

#endif
