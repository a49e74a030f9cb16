// SPDX-License-Identifier: Apache-2.0
/*
 * Well-formed messages in any order and any state, while the rings that they are about run: each is
 * answered once, and nothing is left of a session but its guest's confusion. Port 2 is confused;
 * ports 0 and 1 must not notice.
 */
#include "harness.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define SESSIONS 40
#define MESSAGES 400
#define WAIT_MS	 5000

struct scene {
	struct rig *rig;
	struct driver *a, *b, *c;
	uint32_t seed;
	unsigned accepted, refused;
};

static uint32_t dice(struct scene *s, uint32_t sides)
{
	s->seed = s->seed * 1664525u + 1013904223u;
	return (s->seed >> 8) % sides;
}

/* Frames to and from port 2, whose rings may be anywhere or nowhere. */
static void stir(struct scene *s)
{
	driver_reclaim(s->a, 0);
	if (ring_room(&s->a->ring[DRIVER_TX(0)]))
		send_one(s->a, 0, dice(s, 2) ? 2 : 9, 60 + dice(s, 1400), s->seed);
	swallow(s->a);
	swallow(s->b);
	for (unsigned i = 0; i < s->c->rings; i++) {
		struct driver_ring *r = &s->c->ring[i];
		uint16_t index = load_relaxed(&r->avail->idx);

		if (r->packed)
			script_avail_all(r, i % 2 == 0);
		else if ((uint16_t)(index - load_acquire(&r->used->idx)) < r->size / 2)
			store_release(&r->avail->idx, (uint16_t)(index + dice(s, 64)));
		ring_kick(r);
	}
}

static int about_ring(struct scene *s, uint32_t request, struct error *err)
{
	static const uint32_t sizes[] = { 1, 64, 128, 256, 255, 0 };
	struct vhost_user_vring_state state = { .index = dice(s, 6) };

	switch (request) {
	case VHOST_USER_SET_VRING_NUM:
		state.num = sizes[dice(s, ARRAY_SIZE(sizes))];
		break;
	case VHOST_USER_SET_VRING_BASE:
		state.num = dice(s, 4) ? dice(s, 300) : 0x10000u;
		break;
	default:
		state.num = dice(s, 3);
	}
	return frontend_set(&s->c->fe, request, &state, sizeof(state), NULL, 0, err);
}

/* Whatever the base is: this driver does not always know any more which format the ring has. */
static int get_base(struct scene *s)
{
	struct vhost_user_vring_state ring = { .index = dice(s, 6) };
	struct channel_message m;
	int rc = script_call(s->c->fe.sock, VHOST_USER_GET_VRING_BASE, VHOST_USER_VERSION, &ring,
			     sizeof(ring), NULL, 0, &m, WAIT_MS);

	assert_true(rc || (m.hdr.request == VHOST_USER_GET_VRING_BASE &&
			   m.payload.state.index == ring.index));
	return rc;
}

static int about_addresses(struct scene *s, struct error *err)
{
	const struct driver_ring *r = &s->c->ring[dice(s, s->c->rings)];
	struct vhost_user_vring_addr addr = {
		.index = dice(s, 6),
		.desc = (uintptr_t)r->desc,
		.avail = (uintptr_t)r->avail + 2 * dice(s, 2),
		.used = (uintptr_t)r->used,
	};

	return frontend_set(&s->c->fe, VHOST_USER_SET_VRING_ADDR, &addr, sizeof(addr), NULL, 0,
			    err);
}

static int about_descriptor(struct scene *s, uint32_t request, struct error *err)
{
	const struct driver_ring *r = &s->c->ring[dice(s, s->c->rings)];
	int fd = dice(s, 3) ? request == VHOST_USER_SET_VRING_KICK ? r->kick : r->call : -1;

	return frontend_set_fd(&s->c->fe, request, dice(s, 6), fd, err);
}

static int about_device(struct scene *s, uint32_t request, struct error *err)
{
	static const uint64_t features[] = { 0, BIT(VIRTIO_F_VERSION_1), BIT(63),
					     BIT(VIRTIO_F_RING_PACKED) | BIT(VIRTIO_F_VERSION_1) };
	struct frontend *fe = &s->c->fe;

	switch (request) {
	case VHOST_USER_SET_FEATURES:
		return frontend_set_u64(fe, request,
					features[dice(s, 4)] | (dice(s, 2) ? fe->features : 0),
					err);
	case VHOST_USER_SET_STATUS:
		return frontend_set_u64(fe, request, dice(s, 16), err);
	case VHOST_USER_NET_SET_MTU:
		return frontend_set_u64(fe, request, dice(s, 2) ? 1500 : 10, err);
	case VHOST_USER_SET_MEM_TABLE:
		return frontend_set_memory(fe, &s->c->mem, false, err);
	default:
		return frontend_set(fe, request, NULL, 0, NULL, 0, err);
	}
}

static int any_message(struct scene *s, struct error *err)
{
	static const uint32_t requests[] = {
		VHOST_USER_SET_VRING_NUM,  VHOST_USER_SET_VRING_BASE, VHOST_USER_SET_VRING_ENABLE,
		VHOST_USER_SET_VRING_ADDR, VHOST_USER_SET_VRING_KICK, VHOST_USER_SET_VRING_CALL,
		VHOST_USER_GET_VRING_BASE, VHOST_USER_SET_FEATURES,   VHOST_USER_SET_STATUS,
		VHOST_USER_NET_SET_MTU,	   VHOST_USER_SET_MEM_TABLE,  VHOST_USER_RESET_OWNER,
		VHOST_USER_GET_QUEUE_NUM,  VHOST_USER_GET_STATUS,
	};
	uint32_t request = requests[dice(s, ARRAY_SIZE(requests))];
	uint64_t ignored;

	switch (request) {
	case VHOST_USER_SET_VRING_NUM:
	case VHOST_USER_SET_VRING_BASE:
	case VHOST_USER_SET_VRING_ENABLE:
		return about_ring(s, request, err);
	case VHOST_USER_SET_VRING_ADDR:
		return about_addresses(s, err);
	case VHOST_USER_SET_VRING_KICK:
	case VHOST_USER_SET_VRING_CALL:
		return about_descriptor(s, request, err);
	case VHOST_USER_GET_VRING_BASE:
		return get_base(s);
	case VHOST_USER_GET_QUEUE_NUM:
	case VHOST_USER_GET_STATUS:
		return frontend_get(&s->c->fe, request, &ignored, err);
	default:
		return about_device(s, request, err);
	}
}

static void every_message_may_come_in_every_state(void **state)
{
	struct scene s = { .rig = *state, .seed = 1 };
	struct driver_config two = { .pairs = 2,
				     .protocol = BIT(VHOST_USER_PROTOCOL_F_MQ) |
						 BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK) |
						 BIT(VHOST_USER_PROTOCOL_F_NET_MTU) |
						 BIT(VHOST_USER_PROTOCOL_F_STATUS) };
	struct stream good = { .count = 100 };
	unsigned fds = 0;

	good.from = s.a = rig_open(s.rig, 0, NULL);
	good.to = s.b = rig_open(s.rig, 1, NULL);
	for (unsigned i = 0; i < SESSIONS; i++) {
		s.c = rig_open(s.rig, 2, &two);
		for (unsigned k = 0; k < MESSAGES; k++) {
			struct error err = { "" };
			int rc = any_message(&s, &err);

			if (rc && rc != -EREMOTEIO)
				fail_msg("session %u, message %u: %s", i, k, err.text);
			rc ? s.refused++ : s.accepted++;
			if (k % 4 == 0)
				stir(&s);
		}
		driver_close(s.c);
		rig_wait_state(s.rig, 2, "waiting");
		settle(s.a, s.b);
		stream_both(&good);
		if (!i)
			fds = rig_open_fds(s.rig);
	}
	print_message("# %u messages accepted, %u refused\n", s.accepted, s.refused);
	assert_true(s.accepted > s.refused && s.refused > SESSIONS);
	/* Its rings did run. */
	assert_true(rig_counters(s.rig, 0, 2).delivered);
	assert_true(rig_counters(s.rig, 2, 0).sent || rig_dropped(s.rig, 2, "header_short"));
	/* Some are closed a grace period later, and those of who asked when the loop gets there. */
	for (unsigned i = 0; i < 500 && rig_open_fds(s.rig) > fds + 2; i++)
		usleep(10000);
	assert_in_range(rig_open_fds(s.rig), 0, fds + 2);
	good.to = s.c = rig_open(s.rig, 2, NULL);
	good.to_port = 2;
	stream_both(&good);
	driver_close(s.a);
	driver_close(s.b);
	driver_close(s.c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_message_may_come_in_every_state, rig_setup,
						rig_teardown),
	};

	return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
