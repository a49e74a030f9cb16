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
 * All frames lie in this much memory, and arrive in as much, in buffers that are used over and
 * over, so that large frames come from the same cache as small ones: L2.
 */
#define FRAMES_MEMORY (RING * 1024u)

/* From one buffer to the next: not a power of 2, or all of them would meet in the same cache sets.
 */
static uint32_t stride_of(uint32_t len)
{
	return (len + (uint32_t)VNET_HDR_LEN + 320) & ~63u;
}

/* How many buffers of this length there are. */
static unsigned distinct(uint32_t len)
{
	return MIN(RING, FRAMES_MEMORY / len);
}

/* Where guests keep their buffers, behind the rings: of the rx ring, and then of the tx ring. */
#define BUFFERS 131072u

bool rings_collect(struct port_queue *queue, struct batch *b, struct virtq_calls *calls)
{
	return virtq_collect(&container_of(queue, struct guest, queue)->tx.vq, b);
}

void rings_complete(struct port_queue *queue, const struct batch *b, struct virtq_calls *calls)
{
	virtq_complete(&container_of(queue, struct guest, queue)->tx.vq, b, calls);
}

frame_set rings_egress(struct port *port, struct batch *b, frame_set set, struct virtq_calls *calls)
{
	return virtq_deliver(&container_of(port, struct guest, port)->rx.vq, b, set, calls);
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

/* From the guest's `base` on. */
static uint64_t buffer_at(const struct ring *r, unsigned i)
{
	return r->buffers + i % r->n * (uint64_t)stride_of(r->len);
}

uint8_t *rings_buffer(const struct guest *g, const struct ring *r, unsigned i)
{
	return g->base + buffer_at(r, i);
}

/*
 * Ring `number` of a guest lies at a fixed place. Of a split one the descriptors are written here,
 * of a packed one whenever they are made available.
 */
static void ring_start(struct guest *g, struct ring *r, unsigned number)
{
	uint64_t ring = number * 65536u;
	struct vring_desc *desc = (struct vring_desc *)(g->base + ring);
	struct vring_avail *avail = (struct vring_avail *)(g->base + ring + 16384);
	struct virtq_setup setup = {
		.mem = g->mem,
		.addr = { (uintptr_t)desc, (uintptr_t)avail, (uintptr_t)(g->base + ring + 32768) },
		.size = RING,
		.base = g->packed ? 0x80008000u : 0, /* both wrap counters are 1 */
		.features = BIT(VIRTIO_NET_F_MRG_RXBUF) | BIT(VIRTIO_RING_F_EVENT_IDX) | BIT(32) |
			    BIT(VIRTIO_RING_F_INDIRECT_DESC) |
			    (g->packed ? BIT(VIRTIO_F_RING_PACKED) : 0),
	};

	if (r->flags & VRING_DESC_F_WRITE)
		setup.features |= g->form->receiver;
	else if (g->form->flags)
		setup.features |= BIT(VIRTIO_NET_F_CSUM) | BIT(VIRTIO_NET_F_HOST_TSO4);

	for (unsigned i = 0; i < RING && !g->packed; i++) {
		desc[i] = (struct vring_desc){ .addr = buffer_at(r, i),
					       .len = r->len,
					       .flags = r->flags };
		avail->ring[i] = (uint16_t)i;
	}
	virtq_init(&r->vq, &g->callee);
	virtq_start(&r->vq, &setup);
	virtq_set_enabled(&r->vq, true);
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

/* Memory for both rings and their buffers. */
static void memory_create(struct guest *g)
{
	struct guest_region_desc region = { .size = g->size, .uva = 4096 };
	struct guest_mapping *mapping;
	struct error err;
	uint32_t run;
	int fd = memfd_create("guest", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)region.size) ||
	    guest_mapping_create(fd, &region, &mapping, &err) ||
	    guest_memory_create(&mapping, 1, &g->mem, &err))
		rings_die("memory");
	/* Rings are given as the switch sees them. */
	g->base = (uint8_t *)guest_translate(g->mem, 0, 1, &run);
}

static void frames_write(struct guest *g, unsigned number, uint32_t len)
{
	for (unsigned i = 0; i < g->tx.n; i++) {
		uint8_t *frame = rings_buffer(g, &g->tx, i) + VNET_HDR_LEN;

		memset(frame, 0, ETH_HLEN);
		frame[0] = frame[6] = 2;
		frame[5] = (uint8_t)(1 + (number ^ 1));
		frame[11] = (uint8_t)(1 + number);
		if (g->form->flags)
			make_tcp(g->form, frame, len);
	}
}

void rings_plug(struct vswitch *sw, struct guest *g, unsigned number, uint32_t frame_len,
		uint32_t buffer_len, const struct form *form, bool packed)
{
	g->rx = (struct ring){ .buffers = BUFFERS,
			       .len = buffer_len,
			       .n = distinct(buffer_len),
			       .flags = VRING_DESC_F_WRITE };
	g->tx = (struct ring){ .buffers = BUFFERS + g->rx.n * (uint64_t)stride_of(buffer_len),
			       .len = frame_len + VNET_HDR_LEN,
			       .n = distinct(frame_len) };
	g->size = g->tx.buffers + g->tx.n * (uint64_t)stride_of(g->tx.len);
	g->form = form;
	g->packed = packed;
	g->port.ops = g->port.ops ? g->port.ops : &ops;
	g->queue.port = &g->port;
	g->queue.kick = -1;
	snprintf(g->port.name, sizeof(g->port.name), "g%u", number);
	memory_create(g);
	ring_start(g, &g->rx, 0);
	ring_start(g, &g->tx, 1);
	frames_write(g, number, frame_len);
	if (switch_add(sw, &g->port))
		rings_die("port");
	mac_learn(sw->macs, 0x020000000001 + number, g->port.index, 0);
}

static void make_available_packed(struct ring *r, unsigned n)
{
	struct vring_packed_desc *desc = (struct vring_packed_desc *)r->vq.addr.desc;

	for (; n; n--, r->made++) {
		unsigned slot = r->made % RING;
		bool wrap = r->made / RING % 2 == 0;
		uint16_t mark = BIT(wrap ? VRING_PACKED_DESC_F_AVAIL : VRING_PACKED_DESC_F_USED);

		desc[slot] = (struct vring_packed_desc){ .addr = buffer_at(r, slot),
							 .len = r->len,
							 .id = (uint16_t)slot,
							 .flags = r->flags | mark };
	}
}

void rings_make_available(struct ring *r, unsigned n)
{
	struct vring_avail *avail = (struct vring_avail *)r->vq.addr.avail;

	if (r->vq.packed)
		make_available_packed(r, n);
	else
		store_release(&avail->idx, (uint16_t)(avail->idx + n));
}

void rings_refill(struct ring *r)
{
	struct vring_avail *avail = (struct vring_avail *)r->vq.addr.avail;

	store_release(&avail->idx, (uint16_t)(r->vq.avail_next + RING));
}

const struct form *rings_form(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(forms); i++) {
		if (!strcmp(name, forms[i].name))
			return &forms[i];
	}
	return NULL;
}
