/* SPDX-License-Identifier: Apache-2.0 */
/* Regions and sets of them, made of memfds. */
#ifndef RINGWAY_TESTS_MEMORY_RIG_H
#define RINGWAY_TESTS_MEMORY_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/access.h"
#include "guest/memory.h"
#include "guest/sigbus.h"

#define PAGE 4096u

static inline int memfd(size_t size)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	return fd;
}

static inline struct guest_mapping *map(int fd, uint64_t gpa, uint64_t size, uint64_t uva,
					uint64_t offset)
{
	struct guest_region_desc desc = { .gpa = gpa, .size = size, .uva = uva, .offset = offset };
	struct guest_mapping *mapping = NULL;
	struct error err = { "" };

	if (guest_mapping_create(fd, &desc, &mapping, &err))
		print_message("%s\n", err.text);
	assert_non_null(mapping);
	return mapping;
}

static inline struct guest_memory *memory(struct guest_mapping **mappings, unsigned n)
{
	struct guest_memory *mem;
	struct error err;

	assert_int_equal(guest_memory_create(mappings, n, &mem, &err), 0);
	for (unsigned i = 0; i < n; i++)
		guest_mapping_put(mappings[i]);
	return mem;
}

#endif
