// SPDX-License-Identifier: Apache-2.0
#include "rings.h"

#include <errno.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest/memory.h"
#include "net/checksum.h"

static const struct form forms[] = {
	{ "plain", 0, 0, 0 },
	{ "pass", VIRTIO_NET_HDR_F_NEEDS_CSUM, 0, BIT(VIRTIO_NET_F_GUEST_CSUM) },
	{ "finish", VIRTIO_NET_HDR_F_NEEDS_CSUM, 0, 0 },
	{ "cut", VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_TCPV4,
	  BIT(VIRTIO_NET_F_GUEST_CSUM) },
	{ "cut-finish", VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_TCPV4, 0 },
};

/*
 * All frames lie in this much memory, in buffers that are used over and over, so that large frames
 * come from the same cache as small ones.
 */
#define FRAMES_MEMORY (RING * 2048u)

/* From one buffer to the next: not a power of 2, or all of them would meet in the same cache sets.
 */
static uint32_t stride_of(uint32_t len)
{
	return (len + (uint32_t)VNET_HDR_LEN + 320) & ~63u;
}

/* How many frames of this length there are. */
static unsigned distinct(uint32_t frame_len)
{
	return MIN(RING, FRAMES_MEMORY / frame_len);
}

/* Where guests keep their buffers, behind the rings: of the rx ring, and then of the tx ring. */
#define BUFFERS 131072u

bool rings_collect(struct port_queue *queue, struct batch *b, struct virtq_calls *calls)
{
	return virtq_collect(&container_of(queue, struct guest, queue)->tx, b);
}

void rings_complete(struct port_queue *queue, const struct batch *b, struct virtq_calls *calls)
{
	virtq_complete(&container_of(queue, struct guest, queue)->tx, b, calls);
}

frame_set rings_egress(struct port *port, struct batch *b, frame_set set, struct virtq_calls *calls)
{
	return virtq_deliver(&container_of(port, struct guest, port)->rx, b, set, calls);
}

void rings_ingress_drop(struct port_queue *queue, enum drop reason, unsigned n)
{
}

static const struct port_ops ops = {
	.kind = "bench",
	.collect = rings_collect,
	.complete = rings_complete,
	.ingress_drop = rings_ingress_drop,
	.egress = rings_egress,
};

void rings_die(const char *what)
{
	fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

/*
 * Ring `number` of a guest lies at a fixed place; its descriptors name one of `n` buffers each, the
 * first of which is at `buffers`.
 */
static void ring_start(struct guest *g, struct virtq *vq, unsigned number, uint16_t flags,
		       uint32_t len, uint64_t buffers, unsigned n)
{
	uint64_t ring = number * 65536u;
	struct vring_desc *desc = (struct vring_desc *)(g->base + ring);
	struct vring_avail *avail = (struct vring_avail *)(g->base + ring + 16384);
	struct virtq_setup setup = {
		.mem = g->mem,
		.addr = { (uintptr_t)desc, (uintptr_t)avail, (uintptr_t)(g->base + ring + 32768) },
		.size = RING,
		.features = BIT(VIRTIO_NET_F_MRG_RXBUF) | BIT(VIRTIO_RING_F_EVENT_IDX) | BIT(32) |
			    BIT(VIRTIO_RING_F_INDIRECT_DESC),
	};

	if (flags & VRING_DESC_F_WRITE)
		setup.features |= g->form->receiver;
	else if (g->form->flags)
		setup.features |= BIT(VIRTIO_NET_F_CSUM) | BIT(VIRTIO_NET_F_HOST_TSO4);

	for (unsigned i = 0; i < RING; i++) {
		desc[i] = (struct vring_desc){ .addr = buffers + i % n * (uint64_t)stride_of(len),
					       .len = len,
					       .flags = flags };
		avail->ring[i] = (uint16_t)i;
	}
	if (virtq_init(vq, &g->retired))
		rings_die("ring");
	virtq_start(vq, &setup);
	virtq_set_enabled(vq, true);
}

/* The headers, as far as the switch looks at them. */
static void make_tcp(const struct form *form, uint8_t *frame, uint32_t len)
{
	struct virtio_net_hdr hdr = { .flags = form->flags,
				      .gso_type = form->gso_type,
				      .hdr_len = TCP_HEADERS,
				      .gso_size = form->gso_type ? SEGMENT : 0,
				      .csum_start = 34,
				      .csum_offset = CSUM_OFFSET_TCP };
	uint32_t ip_len = len - ETH_HLEN;

	memcpy(frame - VNET_HDR_LEN, &hdr, sizeof(hdr));
	memset(frame + ETH_HLEN, 0, TCP_HEADERS - ETH_HLEN);
	frame[12] = 0x08;
	frame[14] = 0x45;
	frame[16] = (uint8_t)(ip_len >> 8);
	frame[17] = (uint8_t)ip_len;
	frame[23] = 6;
	frame[46] = 5 << 4;
}

void rings_plug(struct vswitch *sw, struct guest *g, unsigned number, uint32_t frame_len,
		uint32_t buffer_len, const struct form *form)
{
	uint64_t frames = BUFFERS + (uint64_t)RING * stride_of(buffer_len);
	uint32_t stride = stride_of(frame_len + VNET_HDR_LEN), run;
	unsigned n = distinct(frame_len);
	struct guest_region_desc region = { .size = frames + (uint64_t)n * stride, .uva = 4096 };
	struct guest_mapping *mapping;
	struct error err;
	int fd = memfd_create("guest", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)region.size))
		rings_die("memory");
	if (guest_mapping_create(fd, &region, &mapping, &err) ||
	    guest_memory_create(&mapping, 1, &g->mem, &err))
		rings_die("memory");
	/* Rings are given as the switch sees them. */
	g->base = (uint8_t *)guest_translate(g->mem, 0, 1, &run);
	g->form = form;
	g->port.ops = g->port.ops ? g->port.ops : &ops;
	g->queue.port = &g->port;
	g->queue.kick = -1;
	snprintf(g->port.name, sizeof(g->port.name), "g%u", number);
	ring_start(g, &g->rx, 0, VRING_DESC_F_WRITE, buffer_len, BUFFERS, RING);
	ring_start(g, &g->tx, 1, 0, frame_len + VNET_HDR_LEN, frames, n);
	for (unsigned i = 0; i < n; i++) {
		uint8_t *frame = g->base + frames + (uint64_t)i * stride + VNET_HDR_LEN;

		memset(frame, 0, ETH_HLEN);
		frame[0] = frame[6] = 2;
		frame[5] = (uint8_t)(1 + (number ^ 1));
		frame[11] = (uint8_t)(1 + number);
		if (form->flags)
			make_tcp(form, frame, frame_len);
	}
	if (switch_add(sw, &g->port))
		rings_die("port");
	mac_learn(sw->macs, 0x020000000001 + number, g->port.index, 0);
}

void rings_make_available(struct virtq *vq, unsigned n)
{
	struct vring_avail *avail = (struct vring_avail *)vq->addr.avail;

	store_release(&avail->idx, (uint16_t)(avail->idx + n));
}

void rings_refill(struct virtq *vq)
{
	struct vring_avail *avail = (struct vring_avail *)vq->addr.avail;

	store_release(&avail->idx, (uint16_t)(vq->avail_next + RING));
}

const struct form *rings_form(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(forms); i++) {
		if (!strcmp(name, forms[i].name))
			return &forms[i];
	}
	return NULL;
}
