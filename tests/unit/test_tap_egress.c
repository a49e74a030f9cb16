// SPDX-License-Identifier: Apache-2.0
/*
 * What a tap port writes, into a socket that keeps frames apart in place of a tap: above all the
 * segments of what a kernel cannot cut, which no kernel that can would show.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/gso.h"
#include "net/parse.h"
#include "plain_net.h"
#include "port/tap_priv.h"

#define SEGMENT 700u

struct rig {
	struct port *port;
	struct tap_egress *out;
	int fds[2]; /* the port's, and where its frames come out */
};

static int setup(void **state)
{
	static const struct port_option options[] = { { "dev", "none" } };
	struct rig *rig = calloc(1, sizeof(*rig));
	int room = 8 << 20;
	struct error err;

	assert_int_equal(tap_ops.create(NULL, "t", options, 1, &rig->port, &err), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, rig->fds), 0);
	assert_int_equal(setsockopt(rig->fds[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) &
				 setsockopt(rig->fds[0], SOL_SOCKET, SO_SNDBUF, &room,
					    sizeof(room)),
			 0);
	rig->out = &tap_port(rig->port)->queue[0]->out;
	tap_io_open(&rig->out->io, rig->fds[0]);
	while (read(rig->fds[1], &room, sizeof(room)) >= 0)
		; /* what it tried the descriptor with */
	tap_port(rig->port)->features = TAP_FEATURES;
	*state = rig;
	return 0;
}

static int teardown(void **state)
{
	struct rig *rig = *state;
	struct tap_port *p = tap_port(rig->port);

	tap_io_close(&rig->out->io);
	close(rig->fds[0]);
	close(rig->fds[1]);
	free(p->queue[0]->in.buffers);
	free(p->queue[0]->out.iov);
	free(p->queue[0]);
	free(p->dev);
	free(p);
	free(rig);
	return 0;
}

/* As collected: the first bytes in the snapshot, the rest in spans of `piece` bytes. */
static void add(struct batch *b, struct plain_frame *p, const struct virtio_net_hdr *hdr,
		uint32_t piece)
{
	struct frame *f = &b->frame[b->n];
	uint32_t at;

	*f = (struct frame){ .head = b->snapshot[b->n],
			     .len = p->len,
			     .span = (uint16_t)b->spans,
			     .hdr = *hdr,
			     .plain = !hdr->flags };
	f->head_len = (uint16_t)MIN(p->len, 244u);
	memcpy(f->head, p->bytes, f->head_len);
	for (at = f->head_len; at < p->len; at += piece, f->spans++)
		b->span[b->spans++] =
			(struct span){ (uintptr_t)p->bytes + at, MIN(piece, p->len - at) };
	b->n++;
}

static void assert_written(struct rig *rig, const uint8_t *frame, uint32_t len, uint8_t flags,
			   uint32_t csum_start)
{
	static uint8_t got[PLAIN_FRAME_MAX + VNET_HDR_LEN];
	struct virtio_net_hdr_mrg_rxbuf hdr;

	assert_int_equal(read(rig->fds[1], got, sizeof(got)), len + VNET_HDR_LEN);
	memcpy(&hdr, got, sizeof(hdr));
	assert_int_equal(hdr.hdr.flags, flags);
	assert_int_equal(hdr.hdr.gso_type, 0);
	assert_int_equal(hdr.hdr.csum_start, csum_start);
	assert_memory_equal(got + VNET_HDR_LEN, frame, len);
}

static void assert_segments(struct rig *rig, const struct plain_frame *p,
			    const struct plain_shape *shape)
{
	static uint8_t expected[PLAIN_FRAME_MAX];

	for (uint32_t i = 0, at = 0; at < shape->payload; i++, at += SEGMENT) {
		uint32_t len =
			plain_cut(p, shape, i, at, MIN(SEGMENT, shape->payload - at), expected);

		/* The checksum is left to the kernel: begun, with this segment's length. */
		plain_put16(expected + p->l4 + 6,
			    plain_pseudo(p->src, p->dst, shape->v6, 17, len - p->l4));
		assert_written(rig, expected, len, VIRTIO_NET_HDR_F_NEEDS_CSUM, p->l4);
	}
}

/* Between others, which stay in order; in pieces of every kind. */
static void what_the_kernel_cannot_cut_is_cut(void **state)
{
	static const uint32_t payloads[] = { 100, 699, 700, 701, 3500, 20000, 60000 };
	static const uint32_t pieces[] = { 97, 1000, 65536 };
	static struct plain_frame large, small;
	struct rig *rig = *state;
	struct batch *b = aligned_alloc(CACHE_LINE, sizeof(*b));
	const struct virtio_net_hdr plain = { 0 };

	plain_make(&small, &(struct plain_shape){ .protocol = 17, .payload = 50 });
	for (unsigned i = 0; i < 2 * ARRAY_SIZE(payloads) * ARRAY_SIZE(pieces); i++) {
		struct plain_shape shape = { .v6 = i % 2,
					     .protocol = 17,
					     .payload = payloads[i / 2 % ARRAY_SIZE(payloads)] };
		struct virtio_net_hdr hdr = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
					      .gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
					      .gso_size = SEGMENT,
					      .csum_offset = 6 };

		plain_make(&large, &shape);
		hdr.csum_start = (uint16_t)large.l4;
		b->n = b->spans = 0;
		add(b, &small, &plain, 100);
		add(b, &large, &hdr, pieces[i / 2 / ARRAY_SIZE(payloads)]);
		add(b, &small, &plain, 100);
		assert_int_equal(tap_ops.egress(rig->port, b, 7, NULL), 0);
		assert_written(rig, small.bytes, small.len, 0, 0);
		assert_segments(rig, &large, &shape);
		assert_written(rig, small.bytes, small.len, 0, 0);
		assert_int_equal(rig->out->stats.frames, 3 * (i + 1));
	}
	assert_true(rig->out->segments > 500);
	free(b);
}

static void what_lies_or_is_refused_is_dropped_by_name(void **state)
{
	static struct plain_frame p;
	struct rig *rig = *state;
	struct batch *b = aligned_alloc(CACHE_LINE, sizeof(*b));
	struct plain_shape shape = { .protocol = 6, .payload = 3000 };
	struct virtio_net_hdr hdr = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
				      .gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
				      .gso_size = SEGMENT,
				      .csum_offset = 6 };

	plain_make(&p, &shape); /* TCP, and says UDP */
	hdr.csum_start = (uint16_t)p.l4;
	b->n = b->spans = 0;
	add(b, &p, &hdr, 1000);
	assert_int_equal(tap_ops.egress(rig->port, b, 1, NULL), 0);
	assert_int_equal(rig->out->stats.dropped[DROP_HEADER_LIES], 1);
	shape.protocol = 17;
	plain_make(&p, &shape);
	b->n = b->spans = 0;
	add(b, &p, &hdr, 1000);
	close(rig->fds[1]); /* and nobody is there */
	assert_int_equal(tap_ops.egress(rig->port, b, 1, NULL), 0);
	assert_int_equal(rig->out->stats.dropped[DROP_HOST_REFUSED], 1);
	assert_int_equal(rig->out->stats.frames, 0);
	rig->fds[1] = -1;
	free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_the_kernel_cannot_cut_is_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(what_lies_or_is_refused_is_dropped_by_name, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
