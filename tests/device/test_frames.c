// SPDX-License-Identifier: Apache-2.0
/* Frames of every length, over buffers of every kind; what does not fit is dropped by name. */
#include "harness.h"

#include <string.h>

#define LARGEST (65535 + 14) /* 64 KiB of IP behind an Ethernet header */

static uint64_t without(uint64_t features, unsigned bit)
{
	return features & ~BIT(bit);
}

static void every_length_passes(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);

	for (uint32_t len = FRAME_MIN; len <= 1514; len++) {
		struct stream s = {
			.from = a, .to = b, .count = 2, .len_min = len, .len_max = len
		};

		stream_run(&s);
	}
	driver_close(a);
	driver_close(b);
}

/* DPDK b9c1ec8577, snabb PR 935: num_buffers 0, or a length that counts buffers wrongly. */
/* Clauses: 2.7.8.2b, 2.8.4a, 5.1.6.3.2a, 5.1.6.4.1b */
/* Features: mrg_rxbuf */
static void used_lengths_are_exact_over_merged_buffers(void **state)
{
	const uint32_t lens[] = { 60, 1487, 1488, 1489, 1514, 2988, 2989, 9014, LARGEST };
	struct driver_config c = { .features = driver_features_default() | OFFLOADS,
				   .rx_buffer = 1500,
				   .tx_buffer = LARGEST + 12 };
	struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, &c);

	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		struct stream s = { .from = a,
				    .to = b,
				    .window = 4,
				    .count = 200,
				    .len_min = lens[i],
				    .len_max = lens[i] };

		stream_run(&s);
		assert_int_equal(s.buffers, 200 * ((lens[i] + 12 + 1499) / 1500));
		assert_int_equal(s.used_len, 200 * (lens[i] + 12));
	}
	driver_close(a);
	driver_close(b);
}

/* Clauses: 5.1.6.3.2a, 5.1.6.4.1a */
static void one_buffer_each_is_told_as_one(void **state)
{
	const uint64_t all = driver_features_default();
	const uint64_t ways[] = { all, without(all, VIRTIO_NET_F_MRG_RXBUF),
				  without(all, VIRTIO_F_VERSION_1) };

	for (unsigned i = 0; i < ARRAY_SIZE(ways); i++) {
		struct driver_config c = { .features = ways[i] };
		struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, &c);
		uint8_t got[2048];
		struct driver_frame f;

		send_one(a, 0, 1, 60, 1);
		assert_int_equal(driver_receive_wait(b, 0, got, sizeof(got), &f, 1000), 1);
		assert_int_equal(f.hdr.num_buffers, 1);
		driver_close(a);
		driver_close(b);
	}
}

/* Clauses: 5.1.6.4.1h, 5.1.6.4.1i */
static void large_frames_pass_with_their_header(void **state)
{
	struct driver_config c = { .features = driver_features_default() | OFFLOADS,
				   .rx_buffer = 1500,
				   .tx_buffer = LARGEST + 12,
				   .rx_shape = { .n = 2, .len = { 100 } } };
	struct driver_shape pages = { .n = 17 };
	struct stream s = {
		.hdr = &tso, .tcp = true, .window = 2, .len_min = 2000, .len_max = LARGEST
	};

	for (unsigned i = 0; i < pages.n; i++)
		pages.len[i] = 4096;
	for (unsigned round = 0; round < 3; round++) {
		s.from = rig_open(*state, 0, &c);
		s.to = rig_open(*state, 1, &c);
		s.shape = round ? &pages : NULL;
		pages.indirect = round == 2;
		stream_both(&s);
		driver_close(s.from);
		driver_close(s.to);
	}
}

/* Without mergeable buffers Linux posts 19 descriptors for each buffer of 64 KiB. */
static void large_frames_pass_unmerged(void **state)
{
	struct driver_config c = {
		.features = without(driver_features_default(), VIRTIO_NET_F_MRG_RXBUF) | OFFLOADS,
		.rx_buffer = LARGEST + 12,
		.tx_buffer = LARGEST + 12,
	};
	struct stream s = {
		.hdr = &tso, .tcp = true, .window = 4, .len_min = 60, .len_max = LARGEST
	};

	for (unsigned round = 0; round < 3; round++) {
		s.from = rig_open(*state, 0, &c);
		s.to = rig_open(*state, 1, &c);
		stream_both(&s);
		driver_close(s.from);
		driver_close(s.to);
		c.rx_shape =
			(struct driver_shape){ .n = 19, .indirect = round, .len = { 12, 100 } };
		for (unsigned i = 2; i < 19; i++)
			c.rx_shape.len[i] = 4096;
	}
}

/* Dropped by name, and the buffer that was too small is still good for the next frame. */
/* Clauses: 5.1.6.3.2b */
static void too_big_is_dropped_and_nothing_is_lost_with_it(void **state)
{
	struct driver_config big = { .tx_buffer = 10000 };
	struct driver_config small = {
		.features = without(driver_features_default(), VIRTIO_NET_F_MRG_RXBUF),
	};
	struct driver *a = rig_open(*state, 0, &big), *b = rig_open(*state, 1, &small);
	struct stream s = { .from = a, .to = b };

	for (unsigned i = 0; i < 10; i++) {
		send_one(a, 0, 1, 3000, i);
		send_one(a, 0, 1, 60, i);
		assert_true(receive_one(b, 0, 1, 60, i, 1000));
	}
	rig_assert_dropped(*state, 1, "too_big", 10);
	stream_run(&s);
	driver_close(a);
	driver_close(b);
}

/* An MTU is of the packet: neither the Ethernet header nor tags count. */
/* Clauses: 5.1.4.1a, 5.1.4.1b */
static void two_tags_do_not_count_for_the_mtu(void **state)
{
	struct driver_config limited = { .protocol = BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK) |
						     BIT(VHOST_USER_PROTOCOL_F_NET_MTU) };
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, &limited);
	struct error err;

	assert_int_equal(frontend_set_u64(&b->fe, VHOST_USER_NET_SET_MTU, 1500, &err), 0);
	for (uint32_t len = 1500 + 14; len <= 1500 + 14 + 8; len += 4) {
		send_one(a, 0, 1, len, len);
		assert_true(receive_one(b, 0, 1, len, len, 1000));
	}
	send_one(a, 0, 1, 1500 + 14 + 9, 1);
	rig_assert_dropped(*state, 1, "too_big", 1);
	driver_close(a);
	driver_close(b);
}

/* Legacy front-ends with a limit on memory: the whole ring is smaller than the frame. */
static void larger_than_the_whole_ring_is_too_big(void **state)
{
	struct driver_config big = { .tx_buffer = 10000 };
	struct driver_config small = { .ring_size = 4, .rx_buffer = 1500 };
	struct driver *a = rig_open(*state, 0, &big), *b = rig_open(*state, 1, &small);

	send_one(a, 0, 1, 4 * 1500 - 12, 1);
	assert_true(receive_one(b, 0, 1, 4 * 1500 - 12, 1, 1000));
	driver_post(b, 0);
	send_one(a, 0, 1, 4 * 1500 - 11, 2);
	rig_assert_dropped(*state, 1, "too_big", 1);
	assert_passes(a, b);
	driver_close(a);
	driver_close(b);
}

/* openstack and Linux: who did not agree to large frames gets segments. All of it: test_offload.c.
 */
/* Clauses: 5.1.6.4.1f */
static void large_frames_reach_who_did_not_agree_in_segments(void **state)
{
	struct driver_config with = { .features = driver_features_default() | OFFLOADS,
				      .tx_buffer = LARGEST + 12 };
	struct driver *a = rig_open(*state, 0, &with), *b = rig_open(*state, 1, NULL);
	static uint8_t frame[LARGEST], got[LARGEST];
	uint32_t size = tso.gso_size;

	assert_passes(a, b);
	frame_make(frame, sizeof(frame), 0, 1, 1);
	frame_add_tcp(frame, sizeof(frame));
	assert_int_equal(driver_send(a, 0, &tso, frame, sizeof(frame), NULL), 0);
	driver_flush(a, DRIVER_TX(0));
	for (uint32_t at = TCP_HEADERS; at < LARGEST; at += size) {
		struct driver_frame f;

		size = MIN(size, LARGEST - at);
		assert_int_equal(driver_receive_wait(b, 0, got, sizeof(got), &f, 1000), 1);
		assert_int_equal(f.hdr.hdr.flags | f.hdr.hdr.gso_type, 0);
		assert_int_equal(f.len, TCP_HEADERS + size);
		assert_memory_equal(got, frame, FRAME_MIN);
		assert_memory_equal(got + TCP_HEADERS, frame + at, size);
	}
	assert_passes(a, b);
	driver_close(a);
	driver_close(b);
}

/* A table, a header, and a frame whose checksum is to be finished for the receiver. */
/* Clauses: 2.7.5.1a, 2.7.5.1c, 2.8.15a */
static void what_is_sent_is_not_written_to(void **state)
{
	struct driver_config c = { .features = driver_features_default() | BIT(VIRTIO_NET_F_CSUM),
				   .extra = 65536 };
	const struct virtio_net_hdr unfinished = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
						   .csum_start = 34,
						   .csum_offset = 16 };
	struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, NULL);
	struct driver_ring *tx = &a->ring[DRIVER_TX(0)];
	uint8_t *at = driver_memory_alloc(&a->mem, 4096, 4096), before[4096], got[200];
	struct script_desc entries[2], table = { .len = 32, .flags = VRING_DESC_F_INDIRECT };
	struct driver_frame f;

	table.addr = ring_gpa(tx, at);
	entries[0] = (struct script_desc){ table.addr + 1024, 12, VRING_DESC_F_NEXT, SCRIPT_NEXT };
	entries[1] = (struct script_desc){ table.addr + 2048, 100, 0, 0 };
	script_table(tx, (struct vring_desc *)at, entries, 2);
	memcpy(at + 1024, &unfinished, sizeof(unfinished));
	frame_make(at + 2048, 100, 0, 1, 7);
	frame_add_tcp(at + 2048, 100);
	memcpy(before, at, sizeof(before));
	assert_true(script_chain(tx, &table, 1, 0, NULL, NULL) >= 0);
	ring_publish(tx);
	ring_kick(tx);
	assert_int_equal(driver_receive_wait(b, 0, got, sizeof(got), &f, 1000), 1);
	assert_true(script_wait_idle(tx, 1000));
	assert_int_equal(f.len, 100);
	assert_memory_not_equal(got + 34 + 16, before + 2048 + 34 + 16, 2);
	assert_memory_equal(at, before, sizeof(before));
	driver_close(a);
	driver_close(b);
}

/* All flags but the one that has a meaning here; the receiver takes any checksum. */
/* Clauses: 5.1.6.2.2a, 5.1.6.2.2d, 5.1.6.4.1k */
static void other_flags_of_a_sender_mean_nothing(void **state)
{
	const struct virtio_net_hdr strange = { .flags = 0xff & ~VIRTIO_NET_HDR_F_NEEDS_CSUM };
	struct driver_config c = { .features = driver_features_default() | OFFLOADS };
	struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, &c);
	uint8_t frame[60], got[200];
	struct driver_frame f;

	for (unsigned i = 0; i < 20; i++) {
		frame_make(frame, sizeof(frame), 0, 1, i);
		assert_int_equal(driver_send(a, 0, &strange, frame, sizeof(frame), NULL), 0);
		driver_flush(a, DRIVER_TX(0));
		assert_int_equal(driver_receive_wait(b, 0, got, sizeof(got), &f, 1000), 1);
		assert_int_equal(f.len, sizeof(frame));
		assert_memory_equal(got, frame, sizeof(frame));
		assert_int_equal(f.hdr.hdr.flags, 0);
	}
	driver_close(a);
	driver_close(b);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		CASE(every_length_passes),
		CASE(used_lengths_are_exact_over_merged_buffers),
		CASE(one_buffer_each_is_told_as_one),
		CASE(large_frames_pass_with_their_header),
		CASE(large_frames_pass_unmerged),
		CASE(too_big_is_dropped_and_nothing_is_lost_with_it),
		CASE(larger_than_the_whole_ring_is_too_big),
		CASE(two_tags_do_not_count_for_the_mtu),
		CASE(large_frames_reach_who_did_not_agree_in_segments),
		CASE(what_is_sent_is_not_written_to),
		CASE(other_flags_of_a_sender_mean_nothing),
	};

	return rig_run("frames", tests, ARRAY_SIZE(tests), 0);
}
