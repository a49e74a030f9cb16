// SPDX-License-Identifier: Apache-2.0
/*
 * One sender, and two receivers, of which one has no room: what waits for it keeps its place, and
 * what is for the other passes. Frames to each are numbered.
 */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define LEN	  60u
#define RING	  16u /* of the receiver without room */
#define FEW	  4u
#define ROUNDS	  200u
#define MANY	  20000u /* frames to each */
#define PATIENT_S 100

enum { SENDER, FULL, READY };

static struct rig *rig;
static struct driver *d[PORTS];
static struct flow {
	uint32_t sent, received;
	uint32_t next; /* the lowest number that may come */
} flow[PORTS];

static const struct driver_config small = { .ring_size = RING };

static void open_all(void)
{
	const struct driver_config in_order = { .features = driver_features_default() |
							    BIT(VIRTIO_F_IN_ORDER) };

	memset(flow, 0, sizeof(flow));
	d[SENDER] = rig_open(rig, SENDER, &in_order);
	d[FULL] = rig_open(rig, FULL, &small);
	d[READY] = rig_open(rig, READY, NULL);
	send_one(d[SENDER], SENDER, FULL, LEN, 1); /* to both, which are not known yet */
	for (unsigned i = FULL; i <= READY; i++) {
		assert_true(receive_one(d[i], SENDER, FULL, LEN, 1, 10000));
		send_one(d[i], i, SENDER, LEN, 1);
		assert_true(receive_one(d[SENDER], i, SENDER, LEN, 1, 10000));
	}
}

static void close_all(void)
{
	for (unsigned i = 0; i < PORTS; i++) {
		assert_null(driver_broken(d[i]));
		driver_close(d[i]);
	}
}

static bool send_next(unsigned to)
{
	uint8_t frame[LEN];

	driver_reclaim(d[SENDER], 0);
	frame_make(frame, LEN, SENDER, to, 0);
	memcpy(frame + FRAME_MIN, &flow[to].sent, sizeof(flow[to].sent));
	if (driver_send(d[SENDER], 0, NULL, frame, LEN, NULL))
		return false;
	flow[to].sent++;
	return true;
}

/* Takes what has come to it, at most so much. */
static void take(unsigned at, unsigned most)
{
	uint8_t frame[2048];
	struct driver_frame f;
	uint32_t number;

	while (most-- && driver_receive(d[at], 0, frame, sizeof(frame), &f) == 1) {
		assert_int_equal(f.len, LEN);
		memcpy(&number, frame + FRAME_MIN, sizeof(number));
		assert_in_range(number, flow[at].next, flow[at].sent - 1);
		flow[at].next = number + 1;
		flow[at].received++;
	}
}

/* Takes all that there is to come: what does not is counted. */
static void settle_all(void)
{
	for (unsigned at = FULL; at <= READY; at++) {
		uint64_t dropped = 0;

		for (unsigned i = 0; i < 10000 && flow[at].sent != flow[at].received + dropped;
		     i++) {
			usleep(100);
			take(at, UINT32_MAX);
			dropped = rig_dropped(rig, at, "full");
		}
		assert_int_equal(flow[at].sent, flow[at].received + dropped);
	}
}

static void fill(void)
{
	struct driver_ring *rx = &d[FULL]->ring[DRIVER_RX(0)];
	uint16_t seen = rx->used_next;

	driver_post(d[FULL], 0);
	for (unsigned i = 0; i < RING; i++)
		assert_true(send_next(FULL));
	driver_flush(d[SENDER], DRIVER_TX(0));
	for (unsigned i = 0; i < 100000 && (uint16_t)(ring_used(rx, NULL) - seen) < RING; i++)
		usleep(100);
	assert_int_equal((uint16_t)(ring_used(rx, NULL) - seen), RING);
}

/* One frame, until it is there. */
static void pass(unsigned to)
{
	uint32_t received = flow[to].received;

	assert_true(send_next(to));
	driver_flush(d[SENDER], DRIVER_TX(0));
	for (unsigned i = 0; i < 100000 && flow[to].received == received; i++) {
		take(to, 1);
		usleep(20);
	}
	assert_int_equal(flow[to].received, received + 1);
}

/* A frame that waits, and one that passes, and so on. */
static void send_few(void)
{
	fill();
	pass(READY);
	for (unsigned i = 0; i < FEW; i++) {
		assert_true(send_next(FULL));
		pass(READY);
	}
}

/*
 * The last of those that pass has, when there is room for the first that waits; and then all come.
 * Their time may be up on a busy machine, but not each time.
 */
static void what_waits_does_not_hold_up_others(void **state)
{
	bool whole = false;

	rig = *state;
	open_all();
	for (unsigned round = 0; round < ROUNDS && !whole; round++) {
		uint32_t received = flow[FULL].received;

		send_few();
		take(FULL, RING);
		settle_all();
		whole = flow[FULL].received == received + RING + FEW;
	}
	assert_true(whole);
	close_all();
}

/* To both, as much as there is room for; one of them takes little at a time, and seldom. */
static void each_frame_comes_once_in_order_or_is_counted(void **state)
{
	uint64_t end = clock_ns() + PATIENT_S * 1000000000ull;
	unsigned seed = 3;

	rig = *state;
	open_all();
	while (flow[FULL].sent < MANY || flow[READY].sent < MANY) {
		for (unsigned n = (unsigned)rand_r(&seed) % 100; n; n--) {
			if (!send_next(rand_r(&seed) % 2 ? FULL : READY))
				break;
		}
		driver_flush(d[SENDER], DRIVER_TX(0));
		if (rand_r(&seed) % 4 == 0)
			take(FULL, (unsigned)rand_r(&seed) % (2 * RING));
		take(READY, UINT32_MAX);
		assert_true(clock_ns() < end);
	}
	settle_all();
	print_message("# %u of %u, and %u of %u\n", flow[FULL].received, flow[FULL].sent,
		      flow[READY].received, flow[READY].sent);
	close_all();
}

/* Receiver or sender: what is held is not sent to anybody else, and the others go on. */
static void who_leaves_leaves_the_others_alone(void **state)
{
	rig = *state;
	open_all();
	for (unsigned round = 0; round < 6; round++) {
		unsigned leaves = round % 2 ? FULL : SENDER;

		send_few();
		driver_close(d[leaves]);
		d[leaves] = rig_open(rig, leaves, leaves == FULL ? &small : NULL);
		pass(READY);
		take(FULL, UINT32_MAX);
		usleep(50000); /* longer than anything waits for a single receiver */
		take(FULL, UINT32_MAX);
		pass(FULL);
		pass(READY);
	}
	assert_int_equal(rig_dropped(rig, READY, "full"), 0);
	assert_int_equal(flow[READY].received, flow[READY].sent);
	close_all();
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		CASE(what_waits_does_not_hold_up_others),
		CASE(each_frame_comes_once_in_order_or_is_counted),
		CASE(who_leaves_leaves_the_others_alone),
	};

	return rig_run("several", tests, ARRAY_SIZE(tests), 0);
}
