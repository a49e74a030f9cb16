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
#include "virtq/split.h"

int virtq_init(struct virtq *vq, uint32_t *retired)
{
	memset(vq, 0, sizeof(*vq));
	vq->retired = retired;
	/* Spins for a moment, then sleeps: whoever holds it may have lost its CPU. */
	pthread_mutexattr_t attr;
	int r;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	r = pthread_mutex_init(&vq->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	return -r;
}

static void call_free(struct virtq_call *call)
{
	close(call->fd);
	free(call);
}

static void call_release(struct rcu_item *item)
{
	struct virtq_call *call = container_of(item, struct virtq_call, rcu);

	add_relaxed(call->retired, -1);
	call_free(call);
}

void virtq_destroy(struct virtq *vq)
{
	if (vq->call)
		call_free(vq->call);
	pthread_mutex_destroy(&vq->lock);
}

static void update_state(struct virtq *vq)
{
	if (!vq->started)
		vq->state = VIRTQ_STOPPED;
	else if (vq->state != VIRTQ_BROKEN)
		vq->state = vq->enabled	      ? VIRTQ_RUNNING
			    : vq->was_enabled ? VIRTQ_DRAINING
					      : VIRTQ_DISABLED;
}

/* Kicks off: by flag where there is no event index; with it, by not moving the index on. */
static void suppress_kicks(struct virtq *vq)
{
	vq->kicks_on = false;
	if (!vq->event_idx)
		guest_store16(split_used_flags(vq), VRING_USED_F_NO_NOTIFY);
}

/*
 * No chain is ever kept, so what is to be taken next lies between what is used and what is
 * available (unless a driver offers heads outside its ring, to its own harm). A base that does not
 * is wrong, and the used index right: DPDK's virtio-user says 0 after every reconnect, whatever has
 * passed.
 */
static uint16_t plausible_base(const struct virtq *vq, uint16_t base)
{
	uint16_t ahead = base - vq->used_next, left = guest_load16(split_avail_idx(vq)) - base;

	return ahead <= vq->size && left <= vq->size ? base : vq->used_next;
}

void virtq_start(struct virtq *vq, const struct virtq_setup *setup)
{
	pthread_mutex_lock(&vq->lock);
	vq->mem = setup->mem;
	vq->addr = setup->addr;
	vq->size = setup->size;
	vq->features = setup->features;
	vq->mtu = setup->mtu;
	vq->hdr_len = (uint8_t)vnet_hdr_len(setup->features);
	vq->event_idx = setup->features & BIT(VIRTIO_RING_F_EVENT_IDX);
	vq->indirect = setup->features & BIT(VIRTIO_RING_F_INDIRECT_DESC);
	vq->mergeable = setup->features & BIT(VIRTIO_NET_F_MRG_RXBUF);
	/* The truth about used entries is in the ring: after a crash nobody else knows. */
	vq->used_next = guest_load16(split_used_idx(vq));
	vq->avail_next = vq->avail_seen = plausible_base(vq, setup->base);
	vq->avail_most = 0;
	vq->called = false;
	vq->state = VIRTQ_STOPPED;
	vq->started = true;
	vq->was_enabled = vq->enabled || (setup->again && vq->was_enabled);
	suppress_kicks(vq);
	update_state(vq);
	pthread_mutex_unlock(&vq->lock);
}

uint16_t virtq_stop(struct virtq *vq)
{
	uint16_t base;

	pthread_mutex_lock(&vq->lock);
	base = vq->avail_next;
	vq->started = false;
	vq->mem = NULL;
	vq->addr = (struct virtq_addr){ 0 };
	update_state(vq);
	pthread_mutex_unlock(&vq->lock);
	return base;
}

void virtq_remap(struct virtq *vq, const struct guest_memory *mem, const struct virtq_addr *addr)
{
	pthread_mutex_lock(&vq->lock);
	vq->mem = mem;
	vq->addr = *addr;
	pthread_mutex_unlock(&vq->lock);
}

void virtq_set_enabled(struct virtq *vq, bool enabled)
{
	pthread_mutex_lock(&vq->lock);
	vq->enabled = enabled;
	vq->was_enabled |= enabled;
	update_state(vq);
	pthread_mutex_unlock(&vq->lock);
}

void virtq_adjust(struct virtq *vq, uint64_t features, uint16_t mtu)
{
	pthread_mutex_lock(&vq->lock);
	vq->features = features;
	vq->mtu = mtu;
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
		call->retired = vq->retired;
	}
	pthread_mutex_lock(&vq->lock);
	before = vq->call;
	vq->call = call;
	vq->called = false; /* what was published before may never have been called */
	pthread_mutex_unlock(&vq->lock);
	if (before) {
		add_relaxed(vq->retired, 1);
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
		ready = split_available(vq, 1) > 0;
	pthread_mutex_unlock(&vq->lock);
	return ready;
}

bool virtq_kicks_on(struct virtq *vq)
{
	bool ready = false;

	pthread_mutex_lock(&vq->lock);
	if (vq->started && vq->state != VIRTQ_BROKEN) {
		vq->kicks_on = true;
		if (vq->event_idx)
			guest_store16(split_avail_event(vq), vq->avail_next);
		else
			guest_store16(split_used_flags(vq), 0);
		fence_store_load(); /* partner: the driver's, between avail->idx and this look */
		vq->avail_seen = vq->avail_next;
		ready = split_available(vq, 1) > 0;
	}
	pthread_mutex_unlock(&vq->lock);
	return ready;
}

void virtq_kicks_off(struct virtq *vq)
{
	pthread_mutex_lock(&vq->lock);
	if (vq->started && vq->kicks_on)
		suppress_kicks(vq);
	pthread_mutex_unlock(&vq->lock);
}
