// SPDX-License-Identifier: Apache-2.0
/*
 * Segments are compared, header and payload, with what an oracle makes of the packet byte by byte,
 * and put together again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

#include "net/gso.h"
#include "net/segment.h"
#include "plain_net.h"

#define HEAD_MAX 244u /* as much of a frame as is ever copied aside */

static struct plain_frame frame;
static uint8_t segment[PLAIN_FRAME_MAX], expected[PLAIN_FRAME_MAX];
static unsigned long segments_seen;

static struct virtio_net_hdr header_for(const struct plain_shape *s, uint32_t gso_size)
{
	uint8_t tcp = s->v6 ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4;

	return (struct virtio_net_hdr){
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = s->protocol == 6 ? tcp : VIRTIO_NET_HDR_GSO_UDP_L4,
		.gso_size = (uint16_t)gso_size,
		.csum_start = (uint16_t)frame.l4,
		.csum_offset = s->protocol == 6 ? 16 : 6,
	};
}

static enum parse begin(struct segments *ret, const struct virtio_net_hdr *hdr)
{
	struct parsed p;
	enum parse parse =
		parse_frame(frame.bytes, (uint16_t)MIN(frame.len, HEAD_MAX), frame.len, &p);

	return parse ? parse : segment_begin(ret, frame.bytes, &p, hdr, frame.len);
}

static void check_segment(const struct segments *segs, const struct plain_shape *s, uint32_t i,
			  uint32_t at)
{
	uint32_t len = segment_payload(segs, i), field = frame.l4 + plain_field(s);
	uint32_t l4_len = frame.payload - frame.l4 + len, sum;
	struct checksum c = { 0 };

	assert_int_equal(segment_len(segs, i), frame.payload + len);
	plain_cut(&frame, s, i, at, len, expected);
	sum = plain_pseudo(frame.src, frame.dst, s->v6, s->protocol, l4_len);

	/* In pieces of odd lengths, as buffers may have them. */
	checksum_copy(&c, segment + frame.payload, frame.bytes + frame.payload + at, len / 3);
	checksum_copy(&c, segment + frame.payload + len / 3,
		      frame.bytes + frame.payload + at + len / 3, len - len / 3);
	segment_header(segs, i, segment);
	plain_put16(expected + field, sum);
	assert_memory_equal(segment, expected, frame.payload);

	segment_finish(segs, segment, &c);
	plain_put16(expected + field, 0);
	memcpy(expected + field, segment + field, 2);
	assert_memory_equal(segment, expected, frame.payload);
	assert_int_equal(plain_sum(sum, segment + frame.l4, l4_len), 0xffff);
	if (s->protocol == 17)
		assert_int_not_equal(plain_get16(segment + field), 0);
	segments_seen++;
}

static void check_packet(const struct plain_shape *s, uint32_t gso_size)
{
	struct virtio_net_hdr hdr;
	struct segments segs;
	uint32_t at = 0;

	plain_make(&frame, s);
	/* A wrong seed of the sender's does not matter where it is not needed. */
	if (!s->v6 || !strchr(s->extensions, 'R'))
		frame.bytes[frame.l4 + plain_field(s)] ^= 0x55;
	hdr = header_for(s, gso_size);
	assert_int_equal(begin(&segs, &hdr), PARSE_DONE);
	assert_int_equal(segs.n, s->payload ? (s->payload + gso_size - 1) / gso_size : 1);
	assert_int_equal(segs.header_len, frame.payload);
	for (uint32_t i = 0; i < segs.n; i++) {
		uint32_t len = MIN(gso_size, s->payload - at);

		assert_int_equal(segment_payload(&segs, i), len);
		check_segment(&segs, s, i, at);
		assert_memory_equal(segment + frame.payload, frame.bytes + frame.payload + at, len);
		at += len;
	}
	assert_int_equal(at, s->payload);
}

static void each_shape(const struct plain_shape *like, void (*check)(const struct plain_shape *s))
{
	static const char *const extensions[] = { "", "h", "H", "r", "R", "f", "hd", "HdRfd" };
	struct plain_shape s = *like;

	for (unsigned i = 0; i < 3 * 4; i++) {
		s.tags = i % 3;
		s.protocol = i / 3 == 3 ? 17 : 6;
		s.tcp_options = i / 3 == 1 ? 12 : i / 3 == 2 ? 40 : 0;
		s.seed++;
		s.v6 = false;
		for (s.ip_options = 0; s.ip_options <= 40; s.ip_options += 20)
			check(&s);
		s.v6 = true;
		for (unsigned e = 0; e < ARRAY_SIZE(extensions); e++) {
			s.extensions = extensions[e];
			check(&s);
		}
	}
}

static void check_three(const struct plain_shape *s)
{
	check_packet(s, 100);
}

static void test_every_shape_with_every_flag(void **state)
{
	static const uint8_t bits[] = { PLAIN_FIN, PLAIN_PSH, PLAIN_CWR, PLAIN_ECE };

	for (unsigned set = 0; set < 16; set++) {
		struct plain_shape s = { .payload = 250 + set, .seed = set };

		for (unsigned i = 0; i < 4; i++)
			s.flags |= set & 1 << i ? bits[i] : 0;
		each_shape(&s, check_three);
	}
	assert_true(segments_seen > 6000);
}

static void check_edges(const struct plain_shape *s)
{
	static const uint32_t sizes[] = { 1, 7, 536, 1447, 1448, 8948, 65535 };
	static const uint32_t frames[] = { 59, 60, 128, 129, 1514, 9014 };

	for (unsigned m = 0; m < ARRAY_SIZE(sizes); m++) {
		uint32_t mss = sizes[m];
		uint32_t payloads[] = { 0,	     1,	      mss - 1,	   mss,	    mss + 1,
					2 * mss - 1, 2 * mss, 2 * mss + 1, 44 * mss };
		struct plain_shape t = *s;

		plain_make(&frame, &(struct plain_shape){ .tags = s->tags,
							  .v6 = s->v6,
							  .ip_options = s->ip_options,
							  .extensions = s->extensions,
							  .protocol = s->protocol,
							  .tcp_options = s->tcp_options });
		for (unsigned i = 0; i < ARRAY_SIZE(payloads) + ARRAY_SIZE(frames); i++) {
			uint32_t header = frame.payload;

			if (i < ARRAY_SIZE(payloads))
				t.payload = payloads[i];
			else if (frames[i - ARRAY_SIZE(payloads)] >= header)
				t.payload = frames[i - ARRAY_SIZE(payloads)] - header;
			/* Neither longer than IP allows, nor in more segments than are cut. */
			if (header - frame.l3 + t.payload > 65535 ||
			    t.payload > (uint64_t)mss * SEGMENTS_MAX)
				continue;
			check_packet(&t, mss);
			t.seed++;
		}
	}
}

static void test_sizes_around_every_edge(void **state)
{
	static const struct plain_shape shapes[] = {
		{ .protocol = 6, .tcp_options = 12, .flags = PLAIN_PSH },
		{ .protocol = 6, .v6 = true, .extensions = "", .tags = 2 },
		{ .protocol = 6, .tags = 1, .ip_options = 4, .flags = PLAIN_CWR | PLAIN_FIN },
		{ .protocol = 6, .v6 = true, .extensions = "hR", .tcp_options = 40 },
		{ .protocol = 17 },
		{ .protocol = 17, .v6 = true, .extensions = "d", .tags = 1 },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(shapes); i++)
		check_edges(&shapes[i]);
}

static void test_the_longest_packets(void **state)
{
	struct plain_shape s = { .protocol = 6, .tags = 2 };

	for (unsigned v6 = 0; v6 < 2; v6++) {
		s.v6 = v6;
		s.extensions = "";
		s.payload = 65535 - (v6 ? 60 : 40);
		check_packet(&s, 1448);
		check_packet(&s, 48);
		check_packet(&s, 65535);
	}
}

/* Sequence number and identification go round. */
static void test_numbers_wrap(void **state)
{
	const struct plain_shape s = { .protocol = 6, .payload = 500 };
	const struct virtio_net_hdr hdr = { .flags = 1,
					    .gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
					    .gso_size = 100,
					    .csum_start = 34,
					    .csum_offset = 16 };
	struct segments segs;

	plain_make(&frame, &s);
	plain_put16(frame.bytes + 18, 0xfffe);
	memset(frame.bytes + 38, 0xff, 4);
	assert_int_equal(begin(&segs, &hdr), PARSE_DONE);
	segment_header(&segs, 4, segment);
	assert_int_equal(plain_get16(segment + 18), 2);
	assert_int_equal(plain_get32(segment + 38), 399);
}

static void test_a_checksum_of_zero(void **state)
{
	static const uint8_t protocols[] = { 6, 17 };

	for (unsigned i = 0; i < 2; i++) {
		struct plain_shape s = { .protocol = protocols[i], .payload = 40 };
		uint32_t field, word;
		struct checksum c = { 0 };
		struct virtio_net_hdr hdr;
		struct segments segs;

		plain_make(&frame, &s);
		field = frame.l4 + (i ? 6 : 16);
		hdr = header_for(&s, 1000);
		assert_int_equal(begin(&segs, &hdr), PARSE_DONE);
		segment_header(&segs, 0, segment);
		checksum_add(&c, frame.bytes + frame.payload, s.payload);
		segment_finish(&segs, segment, &c);
		/* What the checksum would be, added to the payload, leaves none. */
		word = plain_plus(plain_get16(frame.bytes + frame.payload),
				  plain_get16(segment + field));
		plain_put16(frame.bytes + frame.payload, word);
		segment_header(&segs, 0, segment);
		c = (struct checksum){ 0 };
		checksum_add(&c, frame.bytes + frame.payload, s.payload);
		segment_finish(&segs, segment, &c);
		assert_int_equal(plain_get16(segment + field), i ? 0xffff : 0);
	}
}

static void test_refuses_what_cannot_be_cut(void **state)
{
	struct plain_shape s = { .protocol = 6, .payload = 60000 };
	struct virtio_net_hdr hdr;
	struct segments segs;

	plain_make(&frame, &s);
	hdr = header_for(&s, 60000 / SEGMENTS_MAX + 1);
	assert_int_equal(begin(&segs, &hdr), PARSE_DONE);
	assert_true(segs.n <= SEGMENTS_MAX);
	hdr.gso_size--;
	assert_int_equal(begin(&segs, &hdr), PARSE_BAD);
	hdr.gso_size = 0;
	assert_int_equal(begin(&segs, &hdr), PARSE_BAD);
	frame.len = frame.payload;
	plain_put16(frame.bytes + 16, 40);
	assert_int_equal(begin(&segs, &hdr), PARSE_BAD);
	plain_make(&frame, &s);
	hdr.gso_size = 1448;
	hdr.gso_type = VIRTIO_NET_HDR_GSO_NONE;
	assert_int_equal(begin(&segs, &hdr), PARSE_BAD);
	hdr.gso_type = VIRTIO_NET_HDR_GSO_TCPV6;
	assert_int_equal(begin(&segs, &hdr), PARSE_BAD);
	hdr.gso_type = VIRTIO_NET_HDR_GSO_UDP; /* in fragments: never */
	assert_int_equal(begin(&segs, &hdr), PARSE_BAD);

	/* A packet that does not say how long it is, in segments longer than one can be. */
	hdr = header_for(&s, 65496);
	plain_put16(frame.bytes + 16, 0);
	frame.len = frame.payload + 65495;
	assert_int_equal(begin(&segs, &hdr), PARSE_DONE);
	frame.len++;
	assert_int_equal(begin(&segs, &hdr), PARSE_BAD);
	hdr.gso_size = 65495;
	assert_int_equal(begin(&segs, &hdr), PARSE_DONE);
	assert_int_equal(segs.n, 2);
}

static void test_segments_left_unfinished_say_so(void **state)
{
	const struct plain_shape s = { .protocol = 17, .tags = 1, .payload = 300 };
	struct virtio_net_hdr hdr;
	struct segments segs;

	plain_make(&frame, &s);
	hdr = header_for(&s, 100);
	assert_int_equal(begin(&segs, &hdr), PARSE_DONE);
	hdr = segment_hdr(&segs);
	assert_int_equal(hdr.flags, VIRTIO_NET_HDR_F_NEEDS_CSUM);
	assert_int_equal(hdr.gso_type, VIRTIO_NET_HDR_GSO_NONE);
	assert_int_equal(hdr.gso_size, 0);
	assert_int_equal(hdr.csum_start, 38);
	assert_int_equal(hdr.csum_offset, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_shape_with_every_flag),
		cmocka_unit_test(test_sizes_around_every_edge),
		cmocka_unit_test(test_the_longest_packets),
		cmocka_unit_test(test_numbers_wrap),
		cmocka_unit_test(test_a_checksum_of_zero),
		cmocka_unit_test(test_refuses_what_cannot_be_cut),
		cmocka_unit_test(test_segments_left_unfinished_say_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
