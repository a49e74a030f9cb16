// SPDX-License-Identifier: Apache-2.0
/*
 * Large frames for receivers with less room: their segments come as there are buffers, in order and
 * once, and what does not come is counted.
 */
#include "unlike.h"

#include <string.h>
#include <unistd.h>

#define MANY 250u /* packets that their sequence numbers tell apart */

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

	unlike_meet(*state, d, UNLIKE_ALL, 0, &like);
	for (unsigned round = 0; round < 5; round++) {
		driver_post(d[1].d, 0);
		before = rig_counters(*state, 0, 1);
		for (unsigned i = 0; i < 2; i++) {
			unlike_make_tcp(&p, &d[0], 10000, 1000, 2 * round + i);
			assert_int_equal(unlike_send(&d[0], &p), 0);
		}
		driver_flush(d[0].d, DRIVER_TX(0));
		rig_assert_dropped(*state, 1, "full", round + 1);
		after = rig_counters(*state, 0, 1);
		assert_int_equal(after.delivered - before.delivered, 1);
		assert_int_equal(after.segments - before.segments, 16);
		unlike_make_tcp(&p, &d[0], 10000, 1000, 2 * round);
		unlike_expect(&d[1], &p);
		unlike_make_tcp(&p, &d[0], 10000, 1000, 2 * round + 1);
		for (unsigned i = 0; i < 6; i++) {
			assert_int_equal(driver_receive(d[1].d, 0, got, sizeof(got), &f), 1);
			assert_memory_equal(got + 54, p.frame.bytes + 54 + 1000 * i, 1000);
		}
		assert_int_equal(ring_pending(&d[1].d->ring[DRIVER_RX(0)]), 0);
	}
	driver_post(d[1].d, 0);
	unlike_part(d);
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

	unlike_meet(*state, d, UNLIKE_ALL, UNLIKE_MERGE, &like);
	rx = &d[1].d->ring[DRIVER_RX(0)];
	driver_post(d[1].d, 0);
	seen = rx->used_next;
	unlike_make_tcp(&p, &d[0], 3 * 1400, 1400, 2);
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
		unlike_make_tcp(&p, &d[0], 3 * 1400, 1400, 3 + round);
		whole = comes_slowly(&d[0], &d[1], &p);
	}
	assert_true(whole);
	unlike_part(d);
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
		unlike_make_tcp(&p, &d[0], round % 2 ? 8000 : 60000, 1400, round);
		whole += comes_slowly(&d[0], &d[1], &p);
	}
	assert_int_equal(whole, 10);
	rig_assert_dropped(*state, 1, "too_big", 0);
	unlike_part(d);
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

	unlike_meet(*state, d, UNLIKE_ALL, 0, &like);
	rx = &d[1].d->ring[DRIVER_RX(0)];
	driver_post(d[1].d, 0);
	if (rx->packed)
		rx->packed_desc[(rx->take.slot + 3) % rx->size].addr = UINT64_MAX - 4096;
	else
		rx->desc[rx->avail->ring[(rx->used_next + 3) & rx->mask]].addr = UINT64_MAX - 4096;
	before = rig_counters(*state, 0, 1);
	unlike_make_tcp(&p, &d[0], 10000, 1000, 1);
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
	unlike_part(d);
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

	unlike_meet(*state, d, UNLIKE_ALL, UNLIKE_GUEST_CSUM, &like);
	while (sent < MANY || idle < 5000) {
		uint32_t at;

		for (; sent < MANY; sent++) {
			unlike_make_tcp(&p, &d[0], stream_payload(sent), 1000, sent);
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
		unlike_make_tcp(&p, &d[0], stream_payload(packet), 1000, packet);
		assert_memory_equal(got + 54, p.frame.bytes + 54 + at, 1000);
		last = packet;
		next = at + 1000;
		whole += next == stream_payload(packet);
	}
	assert_true(whole > 1);
	rig_assert_dropped(*state, 1, "full", sent - whole);
	unlike_part(d);
}

/*
 * 24 segments of 1000 bytes for a ring of 16, full now: the first 16 are there, the rest waits. Or
 * all of it does, behind `small` frames that have filled the ring.
 */
#define HALF 16u
#define ALL  24u
#define TINY 60u

/* False: the rest was given up already, on a busy machine. */
static bool send_behind(struct rig *rig, const struct unlike d[2], struct unlike_packet *p,
			uint32_t seed, unsigned small)
{
	struct driver_ring *rx = &d[1].d->ring[DRIVER_RX(0)];
	uint64_t full = rig_dropped(rig, 1, "full");
	uint16_t seen = rx->used_next;

	driver_post(d[1].d, 0);
	for (unsigned i = 0; i < small; i++) {
		uint8_t frame[TINY];

		frame_make(frame, TINY, 0, 1, i);
		assert_int_equal(driver_send(d[0].d, 0, NULL, frame, TINY, NULL), 0);
	}
	unlike_make_tcp(p, &d[0], ALL * 1000, 1000, seed);
	send_packet(&d[0], p);
	for (unsigned i = 0; i < 10000 && (uint16_t)(ring_used(rx, NULL) - seen) < HALF; i++)
		usleep(100);
	assert_int_equal((uint16_t)(ring_used(rx, NULL) - seen), HALF);
	return rig_dropped(rig, 1, "full") == full;
}

static bool send_half(struct rig *rig, const struct unlike d[2], struct unlike_packet *p,
		      uint32_t seed)
{
	return send_behind(rig, d, p, seed, 0);
}

/* Is it segment `i`, with its checksum begun or complete? */
static void assert_segment(const struct unlike_packet *p, unsigned i, const uint8_t *got,
			   const struct driver_frame *f, bool begun)
{
	const struct plain_frame *whole = &p->frame;
	uint32_t seed = plain_pseudo(whole->src, whole->dst, false, 6, f->len - whole->l4);

	assert_int_equal(f->len, 1054);
	assert_int_equal(f->len, 1054);
	assert_memory_equal(got + 54, whole->bytes + 54 + 1000 * i, 1000);
	assert_int_equal(f->hdr.hdr.gso_type, 0);
	assert_int_equal(f->hdr.hdr.flags, begun ? VIRTIO_NET_HDR_F_NEEDS_CSUM : 0);
	if (begun)
		assert_int_equal(plain_get16(got + whole->l4 + 16), seed);
	else
		assert_int_equal(plain_sum(seed, got + whole->l4, f->len - whole->l4), 0xffff);
}

/* Waits for the next frame; none if no more will come: the switch has counted all that was sent. */
static bool take_next(const struct unlike *to, uint8_t *got, size_t room, struct driver_frame *f)
{
	bool over = false;
	int rc;

	for (unsigned i = 0; i < 10000; i++, usleep(500)) {
		struct rig_counters n;

		rc = driver_receive(to->d, 0, got, room, f);
		assert_true(rc >= 0);
		if (rc || over)
			return rc;
		n = rig_counters(to->rig, 0, 1);
		over = n.sent == n.delivered + n.dropped;
	}
	fail_msg("%s", "something waits for ever");
	return false;
}

/* Takes segments from `first` on until none comes any more; how far they went. */
static unsigned take_segments(const struct unlike *to, const struct unlike_packet *p,
			      unsigned first, unsigned end, bool begun)
{
	uint8_t got[2048];
	struct driver_frame f;

	while (first < end && take_next(to, got, sizeof(got), &f))
		assert_segment(p, first++, got, &f, begun);
	return first;
}

/* The receiver agrees to something else while a frame is half out to it. */
static void the_rest_comes_in_the_form_agreed_to_since(void **state)
{
	static struct unlike_packet p;
	struct driver_config like = { .ring_size = 16, .rx_buffer = 1526 };
	unsigned whole[2] = { 0, 0 };
	struct unlike d[2];

	unlike_meet(*state, d, UNLIKE_ALL, 0, &like);
	for (unsigned round = 0; round < MANY && (!whole[0] || !whole[1]); round++) {
		bool begun = round % 2, waits = send_half(*state, d, &p, round);
		unsigned end;
		struct error err;

		d[1].d->fe.features ^= BIT(VIRTIO_NET_F_GUEST_CSUM);
		assert_int_equal(frontend_set_features(&d[1].d->fe, &err), 0);
		assert_int_equal(take_segments(&d[1], &p, 0, HALF, begun), HALF);
		end = take_segments(&d[1], &p, HALF, ALL, !begun);
		whole[begun] += waits && end == ALL;
		assert_int_equal(ring_pending(&d[1].d->ring[DRIVER_RX(0)]), 0);
	}
	assert_true(whole[0] && whole[1]);
	driver_post(d[1].d, 0);
	unlike_part(d);
}

/* The other way for it: cut, and all checksums finished; or whole, with all left to it. */
static void agree_otherwise(struct driver *d)
{
	struct error err;

	d->fe.features ^= BIT(VIRTIO_NET_F_GUEST_CSUM) | BIT(VIRTIO_NET_F_GUEST_TSO4) |
			  BIT(VIRTIO_NET_F_MRG_RXBUF);
	d->mergeable = !d->mergeable;
	assert_int_equal(frontend_set_features(&d->fe, &err), 0);
}

/*
 * Stops the ring, agrees to something else, and starts it again. Meanwhile the second pair, which
 * has no buffers, is whom frames wait for: without a ring, they would be dropped.
 */
static void start_otherwise(struct driver *d)
{
	struct error err;
	uint32_t base;

	assert_int_equal(driver_ring_enable(d, DRIVER_RX(1), true, &err), 0);
	assert_int_equal(driver_ring_stop(d, DRIVER_RX(0), &base, &err), 0);
	agree_otherwise(d);
	assert_int_equal(driver_ring_start(d, DRIVER_RX(0), base, &err), 0);
	assert_int_equal(driver_ring_enable(d, DRIVER_RX(1), false, &err), 0);
	driver_post(d, 0);
}

/*
 * False: it was given up; or it came in segments, since the switch has looked when the driver had
 * put back no more than a handful of buffers, and takes that for all that it ever has.
 */
static bool take_whole(const struct unlike *to, const struct unlike_packet *p)
{
	static uint8_t got[FRAME_ROOM];
	struct driver_frame f;

	if (!take_next(to, got, sizeof(got), &f))
		return false;
	if (f.len != p->frame.len) {
		assert_segment(p, 0, got, &f, true);
		take_segments(to, p, 1, ALL, true);
		return false;
	}
	assert_memory_equal(got, p->frame.bytes, f.len);
	assert_memory_equal(&f.hdr.hdr, &p->hdr, sizeof(p->hdr));
	return true;
}

/* Reset with half a frame out to it, or all of it waiting: none of it comes twice, or as before. */
static void the_rest_comes_as_agreed_to_when_the_ring_starts_again(void **state)
{
	/* Half out, then finely cut still; whole, and cut; cut, and whole. */
	static const unsigned small[] = { 0, HALF, HALF, HALF };
	static struct unlike_packet p;
	struct driver_config like = {
		.pairs = 2, .ring_size = 16, .rx_buffer = 1526, .quirks = DRIVER_NO_RX_BUFFERS
	};
	unsigned came[ARRAY_SIZE(small)] = { 0 };
	struct unlike d[2];
	struct error err;

	unlike_open(*state, 0, UNLIKE_ALL, NULL, &d[0]);
	unlike_open(*state, 1, 0, &like, &d[1]);
	assert_int_equal(driver_ring_enable(d[1].d, DRIVER_RX(1), false, &err), 0);
	send_one(d[1].d, 1, 0, TINY, 0);
	assert_true(receive_one(d[0].d, 1, 0, TINY, 0, 1000));
	for (unsigned round = 0; round < MANY && (!came[0] || !came[1] || !came[2]); round++) {
		unsigned kind = round % ARRAY_SIZE(small), first = small[kind] ? 0 : HALF;
		bool waits = send_behind(*state, d, &p, round, small[kind]), whole;

		start_otherwise(d[1].d);
		for (unsigned i = 0; i < small[kind]; i++)
			assert_true(receive_one(d[1].d, 0, 1, TINY, i, 1000));
		assert_int_equal(take_segments(&d[1], &p, 0, first, false), first);
		driver_post(d[1].d, 0);
		if (kind == 2)
			whole = take_whole(&d[1], &p);
		else
			whole = take_segments(&d[1], &p, first, ALL, !kind) == ALL;
		came[kind] += waits && whole;
		assert_int_equal(ring_pending(&d[1].d->ring[DRIVER_RX(0)]), 0);
	}
	assert_true(came[0] && came[1] && came[2]);
	driver_post(d[1].d, 0);
	unlike_part(d);
}

/* What was on its way to it is lost, and nothing else. */
static void a_ring_may_be_stopped_with_half_a_frame(void **state)
{
	static struct unlike_packet p;
	struct driver_config like = { .ring_size = 16, .rx_buffer = 1526 };
	struct unlike d[2];

	unlike_meet(*state, d, UNLIKE_ALL, 0, &like);
	for (unsigned round = 0; round < 5; round++) {
		struct rig_counters n = rig_counters(*state, 0, 1);
		uint64_t lost = n.dropped;
		struct error err;
		uint32_t base;

		send_half(*state, d, &p, round);
		assert_int_equal(driver_ring_stop(d[1].d, DRIVER_RX(0), &base, &err), 0);
		for (unsigned i = 0; i < 1000 && n.dropped == lost; i++, usleep(1000))
			n = rig_counters(*state, 0, 1);
		assert_int_equal(n.dropped, lost + 1);
		assert_int_equal(driver_ring_start(d[1].d, DRIVER_RX(0), base, &err), 0);
		assert_int_equal(take_segments(&d[1], &p, 0, HALF, false), HALF);
		assert_int_equal(ring_pending(&d[1].d->ring[DRIVER_RX(0)]), 0);
		driver_post(d[1].d, 0);
		assert_passes(d[0].d, d[1].d);
	}
	unlike_part(d);
}

/* Its successor agreed to all of it, and gets of the old frame whole segments or nothing. */
static void a_receiver_may_leave_with_half_a_frame(void **state)
{
	static struct unlike_packet p;
	struct driver_config like = { .ring_size = 16, .rx_buffer = 1526 };
	struct unlike d[2];

	unlike_meet(*state, d, UNLIKE_ALL, 0, &like);
	for (unsigned round = 0; round < 5; round++) {
		send_half(*state, d, &p, round);
		driver_close(d[1].d);
		unlike_open(*state, 1, round % 2 ? 0 : UNLIKE_ALL, round % 2 ? &like : NULL, &d[1]);
		take_segments(&d[1], &p, HALF, ALL, d[1].set);
		assert_passes(d[0].d, d[1].d);
		for (unsigned i = 0; i < 3; i++) {
			unlike_make_tcp(&p, &d[0], 10000, 1000, i);
			send_packet(&d[0], &p);
			unlike_expect(&d[1], &p);
			driver_post(d[1].d, 0);
		}
		if (d[1].set) { /* the next one gets segments again */
			driver_close(d[1].d);
			unlike_open(*state, 1, 0, &like, &d[1]);
			assert_passes(d[0].d, d[1].d);
		}
	}
	unlike_part(d);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		CASE(segments_come_while_there_is_room),
		CASE(no_segment_comes_in_part),
		CASE(what_waits_for_room_comes_once_and_in_order),
		CASE(the_rest_comes_in_the_form_agreed_to_since),
		CASE(the_rest_comes_as_agreed_to_when_the_ring_starts_again),
		CASE(a_ring_may_be_stopped_with_half_a_frame),
		CASE(a_receiver_may_leave_with_half_a_frame),
		CASE(a_ring_that_is_never_filled_is_as_good_as_a_small_one),
		CASE(and_so_it_is_with_mergeable_buffers),
		CASE(a_malformed_chain_ends_the_frame),
	};

	return rig_run("room", tests, ARRAY_SIZE(tests), 0);
}
