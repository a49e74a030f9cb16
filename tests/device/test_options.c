// SPDX-License-Identifier: Apache-2.0
/* Options of vhost-user ports, changed while the switch runs, and what guests and people get. */
#include "unlike.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "control/client.h"

#define WAIT_MS 5000

static char pending[128]; /* what the last port.set said */

static int try_set(struct rig *rig, unsigned port, const char *key, const char *value,
		   struct error *err)
{
	json_t *params, *result;
	char name[8];
	int r;

	snprintf(name, sizeof(name), "p%u", port);
	params = json_pack("{s:s, s:{s:s}}", "name", name, "options", key, value);
	r = client_call(rig->control, "port.set", params, &result, err);
	if (!r) {
		const char *text = json_string_value(json_object_get(result, "pending"));

		snprintf(pending, sizeof(pending), "%s", text ? text : "not said");
		json_decref(result);
	}
	return r;
}

static void set(struct rig *rig, unsigned port, const char *key, const char *value)
{
	struct error err = { "" };

	if (try_set(rig, port, key, value, &err))
		fail_msg("port set %s=%s: %s", key, value, err.text);
}

static void assert_shown(struct rig *rig, unsigned port, const char *key, const char *part)
{
	struct error err;
	json_t *answer, *row;
	const char *text;

	assert_int_equal(client_call(rig->control, "show.port", NULL, &answer, &err), 0);
	row = json_array_get(json_object_get(answer, "ports"), port);
	text = json_string_value(json_object_get(row, key));
	if (!text || !strstr(text, part))
		fail_msg("%s of port %u is '%s', without '%s'", key, port, text ? text : "", part);
	json_decref(answer);
}

/* A front-end that is connected has told its guest what is offered, and may agree to it again. */
static void features_are_taken_from_the_next_front_end(void **state)
{
	const uint64_t gone = BIT(VIRTIO_NET_F_CSUM) | BIT(VIRTIO_NET_F_HOST_TSO4) |
			      BIT(VIRTIO_NET_F_HOST_TSO6) | BIT(VIRTIO_NET_F_HOST_ECN) |
			      BIT(VIRTIO_NET_F_HOST_USO) | BIT(VIRTIO_NET_F_MQ);
	struct unlike d[2];
	struct error err;
	uint64_t all;

	unlike_open(*state, 0, UNLIKE_ALL, NULL, &d[0]);
	unlike_open(*state, 1, UNLIKE_ALL, NULL, &d[1]);
	all = d[0].d->fe.offered;
	assert_int_equal(all & gone, gone);
	set(*state, 0, "features", "-csum,-mq");
	assert_shown(*state, 0, "options", "features=-csum,-mq");
	assert_non_null(strstr(pending, "features= counts"));
	assert_shown(*state, 0, "pending", pending);
	assert_int_equal(frontend_set_features(&d[0].d->fe, &err), 0);
	assert_passes(d[0].d, d[1].d);
	driver_close(d[0].d);
	unlike_open(*state, 0, 0, NULL, &d[0]);
	assert_int_equal(d[0].d->fe.offered, all & ~gone);
	set(*state, 0, "mtu", "0");
	assert_string_equal(pending, "");
	assert_passes(d[0].d, d[1].d);
	driver_close(d[0].d);
	set(*state, 0, "features", "");
	unlike_open(*state, 0, UNLIKE_ALL, NULL, &d[0]);
	assert_int_equal(d[0].d->fe.offered, all);
	driver_close(d[0].d);
	driver_close(d[1].d);
}

static void bad_values_are_refused_with_what_is_good_and_change_nothing(void **state)
{
	static const struct {
		const char *key, *value, *remedy;
	} rows[] = {
		{ "features", "-frob", "guest_csum" },
		{ "features", "csum", "-csum" },
		{ "features", "-csum,", "event_idx" },
		{ "features", "-version_1", "is none of" },
		{ "queue-size-max", "0", "2 to 32768" },
		{ "queue-size-max", "32769", "2 to 32768" },
		{ "queue-size-max", "+5", "2 to 32768" },
		{ "finish-csum", "yes", "on or off" },
		{ "memory-max", "0", "1 to 4096" },
		{ "memory-max", "4097", "1 to 4096" },
		{ "messages-max", "1000001", "0 to 1000000" },
		{ "messages-max", "99", "100 to 1000000, or 0" },
		{ "log-max", "1001", "0 to 1000" },
		{ "log-max", "-1", "0 to 1000" },
		{ "mtu", "67", "68 to 65535, or 0" },
		{ "mtu", "65536", "68 to 65535, or 0" },
		{ "mtu", " 1500", "68 to 65535, or 0" },
		{ "listen", "/x", "add it again" },
	};

	set(*state, 0, "mtu", "1400");
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct error err = { "" };

		assert_int_not_equal(try_set(*state, 0, rows[i].key, rows[i].value, &err), 0);
		if (!strstr(err.text, rows[i].remedy))
			fail_msg("%s=%s: %s", rows[i].key, rows[i].value, err.text);
	}
	assert_shown(*state, 0, "options", "mtu=1400");
}

static void *toggle(void *arg)
{
	for (unsigned i = 0; i < 100; i++)
		set(arg, 1, "finish-csum", i % 2 ? "off" : "on");
	return NULL;
}

static void options_lose_nothing_when_they_change(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	struct stream s = { .from = a, .to = b, .count = 50000 };
	pthread_t thread;

	assert_passes(a, b);
	pthread_create(&thread, NULL, toggle, *state);
	stream_run(&s);
	pthread_join(thread, NULL);
	driver_close(a);
	driver_close(b);
}

/* A driver waits for its chains, also of a queue that it has disabled. */
static void a_disabled_queue_drains_whatever_changes(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	struct error err;

	assert_passes(a, b);
	assert_int_equal(driver_ring_enable(a, DRIVER_TX(0), false, &err), 0);
	set(*state, 0, "finish-csum", "on");
	a->fe.features &= ~BIT(VIRTIO_NET_F_STATUS); /* another set, or it would be no restart */
	a->fe.features ^= BIT(VIRTIO_F_ANY_LAYOUT);
	assert_int_equal(frontend_set_features(&a->fe, &err), 0);
	send_one(a, 0, 1, 60, 1);
	assert_true(script_wait_idle(&a->ring[DRIVER_TX(0)], WAIT_MS));
	rig_assert_dropped(*state, 0, "queue_disabled", 1);
	driver_close(a);
	driver_close(b);
}

static void rings_larger_than_allowed_stay_down_and_say_so(void **state)
{
	/* Without answers, as QEMU asks for none. */
	struct driver_config large = { .ring_size = 256,
				       .protocol = BIT(VHOST_USER_PROTOCOL_F_MQ) };
	struct driver_config small = { .ring_size = 128 };
	struct driver *a, *b = rig_open(*state, 1, &large);

	set(*state, 0, "queue-size-max", "128");
	a = rig_open(*state, 0, &large);
	rig_wait_state(*state, 0, "agreed");
	assert_shown(*state, 0, "reason", "256 is more than queue-size-max=128");
	/* The front-end knows nothing of it, so what it has said becomes true. */
	set(*state, 0, "queue-size-max", "256");
	rig_wait_state(*state, 0, "up");
	assert_passes(a, b);
	driver_close(a);
	set(*state, 0, "queue-size-max", "128");
	a = rig_open(*state, 0, &small);
	rig_wait_state(*state, 0, "up");
	assert_passes(a, b);
	driver_close(a);
	driver_close(b);
}

static void a_limit_can_be_taken_away(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);

	set(*state, 1, "mtu", "1000");
	send_one(a, 0, 1, 1100, 1);
	rig_assert_dropped(*state, 1, "too_big", 1);
	set(*state, 1, "mtu", "0");
	send_one(a, 0, 1, 1100, 2);
	assert_true(receive_one(b, 0, 1, 1100, 2, WAIT_MS));
	driver_close(a);
	driver_close(b);
}

/* As if the guest had not agreed to GUEST_CSUM: the same for each form of each packet. */
static void finish_csum_leaves_no_checksum_to_the_guest(void **state)
{
	struct unlike_tally tally = { .sent = 0 };
	char wrong[UNLIKE_TEXT];
	struct unlike d[2];

	unlike_open(*state, 0, UNLIKE_ALL, NULL, &d[0]);
	unlike_open(*state, 1, UNLIKE_ALL, NULL, &d[1]);
	assert_passes(d[0].d, d[1].d);
	for (unsigned on = 0; on < 4; on++) { /* a ring that runs takes it over */
		set(*state, 1, "finish-csum", on % 2 ? "on" : "off");
		d[1].set = on % 2 ? UNLIKE_ALL & ~UNLIKE_GUEST_CSUM : UNLIKE_ALL;
		if (!unlike_run(*state, &d[0], &d[1], true, &tally, wrong))
			fail_msg("finish-csum=%s: %s", on % 2 ? "on" : "off", wrong);
	}
	driver_close(d[0].d);
	driver_close(d[1].d);
}

/* dhclient and others sum up what they read from a raw socket, whatever their kernel agreed to. */
static void dhcp_has_its_checksum_finished_for_everybody(void **state)
{
	static const struct {
		uint16_t port;
		bool v6, raw;
	} rows[] = {
		{ 67, false, true }, { 68, false, true },  { 546, true, true },
		{ 547, true, true }, { 69, false, false }, { 53, true, false },
	};
	static struct unlike_packet p;
	static uint8_t got[FRAME_ROOM];
	struct driver_frame f;
	struct unlike d[2];

	unlike_open(*state, 0, UNLIKE_ALL, NULL, &d[0]);
	unlike_open(*state, 1, UNLIKE_ALL, NULL, &d[1]);
	for (unsigned i = 0; i < 8 * ARRAY_SIZE(rows); i++) {
		unsigned row = i / 8;
		uint32_t seed;

		/* From what is all in the snapshot to what is mostly not, odd lengths included. */
		p.shape = (struct plain_shape){ .v6 = rows[row].v6,
						.protocol = 17,
						.payload = 20 + i % 8 * 181,
						.tags = i % 3,
						.seed = i };
		assert_true(unlike_make(&p, &d[0], 1));
		plain_put16(p.frame.bytes + p.frame.l4 + 2, rows[row].port);
		assert_int_equal(unlike_send(&d[0], &p), 0);
		driver_flush(d[0].d, DRIVER_TX(0));
		assert_int_equal(driver_receive_wait(d[1].d, 0, got, sizeof(got), &f, WAIT_MS), 1);
		assert_int_equal(f.len, p.frame.len);
		assert_int_equal(f.hdr.hdr.flags, rows[row].raw ? 0 : p.hdr.flags);
		seed = plain_pseudo(p.frame.src, p.frame.dst, p.shape.v6, 17, f.len - p.frame.l4);
		if (rows[row].raw)
			assert_int_equal(plain_sum(seed, got + p.frame.l4, f.len - p.frame.l4),
					 0xffff);
		memcpy(got + p.frame.l4 + 6, p.frame.bytes + p.frame.l4 + 6, 2);
		assert_memory_equal(got, p.frame.bytes, p.frame.len);
		driver_reclaim(d[0].d, 0);
	}
	driver_close(d[0].d);
	driver_close(d[1].d);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		CASE(features_are_taken_from_the_next_front_end),
		CASE(bad_values_are_refused_with_what_is_good_and_change_nothing),
		CASE(rings_larger_than_allowed_stay_down_and_say_so),
		CASE(a_limit_can_be_taken_away),
		CASE(finish_csum_leaves_no_checksum_to_the_guest),
		CASE(options_lose_nothing_when_they_change),
		CASE(a_disabled_queue_drains_whatever_changes),
		CASE(dhcp_has_its_checksum_finished_for_everybody),
	};

	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
