// SPDX-License-Identifier: Apache-2.0
/* Who sends to a receiver without room: it stops, or goes on, and what is held keeps its place. */
#include "hold_rig.h"

#define TO_A 2u
#define TO_B 6u

static int set_up(void **state)
{
	if (rig_open())
		return -1;
	mac_learn(sw.macs, TO_A, a.port.index, 0);
	mac_learn(sw.macs, TO_B, b.port.index, 0);
	return 0;
}

static int tear_down(void **state)
{
	rig_close();
	return 0;
}

static void send_one(uint64_t dst, uint32_t number, uint64_t now)
{
	batch_begin(&batch);
	batch_add_short(&batch, dst, 4, number);
	switch_forward(&sw, &sender.queue, &batch, &calls, now);
}

/* Time and again. */
static void who_sends_to_one_stops_while_anything_is_held(void **state)
{
	uint64_t now = START;

	for (unsigned i = 0; i < 10; i++) {
		send_one(TO_A, i, now);
		assert_false(retry(now + LIMIT - 1));
		assert_true(sender.queue.full.stops);
		now += LIMIT;
		assert_true(retry(now));
		assert_false(sender.queue.full.stops);
	}
}

/* What is held keeps its place, also before what goes to everybody. */
static void who_sends_to_several_goes_on_and_overtakes_nothing(void **state)
{
	b.room = 100;
	for (unsigned i = 0; i < BATCH_FRAMES; i++) {
		send_one(TO_A, i, START);
		send_one(TO_B, i, START);
		assert_false(retry(START));
		assert_false(sender.queue.full.stops);
	}
	assert_int_equal(b.delivered, BATCH_FRAMES);
	assert_int_equal(a.calls, 1 + BATCH_FRAMES);
	a.room = 100;
	send_one(MAC_BROADCAST, 1000, START);
	send_one(TO_A, BATCH_FRAMES, START);
	assert_int_equal(a.delivered, 0);
	assert_int_equal(a.port.egress_dropped[DROP_FULL], 1);
	assert_int_equal(b.delivered, BATCH_FRAMES + 1);
	assert_true(retry(START));
	assert_int_equal(a.delivered, BATCH_FRAMES + 1);
	for (unsigned i = 0; i <= BATCH_FRAMES; i++)
		assert_int_equal(a.got[i], i);
	send_one(MAC_BROADCAST, 1001, START);
	assert_int_equal(a.got[BATCH_FRAMES + 1], 1001);
}

/* One guest that takes nothing, or little, must not slow those that send to it, and others. */
static void who_sends_to_several_stops_for_a_part_of_its_time_only(void **state)
{
	uint64_t now = START, stopped = 0;

	b.room = 1000000;
	for (unsigned i = 0; i < 10000; i++, now += PER_US) {
		uint64_t since = now;

		send_one(TO_B, i, now);
		for (unsigned k = 0; k < 8; k++)
			send_one(TO_A, i, now);
		retry(now);
		while (sender.queue.full.stops)
			retry(now += PER_US);
		stopped += now - since;
	}
	assert_int_equal(b.delivered, 10000);
	assert_true(stopped > 0);
	assert_in_range(stopped, 0, FULL_CREDIT_US * PER_US + (now - START) / FULL_SHARE);
	assert_int_equal(8 * 10000, hold_frames(&sender.queue) + a.port.egress_dropped[DROP_FULL]);
}

/* What was sent is numbered by receiver: it comes in order, and all is counted once. */
static void whatever_is_held_comes_once_or_is_counted_as_dropped(void **state)
{
	struct fake_port *dest[] = { &a, &b };
	uint32_t sent[2] = { 0, 0 }, seen[2] = { 0, 0 }, last[2] = { 0, 0 };
	unsigned seed = 5, most = 0;
	uint64_t now = START;

	for (unsigned turn = 0; turn < 20000; turn++) {
		a.room = (unsigned)rand_r(&seed) % 24;
		b.room = turn / 1000 % 2 ? 0 : (unsigned)rand_r(&seed) % 24;
		now += (uint64_t)rand_r(&seed) % (LIMIT / 8);
		retry(now);
		batch_begin(&batch);
		for (unsigned n = sender.queue.full.stops ? 0 : (unsigned)rand_r(&seed) % 33; n;
		     n--) {
			unsigned to = (unsigned)rand_r(&seed) % 2;

			batch_add_short(&batch, to ? TO_B : TO_A, 4, ++sent[to]);
		}
		switch_forward(&sw, &sender.queue, &batch, &calls, now);
		most = MAX(most, hold_frames(&sender.queue));
		for (unsigned to = 0; to < 2; to++) {
			for (; seen[to] < dest[to]->delivered; seen[to]++) {
				uint32_t number = dest[to]->got[seen[to] % FAKE_LOG];

				assert_in_range(number, last[to] + 1, sent[to]);
				last[to] = number;
			}
		}
	}
	retry(now + LIMIT);
	assert_true(hold_empty(&sender.queue));
	assert_in_range(most, BATCH_FRAMES + 1, FULL_BATCHES * BATCH_FRAMES);
	for (unsigned to = 0; to < 2; to++) {
		assert_int_equal(sent[to],
				 dest[to]->delivered + dest[to]->port.egress_dropped[DROP_FULL]);
		assert_true(dest[to]->delivered > 1000);
		assert_true(dest[to]->port.egress_dropped[DROP_FULL] > 1000);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(who_sends_to_one_stops_while_anything_is_held),
		TEST(who_sends_to_several_goes_on_and_overtakes_nothing),
		TEST(who_sends_to_several_stops_for_a_part_of_its_time_only),
		TEST(whatever_is_held_comes_once_or_is_counted_as_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
