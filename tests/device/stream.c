// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"

#define PATIENCE_MS 10000 /* without progress: lost */
#define SETTLED_MS  50
#define LOOK_US	    200

void frame_make(uint8_t *frame, uint32_t len, unsigned from, unsigned to, uint32_t seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;
	const uint8_t head[FRAME_MIN] = { 2,
					  0,
					  0,
					  0,
					  0,
					  (uint8_t)(to + 1),
					  2,
					  0,
					  0,
					  0,
					  0,
					  (uint8_t)(from + 1),
					  ETHERTYPE_TEST >> 8,
					  ETHERTYPE_TEST & 0xff };

	memcpy(frame, head, MIN(len, (uint32_t)FRAME_MIN));
	for (uint32_t i = FRAME_MIN; i < len; i++) {
		if ((i - FRAME_MIN) % 8 == 0) { /* xorshift64* */
			x ^= x >> 12;
			x ^= x << 25;
			x ^= x >> 27;
		}
		frame[i] = (uint8_t)(x * 0x2545f4914f6cdd1dull >> (8 * ((i - FRAME_MIN) % 8)));
	}
}

static void put16(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

static uint32_t sum16(const uint8_t *at, unsigned n, uint32_t sum)
{
	for (unsigned i = 0; i < n; i += 2)
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

const struct virtio_net_hdr tso = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
				    .gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
				    .hdr_len = TCP_HEADERS,
				    .gso_size = 1448,
				    .csum_start = 34,
				    .csum_offset = 16 };

void frame_add_tcp(uint8_t *frame, uint32_t len)
{
	static const uint8_t ip[20] = { 0x45, 0, 0,  0, 0, 0, 0x40, 0, 64, 6,
					0,    0, 10, 0, 0, 1, 10,   0, 0,  2 };
	static const uint8_t tcp[20] = { 0x30, 0x39, 0x14, 0x51, 0, 0, 0, 1, 0, 0,
					 0,    1,    0x50, 0x10, 2, 0, 0, 0, 0, 0 };
	uint32_t tcp_len = len - 34;

	put16(frame + 12, 0x0800);
	memcpy(frame + 14, ip, sizeof(ip));
	put16(frame + 16, len - 14);
	put16(frame + 24, ~sum16(frame + 14, 20, 0));
	memcpy(frame + 34, tcp, sizeof(tcp));
	put16(frame + 50, sum16(frame + 26, 8, 6 + (tcp_len & 0xffff) + (tcp_len >> 16)));
}

static void frame_of(const struct stream *s, uint8_t *frame, uint32_t len, uint32_t seed)
{
	frame_make(frame, len, s->from_port, s->to_port, seed);
	if (s->tcp)
		frame_add_tcp(frame, len);
}

static uint32_t length_of(const struct stream *s, uint32_t seed)
{
	uint32_t span = s->len_max - s->len_min + 1;

	return s->len_min + (uint32_t)((seed * 2654435761u >> 8) % span);
}

static void check_frame(struct stream *s, const uint8_t *got, const struct driver_frame *f,
			uint32_t seed)
{
	static uint8_t expected[FRAME_ROOM];
	uint32_t len = length_of(s, seed);

	frame_of(s, expected, len, seed);
	if (f->len != len)
		fail_msg("frame %u: %u bytes long, expected %u", seed, f->len, len);
	for (uint32_t i = 0; i < len; i++) {
		if (got[i] != expected[i])
			fail_msg("frame %u of %u bytes differs at byte %u: %#x, expected %#x", seed,
				 len, i, got[i], expected[i]);
	}
	assert_int_equal(f->used_len, len + s->to->hdr_len);
	if (s->hdr)
		assert_memory_equal(&f->hdr.hdr, s->hdr, sizeof(*s->hdr));
	else
		assert_int_equal(f->hdr.hdr.flags | f->hdr.hdr.gso_type, 0);
	s->buffers += f->buffers;
	s->used_len += f->used_len;
}

static unsigned send_some(struct stream *s, unsigned sent, unsigned limit)
{
	static uint8_t frame[FRAME_ROOM];
	unsigned n = 0;

	while (sent + n < limit) {
		uint32_t len = length_of(s, sent + n);
		int rc;

		frame_of(s, frame, len, sent + n);
		rc = driver_send(s->from, s->from_pair, s->hdr, frame, len, s->shape);
		if (rc == -ENOSPC)
			break;
		assert_int_equal(rc, 0);
		n++;
	}
	if (n)
		driver_flush(s->from, DRIVER_TX(s->from_pair));
	return n;
}

static void fill_defaults(struct stream *s)
{
	if (s->from_port == s->to_port)
		s->to_port = s->from_port + 1;
	if (!s->count)
		s->count = 100;
	if (!s->window)
		s->window = MIN(64u, s->to->config.ring_size);
	if (!s->len_max) {
		s->len_min = 60;
		s->len_max = 1514;
	}
	assert_true(s->len_max < FRAME_ROOM);
}

static void check_rings(const struct stream *s)
{
	const char *broken = driver_broken(s->from) ? driver_broken(s->from) : driver_broken(s->to);

	if (broken)
		fail_msg("the switch %s", broken);
}

/* Takes a frame from any pair of the receiver; of one pair only if it waits to be called. */
static int receive_any(struct stream *s, uint8_t *got, struct driver_frame *f)
{
	int rc = 0;

	if (s->by_call) {
		rc = driver_receive_wait(s->to, 0, got, FRAME_ROOM, f, PATIENCE_MS);
		driver_post(s->to, 0);
		return rc;
	}
	for (unsigned pair = 0; pair < s->to->config.pairs && !rc; pair++) {
		ring_calls_off(&s->to->ring[DRIVER_RX(pair)]);
		rc = driver_receive(s->to, pair, got, FRAME_ROOM, f);
		if (rc) /* before a frame is sent in its place */
			driver_post(s->to, pair);
	}
	return rc;
}

void stream_run(struct stream *s)
{
	static uint8_t got[FRAME_ROOM];
	unsigned sent = 0, received = 0;
	uint64_t progress = clock_ns();

	fill_defaults(s);
	ring_calls_off(&s->from->ring[DRIVER_TX(s->from_pair)]);
	while (received < s->count) {
		struct driver_frame f;
		int rc;

		sent += send_some(s, sent, MIN(s->count, received + s->window));
		rc = receive_any(s, got, &f);
		check_rings(s);
		if (rc == 1) {
			/* As a network card would: what was flooded is not for us. */
			if (f.len >= FRAME_MIN && got[5] == s->to_port + 1)
				check_frame(s, got, &f, received++);
			progress = clock_ns();
		} else if (clock_ns() - progress > PATIENCE_MS * 1000000ull) {
			rig_print_drops();
			fail_msg("%u of %u frames sent, only %u arrived; %u not taken, %u pending",
				 sent, s->count, received,
				 ring_outstanding(&s->from->ring[DRIVER_TX(s->from_pair)]) -
					 ring_pending(&s->from->ring[DRIVER_TX(s->from_pair)]),
				 ring_pending(&s->to->ring[DRIVER_RX(0)]));
		}
	}
}

void stream_both(const struct stream *s)
{
	struct stream there = *s, back = *s;

	stream_run(&there);
	back.from = s->to;
	back.to = s->from;
	back.from_port = there.to_port;
	back.to_port = there.from_port;
	back.from_pair = 0;
	stream_run(&back);
}

void assert_passes(struct driver *a, struct driver *b)
{
	struct stream s = { .from = a, .to = b, .count = 1, .len_min = 60, .len_max = 60 };

	stream_both(&s);
}

unsigned swallow(struct driver *d)
{
	static uint8_t got[FRAME_ROOM];
	struct driver_frame f;
	unsigned n = 0;

	while (driver_receive(d, 0, got, sizeof(got), &f) == 1)
		n++;
	driver_post(d, 0);
	return n;
}

void settle(struct driver *a, struct driver *b)
{
	for (unsigned idle = 0; idle < SETTLED_MS; idle++) {
		if (swallow(a) + swallow(b))
			idle = 0;
		usleep(1000);
	}
}

void pass_and_close(struct driver *a, struct driver *b)
{
	struct stream s = { .from = a, .to = b };

	stream_both(&s);
	driver_close(a);
	driver_close(b);
}

void send_one(struct driver *d, unsigned from, unsigned to, uint32_t len, uint32_t seed)
{
	static uint8_t frame[FRAME_ROOM];

	frame_make(frame, len, from, to, seed);
	assert_int_equal(driver_send(d, 0, NULL, frame, len, NULL), 0);
	driver_flush(d, DRIVER_TX(0));
}

bool receive_one(struct driver *d, unsigned from, unsigned to, uint32_t len, uint32_t seed,
		 int timeout_ms)
{
	static uint8_t got[FRAME_ROOM], expected[FRAME_ROOM];
	uint64_t end = clock_ns() + (uint64_t)timeout_ms * 1000000;
	struct driver_frame f;
	int rc;

	while ((rc = driver_receive(d, 0, got, sizeof(got), &f)) == 0 && clock_ns() < end)
		usleep(LOOK_US);
	if (rc < 0)
		fail_msg("the switch %s", driver_broken(d));
	if (!rc)
		return false;
	frame_make(expected, len, from, to, seed);
	assert_int_equal(f.len, len);
	assert_memory_equal(got, expected, len);
	return true;
}
