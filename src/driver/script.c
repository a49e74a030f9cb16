// SPDX-License-Identifier: Apache-2.0
#include "driver/script.h"

#include <errno.h>
#include <unistd.h>

#include "base/clock.h"

#define LOOK_US 100

static int packed_chain(struct driver_ring *r, const struct script_desc *descs, unsigned n,
			uint32_t capacity, void *token)
{
	uint16_t id = ring_pop_free(r);

	for (unsigned i = 0; i < n; i++)
		packed_put(r, descs[i].addr, descs[i].len, id, descs[i].flags);
	r->slot[id] = (struct driver_slot){ token, capacity, (uint16_t)n, 0 };
	r->avail_next++;
	return id;
}

int script_chain(struct driver_ring *r, const struct script_desc *descs, unsigned n,
		 uint32_t capacity, void *token, uint16_t *ret_at)
{
	uint16_t at[DRIVER_PIECES_MAX];

	if (!n || n > DRIVER_PIECES_MAX)
		return -EINVAL;
	if (ring_room(r) < n)
		return -ENOSPC;
	if (r->packed)
		return packed_chain(r, descs, n, capacity, token);
	for (unsigned i = 0; i < n; i++)
		at[i] = ring_pop_free(r);
	for (unsigned i = 0; i < n; i++) {
		uint16_t after = i + 1 < n ? at[i + 1] : 0;

		ring_write_desc(&r->desc[at[i]], descs[i].addr, descs[i].len, descs[i].flags,
				descs[i].next == SCRIPT_NEXT ? after : descs[i].next);
		r->slot[at[i]].next = after;
		if (ret_at)
			ret_at[i] = at[i];
	}
	r->slot[at[0]].token = token;
	r->slot[at[0]].capacity = capacity;
	r->slot[at[0]].count = (uint16_t)n;
	script_avail(r, at[0]);
	return at[0];
}

void script_table(const struct driver_ring *r, struct vring_desc *table,
		  const struct script_desc *descs, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint16_t after = (uint16_t)(i + 1 < n ? i + 1 : 0);

		if (descs[i].next != SCRIPT_NEXT)
			after = descs[i].next;
		if (r->packed)
			ring_write_desc(&table[i], descs[i].addr, descs[i].len, 0, descs[i].flags);
		else
			ring_write_desc(&table[i], descs[i].addr, descs[i].len, descs[i].flags,
					after);
	}
}

void script_avail(struct driver_ring *r, uint16_t head)
{
	r->avail->ring[r->avail_next++ & r->mask] = head;
}

void script_avail_index(struct driver_ring *r, uint16_t index)
{
	store_release(&r->avail->idx, index); /* partner: the device's acquire */
	ring_kick(r);
}

/* Once around from where the next would be put, that one last, whatever the device has returned. */
static void avail_all_packed(struct driver_ring *r, unsigned flags)
{
	for (unsigned i = r->size; i--;) {
		struct driver_place at = r->add;
		struct vring_packed_desc *d;

		packed_step(r, &at, i);
		d = &r->packed_desc[at.slot];
		if (!d->addr) /* never was used: something that is memory */
			d->addr = ring_gpa(r, r->packed_desc);
		store_relaxed(&d->len, 1600u);
		/* Partner: the device's acquire. */
		store_release(&d->flags, (uint16_t)(flags | packed_flags_available(&at)));
	}
	r->add.wrap ^= 1;
}

void script_avail_all(struct driver_ring *r, bool writable)
{
	if (r->packed) {
		avail_all_packed(r, writable ? VRING_DESC_F_WRITE : 0);
	} else {
		for (uint16_t i = 0; i < r->size; i++)
			r->avail->ring[i] = i;
		/* Partner: the device's release. */
		r->avail_next = (uint16_t)(load_acquire(&r->used->idx) + r->size);
		ring_publish(r);
	}
	ring_kick(r);
}

void script_avail_nonsense(struct driver_ring *r)
{
	if (r->packed) /* a chain without an end */
		avail_all_packed(r, VRING_DESC_F_NEXT);
	else
		store_release(&r->avail->idx, (uint16_t)(r->published + r->size + 1));
	ring_kick(r);
}

bool script_wait_idle(const struct driver_ring *r, int timeout_ms)
{
	uint64_t end = clock_ns() + (uint64_t)timeout_ms * 1000000;

	while (ring_used(r, NULL) != r->published) {
		if (clock_ns() > end)
			return false;
		usleep(LOOK_US);
	}
	return true;
}

int script_call(int sock, uint32_t request, uint32_t flags, const void *payload, uint32_t size,
		const int *fds, unsigned nfds, struct channel_message *ret, int timeout_ms)
{
	int rc = channel_send(sock, request, flags, payload, size, fds, nfds);

	return rc ? rc : channel_receive(sock, ret, timeout_ms);
}
