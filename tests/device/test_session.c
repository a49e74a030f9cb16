// SPDX-License-Identifier: Apache-2.0
/* Front-ends that set up, stop, resume, leave and come again, each in its own way. */
#include "harness.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "control/client.h"

/* Clauses: ring-states-g, mem-reg-a */
/* Features: protocol_features */
static void orders_of_all_front_ends_work(void **state)
{
	const unsigned quirks[] = { DRIVER_ENABLE_FIRST, DRIVER_TX_FIRST, DRIVER_MEM_SLOTS };

	for (unsigned set = 0; set < 16; set++) {
		struct driver_config c = { .pairs = 2 };
		struct stream s = { .count = 50 };

		for (unsigned i = 0; i < ARRAY_SIZE(quirks); i++)
			c.quirks |= set >> i & 1 ? quirks[i] : 0;
		if (set & 8) { /* rings are enabled from the start, and there is one pair */
			c.features =
				driver_features_default() & ~BIT(VHOST_USER_F_PROTOCOL_FEATURES);
			c.pairs = 1;
		}
		s.from = rig_open(*state, 0, &c);
		s.to = rig_open(*state, 1, &c);
		rig_wait_state(*state, 0, "up");
		rig_wait_state(*state, 1, "up");
		stream_both(&s);
		driver_close(s.from);
		driver_close(s.to);
	}
}

/* Clauses: reply-ack-c */
static void protocol_features_are_optional(void **state)
{
	const uint64_t protocol[] = { BIT(VHOST_USER_PROTOCOL_F_MQ),
				      BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK),
				      BIT(VHOST_USER_PROTOCOL_F_STATUS), BIT(63) };

	for (unsigned i = 0; i < ARRAY_SIZE(protocol); i++) {
		struct driver_config c = { .protocol = protocol[i] };
		struct stream s = { .from = rig_open(*state, 0, &c),
				    .to = rig_open(*state, 1, &c) };

		stream_both(&s);
		driver_close(s.from);
		driver_close(s.to);
	}
}

/* Clauses: memory-a */
static void buffers_run_across_regions(void **state)
{
	const unsigned counts[] = { 2, 3, 8, 32 };

	for (unsigned i = 0; i < ARRAY_SIZE(counts); i++) {
		struct driver_config c = { .regions = counts[i],
					   .gpa = i % 2 ? 0x123456000 : 0,
					   .quirks = counts[i] > 8 ? DRIVER_MEM_SLOTS : 0 };
		struct stream s = { .from = rig_open(*state, 0, &c),
				    .to = rig_open(*state, 1, &c),
				    .count = 2000,
				    .len_min = 1000,
				    .len_max = 1514 };

		stream_both(&s);
		driver_close(s.from);
		driver_close(s.to);
	}
}

/* Every way to cut a frame by the end of a region, header and first bytes included. */
/* Clauses: memory-a */
static void a_region_may_end_anywhere_in_a_frame(void **state)
{
	struct driver_config c = { .regions = 2, .extra = 3 << 20 };
	struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, NULL);
	struct driver_ring *tx = &a->ring[DRIVER_TX(0)];
	uint8_t *border = a->mem.base + a->mem.region[0].size;
	uint8_t frame[200];

	frame_make(frame, sizeof(frame), 0, 1, 7);
	for (unsigned before = 0; before <= sizeof(frame) + 12; before++) {
		struct driver_piece piece = { border - before, sizeof(frame) + 12 };
		struct driver_done done;

		memset(piece.at, 0, 12);
		memcpy((uint8_t *)piece.at + 12, frame, sizeof(frame));
		assert_int_equal(ring_add(tx, &piece, 1, 0, false, NULL), 0);
		ring_flush(tx);
		assert_true(receive_one(b, 0, 1, sizeof(frame), 7, 1000));
		assert_true(script_wait_idle(tx, 1000));
		assert_int_equal(ring_take(tx, &done, 1), 1);
	}
	driver_close(a);
	driver_close(b);
}

/* rust-vmm/vhost#154 and many more: the index that comes back is where it went on from. */
/* Clauses: vring-base-c */
static void base_is_what_was_consumed(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	struct stream s = { .from = a, .to = b, .count = 1000 };
	struct error err;
	uint32_t base, expected;

	stream_run(&s);
	assert_int_equal(driver_ring_stop(a, DRIVER_TX(0), &base, &err), 0);
	assert_int_equal(ring_used(&a->ring[DRIVER_TX(0)], &expected), 1000);
	assert_int_equal(base, expected);
	assert_int_equal(driver_ring_stop(b, DRIVER_RX(0), &base, &err), 0);
	ring_used(&b->ring[DRIVER_RX(0)], &expected);
	assert_int_equal(base, expected);
	driver_close(a);
	driver_close(b);
}

static void resume(struct driver *d, unsigned index, uint32_t base)
{
	struct error err;

	assert_int_equal(driver_ring_start(d, index, base, &err), 0);
	assert_int_equal(driver_ring_enable(d, index, true, &err), 0);
}

/* Stopped while frames flow: what was taken was returned, and the rest comes after the resume. */
/* Clauses: ring-states-a, ring-states-f, vring-base-a, vring-base-b */
static void stopped_in_traffic_and_resumed_nothing_is_lost(void **state)
{
	struct driver_config c = { .ring_size = 1024 };
	struct driver *a = rig_open(*state, 0, &c), *b = rig_open(*state, 1, &c);
	struct driver_ring *tx = &a->ring[DRIVER_TX(0)];
	unsigned sent = 0, received = 0;

	for (unsigned round = 0; round < 50; round++) {
		uint32_t base, expected;
		uint16_t used;
		struct error err;

		for (unsigned i = 0; i < 400; i++, sent++)
			send_one(a, 0, 1, 60, sent);
		assert_int_equal(driver_ring_stop(a, DRIVER_TX(0), &base, &err), 0);
		used = ring_used(tx, &expected);
		assert_int_equal(base, expected);
		for (unsigned i = 0; i < 50; i++, sent++) /* while it is stopped */
			send_one(a, 0, 1, 60, sent);
		usleep(1000);
		assert_int_equal(ring_used(tx, NULL), used);
		resume(a, DRIVER_TX(0), base);
		for (; received < sent; received++)
			assert_true(receive_one(b, 0, 1, 60, received, 2000));
		driver_reclaim(a, 0);
	}
	driver_close(a);
	driver_close(b);
}

static void rx_stopped_and_resumed(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	struct stream s = { .from = a, .to = b, .count = 777 };

	for (unsigned round = 0; round < 20; round++) {
		struct error err;
		uint32_t base, expected;

		stream_run(&s);
		assert_int_equal(driver_ring_stop(b, DRIVER_RX(0), &base, &err), 0);
		ring_used(&b->ring[DRIVER_RX(0)], &expected);
		assert_int_equal(base, expected);
		resume(b, DRIVER_RX(0), base);
	}
	driver_close(a);
	driver_close(b);
}

/* As if so many chains, of one descriptor each, had come and gone; SET_VRING_BASE of that. */
static uint32_t begin_at(struct driver_ring *r, uint16_t index)
{
	uint16_t at = index % r->size | !(index / r->size % 2) << 15;

	r->avail_next = r->published = r->kicked_at = r->used_next = index;
	if (!r->packed) {
		r->avail->idx = r->used->idx = index;
		return index;
	}
	r->add = r->take = (struct driver_place){ index % r->size, !(index / r->size % 2) };
	/* What has come back in the round before, or in this one. */
	for (unsigned i = 0; i < r->size; i++)
		r->packed_desc[i].flags = (i < r->take.slot) == r->take.wrap ? 0x8080 : 0;
	return at | (uint32_t)at << 16;
}

/* A guest that came from elsewhere: the indexes are what they were there. */
/* Clauses: vring-base-a */
static void rings_start_at_any_index(void **state)
{
	const uint16_t starts[] = { 1, 255, 256, 32768, 65500, 65535 };

	for (unsigned i = 0; i < ARRAY_SIZE(starts); i++) {
		struct driver_config c = { .quirks = DRIVER_RINGS_LATER | DRIVER_NO_RX_BUFFERS };
		struct stream s = { .from = rig_open(*state, 0, &c),
				    .to = rig_open(*state, 1, &c),
				    .count = 1000 };
		struct driver *both[] = { s.from, s.to };

		for (unsigned k = 0; k < 4; k++) {
			struct driver_ring *r = &both[k / 2]->ring[k % 2];

			resume(both[k / 2], k % 2, begin_at(r, starts[i]));
		}
		driver_post(s.from, 0);
		driver_post(s.to, 0);
		driver_post(s.from, 0);
		driver_post(s.to, 0);
		stream_both(&s);
		driver_close(s.from);
		driver_close(s.to);
	}
}

/* The memory of a driver before is another's, and its buffers are gone with it. */
static void forget(struct driver *d, unsigned index)
{
	struct driver_ring *r = &d->ring[index];

	for (uint16_t i = 0; i < r->size; i++) {
		if (!r->slot[i].count)
			continue;
		d->pool[index].free[d->pool[index].n++] = r->slot[i].token;
		if (r->packed)
			ring_push_free(r, i);
		else
			ring_free_chain(r, i);
		r->slot[i].count = 0;
	}
	begin_at(r, 0);
	if (r->packed) {
		memset(r->packed_desc, 0, r->size * sizeof(*r->packed_desc));
		r->room = r->size;
	} else {
		memset(r->avail, 0, 4);
		memset(r->used, 0, 4);
	}
}

/* Another driver in the same guest, after firmware: rings zeroed, other features. */
static void the_next_driver_of_a_guest_starts_anew(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	uint64_t features = BIT(VIRTIO_NET_F_MAC) | BIT(VHOST_USER_F_PROTOCOL_FEATURES);
	struct stream s = { .from = a, .to = b };
	struct error err;

	stream_both(&s);
	driver_reclaim(a, 0);
	for (unsigned i = 0; i < 2; i++) {
		uint32_t base;

		assert_int_equal(driver_ring_stop(a, i, &base, &err), 0);
		forget(a, i);
	}
	if (rig_packed()) /* there is none without it */
		features |= BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_F_RING_PACKED);
	else
		a->hdr_len = 10;
	a->fe.features &= features;
	a->mergeable = false;
	a->ring[0].event_idx = a->ring[1].event_idx = false;
	assert_int_equal(frontend_set_features(&a->fe, &err), 0);
	resume(a, DRIVER_RX(0), ring_base(a->ring));
	resume(a, DRIVER_TX(0), ring_base(a->ring));
	driver_post(a, 0);
	stream_both(&s);
	driver_close(a);
	driver_close(b);
}

/* Clauses: communication-c */
static void front_ends_come_and_go(void **state)
{
	struct driver *b = rig_open(*state, 1, NULL);
	unsigned fds = 0;

	for (unsigned i = 0; i < 200; i++) {
		struct driver *a = rig_open(*state, 0, NULL);
		struct stream s = { .from = a, .to = b, .count = 10 };

		stream_both(&s);
		driver_close(a);
		if (i == 10) {
			rig_wait_state(*state, 0, "waiting");
			fds = rig_open_fds(*state);
		}
	}
	rig_wait_state(*state, 0, "waiting");
	/* Descriptors are closed after a grace period, which is long on a busy machine. */
	for (unsigned i = 0; i < 50 && rig_open_fds(*state) > fds + 2; i++)
		usleep(100000);
	assert_in_range(rig_open_fds(*state), 0, fds + 2);
	driver_close(b);
}

/* A server that dies after `rings` rings, or before it has said anything (-1). */
static void die_early(const char *path, int rings)
{
	struct driver_config c = { .listen = path, .quirks = DRIVER_RINGS_LATER };
	int listener, sock;
	struct driver *d;
	struct error err;

	if (rings < 0) {
		listener = channel_listen(path, &err);
		assert_true(listener >= 0);
		sock = channel_accept(listener, 5000, &err);
		assert_true(sock >= 0);
		close(sock);
		close(listener);
		unlink(path);
		return;
	}
	assert_int_equal(driver_open(&c, &d, &err), 0);
	for (int i = 0; i < rings; i++)
		assert_int_equal(driver_ring_start(d, (unsigned)i, ring_base(d->ring), &err), 0);
	driver_close(d);
	unlink(path);
}

/* cloud-hypervisor d3d83dcbd: a connection to a peer that is going away was the last one. */
static void a_connecting_port_begins_again_whenever_its_peer_dies(void **state)
{
	struct rig *rig = *state;
	struct driver *b = rig_open(rig, 1, NULL);
	char path[64];
	struct driver_config server = { .listen = path };
	struct stream s = { .from = b, .from_port = 1, .to_port = 0 };
	json_t *result;
	struct error err;

	snprintf(path, sizeof(path), "%s/peer", rig->folder);
	assert_int_equal(client_call(rig->control, "port.add",
				     json_pack("{s:s,s:s,s:{s:s}}", "name", "peer", "kind",
					       "vhost-user", "options", "connect", path),
				     &result, &err),
			 0);
	json_decref(result);
	for (int rings = -1; rings < 3; rings++) {
		die_early(path, rings);
		die_early(path, -1);
	}
	assert_int_equal(driver_open(&server, &s.to, &err), 0);
	stream_both(&s);
	driver_close(s.to);
	driver_close(b);
	unlink(path);
}

/* The neighbour disappears with frames under way; nobody else notices. */
static void leaving_under_load_harms_nobody(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	struct stream s = { .from = a, .to = b };

	for (unsigned i = 0; i < 50; i++) {
		struct driver *c = rig_open(*state, 2, NULL);

		for (unsigned k = 0; k < 100; k++)
			send_one(c, 2, 0, 1000, k);
		for (unsigned k = 0; k < 100; k++)
			send_one(a, 0, 2, 60, k);
		driver_close(c);
		driver_reclaim(a, 0);
		while (ring_outstanding(&a->ring[DRIVER_TX(0)]))
			driver_reclaim(a, 0);
	}
	rig_wait_state(*state, 2, "waiting");
	settle(a, b); /* what had come from the neighbour, or was flooded */
	stream_both(&s);
	driver_close(a);
	driver_close(b);
}

/* Disabled, a tx ring gives its chains back, uncounted among the good ones; enabled, it works. */
/* Clauses: ring-states-c, ring-states-d */
static void disabled_rings_are_quiet(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	struct stream s = { .from = a, .to = b };
	struct error err;

	stream_both(&s);
	assert_int_equal(driver_ring_enable(a, DRIVER_TX(0), false, &err), 0);
	driver_reclaim(a, 0);
	for (unsigned i = 0; i < 20; i++)
		send_one(a, 0, 1, 60, i);
	assert_true(script_wait_idle(&a->ring[DRIVER_TX(0)], 1000));
	rig_assert_dropped(*state, 0, "queue_disabled", 20);
	assert_false(receive_one(b, 0, 1, 60, 0, 50));
	assert_int_equal(driver_ring_enable(a, DRIVER_RX(0), false, &err), 0);
	for (unsigned i = 0; i < 20; i++)
		send_one(b, 1, 0, 60, i);
	assert_false(receive_one(a, 1, 0, 60, 0, 50));
	assert_int_equal(driver_ring_enable(a, DRIVER_TX(0), true, &err), 0);
	assert_int_equal(driver_ring_enable(a, DRIVER_RX(0), true, &err), 0);
	stream_both(&s);
	driver_close(a);
	driver_close(b);
}

/* Clauses: reset-owner-a */
static void reset_owner_is_ignored(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);

	assert_passes(a, b);
	assert_int_equal(channel_send(a->fe.sock, VHOST_USER_RESET_OWNER, VHOST_USER_VERSION, NULL,
				      0, NULL, 0),
			 0);
	usleep(20000);
	assert_passes(a, b);
	driver_close(a);
	driver_close(b);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		CASE(orders_of_all_front_ends_work),
		CASE(protocol_features_are_optional),
		CASE(buffers_run_across_regions),
		CASE(a_region_may_end_anywhere_in_a_frame),
		CASE(base_is_what_was_consumed),
		CASE(stopped_in_traffic_and_resumed_nothing_is_lost),
		CASE(rx_stopped_and_resumed),
		CASE(front_ends_come_and_go),
		CASE(a_connecting_port_begins_again_whenever_its_peer_dies),
		CASE(leaving_under_load_harms_nobody),
		CASE(disabled_rings_are_quiet),
		CASE(reset_owner_is_ignored),
		CASE(rings_start_at_any_index),
		CASE(the_next_driver_of_a_guest_starts_anew),
	};

	return rig_run("session", tests, ARRAY_SIZE(tests), 0);
}
