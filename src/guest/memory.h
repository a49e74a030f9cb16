/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest's memory as the front-end described it: regions of guest-physical addresses, mapped here.
 *
 * A `guest_memory` is an immutable set of regions. A new memory table makes a new set; control puts
 * it in place ring by ring, each under the ring's lock, and frees the old one when the last ring
 * has let go. So the rule for readers is short: a guest's memory is reached with the lock of one of
 * its rings held, and through guest/access.h only. Host addresses are `uintptr_t` so that nothing
 * else can dereference them.
 *
 * A mapping is shared by the sets that contain it (adding or removing one region keeps the others
 * mapped). Everything but guest_translate() belongs to the control thread.
 */
#ifndef RINGWAY_GUEST_MEMORY_H
#define RINGWAY_GUEST_MEMORY_H

#include "base/base.h"
#include "base/error.h"

#define GUEST_REGIONS_MAX 32 /* offered by CONFIGURE_MEM_SLOTS */

/* A sparse file costs its owner nothing, but us our address space: bytes of one guest. */
#define GUEST_MEMORY_MAX (4ull << 40)
/* And of all guests, of the 128 TiB that a process has: the rest is for everything else. */
#define GUEST_SPACE_MAX (64ull << 40)

/* As in vhost-user's memory region description. */
struct guest_region_desc {
	uint64_t gpa;	 /* guest-physical address */
	uint64_t size;	 /* bytes */
	uint64_t uva;	 /* the front-end's own address: ring addresses are given in these */
	uint64_t offset; /* of the first byte in the file */
};

struct guest_mapping;

/* In shared memory or on hugetlbfs: nobody else is asked, whatever is done with it. */
bool guest_is_memory_file(int fd);
/* A memory file with so many pages that whoever closes it last is busy for long. */
bool guest_is_large_file(int fd);

/*
 * Maps a region. The file must be a memfd, on tmpfs or on hugetlbfs, opened for reading and
 * writing, and long enough. `fd` stays the caller's. Returns 0 with one reference in *ret, or a
 * negative errno with `err` filled (EINVAL: nonsense, EBADF: wrong kind of file, ENOSPC: all that
 * may be mapped is, ENOMEM).
 */
int guest_mapping_create(int fd, const struct guest_region_desc *desc, struct guest_mapping **ret,
			 struct error *err);
/* Gives one back. Unmaps after the last, if it is large in a thread of its own. */
void guest_mapping_put(struct guest_mapping *mapping);
const struct guest_region_desc *guest_mapping_desc(const struct guest_mapping *mapping);

struct guest_region {
	uint64_t gpa, size;
	uintptr_t host; /* where a guest-physical address of 0 would be, modulo 2^64 */
};

struct guest_memory {
	unsigned n;
	unsigned shift;	    /* gpa >> shift indexes `first` */
	uint64_t limit;	    /* no region ends above */
	uint8_t first[256]; /* the first region that ends above the start of this stretch */
	struct guest_region region[GUEST_REGIONS_MAX + 1]; /* by gpa; behind them an empty one */
	struct guest_mapping *mapping[GUEST_REGIONS_MAX];
};

/*
 * Makes a set of these mappings, in any order, taking a reference on each. Returns 0, or a negative
 * errno with `err` filled (EEXIST: two overlap in guest-physical or user addresses; ENOMEM).
 */
int guest_memory_create(struct guest_mapping *const *mappings, unsigned n,
			struct guest_memory **ret, struct error *err);
void guest_memory_free(struct guest_memory *mem); /* NULL is allowed; puts the mappings */

/* True once any of its mappings has lost its pages (guest/sigbus.h): the session must end. */
bool guest_memory_broken(const struct guest_memory *mem);

/*
 * Where [uva, uva + len) of the front-end's addresses is, if it lies in one region, else 0. For
 * rings; control thread.
 */
uintptr_t guest_memory_user(const struct guest_memory *mem, uint64_t uva, uint64_t len);

/* For addresses below `limit` in the same stretch as an earlier region. */
uintptr_t guest_translate_slowly(const struct guest_memory *mem, uint64_t gpa, uint32_t len,
				 uint32_t *ret_run);

/*
 * Where `gpa` is, and in *ret_run how many of `len` bytes are contiguous from there. 0 if it is in
 * no region. A buffer that runs on into the next region takes another call. Any thread that holds
 * the lock of one of the guest's rings.
 */
static inline uintptr_t guest_translate(const struct guest_memory *mem, uint64_t gpa, uint32_t len,
					uint32_t *ret_run)
{
	const struct guest_region *r;
	uint64_t offset;

	if (unlikely(gpa >= mem->limit))
		return 0;
	r = &mem->region[mem->first[gpa >> mem->shift]];
	offset = gpa - r->gpa;
	if (unlikely(offset >= r->size))
		return guest_translate_slowly(mem, gpa, len, ret_run);
	offset = r->size - offset;
	*ret_run = likely(len <= offset) ? len : (uint32_t)offset;
	return r->host + gpa;
}

#endif
