// SPDX-License-Identifier: Apache-2.0
/*
 * A ring's life as control leads it, and its kicks. Everything here holds the ring's lock.
 */
#include "virtq/virtq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rcu.h"
#include "net/vnet_hdr.h"
#include "virtq/ring.h"

void virtq_init(struct virtq *vq, struct virtq_callee *callee)
{
	pthread_mutexattr_t attr;

	memset(vq, 0, sizeof(*vq));
	vq->callee = callee;
	/* Spins for a moment, then sleeps: whoever holds it may have lost its CPU. */
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(&vq->lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

static void call_free(struct virtq_call *call)
{
	close(call->fd);
	free(call);
}

static void call_release(struct rcu_item *item)
{
	struct virtq_call *call = container_of(item, struct virtq_call, rcu);

	add_relaxed(&call->callee->retired, -1);
	call_free(call);
}

void virtq_destroy(struct virtq *vq)
{
	if (vq->call)
		call_free(vq->call);
	pthread_mutex_destroy(&vq->lock);
}

/* Of a started ring. */
static enum virtq_state state_by_enable(const struct virtq *vq)
{
	if (vq->enabled)
		return VIRTQ_RUNNING;
	return vq->was_enabled ? VIRTQ_DRAINING : VIRTQ_DISABLED;
}

/* Kicks off: by flag; in a split ring with an event index, by not moving the index on. */
static void suppress_kicks(struct virtq *vq)
{
	vq->kicks_on = false;
	if (vq->packed)
		guest_store32(packed_device_event(vq), VRING_PACKED_EVENT_FLAG_DISABLE << 16);
	else if (!vq->event_idx)
		guest_store16(split_used_flags(vq), VRING_USED_F_NO_NOTIFY);
}

/*
 * No chain is ever kept, so what is to be taken next lies between what is used and what is
 * available (unless a driver offers heads outside its ring, to its own harm). A base that does not
 * is wrong, and the used index right: DPDK's virtio-user says 0 after every reconnect, whatever has
 * passed. So 0 is never believed; it happens to lie there too, when the indexes are about to wrap.
 */
static uint16_t plausible_base(const struct virtq *vq, uint16_t base)
{
	uint16_t ahead = base - vq->used_next, left = guest_load16(split_avail_idx(vq)) - base;

	return base && ahead <= vq->size && left <= vq->size ? base : vq->used_next;
}

/* Kicks on, for what comes at `avail_next`. */
static void ask_for_kicks(struct virtq *vq)
{
	vq->kicks_on = true;
	if (vq->packed)
		guest_store32(packed_device_event(vq),
			      vq->event_idx ? packed_place(vq) | VRING_PACKED_EVENT_FLAG_DESC << 16
					    : VRING_PACKED_EVENT_FLAG_ENABLE << 16);
	else if (vq->event_idx)
		guest_store16(split_avail_event(vq), vq->avail_next);
	else
		guest_store16(split_used_flags(vq), 0);
}

/* The truth about used entries is in a split ring: after a crash nobody else knows. */
static void split_begin(struct virtq *vq, uint16_t base)
{
	vq->used_next = guest_load16(split_used_idx(vq));
	vq->avail_next = vq->avail_seen = plausible_base(vq, base);
}

/*
 * A packed one does not tell. No chain is ever kept, so the two places are one. Who lost the place
 * in a crash of the device says an old one; half of the time the slot there shows it, being used in
 * the round that is to come.
 */
static void packed_begin(struct virtq *vq, uint32_t base)
{
	uint16_t slot = base & 0x7fff;

	vq->avail_next = slot < vq->size ? slot : 0;
	vq->round = slot >= vq->size || base >> 15 & 1 ? PACKED_ROUND : 0;
	vq->used_slots = 0;
	vq->lost = packed_lost(vq);
	/* To count them is dear; drivers of packed rings fill them. */
	vq->avail_most = vq->size;
}

/* Where a started ring is, in the form that virtq_stop() returns. */
static uint32_t place_of(const struct virtq *vq)
{
	if (!vq->packed)
		return vq->avail_next;
	return packed_place(vq) * 0x10001u;
}

void virtq_start(struct virtq *vq, const struct virtq_setup *setup)
{
	uint32_t base = setup->base;

	pthread_mutex_lock(&vq->lock);
	if (vq->state == VIRTQ_STOPPED) {
		vq->was_enabled = vq->enabled;
		vq->avail_most = 0;
	} else {
		base = place_of(vq);
		vq->avail_most = MIN(vq->avail_most, setup->size);
	}
	vq->mem = setup->mem;
	vq->addr = setup->addr;
	vq->size = setup->size;
	vq->features = setup->features;
	vq->mtu = setup->mtu;
	vq->hdr_len = (uint8_t)vnet_hdr_len(setup->features);
	vq->event_idx = setup->features & BIT(VIRTIO_RING_F_EVENT_IDX);
	vq->indirect = setup->features & BIT(VIRTIO_RING_F_INDIRECT_DESC);
	vq->mergeable = setup->features & BIT(VIRTIO_NET_F_MRG_RXBUF);
	vq->packed = setup->features & BIT(VIRTIO_F_RING_PACKED);
	vq->lost = false;
	if (vq->packed)
		packed_begin(vq, base);
	else
		split_begin(vq, (uint16_t)base);
	vq->called = false;
	vq->state = state_by_enable(vq);
	if (vq->lost)
		ring_break(vq);
	suppress_kicks(vq);
	pthread_mutex_unlock(&vq->lock);
}

bool virtq_runs_as(const struct virtq *vq, const struct virtq_setup *setup)
{
	return vq->mem == setup->mem && !memcmp(&vq->addr, &setup->addr, sizeof(vq->addr)) &&
	       vq->size == setup->size && vq->features == setup->features && vq->mtu == setup->mtu;
}

uint32_t virtq_stop(struct virtq *vq)
{
	uint32_t base;

	pthread_mutex_lock(&vq->lock);
	base = place_of(vq);
	vq->state = VIRTQ_STOPPED;
	vq->mem = NULL;
	vq->addr = (struct virtq_addr){ 0 };
	pthread_mutex_unlock(&vq->lock);
	return base;
}

void virtq_set_enabled(struct virtq *vq, bool enabled)
{
	pthread_mutex_lock(&vq->lock);
	vq->enabled = enabled;
	vq->was_enabled |= enabled;
	if (vq->state != VIRTQ_STOPPED && vq->state != VIRTQ_BROKEN)
		vq->state = state_by_enable(vq);
	pthread_mutex_unlock(&vq->lock);
}

int virtq_set_call(struct virtq *vq, int fd)
{
	struct virtq_call *call = NULL, *before;

	if (fd >= 0) {
		call = malloc(sizeof(*call));
		if (!call)
			return -ENOMEM;
		call->fd = fd;
		call->callee = vq->callee;
	}
	pthread_mutex_lock(&vq->lock);
	before = vq->call;
	vq->call = call;
	vq->called = false; /* what was published before may never have been called */
	pthread_mutex_unlock(&vq->lock);
	if (before) {
		add_relaxed(&vq->callee->retired, 1);
		rcu_free_later(&before->rcu, call_release);
	}
	return 0;
}

enum virtq_state virtq_state(struct virtq *vq)
{
	enum virtq_state state;

	pthread_mutex_lock(&vq->lock);
	state = vq->state;
	pthread_mutex_unlock(&vq->lock);
	return state;
}

bool virtq_ready(struct virtq *vq)
{
	bool ready = false;

	pthread_mutex_lock(&vq->lock);
	if (virtq_active(vq->state))
		ready = ring_ready(vq);
	pthread_mutex_unlock(&vq->lock);
	return ready;
}

bool virtq_kicks_on(struct virtq *vq)
{
	bool ready = false;

	pthread_mutex_lock(&vq->lock);
	if (vq->state != VIRTQ_STOPPED && vq->state != VIRTQ_BROKEN) {
		ask_for_kicks(vq);
		fence_store_load(); /* partner: the driver's, between avail->idx and this look */
		vq->avail_seen = vq->avail_next;
		ready = ring_ready(vq);
	}
	pthread_mutex_unlock(&vq->lock);
	return ready;
}

void virtq_kicks_off(struct virtq *vq)
{
	pthread_mutex_lock(&vq->lock);
	if (vq->state != VIRTQ_STOPPED && vq->kicks_on)
		suppress_kicks(vq);
	pthread_mutex_unlock(&vq->lock);
}
