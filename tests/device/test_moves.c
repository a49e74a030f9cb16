// SPDX-License-Identifier: Apache-2.0
/*
 * A queue is moved to the other worker while frames go through it, and nothing happens to them.
 *
 * Two workers, and two guests that send to each other as fast as may be, both served by the same
 * worker: an idle one has come up between them. Frames are long and only their beginning is looked
 * at, so that it is the switch that has work to do.
 */
#include "harness.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/client.h"

#define FRAME_LEN  60000u
#define BUFFER	   60416u
#define WINDOW	   128u	  /* half of a ring: none is lost for want of buffers */
#define BEHIND	   10000u /* frames each way after the move */
#define LOOK_NS	   100000000u
#define PATIENCE_S 100

/* Frames from one guest to the other, numbered behind their Ethernet header. */
struct way {
	struct driver *from, *to;
	unsigned port; /* of the sender */
	uint32_t sent, received;
};

/* What the control socket says of a guest's tx queue. */
struct placed {
	int worker;
	unsigned moves;
};

static struct placed placed(struct rig *rig, unsigned port)
{
	struct placed ret = { -1, 0 };
	char name[4] = { 'p', (char)('0' + port) };
	json_t *answer, *row;
	struct error err;
	size_t i;

	assert_int_equal(client_call(rig->control, "show.queue", json_pack("{s:s}", "name", name),
				     &answer, &err),
			 0);
	json_array_foreach (json_object_get(answer, "queues"), i, row) {
		if (strcmp(json_string_value(json_object_get(row, "direction")), "tx") != 0)
			continue;
		ret.worker = (int)json_integer_value(json_object_get(row, "worker"));
		ret.moves = (unsigned)json_integer_value(json_object_get(row, "moves"));
	}
	json_decref(answer);
	return ret;
}

/* Puts all but the number into the sender's buffers. */
static void prepare(const struct way *w)
{
	const struct driver_pool *pool = &w->from->pool[DRIVER_TX(0)];

	for (unsigned i = 0; i < pool->n; i++) {
		memset(pool->free[i], 0, w->from->hdr_len);
		frame_make((uint8_t *)pool->free[i] + w->from->hdr_len, FRAME_LEN, w->port,
			   2 - w->port, 0);
	}
}

static void send(struct way *w)
{
	struct driver_pool *pool = &w->from->pool[DRIVER_TX(0)];
	uint32_t len = w->from->hdr_len + FRAME_LEN;

	driver_reclaim(w->from, 0);
	while (pool->n && w->sent - w->received < WINDOW) {
		uint8_t *buffer = pool->free[pool->n - 1];

		memcpy(buffer + w->from->hdr_len + FRAME_MIN, &w->sent, sizeof(w->sent));
		if (ring_add(&w->from->ring[DRIVER_TX(0)], &(struct driver_piece){ buffer, len }, 1,
			     0, false, buffer))
			break;
		pool->n--;
		w->sent++;
	}
	driver_flush(w->from, DRIVER_TX(0));
}

/* Each must be the next. */
static void receive(struct way *w)
{
	uint8_t got[FRAME_MIN + sizeof(uint32_t)];
	struct driver_frame f;
	int rc;

	while ((rc = driver_receive(w->to, 0, got, sizeof(got), &f)) == 1) {
		uint32_t number;

		memcpy(&number, got + FRAME_MIN, sizeof(number));
		assert_int_equal(number, w->received);
		assert_int_equal(f.len, FRAME_LEN);
		w->received++;
	}
	assert_int_equal(rc, 0);
}

static void exchange(struct way way[2])
{
	for (unsigned i = 0; i < 2; i++)
		send(&way[i]);
	for (unsigned i = 0; i < 2; i++)
		receive(&way[i]);
}

/* Until so many more have arrived each way. */
static void exchange_more(struct way way[2], uint32_t frames)
{
	uint32_t end[2] = { way[0].received + frames, way[1].received + frames };
	uint64_t begin = clock_ns();

	while (way[0].received < end[0] || way[1].received < end[1]) {
		exchange(way);
		assert_in_range((clock_ns() - begin) / 1000000000, 0, PATIENCE_S);
	}
}

static void a_busy_queue_moves_and_no_frame_is_lost_or_overtaken(void **state)
{
	struct rig *rig = *state;
	struct driver_config c = { .rx_buffer = BUFFER, .tx_buffer = BUFFER };
	struct driver *a = rig_open(rig, 0, &c), *idle = rig_open(rig, 1, NULL),
		      *b = rig_open(rig, 2, &c);
	struct way way[2] = { { a, b, 0, 0, 0 }, { b, a, 2, 0, 0 } };
	uint64_t begin = clock_ns(), looked = begin;
	struct placed at[2];
	uint32_t before;

	for (unsigned i = 0; i < 2; i++) {
		ring_calls_off(&way[i].from->ring[DRIVER_TX(0)]);
		ring_calls_off(&way[i].from->ring[DRIVER_RX(0)]);
		prepare(&way[i]);
		at[i] = placed(rig, way[i].port);
		assert_int_equal(at[i].moves, 0);
	}
	assert_int_equal(at[0].worker, at[1].worker);
	while (!at[0].moves && !at[1].moves) {
		exchange(way);
		if (clock_ns() - looked < LOOK_NS)
			continue;
		looked = clock_ns();
		for (unsigned i = 0; i < 2; i++)
			at[i] = placed(rig, way[i].port);
		assert_in_range((looked - begin) / 1000000000, 0, PATIENCE_S);
	}
	before = way[0].received;
	exchange_more(way, BEHIND);
	print_message("# moved after %u frames, and %u more\n", before, way[0].received - before);
	while (way[0].received != way[0].sent || way[1].received != way[1].sent)
		for (unsigned i = 0; i < 2; i++)
			receive(&way[i]);
	for (unsigned i = 0; i < 2; i++) {
		struct rig_counters n = rig_counters(rig, way[i].port, 2 - way[i].port);

		assert_int_equal(n.sent, way[i].sent);
		assert_int_equal(n.delivered, way[i].sent);
		assert_int_equal(n.dropped, 0);
		at[i] = placed(rig, way[i].port);
	}
	assert_int_not_equal(at[0].worker, at[1].worker);
	assert_null(driver_broken(a));
	assert_null(driver_broken(b));
	driver_close(a);
	driver_close(idle);
	driver_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_busy_queue_moves_and_no_frame_is_lost_or_overtaken, rig_setup,
			rig_teardown),
	};

	setenv("RINGWAY_WORKERS", "2", 1);
	return rig_run("moves", tests, ARRAY_SIZE(tests), 0);
}
