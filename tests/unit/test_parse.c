// SPDX-License-Identifier: Apache-2.0
/*
 * Frames of every shape: where the headers are is known from how they were made. Each is then cut
 * short at every byte, once as a frame and once as what was copied of it, and each length that it
 * states about itself is falsified.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

#include "net/parse.h"
#include "plain_net.h"

static const char *const extensions[] = { "",	"h",  "H",  "d",  "r",	 "R",	  "f", "F",
					  "hd", "hr", "hf", "rd", "hrf", "HdRfd", "hF" };
static const uint8_t protocols[] = { 6, 17, 1, 58, 132, 51, 0xff };

static struct plain_frame frame;
static unsigned long shapes_seen;

/* In memory of its own, so that the address sanitizer sees who reads behind it. */
static enum parse parse_copy(const uint8_t *bytes, uint32_t head_len, uint32_t frame_len,
			     struct parsed *ret)
{
	uint8_t *copy = malloc(head_len ? head_len : 1);
	enum parse parse;

	assert_non_null(copy);
	memcpy(copy, bytes, head_len);
	parse = parse_frame(copy, (uint16_t)head_len, frame_len, ret);
	free(copy);
	return parse;
}

static enum parse parse_all(uint32_t frame_len, struct parsed *ret)
{
	return parse_copy(frame.bytes, frame_len < 300 ? frame_len : 300, frame_len, ret);
}

/* The IP length would tell that a frame was cut short: without it, every header has to. */
static void state_no_length(bool v6)
{
	plain_put16(frame.bytes + frame.l3 + (v6 ? 4 : 2), 0);
}

static void check_found(const struct plain_shape *s, const struct parsed *p)
{
	bool part = s->v6 && strchr(s->extensions, 'F');

	assert_int_equal(p->vlan_tags, s->tags);
	assert_int_equal(p->l3, 14 + 4 * s->tags);
	assert_int_equal(p->ip, s->v6 ? 6 : 4);
	assert_int_equal(p->fragment, part);
	assert_int_equal(p->routed, s->v6 && strchr(s->extensions, 'R'));
	assert_int_equal(p->l4, frame.l4);
	assert_int_equal(p->protocol, s->protocol);
	assert_int_equal(p->payload, part ? frame.l4 : frame.payload);
	assert_int_equal(p->end, frame.len);
}

static void check_shape(const struct plain_shape *s)
{
	struct parsed p, untouched = { .end = 77 };
	uint32_t needed;

	plain_make(&frame, s);
	assert_int_equal(parse_all(frame.len, &p), PARSE_DONE);
	check_found(s, &p);
	needed = p.payload;

	/* Padding is not the packet's. */
	assert_int_equal(parse_all(frame.len + 7, &p), PARSE_DONE);
	check_found(s, &p);
	/* A packet longer than its frame. */
	assert_int_equal(parse_all(frame.len - 1, &p), PARSE_BAD);

	for (uint32_t n = 0; n < needed; n++)
		assert_int_equal(parse_copy(frame.bytes, n, frame.len, &untouched), PARSE_TOO_LONG);
	assert_int_equal(parse_copy(frame.bytes, needed, frame.len, &p), PARSE_DONE);

	state_no_length(s->v6);
	assert_int_equal(parse_all(frame.len, &p), PARSE_DONE);
	check_found(s, &p);
	for (uint32_t n = 0; n < needed; n++)
		assert_int_equal(parse_copy(frame.bytes, n, n, &untouched), PARSE_BAD);
	assert_int_equal(untouched.end, 77);
	shapes_seen++;
}

static void each_shape(void (*check)(const struct plain_shape *s))
{
	for (unsigned i = 0; i < 3 * ARRAY_SIZE(protocols); i++) {
		struct plain_shape s = {
			.tags = i % 3, .protocol = protocols[i / 3], .payload = 100, .seed = i
		};

		for (s.tcp_options = 0; s.tcp_options <= 40; s.tcp_options += 20) {
			s.v6 = false;
			for (s.ip_options = 0; s.ip_options <= 40; s.ip_options += 4)
				check(&s);
			s.v6 = true;
			for (unsigned e = 0; e < ARRAY_SIZE(extensions); e++) {
				s.extensions = extensions[e];
				check(&s);
			}
		}
	}
}

static void test_finds_the_headers_of_every_shape(void **state)
{
	each_shape(check_shape);
	assert_true(shapes_seen > 1000);
}

static void make(bool v6)
{
	plain_make(&frame, &(struct plain_shape){ .v6 = v6, .protocol = 6, .payload = 100 });
}

static void test_lengths_that_contradict_are_bad(void **state)
{
	struct parsed p;

	for (unsigned stated = 1; stated < 400; stated++) {
		make(false);
		plain_put16(frame.bytes + 16, stated);
		assert_int_equal(parse_all(frame.len, &p),
				 stated >= 40 && stated <= 140 ? PARSE_DONE : PARSE_BAD);
		make(true);
		plain_put16(frame.bytes + 18, stated);
		assert_int_equal(parse_all(frame.len, &p),
				 stated >= 20 && stated <= 120 ? PARSE_DONE : PARSE_BAD);
	}
	for (unsigned first = 0; first < 256; first++) {
		make(false);
		frame.bytes[14] = (uint8_t)first;
		/* What follows the header is then read as TCP, which happens to be long enough. */
		if (first / 16 != 4 || first % 16 < 5)
			assert_int_equal(parse_all(frame.len, &p), PARSE_BAD);
		make(true);
		frame.bytes[14] = (uint8_t)first;
		assert_int_equal(parse_all(frame.len, &p),
				 first / 16 == 6 ? PARSE_DONE : PARSE_BAD);
	}
	for (unsigned offset = 0; offset < 16; offset++) {
		make(false);
		frame.bytes[frame.l4 + 12] = (uint8_t)(offset * 16 + 5);
		assert_int_equal(parse_all(frame.len, &p), offset >= 5 ? PARSE_DONE : PARSE_BAD);
	}
}

static void test_parts_of_packets_have_no_transport(void **state)
{
	struct parsed p;

	for (unsigned bit = 0; bit < 16; bit++) {
		make(false);
		plain_put16(frame.bytes + 20, 1u << bit);
		frame.bytes[frame.l4 + 12] = 0; /* no TCP header is looked for in a part */
		if (bit >= 14) {
			assert_int_equal(parse_all(frame.len, &p), PARSE_BAD);
			continue;
		}
		assert_int_equal(parse_all(frame.len, &p), PARSE_DONE);
		assert_true(p.fragment);
		assert_int_equal(p.payload, p.l4);
	}
	for (unsigned bit = 0; bit < 16; bit++) {
		plain_make(&frame,
			   &(struct plain_shape){ .v6 = true, .extensions = "f", .protocol = 6 });
		plain_put16(frame.bytes + 14 + 40 + 2, 1u << bit);
		assert_int_equal(parse_all(frame.len, &p), PARSE_DONE);
		assert_int_equal(p.fragment, bit != 1 && bit != 2);
	}
	/* What looks like another extension header may be anything in a part. */
	plain_make(&frame, &(struct plain_shape){ .v6 = true, .extensions = "Fd", .protocol = 6 });
	assert_int_equal(parse_all(frame.len, &p), PARSE_DONE);
	assert_int_equal(p.protocol, 60);
	assert_int_equal(p.l4, 14 + 40 + 8);
}

static void test_other_frames_are_nobodys(void **state)
{
	static const uint16_t types[] = { 0, 46, 0x0806, 0x8863, 0x9100, 0x88cc, 0xffff };
	uint8_t bytes[64] = { 0 };
	struct parsed p;

	for (unsigned i = 0; i < ARRAY_SIZE(types); i++) {
		plain_put16(bytes + 12, types[i]);
		assert_int_equal(parse_copy(bytes, 14, 14, &p), PARSE_DONE);
		assert_int_equal(p.ip, 0);
		assert_int_equal(p.l3, 14);
		assert_int_equal(p.payload, 14);
		assert_int_equal(p.end, 14);
	}
	/* A third tag is the payload's business. */
	for (unsigned i = 0; i < 3; i++)
		plain_put16(bytes + 12 + 4 * i, 0x8100);
	plain_put16(bytes + 24, 0x0800);
	assert_int_equal(parse_copy(bytes, 64, 64, &p), PARSE_DONE);
	assert_int_equal(p.ip, 0);
	assert_int_equal(p.vlan_tags, 2);
	assert_int_equal(p.l3, 22);
}

/* Which GSO types a frame of this shape may have. */
static bool agrees(const struct plain_shape *s, unsigned type)
{
	if (type == 0)
		return true;
	if (s->v6 && strchr(s->extensions, 'F'))
		return false;
	if (type == 1 || type == 0x81)
		return !s->v6 && s->protocol == 6;
	if (type == 4 || type == 0x84)
		return s->v6 && s->protocol == 6;
	return type == 5 && s->protocol == 17;
}

static void check_agreement(const struct plain_shape *s)
{
	struct parsed p;

	plain_make(&frame, s);
	assert_int_equal(parse_all(frame.len, &p), PARSE_DONE);
	for (unsigned type = 0; type < 256; type++) {
		struct virtio_net_hdr hdr = { .flags = 1,
					      .gso_type = (uint8_t)type,
					      .csum_start = (uint16_t)frame.l4,
					      .csum_offset = s->protocol == 6 ? 16 : 6 };
		enum parse good = agrees(s, type) ? PARSE_DONE : PARSE_BAD;
		enum parse lie = type ? PARSE_BAD : PARSE_DONE;

		assert_int_equal(parse_agrees(&p, &hdr, frame.len), good);
		assert_int_equal(parse_agrees(&p, &hdr, frame.len + 1), lie);
		hdr.csum_start++;
		assert_int_equal(parse_agrees(&p, &hdr, frame.len), lie);
		hdr.csum_start -= 2;
		assert_int_equal(parse_agrees(&p, &hdr, frame.len), lie);
		hdr.csum_start++;
		hdr.csum_offset ^= 6 ^ 16;
		assert_int_equal(parse_agrees(&p, &hdr, frame.len), lie);
	}
}

static void test_a_gso_type_must_be_what_the_frame_is(void **state)
{
	each_shape(check_agreement);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_finds_the_headers_of_every_shape),
		cmocka_unit_test(test_lengths_that_contradict_are_bad),
		cmocka_unit_test(test_parts_of_packets_have_no_transport),
		cmocka_unit_test(test_other_frames_are_nobodys),
		cmocka_unit_test(test_a_gso_type_must_be_what_the_frame_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
