// SPDX-License-Identifier: Apache-2.0
/*
 * Malformed chains: each costs its own chain, is returned with length 0 and counted by its name,
 * and the next hundred frames pass.
 */
#include "harness.h"

#include <string.h>
#include <unistd.h>

#define NEXT	 VRING_DESC_F_NEXT
#define WRITE	 VRING_DESC_F_WRITE
#define INDIRECT VRING_DESC_F_INDIRECT
#define EXTRA	 (5u << 20) /* bytes of guest memory to play with */
#define DESCS	 64
#define NOWHERE	 0x7000000000ull /* no region there */

/* What a bad chain is made of. */
struct scene {
	struct driver *d;
	struct driver_ring *tx;
	uint8_t *extra;
	uint64_t gpa;	 /* of `extra` */
	uint64_t end;	 /* of guest-physical memory */
	uint64_t border; /* where the second region begins */
	struct script_desc desc[DESCS];
	struct script_desc table[DESCS];
	unsigned n, tabled;
};

/* One descriptor of the ring; the list is chained as the flags say. */
static void put(struct scene *s, uint64_t addr, uint32_t len, uint16_t flags)
{
	s->desc[s->n++] = (struct script_desc){ addr, len, flags, SCRIPT_NEXT };
}

static void put_table(struct scene *s, uint64_t addr, uint32_t len, uint16_t flags)
{
	s->table[s->tabled++] = (struct script_desc){ addr, len, flags, SCRIPT_NEXT };
}

/* A descriptor that names the table, which is written to the start of `extra`. */
static void put_indirect(struct scene *s, uint32_t len, uint16_t flags)
{
	script_table(s->tx, (struct vring_desc *)s->extra, s->table, s->tabled);
	put(s, s->gpa, len, (uint16_t)(INDIRECT | flags));
}

static void good_table(struct scene *s)
{
	put_table(s, s->gpa + 4096, 12, NEXT);
	put_table(s, s->gpa + 8192, 60, 0);
}

static void loop_on_itself(struct scene *s)
{
	put(s, s->gpa, 100, NEXT);
	s->desc[0].next = s->tx->free[s->tx->free_first & s->tx->mask];
}

static void loop_of_two(struct scene *s)
{
	put(s, s->gpa, 100, NEXT);
	put(s, s->gpa, 100, NEXT);
	s->desc[1].next = s->tx->free[s->tx->free_first & s->tx->mask];
}

static void loop_of_nothing(struct scene *s)
{
	put(s, s->gpa, 0, NEXT);
	put(s, s->gpa, 0, NEXT);
	s->desc[1].next = s->tx->free[s->tx->free_first & s->tx->mask];
}

static void next_just_outside(struct scene *s)
{
	put(s, s->gpa, 100, NEXT);
	s->desc[0].next = s->tx->size;
}

static void next_far_outside(struct scene *s)
{
	put(s, s->gpa, 100, NEXT);
	s->desc[0].next = 0x8000;
}

static void writable(struct scene *s)
{
	put(s, s->gpa, 100, WRITE);
}

static void writable_behind_readable(struct scene *s)
{
	put(s, s->gpa, 100, NEXT);
	put(s, s->gpa, 100, WRITE);
}

static void readable_behind_writable(struct scene *s)
{
	put(s, s->gpa, 100, NEXT | WRITE);
	put(s, s->gpa, 100, 0);
}

static void table_of_nothing(struct scene *s)
{
	good_table(s);
	put_indirect(s, 0, 0);
}

static void table_of_odd_length(struct scene *s)
{
	good_table(s);
	put_indirect(s, 31, 0);
}

static void table_of_half_a_descriptor(struct scene *s)
{
	good_table(s);
	put_indirect(s, 8, 0);
}

static void table_with_next(struct scene *s)
{
	good_table(s);
	put_indirect(s, 32, NEXT);
	put(s, s->gpa + 4096, 60, 0);
}

static void table_with_next_in_the_middle(struct scene *s)
{
	good_table(s);
	put(s, s->gpa + 4096, 72, NEXT);
	put_indirect(s, 32, NEXT);
	put(s, s->gpa + 4096, 60, 0);
}

static void table_in_a_table(struct scene *s)
{
	put_table(s, s->gpa + 4096, 32, INDIRECT);
	put_indirect(s, 16, 0);
}

static void table_that_leaves_itself(struct scene *s)
{
	good_table(s);
	s->table[0].next = 2;
	put_indirect(s, 32, 0);
}

static void table_that_loops(struct scene *s)
{
	good_table(s);
	s->table[1].flags = NEXT;
	s->table[1].next = 0;
	put_indirect(s, 32, 0);
}

static void table_with_writable(struct scene *s)
{
	good_table(s);
	s->table[1].flags = WRITE;
	put_indirect(s, 32, 0);
}

static void table_outside_memory(struct scene *s)
{
	put(s, NOWHERE, 32, INDIRECT);
}

static void table_over_the_end(struct scene *s)
{
	put(s, s->end - 16, 32, INDIRECT);
}

/* A table must lie in one region: here it runs on into the next (CVE-2018-1059). */
static void table_over_a_border(struct scene *s)
{
	put(s, s->border - 16, 32, INDIRECT);
}

static void table_of_enormous_length(struct scene *s)
{
	put(s, s->gpa, 0xfffffff0, INDIRECT);
}

static void outside_memory(struct scene *s)
{
	put(s, NOWHERE, 100, 0);
}

static void second_outside_memory(struct scene *s)
{
	put(s, s->gpa, 100, NEXT);
	put(s, NOWHERE, 100, 0);
}

static void over_the_end(struct scene *s)
{
	put(s, s->end - 50, 100, 0);
}

static void over_the_end_far(struct scene *s)
{
	put(s, s->end - 50, 0xffffffff, 0);
}

static void beyond_the_end(struct scene *s)
{
	put(s, s->end, 100, 0);
}

static void address_wraps(struct scene *s)
{
	put(s, UINT64_MAX - 10, 100, 0);
}

static void address_is_the_last(struct scene *s)
{
	put(s, UINT64_MAX, 1, 0);
}

/* CVE-2020-10725: the address is not looked at when nothing is there. */
static void nothing_nowhere(struct scene *s)
{
	put(s, NOWHERE, 0, 0);
}

static void header_nowhere(struct scene *s)
{
	put(s, NOWHERE, 12, NEXT);
	put(s, s->gpa, 60, 0);
}

static void nothing(struct scene *s)
{
	put(s, s->gpa, 0, 0);
}

static void less_than_a_header(struct scene *s)
{
	put(s, s->gpa, 11, 0);
}

static void less_than_a_header_in_pieces(struct scene *s)
{
	for (unsigned i = 0; i < 11; i++)
		put(s, s->gpa + i, 1, i < 10 ? NEXT : 0);
}

static void header_alone(struct scene *s)
{
	memset(s->extra, 0, 12);
	put(s, s->gpa, 12, 0);
}

static void header_and_thirteen(struct scene *s)
{
	memset(s->extra, 0, 64);
	put(s, s->gpa, 12, NEXT);
	put(s, s->gpa + 12, 13, 0);
}

static void longer_than_any_frame(struct scene *s)
{
	memset(s->extra, 0, 64);
	put(s, s->gpa, 12 + 65535 + 14 + 8 + 1, 0);
}

static void longest_descriptor(struct scene *s)
{
	memset(s->extra, 0, 64);
	for (unsigned i = 0; i < 60; i++)
		put(s, s->gpa, 4u << 20, i < 59 ? NEXT : 0);
}

struct fault {
	const char *drop;
	void (*make)(struct scene *s);
};

static const struct fault faults[] = {
	{ "chain_direction", writable },
	{ "chain_direction", writable_behind_readable },
	{ "chain_direction", readable_behind_writable },
	{ "chain_indirect", table_of_nothing },
	{ "chain_indirect", table_of_odd_length },
	{ "chain_indirect", table_of_half_a_descriptor },
	{ "chain_indirect", table_with_next },
	{ "chain_indirect", table_with_next_in_the_middle },
	{ "chain_indirect", table_in_a_table },
	{ "memory", table_outside_memory },
	{ "memory", table_over_the_end },
	{ "memory", table_over_a_border },
	{ "memory", table_of_enormous_length },
	{ "memory", outside_memory },
	{ "memory", second_outside_memory },
	{ "memory", over_the_end },
	{ "memory", over_the_end_far },
	{ "memory", beyond_the_end },
	{ "memory", address_wraps },
	{ "memory", address_is_the_last },
	{ "memory", header_nowhere },
	{ "header_short", nothing },
	{ "header_short", nothing_nowhere },
	{ "header_short", less_than_a_header },
	{ "header_short", less_than_a_header_in_pieces },
	{ "frame_short", header_alone },
	{ "frame_short", header_and_thirteen },
	{ "frame_long", longer_than_any_frame },
	{ "frame_long", longest_descriptor },
	/* What follows is about `next`, which packed rings do not have, or forgiven there. */
	{ "chain_direction", table_with_writable },
	{ "chain_loop", loop_on_itself },
	{ "chain_loop", loop_of_two },
	{ "chain_loop", loop_of_nothing },
	{ "chain_next", next_just_outside },
	{ "chain_next", next_far_outside },
	{ "chain_next", table_that_leaves_itself },
	{ "chain_loop", table_that_loops },
};

#define SPLIT_ONLY 8

/* All of a table of the packed format is its chain, and its length is looked at first. */
static const char *drop_of(const struct fault *fault)
{
	return rig_packed() && fault->make == table_of_enormous_length ? "chain_pieces"
								       : fault->drop;
}

static size_t fault_count(void)
{
	return ARRAY_SIZE(faults) - (rig_packed() ? SPLIT_ONLY : 0);
}

static void scene_open(struct rig *rig, struct scene *s, uint64_t features)
{
	struct driver_config c = {
		.features = features, .regions = 2, .gpa = 0x100000, .extra = 2 * EXTRA
	};

	memset(s, 0, sizeof(*s));
	s->d = rig_open(rig, 0, &c);
	s->tx = &s->d->ring[DRIVER_TX(0)];
	s->border = s->d->mem.region[1].gpa;
	s->extra = driver_memory_alloc(&s->d->mem, EXTRA, 4096);
	assert_non_null(s->extra);
	s->gpa = driver_memory_gpa(&s->d->mem, s->extra);
	s->end = s->d->mem.gpa + s->d->mem.size;
}

/* Sends the scene's chain, which must come back empty and be counted as `drop`. */
static void expect(struct rig *rig, struct scene *s, const char *drop)
{
	uint64_t before = rig_dropped(rig, 0, drop);
	struct driver_done done;

	driver_reclaim(s->d, 0);
	assert_true(script_chain(s->tx, s->desc, s->n, 0, s, NULL) >= 0);
	ring_flush(s->tx);
	assert_true(script_wait_idle(s->tx, 1000));
	assert_int_equal(ring_take(s->tx, &done, 1), 1);
	assert_ptr_equal(done.token, s);
	assert_int_equal(done.len, 0);
	rig_assert_dropped(rig, 0, drop, before + 1);
	s->n = s->tabled = 0;
}

/* Clauses: 2.7.5.2a, 2.7.5.3.1a */
static void each_costs_its_own_chain_only(void **state)
{
	struct driver *b = rig_open(*state, 1, NULL);
	struct scene s;

	scene_open(*state, &s, 0);
	for (unsigned i = 0; i < fault_count(); i++) {
		struct stream good = { .from = s.d, .to = b };

		faults[i].make(&s);
		expect(*state, &s, drop_of(&faults[i]));
		stream_both(&good);
	}
	driver_close(s.d);
	driver_close(b);
}

/* Good and bad mixed in one burst: the good ones arrive in order. */
static void bad_among_good_in_one_burst(void **state)
{
	struct driver *b = rig_open(*state, 1, NULL);
	struct scene s;
	uint8_t frame[100];

	scene_open(*state, &s, 0);
	for (unsigned round = 0; round < 4; round++) {
		unsigned sent = 0;

		driver_reclaim(s.d, 0);
		for (unsigned i = 0; i < fault_count(); i++) {
			/* Tables and headers of all would lie in one place; these need none. */
			if (strcmp(faults[i].drop, "memory") &&
			    strcmp(faults[i].drop, "chain_next"))
				continue;
			frame_make(frame, sizeof(frame), 0, 1, sent++);
			assert_int_equal(driver_send(s.d, 0, NULL, frame, sizeof(frame), NULL), 0);
			faults[i].make(&s);
			assert_true(script_chain(s.tx, s.desc, s.n, 0, s.extra, NULL) >= 0);
			s.n = s.tabled = 0;
		}
		ring_flush(s.tx);
		for (unsigned i = 0; i < sent; i++)
			assert_true(receive_one(b, 0, 1, sizeof(frame), i, 1000));
		assert_true(script_wait_idle(s.tx, 1000));
		for (struct driver_done done; ring_take(s.tx, &done, 1);) {
			if (done.token != s.extra)
				s.d->pool[DRIVER_TX(0)].free[s.d->pool[DRIVER_TX(0)].n++] =
					done.token;
		}
	}
	assert_null(driver_broken(s.d));
	driver_close(s.d);
	driver_close(b);
}

/* cloud-hypervisor#1218: an indirect table from a driver that did not agree to them. */
/* Clauses: 2.7.5.3.1a */
static void indirect_without_agreement_is_refused(void **state)
{
	struct driver *b = rig_open(*state, 1, NULL);
	struct stream good = { .to = b };
	struct scene s;

	scene_open(*state, &s, driver_features_default() & ~BIT(VIRTIO_RING_F_INDIRECT_DESC));
	good_table(&s);
	put_indirect(&s, 32, 0);
	expect(*state, &s, "chain_indirect");
	good.from = s.d;
	stream_both(&good);
	driver_close(s.d);
	driver_close(b);
}

/* 2.7.5.3.2: normal descriptors may go before it; so this one is good. */
/* Clauses: 2.7.5.3.2b */
static void a_table_may_end_a_chain(void **state)
{
	struct driver *b = rig_open(*state, 1, NULL);
	struct driver_done done;
	struct scene s;

	scene_open(*state, &s, 0);
	memset(s.extra + 4096, 0, 12);
	frame_make(s.extra + 4096 + 12, 500, 0, 1, 3);
	put_table(&s, s.gpa + 4096 + 20, 100, NEXT);
	put_table(&s, s.gpa + 4096 + 120, 392, 0);
	put(&s, s.gpa + 4096, 5, NEXT);
	put(&s, s.gpa + 4096 + 5, 15, NEXT);
	put_indirect(&s, 32, 0);
	driver_reclaim(s.d, 0);
	assert_true(script_chain(s.tx, s.desc, s.n, 0, NULL, NULL) >= 0);
	ring_flush(s.tx);
	assert_true(receive_one(b, 0, 1, 500, 3, 1000));
	assert_true(script_wait_idle(s.tx, 1000));
	assert_int_equal(ring_take(s.tx, &done, 1), 1);
	driver_close(s.d);
	driver_close(b);
}

/* An id means nothing to the device: no number is too large to be given back (SPDK#3860). */
static void assert_id_returned(struct driver *d, uint16_t id)
{
	struct driver_ring *tx = &d->ring[DRIVER_TX(0)];
	const struct vring_packed_desc *desc = &tx->packed_desc[tx->add.slot];

	driver_reclaim(d, 0);
	packed_put(tx, ring_gpa(tx, d->mem.base), 60, id, 0);
	tx->avail_next++;
	ring_flush(tx);
	for (unsigned i = 0; i < 1000 && !packed_pending(tx); i++)
		usleep(1000);
	assert_true(packed_pending(tx));
	assert_int_equal(load_relaxed(&desc->id), id);
	/* Taken by hand: this driver would not believe it. */
	packed_step(tx, &tx->take, 1);
	tx->room++;
	tx->used_next++;
}

/* Such a head names nothing that could be returned; what follows passes. */
static void heads_and_ids_outside_the_ring_harm_nothing(void **state)
{
	const uint16_t heads[] = { 256, 257, 0x7fff, 0x8000, 0xffff };
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	struct stream good = { .from = a, .to = b };

	for (unsigned i = 0; i < ARRAY_SIZE(heads); i++) {
		if (rig_packed()) {
			assert_id_returned(a, heads[i]);
		} else {
			script_avail(&a->ring[DRIVER_TX(0)], heads[i]);
			driver_flush(a, DRIVER_TX(0));
			rig_assert_dropped(*state, 0, "chain_head", i + 1);
		}
		stream_both(&good);
	}
	driver_close(a);
	driver_close(b);
}

/* DPDK's driver has WRITE in all packed tables, of what it sends too. */
static void only_packed_tables_of_what_is_sent_may_say_writable(void **state)
{
	struct driver *b = rig_open(*state, 1, NULL);
	struct rig_counters before, after;
	struct scene s;

	scene_open(*state, &s, 0);
	before = rig_counters(*state, 0, 1);
	table_with_writable(&s);
	s.table[0].flags |= WRITE;
	assert_true(script_chain(s.tx, s.desc, s.n, 0, &s, NULL) >= 0);
	ring_flush(s.tx);
	assert_true(script_wait_idle(s.tx, 1000));
	after = rig_counters(*state, 0, 1);
	assert_int_equal(after.sent, before.sent + rig_packed());
	assert_int_equal(after.dropped, before.dropped + !rig_packed());
	driver_close(b);
	driver_close(s.d);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		CASE(each_costs_its_own_chain_only),
		CASE(bad_among_good_in_one_burst),
		CASE(indirect_without_agreement_is_refused),
		CASE(a_table_may_end_a_chain),
		CASE(only_packed_tables_of_what_is_sent_may_say_writable),
		CASE(heads_and_ids_outside_the_ring_harm_nothing),
	};

	return rig_run("chains", tests, ARRAY_SIZE(tests), 0);
}
