// SPDX-License-Identifier: Apache-2.0
/*
 * What changes under a queue that sleeps, and under a worker that hangs: whoever believes that
 * nothing has changed loses frames, calls or the whole switch.
 */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "control/client.h"

#define IDLE_US 50000 /* by then the queue is armed and its worker asleep */
#define FLOWS	64u

/* ethtool -L: flows go to the pairs that are left. */
/* Clauses: 5.1.6.5.6b */
static void disabled_pairs_get_no_flows(void **state)
{
	struct driver_config four = { .pairs = 4 };
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, &four);
	struct driver_frame f;
	unsigned got = 0;
	struct error err;

	assert_passes(a, b);
	for (unsigned i = 2; i < 8; i++)
		assert_int_equal(driver_ring_enable(b, i, false, &err), 0);
	for (unsigned i = 0; i < FLOWS; i++) {
		uint8_t frame[100];

		frame_make(frame, sizeof(frame), 0, 1, i);
		frame_add_tcp(frame, sizeof(frame));
		frame[35] = (uint8_t)i; /* source port */
		assert_int_equal(driver_send(a, 0, NULL, frame, sizeof(frame), NULL), 0);
	}
	driver_flush(a, DRIVER_TX(0));
	for (unsigned i = 0; i < 1000 && got < FLOWS; i++) {
		uint8_t frame[2048];

		while (driver_receive(b, 0, frame, sizeof(frame), &f) == 1)
			got++;
		usleep(1000);
	}
	assert_int_equal(got, FLOWS);
	driver_close(a);
	driver_close(b);
}

/* Firmware, a kernel and a DPDK driver each negotiate; without an event index, kicks are off by
 * flag. */
/* Clauses: ring-states-i */
static void features_may_be_set_again_while_all_sleep(void **state)
{
	struct driver_config flags = { .features = driver_features_default() &
						   ~BIT(VIRTIO_RING_F_EVENT_IDX) };
	struct driver *a = rig_open(*state, 0, &flags), *b = rig_open(*state, 1, &flags);
	struct error err;

	assert_passes(a, b);
	usleep(IDLE_US);
	a->fe.features &= ~BIT(VIRTIO_NET_F_STATUS); /* another set, or it would be no restart */
	a->fe.features ^= BIT(VIRTIO_F_ANY_LAYOUT);
	assert_int_equal(frontend_set_features(&a->fe, &err), 0);
	usleep(IDLE_US);
	assert_passes(a, b);
	driver_close(a);
	driver_close(b);
}

static void a_base_may_be_set_while_all_sleep(void **state)
{
	struct driver_config flags = { .features = driver_features_default() &
						   ~BIT(VIRTIO_RING_F_EVENT_IDX) };
	struct driver *a = rig_open(*state, 0, &flags), *b = rig_open(*state, 1, &flags);
	struct vhost_user_vring_state base = { .index = DRIVER_TX(0) };
	struct error err;

	assert_passes(a, b);
	usleep(IDLE_US);
	ring_used(&a->ring[DRIVER_TX(0)], &base.num);
	assert_int_equal(frontend_set(&a->fe, VHOST_USER_SET_VRING_BASE, &base, sizeof(base), NULL,
				      0, &err),
			 0);
	usleep(IDLE_US);
	assert_passes(a, b);
	driver_close(a);
	driver_close(b);
}

/* QEMU sends another call descriptor at any time; what was published before is called once. */
/* Clauses: ring-states-i */
static void a_new_call_descriptor_is_called_while_all_sleep(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	int call = eventfd(0, EFD_CLOEXEC);
	struct pollfd poll_call = { .fd = call, .events = POLLIN };
	struct error err;

	assert_passes(a, b);
	usleep(IDLE_US);
	assert_int_equal(frontend_set_fd(&b->fe, VHOST_USER_SET_VRING_CALL, DRIVER_RX(0), call,
					 &err),
			 0);
	assert_int_equal(poll(&poll_call, 1, 1000), 1);
	close(call);
	driver_close(a);
	driver_close(b);
}

/* As a guest has it for a moment that starts its rings one by one, or that a queue is receive-only.
 */
static void a_pair_that_only_receives_is_called_too(void **state)
{
	static const unsigned started[] = { DRIVER_RX(0), DRIVER_TX(0), DRIVER_RX(1) };
	struct driver_config c = { .pairs = 2, .quirks = DRIVER_RINGS_LATER };
	struct driver *a = rig_open(*state, 0, &c);
	int call = eventfd(0, EFD_CLOEXEC);
	struct pollfd poll_call = { .fd = call, .events = POLLIN };
	struct error err;

	for (unsigned i = 0; i < ARRAY_SIZE(started); i++) {
		assert_int_equal(driver_ring_start(a, started[i], ring_base(a->ring), &err), 0);
		assert_int_equal(driver_ring_enable(a, started[i], true, &err), 0);
	}
	usleep(IDLE_US);
	assert_int_equal(frontend_set_fd(&a->fe, VHOST_USER_SET_VRING_CALL, DRIVER_RX(1), call,
					 &err),
			 0);
	assert_int_equal(poll(&poll_call, 1, 1000), 1);
	close(call);
	driver_close(a);
}

/* A guest's last frames: its queue is gone when there is room for them, and they are not lost. */
static void what_is_held_outlives_its_queue(void **state)
{
	struct driver_config none = { .quirks = DRIVER_NO_RX_BUFFERS };
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, &none);
	struct rig_counters n;
	uint8_t frame[2048];
	struct driver_frame f;
	unsigned got = 0;

	send_one(b, 1, 2, 60, 1);
	usleep(IDLE_US);
	for (unsigned i = 0; i < 20; i++) {
		frame_make(frame, 100, 0, 1, i);
		assert_int_equal(driver_send(a, 0, NULL, frame, 100, NULL), 0);
	}
	driver_flush(a, DRIVER_TX(0));
	assert_true(script_wait_idle(&a->ring[DRIVER_TX(0)], 1000));
	driver_close(a);
	driver_post(b, 0);
	for (unsigned i = 0; i < 1000; i++, usleep(1000)) {
		n = rig_counters(*state, 0, 1);
		while (driver_receive(b, 0, frame, sizeof(frame), &f) > 0)
			got++;
		if (n.sent == n.delivered + n.dropped && n.delivered == got)
			break;
	}
	/* Or their time was up, on a machine that was slow; but they are not forgotten. */
	assert_int_equal(n.sent, n.delivered + n.dropped);
	assert_int_equal(n.delivered, got);
	driver_close(b);
}

/* A ring that broke rests already when it is stopped; its worker must let go of it all the same. */
static void a_port_with_a_broken_ring_can_be_deleted(void **state)
{
	struct rig *rig = *state;
	struct driver_config no_kick = { .quirks = DRIVER_NO_KICK_FD };
	struct driver *a = rig_open(rig, 0, NULL), *b = rig_open(rig, 1, NULL);
	struct driver *c = rig_open(rig, 2, &no_kick);
	json_t *result;
	struct error err;

	script_avail_nonsense(&c->ring[DRIVER_TX(0)]);
	rig_wait_state(rig, 2, "broken");
	assert_int_equal(client_call(rig->control, "port.del", json_pack("{s:s}", "name", "p2"),
				     &result, &err),
			 0);
	json_decref(result);
	usleep(IDLE_US); /* a grace period and more */
	assert_passes(a, b);
	driver_close(c);
	driver_close(a);
	driver_close(b);
}

/* The watchdog's timer has stopped by then: the teardown sees whether the switch ends. */
static void the_switch_ends_while_a_call_blocks(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	struct driver_ring *rx = &b->ring[DRIVER_RX(0)];
	uint64_t full = UINT64_MAX - 1, read_off;

	assert_passes(a, b);
	if (read(rx->call, &read_off, sizeof(read_off)) < 0)
		assert_int_equal(errno, EAGAIN);
	assert_int_equal(write(rx->call, &full, sizeof(full)), sizeof(full));
	assert_int_equal(fcntl(rx->call, F_SETFL, 0), 0);
	ring_calls_on(rx);
	send_one(a, 0, 1, 60, 0);
	usleep(2000); /* it hangs; the watchdog would come after 100 ms */
	driver_close(a);
	driver_close(b);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		CASE(disabled_pairs_get_no_flows),
		CASE(features_may_be_set_again_while_all_sleep),
		CASE(a_new_call_descriptor_is_called_while_all_sleep),
		CASE(a_pair_that_only_receives_is_called_too),
		CASE(what_is_held_outlives_its_queue),
		CASE(the_switch_ends_while_a_call_blocks),
		CASE(a_base_may_be_set_while_all_sleep),
		CASE(a_port_with_a_broken_ring_can_be_deleted),
	};

	return rig_run("change", tests, ARRAY_SIZE(tests), 0);
}
