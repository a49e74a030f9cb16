// SPDX-License-Identifier: Apache-2.0
/*
 * Lengths, counts and headers that go to the limit and beyond, in what guests send and in the
 * buffers that they post: each is bounded, counted, and harms nobody else.
 */
#include "harness.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define NEXT	     VRING_DESC_F_NEXT
#define WRITE	     VRING_DESC_F_WRITE
#define INDIRECT     VRING_DESC_F_INDIRECT
#define GOOD_FRAMES  30000 /* with an eighth of the time for waits, a fraction of a second */
#define GOOD_SECONDS 5
#define EXTRA	     (5u << 20)	     /* bytes of guest memory to play with */
#define NOWHERE	     0x7000000000ull /* no region there */

/* Ring of 4096: chains as long as it, of one byte each. */
/* Clauses: 2.7.4.1b */
static void long_chains_are_bounded(void **state)
{
	struct driver_config c = { .ring_size = 4096,
				   .extra = EXTRA,
				   .features = driver_features_default() &
					       ~BIT(VIRTIO_RING_F_INDIRECT_DESC) };
	struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, NULL);
	struct driver_ring *tx = &a->ring[DRIVER_TX(0)];
	uint8_t *bytes = driver_memory_alloc(&a->mem, EXTRA, 4096);
	static struct driver_piece pieces[4096];
	struct driver_done done;

	frame_make(bytes + 12, 4096, 0, 1, 5);
	for (unsigned i = 0; i < 4096; i++)
		pieces[i] = (struct driver_piece){ bytes + i, 1 };
	driver_reclaim(a, 0);
	assert_int_equal(ring_add(tx, pieces, 1500, 0, false, NULL), 0);
	ring_flush(tx);
	assert_true(receive_one(b, 0, 1, 1500 - 12, 5, 1000));
	assert_true(script_wait_idle(tx, 1000));
	assert_int_equal(ring_take(tx, &done, 1), 1);
	for (unsigned n = 2049; n <= 4096; n += 2047) {
		assert_int_equal(ring_add(tx, pieces, n, 0, false, NULL), 0);
		ring_flush(tx);
		assert_true(script_wait_idle(tx, 1000));
		assert_int_equal(ring_take(tx, &done, 1), 1);
		assert_int_equal(done.len, 0);
	}
	rig_assert_dropped(*state, 0, "chain_pieces", 2);
	pass_and_close(a, b);
}

/* An indirect table may claim 2^28 descriptors of no length: it must not be walked to its end. */
static void a_huge_table_is_not_walked_to_its_end(void **state)
{
	struct driver_config c = { .extra = 64u << 20 };
	struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, NULL);
	struct driver_ring *tx = &a->ring[DRIVER_TX(0)];
	uint32_t len = 48u << 20;
	struct vring_desc *table = driver_memory_alloc(&a->mem, len, 4096);
	struct driver_done done;
	uint64_t start;

	assert_non_null(table);
	table[0] = (struct vring_desc){ .flags = VRING_DESC_F_NEXT, .next = 0 };
	driver_reclaim(a, 0);
	start = clock_ns();
	for (unsigned i = 0; i < 128; i++) {
		struct script_desc d = { driver_memory_gpa(&a->mem, table), len, INDIRECT, 0 };

		assert_true(script_chain(tx, &d, 1, 0, NULL, NULL) >= 0);
	}
	ring_flush(tx);
	/* A packed one does not loop; it is just long. */
	rig_assert_dropped(*state, 0, rig_packed() ? "chain_pieces" : "chain_loop", 128);
	/* 3 million links each would take it a second. */
	assert_true(clock_ns() - start < 500000000);
	assert_true(script_wait_idle(tx, 1000));
	for (unsigned i = 0; i < 128; i++)
		assert_int_equal(ring_take(tx, &done, 1), 1);
	pass_and_close(a, b);
}

/* More than 4 GiB in all, and in 32 bits just a small frame. */
static void lengths_do_not_wrap(void **state)
{
	struct driver_config c = { .ring_size = 2048, .extra = 2 * EXTRA };
	struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, NULL);
	struct driver_ring *tx = &a->ring[DRIVER_TX(0)];
	uint8_t *bytes = driver_memory_alloc(&a->mem, EXTRA, 4096);
	static struct driver_piece pieces[1025];
	struct driver_done done;

	assert_non_null(bytes);
	for (unsigned i = 0; i < 1024; i++)
		pieces[i] = (struct driver_piece){ bytes, 4u << 20 };
	pieces[1024] = (struct driver_piece){ bytes, 72 };
	driver_reclaim(a, 0);
	assert_int_equal(ring_add(tx, pieces, 1025, 0, false, NULL), 0);
	ring_flush(tx);
	assert_true(script_wait_idle(tx, 1000));
	assert_int_equal(ring_take(tx, &done, 1), 1);
	rig_assert_dropped(*state, 0, "frame_long", 1);
	pass_and_close(a, b);
}

/* CVE-2024-11614, DPDK 7023f3e532: headers that lie about their frame. */
/* Clauses: 5.1.6.2.2c */
static void lying_headers_are_dropped(void **state)
{
	const uint64_t offloads =
		BIT(VIRTIO_NET_F_CSUM) | BIT(VIRTIO_NET_F_HOST_TSO4) | BIT(VIRTIO_NET_F_HOST_TSO6);
	const struct virtio_net_hdr bad[] = {
		{ .flags = 1, .csum_start = 99 },
		{ .flags = 1, .csum_start = 100 },
		{ .flags = 1, .csum_start = 0xffff },
		{ .flags = 1, .csum_start = 50, .csum_offset = 49 },
		{ .flags = 1, .csum_start = 50, .csum_offset = 0xffff },
		{ .flags = 1, .csum_start = 0xffff, .csum_offset = 0xffff },
		{ .flags = 1, .csum_start = 34, .csum_offset = 16, .gso_type = 1 },
		{ .flags = 1, .csum_start = 34, .csum_offset = 16, .gso_type = 7, .gso_size = 9 },
		{ .flags = 1, .csum_start = 34, .csum_offset = 16, .gso_type = 3, .gso_size = 9 },
		{ .flags = 1, .csum_start = 34, .csum_offset = 16, .gso_type = 0x80 },
		{ .flags = 0, .gso_type = 1, .gso_size = 1000, .hdr_len = 54 },
		{ .flags = 1, .csum_start = 99, .gso_type = 1, .gso_size = 9 },
	};
	struct driver_config c = { .features = driver_features_default() | offloads };
	struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, NULL);
	uint8_t frame[100];

	frame_make(frame, sizeof(frame), 0, 1, 1);
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(driver_send(a, 0, &bad[i], frame, sizeof(frame), NULL), 0);
		driver_flush(a, DRIVER_TX(0));
		assert_true(script_wait_idle(&a->ring[DRIVER_TX(0)], 1000));
		rig_assert_dropped(*state, 0, "header_bad", i + 1);
	}
	pass_and_close(a, b);
}

/*
 * Malformed rx chains: returned empty, the frame that met them counted, and the next frame goes to
 * the next buffer.
 */
static void bad_rx_chains_cost_one_frame_each(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL);
	struct driver_config c = { .quirks = DRIVER_NO_RX_BUFFERS, .extra = EXTRA };
	struct driver *b = rig_open(*state, 1, &c);
	struct driver_ring *rx = &b->ring[DRIVER_RX(0)];
	struct driver_pool *pool = &b->pool[DRIVER_RX(0)];
	uint64_t gpa = driver_memory_gpa(&b->mem, pool->free[0]);
	const struct script_desc bad[][2] = {
		{ { gpa, 2048, 0, 0 } },
		{ { gpa, 1000, NEXT | WRITE, SCRIPT_NEXT }, { gpa, 1000, 0, 0 } },
		{ { gpa, 1000, NEXT, SCRIPT_NEXT }, { gpa, 1000, WRITE, 0 } },
		{ { gpa, 2048, NEXT | WRITE, 256 } },
		{ { NOWHERE, 2048, WRITE, 0 } },
		{ { gpa, 12, NEXT | WRITE, SCRIPT_NEXT }, { NOWHERE, 2000, WRITE, 0 } },
		{ { UINT64_MAX - 5, 2048, WRITE, 0 } },
		{ { gpa, 0, INDIRECT, 0 } },
		{ { gpa, 32, INDIRECT | NEXT | WRITE, SCRIPT_NEXT }, { gpa, 2000, WRITE, 0 } },
		{ { gpa, 0xfffffff0, INDIRECT, 0 } },
	};

	assert_true(receive_one(b, 0, 1, 60, 0, 10) == false);
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		struct driver_done done;
		struct driver_piece piece;

		while (ring_take(rx, &done, 1))
			;
		/* Whatever was posted before is used up by frames. */
		while (ring_outstanding(rx)) {
			send_one(a, 0, 1, 60, 1);
			assert_true(script_wait_idle(&a->ring[DRIVER_TX(0)], 1000));
			while (ring_take(rx, &done, 1))
				;
		}
		assert_true(script_chain(rx, bad[i], bad[i][0].flags & NEXT ? 2 : 1, 0, NULL,
					 NULL) >= 0);
		piece = (struct driver_piece){ pool->free[1], 2048 };
		assert_int_equal(ring_add(rx, &piece, 0, 1, false, piece.at), 0);
		ring_flush(rx);
		send_one(a, 0, 1, 60, 2);
		rig_assert_dropped(*state, 1, "rx_chain", i + 1);
		assert_int_equal(ring_take(rx, &done, 1), 1);
		assert_int_equal(done.len, 0);
		send_one(a, 0, 1, 60, 3);
		assert_true(script_wait_idle(rx, 1000));
		assert_int_equal(ring_take(rx, &done, 1), 1);
		assert_int_equal(done.len, 72);
		assert_ptr_equal(done.token, piece.at);
	}
	driver_close(a);
	driver_close(b);
}

/* Buffers of no bytes at all: chains that are taken for one frame end somewhere. */
static void rx_buffers_of_nothing_do_not_hang(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *c = rig_open(*state, 2, NULL);
	struct driver_config config = { .quirks = DRIVER_NO_RX_BUFFERS, .ring_size = 32768 };
	struct driver *b = rig_open(*state, 1, &config);
	struct driver_ring *rx = &b->ring[DRIVER_RX(0)];
	struct stream good = { .from = a, .to = c, .to_port = 2 };
	const struct script_desc empty = { b->mem.gpa, 0, WRITE, 0 };

	send_one(b, 1, 0, 60, 9); /* so that nothing is flooded */
	assert_true(receive_one(a, 1, 0, 60, 9, 1000));
	for (unsigned i = 0; i < 32767; i++)
		assert_true(script_chain(rx, &empty, 1, 0, NULL, NULL) >= 0);
	ring_flush(rx);
	for (unsigned i = 0; i < 1000; i++) {
		send_one(a, 0, 1, 60, i);
		assert_true(script_wait_idle(&a->ring[DRIVER_TX(0)], 1000));
	}
	while (receive_one(c, 1, 0, 60, 9, 20))
		;
	stream_both(&good);
	driver_close(a);
	driver_close(b);
	driver_close(c);
}

/* 5.1.6.3.1: with mergeable buffers each has room for a header at least. */
/* Clauses: 5.1.6.3.1a */
static void rx_buffers_smaller_than_a_header_are_none(void **state)
{
	struct driver_config tiny = { .rx_buffer = 11, .ring_size = 256 };
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, &tiny);
	uint8_t got[2048];
	struct driver_frame f;

	send_one(b, 1, 0, 60, 1);
	assert_true(receive_one(a, 1, 0, 60, 1, 1000));
	for (unsigned i = 0; i < 100; i++)
		send_one(a, 0, 1, 60, i);
	rig_assert_dropped(*state, 1, "rx_chain", 100);
	assert_true(driver_receive(b, 0, got, sizeof(got), &f) <= 0);
	driver_close(a);
	driver_close(b);
}

/* A batch holds so many pieces, and a frame waits for the next one: nothing is lost with it. */
static void what_does_not_fit_into_a_batch_comes_with_the_next(void **state)
{
	struct driver_config c = { .ring_size = 4096,
				   .features = driver_features_default() &
					       ~BIT(VIRTIO_RING_F_INDIRECT_DESC) };
	struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, NULL);
	struct driver_shape pieces = { .n = 128 };
	uint8_t frame[1012];

	assert_passes(a, b);
	for (unsigned i = 0; i < 127; i++)
		pieces.len[i] = 8;
	for (unsigned i = 0; i < 20; i++) {
		frame_make(frame, sizeof(frame), 0, 1, i);
		assert_int_equal(driver_send(a, 0, NULL, frame, sizeof(frame),
					     i < 16 ? &pieces : NULL),
				 0);
	}
	driver_flush(a, DRIVER_TX(0));
	for (unsigned i = 0; i < 20; i++)
		assert_true(receive_one(b, 0, 1, sizeof(frame), i, 1000));
	driver_close(a);
	driver_close(b);
}

/* Mergeable buffers in more pieces than one frame may have, the next of them whole. */
static void a_frame_takes_so_many_pieces_and_no_more(void **state)
{
	struct driver_config big = { .tx_buffer = 32768 };
	struct driver_config c = { .quirks = DRIVER_NO_RX_BUFFERS,
				   .ring_size = 4096,
				   .features = driver_features_default() &
					       ~BIT(VIRTIO_RING_F_INDIRECT_DESC) };
	struct driver *a = rig_open(*state, 0, &big), *b = rig_open(*state, 1, &c);
	struct driver_ring *rx = &b->ring[DRIVER_RX(0)];
	struct driver_pool *pool = &b->pool[DRIVER_RX(0)];
	struct driver_piece pieces[64], whole = { pool->free[32], 2048 };
	unsigned returned = 0;

	for (unsigned i = 0; i < 32; i++) {
		for (unsigned k = 0; k < 64; k++)
			pieces[k] = (struct driver_piece){ (uint8_t *)pool->free[i] + 8 * k, 8 };
		assert_int_equal(ring_add(rx, pieces, 0, 64, false, pool->free[i]), 0);
	}
	assert_int_equal(ring_add(rx, &whole, 0, 1, false, whole.at), 0);
	ring_flush(rx);
	send_one(a, 0, 1, 20000, 1);
	rig_assert_dropped(*state, 1, "rx_chain", 1);
	for (struct driver_done done; ring_take(rx, &done, 1); returned++)
		assert_int_equal(done.len, 0);
	assert_int_equal(returned, 33);
	driver_close(a);
	driver_close(b);
}

/* As many buffers as one frame may take, and they are still too small. */
static void a_frame_takes_so_many_buffers_and_no_more(void **state)
{
	struct driver_config big = { .tx_buffer = 65536 };
	struct driver_config tiny = { .rx_buffer = 16, .ring_size = 4096 };
	struct driver *a = rig_open(*state, 0, &big), *b = rig_open(*state, 1, &tiny);
	uint8_t got[FRAME_ROOM];
	struct driver_frame f;

	send_one(a, 0, 1, 2047 * 16 - 12, 1);
	assert_true(receive_one(b, 0, 1, 2047 * 16 - 12, 1, 1000));
	driver_post(b, 0);
	send_one(a, 0, 1, 60000, 2);
	rig_assert_dropped(*state, 1, "too_big", 1);
	assert_int_equal(driver_receive(b, 0, got, sizeof(got), &f), 0);
	driver_close(a);
	driver_close(b);
}

/* One that takes a buffer now and then must not make its senders wait each time. */
static void a_receiver_that_takes_little_does_not_slow_others(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *slow = rig_open(*state, 1, NULL),
		      *good = rig_open(*state, 2, NULL);
	uint64_t end = clock_ns() + GOOD_SECONDS * 1000000000ull, taken = 0;
	unsigned got = 0, seed = 0;
	uint8_t frame[2048];
	struct driver_frame f;

	send_one(slow, 1, 0, 60, 1);
	assert_true(receive_one(a, 1, 0, 60, 1, 1000));
	send_one(good, 2, 0, 60, 1);
	assert_true(receive_one(a, 2, 0, 60, 1, 1000));
	while (got < GOOD_FRAMES && clock_ns() < end) {
		for (unsigned i = 0; i < 16; i++) {
			frame_make(frame, 60, 0, 1 + i % 2, seed++);
			if (driver_send(a, 0, NULL, frame, 60, NULL))
				break;
		}
		driver_flush(a, DRIVER_TX(0));
		driver_reclaim(a, 0);
		while (driver_receive(good, 0, frame, sizeof(frame), &f) > 0)
			got++;
		if (clock_ns() - taken > 200000) {
			driver_receive(slow, 0, frame, sizeof(frame), &f);
			driver_post(slow, 0);
			taken = clock_ns();
		}
	}
	print_message("# %u frames, %.1f s left\n", got, ((double)end - (double)clock_ns()) / 1e9);
	assert_true(got >= GOOD_FRAMES);
	driver_close(a);
	driver_close(slow);
	driver_close(good);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		CASE(long_chains_are_bounded),
		CASE(a_huge_table_is_not_walked_to_its_end),
		CASE(lengths_do_not_wrap),
		CASE(lying_headers_are_dropped),
		CASE(bad_rx_chains_cost_one_frame_each),
		CASE(rx_buffers_of_nothing_do_not_hang),
		CASE(rx_buffers_smaller_than_a_header_are_none),
		CASE(what_does_not_fit_into_a_batch_comes_with_the_next),
		CASE(a_frame_takes_so_many_pieces_and_no_more),
		CASE(a_frame_takes_so_many_buffers_and_no_more),
		CASE(a_receiver_that_takes_little_does_not_slow_others),
	};

	return cmocka_run_group_tests_name("bounds", tests, NULL, NULL);
}
