// SPDX-License-Identifier: Apache-2.0
/* How much a front-end may say, and leave unread, before it waits or its session ends. */
#include "session_rig.h"

#include "base/clock.h"

struct rig *rig;

static void a_burst_is_answered_in_order_and_others_get_their_turn(void **state)
{
	struct rig_reply reply;
	unsigned n = 0;

	rig_handshake();
	for (uint32_t i = 0; i < 200; i++) {
		struct vhost_user_vring_state s = { i, 0 };

		rig_send_flags(VHOST_USER_GET_VRING_BASE, VHOST_USER_VERSION, &s, sizeof(s), NULL,
			       0);
	}
	uv_run(&rig->loop, UV_RUN_NOWAIT);
	while (rig_reply(&reply))
		assert_int_equal(reply.payload.state.index, n++);
	assert_true(n > 0 && n < 200);
	for (unsigned i = 0; i < 8; i++)
		uv_run(&rig->loop, UV_RUN_NOWAIT);
	while (rig_reply(&reply))
		assert_int_equal(reply.payload.state.index, n++);
	assert_int_equal(n, 200);
}

static void replies_that_nobody_reads_end_the_session(void **state)
{
	unsigned i;

	rig_handshake();
	for (i = 0; i < 100000 && rig_alive(); i++) {
		rig_send_flags(VHOST_USER_GET_FEATURES, VHOST_USER_VERSION, NULL, 0, NULL, 0);
		uv_run(&rig->loop, UV_RUN_NOWAIT);
	}
	assert_false(rig_alive());
	assert_non_null(strstr(rig->reason, "does not read"));
	assert_true(i < 10000);
}

/* Asks for more than the socket holds, and less than the session's own bound; returns how often. */
static unsigned ask_and_leave_unread(void)
{
	unsigned n = 0;

	rig_handshake();
	for (; n < 300; n++) {
		rig_send_flags(VHOST_USER_GET_FEATURES, VHOST_USER_VERSION, NULL, 0, NULL, 0);
		uv_run(&rig->loop, UV_RUN_NOWAIT);
	}
	assert_true(rig_alive());
	return n;
}

static void replies_read_late_arrive_all(void **state)
{
	unsigned n = ask_and_leave_unread(), room = 0;
	struct rig_reply reply;

	while (rig_reply(&reply) || (rig_turn(), rig_reply(&reply)))
		room++;
	assert_int_equal(room, n);
}

static void who_reads_late_and_goes_has_come_to_a_clean_end(void **state)
{
	struct rig_reply reply;
	unsigned room = 0, n = ask_and_leave_unread();

	while (rig_reply(&reply))
		room++;
	assert_in_range(room, 1, n - 1);
	close(rig->fd);
	rig->fd = -1;
	rig_turn();
	assert_int_equal(rig->ended, 1);
	assert_string_equal(rig->reason, "");
}

static void ask_twice(void)
{
	static const struct vhost_user_header ask = { VHOST_USER_GET_FEATURES, VHOST_USER_VERSION,
						      0 };

	for (unsigned i = 0; i < 2; i++) {
		rig_send_raw(&ask, sizeof(ask), NULL, 0);
		rig_turn();
	}
}

/* Whoever used the port's allowance up, this session or the one before it, waits; a limit of 0 is
 * none. */
static void who_sends_too_much_is_served_later(void **state)
{
	struct rig_reply reply;
	uint64_t used_up = clock_ns() + 8100 * 1000000ull, end;

	rig_connect();
	rig->dev.options.messages_max = 1000;
	rig->dev.messages.paid_until = used_up;
	assert_int_equal(rig_logged(ask_twice, "warn"), 1);
	assert_false(rig_reply(&reply));
	rig_connect();
	ask_twice();
	assert_false(rig_reply(&reply));
	assert_true(rig_alive());

	for (end = clock_ns() + 10000000000u; !rig_reply(&reply) && clock_ns() < end;)
		uv_run(&rig->loop, UV_RUN_ONCE);
	assert_true(clock_ns() + 8000000000u >= used_up);
	assert_int_equal(reply.header.request, VHOST_USER_GET_FEATURES);
	assert_true(rig_alive());

	rig->dev.options.messages_max = 1; /* a flood of connections: no debt is without end */
	for (unsigned i = 0; i < 20; i++)
		rig_connect();
	assert_in_range(rig->dev.messages.paid_until, 0, clock_ns() + 9000000000u);

	rig_connect();
	rig->dev.options.messages_max = 0;
	rig->dev.messages.paid_until = clock_ns() + 100000000000u;
	ask_twice();
	assert_true(rig_reply(&reply));
}

/* What it asked for before is not part of what it waits for. */
static void who_waits_may_read_meanwhile(void **state)
{
	unsigned n = ask_and_leave_unread(), room = 0;
	struct rig_reply reply;

	rig->dev.options.messages_max = 1000;
	rig->dev.messages.paid_until = clock_ns() + 100000000000u;
	ask_twice();
	while (rig_reply(&reply) || (rig_turn(), rig_reply(&reply)))
		room++;
	assert_int_equal(room, n);
	assert_true(rig_alive());
}

static void a_burst_as_of_any_front_end_is_served_at_once(void **state)
{
	struct rig_reply reply;

	rig_connect();
	rig->dev.options.messages_max = 1000;
	for (unsigned i = 0; i < 1000; i++) {
		ask_twice();
		assert_true(rig_reply(&reply));
		assert_true(rig_reply(&reply));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_open, rig_close)
		T(a_burst_is_answered_in_order_and_others_get_their_turn),
		T(replies_that_nobody_reads_end_the_session),
		T(replies_read_late_arrive_all),
		T(who_reads_late_and_goes_has_come_to_a_clean_end),
		T(who_waits_may_read_meanwhile),
		T(who_sends_too_much_is_served_later),
		T(a_burst_as_of_any_front_end_is_served_at_once),
#undef T
	};

	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
