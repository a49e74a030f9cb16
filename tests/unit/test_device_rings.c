// SPDX-License-Identifier: Apache-2.0
/* The rings of a device without a socket: orders of messages, and what is refused. */
#include "device_rig.h"

#include <errno.h>
#include <fcntl.h>

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
				assert_false(ring && ring->vq.state == VIRTQ_RUNNING);
		}
		assert_int_equal(rig->dev.ring[1]->vq.state, VIRTQ_RUNNING);
		assert_int_equal(rig->dev.ring[1]->vq.avail_next, 7);
		device_reset(&rig->dev);
		assert_int_not_equal(rig->dev.ring[1]->vq.state, VIRTQ_RUNNING);
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
/* Clauses: ring-states-g */
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
	assert_int_not_equal(virtq_state(&rig->dev.ring[1]->vq), VIRTQ_BROKEN);
}

/* The buffers before the wrap would never be used. */
static void a_base_of_0_is_not_believed_before_a_wrap(void **state)
{
	ring_at(rig->base, 1, 65534);
	ring_post(rig->base, 1, 5);
	start_ring(1, MODERN);
	assert_int_equal(rig->dev.ring[1]->vq.avail_next, 65534);
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

/* Clauses: ring-states-f, vring-base-c */
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
	assert_false(virtq_active(virtq_state(&ring->vq)));
	assert_int_equal(ring->kick, -1);

	assert_int_equal(device_set_base(&rig->dev, 1, base, &rig->err), 0);
	assert_false(virtq_active(virtq_state(&ring->vq)));
	assert_int_equal(kick(1), 0);
	assert_int_equal(ring->vq.state, VIRTQ_RUNNING);
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
	assert_false(virtq_active(virtq_state(&ring->vq)));
	for (enum step step = BASE; step <= KICK; step++)
		take(step, 1, 0, 0);
	assert_int_equal(ring->vq.state, VIRTQ_RUNNING);
	assert_int_equal(ring->vq.avail_next, 0);
	assert_int_equal(ring->vq.used_next, 0);
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
	assert_int_equal(rig->dev.ring[1]->vq.state, VIRTQ_RUNNING);
	assert_int_equal(kick(1), 0);
	device_reset(&rig->dev);
	assert_int_equal(rig->watched, -1);
	assert_false(rig->closed_first);
}

/* Clauses: ring-states-i */
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

/* Once each, whoever stopped it, also without a kick descriptor that would have to go. */
static void whatever_stops_a_ring_is_announced(void **state)
{
	struct vhost_device *dev = &rig->dev;
	uint32_t base;

	for (unsigned by = 0; by < 5; by++) {
		start_ring(1, MODERN);
		assert_int_equal(device_set_kick(dev, 1, -1, &rig->err), 0);
		assert_int_equal(rig->state, VIRTQ_RUNNING);
		rig->told = 0;
		if (by == 0) {
			/* Nothing may start until the next SET_FEATURES. */
			assert_int_equal(device_set_features(dev, BIT(63), &rig->err), -ENOTSUP);
			assert_int_equal(rig->told, 0);
			take(BASE, 1, 0, 0);
		} else if (by == 1) {
			take(SIZE, 1, 0, 0);
		} else if (by == 2) {
			assert_int_equal(device_get_base(dev, 1, &base, &rig->err), 0);
		} else if (by == 3) {
			assert_int_equal(device_set_status(dev, 0, &rig->err), 0);
		} else {
			dev->ring[1]->vq.state = VIRTQ_BROKEN; /* as a worker leaves it */
			device_reset(dev);
		}
		assert_int_equal(virtq_state(&dev->ring[1]->vq), VIRTQ_STOPPED);
		assert_int_equal(rig->state, VIRTQ_STOPPED);
		assert_int_equal(rig->told, 1);
		device_reset(dev);
		assert_int_equal(rig->told, 1);
	}
}

/* Its worker believes that kicks are on. */
static void a_ring_that_begins_anew_is_announced_though_it_ran_before(void **state)
{
	start_ring(1, MODERN);
	rig->told = 0;
	take(BASE, 1, 0, 0);
	assert_int_equal(rig->state, VIRTQ_RUNNING);
	assert_int_equal(rig->told, 1);
	take(MEMORY, 0, 0, 0);
	assert_int_equal(rig->told, 2);
	take(ENABLE, 1, 0, 0);
	assert_int_equal(rig->told, 2);
}

/* Clauses: communication-b */
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
/* Clauses: vring-index-a */
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

/* Clauses: vring-num-a */
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

/* Its driver uses another size than the ring had before: it must not go on with that. */
static void a_ring_larger_than_the_owner_allows_rests_until_it_is_smaller(void **state)
{
	struct vhost_device_options options = rig->dev.options;
	struct vhost_ring *ring;

	start_ring(1, MODERN);
	ring = rig->dev.ring[1];
	options.size_max = RING_SIZE;
	device_set_options(&rig->dev, &options);
	assert_int_equal(ring->vq.state, VIRTQ_RUNNING);
	assert_int_equal(device_set_size(&rig->dev, 1, 2 * RING_SIZE, &rig->err), -EFBIG);
	assert_non_null(strstr(rig->err.text, "size 32 is more than queue-size-max=16"));
	assert_int_equal(ring->refused_size, 2 * RING_SIZE);
	assert_int_equal(kick(1), 0);
	assert_false(virtq_active(virtq_state(&ring->vq)));
	assert_int_equal(device_set_size(&rig->dev, 1, RING_SIZE, &rig->err), 0);
	assert_int_equal(ring->refused_size, 0);
	assert_int_equal(ring->vq.state, VIRTQ_RUNNING);
}

/* Clauses: vring-addr-a */
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
		{ 0, -0x402, 0, -EINVAL },			      /* just before the region */
		{ MEMORY_SIZE - 16 * RING_SIZE, 0, 0, 0 },	      /* just within */
		{ MEMORY_SIZE - 16 * RING_SIZE + 16, 0, 0, -EINVAL }, /* into the next */
		{ 0, 0, MEMORY_SIZE - 0x800 - 8 * RING_SIZE - 8, 0 },
		{ 0, 0, MEMORY_SIZE - 0x800 - 8 * RING_SIZE - 4, -EINVAL }, /* its last field */
		{ -0x10000, 0, 0, -EINVAL },
		{ 0, 0, INT64_MIN, -EINVAL },
		{ -(int64_t)MEMORY_UVA - 16, 0, 0, -EINVAL }, /* wraps around */
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
		assert_int_equal(rig->dev.ring[1]->vq.state,
				 VIRTQ_RUNNING); /* a refused address changes nothing */
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
		assert_false(virtq_active(virtq_state(&rig->dev.ring[1]->vq)));
		assert_int_equal(set_addr(1), -EINVAL);
	}
}

/* The part that is in another region than the rest, too. */
static void no_part_of_a_ring_is_unaligned(void **state)
{
	struct vhost_ring_addr addr = ring_addr(1);
	struct guest_region_desc desc = memory_desc();
	struct guest_mapping *mapping;

	start_ring(1, MODERN);
	desc.gpa += MEMORY_SIZE;
	desc.uva += 4 * MEMORY_SIZE - 2;
	mapping = map(&desc);
	assert_int_equal(device_add_region(&rig->dev, mapping, &rig->err), 0);
	guest_mapping_put(mapping);
	addr.used += 4 * MEMORY_SIZE;
	assert_int_equal(device_set_addr(&rig->dev, 1, &addr, &rig->err), -EINVAL);
	assert_int_equal(rig->dev.ring[1]->vq.state, VIRTQ_RUNNING); /* where it was */
}

static void a_ring_runs_as_it_was_set_up_and_not_otherwise(void **state)
{
	struct virtq_setup was, is;
	struct virtq *vq;

	start_ring(1, MODERN);
	vq = &rig->dev.ring[1]->vq;
	was = (struct virtq_setup){ vq->mem, vq->addr, vq->size, 0, vq->features, vq->mtu };
	assert_true(virtq_runs_as(vq, &was));
#define OTHER(field, value) \
	is = was;           \
	is.field = value;   \
	assert_false(virtq_runs_as(vq, &is))
	OTHER(mem, NULL);
	OTHER(addr.used, was.addr.used + 4);
	OTHER(size, 2 * was.size);
	OTHER(features, 0);
	OTHER(mtu, 1500);
#undef OTHER
	is = was;
	is.base = 7; /* which is where it was begun, not how */
	assert_true(virtq_runs_as(vq, &is));
}

/* Clauses: ring-states-b, ring-states-d, ring-states-h */
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

/* Off by flag, or by an index that stands still; what came meanwhile is seen when they are on. */
static void kicks_are_off_until_they_are_asked_for(void **state)
{
	const struct vring_used *used = memory_at(rig->base, ring_addr(1).used);
	const uint16_t *event = (const uint16_t *)&used->ring[RING_SIZE];

	for (unsigned by_index = 0; by_index < 2; by_index++) {
		const uint16_t flag = by_index ? 0 : VRING_USED_F_NO_NOTIFY;
		uint64_t features = MODERN & ~BIT(VIRTIO_RING_F_EVENT_IDX);
		struct virtq *vq;

		ring_at(rig->base, 1, 0);
		start_ring(1, features | (by_index ? BIT(VIRTIO_RING_F_EVENT_IDX) : 0));
		vq = &rig->dev.ring[1]->vq;
		assert_int_equal(used->flags, flag);
		ring_post(rig->base, 1, 2);
		collect_all(vq);
		assert_int_equal(used->flags, flag);
		assert_int_equal(*event, 0);
		assert_false(virtq_kicks_on(vq));
		assert_int_equal(used->flags, 0);
		assert_int_equal(*event, by_index ? 2 : 0);
		virtq_kicks_off(vq);
		assert_int_equal(used->flags, flag);
		ring_post(rig->base, 1, 3);
		assert_int_equal(*event, by_index ? 2 : 0);
		assert_true(virtq_kicks_on(vq));
		collect_all(vq);
		device_reset(&rig->dev);
	}
}

/* Tables of nothing, one of which is nearly all that is walked for a batch: each has its own. */
static void long_chains_share_what_a_batch_may_walk(void **state)
{
	const unsigned links = 2000, table = MEMORY_SIZE / 2;
	struct batch *b = aligned_alloc(CACHE_LINE, sizeof(*b));
	struct virtq_calls calls = { 0 };
	struct vring_desc *desc = (struct vring_desc *)(rig->base + table);
	struct vring_avail *avail;
	struct virtq *vq;
	unsigned batches = 0;

	start_ring(1, MODERN | BIT(VIRTIO_RING_F_INDIRECT_DESC));
	vq = &rig->dev.ring[1]->vq;
	for (unsigned i = 0; i < links; i++)
		desc[i] = (struct vring_desc){ .addr = MEMORY_GPA,
					       .flags = i + 1 < links ? VRING_DESC_F_NEXT : 0,
					       .next = (uint16_t)(i + 1) };
	desc = (struct vring_desc *)vq->addr.desc;
	avail = (struct vring_avail *)vq->addr.avail;
	for (unsigned i = 0; i < RING_SIZE; i++) {
		desc[i] = (struct vring_desc){ .addr = MEMORY_GPA + table,
					       .len = links * sizeof(*desc),
					       .flags = VRING_DESC_F_INDIRECT };
		avail->ring[i] = (uint16_t)i;
	}
	avail->idx = RING_SIZE;
	while (virtq_collect(vq, b)) {
		virtq_complete(vq, b, &calls); /* first: it lets go of the lock */
		assert_int_equal(b->chains, 1);
		batches++;
	}
	assert_int_equal(batches, RING_SIZE);
	assert_int_equal(vq->stats.dropped[DROP_HEADER_SHORT], RING_SIZE);
	vq->call_pending = false;
	free(b);
}

/* A sender of large frames has one at a time, or its neighbours would wait for several. */
static void a_turn_is_so_many_bytes(void **state)
{
	static const struct {
		uint32_t len;
		unsigned frames;
	} rows[] = { { 1514, RING_SIZE }, { 9014, 6 }, { 40000, 2 }, { 65214, 1 } };
	struct batch *b = aligned_alloc(CACHE_LINE, sizeof(*b));
	struct virtq_calls calls = { 0 };
	struct vring_desc *desc = memory_at(rig->base, ring_addr(1).desc);
	struct virtq *vq;

	start_ring(1, MODERN);
	vq = &rig->dev.ring[1]->vq;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		ring_post(rig->base, 1, RING_SIZE);
		for (unsigned k = 0; k < RING_SIZE; k++)
			desc[k].len = rows[i].len + VNET_HDR_LEN;
		for (unsigned left = RING_SIZE; left; left -= b->n) {
			assert_true(virtq_collect(vq, b));
			virtq_complete(vq, b, &calls);
			assert_int_equal(b->n, MIN(rows[i].frames, left));
		}
	}
	vq->call_pending = false;
	free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(a_ring_runs_after_all_its_messages_in_whatever_order),
		T(without_protocol_features_rings_are_enabled_from_the_start),
		T(a_base_that_cannot_be_right_is_replaced_by_the_used_index),
		T(a_base_of_0_is_not_believed_before_a_wrap),
		T(odd_rings_and_later_pairs_may_come_first),
		T(get_base_stops_the_ring_and_tells_what_was_consumed),
		T(a_new_driver_begins_at_zero_over_a_zeroed_ring),
		T(a_replaced_kick_is_announced_before_it_is_closed),
		T(a_new_call_of_a_running_ring_is_announced),
		T(whatever_stops_a_ring_is_announced),
		T(a_ring_that_begins_anew_is_announced_though_it_ran_before),
		T(kick_call_and_err_must_be_eventfds),
		T(ring_numbers_beyond_the_last_are_refused),
		T(sizes_and_bases_out_of_range_are_refused),
		T(a_ring_larger_than_the_owner_allows_rests_until_it_is_smaller),
		T(rings_must_lie_aligned_in_one_region),
		T(user_addresses_cannot_hide_that_a_ring_is_unaligned),
		T(no_part_of_a_ring_is_unaligned),
		T(a_ring_runs_as_it_was_set_up_and_not_otherwise),
		T(disabled_before_the_first_enable_it_rests_later_it_drains),
		T(kicks_are_off_until_they_are_asked_for),
		T(long_chains_share_what_a_batch_may_walk),
		T(a_turn_is_so_many_bytes),
#undef T
	};

	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
