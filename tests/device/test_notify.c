// SPDX-License-Identifier: Apache-2.0
/* Kicks and calls: none too many, none too late, and none that must come first. */
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#define SETTLE_US 50000 /* for what must not happen */

static uint64_t calls_of(const struct driver_ring *r)
{
	uint64_t n = 0;

	return read(r->call, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

/* Asks to be called when `n` more chains, of one descriptor each, and one have come back. */
static void call_later(struct driver_ring *r, unsigned n)
{
	struct driver_place at = r->take;

	if (!r->packed) {
		store_release(r->used_event, (uint16_t)(r->used_next + n));
		return;
	}
	packed_step(r, &at, n);
	store_relaxed(&r->driver_event->off_wrap,
		      (uint16_t)(at.slot | at.wrap << VRING_PACKED_EVENT_F_WRAP_CTR));
	store_release(&r->driver_event->flags, VRING_PACKED_EVENT_FLAG_DESC);
}

static struct driver *open_later(struct rig *rig, unsigned port)
{
	struct driver_config c = { .quirks = DRIVER_RINGS_LATER };

	return rig_open(rig, port, &c);
}

static void start(struct driver *d, unsigned index)
{
	struct error err;

	assert_int_equal(driver_ring_start(d, index, ring_base(d->ring), &err), 0);
}

static void enable(struct driver *d, unsigned index)
{
	struct error err;

	assert_int_equal(driver_ring_enable(d, index, true, &err), 0);
}

/* rust-vmm/vhost#247: the kick's event was consumed while the ring was disabled, and forgotten. */
/* Clauses: ring-states-h */
static void kick_before_enable_is_not_forgotten(void **state)
{
	struct driver *a = open_later(*state, 0), *b = rig_open(*state, 1, NULL);

	start(a, DRIVER_TX(0));
	for (unsigned i = 0; i < 10; i++)
		send_one(a, 0, 1, 60, i);
	ring_kick(&a->ring[DRIVER_TX(0)]);
	usleep(SETTLE_US);
	assert_int_equal(ring_pending(&a->ring[DRIVER_TX(0)]), 0); /* left alone until then */
	enable(a, DRIVER_TX(0));
	for (unsigned i = 0; i < 10; i++)
		assert_true(receive_one(b, 0, 1, 60, i, 1000));
	driver_close(a);
	driver_close(b);
}

/* rust-vmm/vhost#375: after a reconnect nobody kicks the rx ring. */
/* Clauses: ring-states-e */
static void rings_need_no_first_kick(void **state)
{
	struct driver_config c = { .kicks = DRIVER_KICK_NEVER, .quirks = DRIVER_RINGS_LATER };
	struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, NULL);

	send_one(a, 0, 1, 60, 1);
	start(a, DRIVER_RX(0));
	start(a, DRIVER_TX(0));
	enable(a, DRIVER_RX(0));
	enable(a, DRIVER_TX(0));
	assert_true(receive_one(b, 0, 1, 60, 1, 1000));
	send_one(b, 1, 0, 60, 2);
	assert_true(receive_one(a, 1, 0, 60, 2, 1000));
	driver_close(a);
	driver_close(b);
}

/* Clauses: vring-kick-a, vring-call-a */
static void no_descriptors_at_all(void **state)
{
	const unsigned quirks[] = { DRIVER_NO_KICK_FD, DRIVER_NO_CALL_FD,
				    DRIVER_NO_KICK_FD | DRIVER_NO_CALL_FD };

	for (unsigned i = 0; i < ARRAY_SIZE(quirks); i++) {
		struct driver_config c = { .quirks = quirks[i] };
		struct stream s = { .from = rig_open(*state, 0, &c),
				    .to = rig_open(*state, 1, &c) };

		stream_both(&s);
		usleep(SETTLE_US); /* the worker sleeps */
		stream_both(&s);
		driver_close(s.from);
		driver_close(s.to);
	}
}

static uint64_t without_event_idx(void)
{
	return driver_features_default() & ~BIT(VIRTIO_RING_F_EVENT_IDX);
}

/* The receiver sleeps until it is called, for bursts and for single frames. */
/* Clauses: 2.7.7.2c, 2.7.7.2e, 2.8.10a, 2.8.10b */
/* Features: event_idx */
static void calls_come_when_asked_for(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		struct driver_config c = { .features = i % 2 ? without_event_idx() : 0 };
		struct stream s = { .from = rig_open(*state, 0, &c),
				    .to = rig_open(*state, 1, &c),
				    .by_call = true,
				    .count = 2000,
				    .window = i / 2 ? 1 : 64 };

		stream_both(&s);
		driver_close(s.from);
		driver_close(s.to);
	}
}

/* Clauses: 2.7.7.2b, 2.7.7.2f, 2.8.10a */
static void calls_stay_away_when_not(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct driver_config c = { .features = i ? without_event_idx() : 0 };
		struct stream s = { .from = rig_open(*state, 0, &c),
				    .to = rig_open(*state, 1, &c),
				    .count = 2000 };

		/* Once a ring starts, its driver may be called without having asked. */
		stream_run(&s);
		usleep(SETTLE_US);
		calls_of(&s.to->ring[DRIVER_RX(0)]);
		calls_of(&s.from->ring[DRIVER_TX(0)]);
		stream_run(&s);
		usleep(SETTLE_US);
		assert_int_equal(calls_of(&s.to->ring[DRIVER_RX(0)]), 0);
		assert_int_equal(calls_of(&s.from->ring[DRIVER_TX(0)]), 0);
		driver_close(s.from);
		driver_close(s.to);
	}
}

/* cloud-hypervisor PR 1202: a driver that only sends waits for its buffers. */
static void sender_is_called_about_its_buffers(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct driver_config c = { .features = i ? without_event_idx() : 0,
					   .ring_size = 16 };
		struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, NULL);
		struct driver_ring *tx = &a->ring[DRIVER_TX(0)];

		for (unsigned k = 0; k < 200; k++) {
			send_one(a, 0, 1, 60, k);
			assert_true(ring_wait(tx, 1000));
			driver_reclaim(a, 0);
			assert_int_equal(ring_room(tx), 16);
		}
		driver_close(a);
		driver_close(b);
	}
}

/* With the event index: asks to be called at the last of 32 only, as drivers do to save calls. */
/* Clauses: 2.7.7.2e, 2.7.7.2f */
static void event_index_ahead_is_one_call(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	struct driver_ring *tx = &a->ring[DRIVER_TX(0)];
	uint64_t calls = 0;
	uint8_t frame[60];

	assert_passes(a, b);
	usleep(SETTLE_US);
	driver_reclaim(a, 0);
	calls_of(tx);
	call_later(tx, 31);
	for (unsigned i = 0; i < 31; i++)
		send_one(a, 0, 1, 60, i);
	assert_true(script_wait_idle(tx, 1000));
	usleep(SETTLE_US);
	assert_int_equal(calls_of(tx), 0);
	frame_make(frame, sizeof(frame), 0, 1, 31);
	assert_int_equal(driver_send(a, 0, NULL, frame, sizeof(frame), NULL), 0);
	driver_flush(a, DRIVER_TX(0));
	for (unsigned i = 0; i < 2000 && !(calls = calls_of(tx)); i++)
		usleep(1000);
	assert_int_equal(calls, 1);
	driver_close(a);
	driver_close(b);
}

/* DPDK c7de6f9be5: used entries kept back at a low rate. */
static void one_frame_then_silence_is_completed(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);

	for (unsigned i = 0; i < 20; i++) {
		usleep(20000);
		send_one(a, 0, 1, 60, i);
		assert_true(receive_one(b, 0, 1, 60, i, 1000));
		assert_true(script_wait_idle(&a->ring[DRIVER_TX(0)], 1000));
		driver_reclaim(a, 0);
	}
	driver_close(a);
	driver_close(b);
}

/*
 * An idle switch asks for a kick; while frames wait for it, it has been kicked already. A sender
 * that loses its CPU, under a sanitizer and among others, finds it idle time and again: hundreds of
 * times, not once for each frame.
 */
static void kicks_are_rare_under_load(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);

	for (unsigned round = 0; round < 100; round++) {
		driver_post(b, 0);
		for (unsigned k = 0; k < 200; k++)
			send_one(a, 0, 1, 60, k);
		for (unsigned k = 0; k < 200; k++)
			assert_true(receive_one(b, 0, 1, 60, k, 1000));
	}
	assert_in_range(a->ring[DRIVER_TX(0)].kicked, 1, 100 * 200 / 2);
	driver_close(a);
	driver_close(b);
}

/* Kicks that nobody asked for do no harm, nor do those on an rx ring. */
/* Clauses: 2.7.10.2c */
static void needless_kicks_do_no_harm(void **state)
{
	struct driver_config c = { .kicks = DRIVER_KICK_ALWAYS };
	struct stream s = { .from = rig_open(*state, 0, &c),
			    .to = rig_open(*state, 1, &c),
			    .count = 5000 };

	stream_both(&s);
	driver_close(s.from);
	driver_close(s.to);
}

/* A call at the next buffer, though the field that has no say asks for none. */
/* Clauses: 2.7.7.2a, 2.7.7.2d */
static void only_one_field_says_when_to_call(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct driver_config c = { .features = i ? without_event_idx() : 0 };
		struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, NULL);
		struct driver_ring *tx = &a->ring[DRIVER_TX(0)];

		assert_passes(a, b);
		for (unsigned n = 0; n < 20; n++) {
			usleep(n ? 0 : SETTLE_US);
			driver_reclaim(a, 0);
			calls_of(tx);
			ring_calls_on(tx);
			if (tx->packed) {
				store_relaxed(&tx->driver_event->off_wrap, 0x7fff);
				store_release(&tx->driver_event->flags,
					      VRING_PACKED_EVENT_FLAG_ENABLE);
			} else if (i)
				store_release(&tx->avail->ring[tx->size],
					      (uint16_t)(tx->used_next + 1000));
			else
				store_release(&tx->avail->flags,
					      (uint16_t)VRING_AVAIL_F_NO_INTERRUPT);
			send_one(a, 0, 1, 60, n);
			assert_int_equal(poll(&(struct pollfd){ tx->call, POLLIN, 0 }, 1, 1000), 1);
		}
		driver_close(a);
		driver_close(b);
	}
}

/* Looked at while the worker polls, and while it sleeps. */
/* Clauses: 2.7.10.2a, 2.7.10.2b */
static void used_flags_say_nothing_else(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct driver_config c = { .features = i ? without_event_idx() : 0 };
		struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, NULL);
		struct driver_ring *tx = &a->ring[DRIVER_TX(0)];
		const uint16_t *flags = tx->packed ? &tx->device_event->flags : &tx->used->flags;
		uint16_t most = tx->packed ? VRING_PACKED_EVENT_FLAG_DESC - i : i;

		for (unsigned n = 0; n < 200; n++) {
			send_one(a, 0, 1, 60, n);
			for (unsigned k = 0; k < 100; k++)
				assert_in_range(load_relaxed(flags), 0, most);
			usleep(n % 50 ? 0 : SETTLE_US);
			driver_reclaim(a, 0);
		}
		driver_close(a);
		driver_close(b);
	}
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		CASE(kick_before_enable_is_not_forgotten),
		CASE(rings_need_no_first_kick),
		CASE(no_descriptors_at_all),
		CASE(calls_come_when_asked_for),
		CASE(calls_stay_away_when_not),
		CASE(sender_is_called_about_its_buffers),
		CASE(one_frame_then_silence_is_completed),
		CASE(kicks_are_rare_under_load),
		CASE(needless_kicks_do_no_harm),
		CASE(event_index_ahead_is_one_call),
		CASE(only_one_field_says_when_to_call),
		CASE(used_flags_say_nothing_else),
	};

	return rig_run("notify", tests, ARRAY_SIZE(tests), 0);
}
