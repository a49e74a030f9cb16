// SPDX-License-Identifier: Apache-2.0
/*
 * A tap port with a socket that keeps frames apart in place of a tap. What it writes: above all the
 * segments of what a kernel cannot cut, which no kernel that can would show. And what it reads that
 * no kernel would hand out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/gso.h"
#include "net/parse.h"
#include "plain_net.h"
#include "port/tap_priv.h"

#define SEGMENT 700u

static const struct virtio_net_hdr udp_large = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
						 .gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
						 .gso_size = SEGMENT,
						 .csum_offset = 6 };

struct rig {
	struct port *port;
	struct tap_egress *out;
	int fds[2]; /* the port's, and where its frames come out */
};

/* Bytes that may be under way. */
static void set_room(struct rig *rig, int room)
{
	assert_int_equal(setsockopt(rig->fds[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) &
				 setsockopt(rig->fds[0], SOL_SOCKET, SO_SNDBUF, &room,
					    sizeof(room)),
			 0);
}

static int setup(void **state)
{
	static const struct port_option options[] = { { "dev", "none" } };
	struct rig *rig = calloc(1, sizeof(*rig));
	struct error err;

	assert_int_equal(tap_ops.create(NULL, "t", options, 1, &rig->port, &err), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, rig->fds), 0);
	set_room(rig, 8 << 20);
	rig->out = &tap_port(rig->port)->queue[0]->out;
	tap_io_open(&rig->out->io, rig->fds[0]);
	while (read(rig->fds[1], rig->out->head, sizeof(rig->out->head)) >= 0)
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
		struct virtio_net_hdr hdr = udp_large;

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
	struct virtio_net_hdr hdr = udp_large;

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

/* As much as there is room for, the rest of it and what is behind it later, in order. */
static void segments_wait_for_room(void **state)
{
	static struct plain_frame large, small;
	struct rig *rig = *state;
	struct batch *b = aligned_alloc(CACHE_LINE, sizeof(*b));
	struct plain_shape shape = { .protocol = 17, .payload = 60000 };
	struct virtio_net_hdr hdr = udp_large;
	const struct virtio_net_hdr plain = { 0 };
	frame_set left = 7;
	unsigned turns = 0, waited = 0, segments = 0, smalls = 0;
	const unsigned all = (shape.payload + SEGMENT - 1) / SEGMENT;
	static uint8_t got[PLAIN_FRAME_MAX + VNET_HDR_LEN];

	plain_make(&small, &(struct plain_shape){ .protocol = 17, .payload = 50 });
	plain_make(&large, &shape);
	hdr.csum_start = (uint16_t)large.l4;
	b->n = b->spans = 0;
	add(b, &small, &plain, 100);
	add(b, &large, &hdr, 1000);
	add(b, &small, &plain, 100);
	set_room(rig, 20000);
	for (; left && turns < 100; turns++) {
		ssize_t len;

		left = tap_ops.egress(rig->port, b, left, NULL);
		waited += left == 6 && b->frame[1].segments;
		while ((len = read(rig->fds[1], got, sizeof(got))) >= 0) {
			uint32_t at = segments * SEGMENT;

			if ((uint32_t)len == VNET_HDR_LEN + small.len) {
				/* The first before all, the second behind all. */
				assert_int_equal(segments, smalls++ ? all : 0);
				continue;
			}
			assert_memory_equal(got + VNET_HDR_LEN + large.payload,
					    large.bytes + large.payload + at,
					    MIN(SEGMENT, shape.payload - at));
			segments++;
		}
	}
	assert_int_equal(left, 0);
	assert_true(waited > 2);
	assert_int_equal(b->frame[1].segments, 0);
	assert_int_equal(segments, all);
	assert_int_equal(smalls, 2);
	assert_int_equal(rig->out->segments, segments);
	assert_int_equal(rig->out->stats.frames, 3);
	free(b);
}

/* A pipe of one page in place of the tap. False: there is no io_uring. */
static bool set_pipe(struct rig *rig)
{
	int ends[2];

	tap_io_close(&rig->out->io);
	close(rig->fds[0]);
	close(rig->fds[1]);
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	assert_int_equal(fcntl(ends[0], F_SETPIPE_SZ, 4096), 4096);
	rig->fds[0] = ends[1];
	rig->fds[1] = ends[0];
	return !tap_io_open(&rig->out->io, rig->fds[0]);
}

/* The second frame does not fit; the first segment of the third would. */
static void what_is_behind_one_that_waits_waits_too(void **state)
{
	static struct plain_frame p[3];
	struct rig *rig = *state;
	struct batch *b = aligned_alloc(CACHE_LINE, sizeof(*b));
	struct virtio_net_hdr hdr = udp_large;
	const struct virtio_net_hdr plain = { 0 };

	set_pipe(rig);
	b->n = b->spans = 0;
	for (unsigned i = 0; i < 3; i++) {
		plain_make(&p[i], &(struct plain_shape){ .protocol = 17, .payload = 3000 });
		hdr.csum_start = (uint16_t)p[i].l4;
		add(b, &p[i], i == 2 ? &hdr : &plain, 65536);
	}
	assert_int_equal(tap_ops.egress(rig->port, b, 7, NULL), 6);
	assert_int_equal(rig->out->stats.frames, 1);
	assert_int_equal(rig->out->segments, 0);
	free(b);
}

/* Of four frames the second does not fit, the third does, the fourth does not. */
static void a_frame_that_was_overtaken_is_not_written_late(void **state)
{
	static const uint32_t lens[] = { 3000, 2000, 500, 1000 };
	static struct plain_frame p[ARRAY_SIZE(lens)];
	struct rig *rig = *state;
	struct batch *b = aligned_alloc(CACHE_LINE, sizeof(*b));
	const struct virtio_net_hdr plain = { 0 };

	if (!set_pipe(rig))
		skip(); /* plain calls end at the first that fails */
	b->n = b->spans = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		plain_make(&p[i], &(struct plain_shape){ .protocol = 17, .payload = lens[i] });
		add(b, &p[i], &plain, 65536);
	}
	assert_int_equal(tap_ops.egress(rig->port, b, 15, NULL), 8);
	assert_int_equal(rig->out->stats.dropped[DROP_FULL], 1);
	assert_int_equal(rig->out->stats.frames, 2);
	free(b);
}

/* Of its seven segments the sixth does not fit, the last one does. */
static void a_frame_of_which_a_segment_was_overtaken_is_dropped(void **state)
{
	static struct plain_frame large;
	struct rig *rig = *state;
	struct batch *b = aligned_alloc(CACHE_LINE, sizeof(*b));
	struct virtio_net_hdr hdr = udp_large;

	if (!set_pipe(rig))
		skip(); /* plain calls end at the first that fails */
	plain_make(&large, &(struct plain_shape){ .protocol = 17, .payload = 6 * SEGMENT + 10 });
	hdr.csum_start = (uint16_t)large.l4;
	b->n = b->spans = 0;
	add(b, &large, &hdr, 65536);
	assert_int_equal(tap_ops.egress(rig->port, b, 1, NULL), 0);
	assert_int_equal(rig->out->segments, 6);
	assert_int_equal(rig->out->stats.dropped[DROP_FULL], 1);
	assert_int_equal(rig->out->stats.frames, 0);
	free(b);
}

/* A segment of more pieces than can be written at once costs its frame; the next one is served. */
static void a_segment_in_too_many_pieces_is_dropped(void **state)
{
	static struct plain_frame large;
	struct rig *rig = *state;
	struct batch *b = aligned_alloc(CACHE_LINE, sizeof(*b));
	struct plain_shape shape = { .protocol = 17, .payload = 2000 };
	struct virtio_net_hdr hdr = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
				      .gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
				      .gso_size = 1900,
				      .csum_offset = 6 };

	plain_make(&large, &shape);
	hdr.csum_start = (uint16_t)large.l4;
	for (unsigned i = 0; i < 2; i++) {
		hdr.gso_size = i ? SEGMENT : 1900;
		b->n = b->spans = 0;
		add(b, &large, &hdr, 1);
		assert_int_equal(tap_ops.egress(rig->port, b, 1, NULL), 0);
		assert_int_equal(rig->out->stats.dropped[DROP_HOST_REFUSED], 1);
		assert_int_equal(rig->out->stats.frames, i);
	}
	assert_segments(rig, &large, &shape);
	free(b);
}

/* As no kernel should: too short, too long, and with a header that makes no sense. */
static void what_no_kernel_hands_out_is_dropped_by_name(void **state)
{
	static uint8_t bytes[TAP_BUFFER];
	static const unsigned lens[] = { 1, VNET_HDR_LEN + 13, TAP_BUFFER, 200, 200 };
	struct rig *rig = *state;
	struct port_queue *queue = &tap_port(rig->port)->queue[0]->q;
	struct tap_ingress *in = &tap_port(rig->port)->queue[0]->in;
	struct batch *b = aligned_alloc(CACHE_LINE, sizeof(*b));
	unsigned frames = 0;

	in->io = (struct tap_io){ .fd = rig->fds[0] };
	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		bytes[1] = i == 3 ? 0x7f : 0; /* its GSO type */
		assert_int_equal(write(rig->fds[1], bytes, lens[i]), lens[i]);
	}
	for (unsigned i = 0; i < 2 * ARRAY_SIZE(lens); i++) {
		if (!tap_ops.collect(queue, b, NULL))
			continue;
		frames += b->n;
		tap_ops.complete(queue, b, NULL);
	}
	assert_int_equal(frames, 1);
	assert_int_equal(in->stats.frames, 1);
	assert_int_equal(in->stats.dropped[DROP_FRAME_SHORT], 2);
	assert_int_equal(in->stats.dropped[DROP_FRAME_LONG], 1);
	assert_int_equal(in->stats.dropped[DROP_HEADER_BAD], 1);
	free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(segments_wait_for_room, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_behind_one_that_waits_waits_too, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_frame_that_was_overtaken_is_not_written_late,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_frame_of_which_a_segment_was_overtaken_is_dropped,
						setup, teardown),
		cmocka_unit_test_setup_teardown(what_the_kernel_cannot_cut_is_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(what_lies_or_is_refused_is_dropped_by_name, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_segment_in_too_many_pieces_is_dropped, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_no_kernel_hands_out_is_dropped_by_name, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
