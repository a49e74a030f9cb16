// SPDX-License-Identifier: Apache-2.0
/* Rings of every size, chains of every shape, every feature: frames pass whole and in order. */
#include "harness.h"

#include <string.h>

static void run_between(struct rig *rig, const struct driver_config *config,
			const struct stream *settings)
{
	struct stream s = *settings;

	s.from = rig_open(rig, 0, config);
	s.to = rig_open(rig, 1, config);
	stream_both(&s);
	driver_close(s.from);
	driver_close(s.to);
}

static const unsigned features[] = {
	VIRTIO_F_VERSION_1,
	VIRTIO_NET_F_MRG_RXBUF,
	VIRTIO_RING_F_EVENT_IDX,
	VIRTIO_RING_F_INDIRECT_DESC,
	VIRTIO_F_ANY_LAYOUT,
	VIRTIO_NET_F_MQ,
	VIRTIO_NET_F_CSUM,
	VIRTIO_NET_F_GUEST_CSUM,
	VIRTIO_NET_F_GUEST_TSO4,
	VIRTIO_NET_F_GUEST_TSO6,
	VIRTIO_NET_F_GUEST_ECN,
	VIRTIO_NET_F_HOST_TSO4,
	VIRTIO_NET_F_HOST_TSO6,
	VIRTIO_NET_F_HOST_ECN,
	VIRTIO_NET_F_MTU,
	VIRTIO_NET_F_STATUS,
	VIRTIO_NET_F_CTRL_VQ,
	VIRTIO_NET_F_CTRL_RX,
	VHOST_USER_F_PROTOCOL_FEATURES,
};

/* Clauses: 2.2.2a */
/* Features: mtu, status, ctrl_vq, ctrl_rx, any_layout, version_1 */
static void each_feature_alone(void **state)
{
	for (unsigned i = 0; i < ARRAY_SIZE(features); i++) {
		struct driver_config c = { .features = BIT(features[i]) };
		struct stream s = { .count = 40 };

		run_between(*state, &c, &s);
	}
}

/* Clauses: 2.2.2a */
static void each_feature_missing(void **state)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(features); i++)
		all |= BIT(features[i]);
	for (unsigned i = 0; i < ARRAY_SIZE(features); i++) {
		struct driver_config c = { .features = all & ~BIT(features[i]) };
		struct stream s = { .count = 40 };

		run_between(*state, &c, &s);
	}
}

static void unlike_features_meet(void **state)
{
	const uint64_t ways[] = { BIT(VIRTIO_RING_F_EVENT_IDX), /* a legacy header of 10 bytes */
				  BIT(VIRTIO_F_VERSION_1), BIT(VIRTIO_NET_F_MRG_RXBUF),
				  driver_features_default() };

	for (unsigned i = 0; i < ARRAY_SIZE(ways) * ARRAY_SIZE(ways); i++) {
		struct driver_config a = { .features = ways[i % ARRAY_SIZE(ways)] };
		struct driver_config b = { .features = ways[i / ARRAY_SIZE(ways)] };
		struct stream s = { .from = rig_open(*state, 0, &a),
				    .to = rig_open(*state, 1, &b) };

		stream_both(&s);
		driver_close(s.from);
		driver_close(s.to);
	}
}

/* Clauses: 2.7a */
static void rings_of_every_size(void **state)
{
	for (unsigned size = 4; size <= DRIVER_RING_MAX; size *= 2) {
		struct driver_config c = { .ring_size = size };
		struct stream s = { .count = 300 };

		run_between(*state, &c, &s);
	}
}

/* 2.8.10.1: a packed ring's need not be a power of two. */
/* Clauses: 2.8a, 2.8.1a */
/* Features: ring_packed */
static void packed_rings_of_odd_sizes(void **state)
{
	static const unsigned sizes[] = { 3, 5, 100, 255, 257, 1000, 32767 };

	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct driver_config c = { .ring_size = sizes[i],
					   .features = driver_features_default() |
						       BIT(VIRTIO_F_RING_PACKED) |
						       BIT(VIRTIO_F_IN_ORDER) };
		struct stream s = { .count = sizes[i] < 1000 ? 3000 : 300 };

		run_between(*state, &c, &s);
	}
}

/* What was used last, of either direction. */
/* Clauses: 2.8.3a, 6.2b, 2.8.12a */
static void packed_write_flag_tells_sent_from_received(void **state)
{
	struct driver_config c = { .features =
					   driver_features_default() | BIT(VIRTIO_F_RING_PACKED) };
	struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, &c);
	struct driver_ring *tx = &a->ring[DRIVER_TX(0)], *rx = &b->ring[DRIVER_RX(0)];

	for (unsigned i = 0; i < 2; i++) {
		for (unsigned n = 0; n < 20; n++)
			send_one(a, 0, 1, 60, n);
		assert_true(script_wait_idle(tx, 1000));
		for (unsigned n = 0; n < 20; n++) {
			assert_true(load_acquire(&rx->packed_desc[rx->take.slot].flags) &
				    VRING_DESC_F_WRITE);
			assert_false(load_acquire(&tx->packed_desc[20 * i + n].flags) &
				     VRING_DESC_F_WRITE);
			assert_true(receive_one(b, 0, 1, 60, n, 1000));
		}
		driver_reclaim(a, 0);
	}
	driver_close(a);
	driver_close(b);
}

static void split_and_packed_meet(void **state)
{
	struct driver_config packed = { .features = driver_features_default() |
						    BIT(VIRTIO_F_RING_PACKED) };
	struct driver *a = rig_open(*state, 0, &packed), *b = rig_open(*state, 1, NULL);
	struct stream s = { .from = a, .to = b, .count = 5000 };

	assert_true(a->ring[0].packed);
	stream_both(&s);
	driver_close(a);
	driver_close(b);
}

/* Clauses: 2.7.6a, 2.8.1a */
static void indexes_wrap_around(void **state)
{
	for (unsigned size = 256; size <= DRIVER_RING_MAX; size *= 128) {
		struct driver_config c = { .ring_size = size };
		struct stream s = { .count = 140000, .len_min = 60, .len_max = 100 };

		run_between(*state, &c, &s);
	}
}

static void full_rings_pass(void **state)
{
	struct driver_config c = { .ring_size = 128 };
	struct driver_shape halves = { .n = 2, .len = { 12 } };
	struct stream s = { .count = 1280, .window = 128 };

	run_between(*state, &c, &s);
	/* Full of descriptors: 64 chains of two on both sides. */
	c.rx_shape = halves;
	s.shape = &halves;
	s.window = 64;
	run_between(*state, &c, &s);
}

/* All 128 chains are there at once when the device first looks. */
static void full_ring_waits_for_its_device(void **state)
{
	struct driver_config c = { .ring_size = 128, .quirks = DRIVER_RINGS_LATER };
	struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, NULL);
	uint8_t frame[60];
	struct error err;

	for (unsigned i = 0; i < 128; i++) {
		frame_make(frame, sizeof(frame), 0, 1, i);
		assert_int_equal(driver_send(a, 0, NULL, frame, sizeof(frame), NULL), 0);
	}
	assert_int_equal(ring_room(&a->ring[DRIVER_TX(0)]), 0);
	driver_flush(a, DRIVER_TX(0));
	assert_int_equal(driver_ring_start(a, DRIVER_TX(0), ring_base(a->ring), &err), 0);
	assert_int_equal(driver_ring_enable(a, DRIVER_TX(0), true, &err), 0);
	for (unsigned i = 0; i < 128; i++)
		assert_true(receive_one(b, 0, 1, sizeof(frame), i, 1000));
	assert_true(script_wait_idle(&a->ring[DRIVER_TX(0)], 1000));
	driver_close(a);
	driver_close(b);
}

static struct driver_shape shape_of(unsigned n, const uint32_t *lens)
{
	struct driver_shape s = { .n = n };

	memcpy(s.len, lens, n * sizeof(*lens));
	return s;
}

static struct driver_shape shape_even(unsigned n, uint32_t len)
{
	struct driver_shape s = { .n = n };

	for (unsigned i = 0; i < n; i++)
		s.len[i] = len;
	return s;
}

/* Headers split over 1, 2, 3 and 12 descriptors, many pieces, odd pieces. */
static unsigned make_shapes(struct driver_shape *shapes)
{
	unsigned n = 0;

	shapes[n++] = shape_even(1, 0);
	shapes[n++] = shape_of(2, (uint32_t[]){ 12, 0 });
	shapes[n++] = shape_of(2, (uint32_t[]){ 10, 0 });
	shapes[n++] = shape_of(2, (uint32_t[]){ 13, 0 });
	shapes[n++] = shape_of(3, (uint32_t[]){ 5, 7, 0 });
	shapes[n++] = shape_of(3, (uint32_t[]){ 12, 14, 0 });
	shapes[n++] = shape_of(4, (uint32_t[]){ 4, 4, 4, 0 });
	shapes[n++] = shape_of(4, (uint32_t[]){ 12, 1, 1, 0 });
	shapes[n++] = shape_even(13, 1); /* a header of single bytes */
	shapes[n++] = shape_even(17, 4);
	shapes[n++] = shape_even(19, 90); /* as Linux: header, head and 17 fragments */
	shapes[n++] = shape_even(72, 1);
	shapes[n++] = shape_even(200, 7);
	shapes[n++] = shape_of(2, (uint32_t[]){ 127, 0 }); /* around the switch's first look */
	shapes[n++] = shape_of(2, (uint32_t[]){ 128, 0 });
	shapes[n++] = shape_of(3, (uint32_t[]){ 128, 1, 0 });
	return n;
}

/* Clauses: 2.7.4.1a, 2.8.5a, 2.8.6a, 2.8.7a, 2.8.18a */
/* Features: indirect_desc */
static void chains_of_every_shape(void **state)
{
	static struct driver_shape shapes[32];
	unsigned n = make_shapes(shapes);

	for (unsigned i = 0; i < n; i++) {
		struct driver_config c = { .quirks = i % 2 ? DRIVER_SHUFFLE : 0 };
		struct stream s = { .count = 200, .shape = &shapes[i] };

		run_between(*state, &c, &s);
		shapes[i].indirect = true;
		run_between(*state, &c, &s);
	}
}

/* Clauses: 2.7.4.1a, 2.8.5a, 2.8.6a, 2.8.18a */
static void rx_chains_of_every_shape(void **state)
{
	static struct driver_shape shapes[32];
	unsigned n = make_shapes(shapes);

	for (unsigned i = 0; i < 2 * n; i++) {
		struct driver_config c = { .rx_shape = shapes[i / 2],
					   .quirks = i % 4 > 1 ? DRIVER_SHUFFLE : 0 };
		struct stream s = { .count = 100, .window = 1 };

		c.rx_shape.indirect = i % 2;
		if (shapes[i / 2].n > 100)
			c.ring_size = 1024;
		run_between(*state, &c, &s);
	}
}

/* Clauses: 2.7.4.1a, 5.1.6.1a */
static void legacy_header_in_pieces(void **state)
{
	static struct driver_shape shapes[32];
	unsigned n = make_shapes(shapes);

	for (unsigned i = 0; i < n; i++) {
		struct driver_config c = { .features = BIT(VIRTIO_RING_F_INDIRECT_DESC),
					   .rx_shape = shapes[i] };
		struct stream s = { .count = 50, .window = 1, .shape = &shapes[i] };

		run_between(*state, &c, &s);
	}
}

static void shapes_mixed_in_one_burst(void **state)
{
	static struct driver_shape shapes[32];
	unsigned n = make_shapes(shapes);
	struct driver_config c = { .ring_size = 1024, .quirks = DRIVER_SHUFFLE };
	struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, &c);
	uint8_t frame[1000];

	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < n; i++) {
			shapes[i].indirect = (round + i) % 3 == 0;
			frame_make(frame, sizeof(frame), 0, 1, i);
			assert_int_equal(driver_send(a, 0, NULL, frame, sizeof(frame), &shapes[i]),
					 0);
		}
		driver_flush(a, DRIVER_TX(0));
		for (unsigned i = 0; i < n; i++)
			assert_true(receive_one(b, 0, 1, sizeof(frame), i, 1000));
	}
	driver_close(a);
	driver_close(b);
}

/* Clauses: 5.1.2a */
/* Features: mq */
static void queue_pairs_all_pass(void **state)
{
	const unsigned counts[] = { 1, 2, 3, 8, 16 };

	for (unsigned i = 0; i < ARRAY_SIZE(counts); i++) {
		struct driver_config c = { .pairs = counts[i] };
		struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, NULL);

		for (unsigned pair = 0; pair < counts[i]; pair++) {
			struct stream s = { .from = a, .to = b, .from_pair = pair, .count = 40 };

			stream_run(&s);
		}
		driver_close(a);
		driver_close(b);
	}
}

/* As many as there can be: each carries frames, and all are up. */
static void the_most_queue_pairs_all_pass(void **state)
{
	struct driver_config c = { .pairs = DRIVER_PAIRS_MAX, .ring_size = 64 };
	struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, &c);

	assert_int_equal(a->config.pairs, 128);
	for (unsigned pair = 0; pair < DRIVER_PAIRS_MAX; pair++) {
		struct stream s = { .from = a, .to = b, .from_pair = pair, .count = 20 };

		stream_both(&s);
	}
	for (unsigned pair = 0; pair < DRIVER_PAIRS_MAX; pair++)
		assert_true(ring_used(&a->ring[DRIVER_TX(pair)], NULL) > 0);
	driver_close(a);
	driver_close(b);
}

static void start_pair(struct driver *d, unsigned pair)
{
	struct error err;

	for (unsigned i = DRIVER_RX(pair); i <= DRIVER_TX(pair); i++) {
		assert_int_equal(driver_ring_start(d, i, ring_base(d->ring), &err), 0);
		assert_int_equal(driver_ring_enable(d, i, true, &err), 0);
	}
}

/* Firmware starts one pair of many; others start any (cloud-hypervisor#2136). */
static void one_pair_of_many_is_enough(void **state)
{
	const unsigned pairs[] = { 0, 5, 7 };

	for (unsigned i = 0; i < ARRAY_SIZE(pairs); i++) {
		struct driver_config c = { .pairs = 8, .quirks = DRIVER_RINGS_LATER };
		struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, NULL);
		struct stream s = { .from = a, .to = b, .from_pair = pairs[i] };

		start_pair(a, pairs[i]);
		stream_both(&s);
		driver_close(a);
		driver_close(b);
	}
}

/* And two that are not neighbours: frames come to both and to none between them. */
static void two_pairs_of_many_share_the_frames(void **state)
{
	struct driver_config c = { .pairs = 8, .quirks = DRIVER_RINGS_LATER };
	struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, NULL);
	unsigned at_0 = 0;
	uint8_t frame[60], got[60];
	struct driver_frame f;

	start_pair(a, 0);
	start_pair(a, 5);
	assert_passes(a, b);
	for (uint32_t i = 0; i < 64; i++) {
		/* Each from another address: a flow of its own, which the guest has not sent. */
		frame_make(frame, sizeof(frame), 1, 0, i);
		frame[9] = (uint8_t)i;
		driver_reclaim(b, 0);
		assert_int_equal(driver_send(b, 0, NULL, frame, sizeof(frame), NULL), 0);
		driver_flush(b, DRIVER_TX(0));
		assert_true(script_wait_idle(&b->ring[DRIVER_TX(0)], 1000));
		if (driver_receive(a, 0, got, sizeof(got), &f) == 1)
			at_0++;
		else
			assert_int_equal(driver_receive(a, 5, got, sizeof(got), &f), 1);
		assert_memory_equal(got, frame, sizeof(frame));
	}
	assert_in_range(at_0, 8, 56);
	for (unsigned pair = 0; pair <= 5; pair += 5) {
		struct stream s = { .from = a, .to = b, .from_pair = pair };

		stream_both(&s);
	}
	rig_assert_dropped(*state, 0, "port_down", 0);
	driver_close(a);
	driver_close(b);
}

/* The first ring is set up, enabled and used before the second is mentioned, in either order. */
static void half_a_pair_works_at_once(void **state)
{
	for (unsigned first = 0; first < 2; first++) {
		struct driver_config c = { .quirks = DRIVER_RINGS_LATER };
		struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, NULL);
		struct stream out = { .from = a, .to = b };
		struct stream in = { .from = b, .to = a, .from_port = 1, .to_port = 0 };
		struct error err;

		for (unsigned k = 0; k < 2; k++) {
			unsigned index = k ^ first;

			assert_int_equal(driver_ring_start(a, index, ring_base(a->ring), &err), 0);
			assert_int_equal(driver_ring_enable(a, index, true, &err), 0);
			stream_run(index == DRIVER_RX(0) ? &in : &out);
		}
		stream_both(&out);
		driver_close(a);
		driver_close(b);
	}
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		CASE(each_feature_alone),
		CASE(each_feature_missing),
		CASE(unlike_features_meet),
		CASE(rings_of_every_size),
		CASE(packed_rings_of_odd_sizes),
		CASE(packed_write_flag_tells_sent_from_received),
		CASE(split_and_packed_meet),
		CASE(indexes_wrap_around),
		CASE(full_rings_pass),
		CASE(full_ring_waits_for_its_device),
		CASE(chains_of_every_shape),
		CASE(rx_chains_of_every_shape),
		CASE(legacy_header_in_pieces),
		CASE(shapes_mixed_in_one_burst),
		CASE(queue_pairs_all_pass),
		CASE(the_most_queue_pairs_all_pass),
		CASE(one_pair_of_many_is_enough),
		CASE(two_pairs_of_many_share_the_frames),
		CASE(half_a_pair_works_at_once),
	};

	return rig_run("rings", tests, ARRAY_SIZE(tests), 0);
}
