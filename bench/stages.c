// SPDX-License-Identifier: Apache-2.0
/*
 * The datapath by itself: collect, forward (with deliver in it) and complete, on rings that this
 * program plays both drivers of, in one thread and in cache. For counting instructions of each
 * stage under callgrind (instructions.py), which is repeatable on any machine; by itself it prints
 * cycles, which leave out what cache misses between CPUs cost.
 */
#include <errno.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "guest/memory.h"
#include "guest/sigbus.h"
#include "net/checksum.h"
#include "switch/switch.h"

#define RING	    256u
#define ROUND_BATCH BATCH_FRAMES
#define TCP_HEADERS 54u /* Ethernet, IPv4, TCP */
#define SEGMENT	    1460u

/* What is done to a frame: to a TCP packet, but for the first. */
static const struct form {
	const char *name;
	uint8_t flags, gso_type;
	uint64_t receiver; /* features */
} forms[] = {
	{ "plain", 0, 0, 0 },
	{ "pass", VIRTIO_NET_HDR_F_NEEDS_CSUM, 0, BIT(VIRTIO_NET_F_GUEST_CSUM) },
	{ "finish", VIRTIO_NET_HDR_F_NEEDS_CSUM, 0, 0 },
	{ "cut", VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_TCPV4,
	  BIT(VIRTIO_NET_F_GUEST_CSUM) },
	{ "cut-finish", VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_TCPV4, 0 },
};
static const struct form *form = &forms[0];

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

/* A guest: memory, a tx ring and an rx ring, and the port they are behind. */
struct guest {
	struct port port; /* first */
	struct port_queue queue;
	struct virtq tx, rx;
	struct guest_memory *mem;
	uint8_t *base;
	uint32_t buffer_len; /* of an rx buffer */
};

static bool collect(struct port_queue *queue, struct batch *b, struct virtq_calls *calls)
{
	return virtq_collect(&container_of(queue, struct guest, queue)->tx, b);
}

static void complete(struct port_queue *queue, const struct batch *b, struct virtq_calls *calls)
{
	virtq_complete(&container_of(queue, struct guest, queue)->tx, b, calls);
}

static frame_set egress(struct port *port, struct batch *b, frame_set set,
			struct virtq_calls *calls)
{
	return virtq_deliver(&container_of(port, struct guest, port)->rx, b, set, calls);
}

static void ingress_drop(struct port_queue *queue, enum drop reason, unsigned n)
{
}

static const struct port_ops ops = {
	.kind = "bench",
	.collect = collect,
	.complete = complete,
	.ingress_drop = ingress_drop,
	.egress = egress,
};

static void die(const char *what)
{
	fprintf(stderr, "stages: %s: %s\n", what, strerror(errno));
	exit(1);
}

/*
 * Ring `number` of a guest lies at a fixed place; its descriptors name one of `n` buffers each, the
 * first of which is at `buffers`.
 */
static void ring_start(struct guest *g, struct virtq *vq, unsigned number, uint16_t flags,
		       uint32_t len, uint64_t buffers, unsigned n)
{
	static uint32_t retired;
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
		setup.features |= form->receiver;
	else if (form->flags)
		setup.features |= BIT(VIRTIO_NET_F_CSUM) | BIT(VIRTIO_NET_F_HOST_TSO4);

	for (unsigned i = 0; i < RING; i++) {
		desc[i] = (struct vring_desc){ .addr = buffers + i % n * (uint64_t)stride_of(len),
					       .len = len,
					       .flags = flags };
		avail->ring[i] = (uint16_t)i;
	}
	if (virtq_init(vq, &retired))
		die("ring");
	virtq_start(vq, &setup);
	virtq_set_enabled(vq, true);
}

/* The headers, as far as the switch looks at them. */
static void make_tcp(uint8_t *frame, uint32_t len)
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

static void guest_start(struct guest *g, unsigned number, uint32_t frame_len, uint32_t buffer_len)
{
	uint64_t frames = BUFFERS + (uint64_t)RING * stride_of(buffer_len);
	uint32_t stride = stride_of(frame_len + VNET_HDR_LEN);
	unsigned n = distinct(frame_len);
	struct guest_region_desc region = { .size = frames + (uint64_t)n * stride, .uva = 4096 };
	struct guest_mapping *mapping;
	struct error err;
	int fd = memfd_create("guest", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)region.size))
		die("memory");
	g->base = mmap(NULL, region.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (g->base == MAP_FAILED || guest_mapping_create(fd, &region, &mapping, &err) ||
	    guest_memory_create(&mapping, 1, &g->mem, &err))
		die("memory");
	/* The switch sees it at another address; rings are given as it sees them. */
	uint32_t run;
	g->base = (uint8_t *)guest_translate(g->mem, 0, 1, &run);
	g->port.ops = &ops;
	g->queue.port = &g->port;
	snprintf(g->port.name, sizeof(g->port.name), "g%u", number);
	ring_start(g, &g->rx, 0, VRING_DESC_F_WRITE, buffer_len, BUFFERS, RING);
	ring_start(g, &g->tx, 1, 0, frame_len + VNET_HDR_LEN, frames, n);
	for (unsigned i = 0; i < n; i++) {
		uint8_t *frame = g->base + frames + (uint64_t)i * stride + VNET_HDR_LEN;

		memset(frame, 0, ETH_HLEN);
		frame[0] = frame[6] = 2;
		frame[5] = (uint8_t)(2 - number); /* to the other one */
		frame[11] = (uint8_t)(1 + number);
		if (form->flags)
			make_tcp(frame, frame_len);
	}
}

static void make_available(struct virtq *vq, unsigned n)
{
	struct vring_avail *avail = (struct vring_avail *)vq->addr.avail;

	store_release(&avail->idx, (uint16_t)(avail->idx + n));
}

struct stages {
	uint64_t collect, forward, complete;
};

static void turn(struct vswitch *sw, struct guest *from, struct batch *b, struct virtq_calls *calls,
		 struct stages *s)
{
	uint64_t t0 = clock_cycles(), t1, t2;

	if (!collect(&from->queue, b, calls))
		die("nothing collected");
	t1 = clock_cycles();
	switch_forward(sw, &from->queue, b, calls, t1);
	t2 = clock_cycles();
	complete(&from->queue, b, calls);
	s->collect += t1 - t0;
	s->forward += t2 - t1;
	s->complete += clock_cycles() - t2;
}

static bool form_choose(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(forms); i++) {
		form = &forms[i];
		if (!strcmp(name, form->name))
			return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	bool known = form_choose(argc > 4 ? argv[4] : "plain");
	uint32_t frame_len = argc > 1 ? (uint32_t)atoi(argv[1]) : 64;
	uint32_t buffer_len = argc > 2 ? (uint32_t)atoi(argv[2]) : 2048;
	unsigned rounds = argc > 3 ? (unsigned)atoi(argv[3]) : 20000;
	unsigned buffers = form->gso_type
				   ? (frame_len - TCP_HEADERS + SEGMENT - 1) / SEGMENT
				   : (frame_len + VNET_HDR_LEN + buffer_len - 1) / buffer_len;
	unsigned burst = MIN(ROUND_BATCH, RING / buffers);
	static struct vswitch sw;
	static struct guest guest[2];
	static struct batch batch;
	struct virtq_calls calls = { 0 };
	struct stages s = { 0 };
	double frames;

	if (frame_len < 64 || frame_len > 65535 || buffer_len < 64 || buffer_len > 65536 ||
	    buffers > RING || !known) {
		fprintf(stderr,
			"usage: stages [FRAME_LEN [BUFFER_LEN [ROUNDS [plain|pass|finish|cut|"
			"cut-finish]]]]\n");
		return 2;
	}
	if (sigbus_install() < 0 || switch_init(&sw))
		die("switch");
	for (unsigned i = 0; i < 2; i++) {
		guest_start(&guest[i], i, frame_len, buffer_len);
		if (switch_add(&sw, &guest[i].port))
			die("port");
		mac_learn(sw.macs, 0x020000000001 + i, guest[i].port.index, 0);
	}
	for (unsigned r = 0; r < rounds; r++) {
		if (r == rounds / 10)
			s = (struct stages){ 0 };
		for (unsigned i = 0; i < 2; i++) {
			make_available(&guest[!i].rx, burst * buffers);
			make_available(&guest[i].tx, burst);
			while (guest[i].tx.avail_next !=
			       ((struct vring_avail *)guest[i].tx.addr.avail)->idx)
				turn(&sw, &guest[i], &batch, &calls, &s);
		}
		virtq_calls_look(&calls);
	}
	frames = 2.0 * burst * (rounds - rounds / 10);
	printf("{\"frame\": %u, \"buffer\": %u, \"burst\": %u, \"frames\": %.0f, \"delivered\": "
	       "%llu, "
	       "\"cycles\": {\"collect\": %.1f, \"forward\": %.1f, \"complete\": %.1f}}\n",
	       frame_len, buffer_len, burst, 2.0 * burst * rounds,
	       (unsigned long long)(guest[0].rx.stats.frames + guest[1].rx.stats.frames),
	       (double)s.collect / frames, (double)s.forward / frames, (double)s.complete / frames);
	return 0;
}
