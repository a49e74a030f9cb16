// SPDX-License-Identifier: Apache-2.0
/* The device without a socket: features, options, status, and memory changing under rings. */
#include "at_once.h"
#include "device_rig.h"

#include <errno.h>

/* Clauses: ring-states-i */
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
	assert_int_equal(vq->state, VIRTQ_RUNNING);
	assert_int_equal(device_set_features(&rig->dev, PROTOCOL, &rig->err), 0);
	assert_int_equal(vq->hdr_len, 10);
}

static void refused_features_are_named_and_keep_rings_from_starting(void **state)
{
	uint64_t excess = MODERN | BIT(VIRTIO_F_ACCESS_PLATFORM) | BIT(63);

	assert_int_equal(device_set_features(&rig->dev, excess, &rig->err), -ENOTSUP);
	assert_non_null(strstr(rig->err.text, "access_platform,bit63"));
	assert_false(rig->dev.agreed);
	start_ring(3, MODERN);
	assert_int_equal(device_set_features(&rig->dev, excess, &rig->err), -ENOTSUP);
	assert_int_equal(rig->dev.ring[3]->vq.state,
			 VIRTQ_RUNNING); /* with what it was started with */
	assert_int_equal(rig->dev.features, MODERN);
	for (enum step step = MEMORY; step <= ENABLE; step++)
		take(step, 1, 0, 0);
	assert_false(virtq_active(virtq_state(&rig->dev.ring[1]->vq)));
	assert_int_equal(device_set_features(&rig->dev, MODERN, &rig->err), 0);
	assert_int_equal(rig->dev.ring[1]->vq.state, VIRTQ_RUNNING);
}

/* Clauses: 2.2.2c */
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

/* Clauses: 2.4.1a */
static void status_zero_stops_rings_and_keeps_memory(void **state)
{
	start_ring(0, MODERN);
	start_ring(1, MODERN);
	assert_int_equal(device_set_status(&rig->dev, 0, &rig->err), 0);
	assert_false(virtq_active(virtq_state(&rig->dev.ring[0]->vq)));
	assert_false(virtq_active(virtq_state(&rig->dev.ring[1]->vq)));
	assert_non_null(rig->dev.mem);
	for (enum step step = SIZE; step <= KICK; step++)
		take(step, 1, 0, 0);
	assert_int_equal(rig->dev.ring[1]->vq.state, VIRTQ_RUNNING);
}

/* A front-end that adds a bit to the status it was told, as QEMU does. */
/* Clauses: 2.1.2b */
static void a_broken_ring_needs_a_reset_and_says_so_until_there_was_one(void **state)
{
	const uint8_t ok = VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER;
	struct vring_avail *avail = memory_at(rig->base, ring_addr(1).avail);
	uint32_t base;

	start_ring(1, MODERN);
	assert_int_equal(device_set_status(&rig->dev, ok, &rig->err), 0);
	assert_int_equal(device_status(&rig->dev), ok);
	avail->idx = RING_SIZE + 1;
	collect_all(&rig->dev.ring[1]->vq);
	assert_int_equal(device_status(&rig->dev), ok | VIRTIO_CONFIG_S_NEEDS_RESET);
	assert_int_equal(device_set_status(&rig->dev,
					   device_status(&rig->dev) | VIRTIO_CONFIG_S_DRIVER_OK,
					   &rig->err),
			 0);
	assert_int_equal(device_status(&rig->dev),
			 ok | VIRTIO_CONFIG_S_DRIVER_OK | VIRTIO_CONFIG_S_NEEDS_RESET);
	assert_int_equal(device_set_status(&rig->dev, 0, &rig->err), 0);
	assert_int_equal(device_status(&rig->dev), 0);
	/* To stop the ring is enough as well. */
	for (enum step step = SIZE; step <= KICK; step++)
		take(step, 1, 0, 0);
	collect_all(&rig->dev.ring[1]->vq);
	assert_int_equal(device_status(&rig->dev), VIRTIO_CONFIG_S_NEEDS_RESET);
	assert_int_equal(device_set_status(&rig->dev, device_status(&rig->dev) | ok, &rig->err), 0);
	assert_int_equal(device_get_base(&rig->dev, 1, &base, &rig->err), 0);
	assert_int_equal(device_status(&rig->dev), ok);
}

/* Clauses: ring-states-i, memory-a */
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
		assert_int_equal(vq->state, VIRTQ_RUNNING);
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
	assert_false(virtq_active(virtq_state(vq)));
	assert_int_equal(rig->told, 1);
	desc = memory_desc();
	assert_int_equal(set_memory(&desc), 0);
	assert_int_equal(vq->state, VIRTQ_RUNNING);
	assert_int_equal(rig->told, 2);
	assert_int_equal(vq->avail_next, 5);
	assert_int_equal(device_set_memory(&rig->dev, NULL, 0, &rig->err), 0);
	assert_false(virtq_active(virtq_state(vq)));
}

/* A limit that is lowered under a guest takes nothing away from it, and lets it have no more. */
static void what_a_guest_has_beyond_the_limit_may_shrink(void **state)
{
	const uint64_t gib = 1ull << 30, sizes[] = { 3 * gib, 3 * gib, 2 * gib, 3 * gib, gib };
	const int expected[] = { 0, 0, 0, -EDQUOT, 0 };
	struct vhost_device_options options = rig->dev.options;

	assert_int_equal(ftruncate(rig->mem_fd, (off_t)(3 * gib)), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct guest_region_desc desc = memory_desc();

		desc.size = sizes[i];
		assert_int_equal(set_memory(&desc), expected[i]);
		options.memory_max_gib = 1;
		device_set_options(&rig->dev, &options);
	}
	assert_int_equal(device_memory(&rig->dev), gib);
}

/* Clauses: mem-reg-a */
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
		assert_int_equal(vq->state, VIRTQ_RUNNING);
	}
	/* What is not there need not be removed. */
	assert_int_equal(device_del_region(&rig->dev, &desc, &rig->err), 0);
	desc = memory_desc();
	desc.uva += 4096;
	assert_int_equal(device_del_region(&rig->dev, &desc, &rig->err), 0);
	desc = memory_desc();
	desc.size -= 4096;
	assert_int_equal(device_del_region(&rig->dev, &desc, &rig->err), 0);
	assert_int_equal(memory_mappings(), before + GUEST_REGIONS_MAX);
	assert_int_equal(vq->state, VIRTQ_RUNNING);
	desc = memory_desc();
	desc.offset = 4096; /* not looked at */
	assert_int_equal(device_del_region(&rig->dev, &desc, &rig->err), 0);
	assert_false(virtq_active(virtq_state(vq)));
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
	assert_int_equal(vq->state, VIRTQ_RUNNING);
}

/* A front-end may say it once for each queue pair, as QEMU 7.2 does. */
static void a_region_that_is_there_is_added_again_without_harm(void **state)
{
	struct guest_region_desc desc = memory_desc();
	unsigned before = memory_mappings();
	struct virtq *vq;

	start_ring(1, MODERN);
	vq = &rig->dev.ring[1]->vq;
	ring_post(rig->base, 1, 5);
	for (unsigned i = 0; i <= GUEST_REGIONS_MAX; i++) {
		struct guest_mapping *mapping = map(&desc);

		assert_int_equal(device_add_region(&rig->dev, mapping, &rig->err), 0);
		guest_mapping_put(mapping);
		assert_int_equal(vq->state, VIRTQ_RUNNING);
	}
	assert_int_equal(rig->dev.mem->n, 1);
	assert_int_equal(memory_mappings(), before + 1);
	collect_all(vq);
	assert_int_equal(vq->avail_next, 5);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(device_del_region(&rig->dev, &desc, &rig->err), 0);
	assert_int_equal(rig->dev.mem->n, 0);
	assert_false(virtq_active(virtq_state(vq)));
}

/* The front-end has told its guest what there is, and a driver may negotiate at any time. */
static void what_a_session_was_offered_stays_on_offer_in_it(void **state)
{
	struct vhost_device_options options = rig->dev.options;
	const uint64_t with = MODERN | BIT(VIRTIO_NET_F_CSUM);

	assert_true(device_offer(&rig->dev) & BIT(VIRTIO_NET_F_CSUM));
	options.offered &= ~BIT(VIRTIO_NET_F_CSUM);
	device_set_options(&rig->dev, &options);
	assert_false(device_offer(&rig->dev) & BIT(VIRTIO_NET_F_CSUM));
	assert_int_equal(device_set_features(&rig->dev, with, &rig->err), 0);
	device_reset(&rig->dev);
	assert_false(device_offer(&rig->dev) & BIT(VIRTIO_NET_F_CSUM));
	assert_int_equal(device_set_features(&rig->dev, with, &rig->err), -ENOTSUP);
	assert_int_equal(device_set_features(&rig->dev, MODERN, &rig->err), 0);
}

static void finish_csum_hides_guest_csum_from_running_rings_and_later_ones(void **state)
{
	struct vhost_device_options options = rig->dev.options;
	const uint64_t with = MODERN | BIT(VIRTIO_NET_F_GUEST_CSUM);
	struct virtq *vq;

	start_ring(0, with);
	vq = &rig->dev.ring[0]->vq;
	options.finish_csum = true;
	device_set_options(&rig->dev, &options);
	assert_int_equal(vq->state, VIRTQ_RUNNING);
	assert_int_equal(vq->features, MODERN);
	assert_int_equal(rig->dev.features, with);
	take(FEATURES, 0, with, 0);
	assert_int_equal(vq->features, MODERN);
	options.finish_csum = false;
	device_set_options(&rig->dev, &options);
	assert_int_equal(vq->features, with);
}

static void limit_mtu(uint16_t mtu)
{
	struct vhost_device_options options = rig->dev.options;

	options.mtu = mtu;
	device_set_options(&rig->dev, &options);
}

/* Clauses: net-mtu-a */
/* Features: mtu */
static void the_smaller_mtu_counts_and_reaches_running_rings(void **state)
{
	struct virtq *vq;

	start_ring(0, MODERN);
	vq = &rig->dev.ring[0]->vq;
	assert_int_equal(vq->mtu, 0);
	assert_int_equal(device_set_front_mtu(&rig->dev, 9000, &rig->err), 0);
	assert_int_equal(vq->mtu, 9000);
	limit_mtu(1500);
	assert_int_equal(vq->mtu, 1500);
	assert_int_equal(device_set_front_mtu(&rig->dev, 1400, &rig->err), 0);
	assert_int_equal(vq->mtu, 1400);
	assert_int_equal(device_set_front_mtu(&rig->dev, 67, &rig->err), -EINVAL);
	assert_int_equal(device_set_front_mtu(&rig->dev, 65536, &rig->err), -EINVAL);
	assert_int_equal(device_set_front_mtu(&rig->dev, UINT64_MAX, &rig->err), -EINVAL);
	limit_mtu(0);
	assert_int_equal(vq->mtu, 1400);
	limit_mtu(1500);
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
		T(features_are_taken_over_each_time_by_running_rings_too),
		T(refused_features_are_named_and_keep_rings_from_starting),
		T(features_ok_does_not_stick_after_a_refusal),
		T(status_zero_stops_rings_and_keeps_memory),
		T(a_broken_ring_needs_a_reset_and_says_so_until_there_was_one),
		T(a_new_table_moves_running_rings_and_frees_the_old),
		T(a_ring_outside_the_new_table_stops_and_later_goes_on),
		T(what_a_guest_has_beyond_the_limit_may_shrink),
		T(regions_are_added_and_removed_one_by_one),
		T(a_region_that_is_there_is_added_again_without_harm),
		T(what_a_session_was_offered_stays_on_offer_in_it),
		T(finish_csum_hides_guest_csum_from_running_rings_and_later_ones),
		T(the_smaller_mtu_counts_and_reaches_running_rings),
		T(a_reset_leaves_no_descriptor_no_mapping_and_no_agreement),
#undef T
	};

	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
