// SPDX-License-Identifier: Apache-2.0
#include "driver/ring.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* As far as 16 bits go: no device will use so many entries before the driver looks. */
#define FAR_AHEAD 0x8000

static size_t avail_bytes(unsigned size)
{
	return sizeof(struct vring_avail) + (size + 1) * sizeof(uint16_t);
}

static size_t used_bytes(unsigned size)
{
	return sizeof(struct vring_used) + size * sizeof(struct vring_used_elem) + sizeof(uint16_t);
}

static size_t table_bytes(unsigned size)
{
	return (size_t)size * DRIVER_PIECES_MAX * sizeof(struct vring_desc);
}

size_t ring_bytes(unsigned size, bool indirect)
{
	return size * sizeof(struct vring_desc) + avail_bytes(size) + used_bytes(size) +
	       (indirect ? table_bytes(size) : 0) + 4 * CACHE_LINE;
}

static void shuffle(uint16_t *list, unsigned n, uint32_t seed)
{
	for (unsigned i = n - 1; i; i--) {
		unsigned j;
		uint16_t t = list[i];

		seed = seed * 1664525u + 1013904223u;
		j = (unsigned)((uint64_t)seed * (i + 1) >> 32);
		list[i] = list[j];
		list[j] = t;
	}
}

/* The smallest power of two that is not below `n`. */
static unsigned round_up(unsigned n)
{
	unsigned power = 1;

	while (power < n)
		power *= 2;
	return power;
}

static int take_memory(struct driver_ring *r, struct driver_memory *mem, bool indirect)
{
	r->desc = driver_memory_alloc(mem, r->size * sizeof(*r->desc), CACHE_LINE);
	r->avail = driver_memory_alloc(mem, avail_bytes(r->size), CACHE_LINE);
	r->used = driver_memory_alloc(mem, used_bytes(r->size), CACHE_LINE);
	r->slot = calloc(r->size, sizeof(*r->slot));
	r->free = calloc(r->mask + 1u, sizeof(*r->free));
	if (indirect)
		r->tables = driver_memory_alloc(mem, table_bytes(r->size), CACHE_LINE);
	return r->desc && r->avail && r->used && r->slot && r->free && (r->tables || !indirect)
		       ? 0
		       : -ENOMEM;
}

int ring_init(struct driver_ring *r, struct driver_memory *mem, unsigned size, bool packed,
	      bool event_idx, bool indirect, uint32_t seed)
{
	memset(r, 0, sizeof(*r));
	r->kick = r->call = -1;
	if (!size || size > DRIVER_RING_MAX || (!packed && (size & (size - 1))))
		return -EINVAL;
	r->size = (uint16_t)size;
	r->mask = (uint16_t)(round_up(size) - 1);
	r->packed = packed;
	r->add.wrap = r->take.wrap = 1;
	r->room = (uint16_t)size;
	r->event_idx = event_idx;
	r->to_gpa = mem->gpa - (uint64_t)(uintptr_t)mem->base;
	if (take_memory(r, mem, indirect)) {
		ring_destroy(r);
		return -ENOMEM;
	}
	/* The same memory: more than a packed ring needs. */
	r->packed_desc = (struct vring_packed_desc *)r->desc;
	r->driver_event = (struct vring_packed_desc_event *)r->avail;
	r->device_event = (struct vring_packed_desc_event *)r->used;
	r->used_event = &r->avail->ring[size];
	r->avail_event = (uint16_t *)&r->used->ring[size];
	for (unsigned i = 0; i < size; i++)
		r->free[i] = (uint16_t)i;
	if (seed)
		shuffle(r->free, size, seed);
	r->free_count = r->size;
	return 0;
}

void ring_destroy(struct driver_ring *r)
{
	free(r->slot);
	free(r->free);
	if (r->kick >= 0)
		close(r->kick);
	if (r->call >= 0)
		close(r->call);
	memset(r, 0, sizeof(*r));
	r->kick = r->call = -1;
}

static int add_indirect(struct driver_ring *r, const struct driver_piece *pieces, unsigned out,
			unsigned in)
{
	uint16_t head = ring_pop_free(r);
	struct vring_desc *table = r->tables + (size_t)head * DRIVER_PIECES_MAX;
	unsigned n = out + in;

	for (unsigned i = 0; i < n; i++) {
		unsigned flags =
			(i + 1 < n ? VRING_DESC_F_NEXT : 0) | (i >= out ? VRING_DESC_F_WRITE : 0);

		ring_write_desc(&table[i], ring_gpa(r, pieces[i].at), pieces[i].len,
				(uint16_t)flags, (uint16_t)(i + 1 < n ? i + 1 : 0));
		if (r->packed) {
			/* 2.8.7: only the direction counts, where a split one has `next`. */
			table[i].next = flags & VRING_DESC_F_WRITE;
			table[i].flags = 0;
		}
	}
	if (r->packed)
		packed_put(r, ring_gpa(r, table), (uint32_t)(n * sizeof(*table)), head,
			   VRING_DESC_F_INDIRECT);
	else
		ring_write_desc(&r->desc[head], ring_gpa(r, table), (uint32_t)(n * sizeof(*table)),
				VRING_DESC_F_INDIRECT, 0);
	r->slot[head].count = 1;
	return head;
}

/* Each but the last says that another follows, and the last has the id (2.8.6). */
static int add_packed(struct driver_ring *r, const struct driver_piece *pieces, unsigned out,
		      unsigned in)
{
	uint16_t id = ring_pop_free(r);
	unsigned n = out + in;

	for (unsigned i = 0; i < n; i++)
		packed_put(r, ring_gpa(r, pieces[i].at), pieces[i].len, i + 1 < n ? 0xdead : id,
			   (i + 1 < n ? VRING_DESC_F_NEXT : 0) |
				   (i >= out ? VRING_DESC_F_WRITE : 0));
	r->slot[id].count = (uint16_t)n;
	return id;
}

static int add_direct(struct driver_ring *r, const struct driver_piece *pieces, unsigned out,
		      unsigned in)
{
	unsigned n = out + in;
	uint16_t head = ring_pop_free(r), i = head;

	for (unsigned k = 0; k < n; k++) {
		bool last = k + 1 == n;
		uint16_t next = last ? 0 : ring_pop_free(r);
		unsigned flags =
			(last ? 0 : VRING_DESC_F_NEXT) | (k >= out ? VRING_DESC_F_WRITE : 0);

		ring_write_desc(&r->desc[i], ring_gpa(r, pieces[k].at), pieces[k].len,
				(uint16_t)flags, next);
		r->slot[i].next = next;
		i = next;
	}
	r->slot[head].count = (uint16_t)n;
	return head;
}

int ring_add(struct driver_ring *r, const struct driver_piece *pieces, unsigned out, unsigned in,
	     bool indirect, void *token)
{
	unsigned n = out + in;
	uint32_t capacity = 0;
	uint16_t head;

	if (!n || (indirect && (!r->tables || n > DRIVER_PIECES_MAX)))
		return -EINVAL;
	if (ring_room(r) < (indirect ? 1 : n))
		return -ENOSPC;
	for (unsigned i = out; i < n; i++)
		capacity += pieces[i].len;
	head = (uint16_t)(indirect    ? add_indirect(r, pieces, out, in)
			  : r->packed ? add_packed(r, pieces, out, in)
				      : add_direct(r, pieces, out, in));
	r->slot[head].token = token;
	r->slot[head].capacity = capacity;
	if (!r->packed)
		r->avail->ring[r->avail_next & r->mask] = head;
	r->avail_next++;
	return 0;
}

void ring_free_chain(struct driver_ring *r, uint16_t head)
{
	uint16_t count = r->slot[head].count;

	r->slot[head].count = 0;
	for (uint16_t i = head; count; count--) {
		uint16_t next = r->slot[i].next;

		ring_push_free(r, i);
		i = next;
	}
}

/* With in-order, the chain in flight that was made first: it left the free ones first. */
static uint16_t oldest(const struct driver_ring *r)
{
	return r->free[(uint16_t)(r->free_first + r->free_count - r->size) & r->mask];
}

/* Reads a used entry, if there is one. */
static bool open_batch(struct driver_ring *r)
{
	struct vring_used_elem used;

	if (!ring_pending(r))
		return false;
	if (r->packed) {
		used = packed_used(r);
	} else {
		const struct vring_used_elem *e = &r->used->ring[r->used_next & r->mask];

		used = (struct vring_used_elem){ load_relaxed(&e->id), load_relaxed(&e->len) };
	}
	if (!ring_believes(r, used.id, used.len))
		return false;
	r->batch = (struct driver_batch){ true, (uint16_t)used.id, used.len };
	return true;
}

/* 2.7.9, 2.8.8: the entry stands where the first of its batch was made available. */
unsigned ring_take_in_order(struct driver_ring *r, struct driver_done *done, unsigned max)
{
	unsigned n = 0;

	while (n < max && (r->batch.open || open_batch(r))) {
		uint16_t id = oldest(r);
		const struct driver_slot *slot = &r->slot[id];

		r->batch.open = id != r->batch.last;
		done[n++] = (struct driver_done){ slot->token,
						  r->batch.open ? slot->capacity : r->batch.len };
		if (r->packed)
			packed_free_chain(r, id);
		else
			ring_free_chain(r, id);
		r->used_next++;
	}
	return n;
}

void ring_break(struct driver_ring *r, const char *reason)
{
	if (!r->broken)
		r->broken = reason;
}

void ring_kick(struct driver_ring *r)
{
	uint64_t one = 1;

	r->kicked++;
	/* EAGAIN: the counter is full, and so the device has a kick to see. */
	if (r->kick >= 0 && write(r->kick, &one, sizeof(one)) < 0 && errno != EAGAIN)
		ring_break(r, "the kick could not be written");
}

uint16_t ring_used(const struct driver_ring *r, uint32_t *ret_base)
{
	struct driver_ring ahead = *r;
	uint32_t base;

	if (r->packed) {
		while (ahead.used_next != r->published && ring_pending(&ahead)) {
			struct driver_batch *batch = &ahead.batch;
			uint32_t id = batch->open ? batch->last : packed_used(&ahead).id;

			if (id >= r->size || !r->slot[id].count)
				break;
			if (r->in_order) {
				batch->last = (uint16_t)id;
				id = oldest(&ahead);
				batch->open = id != batch->last;
				ahead.free_count++;
			}
			packed_step(r, &ahead.take, r->slot[id].count);
			ahead.used_next++;
		}
		base = (ahead.take.slot | ahead.take.wrap << 15) * 0x10001u;
	} else {
		ahead.used_next = load_acquire(&r->used->idx);
		base = ahead.used_next;
	}
	if (ret_base)
		*ret_base = base;
	return ahead.used_next;
}

void ring_calls_off(struct driver_ring *r)
{
	if (r->packed)
		store_relaxed(&r->driver_event->flags, VRING_PACKED_EVENT_FLAG_DISABLE);
	else if (r->event_idx)
		store_relaxed(r->used_event, (uint16_t)(r->used_next + FAR_AHEAD));
	else
		store_relaxed(&r->avail->flags, VRING_AVAIL_F_NO_INTERRUPT);
}

bool ring_calls_on(struct driver_ring *r)
{
	if (r->packed) {
		store_relaxed(&r->driver_event->off_wrap,
			      (uint16_t)(r->take.slot | r->take.wrap
								<< VRING_PACKED_EVENT_F_WRAP_CTR));
		store_release(&r->driver_event->flags, r->event_idx
							       ? VRING_PACKED_EVENT_FLAG_DESC
							       : VRING_PACKED_EVENT_FLAG_ENABLE);
	} else if (r->event_idx)
		store_relaxed(r->used_event, r->used_next);
	else
		store_relaxed(&r->avail->flags, 0);
	fence_store_load(); /* the wish is out before the index is looked at (2.7.14) */
	return ring_pending(r);
}

bool ring_wait(struct driver_ring *r, int timeout_ms)
{
	uint64_t end = clock_ns() + (uint64_t)timeout_ms * 1000000;

	while (!ring_calls_on(r)) {
		struct pollfd p = { .fd = r->call, .events = POLLIN };
		uint64_t now = clock_ns(), n;

		if (now >= end)
			return false;
		if (r->call < 0)
			usleep(1000);
		else if (poll(&p, 1, (int)((end - now) / 1000000) + 1) > 0 &&
			 read(r->call, &n, sizeof(n)) < 0 && errno != EAGAIN)
			return false;
	}
	return true;
}
