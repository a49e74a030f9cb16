// SPDX-License-Identifier: Apache-2.0
/*
 * What a vhost-user port tells of itself, above all why it carries nothing. Control thread;
 * counters are read while workers write them.
 */
#include <stdio.h>
#include <string.h>

#include "port/vhost_user_priv.h"

/* The first ring that was refused for its size, or NULL. */
static const struct vhost_ring *refused_ring(const struct vhost_device *dev)
{
	for (unsigned i = 0; i < dev->rings; i++) {
		if (dev->ring[i] && dev->ring[i]->refused_size)
			return dev->ring[i];
	}
	return NULL;
}

static void report_resting(const struct vhost_device *dev, struct port_report *ret)
{
	const struct vhost_ring *refused = refused_ring(dev);

	ret->state = "agreed";
	if (!dev->mem)
		snprintf(ret->reason, sizeof(ret->reason),
			 "the front-end has sent no memory: give the guest memory that is shared "
			 "(memory-backend-memfd,share=on)");
	else if (refused)
		snprintf(ret->reason, sizeof(ret->reason),
			 "ring %u: size %u is more than queue-size-max=%u; start QEMU with "
			 "rx_queue_size= and tx_queue_size= no larger",
			 refused->index, refused->refused_size, dev->options.size_max);
	else
		snprintf(ret->reason, sizeof(ret->reason),
			 "no ring is up: the guest's driver has not started its queues");
}

uint64_t vhost_user_sent(const struct vhost_user_port *p)
{
	struct frame_counters sent = { .frames = 0 };
	uint64_t n;

	for (unsigned i = 1; i < p->dev.rings; i += 2) {
		if (p->dev.ring[i])
			frame_counters_add(&sent, &p->dev.ring[i]->vq.stats);
	}
	n = sent.frames;
	for (unsigned i = 0; i < DROP_COUNT; i++)
		n += sent.dropped[i];
	return n;
}

static void report_state(struct vhost_user_port *p, struct port_report *ret)
{
	const struct vhost_device *dev = &p->dev;
	int broken = device_broken_ring(dev);

	if (!p->session) {
		ret->state = "waiting";
		if (p->endpoint && endpoint_lost(p->endpoint))
			snprintf(ret->reason, sizeof(ret->reason),
				 "its socket %s was removed: delete the port and add it again",
				 p->config.listen);
		else
			snprintf(ret->reason, sizeof(ret->reason), "%s", p->waiting);
	} else if (!dev->agreed) {
		ret->state = "connected";
		snprintf(ret->reason, sizeof(ret->reason),
			 "the guest's driver has not agreed to features yet");
	} else if (!ret->queue_pairs) {
		report_resting(dev, ret);
	} else {
		ret->state = "up";
		/* Without share=on a guest writes to a copy of its own: nothing comes here. */
		if (vhost_user_sent(p) == p->sent_before)
			snprintf(ret->reason, sizeof(ret->reason),
				 "the guest has sent nothing; if it did, its memory lacks "
				 "share=on%s",
				 dev->features & BIT(VIRTIO_F_RING_PACKED)
					 ? ", or a crash of the switch cost its packed rings their "
					   "place: reset the guest's device"
					 : "");
	}
	if (broken >= 0) {
		ret->state = "broken";
		snprintf(ret->reason, sizeof(ret->reason),
			 dev->ring[broken]->vq.lost
				 ? VHOST_USER_RING_LOST
				 : "ring %d: what the guest made available makes no sense; reset "
				   "the guest's driver",
			 broken);
	}
}

/* A front-end that is there goes on with what it was offered. */
static void report_pending(const struct vhost_user_port *p, struct port_report *ret)
{
	if (p->session && p->dev.told && p->dev.told != p->dev.options.offered)
		snprintf(ret->pending, sizeof(ret->pending),
			 "features= counts for front-ends that connect from now on: restart QEMU");
}

static void report_limits(const struct vhost_user_port *p, struct port_report *ret)
{
	const struct vhost_device *dev = &p->dev;
	const struct port_limit limits[] = {
		{ "memory-max", dev->options.memory_max_gib },
		{ "messages-max", dev->options.messages_max },
		{ "queue-size-max", dev->options.size_max },
	};

	_Static_assert(ARRAY_SIZE(limits) < PORT_LIMITS_MAX, "one is the log's");
	memcpy(ret->limit, limits, sizeof(limits));
	ret->limits = ARRAY_SIZE(limits);
	memcpy(ret->refused, dev->refusals, sizeof(ret->refused));
	for (unsigned i = 0; i < dev->rings; i++) {
		if (dev->ring[i])
			ret->refused[REFUSAL_RING_BROKEN] += load_relaxed(&dev->ring[i]->vq.breaks);
	}
}

void vhost_user_report(struct port *port, struct port_report *ret)
{
	struct vhost_user_port *p = vhost_user_port(port);

	memset(ret, 0, sizeof(*ret));
	ret->queue_pairs = device_pairs_up(&p->dev);
	ret->features = p->dev.features;
	ret->mtu = device_mtu(&p->dev);
	ret->memory = device_memory(&p->dev);
	snprintf(ret->last_error, sizeof(ret->last_error), "%s", p->last_error);
	report_pending(p, ret);
	report_limits(p, ret);
	port_report_common(port, ret);
	for (unsigned i = 0; i < p->dev.rings; i++) {
		if (p->dev.ring[i])
			frame_counters_add(i & 1 ? &ret->ingress : &ret->egress,
					   &p->dev.ring[i]->vq.stats);
	}
	report_state(p, ret);
}

static const char *const states[] = {
	[VIRTQ_STOPPED] = "stopped", [VIRTQ_DISABLED] = "disabled", [VIRTQ_DRAINING] = "disabled",
	[VIRTQ_RUNNING] = "running", [VIRTQ_BROKEN] = "broken",
};

static const char *format_of(const struct vhost_device *dev)
{
	if (!dev->agreed)
		return NULL;
	return dev->features & BIT(VIRTIO_F_RING_PACKED) ? "packed" : "split";
}

unsigned vhost_user_report_queues(struct port *port, struct queue_report *rows, unsigned max)
{
	struct vhost_user_port *p = vhost_user_port(port);
	unsigned n = 0;

	for (unsigned i = 0; i < p->dev.rings; i++) {
		struct vhost_ring *ring = p->dev.ring[i];
		struct vhost_user_queue *q = i & 1 ? p->queue[i / 2] : NULL;

		if (!ring)
			continue;
		if (n < max)
			rows[n] = (struct queue_report){
				.queue = i,
				.tx = i & 1,
				.state = states[virtq_state(&ring->vq)],
				.format = format_of(&p->dev),
				.size = ring->size,
				.frames = load_relaxed(&ring->vq.stats.frames),
				.bytes = load_relaxed(&ring->vq.stats.bytes),
				.segments = load_relaxed(&ring->vq.segments),
				.kicks = q ? load_relaxed(&q->q.kicks) : 0,
				.calls = load_relaxed(&ring->vq.calls),
				.ingress = q ? &q->q : NULL,
			};
		n++;
	}
	return n;
}
