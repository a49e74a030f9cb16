// SPDX-License-Identifier: Apache-2.0
/* Holding frames back: what waits is private, bounded, in order, and ends. */
#include "hold_rig.h"

#include <stdio.h>
#include <sys/resource.h>

#include "policy/share.h"

#define MEMORY (FRAME_LEN_MAX + 256)

static uint8_t *memory; /* the sender's */

/* Read by the sanitizers, whose malloc else ends the program when there is no memory. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
	return "allocator_may_return_null=1";
}

static int set_up(void **state)
{
	memory = malloc(MEMORY);
	if (!memory || rig_open())
		return -1;
	for (unsigned i = 0; i < MEMORY; i++)
		memory[i] = (uint8_t)(i * 7 + i / 256);
	return 0;
}

static int tear_down(void **state)
{
	rig_close();
	free(memory);
	return 0;
}

static frame_set all(void)
{
	return (frame_set)((1ull << batch.n) - 1);
}

static void add_short(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		batch_add_short(&batch, 2, 4, batch.n);
}

static void hold(struct fake_port *dest, frame_set set)
{
	hold_add(&sender.queue, &dest->port, &batch, set, START);
}

static void a_held_frame_is_what_the_sender_had_when_it_was_held(void **state)
{
	static const uint32_t lengths[] = { 14 + 4, 60,	  115,	116,	      117,
					    118,    1514, 9014, FRAME_LEN_MAX };
	uint32_t hash[ARRAY_SIZE(lengths)];

	for (unsigned i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct frame *f = batch_add(&batch, 2, 4, i, lengths[i], memory + i, 1000 + i);

		f->hdr.gso_size = (uint16_t)i;
		hash[i] = fake_hash(&batch, f);
	}
	hold(&a, all());
	memset(memory, 0xee, MEMORY);
	memset(&batch, 0xee, sizeof(batch));
	a.room = 100;
	assert_true(retry(START));
	assert_int_equal(a.delivered, ARRAY_SIZE(lengths));
	for (unsigned i = 0; i < ARRAY_SIZE(lengths); i++) {
		assert_int_equal(a.got[i], i);
		assert_int_equal(a.hash[i], hash[i]);
	}
}

static struct virtio_net_hdr seen;

static frame_set see_header(struct port *port, struct batch *held, frame_set set,
			    struct virtq_calls *c)
{
	seen = held->frame[0].hdr;
	return 0;
}

static void a_held_frame_keeps_its_header(void **state)
{
	const struct port_ops ops = { .egress = see_header };
	const struct virtio_net_hdr hdr = { .flags = 1,
					    .gso_type = 4,
					    .hdr_len = 54,
					    .gso_size = 9,
					    .csum_start = 34,
					    .csum_offset = 16 };

	batch_add(&batch, 2, 4, 0, 1514, memory, 2000)->hdr = hdr;
	hold(&a, 1);
	a.port.ops = &ops;
	retry(START);
	assert_memory_equal(&seen, &hdr, sizeof(hdr));
}

static void frames_come_out_in_the_order_they_went_in(void **state)
{
	add_short(32);
	hold(&a, 0x0f0f0f0f);
	hold(&b, 0xf0f0f0f0);
	for (unsigned turn = 0; turn < 100 && !hold_empty(&sender.queue); turn++) {
		a.room = turn % 3;
		b.room = turn % 4;
		retry(START);
	}
	assert_int_equal(a.delivered, 16);
	assert_int_equal(b.delivered, 16);
	for (unsigned i = 0; i < 16; i++) {
		assert_int_equal(a.got[i], i / 4 * 8 + i % 4);
		assert_int_equal(b.got[i], i / 4 * 8 + i % 4 + 4);
	}
}

static void a_receiver_that_is_full_does_not_hold_up_another(void **state)
{
	add_short(4);
	hold(&a, 0x3);
	hold(&b, 0xc);
	b.room = 10;
	assert_true(retry(START));
	assert_int_equal(b.delivered, 2);
	assert_false(hold_empty(&sender.queue));
	assert_false(retry(START));
	a.room = 10;
	assert_true(retry(START));
	assert_int_equal(a.delivered, 2);
	assert_int_equal(b.delivered, 2);
	assert_true(hold_empty(&sender.queue));
}

static void a_retry_visits_each_receiver_once(void **state)
{
	add_short(32);
	hold(&a, 0x55555555);
	hold(&b, 0xaaaaaaaa);
	retry(START);
	assert_int_equal(a.calls, 1);
	assert_int_equal(b.calls, 1);
}

static void what_waited_too_long_is_dropped_and_counted(void **state)
{
	add_short(5);
	assert_int_equal(hold_frames(&sender.queue), 0);
	hold(&a, 0x1f);
	assert_int_equal(hold_frames(&sender.queue), 5);
	a.room = 2;
	assert_true(retry(START + 1));
	assert_false(retry(START + LIMIT));
	assert_false(hold_empty(&sender.queue));
	assert_int_equal(hold_frames(&sender.queue), 3);
	assert_int_equal(a.port.egress_dropped[DROP_FULL], 0);
	a.room = 1; /* the last chance counts */
	assert_true(retry(START + 1 + LIMIT));
	assert_true(hold_empty(&sender.queue));
	assert_int_equal(a.delivered, 3);
	assert_int_equal(a.port.egress_dropped[DROP_FULL], 2);
}

static unsigned segments_seen;

/* Takes one segment of the first frame each time that it is asked and has room. */
static frame_set take_segment(struct port *port, struct batch *held, frame_set set,
			      struct virtq_calls *c)
{
	struct fake_port *p = container_of(port, struct fake_port, port);

	segments_seen = held->frame[0].segments;
	if (p->room) {
		p->room--;
		held->segments++;
		held->frame[0].segments++;
	}
	return set;
}

static const struct port_ops segment_ops = { .egress = take_segment };

static void a_frame_goes_on_where_it_was_left_off(void **state)
{
	a.port.ops = &segment_ops;
	add_short(2);
	batch.frame[0].segments = 3;
	hold(&a, 1);
	hold(&b, 2);
	assert_int_equal(batch.frame[0].segments, 0); /* others get all of it */
	for (unsigned i = 0; i < 3; i++) {
		assert_false(retry(START));
		assert_int_equal(segments_seen, 3 + i);
		a.room = 1;
		assert_true(retry(START));
		assert_int_equal(segments_seen, 3 + i);
		assert_int_equal(sender.queue.debt, (i + 1) * SHARE_SEGMENT); /* each once */
	}
	assert_int_equal(hold_frames(&sender.queue), 2);
}

/* Nor do others when it is dropped. */
static void what_is_not_held_begins_anew_elsewhere(void **state)
{
	add_short(BATCH_FRAMES);
	batch.frame[3].segments = batch.frame[4].segments = 3;
	hold_none(&a.port, &batch, 1u << 3);
	assert_int_equal(batch.frame[3].segments, 0);
	assert_int_equal(a.port.egress_dropped[DROP_FULL], 1);
	for (unsigned i = 0; i < FULL_BATCHES; i++)
		hold(&b, ~0u);
	batch.frame[4].segments = 3;
	hold(&a, 1u << 4);
	assert_int_equal(batch.frame[4].segments, 0);
	assert_int_equal(a.port.egress_dropped[DROP_FULL], 2);
}

/* One segment before each time is up; `several`: its sender has others to send to. */
static uint64_t wait_for_slow(bool several)
{
	uint64_t now = START;

	a.port.ops = &segment_ops;
	sender.queue.full.several_till = several ? UINT64_MAX : 0;
	add_short(1);
	hold(&a, 1);
	while (!hold_empty(&sender.queue)) {
		a.room = 1;
		now += LIMIT / 2;
		retry(now);
	}
	assert_int_equal(a.port.egress_dropped[DROP_FULL], 1);
	return now - START;
}

static void who_takes_something_is_waited_for_longer(void **state)
{
	assert_int_equal(wait_for_slow(false), (uint64_t)FULL_MOVING_US * PER_US);
}

static void but_not_if_others_need_the_place(void **state)
{
	assert_int_equal(wait_for_slow(true), LIMIT);
}

/* Each has its own time, though they are held together. */
static void who_came_later_waits_longer(void **state)
{
	add_short(4);
	for (unsigned i = 0; i < 4; i++)
		hold_add(&sender.queue, &a.port, &batch, 1u << i, START + i);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(hold_frames(&sender.queue), 4 - i);
		assert_true(retry(START + i + LIMIT));
		assert_int_equal(a.port.egress_dropped[DROP_FULL], i + 1);
	}
	assert_true(hold_empty(&sender.queue));
}

static void time_begins_anew_with_the_next_batch(void **state)
{
	add_short(1);
	hold(&a, 1);
	assert_true(retry(START + LIMIT));
	hold_add(&sender.queue, &a.port, &batch, 1, START + LIMIT);
	assert_false(retry(START + LIMIT + LIMIT - 1));
	assert_true(retry(START + LIMIT + LIMIT));
	assert_int_equal(a.port.egress_dropped[DROP_FULL], 2);
}

static void a_clock_that_steps_back_gives_nothing_up(void **state)
{
	add_short(1);
	hold(&a, 1);
	assert_false(retry(0));
	assert_false(hold_empty(&sender.queue));
}

static void frames_for_a_port_that_is_gone_are_forgotten(void **state)
{
	add_short(2);
	hold(&a, 0x1);
	hold(&b, 0x2);
	switch_del(&sw, &a.port);
	assert_true(retry(START));
	assert_int_equal(a.calls, 0);
	assert_int_equal(b.calls, 1);
	b.room = 1;
	retry(START);
	assert_true(hold_empty(&sender.queue));
}

static void they_do_not_go_to_another_in_the_same_place(void **state)
{
	uint16_t index = a.port.index;

	add_short(1);
	hold(&a, 1);
	switch_del(&sw, &a.port);
	/* The same number, and the same memory. */
	fake_init(&a);
	assert_int_equal(switch_add(&sw, &a.port), 0);
	assert_int_equal(a.port.index, index);
	retry(START);
	assert_int_equal(a.calls, 0);
	assert_true(hold_empty(&sender.queue));
}

static void the_longest_batch_fits(void **state)
{
	unsigned delivered = 0;

	/* Again and again: what is empty starts at the beginning. */
	for (unsigned turn = 0; turn < 3; turn++) {
		batch_begin(&batch);
		while (batch.bytes < BATCH_BYTES)
			batch_add(&batch, 2, 4, batch.n, batch.n < 5 ? 9300 : FRAME_LEN_MAX,
				  memory + batch.n, 4096);
		assert_true(batch.bytes > BATCH_BYTES + FRAME_LEN_MAX / 2);
		hold(&a, all());
		assert_int_equal(a.port.egress_dropped[DROP_NO_MEMORY], 0);
		a.room = BATCH_FRAMES;
		retry(START);
		delivered += batch.n;
		assert_int_equal(a.delivered, delivered);
		for (unsigned i = 0; i < batch.n; i++)
			assert_int_equal(a.hash[i], fake_hash(&batch, &batch.frame[i]));
	}
}

/* Of frames that are large there is room for fewer. */
static void more_bytes_than_two_batches_are_not_held(void **state)
{
	while (batch.bytes < BATCH_BYTES)
		batch_add(&batch, 2, 4, batch.n, FRAME_LEN_MAX, memory + batch.n, 4096);
	for (unsigned i = 0; i < FULL_BATCHES; i++)
		hold(&a, all());
	hold(&b, all());
	assert_int_equal(b.port.egress_dropped[DROP_FULL], batch.n);
	a.room = b.room = BATCH_FRAMES;
	retry(START);
	assert_int_equal(a.delivered, FULL_BATCHES * batch.n);
	assert_int_equal(b.delivered, 0);
	for (unsigned i = 0; i < a.delivered; i++)
		assert_int_equal(a.hash[i], fake_hash(&batch, &batch.frame[i % batch.n]));
}

static void more_than_two_batches_are_not_held(void **state)
{
	add_short(32);
	for (unsigned i = 0; i < FULL_BATCHES; i++)
		hold(&a, ~0u);
	assert_int_equal(hold_frames(&sender.queue), FULL_BATCHES * 32);
	hold(&b, 0x7);
	assert_int_equal(b.port.egress_dropped[DROP_FULL], 3);
	a.room = b.room = 100;
	retry(START);
	assert_int_equal(a.delivered, FULL_BATCHES * 32);
	assert_int_equal(b.delivered, 0);
}

/* A batch, less one frame, and then any other. */
static void who_holds_less_than_a_batch_has_room_for_one(void **state)
{
	add_short(32);
	hold(&a, ~0u >> 1);
	hold(&b, ~0u);
	assert_int_equal(hold_frames(&sender.queue), 63);
	a.room = b.room = 100;
	retry(START);
	assert_int_equal(a.delivered, 31);
	assert_int_equal(b.delivered, 32);
	for (unsigned i = 0; i < 32; i++)
		assert_int_equal(b.got[i], i);
}

/* Neither while the older batch's wait for the same port, nor by what is given up before. */
static void the_newer_batch_does_not_overtake_the_older(void **state)
{
	sender.queue.full.several_till = UINT64_MAX;
	add_short(32);
	hold(&a, ~0u);
	batch_begin(&batch);
	for (unsigned i = 0; i < 16; i++)
		batch_add_short(&batch, 2, 4, 32 + i);
	hold_add(&sender.queue, &a.port, &batch, 0xffff, START + 1);
	for (unsigned n = 0; n < 30; n += 5) {
		a.room = 5;
		assert_true(retry(START + 1));
		assert_int_equal(a.delivered, n + 5);
		assert_int_equal(a.calls, n / 5 + 1); /* the others are not even tried */
	}
	assert_true(retry(START + LIMIT)); /* 30 and 31 are late */
	assert_int_equal(a.port.egress_dropped[DROP_FULL], 2);
	a.room = 100;
	assert_true(retry(START + LIMIT));
	assert_int_equal(a.delivered, 46);
	for (unsigned i = 0; i < 46; i++)
		assert_int_equal(a.got[i], i < 30 ? i : i + 2);
}

/* Lets the process grow by 64 KiB, less than a hold takes; returns the limit that was. */
static struct rlimit limit_memory(void)
{
	struct rlimit before, tight;
	unsigned long pages = 0;
	FILE *statm = fopen("/proc/self/statm", "r");

	assert_non_null(statm);
	assert_int_equal(fscanf(statm, "%lu", &pages), 1);
	fclose(statm);
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	tight = before;
	tight.rlim_cur = pages * 4096 + (1u << 16);
	assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
	return before;
}

/* The first of the tests: later there may be a block that was freed. */
static void without_memory_frames_are_dropped_and_counted(void **state)
{
	struct rlimit before;

	add_short(3);
	before = limit_memory();
	hold(&a, 0x7);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_int_equal(a.port.egress_dropped[DROP_NO_MEMORY], 3);
	assert_true(hold_empty(&sender.queue));
	assert_false(retry(START));
	hold(&a, 0x7);
	assert_false(hold_empty(&sender.queue));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(without_memory_frames_are_dropped_and_counted),
		TEST(a_held_frame_is_what_the_sender_had_when_it_was_held),
		TEST(a_held_frame_keeps_its_header),
		TEST(frames_come_out_in_the_order_they_went_in),
		TEST(a_receiver_that_is_full_does_not_hold_up_another),
		TEST(a_retry_visits_each_receiver_once),
		TEST(what_waited_too_long_is_dropped_and_counted),
		TEST(a_frame_goes_on_where_it_was_left_off),
		TEST(what_is_not_held_begins_anew_elsewhere),
		TEST(who_takes_something_is_waited_for_longer),
		TEST(but_not_if_others_need_the_place),
		TEST(who_came_later_waits_longer),
		TEST(time_begins_anew_with_the_next_batch),
		TEST(a_clock_that_steps_back_gives_nothing_up),
		TEST(frames_for_a_port_that_is_gone_are_forgotten),
		TEST(they_do_not_go_to_another_in_the_same_place),
		TEST(the_longest_batch_fits),
		TEST(more_than_two_batches_are_not_held),
		TEST(more_bytes_than_two_batches_are_not_held),
		TEST(who_holds_less_than_a_batch_has_room_for_one),
		TEST(the_newer_batch_does_not_overtake_the_older),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
