// SPDX-License-Identifier: Apache-2.0
/* The learning switch, between ports that only count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake_port.h"
#include "policy/share.h"
#include "switch/hold.h"

#define PORTS	  6u
#define PER_US	  1u
#define MULTICAST 0x01005e000001u

static struct vswitch sw;
static struct virtq_calls calls;
static struct batch batch;
static uint64_t clock_now;
static struct fake_port ports[PORTS];

/* Host `i` behind `port`. */
static uint64_t host(unsigned port, unsigned i)
{
	return 0x020000000000u | port << 8 | i;
}

static int set_up(void **state)
{
	memset(&calls, 0, sizeof(calls));
	clock_now = 0;
	if (switch_init(&sw))
		return -1;
	sw.per_us = PER_US;
	for (unsigned i = 0; i < PORTS; i++) {
		fake_init(&ports[i]);
		snprintf(ports[i].port.name, sizeof(ports[i].port.name), "p%u", i);
		if (switch_add(&sw, &ports[i].port))
			return -1;
	}
	return 0;
}

static int tear_down(void **state)
{
	for (unsigned i = 0; i < PORTS; i++)
		free(ports[i].queue.hold);
	switch_destroy(&sw);
	return 0;
}

static void forward(unsigned from)
{
	switch_forward(&sw, &ports[from].queue, &batch, &calls, clock_now);
}

static void send_one(unsigned from, uint64_t dst, uint64_t src)
{
	batch_begin(&batch);
	batch_add_short(&batch, dst, src, 1);
	forward(from);
}

static void learn(unsigned port, uint64_t mac)
{
	unsigned before[PORTS];

	for (unsigned i = 0; i < PORTS; i++)
		before[i] = ports[i].delivered;
	send_one(port, MAC_BROADCAST, mac);
	for (unsigned i = 0; i < PORTS; i++) {
		ports[i].delivered = before[i];
		ports[i].calls = 0;
	}
}

static void expect_delivered(const unsigned *frames)
{
	for (unsigned i = 0; i < PORTS; i++)
		assert_int_equal(ports[i].delivered, frames[i]);
}

static void an_unknown_address_is_flooded_to_all_others_and_then_learned(void **state)
{
	send_one(0, host(1, 1), host(0, 1));
	expect_delivered((unsigned[]){ 0, 1, 1, 1, 1, 1 });
	send_one(1, host(0, 1), host(1, 1));
	expect_delivered((unsigned[]){ 1, 1, 1, 1, 1, 1 });
	send_one(0, host(1, 1), host(0, 1));
	expect_delivered((unsigned[]){ 1, 2, 1, 1, 1, 1 });
}

static void group_addresses_are_flooded_and_never_learned(void **state)
{
	send_one(0, MULTICAST, MULTICAST);
	send_one(1, MAC_BROADCAST, MAC_BROADCAST);
	expect_delivered((unsigned[]){ 1, 1, 2, 2, 2, 2 });
	assert_int_equal(mac_list(sw.macs, NULL, 0, 0), 0);
	send_one(2, MULTICAST, host(2, 1));
	expect_delivered((unsigned[]){ 2, 2, 2, 3, 3, 3 });
}

/* vrnetlab PR 505: LACP, LLDP and the like, which a bridge keeps to itself. */
static void addresses_reserved_for_bridges_are_flooded_too(void **state)
{
	for (unsigned i = 0; i < 16; i++)
		send_one(0, 0x0180c2000000 + i, host(0, 1));
	for (unsigned i = 1; i < 6; i++)
		assert_int_equal(ports[i].delivered, 16);
}

static void what_stays_behind_its_own_port_is_dropped_and_counted(void **state)
{
	learn(2, host(2, 1));
	learn(2, host(2, 2));
	send_one(2, host(2, 1), host(2, 2));
	expect_delivered((unsigned[]){ 0, 0, 0, 0, 0, 0 });
	assert_int_equal(ports[2].ingress_dropped[DROP_SAME_PORT], 1);
}

/* One whose guest is away is no destination of what goes to everybody, so nothing is lost there. */
static void a_port_that_cannot_receive_gets_no_copies(void **state)
{
	ports[1].port.receives = false;
	send_one(0, MAC_BROADCAST, host(0, 1));
	send_one(0, host(9, 9), host(0, 1));
	expect_delivered((unsigned[]){ 0, 0, 2, 2, 2, 2 });
	assert_int_equal(ports[1].calls, 0);
	learn(1, host(1, 1));
	send_one(0, host(1, 1), host(0, 1));
	assert_int_equal(ports[1].calls, 1);
}

/* Each copy but the first; a frame for a single receiver makes none. */
static void copies_of_a_flooded_frame_are_counted(void **state)
{
	learn(1, host(1, 1));
	batch_begin(&batch);
	batch_add_short(&batch, MAC_BROADCAST, host(0, 1), 1);
	batch_add_short(&batch, host(9, 9), host(0, 1), 2);
	batch_add_short(&batch, host(1, 1), host(0, 1), 3);
	forward(0);
	assert_int_equal(batch.flooded, 2 * (PORTS - 2) * SHARE_FRAME);
	send_one(0, host(1, 1), host(0, 1));
	assert_int_equal(batch.flooded, 0);
	ports[2].port.receives = ports[3].port.receives = false;
	send_one(0, MAC_BROADCAST, host(0, 1));
	assert_int_equal(batch.flooded, (PORTS - 4) * SHARE_FRAME);
}

static void a_lone_port_has_no_destination(void **state)
{
	for (unsigned i = 1; i < PORTS; i++)
		switch_del(&sw, &ports[i].port);
	batch_begin(&batch);
	batch_add_short(&batch, MAC_BROADCAST, host(0, 1), 1);
	batch_add_short(&batch, host(9, 9), host(0, 1), 2);
	batch_add_short(&batch, host(0, 1), host(0, 1), 3);
	forward(0);
	assert_int_equal(ports[0].ingress_dropped[DROP_NO_DESTINATION], 2);
	assert_int_equal(batch.flooded, 0);
	assert_int_equal(ports[0].ingress_dropped[DROP_SAME_PORT], 1);
}

static void an_empty_batch_goes_nowhere(void **state)
{
	batch_begin(&batch);
	forward(0);
	for (unsigned i = 0; i < PORTS; i++)
		assert_int_equal(ports[i].calls, 0);
}

static void each_destination_gets_its_frames_in_order_in_one_call(void **state)
{
	static const uint32_t expected[PORTS][16] = { { 0 },	      { 0, 2, 3, 6, 7 },
						      { 1, 2, 4, 6 }, { 2, 5, 6 },
						      { 2, 6 },	      { 2, 6 } };
	static const unsigned counts[PORTS] = { 0, 5, 4, 3, 2, 2 };

	for (unsigned i = 1; i < 4; i++)
		learn(i, host(i, 1));
	batch_begin(&batch);
	batch_add_short(&batch, host(1, 1), host(0, 1), 0);
	batch_add_short(&batch, host(2, 1), host(0, 1), 1);
	batch_add_short(&batch, MAC_BROADCAST, host(0, 1), 2);
	batch_add_short(&batch, host(1, 1), host(0, 1), 3);
	batch_add_short(&batch, host(2, 1), host(0, 1), 4);
	batch_add_short(&batch, host(3, 1), host(0, 1), 5);
	batch_add_short(&batch, host(9, 9), host(0, 1), 6); /* unknown */
	batch_add_short(&batch, host(1, 1), host(0, 1), 7);
	forward(0);
	for (unsigned i = 0; i < PORTS; i++) {
		assert_int_equal(ports[i].calls, i ? 1 : 0);
		assert_int_equal(ports[i].delivered, counts[i]);
		assert_memory_equal(ports[i].got, expected[i], counts[i] * sizeof(uint32_t));
	}
}

static void a_batch_may_have_as_many_destinations_as_frames(void **state)
{
	static struct fake_port more[BATCH_FRAMES];

	for (unsigned i = 0; i < BATCH_FRAMES; i++) {
		fake_init(&more[i]);
		assert_int_equal(switch_add(&sw, &more[i].port), 0);
		mac_learn(sw.macs, host(100, i), more[i].port.index, 0);
	}
	batch_begin(&batch);
	for (unsigned i = 0; i < BATCH_FRAMES; i++)
		batch_add_short(&batch, host(100, i), host(0, 1), i);
	forward(0);
	for (unsigned i = 0; i < BATCH_FRAMES; i++) {
		assert_int_equal(more[i].delivered, 1);
		assert_int_equal(more[i].got[0], i);
	}
	expect_delivered((unsigned[]){ 0, 0, 0, 0, 0, 0 });
}

static void an_address_whose_port_is_gone_is_unknown(void **state)
{
	learn(3, host(3, 1));
	switch_del(&sw, &ports[3].port);
	/* As a worker may do that was in the middle of a batch. */
	mac_learn(sw.macs, host(3, 1), 3, 0);
	send_one(0, host(3, 1), host(0, 1));
	expect_delivered((unsigned[]){ 0, 1, 1, 0, 1, 1 });
	/* The next port with that number does not inherit it. */
	assert_int_equal(switch_add(&sw, &ports[3].port), 0);
	assert_int_equal(ports[3].port.index, 3);
	assert_int_equal(mac_lookup(sw.macs, host(3, 1)), PORT_NONE);
}

static void a_removed_port_that_still_drains_is_not_learned_from(void **state)
{
	switch_del(&sw, &ports[3].port);
	send_one(3, MAC_BROADCAST, host(3, 1));
	expect_delivered((unsigned[]){ 1, 1, 1, 0, 1, 1 });
	assert_int_equal(mac_list(sw.macs, NULL, 0, 0), 0);
}

static void a_host_that_moves_is_followed(void **state)
{
	learn(1, host(1, 1));
	learn(2, host(1, 1));
	send_one(0, host(1, 1), host(0, 1));
	expect_delivered((unsigned[]){ 0, 0, 1, 0, 0, 0 });
	/* And back, though the first port's queue has learned it before: within a second. */
	switch_tick(&sw, 1);
	learn(1, host(1, 1));
	send_one(0, host(1, 1), host(0, 1));
	expect_delivered((unsigned[]){ 0, 1, 1, 0, 0, 0 });
}

static void who_sends_is_remembered_and_who_is_silent_forgotten(void **state)
{
	learn(1, host(1, 1));
	learn(2, host(2, 1));
	for (uint32_t now = 1; now < 2 * MAC_AGE_SECONDS; now++) {
		switch_tick(&sw, now);
		learn(1, host(1, 1));
	}
	assert_int_equal(mac_lookup(sw.macs, host(1, 1)), 1);
	assert_int_equal(mac_lookup(sw.macs, host(2, 1)), PORT_NONE);
}

static void a_full_receiver_holds_its_unicast_frames_and_loses_its_flooded_ones(void **state)
{
	learn(1, host(1, 1));
	ports[1].room = 1;
	batch_begin(&batch);
	batch_add_short(&batch, host(1, 1), host(0, 1), 0);
	batch_add_short(&batch, MAC_BROADCAST, host(0, 1), 1);
	batch_add_short(&batch, host(1, 1), host(0, 1), 2);
	batch_add_short(&batch, MAC_BROADCAST, host(0, 1), 3);
	forward(0);
	expect_delivered((unsigned[]){ 0, 1, 2, 2, 2, 2 });
	assert_int_equal(ports[1].port.egress_dropped[DROP_FULL], 2);
	assert_false(hold_empty(&ports[0].queue));
	ports[1].room = 10;
	assert_true(hold_retry(&sw, &ports[0].queue, &calls, clock_now + 1));
	assert_true(hold_empty(&ports[0].queue));
	assert_int_equal(ports[1].delivered, 2);
	assert_int_equal(ports[1].got[1], 2);
}

static void a_full_receiver_of_a_flood_is_counted_and_the_others_get_it(void **state)
{
	ports[2].room = 0;
	send_one(0, MAC_BROADCAST, host(0, 1));
	expect_delivered((unsigned[]){ 0, 1, 0, 1, 1, 1 });
	assert_int_equal(ports[2].port.egress_dropped[DROP_FULL], 1);
	assert_true(hold_empty(&ports[0].queue));
}

/* The same decisions by a slow table, for frames between three hosts behind each port. */
struct model {
	uint64_t addressed[PORTS], no_destination, same_port;
	unsigned behind[PORTS * 3]; /* port plus one; 0: not learned */
};

static void model_frame(struct model *m, unsigned from, unsigned dst, bool group)
{
	unsigned to = group ? 0 : m->behind[dst];

	if (to == from + 1) {
		m->same_port++;
		return;
	}
	for (unsigned i = 0; i < PORTS; i++) {
		if (i != from && (!to || to == i + 1))
			m->addressed[i]++;
	}
}

/* A random batch from `from`; hosts move between ports, but not within a batch. */
static void model_send(struct model *m, unsigned from, unsigned *seed)
{
	unsigned src = (unsigned)rand_r(seed) % (PORTS * 3), dst[BATCH_FRAMES];
	unsigned n = (unsigned)rand_r(seed) % (BATCH_FRAMES + 1);

	batch_begin(&batch);
	for (unsigned i = 0; i < n; i++) {
		dst[i] = (unsigned)rand_r(seed) % (PORTS * 3 + 2);
		batch_add_short(&batch, dst[i] < PORTS * 3 ? host(200, dst[i]) : MAC_BROADCAST,
				host(200, src), i);
	}
	if (n)
		m->behind[src] = from + 1;
	for (unsigned i = 0; i < n; i++)
		model_frame(m, from, dst[i], dst[i] >= PORTS * 3);
	forward(from);
}

static uint64_t sum_dropped(const struct fake_port *p)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < DROP_COUNT; i++)
		sum += p->port.egress_dropped[i];
	return sum;
}

static void every_copy_is_delivered_or_counted_as_dropped(void **state)
{
	uint64_t same_port = 0, dropped = 0, addressed = 0;
	struct model m = { 0 };
	unsigned seed = 7;

	for (uint32_t turn = 0; turn < 20000; turn++) {
		unsigned from = (unsigned)rand_r(&seed) % PORTS;
		struct port_queue *queue = &ports[from].queue;

		for (unsigned i = 0; i < PORTS; i++)
			ports[i].room = (unsigned)rand_r(&seed) % 64;
		clock_now += (uint64_t)rand_r(&seed) % (2 * FULL_HOLD_US * PER_US);
		hold_retry(&sw, queue, &calls, clock_now);
		if (!queue->full.stops)
			model_send(&m, from, &seed);
	}
	clock_now += (uint64_t)FULL_HOLD_US * PER_US;
	for (unsigned i = 0; i < PORTS; i++)
		hold_retry(&sw, &ports[i].queue, &calls, clock_now);
	for (unsigned i = 0; i < PORTS; i++) {
		assert_int_equal(m.addressed[i], ports[i].delivered + sum_dropped(&ports[i]));
		same_port += ports[i].ingress_dropped[DROP_SAME_PORT];
		dropped += sum_dropped(&ports[i]);
		addressed += m.addressed[i];
	}
	assert_int_equal(m.same_port, same_port);
	/* Both outcomes were there to be seen. */
	assert_in_range(dropped, addressed / 100, addressed / 2);
}

static void ports_get_the_lowest_free_number_and_a_serial_of_their_own(void **state)
{
	uint64_t serial = ports[2].port.serial;

	for (uint16_t i = 0; i < PORTS; i++)
		assert_int_equal(ports[i].port.index, i);
	assert_int_equal(sw.ports_end, PORTS);
	switch_del(&sw, &ports[2].port);
	assert_int_equal(sw.ports_end, PORTS);
	switch_del(&sw, &ports[5].port);
	switch_del(&sw, &ports[4].port);
	assert_int_equal(sw.ports_end, 4);
	assert_int_equal(switch_add(&sw, &ports[2].port), 0);
	assert_int_equal(ports[2].port.index, 2);
	assert_int_not_equal(ports[2].port.serial, serial);
}

static void a_port_is_found_by_its_name(void **state)
{
	assert_ptr_equal(switch_find(&sw, "p4"), &ports[4].port);
	assert_null(switch_find(&sw, "p9"));
	assert_null(switch_find(&sw, ""));
	switch_del(&sw, &ports[4].port);
	assert_null(switch_find(&sw, "p4"));
}

static void a_full_switch_takes_no_more_ports(void **state)
{
	static struct port many[PORTS_MAX];
	unsigned i = 0;

	while (i < PORTS_MAX - PORTS)
		assert_int_equal(switch_add(&sw, &many[i++]), 0);
	assert_int_equal(sw.ports_end, PORTS_MAX);
	assert_int_equal(switch_add(&sw, &many[i]), -ENOSPC);
	switch_del(&sw, &many[1000]);
	assert_int_equal(switch_add(&sw, &many[i]), 0);
	assert_int_equal(many[i].index, many[1000].index);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_unknown_address_is_flooded_to_all_others_and_then_learned),
		TEST(group_addresses_are_flooded_and_never_learned),
		TEST(addresses_reserved_for_bridges_are_flooded_too),
		TEST(what_stays_behind_its_own_port_is_dropped_and_counted),
		TEST(a_port_that_cannot_receive_gets_no_copies),
		TEST(copies_of_a_flooded_frame_are_counted),
		TEST(a_lone_port_has_no_destination),
		TEST(an_empty_batch_goes_nowhere),
		TEST(each_destination_gets_its_frames_in_order_in_one_call),
		TEST(a_batch_may_have_as_many_destinations_as_frames),
		TEST(an_address_whose_port_is_gone_is_unknown),
		TEST(a_removed_port_that_still_drains_is_not_learned_from),
		TEST(a_host_that_moves_is_followed),
		TEST(who_sends_is_remembered_and_who_is_silent_forgotten),
		TEST(a_full_receiver_holds_its_unicast_frames_and_loses_its_flooded_ones),
		TEST(a_full_receiver_of_a_flood_is_counted_and_the_others_get_it),
		TEST(every_copy_is_delivered_or_counted_as_dropped),
		TEST(ports_get_the_lowest_free_number_and_a_serial_of_their_own),
		TEST(a_port_is_found_by_its_name),
		TEST(a_full_switch_takes_no_more_ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
