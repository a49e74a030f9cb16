/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unlike drivers meet: whatever one may send, the other gets in a form that it agreed to, complete
 * and with right checksums, or it is dropped by name and nothing else is harmed.
 */
#include "unlike.h"

#include <string.h>
#include <unistd.h>

#define MANY 250u /* packets that their sequence numbers tell apart */
#define ROWS 32u  /* of an array in which each three features occur in all combinations */

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

/* At ports 0 and 1, and both known to the switch. */
static void meet(struct rig *rig, struct unlike d[2], unsigned a, unsigned b,
		 const struct driver_config *like_b)
{
	unlike_open(rig, 0, a, NULL, &d[0]);
	unlike_open(rig, 1, b, like_b, &d[1]);
	assert_passes(d[0].d, d[1].d);
}

static void part(struct unlike d[2])
{
	assert_passes(d[0].d, d[1].d);
	driver_close(d[0].d);
	driver_close(d[1].d);
}

/* Clauses: 5.1.6.4.1e, 5.1.6.4.1f */
/* Features: csum, guest_csum, guest_tso4, guest_tso6, host_tso4, host_tso6, guest_ecn, host_ecn */
static void each_gets_what_it_agreed_to(void **state)
{
	struct unlike_tally tally = { .sent = 0 };
	struct unlike d[2];

	for (unsigned row = 0; row < ROWS; row++) {
		meet(*state, d, set_of(row, 0), set_of(row, 8), NULL);
		run(*state, &d[0], &d[1], false, &tally);
		run(*state, &d[1], &d[0], false, &tally);
		part(d);
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
		meet(*state, d, UNLIKE_ALL, UNLIKE_ALL & ~(1u << i), NULL);
		run(*state, &d[0], &d[1], false, &tally);
		part(d);
	}
	meet(*state, d, UNLIKE_ALL, 0, NULL);
	run(*state, &d[0], &d[1], false, &tally);
	part(d);
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
			meet(*state, d, UNLIKE_ALL, sets[i], &like);
			run(*state, &d[0], &d[1], true, &tally);
			run(*state, &d[1], &d[0], true, &tally);
			part(d);
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
		meet(*state, d, UNLIKE_ALL, round ? all | UNLIKE_LEGACY : all, &like);
		run(*state, &d[0], &d[1], false, &tally);
		run(*state, &d[1], &d[0], false, &tally);
		part(d);
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

		meet(*state, d, UNLIKE_ALL, round & 2 ? set | UNLIKE_MERGE : set,
		     round & 2 ? &dust : &like);
		run(*state, &d[0], &d[1], true, &tally);
		part(d);
	}
}

static void make(struct unlike_packet *p, const struct unlike *from, uint32_t payload,
		 uint32_t gso_size, uint32_t seed)
{
	p->shape = (struct plain_shape){ .protocol = 6, .payload = payload, .seed = seed };
	p->gso_size = gso_size;
	assert_true(unlike_make(p, from, 1));
}

static void receive(struct unlike *to, const struct unlike_packet *p)
{
	struct unlike_fate fate;
	char wrong[UNLIKE_TEXT];

	if (!unlike_receive(to, p, &fate, wrong))
		fail_msg("%s", wrong);
	assert_false(fate.full);
}

static void send_packet(const struct unlike *from, const struct unlike_packet *p)
{
	assert_int_equal(unlike_send(from, p), 0);
	driver_flush(from->d, DRIVER_TX(0));
}

/* Whole, if the receiver makes room in time, which a busy machine may keep it from. */
static bool comes_slowly(const struct unlike *from, struct unlike *to,
			 const struct unlike_packet *p)
{
	struct unlike_fate fate;
	char wrong[UNLIKE_TEXT];

	send_packet(from, p);
	if (!unlike_receive(to, p, &fate, wrong))
		fail_msg("%s", wrong);
	driver_post(to->d, 0);
	return !fate.full;
}

/* Twice ten segments for a ring of 16: sixteen are there at once, four never. */
static void segments_come_while_there_is_room(void **state)
{
	static struct unlike_packet p;
	struct driver_config like = { .ring_size = 16, .rx_buffer = 1526 };
	struct rig_counters before, after;
	struct driver_frame f;
	struct unlike d[2];
	uint8_t got[2048];

	meet(*state, d, UNLIKE_ALL, 0, &like);
	for (unsigned round = 0; round < 5; round++) {
		driver_post(d[1].d, 0);
		before = rig_counters(*state, 0, 1);
		for (unsigned i = 0; i < 2; i++) {
			make(&p, &d[0], 10000, 1000, 2 * round + i);
			assert_int_equal(unlike_send(&d[0], &p), 0);
		}
		driver_flush(d[0].d, DRIVER_TX(0));
		rig_assert_dropped(*state, 1, "full", round + 1);
		after = rig_counters(*state, 0, 1);
		assert_int_equal(after.delivered - before.delivered, 1);
		assert_int_equal(after.segments - before.segments, 16);
		make(&p, &d[0], 10000, 1000, 2 * round);
		receive(&d[1], &p);
		make(&p, &d[0], 10000, 1000, 2 * round + 1);
		for (unsigned i = 0; i < 6; i++) {
			assert_int_equal(driver_receive(d[1].d, 0, got, sizeof(got), &f), 1);
			assert_memory_equal(got + 54, p.frame.bytes + 54 + 1000 * i, 1000);
		}
		assert_int_equal(ring_pending(&d[1].d->ring[DRIVER_RX(0)]), 0);
	}
	driver_post(d[1].d, 0);
	part(d);
}

/* Three segments of three buffers each: two of them find room in eight buffers. */
static void no_segment_comes_in_part(void **state)
{
	static struct unlike_packet p;
	struct driver_config like = { .ring_size = 8, .rx_buffer = 500 };
	struct driver_ring *rx;
	struct unlike d[2];
	uint16_t seen;
	bool whole = false;

	meet(*state, d, UNLIKE_ALL, UNLIKE_MERGE, &like);
	rx = &d[1].d->ring[DRIVER_RX(0)];
	driver_post(d[1].d, 0);
	seen = rx->used_next;
	make(&p, &d[0], 3 * 1400, 1400, 2);
	send_packet(&d[0], &p);
	rig_assert_dropped(*state, 1, "full", 1);
	d[1].full++;
	assert_int_equal((uint16_t)(ring_used(rx, NULL) - seen), 6);
	for (unsigned i = 0; i < 2; i++) {
		struct driver_frame f;
		uint8_t got[2048];

		assert_int_equal(driver_receive(d[1].d, 0, got, sizeof(got), &f), 1);
		assert_int_equal(f.buffers, 3);
		assert_memory_equal(got + 54, p.frame.bytes + 54 + 1400 * i, 1400);
	}
	driver_post(d[1].d, 0);
	for (unsigned round = 0; round < MANY && !whole; round++) {
		make(&p, &d[0], 3 * 1400, 1400, 3 + round);
		whole = comes_slowly(&d[0], &d[1], &p);
	}
	assert_true(whole);
	part(d);
}

/* iPXE has 8 buffers in a ring of 256, for what may be 45 segments. */
static void a_ring_with_eight_buffers(void **state, unsigned set)
{
	static struct unlike_packet p;
	struct driver_config like = { .rx_buffer = 1526, .quirks = DRIVER_NO_RX_BUFFERS };
	struct unlike d[2];
	unsigned whole = 0;

	unlike_open(*state, 0, UNLIKE_ALL, NULL, &d[0]);
	unlike_open(*state, 1, set, &like, &d[1]);
	d[1].d->pool[DRIVER_RX(0)].n = 8;
	/* What it takes more than eight for comes slowly. */
	d[1].d->config.ring_size = 8;
	driver_post(d[1].d, 0);
	assert_passes(d[0].d, d[1].d);
	driver_post(d[1].d, 0);
	for (unsigned round = 0; round < MANY && whole < 10; round++) {
		make(&p, &d[0], round % 2 ? 8000 : 60000, 1400, round);
		whole += comes_slowly(&d[0], &d[1], &p);
	}
	assert_int_equal(whole, 10);
	rig_assert_dropped(*state, 1, "too_big", 0);
	part(d);
}

static void a_ring_that_is_never_filled_is_as_good_as_a_small_one(void **state)
{
	a_ring_with_eight_buffers(state, 0);
}

/* It may have frames whole, but none of more than its eight. */
static void and_so_it_is_with_mergeable_buffers(void **state)
{
	a_ring_with_eight_buffers(state, UNLIKE_ALL);
}

/* The fourth buffer is nowhere: three segments are there, the rest is dropped by name. */
static void a_malformed_chain_ends_the_frame(void **state)
{
	static struct unlike_packet p;
	struct driver_config like = { .ring_size = 16, .rx_buffer = 1526 };
	struct rig_counters before, after;
	struct driver_ring *rx;
	struct driver_done done = { .len = 1 };
	struct driver_frame f;
	struct unlike d[2];
	uint8_t got[2048];

	meet(*state, d, UNLIKE_ALL, 0, &like);
	rx = &d[1].d->ring[DRIVER_RX(0)];
	driver_post(d[1].d, 0);
	rx->desc[rx->avail->ring[(rx->used_next + 3) & rx->mask]].addr = UINT64_MAX - 4096;
	before = rig_counters(*state, 0, 1);
	make(&p, &d[0], 10000, 1000, 1);
	assert_int_equal(unlike_send(&d[0], &p), 0);
	driver_flush(d[0].d, DRIVER_TX(0));
	rig_assert_dropped(*state, 1, "rx_chain", 1);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(driver_receive(d[1].d, 0, got, sizeof(got), &f), 1);
		assert_int_equal(f.len, 1054);
		assert_memory_equal(got + 54, p.frame.bytes + 54 + 1000 * i, 1000);
	}
	assert_int_equal(ring_take(rx, &done, 1), 1);
	assert_int_equal(done.len, 0);
	assert_int_equal(ring_pending(rx), 0);
	d[1].d->pool[DRIVER_RX(0)].free[d[1].d->pool[DRIVER_RX(0)].n++] = done.token;
	after = rig_counters(*state, 0, 1);
	assert_int_equal(after.segments - before.segments, 3);
	assert_int_equal(after.delivered, before.delivered);
	assert_int_equal(after.sent, before.sent + 1);
	part(d);
}

/* Where in which packet of a stream a segment belongs: its seed tells the packet. */
static uint32_t place_of(const uint8_t *segment, unsigned *packet)
{
	static struct plain_frame first;

	for (;; ++*packet) {
		struct plain_shape shape = { .protocol = 6, .seed = *packet };
		uint32_t at;

		assert_true(*packet < MANY);
		plain_make(&first, &shape);
		at = plain_get32(segment + 38) - plain_get32(first.bytes + 38);
		if (at < 65536)
			return at;
	}
}

static uint32_t stream_payload(unsigned packet)
{
	return (7 + packet * 11 % 40) * 1000;
}

/*
 * A stream of frames larger than the ring, for each of which the receiver makes room too late, but
 * mostly in time: of each a beginning, in order, and most of them whole.
 */
static void what_waits_for_room_comes_once_and_in_order(void **state)
{
	static struct unlike_packet p;
	struct driver_config like = { .ring_size = 16, .rx_buffer = 1526 };
	unsigned sent = 0, whole = 0, packet = 0, last = 0, idle = 0;
	uint32_t next = 0;
	uint8_t got[2048];
	struct driver_frame f;
	struct unlike d[2];

	meet(*state, d, UNLIKE_ALL, UNLIKE_GUEST_CSUM, &like);
	while (sent < MANY || idle < 5000) {
		uint32_t at;

		for (; sent < MANY; sent++) {
			make(&p, &d[0], stream_payload(sent), 1000, sent);
			if (unlike_send(&d[0], &p))
				break;
		}
		driver_flush(d[0].d, DRIVER_TX(0));
		if (!driver_receive(d[1].d, 0, got, sizeof(got), &f)) {
			usleep(200);
			idle++;
			continue;
		}
		idle = 0;
		at = place_of(got, &packet);
		assert_int_equal(at, packet == last ? next : 0);
		make(&p, &d[0], stream_payload(packet), 1000, packet);
		assert_memory_equal(got + 54, p.frame.bytes + 54 + at, 1000);
		last = packet;
		next = at + 1000;
		whole += next == stream_payload(packet);
	}
	assert_true(whole > 1);
	rig_assert_dropped(*state, 1, "full", sent - whole);
	part(d);
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
			make(&p, &from, i % 2 ? 5000 : 900, i % 2 ? 1448 : 0, i);
			memset(p.frame.bytes, 0xff, 6);
			assert_int_equal(unlike_send(&from, &p), 0);
			driver_flush(from.d, DRIVER_TX(0));
			receive(&to[0], &p);
			receive(&to[1], &p);
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

	meet(*state, d, UNLIKE_ALL, 0, NULL);
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
		receive(&d[1], &p);
	}
	part(d);
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

		meet(*state, d, UNLIKE_ALL, round ? UNLIKE_ALL : 0, NULL);
		make(&p, &d[0], 960 - 54, 0, 1);
		for (unsigned i = 0; i < ARRAY_SIZE(places); i++) {
			struct virtio_net_hdr hdr = { .flags = 1,
						      .csum_start = places[i][0],
						      .csum_offset = places[i][1] };

			lie(&d[0], &p, &hdr);
			rig_assert_dropped(*state, 0, "header_bad", n + i + 1);
		}
		part(d);
	}
}

static void who_did_not_agree_may_not_ask(void **state)
{
	static const unsigned without[] = { UNLIKE_CSUM, UNLIKE_TSO4 };
	static struct unlike_packet p;
	struct unlike all = { .set = UNLIKE_ALL }, d[2];

	for (unsigned i = 0; i < ARRAY_SIZE(without); i++) {
		meet(*state, d, UNLIKE_ALL & ~without[i], UNLIKE_ALL, NULL);
		make(&p, &all, 3000, 1000, i);
		lie(&d[0], &p, &p.hdr);
		rig_assert_dropped(*state, 0, "header_bad", i + 1);
		part(d);
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
	meet(*state, d, UNLIKE_ALL, UNLIKE_GUEST_CSUM, NULL);
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
	part(d);
}

/* A segment of a byte each is silly, but what was asked for. */
static void segments_may_be_of_one_byte(void **state)
{
	static struct unlike_packet p;
	struct unlike d[2];

	meet(*state, d, UNLIKE_ALL, 0, NULL);
	make(&p, &d[0], 100, 1, 1);
	assert_int_equal(unlike_send(&d[0], &p), 0);
	driver_flush(d[0].d, DRIVER_TX(0));
	receive(&d[1], &p);
	part(d);
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
		receive(&to[1], &p);
		if (!rows[i].too_long)
			receive(&to[0], &p);
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
		CASE(segments_come_while_there_is_room),
		CASE(no_segment_comes_in_part),
		CASE(what_waits_for_room_comes_once_and_in_order),
		CASE(a_flooded_frame_takes_several_forms),
		CASE(udp_checksums_are_never_zero),
		CASE(checksums_outside_the_frame_are_refused),
		CASE(who_did_not_agree_may_not_ask),
		CASE(headers_that_lie_cost_the_frame),
		CASE(segments_may_be_of_one_byte),
		CASE(headers_may_be_too_long),
		CASE(a_ring_that_is_never_filled_is_as_good_as_a_small_one),
		CASE(and_so_it_is_with_mergeable_buffers),
		CASE(a_malformed_chain_ends_the_frame),
	};

	return rig_run("offload", tests, ARRAY_SIZE(tests), 3);
}
