// SPDX-License-Identifier: Apache-2.0
/*
 * A guest that makes chains which there cannot be. What becomes of the ring is the back-end's
 * choice: the connection may end, the chain may come back or not. But what it says must be true,
 * and it serves whoever comes next, which is looked at after each case.
 */
#include "conform/cases.h"

#include <stdio.h>
#include <unistd.h>

#define NEXT	 VRING_DESC_F_NEXT
#define WRITE	 VRING_DESC_F_WRITE
#define INDIRECT VRING_DESC_F_INDIRECT
#define EXTRA	 (1u << 20)
#define NOWHERE	 0x7000000000ull /* no region there */
#define REACT_MS 50
#define HERE	 0x1000000000ull /* in `addr`: counts from the scene's own memory */
#define END	 0x2000000000ull /* from the end of guest memory */

/*
 * A chain: `n` descriptors of the ring, where a `next` below 4 means one of them, and a table,
 * which an address of HERE names.
 */
struct fault {
	const char *name;
	unsigned n;
	struct script_desc desc[4], table[4];
	unsigned tabled;
};

struct scene {
	struct driver *d;
	struct driver_ring *r;
	uint8_t *extra;
};

static int open_scene(struct kit *k, struct scene *s)
{
	const struct driver_config c = {
		.regions = 2, .gpa = 0x100000, .extra = 4 * EXTRA, .quirks = DRIVER_NO_RX_BUFFERS
	};
	int rc = kit_open(k, 0, &c, &s->d);

	if (rc)
		return rc;
	s->r = &s->d->ring[DRIVER_TX(0)];
	s->extra = driver_memory_alloc(&s->d->mem, EXTRA, 4096);
	/* So that the ring is looked at when the chain comes. */
	return s->extra ? kit_pump(k, s->d, 0, 1) : kit_fail(k, "no memory");
}

/* Time to react, and a word about what it says in the ring. */
static int look(struct kit *k, struct scene *s)
{
	struct driver_done done;

	script_wait_idle(s->r, REACT_MS);
	while (ring_take(s->r, &done, 1))
		;
	return s->r->broken ? kit_fail(k, "%s", s->r->broken) : CONFORM_PASSED;
}

static uint64_t place(const struct scene *s, uint64_t addr)
{
	uint64_t here = driver_memory_gpa(&s->d->mem, s->extra);

	if (addr >= END && addr < END + HERE)
		return s->d->mem.gpa + s->d->mem.size + (addr - END) - EXTRA;
	return addr >= HERE && addr < END ? here + addr - HERE : addr;
}

static int attack(struct kit *k, const struct fault *fault)
{
	struct script_desc desc[4], table[4];
	struct scene s;
	int rc;

	k->doing = fault->name;
	rc = open_scene(k, &s);
	if (rc)
		return rc;
	for (unsigned i = 0; i < 4; i++) {
		desc[i] = fault->desc[i];
		desc[i].addr = place(&s, desc[i].addr);
		if (desc[i].next < 4)
			desc[i].next =
				s.r->free[(uint16_t)(s.r->free_first + desc[i].next) & s.r->mask];
		table[i] = fault->table[i];
		table[i].addr = place(&s, table[i].addr);
	}
	script_table(s.r, (struct vring_desc *)s.extra, table, fault->tabled);
	script_chain(s.r, desc, fault->n, 0, NULL, NULL);
	ring_publish(s.r);
	ring_kick(s.r);
	rc = look(k, &s);
	kit_hang_up(k);
	return rc;
}

static int attack_all(struct kit *k, const struct fault *faults, unsigned n)
{
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < n && !rc; i++)
		rc = attack(k, &faults[i]);
	return rc;
}

/* Clauses: 2.7.5.2a */
int case_loops(struct kit *k)
{
	static const struct fault faults[] = {
		{ "on itself", 1, { { HERE, 100, NEXT, 0 } }, { { 0 } }, 0 },
		{ "of two", 2, { { HERE, 100, NEXT, 1 }, { HERE, 100, NEXT, 0 } }, { { 0 } }, 0 },
		{ "of nothing", 2, { { HERE, 0, NEXT, 1 }, { HERE, 0, NEXT, 0 } }, { { 0 } }, 0 },
		{ "in a table",
		  1,
		  { { HERE, 32, INDIRECT, 0 } },
		  { { HERE + 4096, 12, NEXT, 1 }, { HERE + 4096, 60, NEXT, 0 } },
		  2 },
	};

	return attack_all(k, faults, ARRAY_SIZE(faults));
}

/* Clauses: 2.7.5.2a */
int case_next_outside(struct kit *k)
{
	static const struct fault faults[] = {
		{ "the ring's size", 1, { { HERE, 100, NEXT, 256 } }, { { 0 } }, 0 },
		{ "far", 1, { { HERE, 100, NEXT, 0x8000 } }, { { 0 } }, 0 },
		{ "of a table",
		  1,
		  { { HERE, 32, INDIRECT, 0 } },
		  { { HERE + 4096, 12, NEXT, 2 }, { HERE + 4096, 60, 0, 0 } },
		  2 },
	};

	return attack_all(k, faults, ARRAY_SIZE(faults));
}

/* On either format: an address is one of ring_add()'s, whatever it points to. */
static int add_wild(struct kit *k, uint64_t first, uint32_t first_len, uint64_t second,
		    uint32_t second_len, const char *name)
{
	struct driver_piece pieces[2];
	struct scene s;
	int rc;

	k->doing = name;
	rc = open_scene(k, &s);
	if (rc)
		return rc;
	pieces[0] = (struct driver_piece){ (void *)(uintptr_t)(place(&s, first) - s.r->to_gpa),
					   first_len };
	pieces[1] = (struct driver_piece){ (void *)(uintptr_t)(place(&s, second) - s.r->to_gpa),
					   second_len };
	ring_add(s.r, pieces, second_len ? 2 : 1, 0, false, NULL);
	ring_publish(s.r);
	ring_kick(s.r);
	rc = look(k, &s);
	kit_hang_up(k);
	return rc;
}

struct wild {
	const char *name;
	uint64_t first;
	uint32_t first_len;
	uint64_t second;
	uint32_t second_len;
};

static int add_all_wild(struct kit *k, const struct wild *w, unsigned n)
{
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < n && !rc; i++)
		rc = add_wild(k, w[i].first, w[i].first_len, w[i].second, w[i].second_len,
			      w[i].name);
	return rc;
}

int case_outside_memory(struct kit *k)
{
	static const struct wild wild[] = {
		{ "all of it", NOWHERE, 100, 0, 0 },
		{ "the frame", HERE, 12, NOWHERE, 60 },
		{ "the header", NOWHERE, 12, HERE, 60 },
		{ "over the end", END + EXTRA - 50, 100, 0, 0 },
		{ "over the end, 4 GiB", END + EXTRA - 50, UINT32_MAX, 0, 0 },
		{ "from the end on", END + EXTRA, 100, 0, 0 },
		{ "over the end of all addresses", UINT64_MAX - 10, 100, 0, 0 },
		{ "the last address", UINT64_MAX, 1, 0, 0 },
	};

	return add_all_wild(k, wild, ARRAY_SIZE(wild));
}

int case_lengths(struct kit *k)
{
	static const struct wild wild[] = {
		{ "nothing at all", HERE, 0, 0, 0 },
		{ "nothing, nowhere", NOWHERE, 0, 0, 0 },
		{ "less than a header", HERE, 11, 0, 0 },
		{ "a header alone", HERE, 12, 0, 0 },
		{ "a frame of 13 bytes", HERE, 25, 0, 0 },
		{ "longer than any frame", HERE, 12 + 65535 + 100, 0, 0 },
		{ "a megabyte", HERE, EXTRA, 0, 0 },
		{ "two megabytes", HERE, EXTRA, HERE, EXTRA },
	};

	return add_all_wild(k, wild, ARRAY_SIZE(wild));
}

int case_direction(struct kit *k)
{
	static const struct fault faults[] = {
		{ "writable", 1, { { HERE, 100, WRITE, 0 } }, { { 0 } }, 0 },
		{ "writable behind readable",
		  2,
		  { { HERE, 100, NEXT, 1 }, { HERE, 100, WRITE, 0 } },
		  { { 0 } },
		  0 },
		{ "readable behind writable",
		  2,
		  { { HERE, 100, NEXT | WRITE, 1 }, { HERE, 100, 0, 0 } },
		  { { 0 } },
		  0 },
		{ "in a table",
		  1,
		  { { HERE, 32, INDIRECT, 0 } },
		  { { HERE + 4096, 12, NEXT, 1 }, { HERE + 4096, 60, WRITE, 0 } },
		  2 },
	};

	return attack_all(k, faults, ARRAY_SIZE(faults));
}

#define GOOD_TABLE { { HERE + 4096, 12, NEXT, 1 }, { HERE + 8192, 60, 0, 0 } }, 2

/* Clauses: 2.7.5.3.1a */
int case_tables(struct kit *k)
{
	static const struct fault faults[] = {
		{ "of nothing", 1, { { HERE, 0, INDIRECT, 0 } }, GOOD_TABLE },
		{ "of odd length", 1, { { HERE, 31, INDIRECT, 0 } }, GOOD_TABLE },
		{ "of half a descriptor", 1, { { HERE, 8, INDIRECT, 0 } }, GOOD_TABLE },
		{ "with another descriptor behind it",
		  2,
		  { { HERE, 32, INDIRECT | NEXT, 1 }, { HERE + 4096, 60, 0, 0 } },
		  GOOD_TABLE },
		{ "in a table",
		  1,
		  { { HERE, 16, INDIRECT, 0 } },
		  { { HERE, 16, INDIRECT, 0 } },
		  1 },
		{ "nowhere", 1, { { NOWHERE, 32, INDIRECT, 0 } }, { { 0 } }, 0 },
		{ "over the end", 1, { { END + EXTRA - 16, 32, INDIRECT, 0 } }, { { 0 } }, 0 },
		{ "of 4 GiB", 1, { { HERE, 0xfffffff0, INDIRECT, 0 } }, GOOD_TABLE },
		{ "of a megabyte, all of it the same",
		  1,
		  { { HERE, EXTRA, INDIRECT, 0 } },
		  { { HERE, 0, NEXT, 0 } },
		  1 },
	};

	return attack_all(k, faults, ARRAY_SIZE(faults));
}

/* Checksums and segments where there can be none; the features for them are agreed to. */
int case_headers_lie(struct kit *k)
{
	static const struct virtio_net_hdr bad[] = {
		{ .flags = 1, .csum_start = 99 },
		{ .flags = 1, .csum_start = 0xffff },
		{ .flags = 1, .csum_start = 50, .csum_offset = 49 },
		{ .flags = 1, .csum_start = 50, .csum_offset = 0xffff },
		{ .flags = 1, .csum_start = 0xffff, .csum_offset = 0xffff },
		{ .flags = 1, .csum_start = 34, .csum_offset = 16, .gso_type = 1 },
		{ .flags = 1, .csum_start = 34, .csum_offset = 16, .gso_type = 1, .gso_size = 1 },
		{ .flags = 1, .csum_start = 34, .csum_offset = 16, .gso_type = 7, .gso_size = 9 },
		{ .flags = 1, .csum_start = 34, .csum_offset = 16, .gso_type = 3, .gso_size = 9 },
		{ .flags = 1, .csum_start = 34, .csum_offset = 6, .gso_type = 5, .gso_size = 9 },
		{ .flags = 1, .csum_start = 34, .csum_offset = 16, .gso_type = 0x80 },
		{ .flags = 0, .gso_type = 1, .gso_size = 1000, .hdr_len = 54 },
		{ .flags = 1,
		  .csum_start = 34,
		  .csum_offset = 16,
		  .gso_type = 4,
		  .gso_size = 0xffff },
		{ .flags = 0xff, .gso_type = 0xff, .hdr_len = 0xffff, .gso_size = 0xffff },
	};
	const struct driver_config c = { .features = driver_features_default() |
						     BIT(VIRTIO_NET_F_CSUM) |
						     BIT(VIRTIO_NET_F_HOST_TSO4) |
						     BIT(VIRTIO_NET_F_HOST_TSO6) };
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < 2 * ARRAY_SIZE(bad) && !rc; i++) {
		uint8_t frame[100];
		struct driver *d;

		rc = kit_open(k, 0, &c, &d);
		if (rc)
			break;
		kit_frame(k, frame, sizeof(frame), 0, 1);
		if (i % 2) { /* the beginning of TCP in IPv4, so that it is looked at further */
			frame[12] = 8;
			frame[13] = 0;
			frame[14] = i % 4 == 1 ? 0x45 : 0x4f;
			frame[23] = 6;
			frame[46] = 0xf0;
		}
		driver_send(d, 0, &bad[i / 2], frame, sizeof(frame), NULL);
		driver_flush(d, DRIVER_TX(0));
		rc = kit_drain(k, d, DRIVER_TX(0));
		kit_hang_up(k);
	}
	return rc;
}

/* Rx buffers that are none; frames are sent towards them from the other port. */
static int rx_attack(struct kit *k, const struct script_desc *descs, unsigned n)
{
	const struct driver_config c = { .quirks = DRIVER_NO_RX_BUFFERS, .extra = EXTRA };
	struct script_desc chain[2];
	struct kit_traffic t;
	struct driver *d;
	struct scene s;
	int rc = kit_open_both(k, NULL, NULL, &t); /* so that frames pass */

	if (rc)
		return rc;
	kit_hang_up(k);
	rc = kit_open(k, 0, NULL, &d);
	if (!rc)
		rc = kit_open(k, 1, &c, &s.d);
	if (rc)
		return rc;
	s.r = &s.d->ring[DRIVER_RX(0)];
	s.extra = driver_memory_alloc(&s.d->mem, 4096, 64);
	for (unsigned i = 0; i < n; i++) {
		chain[i] = descs[i];
		chain[i].addr = place(&s, chain[i].addr);
	}
	for (unsigned i = 0; i < 64; i++)
		script_chain(s.r, chain, n, 4096, NULL, NULL);
	ring_publish(s.r);
	ring_kick(s.r);
	for (unsigned i = 0; i < 20 && !rc; i++) {
		rc = kit_pump(k, d, 0, 2);
		usleep(REACT_MS * 100);
	}
	if (!rc)
		rc = look(k, &s);
	kit_hang_up(k);
	return rc;
}

int case_rx_chains(struct kit *k)
{
	static const struct {
		const char *name;
		unsigned n;
		struct script_desc desc[2];
	} bad[] = {
		{ "readable", 1, { { HERE, 2048, 0, 0 } } },
		{ "outside memory", 1, { { NOWHERE, 2048, WRITE, 0 } } },
		{ "the second outside memory",
		  2,
		  { { HERE, 12, NEXT | WRITE, SCRIPT_NEXT }, { NOWHERE, 2000, WRITE, 0 } } },
		{ "over the end of addresses", 1, { { UINT64_MAX - 5, 2048, WRITE, 0 } } },
		{ "a loop", 1, { { HERE, 8, NEXT | WRITE, 0 } } },
		{ "next outside the ring", 1, { { HERE, 8, NEXT | WRITE, 256 } } },
	};
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < ARRAY_SIZE(bad) && !rc; i++) {
		k->doing = bad[i].name;
		rc = rx_attack(k, bad[i].desc, bad[i].n);
	}
	return rc;
}

/* Clauses: 5.1.6.3.1a */
int case_rx_small(struct kit *k)
{
	static const uint32_t lens[] = { 0, 1, 11, 12, 13, 60 };
	static char doing[32];
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < ARRAY_SIZE(lens) && !rc; i++) {
		const struct script_desc d = { HERE, lens[i], WRITE, 0 };

		snprintf(doing, sizeof(doing), "of %u bytes", lens[i]);
		k->doing = doing;
		rc = rx_attack(k, &d, 1);
	}
	return rc;
}

int case_heads_outside(struct kit *k)
{
	static const uint16_t heads[] = { 256, 257, 0x7fff, 0xffff };
	struct driver *d;
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < ARRAY_SIZE(heads) && !rc; i++) {
		struct driver_ring *tx;

		rc = kit_open_running(k, NULL, &d);
		if (rc)
			return rc;
		tx = &d->ring[DRIVER_TX(0)];
		script_avail(tx, heads[i]);
		script_avail_index(tx, tx->avail_next);
		usleep(REACT_MS * 1000);
		kit_hang_up(k);
	}
	return rc;
}

int case_index_jumps(struct kit *k)
{
	static const uint16_t jumps[] = { 257, 1000, 0x7fff, 0x8000, 0xffff };
	struct driver *d;
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < 2 * ARRAY_SIZE(jumps) && !rc; i++) {
		struct driver_ring *r;

		rc = kit_open_running(k, NULL, &d);
		if (rc)
			return rc;
		r = &d->ring[i % 2];
		script_avail_index(r, (uint16_t)(r->published + jumps[i / 2]));
		usleep(REACT_MS * 1000);
		kit_hang_up(k);
	}
	return rc;
}
