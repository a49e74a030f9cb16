// SPDX-License-Identifier: Apache-2.0
/*
 * Unlike drivers meet: whatever one may send, the other gets in a form that it agreed to, complete
 * and with right checksums, or it is dropped by name and nothing else is harmed.
 */
#include "unlike.h"

#include <string.h>
#include <unistd.h>

#define ROWS 32u /* of an array in which each three features occur in all combinations */

/*
 * Row `row` for factor `factor` (below 16): the Reed-Muller code RM(1,4), whose words form an
 * orthogonal array of strength 3.
 */
static unsigned in_row(unsigned row, unsigned factor)
{
	return (row >> 4 ^ (unsigned)__builtin_popcount(row & factor & 15)) & 1;
}

static unsigned set_of(unsigned row, unsigned first)
{
	unsigned set = 0;

	for (unsigned i = 0; i < 8; i++)
		set |= in_row(row, first + i) << i;
	return set;
}

static void run(struct rig *rig, const struct unlike *from, struct unlike *to, bool few,
		struct unlike_tally *tally)
{
	char wrong[UNLIKE_TEXT], sender[64], receiver[64];

	if (unlike_run(rig, from, to, few, tally, wrong))
		return;
	unlike_text(from->set, sender, sizeof(sender));
	unlike_text(to->set, receiver, sizeof(receiver));
	fail_msg("from %s to %s: %s", sender, receiver, wrong);
}

/* Clauses: 5.1.6.4.1e, 5.1.6.4.1f, 5.1.6.4.1j */
/* Features: csum, guest_csum, guest_tso4, guest_tso6, host_tso4, host_tso6, guest_ecn, host_ecn */
static void each_gets_what_it_agreed_to(void **state)
{
	struct unlike_tally tally = { .sent = 0 };
	struct unlike d[2];

	for (unsigned row = 0; row < ROWS; row++) {
		unlike_meet(*state, d, set_of(row, 0), set_of(row, 8), NULL);
		run(*state, &d[0], &d[1], false, &tally);
		run(*state, &d[1], &d[0], false, &tally);
		unlike_part(d);
	}
	/* Each of all that can happen has happened often. */
	for (unsigned how = 0; how < UNLIKE_HOWS; how++)
		assert_true(tally.packets[how] > 200);
	assert_true(tally.too_big > 200);
}

/* Clauses: 5.1.6.4.1d, 5.1.6.4.1e, 5.1.6.4.1f */
/* Features: host_uso, guest_uso4, guest_uso6 */
static void who_agreed_to_nothing_is_served_by_who_does_all(void **state)
{
	struct unlike_tally tally = { .sent = 0 };
	struct unlike d[2];

	for (unsigned i = 0; i < 8; i++) {
		unlike_meet(*state, d, UNLIKE_ALL, UNLIKE_ALL & ~(1u << i), NULL);
		run(*state, &d[0], &d[1], false, &tally);
		unlike_part(d);
	}
	unlike_meet(*state, d, UNLIKE_ALL, 0, NULL);
	run(*state, &d[0], &d[1], false, &tally);
	unlike_part(d);
}

/* iPXE has 8 buffers, none of which is merged; a header of 10 bytes if it is older. */
static void rings_may_be_tiny(void **state)
{
	static const unsigned sets[] = { 0,
					 UNLIKE_GUEST_CSUM,
					 UNLIKE_MERGE,
					 UNLIKE_MERGE | UNLIKE_GUEST_CSUM | UNLIKE_TSO4,
					 UNLIKE_LEGACY,
					 UNLIKE_LEGACY | UNLIKE_GUEST_CSUM,
					 UNLIKE_LEGACY | UNLIKE_MERGE };
	struct unlike_tally tally = { .sent = 0 };
	struct unlike d[2];

	for (unsigned size = 4; size <= 16; size *= 2) {
		struct driver_config like = { .ring_size = size, .rx_buffer = 1526 };

		for (unsigned i = 0; i < ARRAY_SIZE(sets); i++) {
			unlike_meet(*state, d, UNLIKE_ALL, sets[i], &like);
			run(*state, &d[0], &d[1], true, &tally);
			run(*state, &d[1], &d[0], true, &tally);
			unlike_part(d);
		}
	}
}

/* Agreed to large ones, but without the room for them. */
static void small_buffers_get_segments(void **state)
{
	const unsigned all = UNLIKE_ALL & ~UNLIKE_MERGE;
	struct driver_config like = { .rx_buffer = 1526 };
	struct unlike_tally tally = { .sent = 0 };
	struct unlike d[2];

	for (unsigned round = 0; round < 2; round++) {
		unlike_meet(*state, d, UNLIKE_ALL, round ? all | UNLIKE_LEGACY : all, &like);
		run(*state, &d[0], &d[1], false, &tally);
		run(*state, &d[1], &d[0], false, &tally);
		unlike_part(d);
	}
	assert_true(tally.packets[UNLIKE_CUT] > 100);
	assert_int_equal(tally.packets[UNLIKE_CUT_FINISHED] + tally.packets[UNLIKE_FINISHED], 0);
}

/* Buffers in which headers, and words of the sum, lie across the pieces. */
/* Clauses: 2.7.4.1a, 2.8.5a */
static void buffers_may_be_in_any_pieces(void **state)
{
	struct driver_config like = { .rx_buffer = 1531,
				      .rx_shape = { .n = 6, .len = { 1, 11, 33, 1, 7 } },
				      .ring_size = 1024 };
	struct driver_config dust = { .rx_buffer = 67, .ring_size = 2048 };
	struct unlike_tally tally = { .sent = 0 };
	struct unlike d[2];

	for (unsigned round = 0; round < 4; round++) {
		unsigned set = round & 1 ? UNLIKE_GUEST_CSUM : 0;

		unlike_meet(*state, d, UNLIKE_ALL, round & 2 ? set | UNLIKE_MERGE : set,
			    round & 2 ? &dust : &like);
		run(*state, &d[0], &d[1], true, &tally);
		unlike_part(d);
	}
}

/* One frame to everybody, to each as it may have it. */
static void a_flooded_frame_takes_several_forms(void **state)
{
	static struct unlike_packet p;
	struct unlike from, to[2];

	unlike_open(*state, 0, UNLIKE_ALL, NULL, &from);
	for (unsigned order = 0; order < 2; order++) {
		unlike_open(*state, 1, order ? UNLIKE_ALL : 0, NULL, &to[0]);
		unlike_open(*state, 2, order ? 0 : UNLIKE_ALL, NULL, &to[1]);
		for (unsigned i = 0; i < 20; i++) {
			unlike_make_tcp(&p, &from, i % 2 ? 5000 : 900, i % 2 ? 1448 : 0, i);
			memset(p.frame.bytes, 0xff, 6);
			assert_int_equal(unlike_send(&from, &p), 0);
			driver_flush(from.d, DRIVER_TX(0));
			unlike_expect(&to[0], &p);
			unlike_expect(&to[1], &p);
		}
		driver_close(to[0].d);
		driver_close(to[1].d);
	}
	driver_close(from.d);
}

/* RFC 768: a checksum that comes out as 0 is sent as 0xffff. */
static void udp_checksums_are_never_zero(void **state)
{
	static struct unlike_packet p;
	struct unlike d[2];

	unlike_meet(*state, d, UNLIKE_ALL, 0, NULL);
	for (unsigned cut = 0; cut < 2; cut++) {
		uint8_t *word;

		p.shape = (struct plain_shape){ .protocol = 17, .payload = 600, .seed = 3 };
		p.gso_size = cut ? 600 : 0;
		assert_true(unlike_make(&p, &d[0], 1));
		word = p.frame.bytes + p.frame.payload;
		/* The field holds the seed: what is missing to 0xffff goes into the payload. */
		plain_put16(word, 0);
		plain_put16(word, 0xffff - plain_sum(0, p.frame.bytes + p.frame.l4,
						     p.frame.len - p.frame.l4));
		assert_int_equal(unlike_send(&d[0], &p), 0);
		driver_flush(d[0].d, DRIVER_TX(0));
		unlike_expect(&d[1], &p);
	}
	unlike_part(d);
}

/* Sends the packet with a header of the sender's own making; nobody gets it. */
static void lie(const struct unlike *from, const struct unlike_packet *p,
		const struct virtio_net_hdr *hdr)
{
	assert_int_equal(driver_send(from->d, 0, hdr, p->frame.bytes, p->frame.len, NULL), 0);
	driver_flush(from->d, DRIVER_TX(0));
	assert_true(script_wait_idle(&from->d->ring[DRIVER_TX(0)], 1000));
}

/* CVE-2024-11614 and its kind: the checksum lies outside the frame. */
static void checksums_outside_the_frame_are_refused(void **state)
{
	static const uint16_t places[][2] = { { 959, 0 },	  { 960, 0 },	  { 943, 16 },
					      { 944, 16 },	  { 0xffff, 0 },  { 0, 0xffff },
					      { 0xffff, 0xffff }, { 0xfff0, 16 }, { 34, 0xffde } };
	static struct unlike_packet p;
	struct unlike d[2];

	for (unsigned round = 0; round < 2; round++) {
		unsigned n = round * ARRAY_SIZE(places);

		unlike_meet(*state, d, UNLIKE_ALL, round ? UNLIKE_ALL : 0, NULL);
		unlike_make_tcp(&p, &d[0], 960 - 54, 0, 1);
		for (unsigned i = 0; i < ARRAY_SIZE(places); i++) {
			struct virtio_net_hdr hdr = { .flags = 1,
						      .csum_start = places[i][0],
						      .csum_offset = places[i][1] };

			lie(&d[0], &p, &hdr);
			rig_assert_dropped(*state, 0, "header_bad", n + i + 1);
		}
		unlike_part(d);
	}
}

static void who_did_not_agree_may_not_ask(void **state)
{
	static struct unlike_packet p;
	struct unlike all = { .set = UNLIKE_ALL }, d[2];

	unlike_meet(*state, d, UNLIKE_ALL & ~UNLIKE_TSO4, UNLIKE_ALL, NULL);
	unlike_make_tcp(&p, &all, 3000, 1000, 1);
	lie(&d[0], &p, &p.hdr);
	rig_assert_dropped(*state, 0, "header_bad", 1);
	unlike_part(d);
}

/* It has to clear the header, but DPDK's packed vectorized driver does not. */
static void who_agreed_to_nothing_asks_for_nothing(void **state)
{
	static struct unlike_packet p;
	struct unlike d[2];

	for (unsigned round = 0; round < 2; round++) {
		struct virtio_net_hdr noise;

		unlike_meet(*state, d, 0, round ? UNLIKE_ALL : 0, NULL);
		unlike_make_tcp(&p, &d[0], 1000, 0, round);
		memset(&noise, 0x55, sizeof(noise));
		lie(&d[0], &p, &noise);
		unlike_expect(&d[1], &p);
		rig_assert_dropped(*state, 0, "header_bad", 0);
		unlike_part(d);
	}
}

struct lie {
	const char *drop;
	unsigned port; /* which counts it */
	uint8_t protocol;
	bool v6;
	uint8_t gso_type;
	uint16_t gso_size;
	int csum_start; /* moved by so much */
	uint16_t payload;
};

/* Whoever is to get it in segments does not; who takes it as it is answers for itself. */
static void headers_that_lie_cost_the_frame(void **state)
{
	static const struct lie lies[] = {
		{ "header_bad", 0, 6, false, VIRTIO_NET_HDR_GSO_TCPV4, 0, 0, 3000 },
		{ "header_bad", 0, 6, false, VIRTIO_NET_HDR_GSO_UDP, 1000, 0, 3000 },
		{ "header_bad", 0, 6, false, 7, 1000, 0, 3000 },
		{ "header_bad", 0, 6, false, VIRTIO_NET_HDR_GSO_ECN, 1000, 0, 3000 },
		{ "header_lies", 1, 6, false, VIRTIO_NET_HDR_GSO_TCPV4, 1, 0, 3000 },
		{ "header_lies", 1, 6, false, VIRTIO_NET_HDR_GSO_TCPV6, 1000, 0, 3000 },
		{ "header_lies", 1, 6, true, VIRTIO_NET_HDR_GSO_TCPV4, 1000, 0, 3000 },
		{ "header_lies", 1, 6, false, VIRTIO_NET_HDR_GSO_UDP_L4, 1000, 0, 3000 },
		{ "header_lies", 1, 17, false, VIRTIO_NET_HDR_GSO_TCPV4, 1000, 0, 3000 },
		{ "header_lies", 1, 6, false, VIRTIO_NET_HDR_GSO_TCPV4, 1000, -1, 3000 },
		{ "header_lies", 1, 6, false, VIRTIO_NET_HDR_GSO_TCPV4, 1000, 20, 3000 },
		{ "header_lies", 1, 1, false, VIRTIO_NET_HDR_GSO_TCPV4, 1000, 0, 3000 },
	};
	static struct unlike_packet p;
	uint64_t bad = 0, lied = 0;
	struct unlike d[2], other;

	unlike_open(*state, 2, UNLIKE_ALL, NULL, &other);
	unlike_meet(*state, d, UNLIKE_ALL, UNLIKE_GUEST_CSUM, NULL);
	for (unsigned i = 0; i < ARRAY_SIZE(lies); i++) {
		const struct lie *l = &lies[i];
		uint64_t *n = l->port ? &lied : &bad;
		struct virtio_net_hdr hdr;

		p.shape = (struct plain_shape){ .protocol = l->protocol,
						.v6 = l->v6,
						.payload = l->payload };
		p.gso_size = 1000;
		assert_true(unlike_make(&p, &d[0], 1));
		hdr = p.hdr;
		hdr.gso_type = l->gso_type;
		hdr.gso_size = l->gso_size;
		hdr.csum_start = (uint16_t)(hdr.csum_start + l->csum_start);
		lie(&d[0], &p, &hdr);
		rig_assert_dropped(*state, l->port, l->drop, ++*n);
		assert_passes(d[0].d, d[1].d);
	}
	driver_close(other.d);
	unlike_part(d);
}

/* A segment of a byte each is silly, but what was asked for. */
static void segments_may_be_of_one_byte(void **state)
{
	static struct unlike_packet p;
	struct unlike d[2];

	unlike_meet(*state, d, UNLIKE_ALL, 0, NULL);
	unlike_make_tcp(&p, &d[0], 100, 1, 1);
	assert_int_equal(unlike_send(&d[0], &p), 0);
	driver_flush(d[0].d, DRIVER_TX(0));
	unlike_expect(&d[1], &p);
	unlike_part(d);
}

/*
 * Only who needs them changed loses frames whose headers are longer than the 244 bytes that are
 * looked at; to finish a checksum, it is its field that matters.
 */
static void headers_may_be_too_long(void **state)
{
	static const struct {
		struct plain_shape shape;
		uint32_t gso_size;
		bool too_long;
	} rows[] = {
		{ { .ip_options = 40, .tcp_options = 40 }, 0, false },
		{ { .ip_options = 40, .tcp_options = 40 }, 1000, false },
		{ { .v6 = true, .extensions = "HHHHH", .tcp_options = 40 }, 1000, false },
		{ { .v6 = true, .extensions = "HHHHHH", .tcp_options = 20 }, 0, false },
		{ { .v6 = true, .extensions = "HHHHHH", .tcp_options = 20 }, 1000, true },
		{ { .v6 = true, .extensions = "HHHHHHH" }, 0, true },
		{ { .v6 = true, .extensions = "HHHHHHH" }, 1000, true },
	};
	static struct unlike_packet p;
	struct unlike from, to[2];
	unsigned lost = 0;

	unlike_open(*state, 0, UNLIKE_ALL, NULL, &from);
	unlike_open(*state, 1, 0, NULL, &to[0]);
	unlike_open(*state, 2, UNLIKE_ALL, NULL, &to[1]);
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		p.shape = rows[i].shape;
		p.shape.protocol = 6;
		p.shape.tags = 2;
		p.shape.payload = 1200;
		p.gso_size = rows[i].gso_size;
		assert_true(unlike_make(&p, &from, 1));
		memset(p.frame.bytes, 0xff, 6);
		assert_int_equal(unlike_send(&from, &p), 0);
		driver_flush(from.d, DRIVER_TX(0));
		unlike_expect(&to[1], &p);
		if (!rows[i].too_long)
			unlike_expect(&to[0], &p);
		lost += rows[i].too_long;
		rig_assert_dropped(*state, 1, "header_too_long", lost);
	}
	assert_passes(from.d, to[0].d);
	driver_close(from.d);
	driver_close(to[0].d);
	driver_close(to[1].d);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		CASE(each_gets_what_it_agreed_to),
		CASE(who_agreed_to_nothing_is_served_by_who_does_all),
		CASE(rings_may_be_tiny),
		CASE(small_buffers_get_segments),
		CASE(buffers_may_be_in_any_pieces),
		CASE(a_flooded_frame_takes_several_forms),
		CASE(udp_checksums_are_never_zero),
		CASE(checksums_outside_the_frame_are_refused),
		CASE(who_did_not_agree_may_not_ask),
		CASE(who_agreed_to_nothing_asks_for_nothing),
		CASE(headers_that_lie_cost_the_frame),
		CASE(segments_may_be_of_one_byte),
		CASE(headers_may_be_too_long),
	};

	return rig_run("offload", tests, ARRAY_SIZE(tests), 0);
}
