// SPDX-License-Identifier: Apache-2.0
/*
 * Frames between two ports of the back-end.
 *
 * It may lose frames, since networks do, and it may need seconds before the first passes. So a
 * frame is sent again until it arrives; each carries its number and length, from which all its
 * bytes follow, and whatever arrives must be what was sent. Frames of others are looked over.
 */
#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "conform/kit.h"

#define ETHERTYPE 0x88b5 /* local experimental */
#define TRY_MS	  300
#define LOOK_US	  50

void kit_frame(struct kit *k, uint8_t *frame, uint32_t len, unsigned from, unsigned to)
{
	const uint8_t head[14] = { 2,
				   2,
				   2,
				   2,
				   2,
				   (uint8_t)(to + 1),
				   2,
				   2,
				   2,
				   2,
				   2,
				   (uint8_t)(from + 1),
				   ETHERTYPE >> 8,
				   ETHERTYPE & 0xff };
	uint32_t number = ++k->frame;

	memcpy(frame, head, sizeof(head));
	memcpy(frame + 14, &number, 4);
	memcpy(frame + 18, &len, 4);
	for (uint32_t i = KIT_FRAME_MIN; i < len; i++)
		frame[i] = (uint8_t)(number * 31 + i * 7 + (i >> 8));
}

static bool is_ours(const uint8_t *got, uint32_t len, unsigned to)
{
	return len >= KIT_FRAME_MIN && got[5] == to + 1 && got[0] == 2 && got[4] == 2 &&
	       got[12] == ETHERTYPE >> 8 && got[13] == (ETHERTYPE & 0xff);
}

int kit_receive(struct kit *k, struct kit_traffic *t, uint8_t *got, struct driver_frame *f,
		int timeout_ms)
{
	uint64_t end = clock_ns() + (uint64_t)timeout_ms * 1000000;
	int rc;

	for (;;) {
		rc = t->by_call ? driver_receive_wait(t->to, 0, got, KIT_FRAME_ROOM, f, timeout_ms)
				: driver_receive(t->to, 0, got, KIT_FRAME_ROOM, f);
		if (rc < 0)
			return -kit_fail(k, "the receiver's ring: %s", driver_broken(t->to));
		driver_post(t->to, 0);
		if (rc && is_ours(got, f->len, t->to_port))
			return 1;
		if (clock_ns() > end)
			return 0;
		if (!rc && !t->by_call)
			usleep(LOOK_US);
	}
}

/* Is it whole? `number` is told. */
static int check(struct kit *k, const uint8_t *got, uint32_t len, uint32_t *number)
{
	uint32_t said;

	memcpy(number, got + 14, 4);
	memcpy(&said, got + 18, 4);
	if (said != len)
		return kit_fail(k, "a frame of %u bytes arrived with %u", said, len);
	for (uint32_t i = KIT_FRAME_MIN; i < len; i++) {
		if (got[i] != (uint8_t)(*number * 31 + i * 7 + (i >> 8)))
			return kit_fail(k, "a frame of %u bytes differs at byte %u", len, i);
	}
	return CONFORM_PASSED;
}

/* Sends the frame and waits for it. 1, 0 or a verdict's negative. */
static int try_once(struct kit *k, struct kit_traffic *t, const uint8_t *frame, uint32_t len)
{
	static uint8_t got[KIT_FRAME_ROOM];
	struct driver_frame f;
	uint32_t number;
	int rc = driver_send(t->from, 0, NULL, frame, len, t->shape);

	if (rc && rc != -ENOSPC)
		return -kit_fail(k, "a frame of %u bytes could not be sent: %s", len,
				 strerror(-rc));
	driver_flush(t->from, DRIVER_TX(0));
	while ((rc = kit_receive(k, t, got, &f, TRY_MS)) == 1) {
		if (check(k, got, f.len, &number))
			return -CONFORM_FAILED;
		if (number == k->frame) {
			t->buffers += f.buffers;
			t->last = f.hdr;
			return 1;
		}
	}
	driver_reclaim(t->from, 0);
	if (driver_broken(t->from))
		return -kit_fail(k, "the sender's ring: %s", driver_broken(t->from));
	return rc;
}

int kit_traffic(struct kit *k, struct kit_traffic *t)
{
	static uint8_t frame[KIT_FRAME_ROOM];
	uint32_t min = t->len_max ? t->len_min : 60, max = t->len_max ? t->len_max : 1514;
	unsigned count = t->count ? t->count : 50;

	if (!t->from_port && !t->to_port)
		t->to_port = 1;
	for (unsigned i = 0; i < count; i++) {
		uint32_t len = count > 1 ? min + (max - min) * i / (count - 1) : min;
		uint64_t end = clock_ns() + (uint64_t)k->config->timeout_ms * 1000000;
		int rc;

		kit_frame(k, frame, len, t->from_port, t->to_port);
		do
			rc = try_once(k, t, frame, len);
		while (!rc && clock_ns() < end);
		if (rc < 0)
			return -rc;
		if (!rc)
			return kit_fail(k, "frame %u of %u, %u bytes, does not arrive", i + 1,
					count, len);
	}
	return CONFORM_PASSED;
}

int kit_open_both(struct kit *k, const struct driver_config *from, const struct driver_config *to,
		  struct kit_traffic *ret)
{
	struct kit_traffic first = { .count = 1 };
	int rc = kit_open(k, 0, from, &first.from);

	if (!rc)
		rc = kit_open(k, 1, to, &first.to);
	*ret = (struct kit_traffic){ .from = first.from, .to = first.to, .to_port = 1 };
	return rc ? rc : kit_traffic(k, &first);
}
