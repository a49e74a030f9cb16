// SPDX-License-Identifier: Apache-2.0
/* Regions: what may be mapped, and how addresses are found in them. */
#include "memory_rig.h"

#include <linux/magic.h>
#include <semaphore.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define GIB (1ull << 30)

static int refused(int fd, struct guest_region_desc desc)
{
	struct guest_mapping *mapping;
	struct error err = { "" };
	int r = guest_mapping_create(fd, &desc, &mapping, &err);

	assert_true(r < 0);
	assert_true(err.text[0] != '\0');
	return r;
}

static void only_memory_files_are_mapped(void **state)
{
	struct guest_region_desc desc = { .size = PAGE, .uva = PAGE };
	int fd = open("/dev/zero", O_RDWR), pipes[2];

	assert_int_equal(refused(fd, desc), -EBADF);
	close(fd);
	fd = open("/proc/self/exe", O_RDONLY);
	assert_int_equal(refused(fd, desc), -EBADF);
	close(fd);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(refused(pipes[0], desc), -EBADF);
	close(pipes[0]);
	close(pipes[1]);
	assert_int_equal(refused(-1, desc), -EBADF);
	fd = memfd(PAGE);
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int readonly = open(path, O_RDONLY);
	assert_int_equal(refused(readonly, desc), -EBADF);
	close(readonly);
	close(fd);
}

/* Open for everything, and without a name. */
static int unlinked_file(const char *directory, off_t size)
{
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	return fd;
}

static bool on_tmpfs(const char *directory)
{
	struct statfs fs;

	return !statfs(directory, &fs) && fs.f_type == TMPFS_MAGIC;
}

/* A page fault on a file of FUSE or NFS may never return; what a disk's may cost is not known. */
static void a_file_on_a_disk_is_refused_however_it_is_open(void **state)
{
	struct guest_region_desc desc = { .size = PAGE, .uva = PAGE };
	const char *directories[] = { ".", "/var/tmp", "/root" };
	unsigned tried = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(directories); i++) {
		int fd;

		if (on_tmpfs(directories[i]) || access(directories[i], W_OK))
			continue;
		fd = unlinked_file(directories[i], PAGE);
		assert_int_equal(refused(fd, desc), -EBADF);
		close(fd);
		tried++;
	}
	if (!tried)
		skip();
}

static void a_file_on_tmpfs_is_mapped(void **state)
{
	struct guest_memory *mem;
	struct guest_mapping *m;
	int fd;

	if (!on_tmpfs("/dev/shm"))
		skip();
	fd = unlinked_file("/dev/shm", 2 * PAGE);
	m = map(fd, 0, PAGE, PAGE, PAGE);
	mem = memory(&m, 1);
	assert_int_equal(pwrite(fd, "shared", 6, PAGE), 6);
	assert_memory_equal((void *)mem->region[0].host, "shared", 6);
	guest_memory_free(mem);
	close(fd);
}

/* Without huge pages in reserve it can be mapped, but not touched. */
static void huge_pages_are_mapped_whole(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_HUGETLB);
	struct guest_memory *mem;
	struct guest_mapping *m;
	struct stat st;

	if (fd < 0)
		skip();
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(ftruncate(fd, 4 * st.st_blksize), 0);
	/* From the middle of a huge page to the middle of another. */
	m = map(fd, 0, (uint64_t)st.st_blksize, PAGE, (uint64_t)st.st_blksize / 2);
	mem = memory(&m, 1);
	assert_int_equal(mem->region[0].size, st.st_blksize);
	assert_int_equal(mem->region[0].host % (uintptr_t)st.st_blksize, st.st_blksize / 2);
	guest_memory_free(mem);
	close(fd);
}

static void a_region_is_not_empty_does_not_wrap_and_lies_in_its_file(void **state)
{
	int fd = memfd(2 * PAGE);

	assert_int_equal(refused(fd, (struct guest_region_desc){ .size = 0, .uva = PAGE }),
			 -EINVAL);
	assert_int_equal(refused(fd,
				 (struct guest_region_desc){ .size = PAGE, .gpa = UINT64_MAX - 8 }),
			 -EINVAL);
	assert_int_equal(refused(fd,
				 (struct guest_region_desc){ .size = PAGE, .uva = UINT64_MAX - 8 }),
			 -EINVAL);
	assert_int_equal(refused(fd, (struct guest_region_desc){ .size = PAGE,
								 .offset = UINT64_MAX - 8 }),
			 -EINVAL);
	assert_int_equal(refused(fd, (struct guest_region_desc){ .size = 2 * PAGE, .offset = 1 }),
			 -EINVAL);
	assert_int_equal(refused(fd, (struct guest_region_desc){ .size = 3 * PAGE }), -EINVAL);
	close(fd);
}

static void an_offset_need_not_be_a_whole_page(void **state)
{
	int fd = memfd(2 * PAGE);
	struct guest_mapping *m = map(fd, 0, PAGE, PAGE, 100);
	struct guest_memory *mem = memory(&m, 1);
	uint32_t run = 0;
	uintptr_t at;

	assert_int_equal(pwrite(fd, "x", 1, 100 + 7), 1);
	at = guest_translate(mem, 7, 1, &run);
	assert_true(at != 0);
	assert_int_equal(*(char *)at, 'x');
	guest_memory_free(mem);
	close(fd);
}

static void regions_may_not_overlap(void **state)
{
	int fd = memfd(4 * PAGE);
	struct guest_mapping *m[2];
	struct guest_memory *mem;
	struct error err;

	m[0] = map(fd, 0, 2 * PAGE, 10 * PAGE, 0);
	m[1] = map(fd, PAGE, PAGE, 20 * PAGE, 0);
	assert_int_equal(guest_memory_create(m, 2, &mem, &err), -EEXIST);
	guest_mapping_put(m[1]);
	m[1] = map(fd, 8 * PAGE, PAGE, 11 * PAGE, 0);
	assert_int_equal(guest_memory_create(m, 2, &mem, &err), -EEXIST);
	guest_mapping_put(m[1]);
	guest_mapping_put(m[0]);
	close(fd);
}

/* Clauses: memory-a */
static void a_buffer_that_runs_on_into_the_next_region_is_two_runs(void **state)
{
	int fd = memfd(4 * PAGE);
	struct guest_mapping *m[2] = { map(fd, PAGE, PAGE, 50 * PAGE, 2 * PAGE),
				       map(fd, 0, PAGE, 40 * PAGE, 0) };
	struct guest_memory *mem = memory(m, 2);
	uint32_t run = 0;

	assert_true(guest_translate(mem, PAGE - 10, 30, &run) != 0);
	assert_int_equal(run, 10);
	assert_true(guest_translate(mem, PAGE, 20, &run) != 0);
	assert_int_equal(run, 20);
	assert_true(guest_translate(mem, 2 * PAGE - 1, UINT32_MAX, &run) != 0);
	assert_int_equal(run, 1);
	assert_int_equal(guest_translate(mem, 2 * PAGE, 1, &run), 0);
	assert_int_equal(guest_translate(mem, UINT64_MAX, 1, &run), 0);
	guest_memory_free(mem);
	close(fd);
}

/* Regions of many sizes with holes between, near each other and far apart, against a plain search.
 */
/* Clauses: memory-a */
static void every_address_is_found_as_by_a_plain_search(void **state)
{
	int fd = memfd(64 * PAGE);
	struct guest_mapping *m[GUEST_REGIONS_MAX];
	uint64_t gpa[GUEST_REGIONS_MAX], size[GUEST_REGIONS_MAX], next = 0;
	struct guest_memory *mem;

	srand(7);
	for (unsigned i = 0; i < GUEST_REGIONS_MAX; i++) {
		next += (rand() & 1) ? 0 : (uint64_t)(rand() % 5) << (12 + rand() % 24);
		gpa[i] = next;
		size[i] = (uint64_t)(1 + rand() % 60) * PAGE;
		next += size[i];
		m[i] = map(fd, gpa[i], size[i], (uint64_t)(i + 1) << 40, 0);
	}
	mem = memory(m, GUEST_REGIONS_MAX);
	for (unsigned i = 0; i < GUEST_REGIONS_MAX; i++) {
		const uint64_t probes[] = { gpa[i] - 1, gpa[i], gpa[i] + size[i] / 2,
					    gpa[i] + size[i] - 1, gpa[i] + size[i] };

		for (unsigned p = 0; p < ARRAY_SIZE(probes); p++) {
			uint64_t want = 0;
			uint32_t run = 0;
			uintptr_t at = guest_translate(mem, probes[p], 100, &run);

			for (unsigned k = 0; k < GUEST_REGIONS_MAX; k++) {
				if (probes[p] - gpa[k] < size[k])
					want = MIN((uint64_t)100, gpa[k] + size[k] - probes[p]);
			}
			assert_int_equal(at ? run : 0, want);
		}
	}
	guest_memory_free(mem);
	close(fd);
}

/* Clauses: memory-a, vring-addr-a */
static void a_ring_lies_in_one_region_by_user_address(void **state)
{
	int fd = memfd(2 * PAGE);
	struct guest_mapping *m[2] = { map(fd, 0, PAGE, 40 * PAGE, 0),
				       map(fd, PAGE, PAGE, 41 * PAGE, PAGE) };
	struct guest_memory *mem = memory(m, 2);

	assert_true(guest_memory_user(mem, 40 * PAGE, PAGE) != 0);
	assert_int_equal(guest_memory_user(mem, 40 * PAGE + 1, PAGE), 0);
	assert_int_equal(guest_memory_user(mem, 39 * PAGE, PAGE), 0);
	assert_int_equal(guest_memory_user(mem, 40 * PAGE, UINT64_MAX), 0);
	assert_int_equal(guest_memory_user(mem, UINT64_MAX, 8), 0);
	guest_memory_free(mem);
	close(fd);
}

static void the_largest_region_and_the_highest_address_work(void **state)
{
	int fd = memfd(GIB);
	struct guest_mapping *m = map(fd, UINT64_MAX - GIB, GIB, PAGE, 0);
	struct guest_memory *mem = memory(&m, 1);
	uint32_t run = 0;

	assert_true(guest_translate(mem, UINT64_MAX - 1, 4, &run) != 0);
	assert_int_equal(run, 1);
	guest_memory_free(mem);
	close(fd);
}

static uint64_t status_kb(const char *key)
{
	FILE *status = fopen("/proc/self/status", "r");
	unsigned long long kb = 0;
	char line[128];

	while (fgets(line, sizeof(line), status)) {
		if (!strncmp(line, key, strlen(key)))
			sscanf(line + strlen(key), ": %llu", &kb);
	}
	fclose(status);
	return kb;
}

/* Not of one guest alone: of all, so that later ports and everything else have room. */
static void address_space_is_left_for_others(void **state)
{
	enum { MOST = GUEST_SPACE_MAX / GUEST_MEMORY_MAX };
	int fd = memfd(GUEST_MEMORY_MAX);
	struct guest_region_desc desc = { .size = GUEST_MEMORY_MAX }, page = { .size = PAGE };
	struct guest_mapping *m[MOST];
	struct rlimit before, little;

#ifdef __SANITIZE_THREAD__
	print_message("# the thread sanitizer needs the address space itself\n");
	skip();
#endif
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < MOST; i++)
			m[i] = map(fd, 0, GUEST_MEMORY_MAX, 0, 0);
		assert_int_equal(refused(fd, page), -ENOSPC);
		guest_mapping_put(m[0]);
		m[0] = map(fd, 0, GUEST_MEMORY_MAX - PAGE, 0, 0);
		assert_int_equal(refused(fd, desc), -ENOSPC);
		guest_mapping_put(map(fd, 0, PAGE, 0, 0));
		for (unsigned i = 0; i < MOST; i++)
			guest_mapping_put(m[i]);
	}
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	little = before;
	little.rlim_cur = 2 * GIB;
	assert_int_equal(setrlimit(RLIMIT_AS, &little), 0);
	desc.size = GIB + PAGE;
	assert_int_equal(refused(fd, desc), -ENOSPC);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	close(fd);
}

/* Guests' memory is theirs: what ringway has not touched is charged to nobody. */
static void a_guest_has_so_much_memory_in_so_many_regions(void **state)
{
	int fd = memfd(3 * (GUEST_MEMORY_MAX / 4));
	const uint64_t most = 3 * (GUEST_MEMORY_MAX / 4);
	struct guest_mapping *m[GUEST_REGIONS_MAX + 1];
	struct guest_memory *mem = NULL;
	struct error err = { "" };

#ifdef __SANITIZE_THREAD__
	print_message("# the thread sanitizer needs the address space itself\n");
	skip();
#endif
	m[0] = map(fd, 0, most, 0, 0);
	m[1] = map(fd, most, most, most, 0);
	assert_int_equal(guest_memory_create(m, 2, &mem, &err), -ENOSPC);
	assert_non_null(strstr(err.text, "TiB"));
	guest_mapping_put(m[0]);
	guest_mapping_put(m[1]);
	for (unsigned i = 0; i < ARRAY_SIZE(m); i++)
		m[i] = map(fd, i * PAGE, PAGE, i * PAGE, 0);
	assert_int_equal(guest_memory_create(m, ARRAY_SIZE(m), &mem, &err), -ENOSPC);
	assert_int_equal(guest_memory_create(m, ARRAY_SIZE(m) - 1, &mem, &err), 0);
	guest_memory_free(mem);
	for (unsigned i = 0; i < ARRAY_SIZE(m); i++)
		guest_mapping_put(m[i]);
	close(fd);
}

/* As many as leave half of the mappings that a process may have to everything else. */
static void regions_in_all_are_limited(void **state)
{
	static struct sigbus_slot *slot[32768 + 1];
	struct guest_region_desc desc = { .size = PAGE, .uva = PAGE };
	int fd = memfd(PAGE);
	uintptr_t at = PAGE;
	unsigned n = 0;

	for (; (slot[n] = sigbus_watch(at, PAGE, PAGE)); at += PAGE)
		n++;
	assert_int_equal(n, ARRAY_SIZE(slot) - 1);
	assert_int_equal(refused(fd, desc), -ENOSPC);
	sigbus_unwatch(slot[--n]);
	guest_mapping_put(map(fd, 0, PAGE, PAGE, 0));
	while (n)
		sigbus_unwatch(slot[--n]);
	close(fd);
}

static void mapped_memory_costs_nothing_until_it_is_touched(void **state)
{
	uint64_t before = status_kb("VmRSS");
	int fd = memfd(GIB);
	struct guest_mapping *m = map(fd, 0, GIB, PAGE, 0);
	struct stat st;

	assert_in_range(status_kb("VmRSS"), 0, before + 1024);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks, 0);
	guest_mapping_put(m);
	close(fd);
}

static void a_copy_of_any_length_is_exact_and_touches_nothing_else(void **state)
{
	uint8_t from[300], to[300 + 2];

	for (unsigned i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 7 + 1);
	for (unsigned n = 0; n <= sizeof(from); n++) {
		memset(to, 0xee, sizeof(to));
		guest_copy_in(to + 1, (uintptr_t)from, n);
		assert_memory_equal(to + 1, from, n);
		assert_int_equal(to[0], 0xee);
		assert_int_equal(to[1 + n], 0xee);
	}
}

static sem_t unmapping, may_unmap, unmapped;
static bool lasts; /* what the next test unmaps */

int __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size)
{
	int r;

	if (!lasts || size != GIB)
		return __real_munmap(at, size);
	assert_int_not_equal(gettid(), getpid());
	sem_post(&unmapping);
	sem_wait(&may_unmap);
	r = __real_munmap(at, size);
	sem_post(&unmapped);
	return r;
}

/* Else at once, since the others look at what is left. */
void __real_apart_do(void *(*work)(void *arg), void *arg);
void __wrap_apart_do(void *(*work)(void *arg), void *arg);
void __wrap_apart_do(void *(*work)(void *arg), void *arg)
{
	if (lasts)
		__real_apart_do(work, arg);
	else
		work(arg);
}

/* Who is the last to unmap a file frees its pages. */
static void unmapping_what_is_large_holds_up_nobody(void **state)
{
	int fd = memfd(GIB);
	struct guest_mapping *m = map(fd, 0, GIB, 0, 0);

	sem_init(&unmapping, 0, 0);
	sem_init(&may_unmap, 0, 0);
	sem_init(&unmapped, 0, 0);
	lasts = true;
	guest_mapping_put(m);
	sem_wait(&unmapping);
	sem_post(&may_unmap);
	sem_wait(&unmapped);
	lasts = false;
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_memory_files_are_mapped),
		cmocka_unit_test(a_file_on_a_disk_is_refused_however_it_is_open),
		cmocka_unit_test(a_file_on_tmpfs_is_mapped),
		cmocka_unit_test(huge_pages_are_mapped_whole),
		cmocka_unit_test(a_region_is_not_empty_does_not_wrap_and_lies_in_its_file),
		cmocka_unit_test(an_offset_need_not_be_a_whole_page),
		cmocka_unit_test(regions_may_not_overlap),
		cmocka_unit_test(a_buffer_that_runs_on_into_the_next_region_is_two_runs),
		cmocka_unit_test(every_address_is_found_as_by_a_plain_search),
		cmocka_unit_test(a_ring_lies_in_one_region_by_user_address),
		cmocka_unit_test(the_largest_region_and_the_highest_address_work),
		cmocka_unit_test(address_space_is_left_for_others),
		cmocka_unit_test(a_guest_has_so_much_memory_in_so_many_regions),
		cmocka_unit_test(regions_in_all_are_limited),
		cmocka_unit_test(unmapping_what_is_large_holds_up_nobody),
		cmocka_unit_test(mapped_memory_costs_nothing_until_it_is_touched),
		cmocka_unit_test(a_copy_of_any_length_is_exact_and_touches_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
