/* SPDX-License-Identifier: Apache-2.0 */
/* What the vhost tests share: a guest's memory in a memfd, rings in it, and descriptor counting. */
#ifndef RINGWAY_TEST_VHOST_RIG_H
#define RINGWAY_TEST_VHOST_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <linux/virtio_ring.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rcu.h"
#include "vhost/device.h"

#define MEMORY_SIZE 0x100000u
#define MEMORY_GPA  0x10000000u
#define MEMORY_UVA  0x7f0000000000u
#define MEMORY_NAME "ringway-test"
#define RING_SIZE   16u

static inline int memory_fd(size_t size)
{
	int fd = memfd_create(MEMORY_NAME, MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	return fd;
}

static inline struct guest_region_desc memory_desc(void)
{
	return (struct guest_region_desc){
		.gpa = MEMORY_GPA,
		.size = MEMORY_SIZE,
		.uva = MEMORY_UVA,
	};
}

/* User addresses of ring `index`: one page each, and room to spare. */
static inline struct vhost_ring_addr ring_addr(unsigned index)
{
	uint64_t at = MEMORY_UVA + 0x1000 * index;

	return (struct vhost_ring_addr){ .desc = at, .avail = at + 0x400, .used = at + 0x800 };
}

/* The bytes at a user address, through a mapping of one's own. */
static inline void *memory_at(void *base, uint64_t uva)
{
	return (uint8_t *)base + (uva - MEMORY_UVA);
}

/* A ring that has come to `index`: everything so far was made available, taken and returned. */
static inline void ring_at(void *base, unsigned ring, uint16_t index)
{
	struct vring_avail *avail = memory_at(base, ring_addr(ring).avail);
	struct vring_used *used = memory_at(base, ring_addr(ring).used);

	avail->idx = used->idx = index;
}

/* Makes `n` frames of 64 bytes available in a tx ring. */
static inline void ring_post(void *base, unsigned index, unsigned n)
{
	struct vhost_ring_addr addr = ring_addr(index);
	struct vring_desc *desc = memory_at(base, addr.desc);
	struct vring_avail *avail = memory_at(base, addr.avail);

	for (unsigned i = 0; i < n; i++) {
		unsigned at = (unsigned)(avail->idx + i) % RING_SIZE;

		desc[at] = (struct vring_desc){ .addr = MEMORY_GPA + 0x80000, .len = 76 };
		avail->ring[at] = (uint16_t)at;
	}
	avail->idx = (uint16_t)(avail->idx + n);
}

static inline unsigned open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* When call descriptors were replaced: those are closed a grace period late. */
static inline unsigned open_fds_settled(void)
{
	rcu_drain();
	return open_fds();
}

/* How many mappings of guest memory this process has. */
static inline unsigned memory_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned n = 0;

	while (fgets(line, sizeof(line), maps)) {
		if (strstr(line, MEMORY_NAME))
			n++;
	}
	fclose(maps);
	return n;
}

static inline int rig_setup(void **state)
{
	rcu_register_thread();
	rcu_thread_offline();
	return 0;
}

static inline int rig_teardown(void **state)
{
	rcu_drain();
	rcu_unregister_thread();
	return 0;
}

#endif
