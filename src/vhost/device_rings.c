// SPDX-License-Identifier: Apache-2.0
/*
 * What the messages mean for one ring.
 *
 * Messages come in any order, so none of them starts a ring by itself: each changes what is known
 * and calls device_ring_update(), which compares what should be with what is. The datapath sees a
 * ring only between virtq_start() and virtq_stop().
 */
#include "vhost/device_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* By message, or because VHOST_USER_F_PROTOCOL_FEATURES was not agreed to. */
static bool ring_enabled(const struct vhost_device *dev, const struct vhost_ring *ring)
{
	return ring->enabled ||
	       (dev->agreed && !(dev->features & BIT(VHOST_USER_F_PROTOCOL_FEATURES)));
}

static bool runs(struct vhost_ring *ring)
{
	return ring && virtq_state(&ring->vq) == VIRTQ_RUNNING;
}

unsigned device_pairs_up(const struct vhost_device *dev)
{
	unsigned pairs = 0;

	for (unsigned i = 0; i < dev->rings; i += 2) {
		if (runs(dev->ring[i]) || runs(dev->ring[i + 1]))
			pairs++;
	}
	return pairs;
}

static int check_index(unsigned index, struct error *err)
{
	if (index >= VHOST_RINGS_MAX)
		return error_set(err, EINVAL, "ring %u does not exist; there are %u", index,
				 VHOST_RINGS_MAX);
	return 0;
}

/* The ring, made if this is its first mention. */
static int get_ring(struct vhost_device *dev, unsigned index, struct vhost_ring **ret,
		    struct error *err)
{
	struct vhost_ring *ring = NULL;
	int r = check_index(index, err);

	if (r)
		return r;
	if (dev->ring[index]) {
		*ret = dev->ring[index];
		return 0;
	}
	ring = aligned_alloc(CACHE_LINE, sizeof(*ring));
	if (!ring)
		return error_no_memory(err);
	memset(ring, 0, sizeof(*ring));
	virtq_init(&ring->vq, &dev->callee);
	ring->index = index;
	ring->kick = ring->told_kick = -1;
	dev->ring[index] = ring;
	dev->rings = MAX(dev->rings, index + 1);
	*ret = ring;
	return 0;
}

/* However it came about: what is, and is not what the owner was told last, is told here. */
static void tell(struct vhost_device *dev, struct vhost_ring *ring)
{
	enum virtq_state state = virtq_state(&ring->vq);

	if (!ring->news && ring->told_state == state && ring->told_kick == ring->kick)
		return;
	ring->news = false;
	ring->told_state = state;
	ring->told_kick = ring->kick;
	if (dev->ring_changed)
		dev->ring_changed(dev, ring);
}

static bool is_packed(const struct vhost_device *dev)
{
	return dev->features & BIT(VIRTIO_F_RING_PACKED);
}

/* 2.7: a split ring's size is a power of 2; 2.8.10.1: a packed one's need not be. */
static bool size_fits(const struct vhost_device *dev, uint32_t size)
{
	return size && size <= VIRTQ_SIZE_MAX && (is_packed(dev) || !(size & (size - 1)));
}

/*
 * Where the ring is, or false if not all of it is in the memory table. The event index fields of a
 * split one count always (2.7.6, 2.7.8). A hostile region may put aligned user addresses at
 * unaligned places here.
 */
static bool ring_locate(const struct vhost_device *dev, const struct vhost_ring *ring,
			const struct vhost_ring_addr *at, struct virtq_addr *ret)
{
	uint64_t n = ring->size;

	if (!dev->mem)
		return false;
	ret->desc = guest_memory_user(dev->mem, at->desc, 16 * n);
	ret->avail = guest_memory_user(dev->mem, at->avail, is_packed(dev) ? 4 : 6 + 2 * n);
	ret->used = guest_memory_user(dev->mem, at->used, is_packed(dev) ? 4 : 6 + 8 * n);
	return ret->desc && ret->avail && ret->used && !(ret->desc & 15) &&
	       !(ret->avail & (is_packed(dev) ? 3 : 1)) && !(ret->used & 3);
}

/* What the datapath's part of the ring shall be. False: nothing, for now. */
static bool ring_setup(const struct vhost_device *dev, const struct vhost_ring *ring,
		       struct virtq_setup *ret)
{
	*ret = (struct virtq_setup){
		.mem = dev->mem,
		.size = ring->size,
		.base = ring->base,
		.features = dev->features,
		.mtu = device_mtu(dev),
	};
	if (dev->options.finish_csum)
		ret->features &= ~BIT(VIRTIO_NET_F_GUEST_CSUM);
	return ring->started && size_fits(dev, ring->size) && ring->has_addr && dev->agreed &&
	       ring_locate(dev, ring, &ring->addr, &ret->addr);
}

void device_ring_update(struct vhost_device *dev, struct vhost_ring *ring)
{
	bool stopped = virtq_state(&ring->vq) == VIRTQ_STOPPED;
	bool enabled = ring_enabled(dev, ring);
	struct virtq_setup setup;

	if (ring->refused_size && ring->refused_size <= dev->options.size_max) {
		ring->size = (uint16_t)ring->refused_size;
		ring->refused_size = 0;
	}
	if (ring->vq.enabled != enabled)
		virtq_set_enabled(&ring->vq, enabled);
	if (!ring_setup(dev, ring, &setup)) {
		if (!stopped)
			ring->base = virtq_stop(&ring->vq);
	} else if (stopped ? !dev->refused : !virtq_runs_as(&ring->vq, &setup)) {
		virtq_start(&ring->vq, &setup);
		ring->news = true;
	}
	tell(dev, ring);
}

/* Until the next SET_VRING_KICK. See ring_changed for the order. */
void device_ring_stop(struct vhost_device *dev, struct vhost_ring *ring)
{
	int fd = ring->kick;

	ring->kick = -1;
	ring->started = false;
	device_ring_update(dev, ring);
	if (fd >= 0)
		close(fd);
}

void device_ring_reset(struct vhost_device *dev, struct vhost_ring *ring)
{
	device_ring_stop(dev, ring);
	/* Without a descriptor there is nothing to allocate, so it cannot fail. */
	virtq_set_call(&ring->vq, -1);
	virtq_set_enabled(&ring->vq, false);
	ring->addr = (struct vhost_ring_addr){ 0 };
	ring->size = ring->base = 0;
	ring->refused_size = 0;
	ring->has_addr = ring->enabled = false;
}

/* Messages about one ring */

int device_set_size(struct vhost_device *dev, unsigned index, uint32_t size, struct error *err)
{
	struct vhost_ring *ring = NULL;
	int r = check_index(index, err);

	if (!r && !size_fits(dev, size))
		r = error_set(err, EINVAL, "ring %u: size %u is not %s up to %d", index, size,
			      is_packed(dev) ? "1" : "a power of 2", VIRTQ_SIZE_MAX);
	if (!r)
		r = get_ring(dev, index, &ring, err);
	if (r)
		return r;
	if (virtq_state(&ring->vq) != VIRTQ_STOPPED)
		device_ring_stop(dev, ring);
	ring->refused_size = size > dev->options.size_max ? size : 0;
	ring->size = ring->refused_size ? 0 : (uint16_t)size;
	if (ring->refused_size)
		return error_set(err, EFBIG,
				 "ring %u: size %u is more than queue-size-max=%u; start QEMU "
				 "with rx_queue_size= and tx_queue_size= no larger",
				 index, size, dev->options.size_max);
	device_ring_update(dev, ring);
	return 0;
}

int device_set_base(struct vhost_device *dev, unsigned index, uint32_t base, struct error *err)
{
	struct vhost_ring *ring = NULL;
	int r = check_index(index, err);

	if (!r && base > UINT16_MAX && !is_packed(dev))
		r = error_set(err, EINVAL, "ring %u: base %u is more than 16 bits", index, base);
	if (!r)
		r = get_ring(dev, index, &ring, err);
	if (r)
		return r;
	virtq_stop(&ring->vq);
	ring->base = base;
	device_ring_update(dev, ring);
	return 0;
}

int device_set_addr(struct vhost_device *dev, unsigned index, const struct vhost_ring_addr *addr,
		    struct error *err)
{
	struct vhost_ring *ring = NULL;
	struct virtq_addr at;
	int r = check_index(index, err);

	if (!r && ((addr->desc & 15) || (addr->avail & 1) || (addr->used & 3)))
		r = error_set(err, EINVAL, "ring %u: addresses are not aligned", index);
	if (!r)
		r = get_ring(dev, index, &ring, err);
	if (r)
		return r;
	/* Before memory and size are known there is nothing to hold it against. */
	if (dev->mem && ring->size && !ring_locate(dev, ring, addr, &at))
		return error_set(err, EINVAL, "ring %u is not within one memory region", index);
	ring->addr = *addr;
	ring->has_addr = true;
	device_ring_update(dev, ring);
	return 0;
}

int device_get_base(struct vhost_device *dev, unsigned index, uint32_t *ret_base, struct error *err)
{
	struct vhost_ring *ring = NULL;
	int r = get_ring(dev, index, &ring, err);

	if (r)
		return r;
	device_ring_stop(dev, ring);
	*ret_base = ring->base;
	return 0;
}

static int check_eventfd(unsigned index, int fd, const char *what, struct error *err)
{
	int is = fd < 0 ? true : foreign_is_eventfd(fd);

	if (is < 0)
		return error_set(err, -is, "cannot look at descriptors in /proc/self/fd: %s",
				 strerror(-is));
	if (!is)
		return error_set(err, EBADF, "ring %u: its %s descriptor is not an eventfd", index,
				 what);
	return 0;
}

int device_set_kick(struct vhost_device *dev, unsigned index, int fd, struct error *err)
{
	struct vhost_ring *ring = NULL;
	int before, r = check_index(index, err);

	if (!r)
		r = check_eventfd(index, fd, "kick", err);
	if (!r)
		r = get_ring(dev, index, &ring, err);
	if (r)
		return r;
	before = ring->kick;
	if (before >= 0) {
		ring->kick = -1;
		tell(dev, ring);
		close(before);
	}
	ring->started = true;
	ring->kick = fd;
	device_ring_update(dev, ring);
	return 0;
}

int device_set_call(struct vhost_device *dev, unsigned index, int fd, struct error *err)
{
	struct vhost_ring *ring = NULL;
	int r = check_index(index, err);

	if (!r)
		r = check_eventfd(index, fd, "call", err);
	if (!r)
		r = get_ring(dev, index, &ring, err);
	if (r)
		return r;
	/* Shared with the front-end, which can take it back: a worker must not rely on it. */
	if (fd >= 0)
		fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
	/* One that is replaced stays open for a grace period: they must not pile up. */
	if (load_relaxed(&dev->callee.retired) >= VHOST_CALLS_RETIRED_MAX)
		return error_set(err, EAGAIN, "call descriptors are replaced too fast");
	if (virtq_set_call(&ring->vq, fd))
		return error_no_memory(err);
	ring->news |= virtq_active(virtq_state(&ring->vq));
	tell(dev, ring);
	return 0;
}

int device_set_err(struct vhost_device *dev, unsigned index, int fd, struct error *err)
{
	int r = check_index(index, err);

	if (!r)
		r = check_eventfd(index, fd, "error", err);
	if (!r && fd >= 0)
		close(fd);
	return r;
}

int device_set_enabled(struct vhost_device *dev, unsigned index, bool enabled, struct error *err)
{
	struct vhost_ring *ring = NULL;
	int r = get_ring(dev, index, &ring, err);

	if (r)
		return r;
	ring->enabled = enabled;
	device_ring_update(dev, ring);
	return 0;
}
