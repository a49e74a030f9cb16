// SPDX-License-Identifier: Apache-2.0
/*
 * What the messages mean for features, status and memory.
 *
 * virtq_stop() and virtq_start() take the ring's lock, so when one of them has returned for every
 * ring, no worker is in the old memory and it can be unmapped at once.
 */
#include "vhost/device_priv.h"

#include <errno.h>
#include <linux/virtio_config.h>
#include <stdlib.h>
#include <string.h>

#include "base/rcu.h"

void device_init(struct vhost_device *dev, device_ring_changed ring_changed)
{
	memset(dev, 0, sizeof(*dev));
	dev->ring_changed = ring_changed;
	dev->options.offered = features_offered();
	dev->options.size_max = VIRTQ_SIZE_MAX;
	dev->options.memory_max_gib = DEVICE_MEMORY_MAX_GIB;
	dev->options.messages_max = DEVICE_MESSAGES_MAX;
}

uint16_t device_mtu(const struct vhost_device *dev)
{
	uint16_t mtu = dev->options.mtu;

	return mtu && dev->front_mtu ? MIN(mtu, dev->front_mtu) : MAX(mtu, dev->front_mtu);
}

void device_reset(struct vhost_device *dev)
{
	struct guest_memory *mem = dev->mem;

	for (unsigned i = 0; i < dev->rings; i++) {
		if (dev->ring[i])
			device_ring_reset(dev, dev->ring[i]);
	}
	dev->told = dev->features = dev->refused = dev->protocol_features = 0;
	dev->agreed = false;
	dev->status = 0;
	dev->front_mtu = 0;
	dev->mem = NULL;
	guest_memory_free(mem);
}

static void ring_release(struct rcu_item *item)
{
	struct vhost_ring *ring = container_of(item, struct vhost_ring, rcu);

	virtq_destroy(&ring->vq);
	free(ring);
}

void device_destroy(struct vhost_device *dev)
{
	device_reset(dev);
	for (unsigned i = 0; i < dev->rings; i++) {
		struct vhost_ring *ring = dev->ring[i];

		if (!ring)
			continue;
		dev->ring[i] = NULL;
		rcu_free_later(&ring->rcu, ring_release);
	}
	dev->rings = 0;
	foreign_put(dev->foreign);
	dev->foreign = NULL;
}

static void update_all(struct vhost_device *dev)
{
	for (unsigned i = 0; i < dev->rings; i++) {
		if (dev->ring[i])
			device_ring_update(dev, dev->ring[i]);
	}
}

/* Features */

uint64_t device_offer(struct vhost_device *dev)
{
	dev->told |= dev->options.offered;
	return dev->options.offered;
}

int device_set_features(struct vhost_device *dev, uint64_t features, struct error *err)
{
	uint64_t excess = features & ~(dev->options.offered | dev->told);
	char names[160];

	dev->refused = excess;
	if (excess) {
		features_text(excess, names, sizeof(names));
		return error_set(err, ENOTSUP, "features that were not offered: %s", names);
	}
	dev->features = features;
	dev->agreed = true;
	update_all(dev);
	return 0;
}

int device_set_protocol_features(struct vhost_device *dev, uint64_t features, struct error *err)
{
	uint64_t excess = features & ~VHOST_PROTOCOL_FEATURES_OFFERED;
	char names[160];

	if (excess) {
		protocol_features_text(excess, names, sizeof(names));
		return error_set(err, ENOTSUP, "protocol features that were not offered: %s",
				 names);
	}
	dev->protocol_features = features;
	return 0;
}

int device_set_status(struct vhost_device *dev, uint64_t status, struct error *err)
{
	if (status > UINT8_MAX)
		return error_set(err, EINVAL, "virtio status %#llx has more than 8 bits",
				 (unsigned long long)status);
	if (!status) {
		dev->refused = 0;
		for (unsigned i = 0; i < dev->rings; i++) {
			if (dev->ring[i])
				device_ring_stop(dev, dev->ring[i]);
		}
	}
	if (dev->refused)
		status &= ~(uint64_t)VIRTIO_CONFIG_S_FEATURES_OK;
	/* A front-end adds bits to what it was told; this one is the device's. */
	dev->status = (uint8_t)status & ~VIRTIO_CONFIG_S_NEEDS_RESET;
	return 0;
}

int device_broken_ring(const struct vhost_device *dev)
{
	for (unsigned i = 0; i < dev->rings; i++) {
		if (dev->ring[i] && virtq_state(&dev->ring[i]->vq) == VIRTQ_BROKEN)
			return (int)i;
	}
	return -1;
}

uint8_t device_status(const struct vhost_device *dev)
{
	return dev->status | (device_broken_ring(dev) < 0 ? 0 : VIRTIO_CONFIG_S_NEEDS_RESET);
}

void device_set_options(struct vhost_device *dev, const struct vhost_device_options *options)
{
	dev->options = *options;
	update_all(dev);
}

int device_set_front_mtu(struct vhost_device *dev, uint64_t mtu, struct error *err)
{
	if (mtu < DEVICE_MTU_MIN || mtu > UINT16_MAX)
		return error_set(err, EINVAL, "MTU %llu is not from %d to %d",
				 (unsigned long long)mtu, DEVICE_MTU_MIN, UINT16_MAX);
	dev->front_mtu = (uint16_t)mtu;
	update_all(dev);
	return 0;
}

/* Memory */

/* Moves everything into `mem` and frees the table before. */
static void adopt_memory(struct vhost_device *dev, struct guest_memory *mem)
{
	struct guest_memory *before = dev->mem;

	dev->mem = mem;
	update_all(dev);
	guest_memory_free(before);
}

uint64_t device_memory(const struct vhost_device *dev)
{
	uint64_t total = 0;

	for (unsigned i = 0; dev->mem && i < dev->mem->n; i++)
		total += dev->mem->region[i].size;
	return total;
}

int device_set_memory(struct vhost_device *dev, struct guest_mapping *const *mappings, unsigned n,
		      struct error *err)
{
	struct guest_memory *mem;
	uint64_t total = 0;
	int r;

	for (unsigned i = 0; i < n; i++)
		total += guest_mapping_desc(mappings[i])->size;
	/* Who has more since the limit was lowered may take some away. */
	if (total > (uint64_t)dev->options.memory_max_gib << 30 && total > device_memory(dev))
		return error_set(err, EDQUOT,
				 "the guest has %llu MiB of memory, more than memory-max=%u (GiB); "
				 "raise that with 'ringway port set'",
				 (unsigned long long)total >> 20, dev->options.memory_max_gib);
	r = guest_memory_create(mappings, n, &mem, err);
	if (!r)
		adopt_memory(dev, mem);
	return r;
}

/* Where the region is in the table, or where it would be added. */
static unsigned find_region(const struct vhost_device *dev, const struct guest_region_desc *desc)
{
	unsigned at = 0, n = dev->mem ? dev->mem->n : 0;

	for (; at < n; at++) {
		const struct guest_region_desc *d = guest_mapping_desc(dev->mem->mapping[at]);

		if (d->gpa == desc->gpa && d->uva == desc->uva && d->size == desc->size)
			break;
	}
	return at;
}

int device_add_region(struct vhost_device *dev, struct guest_mapping *mapping, struct error *err)
{
	struct guest_mapping *all[GUEST_REGIONS_MAX];
	unsigned n = dev->mem ? dev->mem->n : 0;
	unsigned at = find_region(dev, guest_mapping_desc(mapping));

	if (at == GUEST_REGIONS_MAX)
		return error_set(err, ENOSPC, "more than %d memory regions", GUEST_REGIONS_MAX);
	if (n)
		memcpy(all, dev->mem->mapping, n * sizeof(all[0]));
	all[at] = mapping;
	return device_set_memory(dev, all, MAX(n, at + 1), err);
}

int device_del_region(struct vhost_device *dev, const struct guest_region_desc *desc,
		      struct error *err)
{
	struct guest_mapping *all[GUEST_REGIONS_MAX];
	unsigned at = find_region(dev, desc), n;

	if (!dev->mem || at == dev->mem->n)
		return 0;
	n = dev->mem->n;
	memcpy(all, dev->mem->mapping, n * sizeof(all[0]));
	all[at] = all[n - 1];
	return device_set_memory(dev, all, n - 1, err);
}
