// SPDX-License-Identifier: Apache-2.0
/*
 * The driver's ring against a device played by hand: what it writes, when it kicks, and that a
 * device that lies breaks the ring and nothing else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "driver/driver.h"
#include "driver/script.h"

#define SIZE 8

struct fixture {
	struct driver_memory mem;
	struct driver_ring ring;
	uint8_t *buffer;
};

static int set_up(void **state)
{
	static struct fixture f;
	struct error err;

	*state = &f;
	if (driver_memory_create(&f.mem, ring_bytes(SIZE, true), 65536, 1, 0x4000, &err) ||
	    ring_init(&f.ring, &f.mem, SIZE, false, false, true, 0))
		return -1;
	f.buffer = driver_memory_alloc(&f.mem, 4096, 64);
	f.ring.kick = eventfd(0, EFD_NONBLOCK);
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	ring_destroy(&f->ring);
	driver_memory_destroy(&f->mem);
	return 0;
}

/* One buffer of `len` bytes. */
static void add_one(struct driver_ring *r, void *at, uint32_t len, bool writable, void *token)
{
	const struct driver_piece piece = { at, len };

	assert_int_equal(ring_add(r, &piece, !writable, writable, false, token), 0);
}

/* What an honest device does, and what others do. */
static void device_uses(struct driver_ring *r, uint32_t id, uint32_t len)
{
	r->used->ring[r->used->idx & r->mask] = (struct vring_used_elem){ id, len };
	r->used->idx++;
}

static uint64_t kicks(struct driver_ring *r)
{
	uint64_t n = 0;

	return read(r->kick, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

static void a_chain_is_written_as_specified(void **state)
{
	struct fixture *f = *state;
	struct driver_ring *r = &f->ring;
	const struct driver_piece pieces[] = { { f->buffer, 10 },
					       { f->buffer + 100, 20 },
					       { f->buffer + 200, 30 } };
	struct vring_desc *d = r->desc;

	assert_int_equal(ring_add(r, pieces, 1, 2, false, f), 0);
	assert_int_equal(d[0].addr, 0x4000 + (uint64_t)(f->buffer - f->mem.base));
	assert_int_equal(d[0].len, 10);
	assert_int_equal(d[0].flags, VRING_DESC_F_NEXT);
	assert_int_equal(d[1].flags, VRING_DESC_F_NEXT | VRING_DESC_F_WRITE);
	assert_int_equal(d[d[0].next].len, 20);
	assert_int_equal(d[d[1].next].len, 30);
	assert_int_equal(d[2].flags, VRING_DESC_F_WRITE);
	assert_int_equal(r->avail->idx, 0);
	ring_flush(r);
	assert_int_equal(r->avail->idx, 1);
	assert_int_equal(r->avail->ring[0], 0);
	assert_int_equal(ring_room(r), SIZE - 3);
}

static void an_indirect_chain_takes_one_descriptor(void **state)
{
	struct fixture *f = *state;
	struct driver_ring *r = &f->ring;
	const struct driver_piece pieces[] = { { f->buffer, 10 }, { f->buffer + 100, 20 } };

	assert_int_equal(ring_add(r, pieces, 2, 0, true, f), 0);
	assert_int_equal(r->desc[0].flags, VRING_DESC_F_INDIRECT);
	assert_int_equal(r->desc[0].len, 32);
	assert_int_equal(r->desc[0].addr, ring_gpa(r, r->tables));
	assert_int_equal(r->tables[0].flags, VRING_DESC_F_NEXT);
	assert_int_equal(r->tables[0].next, 1);
	assert_int_equal(r->tables[1].flags, 0);
	assert_int_equal(ring_room(r), SIZE - 1);
}

static void a_full_ring_refuses_more(void **state)
{
	struct fixture *f = *state;
	const struct driver_piece pieces[] = { { f->buffer, 1 }, { f->buffer, 1 } };

	for (unsigned i = 0; i < SIZE / 2; i++)
		assert_int_equal(ring_add(&f->ring, pieces, 2, 0, false, f), 0);
	assert_int_equal(ring_add(&f->ring, pieces, 1, 0, false, f), -ENOSPC);
	assert_int_equal(ring_add(&f->ring, pieces, 1, 0, true, f), -ENOSPC);
}

static void indexes_wrap(void **state)
{
	struct fixture *f = *state;
	struct driver_ring *r = &f->ring;
	struct driver_done done;

	for (unsigned i = 0; i < 200000; i++) {
		add_one(r, f->buffer, 10, true, f->buffer + i % 7);
		ring_flush(r);
		device_uses(r, r->avail->ring[i & r->mask], i % 11);
		assert_int_equal(ring_take(r, &done, 1), 1);
		assert_ptr_equal(done.token, f->buffer + i % 7);
		assert_int_equal(done.len, i % 11);
		assert_int_equal(ring_take(r, &done, 1), 0);
	}
	assert_null(r->broken);
	assert_int_equal(ring_room(r), SIZE);
}

static void kicks_follow_the_flag(void **state)
{
	struct fixture *f = *state;
	struct driver_ring *r = &f->ring;

	add_one(r, f->buffer, 10, false, f);
	ring_flush(r);
	assert_int_equal(kicks(r), 1);
	ring_flush(r); /* nothing new */
	assert_int_equal(kicks(r), 0);
	r->used->flags = VRING_USED_F_NO_NOTIFY;
	add_one(r, f->buffer, 10, false, f);
	ring_flush(r);
	assert_int_equal(kicks(r), 0);
}

static void kicks_follow_the_event_index(void **state)
{
	struct fixture *f = *state;
	struct driver_ring *r = &f->ring;

	r->event_idx = true;
	r->used->flags = VRING_USED_F_NO_NOTIFY; /* means nothing now */
	*r->avail_event = 1;
	add_one(r, f->buffer, 10, false, f);
	ring_flush(r);
	assert_int_equal(kicks(r), 0); /* entry 0: not yet */
	add_one(r, f->buffer, 10, false, f);
	ring_flush(r);
	assert_int_equal(kicks(r), 1); /* entry 1 */
	add_one(r, f->buffer, 10, false, f);
	ring_flush(r);
	assert_int_equal(kicks(r), 0);
	*r->avail_event = 4;
	for (unsigned i = 0; i < 3; i++)
		add_one(r, f->buffer, 10, false, f);
	ring_flush(r);
	assert_int_equal(kicks(r), 1); /* 3, 4 and 5 at once */
}

static void calls_are_asked_for_and_not(void **state)
{
	struct fixture *f = *state;
	struct driver_ring *r = &f->ring;

	ring_calls_off(r);
	assert_int_equal(r->avail->flags, VRING_AVAIL_F_NO_INTERRUPT);
	assert_false(ring_calls_on(r));
	assert_int_equal(r->avail->flags, 0);
	r->event_idx = true;
	ring_calls_on(r);
	assert_int_equal(*r->used_event, 0);
	ring_calls_off(r);
	assert_int_equal(*r->used_event, 0x8000);
	add_one(r, f->buffer, 10, false, f);
	ring_flush(r);
	device_uses(r, 0, 0);
	assert_true(ring_calls_on(r));
}

/* Two chains in flight, of 10 and of 20 writable bytes; then `lie`. */
static void assert_breaks(void **state, uint16_t jump, uint32_t id, uint32_t len, const char *why)
{
	struct fixture *f = *state;
	struct driver_ring *r = &f->ring;
	const struct driver_piece two[] = { { f->buffer, 10 }, { f->buffer, 10 } };
	struct driver_done done[4];

	add_one(r, f->buffer, 10, true, f);
	assert_int_equal(ring_add(r, two, 0, 2, false, f), 0);
	ring_flush(r);
	r->used->ring[0] = (struct vring_used_elem){ id, len };
	r->used->idx = jump;
	assert_int_equal(ring_take(r, done, 4), 0);
	assert_non_null(r->broken);
	assert_string_equal(r->broken, why);
	device_uses(r, 0, 1); /* it is never believed again */
	assert_int_equal(ring_take(r, done, 4), 0);
	assert_int_equal(ring_room(r), SIZE - 3);
}

static void used_id_outside_the_ring_breaks(void **state)
{
	assert_breaks(state, 1, SIZE, 0, "used a descriptor that is not in flight");
}

static void used_id_far_outside_breaks(void **state)
{
	assert_breaks(state, 1, 0xffffffff, 0, "used a descriptor that is not in flight");
}

static void used_id_not_in_flight_breaks(void **state)
{
	assert_breaks(state, 1, 7, 0, "used a descriptor that is not in flight");
}

static void used_id_inside_a_chain_breaks(void **state)
{
	assert_breaks(state, 1, 2, 0, "used a descriptor that is not in flight");
}

static void used_length_beyond_the_buffer_breaks(void **state)
{
	assert_breaks(state, 1, 0, 11, "used more bytes than were writable");
}

static void used_length_beyond_the_chain_breaks(void **state)
{
	assert_breaks(state, 1, 1, 21, "used more bytes than were writable");
}

static void used_index_that_jumps_breaks(void **state)
{
	assert_breaks(state, 3, 0, 0, "used index beyond what is in flight");
}

static void used_index_that_goes_back_breaks(void **state)
{
	assert_breaks(state, 0xffff, 0, 0, "used index beyond what is in flight");
}

static void a_repeated_id_breaks(void **state)
{
	struct fixture *f = *state;
	struct driver_ring *r = &f->ring;
	struct driver_done done[4];

	add_one(r, f->buffer, 10, true, f);
	add_one(r, f->buffer, 10, true, f);
	ring_flush(r);
	device_uses(r, 1, 10);
	device_uses(r, 1, 10);
	assert_int_equal(ring_take(r, done, 4), 1);
	assert_non_null(r->broken);
	assert_int_equal(ring_room(r), SIZE - 1);
}

/* The device can write to the descriptor table as well: nothing there is read back. */
static void a_rewritten_table_changes_nothing(void **state)
{
	struct fixture *f = *state;
	struct driver_ring *r = &f->ring;
	const struct driver_piece two[] = { { f->buffer, 10 }, { f->buffer, 10 } };
	struct driver_done done;

	assert_int_equal(ring_add(r, two, 0, 2, false, f), 0);
	ring_flush(r);
	memset(r->desc, 0xff, SIZE * sizeof(*r->desc));
	memset(r->avail->ring, 0xff, SIZE * sizeof(uint16_t));
	device_uses(r, 0, 20);
	assert_int_equal(ring_take(r, &done, 1), 1);
	assert_int_equal(ring_room(r), SIZE);
	for (unsigned i = 0; i < SIZE; i++)
		assert_in_range(ring_pop_free(r), 0, SIZE - 1);
}

/* num_buffers and lengths, which a device writes too. */
static void frames_are_checked_against_what_was_used(void **state)
{
	static const struct {
		uint16_t num_buffers;
		uint32_t len;
		bool mergeable;
		int rc;
	} cases[] = {
		{ 1, 60, true, 1 },	   { 0, 60, true, -EPROTO },
		{ 2, 60, true, -EPROTO },  { 0xffff, 60, true, -EPROTO },
		{ 1, 11, true, -EPROTO },  { 1, 0, true, -EPROTO },
		{ 1, 12, true, 1 },	   { 2, 60, false, -EPROTO },
		{ 0, 60, false, -EPROTO }, { 1, 60, false, 1 },
	};
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct driver d = { .hdr_len = 12, .mergeable = cases[i].mergeable, .rings = 2 };
		struct driver_frame frame;
		void *pool[SIZE];
		uint8_t to[8]; /* shorter than the frame: no byte more is written */

		tear_down(state);
		set_up(state);
		d.config.rx_buffer = 2048;
		d.ring = &f->ring;
		d.pool = &(struct driver_pool){ .free = pool };
		add_one(&f->ring, f->buffer, 2048, true, f->buffer);
		ring_flush(&f->ring);
		((struct virtio_net_hdr_mrg_rxbuf *)f->buffer)->num_buffers = cases[i].num_buffers;
		device_uses(&f->ring, 0, cases[i].len);
		assert_int_equal(driver_receive(&d, 0, to, sizeof(to), &frame), cases[i].rc);
		if (cases[i].rc == 1)
			assert_int_equal(frame.len, cases[i].len - 12);
		else
			assert_non_null(driver_broken(&d));
	}
}

/* 2.8.4: a used descriptor without the write flag has no length, whatever stands there. */
static void a_packed_length_counts_where_something_was_written(void **state)
{
	static const uint16_t used =
		1u << VRING_PACKED_DESC_F_AVAIL | 1u << VRING_PACKED_DESC_F_USED;
	struct fixture *f = *state;
	struct driver_ring r;
	struct driver_done done;

	assert_int_equal(ring_init(&r, &f->mem, SIZE / 2, true, false, false, 0), 0);
	for (unsigned i = 0; i < 2; i++) {
		add_one(&r, f->buffer, 100, i, f);
		ring_publish(&r);
		r.packed_desc[i].len = i ? 60 : 1000;
		r.packed_desc[i].flags = (uint16_t)(used | (i ? VRING_DESC_F_WRITE : 0));
		assert_int_equal(ring_take(&r, &done, 1), 1);
		assert_int_equal(done.len, i ? 60 : 0);
	}
	ring_destroy(&r);
}

/* One used entry for all chains in flight: the last one's, where the first was made available. */
static void device_uses_batch(struct driver_ring *r, unsigned chains, uint16_t last, uint32_t len)
{
	struct driver_place p = r->take;

	if (!r->packed) {
		r->used->ring[r->used->idx & r->mask] = (struct vring_used_elem){ last, len };
		r->used->idx += (uint16_t)chains;
		return;
	}
	r->packed_desc[p.slot].id = last;
	r->packed_desc[p.slot].len = len;
	r->packed_desc[p.slot].flags =
		(uint16_t)(VRING_DESC_F_WRITE | p.wrap << VRING_PACKED_DESC_F_AVAIL |
			   p.wrap << VRING_PACKED_DESC_F_USED);
}

/*
 * 2.7.9, 2.8.8: with in-order a device may tell of many chains by the last alone; the others are
 * used completely. It can be taken in parts.
 */
static void one_used_entry_tells_of_a_batch(void **state)
{
	struct fixture *f = *state;
	const struct driver_piece two[] = { { f->buffer, 10 }, { f->buffer, 10 } };

	for (unsigned packed = 0; packed < 2; packed++) {
		struct driver_ring r;

		assert_int_equal(ring_init(&r, &f->mem, packed ? SIZE - 1 : SIZE, packed, false,
					   false, 0),
				 0);
		r.in_order = true;
		for (unsigned round = 0; round < 1000; round++) {
			unsigned alone = round % 3, chains = alone + 2;
			uint16_t last = 0, used = (uint16_t)(r.used_next + chains);
			struct driver_done done[4];
			uint32_t base;

			for (unsigned i = 0; i < alone; i++)
				add_one(&r, f->buffer, 100 + i, true, f->buffer + i);
			assert_int_equal(ring_add(&r, two, 0, 2, false, f->buffer + alone), 0);
			last = r.free[r.free_first & r.mask];
			add_one(&r, f->buffer, 60, true, f);
			ring_publish(&r);
			assert_int_equal(ring_take(&r, done, 4), 0);
			device_uses_batch(&r, chains, last, 50);
			assert_int_equal(ring_used(&r, NULL), used);
			assert_int_equal(ring_take(&r, done, 1), 1);
			assert_ptr_equal(done[0].token, f->buffer);
			assert_int_equal(done[0].len, alone ? 100 : 20);
			assert_true(ring_pending(&r));
			assert_int_equal(ring_used(&r, &base), used);
			assert_int_equal(ring_take(&r, done, 4), chains - 1);
			for (unsigned i = 1; i < alone; i++)
				assert_int_equal(done[i - 1].len, 100 + i);
			assert_ptr_equal(done[chains - 2].token, f);
			assert_int_equal(done[chains - 2].len, 50);
			assert_false(ring_pending(&r));
			assert_int_equal(base, packed ? (r.take.slot | r.take.wrap << 15) * 0x10001u
						      : used);
			assert_int_equal(ring_room(&r), r.size);
			assert_int_equal(ring_outstanding(&r), 0);
			assert_null(r.broken);
		}
		ring_destroy(&r);
	}
}

/* What is told of a batch is believed no more than of a single chain. */
static void a_batch_that_ends_nowhere_breaks(void **state)
{
	struct fixture *f = *state;

	for (unsigned packed = 0; packed < 2; packed++) {
		static const struct {
			uint16_t last;
			uint32_t len;
		} lies[] = { { 2, 0 }, { SIZE, 0 }, { 0xffff, 0 }, { 1, 11 } };

		for (unsigned i = 0; i < ARRAY_SIZE(lies); i++) {
			struct driver_ring r;
			struct driver_done done[4];

			tear_down(state);
			set_up(state);
			assert_int_equal(ring_init(&r, &f->mem, SIZE / 2, packed, false, false, 0),
					 0);
			r.in_order = true;
			add_one(&r, f->buffer, 10, true, f);
			add_one(&r, f->buffer, 10, true, f);
			ring_publish(&r);
			device_uses_batch(&r, 2, lies[i].last, lies[i].len);
			assert_int_equal(ring_take(&r, done, 4), 0);
			assert_non_null(r.broken);
			assert_int_equal(ring_take(&r, done, 4), 0);
			ring_destroy(&r);
		}
	}
}

static void sizes_are_checked(void **state)
{
	struct fixture *f = *state;
	struct driver_ring r;

	assert_int_equal(ring_init(&r, &f->mem, 0, false, false, false, 0), -EINVAL);
	assert_int_equal(ring_init(&r, &f->mem, 3, false, false, false, 0), -EINVAL);
	assert_int_equal(ring_init(&r, &f->mem, 65536, false, false, false, 0), -EINVAL);
	assert_int_equal(ring_init(&r, &f->mem, 32768, false, false, false, 0), -ENOMEM);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(a_chain_is_written_as_specified),
		CASE(an_indirect_chain_takes_one_descriptor),
		CASE(a_full_ring_refuses_more),
		CASE(indexes_wrap),
		CASE(kicks_follow_the_flag),
		CASE(kicks_follow_the_event_index),
		CASE(calls_are_asked_for_and_not),
		CASE(used_id_outside_the_ring_breaks),
		CASE(used_id_far_outside_breaks),
		CASE(used_id_not_in_flight_breaks),
		CASE(used_id_inside_a_chain_breaks),
		CASE(used_length_beyond_the_buffer_breaks),
		CASE(used_length_beyond_the_chain_breaks),
		CASE(used_index_that_jumps_breaks),
		CASE(used_index_that_goes_back_breaks),
		CASE(a_repeated_id_breaks),
		CASE(a_rewritten_table_changes_nothing),
		CASE(frames_are_checked_against_what_was_used),
		CASE(a_packed_length_counts_where_something_was_written),
		CASE(one_used_entry_tells_of_a_batch),
		CASE(a_batch_that_ends_nowhere_breaks),
		CASE(sizes_are_checked),
	};

	return cmocka_run_group_tests_name("driver_ring", tests, NULL, NULL);
}
