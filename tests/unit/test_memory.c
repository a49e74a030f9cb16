// SPDX-License-Identifier: Apache-2.0
/* Regions: what may be mapped, how addresses are found in them, and what happens when pages go. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "guest/access.h"
#include "guest/memory.h"
#include "guest/sigbus.h"

#define PAGE 4096u
#define GIB  (1ull << 30)

static int memfd(size_t size)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	return fd;
}

static struct guest_mapping *map(int fd, uint64_t gpa, uint64_t size, uint64_t uva, uint64_t offset)
{
	struct guest_region_desc desc = { .gpa = gpa, .size = size, .uva = uva, .offset = offset };
	struct guest_mapping *mapping = NULL;
	struct error err = { "" };

	if (guest_mapping_create(fd, &desc, &mapping, &err))
		print_message("%s\n", err.text);
	assert_non_null(mapping);
	return mapping;
}

static int refused(int fd, struct guest_region_desc desc)
{
	struct guest_mapping *mapping;
	struct error err = { "" };
	int r = guest_mapping_create(fd, &desc, &mapping, &err);

	assert_true(r < 0);
	assert_true(err.text[0] != '\0');
	return r;
}

static struct guest_memory *memory(struct guest_mapping **mappings, unsigned n)
{
	struct guest_memory *mem;
	struct error err;

	assert_int_equal(guest_memory_create(mappings, n, &mem, &err), 0);
	for (unsigned i = 0; i < n; i++)
		guest_mapping_put(mappings[i]);
	return mem;
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

static void a_truncated_file_reads_as_zeros_and_marks_the_memory_broken(void **state)
{
	int fd = memfd(4 * PAGE);
	struct guest_mapping *m = map(fd, 0, 4 * PAGE, PAGE, 0);
	struct guest_memory *mem = memory(&m, 1);
	uint8_t bytes[64];
	uint64_t events;
	uint32_t run;
	uintptr_t at = guest_translate(mem, 3 * PAGE, sizeof(bytes), &run);
	int wake = sigbus_install();

	assert_true(wake >= 0);
	memset((void *)at, 1, sizeof(bytes));
	assert_false(guest_memory_broken(mem));
	assert_int_equal(ftruncate(fd, PAGE), 0);
	guest_copy_in(bytes, at, sizeof(bytes));
	assert_int_equal(bytes[0] | bytes[63], 0);
	assert_true(guest_memory_broken(mem));
	assert_int_equal(read(wake, &events, sizeof(events)), sizeof(events));
	guest_memory_free(mem);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_memory_files_are_mapped),
		cmocka_unit_test(a_region_is_not_empty_does_not_wrap_and_lies_in_its_file),
		cmocka_unit_test(an_offset_need_not_be_a_whole_page),
		cmocka_unit_test(regions_may_not_overlap),
		cmocka_unit_test(a_buffer_that_runs_on_into_the_next_region_is_two_runs),
		cmocka_unit_test(every_address_is_found_as_by_a_plain_search),
		cmocka_unit_test(a_ring_lies_in_one_region_by_user_address),
		cmocka_unit_test(the_largest_region_and_the_highest_address_work),
		cmocka_unit_test(a_truncated_file_reads_as_zeros_and_marks_the_memory_broken),
		cmocka_unit_test(a_copy_of_any_length_is_exact_and_touches_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
