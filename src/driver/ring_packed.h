/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packed virtqueue seen from the driver (virtio 1.3, 2.8): what differs from the split one, for
 * driver/ring.h alone. Like that it shares no code with src/virtq.
 *
 * Slots of the ring are filled one after the other; the flags of the first of those that are not
 * published yet are kept back, because they are what makes them available. A chain is known by its
 * id, which is the index of its private record.
 */
#ifndef RINGWAY_DRIVER_RING_PACKED_H
#define RINGWAY_DRIVER_RING_PACKED_H

#include "driver/ring.h"

/* Where the next slot is filled or read, and how often that has come around, modulo 2. */
static inline void packed_step(const struct driver_ring *r, struct driver_place *p, unsigned n)
{
	p->slot += n;
	if (p->slot >= r->size) {
		p->slot -= r->size;
		p->wrap ^= 1;
	}
}

/* 2.8.1: available: the first bit is the wrap counter, the second its inverse. */
static inline uint16_t packed_flags_available(const struct driver_place *p)
{
	return (uint16_t)(p->wrap << VRING_PACKED_DESC_F_AVAIL |
			  !p->wrap << VRING_PACKED_DESC_F_USED);
}

/* Fills the next slot; visible at the next ring_publish(). */
static inline void packed_put(struct driver_ring *r, uint64_t gpa, uint32_t len, uint16_t id,
			      unsigned flags)
{
	struct vring_packed_desc *d = &r->packed_desc[r->add.slot];

	flags |= packed_flags_available(&r->add);
	d->addr = gpa;
	d->len = len;
	d->id = id;
	if (r->first) {
		store_relaxed(&d->flags, (uint16_t)flags);
	} else {
		r->first = d;
		r->first_flags = (uint16_t)flags;
	}
	packed_step(r, &r->add, 1);
	r->room--;
	r->slots_added++;
}

static inline void packed_add_buffers(struct driver_ring *r, void *const *buffers, unsigned n,
				      uint32_t len, bool writable)
{
	for (unsigned i = 0; i < n; i++) {
		uint16_t id = ring_pop_free(r);

		packed_put(r, ring_gpa(r, buffers[i]), len, id, writable ? VRING_DESC_F_WRITE : 0);
		r->slot[id] = (struct driver_slot){ buffers[i], writable ? len : 0, 1, 0 };
	}
	r->avail_next += (uint16_t)n;
}

/* Partner: the device's acquire of the flags (2.8.21.1). */
static inline void packed_publish(struct driver_ring *r)
{
	if (r->first)
		store_release(&r->first->flags, r->first_flags);
	r->first = NULL;
}

/* 2.8.14: does the device want to know of the last `n` slots that were made available? */
static inline bool packed_kick_asked(const struct driver_ring *r, uint16_t n)
{
	uint16_t flags = load_relaxed(&r->device_event->flags), where;
	uint32_t back;

	if (flags != VRING_PACKED_EVENT_FLAG_DESC)
		return flags == VRING_PACKED_EVENT_FLAG_ENABLE;
	where = load_relaxed(&r->device_event->off_wrap);
	/* So many slots ago it was the wanted one's turn; 0 or less: it has not come yet. */
	back = (uint32_t)r->add.slot - (where & 0x7fff);
	if (where >> VRING_PACKED_EVENT_F_WRAP_CTR != r->add.wrap)
		back += r->size;
	return back - 1 < n;
}

/* Partner: the device's release of the flags (2.8.22.1). */
static inline bool packed_pending(const struct driver_ring *r)
{
	uint16_t flags = load_acquire(&r->packed_desc[r->take.slot].flags);

	return (flags >> VRING_PACKED_DESC_F_AVAIL & 1) == r->take.wrap &&
	       (flags >> VRING_PACKED_DESC_F_USED & 1) == r->take.wrap;
}

/* What the next used descriptor says; 2.8.4: where nothing was written its length means nothing. */
static inline struct vring_used_elem packed_used(const struct driver_ring *r)
{
	const struct vring_packed_desc *d = &r->packed_desc[r->take.slot];

	return (struct vring_used_elem){
		load_relaxed(&d->id),
		load_relaxed(&d->flags) & VRING_DESC_F_WRITE ? load_relaxed(&d->len) : 0,
	};
}

/* A chain's slots of the ring and its id are free again. */
static inline void packed_free_chain(struct driver_ring *r, uint16_t id)
{
	uint16_t count = r->slot[id].count;

	r->slot[id].count = 0;
	ring_push_free(r, id);
	r->room += count;
	packed_step(r, &r->take, count);
}

/* As ring_take(). */
static inline unsigned packed_take(struct driver_ring *r, struct driver_done *done, unsigned max)
{
	unsigned n;

	for (n = 0; n < max && packed_pending(r); n++) {
		struct vring_used_elem used = packed_used(r);

		if (!ring_believes(r, used.id, used.len))
			break;
		done[n] = (struct driver_done){ r->slot[used.id].token, used.len };
		packed_free_chain(r, (uint16_t)used.id);
		r->used_next++;
	}
	return n;
}

#endif
