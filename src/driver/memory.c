// SPDX-License-Identifier: Apache-2.0
#include "driver/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) & ~(to - 1);
}

/*
 * Region `i` begins in page `i` of its own file, so that nothing works which forgets the offset.
 */
static int add_region(struct driver_memory *mem, unsigned i, size_t at, size_t size)
{
	struct driver_region *r = &mem->region[i];
	void *where;

	r->fd = memfd_create("ringway-driver", MFD_CLOEXEC);
	if (r->fd < 0)
		return -errno;
	mem->n = i + 1;
	r->gpa = mem->gpa + at;
	r->uva = (uintptr_t)mem->base + at;
	r->size = size;
	r->offset = (uint64_t)i * PAGE;
	if (ftruncate(r->fd, (off_t)(r->offset + size)))
		return -errno;
	where = mmap(mem->base + at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, r->fd,
		     (off_t)r->offset);
	return where == MAP_FAILED ? -errno : 0;
}

int driver_memory_create(struct driver_memory *mem, size_t first, size_t rest, unsigned regions,
			 uint64_t gpa, struct error *err)
{
	size_t share = round_up(rest / regions + 1, PAGE), at = 0;
	int rc = 0;

	memset(mem, 0, sizeof(*mem));
	if (!regions || regions > DRIVER_REGIONS_MAX)
		return error_set(err, EINVAL, "%u regions of memory: 1 to %u", regions,
				 DRIVER_REGIONS_MAX);
	first = round_up(first, PAGE);
	mem->gpa = gpa;
	mem->size = first + share * regions;
	mem->base = mmap(NULL, mem->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem->base == MAP_FAILED) {
		mem->base = NULL;
		return error_set(err, ENOMEM, "no address space for %zu bytes", mem->size);
	}
	for (unsigned i = 0; i < regions && !rc; i++) {
		size_t size = share + (i ? 0 : first);

		rc = add_region(mem, i, at, size);
		at += size;
	}
	if (rc) {
		driver_memory_destroy(mem);
		return error_set(err, -rc, "guest memory: %s", strerror(-rc));
	}
	return 0;
}

void driver_memory_destroy(struct driver_memory *mem)
{
	for (unsigned i = 0; i < mem->n; i++)
		close(mem->region[i].fd);
	if (mem->base)
		munmap(mem->base, mem->size);
	memset(mem, 0, sizeof(*mem));
}

void *driver_memory_alloc(struct driver_memory *mem, size_t size, size_t align)
{
	size_t at = round_up(mem->used, align);

	if (at > mem->size || size > mem->size - at)
		return NULL;
	mem->used = at + size;
	return mem->base + at;
}
