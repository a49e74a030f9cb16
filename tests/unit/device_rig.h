/* SPDX-License-Identifier: Apache-2.0 */
/* A device without a socket, a guest's memory for it, and the messages that set a ring up. */
#ifndef RINGWAY_TEST_DEVICE_RIG_H
#define RINGWAY_TEST_DEVICE_RIG_H

#include "vhost_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "virtq/notify.h"

#define PROTOCOL BIT(VHOST_USER_F_PROTOCOL_FEATURES)
#define MODERN	 (PROTOCOL | BIT(VIRTIO_F_VERSION_1))

struct rig {
	struct vhost_device dev;
	int mem_fd;
	uint8_t *base;
	struct error err;
	/* Seen by the hook. */
	unsigned told;
	enum virtq_state state;
	int watched;	   /* the kick that a worker would have in its epoll set */
	bool closed_first; /* it was closed before it could be taken out */
};

static struct rig *rig;

static inline void ring_changed(struct vhost_device *dev, struct vhost_ring *ring)
{
	rig->told++;
	rig->state = virtq_state(&ring->vq);
	if (rig->watched >= 0 && fcntl(rig->watched, F_GETFD) < 0)
		rig->closed_first = true;
	rig->watched = ring->kick;
}

static inline int setup(void **state)
{
	rig = calloc(1, sizeof(*rig));
	rig->mem_fd = memory_fd(MEMORY_SIZE);
	rig->base = mmap(NULL, MEMORY_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, rig->mem_fd, 0);
	rig->watched = -1;
	device_init(&rig->dev, ring_changed);
	return 0;
}

static inline int teardown(void **state)
{
	device_destroy(&rig->dev);
	munmap(rig->base, MEMORY_SIZE);
	close(rig->mem_fd);
	rcu_drain();
	free(rig);
	return 0;
}

static inline struct guest_mapping *map(const struct guest_region_desc *desc)
{
	struct guest_mapping *mapping = NULL;

	assert_int_equal(guest_mapping_create(rig->mem_fd, desc, &mapping, &rig->err), 0);
	return mapping;
}

static inline int set_memory(const struct guest_region_desc *desc)
{
	struct guest_mapping *mapping = map(desc);
	int r = device_set_memory(&rig->dev, &mapping, 1, &rig->err);

	guest_mapping_put(mapping);
	return r;
}

static inline int kick(unsigned index)
{
	return device_set_kick(&rig->dev, index, eventfd(0, EFD_CLOEXEC), &rig->err);
}

static inline int set_addr(unsigned index)
{
	struct vhost_ring_addr addr = ring_addr(index);

	return device_set_addr(&rig->dev, index, &addr, &rig->err);
}

enum step { FEATURES, MEMORY, SIZE, BASE, ADDR, KICK, ENABLE };

static inline void take(enum step step, unsigned index, uint64_t features, uint16_t base)
{
	struct vhost_device *dev = &rig->dev;
	struct guest_region_desc desc = memory_desc();

	switch (step) {
	case FEATURES:
		assert_int_equal(device_set_features(dev, features, &rig->err), 0);
		break;
	case MEMORY:
		assert_int_equal(set_memory(&desc), 0);
		break;
	case SIZE:
		assert_int_equal(device_set_size(dev, index, RING_SIZE, &rig->err), 0);
		break;
	case BASE:
		assert_int_equal(device_set_base(dev, index, base, &rig->err), 0);
		break;
	case ADDR:
		assert_int_equal(set_addr(index), 0);
		break;
	case KICK:
		assert_int_equal(kick(index), 0);
		break;
	case ENABLE:
		assert_int_equal(device_set_enabled(dev, index, true, &rig->err), 0);
		break;
	}
}

static inline void start_ring(unsigned index, uint64_t features)
{
	for (enum step step = FEATURES; step <= ENABLE; step++)
		take(step, index, features, 0);
	assert_int_equal(rig->dev.ring[index]->vq.state, VIRTQ_RUNNING);
}

static inline void collect_all(struct virtq *vq)
{
	struct batch *b = aligned_alloc(CACHE_LINE, sizeof(*b));
	struct virtq_calls calls = { 0 };

	while (virtq_collect(vq, b))
		virtq_complete(vq, b, &calls);
	free(b);
	vq->call_pending = false;
}

#endif
