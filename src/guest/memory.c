// SPDX-License-Identifier: Apache-2.0
/*
 * Mapping a front-end's regions, and the immutable sets that are made of them.
 *
 * The file behind a region decides whether a touch of it can hang or kill the process, so only
 * memory files are taken: on FUSE or NFS a page fault, and even fstat(), may wait for a server that
 * the front-end runs.
 */
#include "guest/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/apart.h"
#include "guest/sigbus.h"

/* The pages of so many bytes are freed within some milliseconds. */
#define FREED_AT_ONCE (16u << 20)

struct guest_mapping {
	struct guest_region_desc desc;
	uintptr_t base; /* what mmap() gave, and how much */
	size_t len;
	uintptr_t host; /* where desc.gpa is */
	struct sigbus_slot *slot;
	unsigned refs;
};

/* Of all mappings; control's. */
static uint64_t mapped;

/* What they may take in all: half of what the process has, by the machine or by its limit. */
static uint64_t space_max(void)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };

	getrlimit(RLIMIT_AS, &limit);
	if (limit.rlim_cur == RLIM_INFINITY)
		return GUEST_SPACE_MAX;
	return MIN((uint64_t)limit.rlim_cur / 2, GUEST_SPACE_MAX);
}

static int check_space(size_t len, struct error *err)
{
	uint64_t max = space_max();

	if (len <= max && mapped <= max - len)
		return 0;
	return error_set(err, ENOSPC,
			 "all guests together have more than %llu GiB of memory (sparse files "
			 "count in full); delete ports%s",
			 (unsigned long long)(max >> 30),
			 max < GUEST_SPACE_MAX ? ", or raise ulimit -v" : "");
}

static bool add_overflows(uint64_t a, uint64_t b)
{
	return a + b < a;
}

bool guest_is_memory_file(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0; /* memfd, tmpfs and hugetlbfs have them, nothing else */
}

bool guest_is_large_file(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && (uint64_t)st.st_blocks * 512 > FREED_AT_ONCE;
}

static int check_file(int fd, uint64_t end, size_t *ret_page, struct error *err)
{
	struct statfs fs;
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (!guest_is_memory_file(fd))
		return error_set(
			err, EBADF,
			"memory region is not a memfd, on tmpfs or on hugetlbfs; use QEMU's "
			"memory-backend-memfd,share=on");
	if (fstat(fd, &st) || fstatfs(fd, &fs))
		return error_set(err, EBADF, "memory region: not a usable descriptor: %s",
				 strerror(errno));
	if ((flags & O_ACCMODE) != O_RDWR)
		return error_set(err, EBADF,
				 "memory region is not a file open for reading and writing");
	if (end > (uint64_t)st.st_size)
		return error_set(err, EINVAL, "memory region reaches beyond the end of its file");
	*ret_page = fs.f_type == HUGETLBFS_MAGIC ? (size_t)st.st_blksize
						 : (size_t)sysconf(_SC_PAGESIZE);
	return 0;
}

static int check_desc(const struct guest_region_desc *d, struct error *err)
{
	if (!d->size || add_overflows(d->gpa, d->size) || add_overflows(d->uva, d->size) ||
	    add_overflows(d->offset, d->size))
		return error_set(err, EINVAL, "memory region is empty or wraps around");
	if (d->size > GUEST_MEMORY_MAX)
		return error_set(err, EINVAL, "memory region of more than %llu TiB",
				 GUEST_MEMORY_MAX >> 40);
	return 0;
}

/*
 * The offset need not be a multiple of the page size, and hugetlbfs wants whole huge pages in
 * mmap() and munmap(): the mapping begins at the page that holds the offset and ends with one.
 */
int guest_mapping_create(int fd, const struct guest_region_desc *desc, struct guest_mapping **ret,
			 struct error *err)
{
	struct guest_mapping *m;
	size_t page, lead;
	void *base;
	int r;

	r = check_desc(desc, err);
	if (!r)
		r = check_file(fd, desc->offset + desc->size, &page, err);
	if (r)
		return r;
	m = calloc(1, sizeof(*m));
	if (!m)
		return error_no_memory(err);
	lead = desc->offset & (page - 1);
	m->len = (desc->size + lead + page - 1) & ~(page - 1);
	r = check_space(m->len, err);
	if (r)
		goto free_mapping;
	base = mmap(NULL, m->len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
		    (off_t)(desc->offset - lead));
	if (base == MAP_FAILED) {
		r = error_set(err, errno, "cannot map a memory region of %llu bytes: %s",
			      (unsigned long long)desc->size, strerror(errno));
		goto free_mapping;
	}
	/* A core dump of the switch shall not hold its guests' memory, nor shall a child. */
	madvise(base, m->len, MADV_DONTDUMP);
	madvise(base, m->len, MADV_DONTFORK);
	m->desc = *desc;
	m->base = (uintptr_t)base;
	m->host = m->base + lead;
	m->refs = 1;
	m->slot = sigbus_watch(m->base, m->len, page);
	if (!m->slot) {
		r = error_set(err, ENOSPC, "too many memory regions in all; delete ports");
		goto unmap;
	}
	mapped += m->len;
	*ret = m;
	return 0;
unmap:
	munmap(base, m->len);
free_mapping:
	free(m);
	return r;
}

static void *unmap(void *arg)
{
	struct guest_mapping *m = arg;

	munmap((void *)m->base, m->len);
	free(m);
	return NULL;
}

/*
 * Who is the last to unmap a file frees its pages, a quarter of a second for each GiB: that is the
 * switch, when QEMU has ended, and the control thread has other guests to serve meanwhile.
 */
void guest_mapping_put(struct guest_mapping *m)
{
	if (--m->refs)
		return;
	sigbus_unwatch(m->slot);
	mapped -= m->len;
	if (m->len > FREED_AT_ONCE)
		apart_do(unmap, m);
	else
		unmap(m);
}

const struct guest_region_desc *guest_mapping_desc(const struct guest_mapping *m)
{
	return &m->desc;
}

static bool ranges_overlap(uint64_t a, uint64_t a_len, uint64_t b, uint64_t b_len)
{
	return a < b + b_len && b < a + a_len;
}

static int insert_mapping(struct guest_memory *mem, struct guest_mapping *m, struct error *err)
{
	unsigned at = mem->n;

	for (unsigned i = 0; i < mem->n; i++) {
		const struct guest_region_desc *other = &mem->mapping[i]->desc;

		if (ranges_overlap(m->desc.gpa, m->desc.size, other->gpa, other->size) ||
		    ranges_overlap(m->desc.uva, m->desc.size, other->uva, other->size))
			return error_set(err, EEXIST, "two memory regions overlap");
	}
	for (; at && mem->mapping[at - 1]->desc.gpa > m->desc.gpa; at--)
		mem->mapping[at] = mem->mapping[at - 1];
	mem->mapping[at] = m;
	mem->n++;
	return 0;
}

static uint64_t region_end(const struct guest_region *r)
{
	return r->gpa + r->size;
}

/*
 * Splits the address space below `limit` into at most 256 stretches of equal size and notes for
 * each the first region that ends above its start: a look-up begins there and hardly ever goes
 * further.
 */
static void build_index(struct guest_memory *mem)
{
	unsigned region = 0;

	for (unsigned i = 0; i < mem->n; i++) {
		const struct guest_mapping *m = mem->mapping[i];

		mem->region[i] = (struct guest_region){
			.gpa = m->desc.gpa,
			.size = m->desc.size,
			.host = m->host - m->desc.gpa,
		};
	}
	mem->limit = mem->n ? region_end(&mem->region[mem->n - 1]) : 0;
	while (mem->limit && (mem->limit - 1) >> mem->shift >= ARRAY_SIZE(mem->first))
		mem->shift++;
	for (unsigned i = 0; i < ARRAY_SIZE(mem->first); i++) {
		while (region < mem->n && region_end(&mem->region[region]) <= (uint64_t)i
										      << mem->shift)
			region++;
		mem->first[i] = (uint8_t)region;
	}
}

int guest_memory_create(struct guest_mapping *const *mappings, unsigned n,
			struct guest_memory **ret, struct error *err)
{
	struct guest_memory *mem;
	uint64_t total = 0;
	int r = 0;

	if (n > GUEST_REGIONS_MAX)
		return error_set(err, ENOSPC, "more than %d memory regions", GUEST_REGIONS_MAX);
	for (unsigned i = 0; i < n; i++)
		total += mappings[i]->desc.size;
	if (total > GUEST_MEMORY_MAX)
		return error_set(err, ENOSPC, "more than %llu TiB of guest memory",
				 GUEST_MEMORY_MAX >> 40);
	mem = calloc(1, sizeof(*mem));
	if (!mem)
		return error_no_memory(err);
	for (unsigned i = 0; i < n && !r; i++)
		r = insert_mapping(mem, mappings[i], err);
	if (r) {
		free(mem);
		return r;
	}
	for (unsigned i = 0; i < n; i++)
		mem->mapping[i]->refs++;
	build_index(mem);
	*ret = mem;
	return 0;
}

void guest_memory_free(struct guest_memory *mem)
{
	if (!mem)
		return;
	for (unsigned i = 0; i < mem->n; i++)
		guest_mapping_put(mem->mapping[i]);
	free(mem);
}

bool guest_memory_broken(const struct guest_memory *mem)
{
	for (unsigned i = 0; i < mem->n; i++) {
		if (sigbus_broken(mem->mapping[i]->slot))
			return true;
	}
	return false;
}

uintptr_t guest_translate_slowly(const struct guest_memory *mem, uint64_t gpa, uint32_t len,
				 uint32_t *ret_run)
{
	const struct guest_region *r = &mem->region[mem->first[gpa >> mem->shift]];

	/* The last region ends at the limit. */
	while (region_end(r) <= gpa)
		r++;
	if (gpa < r->gpa)
		return 0;
	*ret_run = (uint32_t)MIN((uint64_t)len, region_end(r) - gpa);
	return r->host + gpa;
}

uintptr_t guest_memory_user(const struct guest_memory *mem, uint64_t uva, uint64_t len)
{
	for (unsigned i = 0; i < mem->n; i++) {
		const struct guest_mapping *m = mem->mapping[i];
		uint64_t at = uva - m->desc.uva;

		if (uva >= m->desc.uva && at < m->desc.size && len <= m->desc.size - at)
			return m->host + at;
	}
	return 0;
}
