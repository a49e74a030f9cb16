// SPDX-License-Identifier: Apache-2.0
/*
 * Packed rings of a hostile guest: descriptors, ids, flags and wrap bits of any content, written at
 * any time. Whatever comes of it is that guest's alone.
 */
#include "harness.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"

#define ATTACK_MS 2000
#define SIZE	  64u
#define PLACE	  2048u
#define PLACES	  64u

static struct driver_config packed_config(void)
{
	return (struct driver_config){
		.ring_size = SIZE, .features = driver_features_default() | BIT(VIRTIO_F_RING_PACKED)
	};
}

static uint32_t over;

/* Most of it looks like something: in memory, long enough, available. */
static void scribble(struct driver_ring *r, uint8_t *places, unsigned *seed)
{
	struct vring_packed_desc *desc = &r->packed_desc[(unsigned)rand_r(seed) % SIZE];
	uint64_t at = ring_gpa(r, places + (unsigned)rand_r(seed) % PLACES * PLACE);
	unsigned kind = (unsigned)rand_r(seed);

	desc->addr = kind & 7 ? at : (uint64_t)rand_r(seed) << 33;
	desc->len = kind & 8 ? 64 + (unsigned)rand_r(seed) % 1900 : (unsigned)rand_r(seed) | 64;
	desc->id = (uint16_t)rand_r(seed);
	/* A table there would be anything, and its frames for anybody. */
	store_release(&desc->flags, (uint16_t)(rand_r(seed) & ~VRING_DESC_F_INDIRECT));
	r->driver_event->off_wrap = (uint16_t)rand_r(seed);
	r->driver_event->flags = (uint16_t)(rand_r(seed) % 4);
}

static void *scribble_all(void *arg)
{
	struct driver *d = arg;
	uint8_t *places = driver_memory_alloc(&d->mem, (size_t)2 * PLACES * PLACE, 4096);
	unsigned seed = 1;

	/* What it sends is for itself, from wherever it is sent: the others are to be left alone.
	 */
	for (unsigned i = 0; i < PLACES; i++)
		frame_make(places + i * PLACE + 12, 1500, 2, 2, i);
	for (unsigned i = 0; !load_relaxed(&over); i++) {
		scribble(&d->ring[DRIVER_TX(0)], places, &seed);
		scribble(&d->ring[DRIVER_RX(0)], places + (size_t)PLACES * PLACE, &seed);
		if (i % 64 == 0)
			ring_kick(&d->ring[DRIVER_TX(0)]);
	}
	return NULL;
}

static void rings_are_overwritten_without_end(void **state)
{
	struct driver_config packed = packed_config();
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, &packed), *c;
	struct stream good = { .from = a, .to = b, .count = 500 };
	uint64_t end = clock_ns() + ATTACK_MS * 1000000ull;
	pthread_t thread;

	assert_passes(a, b); /* each is known, so that nobody else gets what is for it */
	packed.extra = (size_t)2 * PLACES * PLACE + 4096;
	c = rig_open(*state, 2, &packed);
	send_one(c, 2, 0, 60, 1);
	assert_true(receive_one(a, 2, 0, 60, 1, 1000));
	over = 0;
	pthread_create(&thread, NULL, scribble_all, c);
	while (clock_ns() < end) {
		stream_both(&good);
		for (unsigned i = 0; i < 64; i++)
			send_one(a, 0, 2, 60 + i, i);
	}
	store_relaxed(&over, 1u);
	pthread_join(thread, NULL);
	stream_both(&good);
	driver_close(a);
	driver_close(b);
	driver_close(c);
	rig_assert_alive(*state);
}

/* Each descriptor says that another follows: where the next chain begins cannot be known. */
/* Clauses: 2.8.6b */
static void a_chain_without_an_end_breaks_its_ring(void **state)
{
	struct driver_config packed = packed_config();
	struct driver *a = rig_open(*state, 0, &packed), *b = rig_open(*state, 1, NULL);
	struct driver_ring *tx = &a->ring[DRIVER_TX(0)];
	struct stream good = {
		.from = b, .to = rig_open(*state, 2, NULL), .from_port = 1, .to_port = 2
	};

	script_avail_nonsense(tx);
	rig_wait_state(*state, 0, "broken");
	stream_run(&good);
	driver_close(a);
	a = rig_open(*state, 0, &packed);
	assert_passes(a, b);
	driver_close(a);
	driver_close(b);
	driver_close(good.to);
}

/* 2.8.7: a table is all of its chain, and its length is its descriptors. */
/* Clauses: 2.8.7b */
static void tables_of_any_length_are_bounded(void **state)
{
	static const uint32_t lengths[] = { 0, 1, 15, 17, 16 * 2050, 16u << 24, UINT32_MAX & ~15u };
	struct driver_config packed = packed_config();
	struct driver *a, *b;
	struct driver_ring *tx;

	packed.extra = 1u << 20;
	a = rig_open(*state, 0, &packed);
	b = rig_open(*state, 1, NULL);
	tx = &a->ring[DRIVER_TX(0)];
	for (unsigned i = 0; i < ARRAY_SIZE(lengths); i++) {
		uint16_t id = ring_pop_free(tx);

		packed_put(tx, ring_gpa(tx, driver_memory_alloc(&a->mem, 64, 64)), lengths[i], id,
			   VRING_DESC_F_INDIRECT);
		tx->slot[id] = (struct driver_slot){ .count = 1 };
		tx->avail_next++;
		ring_flush(tx);
		assert_true(script_wait_idle(tx, 1000));
	}
	assert_int_equal(rig_dropped(*state, 0, "chain_indirect") +
				 rig_dropped(*state, 0, "chain_pieces") +
				 rig_dropped(*state, 0, "memory"),
			 ARRAY_SIZE(lengths));
	driver_close(a);
	driver_close(b);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		CASE(rings_are_overwritten_without_end),
		CASE(a_chain_without_an_end_breaks_its_ring),
		CASE(tables_of_any_length_are_bounded),
	};

	return cmocka_run_group_tests_name("packed", tests, NULL, NULL);
}
