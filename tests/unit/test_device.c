// SPDX-License-Identifier: Apache-2.0
/* The device without a socket: orders of messages, memory changing under rings, what is refused. */
#include "vhost_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "virtq/notify.h"

#define PROTOCOL  BIT(VHOST_USER_F_PROTOCOL_FEATURES)
#define MODERN	  (PROTOCOL | BIT(VIRTIO_F_VERSION_1))
#define STEPS_MAX 8

struct rig {
	struct vhost_device dev;
	int mem_fd;
	uint8_t *base;
	struct error err;
	/* Seen by the hook. */
	unsigned told;
	int watched;	   /* the kick that a worker would have in its epoll set */
	bool closed_first; /* it was closed before it could be taken out */
};

static struct rig *rig;

static void ring_changed(struct vhost_device *dev, struct vhost_ring *ring)
{
	rig->told++;
	if (rig->watched >= 0 && fcntl(rig->watched, F_GETFD) < 0)
		rig->closed_first = true;
	rig->watched = ring->kick;
}

static const struct vhost_device_hooks hooks = { .ring_changed = ring_changed };

static int setup(void **state)
{
	rig = calloc(1, sizeof(*rig));
	rig->mem_fd = memory_fd(MEMORY_SIZE);
	rig->base = mmap(NULL, MEMORY_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, rig->mem_fd, 0);
	rig->watched = -1;
	device_init(&rig->dev, &hooks);
	return 0;
}

static int teardown(void **state)
{
	device_destroy(&rig->dev);
	munmap(rig->base, MEMORY_SIZE);
	close(rig->mem_fd);
	rcu_drain();
	free(rig);
	return 0;
}

static struct guest_mapping *map(const struct guest_region_desc *desc)
{
	struct guest_mapping *mapping = NULL;

	assert_int_equal(guest_mapping_create(rig->mem_fd, desc, &mapping, &rig->err), 0);
	return mapping;
}

static int set_memory(const struct guest_region_desc *desc)
{
	struct guest_mapping *mapping = map(desc);
	int r = device_set_memory(&rig->dev, &mapping, 1, &rig->err);

	guest_mapping_put(mapping);
	return r;
}

static int kick(unsigned index)
{
	return device_set_kick(&rig->dev, index, eventfd(0, EFD_CLOEXEC), &rig->err);
}

static int set_addr(unsigned index)
{
	struct vhost_ring_addr addr = ring_addr(index);

	return device_set_addr(&rig->dev, index, &addr, &rig->err);
}

enum step { FEATURES, MEMORY, SIZE, BASE, ADDR, KICK, ENABLE };

static void take(enum step step, unsigned index, uint64_t features, uint16_t base)
{
	struct vhost_device *dev = &rig->dev;
	struct guest_region_desc desc = memory_desc();

	switch (step) {
	case FEATURES:
		assert_int_equal(device_set_features(dev, features, &rig->err), 0);
		break;
	case MEMORY:
		assert_int_equal(set_memory(&desc), 0);
		break;
	case SIZE:
		assert_int_equal(device_set_size(dev, index, RING_SIZE, &rig->err), 0);
		break;
	case BASE:
		assert_int_equal(device_set_base(dev, index, base, &rig->err), 0);
		break;
	case ADDR:
		assert_int_equal(set_addr(index), 0);
		break;
	case KICK:
		assert_int_equal(kick(index), 0);
		break;
	case ENABLE:
		assert_int_equal(device_set_enabled(dev, index, true, &rig->err), 0);
		break;
	}
}

static void start_ring(unsigned index, uint64_t features)
{
	for (enum step step = FEATURES; step <= ENABLE; step++)
		take(step, index, features, 0);
	assert_true(rig->dev.ring[index]->vq.running);
}

/* Tries all orders of steps[0..n); before the last of them the ring must rest. */
static void try_orders(enum step *steps, unsigned n, unsigned at, uint64_t features)
{
	if (at == n) {
		ring_at(rig->base, 1, 7);
		for (unsigned i = 0; i < n; i++) {
			struct vhost_ring *ring;

			take(steps[i], 1, features, 7);
			ring = rig->dev.ring[1];
			/* A base of 0 is what a ring has that was never told one. */
			if (i + 1 < n && steps[n - 1] != BASE)
				assert_false(ring && ring->vq.running);
		}
		assert_true(rig->dev.ring[1]->vq.running);
		assert_int_equal(rig->dev.ring[1]->vq.avail_next, 7);
		device_reset(&rig->dev);
		assert_false(rig->dev.ring[1]->vq.running);
		return;
	}
	for (unsigned i = at; i < n; i++) {
		enum step swap = steps[at];

		steps[at] = steps[i];
		steps[i] = swap;
		try_orders(steps, n, at + 1, features);
		steps[i] = steps[at];
		steps[at] = swap;
	}
}

static void a_ring_runs_after_all_its_messages_in_whatever_order(void **state)
{
	enum step steps[] = { FEATURES, MEMORY, SIZE, BASE, ADDR, KICK, ENABLE };

	try_orders(steps, ARRAY_SIZE(steps), 0, MODERN);
}

/* rust-vmm/vhost#227: rings were disabled again by SET_VRING_KICK. */
static void without_protocol_features_rings_are_enabled_from_the_start(void **state)
{
	enum step steps[] = { FEATURES, MEMORY, SIZE, BASE, ADDR, KICK };

	try_orders(steps, ARRAY_SIZE(steps), 0, BIT(VIRTIO_F_VERSION_1));
}

/* DPDK's virtio-user says 0 after every reconnect, though its rings have moved on. */
static void a_base_that_cannot_be_right_is_replaced_by_the_used_index(void **state)
{
	ring_at(rig->base, 1, 34000);
	ring_post(rig->base, 1, 5);
	start_ring(1, MODERN);
	assert_int_equal(rig->dev.ring[1]->vq.avail_next, 34000);
	assert_int_equal(rig->dev.ring[1]->vq.used_next, 34000);
	assert_false(virtq_broken(&rig->dev.ring[1]->vq));
}

static void odd_rings_and_later_pairs_may_come_first(void **state)
{
	start_ring(11, MODERN);
	start_ring(1, MODERN);
	start_ring(0, MODERN);
	assert_int_equal(rig->dev.rings, 12);
	assert_int_equal(device_pairs_up(&rig->dev), 2);
	assert_null(rig->dev.ring[10]);
	start_ring(255, MODERN);
	assert_int_equal(device_pairs_up(&rig->dev), 3);
}

static void collect_all(struct virtq *vq)
{
	struct batch *b = aligned_alloc(CACHE_LINE, sizeof(*b));
	struct virtq_calls calls = { 0 };

	while (virtq_collect(vq, b))
		virtq_complete(vq, b, &calls);
	free(b);
	vq->call_pending = false;
}

static void get_base_stops_the_ring_and_tells_what_was_consumed(void **state)
{
	uint32_t base = 99;
	struct vhost_ring *ring;

	start_ring(1, MODERN);
	ring = rig->dev.ring[1];
	for (unsigned i = 0; i < 1000; i++) {
		ring_post(rig->base, 1, 1);
		collect_all(&ring->vq);
	}
	ring_post(rig->base, 1, 3); /* waiting, not consumed */
	assert_int_equal(device_get_base(&rig->dev, 1, &base, &rig->err), 0);
	assert_int_equal(base, 1000);
	assert_false(virtq_active(&ring->vq));
	assert_int_equal(ring->kick, -1);

	assert_int_equal(device_set_base(&rig->dev, 1, base, &rig->err), 0);
	assert_false(virtq_active(&ring->vq));
	assert_int_equal(kick(1), 0);
	assert_true(ring->vq.running);
	collect_all(&ring->vq);
	assert_int_equal(device_get_base(&rig->dev, 1, &base, &rig->err), 0);
	assert_int_equal(base, 1003);
}

static void a_new_driver_begins_at_zero_over_a_zeroed_ring(void **state)
{
	struct vhost_ring *ring;

	start_ring(1, MODERN);
	ring = rig->dev.ring[1];
	ring_post(rig->base, 1, 5);
	collect_all(&ring->vq);
	memset(rig->base, 0, 0x2000);
	/* The old one was never stopped: its size message tells that it is over. */
	take(SIZE, 1, 0, 0);
	assert_false(virtq_active(&ring->vq));
	for (enum step step = BASE; step <= KICK; step++)
		take(step, 1, 0, 0);
	assert_true(ring->vq.running);
	assert_int_equal(ring->vq.avail_next, 0);
	assert_int_equal(ring->vq.used_next, 0);
}

static void features_are_taken_over_each_time_by_running_rings_too(void **state)
{
	struct virtq *vq;

	start_ring(1, PROTOCOL);
	vq = &rig->dev.ring[1]->vq;
	ring_post(rig->base, 1, 5);
	collect_all(vq);
	assert_int_equal(vq->hdr_len, 10);
	assert_int_equal(device_set_features(&rig->dev, MODERN, &rig->err), 0);
	assert_int_equal(vq->hdr_len, 12);
	assert_int_equal(vq->avail_next, 5);
	assert_int_equal(vq->used_next, 5);
	assert_true(vq->running);
	assert_int_equal(device_set_features(&rig->dev, PROTOCOL, &rig->err), 0);
	assert_int_equal(vq->hdr_len, 10);
}

static void refused_features_are_named_and_keep_rings_from_starting(void **state)
{
	uint64_t packed = MODERN | BIT(VIRTIO_F_RING_PACKED) | BIT(63);

	assert_int_equal(device_set_features(&rig->dev, packed, &rig->err), -ENOTSUP);
	assert_non_null(strstr(rig->err.text, "ring_packed,bit63"));
	assert_false(rig->dev.agreed);
	start_ring(3, MODERN);
	assert_int_equal(device_set_features(&rig->dev, packed, &rig->err), -ENOTSUP);
	assert_true(rig->dev.ring[3]->vq.running); /* with what it was started with */
	assert_int_equal(rig->dev.features, MODERN);
	for (enum step step = MEMORY; step <= ENABLE; step++)
		take(step, 1, 0, 0);
	assert_false(virtq_active(&rig->dev.ring[1]->vq));
	assert_int_equal(device_set_features(&rig->dev, MODERN, &rig->err), 0);
	assert_true(rig->dev.ring[1]->vq.running);
}

static void features_ok_does_not_stick_after_a_refusal(void **state)
{
	struct vhost_device *dev = &rig->dev;

	assert_int_equal(device_set_status(dev, 0x0b, &rig->err), 0);
	assert_int_equal(dev->status, 0x0b);
	assert_int_equal(device_set_features(dev, BIT(60), &rig->err), -ENOTSUP);
	assert_int_equal(device_set_status(dev, 0x0b, &rig->err), 0);
	assert_int_equal(dev->status, 0x03);
	assert_int_equal(device_set_status(dev, 0, &rig->err), 0);
	assert_int_equal(device_set_features(dev, MODERN, &rig->err), 0);
	assert_int_equal(device_set_status(dev, 0x0f, &rig->err), 0);
	assert_int_equal(dev->status, 0x0f);
	assert_int_equal(device_set_status(dev, 0x100, &rig->err), -EINVAL);
}

static void status_zero_stops_rings_and_keeps_memory(void **state)
{
	start_ring(0, MODERN);
	start_ring(1, MODERN);
	assert_int_equal(device_set_status(&rig->dev, 0, &rig->err), 0);
	assert_false(virtq_active(&rig->dev.ring[0]->vq));
	assert_false(virtq_active(&rig->dev.ring[1]->vq));
	assert_non_null(rig->dev.mem);
	for (enum step step = SIZE; step <= KICK; step++)
		take(step, 1, 0, 0);
	assert_true(rig->dev.ring[1]->vq.running);
}

static void a_new_table_moves_running_rings_and_frees_the_old(void **state)
{
	struct guest_region_desc desc = memory_desc();
	unsigned before = memory_mappings();
	uintptr_t was;
	struct virtq *vq;

	start_ring(1, MODERN);
	vq = &rig->dev.ring[1]->vq;
	ring_post(rig->base, 1, 5);
	collect_all(vq);
	assert_int_equal(memory_mappings(), before + 1);
	for (unsigned i = 0; i < 100; i++) {
		was = vq->addr.desc;
		desc.gpa += 0x1000;
		assert_int_equal(set_memory(&desc), 0);
		assert_true(vq->running);
		assert_ptr_equal(vq->mem, rig->dev.mem);
		assert_int_not_equal(vq->addr.desc, was);
		assert_int_equal(vq->avail_next, 5);
	}
	assert_int_equal(memory_mappings(), before + 1);
}

static void a_ring_outside_the_new_table_stops_and_later_goes_on(void **state)
{
	struct guest_region_desc desc = memory_desc();
	struct virtq *vq;

	start_ring(1, MODERN);
	vq = &rig->dev.ring[1]->vq;
	ring_post(rig->base, 1, 5);
	collect_all(vq);
	desc.uva += 0x10000;
	rig->told = 0;
	assert_int_equal(set_memory(&desc), 0);
	assert_false(virtq_active(vq));
	assert_int_equal(rig->told, 1);
	desc = memory_desc();
	assert_int_equal(set_memory(&desc), 0);
	assert_true(vq->running);
	assert_int_equal(rig->told, 2);
	assert_int_equal(vq->avail_next, 5);
	assert_int_equal(device_set_memory(&rig->dev, NULL, 0, &rig->err), 0);
	assert_false(virtq_active(vq));
}

static void regions_are_added_and_removed_one_by_one(void **state)
{
	struct guest_region_desc desc = memory_desc();
	struct guest_mapping *mapping;
	unsigned before = memory_mappings();
	struct virtq *vq;

	start_ring(1, MODERN);
	vq = &rig->dev.ring[1]->vq;
	for (unsigned i = 1; i <= GUEST_REGIONS_MAX; i++) {
		desc.gpa += MEMORY_SIZE;
		desc.uva += 2 * MEMORY_SIZE;
		mapping = map(&desc);
		assert_int_equal(device_add_region(&rig->dev, mapping, &rig->err),
				 i < GUEST_REGIONS_MAX ? 0 : -ENOSPC);
		guest_mapping_put(mapping);
		assert_true(vq->running);
	}
	assert_int_equal(memory_mappings(), before + GUEST_REGIONS_MAX);
	assert_int_equal(device_del_region(&rig->dev, &desc, &rig->err), -ENOENT);
	desc = memory_desc();
	desc.uva += 4096;
	assert_int_equal(device_del_region(&rig->dev, &desc, &rig->err), -ENOENT);
	desc = memory_desc();
	desc.size -= 4096;
	assert_int_equal(device_del_region(&rig->dev, &desc, &rig->err), -ENOENT);
	desc = memory_desc();
	desc.offset = 4096; /* not looked at */
	assert_int_equal(device_del_region(&rig->dev, &desc, &rig->err), 0);
	assert_false(virtq_active(vq));
	assert_int_equal(memory_mappings(), before + GUEST_REGIONS_MAX - 1);
	/* One that overlaps: the table stays as it was. */
	desc = memory_desc();
	desc.gpa += MEMORY_SIZE + 0x1000;
	mapping = map(&desc);
	assert_int_equal(device_add_region(&rig->dev, mapping, &rig->err), -EEXIST);
	guest_mapping_put(mapping);
	assert_int_equal(rig->dev.mem->n, GUEST_REGIONS_MAX - 1);
	desc = memory_desc();
	mapping = map(&desc);
	assert_int_equal(device_add_region(&rig->dev, mapping, &rig->err), 0);
	guest_mapping_put(mapping);
	assert_true(vq->running);
}

static void a_replaced_kick_is_announced_before_it_is_closed(void **state)
{
	start_ring(1, MODERN);
	assert_int_equal(rig->watched, rig->dev.ring[1]->kick);
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(kick(1), 0);
		assert_int_equal(rig->watched, rig->dev.ring[1]->kick);
	}
	/* Without one the ring runs all the same. */
	assert_int_equal(device_set_kick(&rig->dev, 1, -1, &rig->err), 0);
	assert_int_equal(rig->watched, -1);
	assert_true(rig->dev.ring[1]->vq.running);
	assert_int_equal(kick(1), 0);
	device_reset(&rig->dev);
	assert_int_equal(rig->watched, -1);
	assert_false(rig->closed_first);
}

static void a_new_call_of_a_running_ring_is_announced(void **state)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	start_ring(1, MODERN);
	rig->told = 0;
	assert_int_equal(device_set_call(&rig->dev, 1, fd, &rig->err), 0);
	assert_int_equal(rig->told, 1);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_int_equal(device_set_call(&rig->dev, 3, -1, &rig->err), 0);
	assert_int_equal(rig->told, 1);
}

static void kick_call_and_err_must_be_eventfds(void **state)
{
	int pipes[2], fds[4];
	unsigned before;

	assert_int_equal(pipe(pipes), 0);
	fds[0] = pipes[0];
	fds[1] = pipes[1];
	fds[2] = rig->mem_fd;
	fds[3] = open("/dev/null", O_RDWR);
	before = open_fds();
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(device_set_kick(&rig->dev, 1, fds[i], &rig->err), -EBADF);
		assert_int_equal(device_set_call(&rig->dev, 1, fds[i], &rig->err), -EBADF);
		assert_int_equal(device_set_err(&rig->dev, 1, fds[i], &rig->err), -EBADF);
	}
	assert_int_equal(open_fds(), before); /* they stay the caller's */
	assert_int_equal(rig->dev.rings, 0);
	assert_int_equal(device_set_err(&rig->dev, 1, eventfd(0, 0), &rig->err), 0);
	assert_int_equal(open_fds(), before);
	close(pipes[0]);
	close(pipes[1]);
	close(fds[3]);
}

/* CVE-2020-10723: narrowed to 16 bits before it was checked. */
static void ring_numbers_beyond_the_last_are_refused(void **state)
{
	static const unsigned bad[] = { 256,	 257,	     0xffff,	 0x10000,
					0x10001, 0x80000000, 0xffffff01, UINT32_MAX };
	struct vhost_ring_addr addr = ring_addr(0);
	struct vhost_device *dev = &rig->dev;
	uint32_t base = 5;

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(device_set_size(dev, bad[i], 16, &rig->err), -EINVAL);
		assert_int_equal(device_set_base(dev, bad[i], 0, &rig->err), -EINVAL);
		assert_int_equal(device_set_addr(dev, bad[i], &addr, &rig->err), -EINVAL);
		assert_int_equal(device_get_base(dev, bad[i], &base, &rig->err), -EINVAL);
		assert_int_equal(device_set_kick(dev, bad[i], -1, &rig->err), -EINVAL);
		assert_int_equal(device_set_call(dev, bad[i], -1, &rig->err), -EINVAL);
		assert_int_equal(device_set_err(dev, bad[i], -1, &rig->err), -EINVAL);
		assert_int_equal(device_set_enabled(dev, bad[i], true, &rig->err), -EINVAL);
	}
	assert_int_equal(base, 5);
	assert_int_equal(dev->rings, 0);
}

static void sizes_and_bases_out_of_range_are_refused(void **state)
{
	static const uint32_t bad[] = {
		0, 3, 255, 257, 32767, 32769, 65536, 0x80000000, UINT32_MAX
	};

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(device_set_size(&rig->dev, 1, bad[i], &rig->err), -EINVAL);
	for (uint32_t size = 1; size <= 32768; size *= 2)
		assert_int_equal(device_set_size(&rig->dev, 1, size, &rig->err), 0);
	assert_int_equal(device_set_base(&rig->dev, 1, 65536, &rig->err), -EINVAL);
	assert_int_equal(device_set_base(&rig->dev, 1, 65535, &rig->err), 0);
}

static void rings_must_lie_aligned_in_one_region(void **state)
{
	static const struct {
		int64_t desc, avail, used;
		int result;
	} rows[] = {
		{ 0, 0, 0, 0 },
		{ 8, 0, 0, -EINVAL },
		{ 0, 1, 0, -EINVAL },
		{ 0, 0, 2, -EINVAL },
		{ 0, -0x402, 0, -EFAULT },			      /* just before the region */
		{ MEMORY_SIZE - 16 * RING_SIZE, 0, 0, 0 },	      /* just within */
		{ MEMORY_SIZE - 16 * RING_SIZE + 16, 0, 0, -EFAULT }, /* into the next */
		{ 0, 0, MEMORY_SIZE - 0x800 - 8 * RING_SIZE - 8, 0 },
		{ 0, 0, MEMORY_SIZE - 0x800 - 8 * RING_SIZE - 4, -EFAULT }, /* its last field */
		{ -0x10000, 0, 0, -EFAULT },
		{ 0, 0, INT64_MIN, -EFAULT },
		{ -(int64_t)MEMORY_UVA - 16, 0, 0, -EFAULT }, /* wraps around */
	};
	struct guest_region_desc desc = memory_desc();
	struct guest_mapping *next;

	start_ring(1, MODERN);
	take(MEMORY, 0, 0, 0);
	/* The adjacent region is adjacent in the guest only. */
	desc.gpa += MEMORY_SIZE;
	desc.uva += MEMORY_SIZE;
	next = map(&desc);
	assert_int_equal(device_add_region(&rig->dev, next, &rig->err), 0);
	guest_mapping_put(next);
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct vhost_ring_addr addr = ring_addr(0);

		addr.desc += (uint64_t)rows[i].desc;
		addr.avail += (uint64_t)rows[i].avail;
		addr.used += (uint64_t)rows[i].used;
		assert_int_equal(device_set_addr(&rig->dev, 1, &addr, &rig->err), rows[i].result);
		assert_true(rig->dev.ring[1]->vq.running); /* a refused address changes nothing */
	}
}

static void user_addresses_cannot_hide_that_a_ring_is_unaligned(void **state)
{
	static const unsigned off[] = { 1, 2, 8 };

	for (enum step step = FEATURES; step <= ENABLE; step++) {
		if (step != MEMORY)
			take(step, 1, MODERN, 0);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(off); i++) {
		struct guest_region_desc desc = memory_desc();

		desc.uva -= off[i];
		assert_int_equal(set_memory(&desc), 0);
		assert_false(virtq_active(&rig->dev.ring[1]->vq));
		assert_int_equal(set_addr(1), -EFAULT);
	}
}

static void disabled_before_the_first_enable_it_rests_later_it_drains(void **state)
{
	struct vhost_ring *ring;

	for (enum step step = FEATURES; step <= KICK; step++)
		take(step, 1, MODERN, 0);
	ring = rig->dev.ring[1];
	ring_post(rig->base, 1, 3);
	collect_all(&ring->vq);
	assert_int_equal(ring->vq.avail_next, 0);
	take(ENABLE, 1, 0, 0);
	collect_all(&ring->vq);
	assert_int_equal(ring->vq.avail_next, 3);
	assert_int_equal(device_set_enabled(&rig->dev, 1, false, &rig->err), 0);
	ring_post(rig->base, 1, 2);
	collect_all(&ring->vq);
	assert_int_equal(ring->vq.avail_next, 5);
	assert_int_equal(ring->vq.stats.dropped[DROP_QUEUE_DISABLED], 2);
	assert_int_equal(device_pairs_up(&rig->dev), 0);
}

static void the_smaller_mtu_counts_and_reaches_running_rings(void **state)
{
	struct virtq *vq;

	start_ring(0, MODERN);
	vq = &rig->dev.ring[0]->vq;
	assert_int_equal(vq->mtu, 0);
	assert_int_equal(device_set_front_mtu(&rig->dev, 9000, &rig->err), 0);
	assert_int_equal(vq->mtu, 9000);
	device_set_mtu(&rig->dev, 1500);
	assert_int_equal(vq->mtu, 1500);
	assert_int_equal(device_set_front_mtu(&rig->dev, 1400, &rig->err), 0);
	assert_int_equal(vq->mtu, 1400);
	assert_int_equal(device_set_front_mtu(&rig->dev, 67, &rig->err), -EINVAL);
	assert_int_equal(device_set_front_mtu(&rig->dev, 65536, &rig->err), -EINVAL);
	assert_int_equal(device_set_front_mtu(&rig->dev, UINT64_MAX, &rig->err), -EINVAL);
	device_reset(&rig->dev);
	assert_int_equal(device_mtu(&rig->dev), 1500);
}

static void a_reset_leaves_no_descriptor_no_mapping_and_no_agreement(void **state)
{
	unsigned fds = open_fds_settled(), mappings = memory_mappings();

	for (unsigned i = 0; i < 1000; i++) {
		unsigned index = i % VHOST_RINGS_MAX;

		start_ring(index, MODERN);
		assert_int_equal(device_set_call(&rig->dev, index, eventfd(0, EFD_CLOEXEC),
						 &rig->err),
				 0);
		device_reset(&rig->dev);
	}
	assert_int_equal(open_fds_settled(), fds);
	assert_int_equal(memory_mappings(), mappings);
	assert_int_equal(rig->dev.features, 0);
	assert_false(rig->dev.agreed);
	assert_null(rig->dev.mem);
	assert_int_equal(rig->dev.ring[0]->size, 0);
	assert_false(rig->dev.ring[0]->enabled);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(a_ring_runs_after_all_its_messages_in_whatever_order),
		T(without_protocol_features_rings_are_enabled_from_the_start),
		T(a_base_that_cannot_be_right_is_replaced_by_the_used_index),
		T(odd_rings_and_later_pairs_may_come_first),
		T(get_base_stops_the_ring_and_tells_what_was_consumed),
		T(a_new_driver_begins_at_zero_over_a_zeroed_ring),
		T(features_are_taken_over_each_time_by_running_rings_too),
		T(refused_features_are_named_and_keep_rings_from_starting),
		T(features_ok_does_not_stick_after_a_refusal),
		T(status_zero_stops_rings_and_keeps_memory),
		T(a_new_table_moves_running_rings_and_frees_the_old),
		T(a_ring_outside_the_new_table_stops_and_later_goes_on),
		T(regions_are_added_and_removed_one_by_one),
		T(a_replaced_kick_is_announced_before_it_is_closed),
		T(a_new_call_of_a_running_ring_is_announced),
		T(kick_call_and_err_must_be_eventfds),
		T(ring_numbers_beyond_the_last_are_refused),
		T(sizes_and_bases_out_of_range_are_refused),
		T(rings_must_lie_aligned_in_one_region),
		T(user_addresses_cannot_hide_that_a_ring_is_unaligned),
		T(disabled_before_the_first_enable_it_rests_later_it_drains),
		T(the_smaller_mtu_counts_and_reaches_running_rings),
		T(a_reset_leaves_no_descriptor_no_mapping_and_no_agreement),
#undef T
	};

	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
