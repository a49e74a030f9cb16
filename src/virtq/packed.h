/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packed ring's layout, looking ahead in it, and writing used descriptors (virtio 1.3, 2.8).
 *
 * There is one ring of descriptors, in which each side overwrites what the other has left behind:
 * the driver makes descriptors available, the device writes one used descriptor over the first of a
 * chain and skips the rest. Two bits in the flags say whose turn a slot is; what they mean changes
 * each time around (the wrap counter). The first used descriptor of a list is written last: a
 * driver that has not seen it looks no further.
 *
 * Private to this directory; the ring's lock is held.
 */
#ifndef RINGWAY_VIRTQ_PACKED_H
#define RINGWAY_VIRTQ_PACKED_H

#include "virtq/entry.h"

#define PACKED_AVAIL BIT(VRING_PACKED_DESC_F_AVAIL)
#define PACKED_USED  BIT(VRING_PACKED_DESC_F_USED)

/*
 * The wrap counter is kept as the two flags of a descriptor that is used: this if it is 1, else 0.
 * Of an available one the second is the other way round (2.8.1).
 */
#define PACKED_ROUND (PACKED_AVAIL | PACKED_USED)

/* A look ahead ends behind a chain longer than this, so that none is walked again and again. */
#define PACKED_LONG 32u

static inline uintptr_t packed_slot(const struct virtq *vq, uint16_t slot)
{
	return vq->addr.desc + slot * DESC_SIZE;
}

/* Driver and device event suppression (2.8.14): where a notification is wanted, and whether. */
static inline uintptr_t packed_driver_event(const struct virtq *vq)
{
	return vq->addr.avail;
}

static inline uintptr_t packed_device_event(const struct virtq *vq)
{
	return vq->addr.used;
}

/* As events and GET_VRING_BASE have it (2.8.10): the next slot, and in bit 15 the wrap counter. */
static inline uint32_t packed_place(const struct virtq *vq)
{
	return vq->avail_next | (vq->round ? BIT(VRING_PACKED_EVENT_F_WRAP_CTR) : 0);
}

/* Moves a place in the ring on. */
static inline void packed_advance(const struct virtq *vq, uint16_t *slot, uint16_t *round,
				  unsigned n)
{
	unsigned to = *slot + n;

	if (to >= vq->size) {
		to -= vq->size;
		*round ^= PACKED_ROUND;
	}
	*slot = (uint16_t)to;
}

/* The second half of a descriptor: length, id and flags in one load, so they belong together. */
static inline uint16_t packed_flags(uint64_t half)
{
	return (uint16_t)(half >> 48);
}

static inline uint16_t packed_id(uint64_t half)
{
	return (uint16_t)(half >> 32);
}

static inline bool packed_is_available(uint16_t flags, uint16_t round)
{
	return ((flags ^ round) & PACKED_ROUND) == PACKED_USED;
}

/* Partner: the driver's release of the flags of a chain's first descriptor (2.8.21.1). */
static inline bool packed_ready(const struct virtq *vq)
{
	uint16_t flags = guest_load16_acquire(packed_slot(vq, vq->avail_next) + 14);

	return packed_is_available(flags, vq->round);
}

/* Is what comes next used already, in the round in which it is to be made available? */
static inline bool packed_lost(const struct virtq *vq)
{
	uint16_t flags = guest_load16(packed_slot(vq, vq->avail_next) + 14);

	return (flags & PACKED_ROUND) == vq->round;
}

/*
 * How many descriptors the chain has that begins in `slot`, whose second half is *half, which
 * becomes that of the last, where the id is (2.8.6). 0: it never ends.
 */
static inline unsigned packed_chain(const struct virtq *vq, uint16_t slot, uint64_t *half)
{
	unsigned n = 1;

	while (packed_flags(*half) & VRING_DESC_F_NEXT) {
		if (n++ == vq->size)
			return 0;
		slot = slot + 1 == vq->size ? 0 : (uint16_t)(slot + 1);
		*half = guest_load64(packed_slot(vq, slot) + 8);
	}
	return n;
}

/* Of a chain that is not whole: what returns it. False: it never ends. */
static inline bool packed_look_on(const struct virtq *vq, struct ring_entry *e, uint16_t slot,
				  uint64_t half)
{
	e->slot = slot;
	e->slots = (uint16_t)packed_chain(vq, slot, &half);
	e->head = packed_id(half);
	return e->slots;
}

static inline unsigned packed_stage_fill(struct virtq *vq, struct ring_stage *stage, unsigned max,
					 uint16_t write)
{
	uint16_t slot = stage->at, round = stage->round;
	unsigned n = 0;

	while (n < max) {
		struct ring_entry *e = &stage->entry[n];
		uintptr_t at = packed_slot(vq, slot);
		uint64_t half = guest_load64_acquire(at + 8);
		struct vring_desc d = { .len = (uint32_t)half, .flags = packed_flags(half) };

		if (!packed_is_available(d.flags, round))
			break;
		d.addr = guest_load64(at);
		e->head = packed_id(half);
		e->slots = 1;
		if (unlikely(!entry_look(vq, e, &d, write)) && !packed_look_on(vq, e, slot, half)) {
			ring_break(vq);
			break;
		}
		packed_advance(vq, &slot, &round, e->slots);
		n++;
		if (unlikely(e->slots > PACKED_LONG))
			break;
	}
	stage->at = slot;
	stage->round = round;
	stage->n = n;
	stage->next = 0;
	return n;
}

/* Writes a used descriptor, or keeps it for packed_used_publish() if it is the first of a list. */
static inline void packed_used_store(struct virtq *vq, struct used_list *list, uint16_t head,
				     unsigned slots, uint32_t len)
{
	uint16_t flags = vq->round | (len ? VRING_DESC_F_WRITE : 0);
	uint64_t half = len | (uint64_t)head << 32 | (uint64_t)flags << 48;
	uintptr_t at = packed_slot(vq, vq->avail_next) + 8;

	if (list->first_at) {
		guest_store64(at, half);
	} else {
		list->first_at = at;
		list->first = half;
	}
	packed_advance(vq, &vq->avail_next, &vq->round, slots);
	vq->used_slots += slots;
}

/* Partner: the driver's acquire of the flags (2.8.22.1). */
static inline void packed_used_publish(const struct used_list *list)
{
	guest_store64_release(list->first_at, list->first);
}

/* Does the driver want to know of the slots from `before` on that were used (2.8.14)? */
static inline bool packed_wants_call(const struct virtq *vq, uint32_t before)
{
	uint32_t used = vq->used_slots - before, behind;
	uint16_t flags, where, slot;

	/* Partner: the driver's barrier between where and whether it wants to be called. */
	flags = guest_load16_acquire(packed_driver_event(vq) + 2);
	if (flags != VRING_PACKED_EVENT_FLAG_DESC)
		return flags != VRING_PACKED_EVENT_FLAG_DISABLE;
	where = guest_load16(packed_driver_event(vq));
	slot = where & 0x7fff;
	/* How far back from the next used slot the wanted one is; ahead of it is out of reach. */
	behind = (uint32_t)vq->avail_next - slot;
	if ((where ^ packed_place(vq)) & BIT(VRING_PACKED_EVENT_F_WRAP_CTR))
		behind += vq->size;
	return behind - 1 < used;
}

#endif
