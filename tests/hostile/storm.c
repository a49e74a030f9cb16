// SPDX-License-Identifier: Apache-2.0
#include "storm.h"

#include <stdio.h>

#include "base/atomic.h"

#define PLACE	   4096u /* from one header to the next */
#define PLACES	   256u
#define HEADER	   12u
#define AREA	   (PLACE * PLACES)
#define TABLES	   (256u << 10)
#define LONG_TABLE 2100u /* pieces of a byte: more than a batch holds */
#define NOWHERE	   0x7000000000ull
#define NEXT	   VRING_DESC_F_NEXT
#define WRITE	   VRING_DESC_F_WRITE
#define INDIRECT   VRING_DESC_F_INDIRECT

static uint32_t dice(struct storm *s, uint32_t sides)
{
	s->seed ^= s->seed << 13;
	s->seed ^= s->seed >> 7;
	s->seed ^= s->seed << 17;
	return (uint32_t)((s->seed >> 32) % sides);
}

#define PICK(s, list) (list)[dice(s, ARRAY_SIZE(list))]

static uint64_t gpa(const struct storm *s, const void *at)
{
	return driver_memory_gpa(&s->d->mem, at);
}

/* A virtio-net header: nothing, something that makes sense, or anything. */
static void make_header(struct storm *s, uint8_t *at)
{
	struct virtio_net_hdr hdr = { 0 };
	uint8_t bytes[HEADER] = { 0 };

	switch (dice(s, 4)) {
	case 0:
	case 1:
		break;
	case 2:
		hdr.flags = 1;
		hdr.csum_start = (uint16_t)dice(s, 200);
		hdr.csum_offset = (uint16_t)dice(s, 20);
		hdr.gso_type = (uint8_t)dice(s, 6);
		hdr.gso_size = (uint16_t)dice(s, 2000);
		memcpy(bytes, &hdr, sizeof(hdr));
		break;
	default:
		for (unsigned i = 0; i < HEADER; i++)
			bytes[i] = (uint8_t)dice(s, 256);
	}
	memcpy(at, bytes, HEADER);
}

/* What a descriptor says, but for NEXT. */
struct what {
	uint64_t at;
	uint32_t len;
	uint16_t flags;
};

static uint16_t direction(struct storm *s)
{
	return (uint16_t)((s->write != !dice(s, 30) ? WRITE : 0));
}

/*
 * A buffer. The first of a chain may name a place where a header is; everything else
 * is of one byte, so that frames are for the one address that they are from, and are not flooded.
 * For the same reason the halves of a split ring, and of the tables, are for what begins a chain
 * and for what goes on with one.
 */
static struct what make_buffer(struct storm *s, bool first)
{
	static const uint32_t lens[] = { 0,  1,	 5,   11,   12,	  13,	 25,	     26,
					 60, 72, 100, 1514, 4000, 70000, 0x7fffffff, ~0u };
	uint8_t *place = s->area + (size_t)dice(s, PLACES) * PLACE;
	struct what w = { .flags = direction(s) };

	w.len = dice(s, 8) ? 14 + dice(s, 1800) : PICK(s, lens);
	switch (dice(s, 24)) {
	case 0:
		w.at = NOWHERE;
		break;
	case 1:
		w.at = UINT64_MAX - dice(s, 4000);
		break;
	case 2:
		w.at = s->write ? NOWHERE : s->d->mem.gpa + s->d->mem.size - dice(s, 3000);
		break;
	default:
		w.at = gpa(s, place + HEADER + dice(s, PLACE / 2));
		if (first && dice(s, 8)) {
			make_header(s, place);
			w.at = gpa(s, place);
		}
	}
	return w;
}

/* A descriptor of a table, in the split format or the packed one. */
static void fill_table(struct storm *s, bool first, struct vring_desc *table, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct what w = make_buffer(s, first && !i);
		uint16_t flags = w.flags | (i + 1 < n ? NEXT : 0) | (dice(s, 40) ? 0 : INDIRECT);
		uint16_t next = (uint16_t)(dice(s, 30) ? i + 1 : dice(s, 16));

		if (s->r->packed)
			ring_write_desc(&table[i], w.at, w.len, (uint16_t)dice(s, 65536), flags);
		else
			ring_write_desc(&table[i], w.at, w.len, flags, next);
	}
}

static struct what make_table(struct storm *s, bool first)
{
	static const uint32_t lens[] = { 0, 8, 15, 31, LONG_TABLE * 16, ~15u };
	uint8_t *table = s->tables + (dice(s, 128) + (first ? 0 : 128u)) * 256;
	struct what w = { .flags = (uint16_t)(INDIRECT | (dice(s, 10) ? 0 : WRITE)) };
	unsigned n = 1 + dice(s, 12);

	if (!dice(s, 50)) {
		w.at = gpa(s, s->tables + 256 * 256);
		w.len = LONG_TABLE * 16;
		return w;
	}
	fill_table(s, first, (struct vring_desc *)table, n);
	w.at = gpa(s, table);
	w.len = dice(s, 20) ? n * 16 : PICK(s, lens);
	return w;
}

static struct what make_desc(struct storm *s, bool first, bool last)
{
	return dice(s, 10) < (last ? 3u : 1u) ? make_table(s, first) : make_buffer(s, first);
}

static unsigned chain_length(struct storm *s)
{
	return dice(s, 2) ? 1 : dice(s, 20) ? 1 + dice(s, 6) : 1 + dice(s, 30);
}

static void post_split(struct storm *s, bool may_be_outside)
{
	uint16_t head = (uint16_t)dice(s, STORM_RING / 2), at = head;
	unsigned n = chain_length(s);

	for (unsigned i = 0; i < n; i++) {
		struct what w = make_desc(s, !i, i + 1 == n);
		uint16_t next = (uint16_t)(STORM_RING / 2 + dice(s, STORM_RING / 2));

		ring_write_desc(&s->r->desc[at], w.at, w.len, w.flags | (i + 1 < n ? NEXT : 0),
				dice(s, 30) ? next : (uint16_t)dice(s, 65536));
		at = next;
	}
	/* In an rx ring it is not told how many of such were passed over. */
	if (may_be_outside && !dice(s, 40)) {
		head = (uint16_t)(STORM_RING + dice(s, 65536 - STORM_RING));
	} else {
		s->way[(s->first + s->n++) % STORM_RING].head = head;
	}
	s->r->avail->ring[s->avail++ % STORM_RING] = head;
	s->offered++;
}

static void post_packed(struct storm *s, unsigned n)
{
	struct driver_ring *r = s->r;
	struct storm_chain *chain = &s->way[(s->first + s->n++) % STORM_RING];
	struct vring_packed_desc *first = &r->packed_desc[r->add.slot];
	uint16_t first_flags = 0;

	chain->slot = (uint16_t)r->add.slot;
	chain->slots = (uint16_t)n;
	for (unsigned i = 0; i < n; i++) {
		struct vring_packed_desc *d = &r->packed_desc[r->add.slot];
		struct what w = make_desc(s, !i, i + 1 == n);

		w.flags |= packed_flags_available(&r->add) | (i + 1 < n ? NEXT : 0);
		d->addr = w.at;
		d->len = w.len;
		d->id = chain->head = (uint16_t)dice(s, 65536);
		if (i)
			d->flags = w.flags;
		else
			first_flags = w.flags;
		packed_step(r, &r->add, 1);
	}
	store_release(&first->flags, first_flags); /* partner: the device's acquire */
	r->room -= (uint16_t)n;
	s->offered++;
}

/* When it wants to be called, of which it takes no notice. */
static void make_event(struct storm *s)
{
	if (s->r->packed) {
		s->r->driver_event->off_wrap = (uint16_t)dice(s, 65536);
		s->r->driver_event->flags = (uint16_t)dice(s, dice(s, 4) ? 4 : 65536);
		return;
	}
	s->r->avail->flags = (uint16_t)dice(s, dice(s, 4) ? 2 : 65536);
	*s->r->used_event = (uint16_t)dice(s, 65536);
}

void storm_begin(struct storm *s, struct driver *d, unsigned index, uint64_t seed)
{
	struct vring_desc *table;

	memset(s, 0, sizeof(*s));
	s->d = d;
	s->r = &d->ring[index];
	s->write = !(index & 1);
	s->seed = seed * 0x9e3779b97f4a7c15ull | 1;
	s->area = driver_memory_alloc(&d->mem, AREA, PLACE);
	s->tables = driver_memory_alloc(&d->mem, TABLES, PLACE);
	s->r->room = STORM_RING;
	s->avail = s->r->avail_next;
	s->used = s->r->used_next;
	memset(d->mem.base + d->mem.size - AREA, STORM_BYTE, AREA);
	memset(s->area, STORM_BYTE, AREA);
	memset(s->tables, STORM_BYTE, TABLES);
	table = (void *)(s->tables + 256 * 256);
	for (unsigned i = 0; i < LONG_TABLE; i++) {
		uint16_t flags =
			(uint16_t)((s->write ? WRITE : 0) | (i + 1 < LONG_TABLE ? NEXT : 0));

		table[i] = (struct vring_desc){ gpa(s, s->area + HEADER), 1, flags,
						(uint16_t)(i + 1) };
		if (s->r->packed)
			table[i].next = flags;
	}
}

void storm_post(struct storm *s)
{
	unsigned n = 1 + dice(s, 40);

	s->scribbled = false;
	for (unsigned i = 0; i < n; i++) {
		unsigned slots = chain_length(s);

		if (s->r->packed && slots <= s->r->room)
			post_packed(s, slots);
		/* The last one comes back, and tells that all before it were looked at. */
		if (!s->r->packed && s->n + (n - i) <= STORM_RING)
			post_split(s, !s->write && i + 1 < n);
	}
	make_event(s);
	if (!s->r->packed)
		store_release(&s->r->avail->idx, s->avail); /* partner: the device's acquire */
	ring_kick(s->r);
}

/* Not what tells where a packed chain ends, or the account would be lost. */
void storm_scribble(struct storm *s)
{
	unsigned at = dice(s, STORM_RING);
	struct what w = make_buffer(s, false);

	s->scribbled = true;
	make_header(s, s->area + (size_t)dice(s, PLACES) * PLACE);
	if (s->r->packed) {
		store_relaxed(&s->r->packed_desc[at].addr, w.at);
		store_relaxed(&s->r->packed_desc[at].len, w.len);
		return;
	}
	w = make_desc(s, at < STORM_RING / 2, !dice(s, 2));
	store_relaxed(&s->r->desc[at].addr, w.at);
	store_relaxed(&s->r->desc[at].len, w.len);
	store_relaxed(&s->r->desc[at].flags, (uint16_t)(w.flags | dice(s, 2)));
	store_relaxed(&s->r->desc[at].next,
		      (uint16_t)(STORM_RING / 2 + dice(s, dice(s, 8) ? STORM_RING / 2 : 65000)));
}

static bool wrong(struct storm *s, const char *what, uint32_t got, uint32_t expected)
{
	snprintf(s->fault, sizeof(s->fault), "%s %s ring: %s is %u, not %u",
		 s->r->packed ? "packed" : "split", s->write ? "rx" : "tx", what, got, expected);
	return false;
}

static bool take_split(struct storm *s)
{
	uint16_t used = load_acquire(&s->r->used->idx); /* partner: the device's release */

	while (s->used != used) {
		const struct vring_used_elem *e = &s->r->used->ring[s->used % STORM_RING];

		if (!s->n)
			return wrong(s, "used index", used, s->used);
		if (e->id != s->way[s->first].head)
			return wrong(s, "used id", e->id, s->way[s->first].head);
		if (!s->write && e->len)
			return wrong(s, "used length", e->len, 0);
		s->first = (s->first + 1) % STORM_RING;
		s->n--;
		s->used++;
	}
	return true;
}

static bool take_packed(struct storm *s)
{
	while (s->n) {
		const struct storm_chain *chain = &s->way[s->first];
		struct vring_packed_desc *d = &s->r->packed_desc[chain->slot];
		uint16_t flags = load_acquire(&d->flags); /* partner: the device's release */

		if (!!(flags & 1u << VRING_PACKED_DESC_F_USED) != s->r->take.wrap ||
		    !!(flags & 1u << VRING_PACKED_DESC_F_AVAIL) != s->r->take.wrap)
			break;
		if (d->id != chain->head)
			return wrong(s, "used id", d->id, chain->head);
		if (!s->write && !s->scribbled && d->len)
			return wrong(s, "used length", d->len, 0);
		packed_step(s->r, &s->r->take, chain->slots);
		s->r->room += chain->slots;
		s->first = (s->first + 1) % STORM_RING;
		s->n--;
	}
	return true;
}

bool storm_take(struct storm *s)
{
	return s->r->packed ? take_packed(s) : take_split(s);
}
