// SPDX-License-Identifier: Apache-2.0
/*
 * Front-ends that say anything at all. Port 2 is talked to; ports 0 and 1 pass frames all the time,
 * no descriptor is lost, and whoever comes next to port 2 is served.
 */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_MS 2000
#ifdef __SANITIZE_ADDRESS__
#define SLACK_KB 65536 /* it keeps what was freed for a while */
#else
#define SLACK_KB 1024
#endif
#define VERSION	   VHOST_USER_VERSION
#define NEED_REPLY VHOST_USER_NEED_REPLY

struct scene {
	struct rig *rig;
	struct driver *a, *b;
	unsigned fds; /* open in the switch while port 2 waits */
};

static void begin(struct scene *s, void **state)
{
	memset(s, 0, sizeof(*s));
	s->rig = *state;
	s->a = rig_open(s->rig, 0, NULL);
	s->b = rig_open(s->rig, 1, NULL);
	driver_close(rig_open(s->rig, 2, NULL)); /* what is made once only is made */
	rig_wait_state(s->rig, 2, "waiting");
	/* Descriptors of sessions before are closed a grace period later. */
	for (unsigned same = 0; same < 10; same++, usleep(10000)) {
		unsigned fds = rig_open_fds(s->rig);

		same = fds == s->fds ? same : 0;
		s->fds = fds;
	}
}

static void end(struct scene *s)
{
	struct stream good = { .from = s->a, .to = s->b };
	struct driver *c;

	rig_wait_state(s->rig, 2, "waiting");
	for (unsigned i = 0; i < 100 && rig_open_fds(s->rig) > s->fds; i++)
		usleep(10000);
	assert_in_range(rig_open_fds(s->rig), 0, s->fds);
	stream_both(&good);
	c = rig_open(s->rig, 2, NULL);
	good.to = c;
	good.to_port = 2;
	stream_run(&good);
	driver_close(c);
	driver_close(s->a);
	driver_close(s->b);
}

static int dial(struct scene *s)
{
	struct error err;
	int sock = channel_connect(s->rig->socket[2], WAIT_MS, &err);

	assert_true(sock >= 0);
	return sock;
}

/* The session is alive and its answers are in step: the next one is to this request. */
static bool in_step(int sock)
{
	struct channel_message m;
	int rc = script_call(sock, VHOST_USER_GET_FEATURES, VERSION, NULL, 0, NULL, 0, &m, WAIT_MS);

	if (rc == -ECONNRESET || rc == -EPIPE)
		return false;
	assert_int_equal(rc, 0);
	assert_int_equal(m.hdr.request, VHOST_USER_GET_FEATURES);
	assert_int_equal(m.hdr.size, 8);
	return true;
}

/* Agrees to protocol features, so that NEED_REPLY has its meaning. */
static void agree(int sock)
{
	uint64_t protocol = BIT(VHOST_USER_PROTOCOL_F_MQ) | BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK) |
			    BIT(VHOST_USER_PROTOCOL_F_NET_MTU) |
			    BIT(VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS) |
			    BIT(VHOST_USER_PROTOCOL_F_STATUS);

	assert_true(in_step(sock));
	assert_int_equal(channel_send(sock, VHOST_USER_SET_PROTOCOL_FEATURES, VERSION, &protocol, 8,
				      NULL, 0),
			 0);
}

/* Clauses: payload-a */
static void every_request_of_every_size(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 4, 7, 8, 9, 12, 16, 39, 40, 41, 264, 4096 };
	static const uint8_t zeroes[4096];
	struct scene s;

	begin(&s, state);
	for (uint32_t request = 0; request < 64; request++) {
		for (unsigned i = 0; i < 2 * ARRAY_SIZE(sizes); i++) {
			int sock = dial(&s);

			if (i % 2)
				agree(sock);
			/* May be refused by closing, or answered, or neither; never more. */
			channel_send(sock, request, VERSION, zeroes, sizes[i / 2], NULL, 0);
			close(sock);
		}
	}
	end(&s);
}

/* Clauses: communication-b, mem-reg-b */
static void descriptors_are_closed_whatever_comes(void **state)
{
	static const unsigned counts[] = { 1, 2, 7, 8, 9, 64 };
	static const uint32_t sizes[] = { 0, 8, 40, 264 };
	static const uint8_t zeroes[4096];
	struct scene s;
	int fds[64];

	begin(&s, state);
	for (unsigned i = 0; i < 64; i++) {
		fds[i] = i % 2 ? eventfd(0, 0) : memfd_create("test", 0);
		assert_true(fds[i] >= 0);
	}
	for (uint32_t request = 0; request < 48; request++) {
		for (unsigned i = 0; i < ARRAY_SIZE(counts) * ARRAY_SIZE(sizes); i++) {
			int sock = dial(&s);

			agree(sock);
			channel_send(sock, request, VERSION, zeroes, sizes[i / ARRAY_SIZE(counts)],
				     fds, counts[i % ARRAY_SIZE(counts)]);
			channel_send(sock, VHOST_USER_GET_FEATURES, VERSION, NULL, 0, NULL, 0);
			close(sock);
		}
	}
	for (unsigned i = 0; i < 64; i++)
		close(fds[i]);
	end(&s);
}

/* Those that were replaced are closed after a grace period, which a busy machine makes long. */
static void assert_open_fds(const struct rig *rig, unsigned most)
{
	for (unsigned i = 0; i < 1000 && rig_open_fds(rig) > most; i++)
		usleep(10000);
	assert_in_range(rig_open_fds(rig), 0, most);
}

/* DPDK 612e17cf6d: a message again and again costs neither memory nor descriptors. */
static void repetition_leaks_nothing(void **state)
{
	struct scene s;
	unsigned before = 0, most;
	int sock, event = eventfd(0, 0);

	begin(&s, state);
	sock = dial(&s);
	agree(sock);
	assert_true(in_step(sock));
	most = rig_open_fds(s.rig) + 4 * 3 + 4; /* three of each ring, and some */
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 10000; i++) {
			struct vhost_user_vring_state num = { i % 4, 256 };
			uint64_t index = i % 4;

			channel_send(sock, VHOST_USER_SET_VRING_NUM, VERSION, &num, sizeof(num),
				     NULL, 0);
			channel_send(sock, VHOST_USER_SET_VRING_CALL, VERSION, &index, 8, &event,
				     1);
			channel_send(sock, VHOST_USER_SET_VRING_KICK, VERSION, &index, 8, &event,
				     1);
			channel_send(sock, VHOST_USER_SET_VRING_ERR, VERSION, &index, 8, &event, 1);
			if (i % 1000 == 0)
				assert_true(in_step(sock));
		}
		assert_open_fds(s.rig, most);
		if (!round)
			before = rig_resident(s.rig);
	}
	assert_in_range(rig_resident(s.rig), 0, before + SLACK_KB);
	close(sock);
	close(event);
	end(&s);
}

/* One answer each if one is wanted (of 8 bytes), none else; DPDK ef6fb7d3fd, 57b4d90b58. */
/* Clauses: communication-a, reply-ack-a, reply-ack-b, reply-ack-c */
static void answers_stay_in_step(void **state)
{
	static const struct {
		uint32_t request, size;
		bool own; /* has an answer of its own, always */
	} requests[] = {
		{ VHOST_USER_GET_FEATURES, 0, true },
		{ VHOST_USER_SET_FEATURES, 8, false },
		{ VHOST_USER_SET_OWNER, 0, false },
		{ VHOST_USER_RESET_OWNER, 0, false },
		{ VHOST_USER_SET_VRING_NUM, 8, false },
		{ VHOST_USER_SET_VRING_ADDR, 40, false },
		{ VHOST_USER_SET_VRING_BASE, 8, false },
		{ VHOST_USER_GET_VRING_BASE, 8, true },
		{ VHOST_USER_GET_PROTOCOL_FEATURES, 0, true },
		{ VHOST_USER_GET_QUEUE_NUM, 0, true },
		{ VHOST_USER_SET_VRING_ENABLE, 8, false },
		{ VHOST_USER_NET_SET_MTU, 8, false },
		{ VHOST_USER_GET_MAX_MEM_SLOTS, 0, true },
		{ VHOST_USER_SET_STATUS, 8, false },
		{ VHOST_USER_GET_STATUS, 0, true },
		{ VHOST_USER_SEND_RARP, 8, false },
		{ VHOST_USER_RESET_DEVICE, 0, false },
		{ 26, 0, false },
		{ 27, 16, false },
		{ 50, 8, false },
	};
	static const uint8_t zeroes[64];
	struct scene s;

	begin(&s, state);
	for (unsigned i = 0; i < 2 * ARRAY_SIZE(requests); i++) {
		bool need = i % 2, own = requests[i / 2].own;
		uint32_t request = requests[i / 2].request;
		struct channel_message m;
		int sock = dial(&s);

		agree(sock);
		assert_int_equal(channel_send(sock, request, VERSION | (need ? NEED_REPLY : 0),
					      zeroes, requests[i / 2].size, NULL, 0),
				 0);
		if (need || own) {
			int rc = channel_receive(sock, &m, WAIT_MS);

			if (rc)
				fail_msg("request %u: no answer: %s", request, strerror(-rc));
			assert_int_equal(m.hdr.request, request);
			assert_true(m.hdr.flags & VHOST_USER_REPLY);
			assert_int_equal(m.hdr.size, 8);
		}
		if (!in_step(sock))
			fail_msg("request %u ended the session", request);
		close(sock);
	}
	end(&s);
}

/* CVE-2020-10723: an index is checked in the width in which it is used. */
/* Clauses: vring-index-a */
static void ring_indexes_are_checked(void **state)
{
	static const uint32_t bad[] = { 256,	 257,	     0xffff,	 0x10000,
					0x10001, 0x7fffffff, 0x80000000, 0xffffffff };
	static const uint32_t requests[] = { VHOST_USER_SET_VRING_NUM, VHOST_USER_SET_VRING_BASE,
					     VHOST_USER_SET_VRING_ENABLE,
					     VHOST_USER_SET_VRING_ADDR };
	struct scene s;

	begin(&s, state);
	for (unsigned i = 0; i < ARRAY_SIZE(bad) * ARRAY_SIZE(requests); i++) {
		uint32_t request = requests[i % ARRAY_SIZE(requests)];
		struct vhost_user_vring_addr payload = { .index = bad[i / ARRAY_SIZE(requests)] };
		struct channel_message m;
		int sock = dial(&s), rc;

		agree(sock);
		rc = script_call(sock, request, VERSION | NEED_REPLY, &payload,
				 request == VHOST_USER_SET_VRING_ADDR ? 40 : 8, NULL, 0, &m,
				 WAIT_MS);
		if (!rc)
			assert_int_not_equal(m.payload.u64, 0);
		else
			assert_int_equal(rc, -ECONNRESET);
		close(sock);
	}
	end(&s);
}

static int refused(int sock, const struct vhost_user_memory *table, const int *fds, unsigned n)
{
	struct channel_message m;
	int rc = script_call(sock, VHOST_USER_SET_MEM_TABLE, VERSION | NEED_REPLY, table,
			     (uint32_t)(8 + table->regions * sizeof(table->region[0])), fds, n, &m,
			     WAIT_MS);

	return rc ? rc == -ECONNRESET : m.payload.u64 != 0;
}

/* Clauses: memory-b */
static void memory_that_is_none_is_refused(void **state)
{
	const struct vhost_user_region bad[] = {
		{ 0, 0, 0x10000, 0 },			     /* nothing */
		{ 0, 0x10000, 0x10000, 0xf000 },	     /* past the end of the file */
		{ 0, 0x10000, 0x10000, UINT64_MAX - 0xfff }, /* offset and size wrap */
		{ 0, UINT64_MAX, 0x10000, 0 },
		{ UINT64_MAX - 0xfff, 0x10000, 0x10000, 0 },
		{ 0, 0x10000, UINT64_MAX - 0xfff, 0 },
		{ 0, 1ull << 62, 0x10000, 0 },
	};
	struct vhost_user_memory good = { .regions = 1, .region = { { 0, 0xf000, 0, 0x1000 } } };
	struct scene s;
	int pipes[2], pair[2], fd[6], sock;

	begin(&s, state);
	fd[0] = memfd_create("test", 0);
	assert_int_equal(ftruncate(fd[0], 0x10000), 0);
	sock = dial(&s);
	agree(sock);
	assert_false(refused(sock, &good, fd, 1));
	close(sock);
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		struct vhost_user_memory table = { .regions = 1, .region = { bad[i] } };

		sock = dial(&s);
		agree(sock);
		if (!refused(sock, &table, fd, 1))
			fail_msg("region %u was accepted", i);
		close(sock);
	}
	/* A good region, but not of memory. */
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	fd[1] = eventfd(0, 0);
	fd[2] = open("/dev/null", O_RDWR);
	fd[3] = pipes[0];
	fd[4] = pair[0];
	fd[5] = open("/proc/self/mem", O_RDWR);
	for (unsigned i = 1; i < 6; i++) {
		struct vhost_user_memory table = { .regions = 1,
						   .region = { { 0, 0x1000, 0x10000, 0 } } };

		sock = dial(&s);
		agree(sock);
		if (!refused(sock, &table, &fd[i], 1))
			fail_msg("descriptor %u was accepted", i);
		close(sock);
		close(fd[i]);
	}
	close(pipes[1]);
	close(pair[1]);
	close(fd[0]);
	end(&s);
}

/* Clauses: memory-b */
static void regions_that_overlap_are_refused(void **state)
{
	const struct vhost_user_region bad[][2] = {
		{ { 0, 0x2000, 0x10000, 0 }, { 0x1000, 0x2000, 0x20000, 0 } },
		{ { 0, 0x2000, 0x10000, 0 }, { 0, 0x2000, 0x20000, 0 } },
		{ { 0, 0x2000, 0x10000, 0 }, { 0x4000, 0x2000, 0x11000, 0 } },
	};
	struct scene s;
	int fds[2];

	begin(&s, state);
	for (unsigned i = 0; i < 2; i++) {
		fds[i] = memfd_create("test", 0);
		assert_int_equal(ftruncate(fds[i], 0x10000), 0);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		struct vhost_user_memory table = { .regions = 2,
						   .region = { bad[i][0], bad[i][1] } };
		int sock = dial(&s);

		agree(sock);
		assert_true(refused(sock, &table, fds, 2));
		close(sock);
	}
	close(fds[0]);
	close(fds[1]);
	end(&s);
}

/* Rings outside memory, unaligned, beyond its end, across a border, at address 0, at the last. */
/* Clauses: vring-addr-a */
static void rings_that_are_nowhere_do_not_run(void **state)
{
	const uint64_t offsets[] = { UINT64_MAX, 1, 2, 4, 8, 1ull << 40 };
	struct scene s;

	begin(&s, state);
	for (unsigned i = 0; i < 3 * ARRAY_SIZE(offsets); i++) {
		struct driver_config config = { .quirks = DRIVER_RINGS_LATER, .regions = 2 };
		struct driver *c = rig_open(s.rig, 2, &config);
		struct driver_ring ring = c->ring[0];
		struct error err;
		uint64_t off = offsets[i / 3];

		if (i % 3 == 0)
			ring.desc = (void *)((uintptr_t)ring.desc + off);
		else if (i % 3 == 1)
			ring.avail = (void *)((uintptr_t)ring.avail + off);
		else
			ring.used = (void *)((uintptr_t)c->mem.base + c->mem.region[0].size - 16);
		frontend_set_ring(&c->fe, 0, &ring, 0, &err);
		frontend_set_fd(&c->fe, VHOST_USER_SET_VRING_KICK, 0, ring.kick, &err);
		frontend_enable(&c->fe, 0, true, &err);
		send_one(s.a, 0, 2, 60, i);
		assert_true(script_wait_idle(&s.a->ring[DRIVER_TX(0)], 1000));
		driver_reclaim(s.a, 0);
		driver_close(c);
	}
	rig_wait_state(s.rig, 2, "waiting");
	rig_assert_alive(s.rig);
	driver_close(s.a);
	driver_close(s.b);
}

/* Clauses: vring-num-a */
static void ring_sizes_are_checked(void **state)
{
	static const uint32_t bad[] = { 0, 3, 255, 32769, 65536, 0x10100, 0xffffffff };
	struct scene s;

	begin(&s, state);
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		struct vhost_user_vring_state num = { 0, bad[i] };
		struct channel_message m;
		int sock = dial(&s), rc;

		agree(sock);
		rc = script_call(sock, VHOST_USER_SET_VRING_NUM, VERSION | NEED_REPLY, &num,
				 sizeof(num), NULL, 0, &m, WAIT_MS);
		assert_true(rc ? rc == -ECONNRESET : m.payload.u64 != 0);
		close(sock);
	}
	end(&s);
}

/* Only an eventfd can be written to without ever blocking, once it is non-blocking. */
static void kicks_and_calls_must_be_eventfds(void **state)
{
	static const uint32_t requests[] = { VHOST_USER_SET_VRING_KICK, VHOST_USER_SET_VRING_CALL };
	struct scene s;
	int fd[5], pipes[2];

	begin(&s, state);
	assert_int_equal(pipe(pipes), 0);
	fd[0] = pipes[0];
	fd[1] = pipes[1];
	fd[2] = memfd_create("test", 0);
	fd[3] = open("/dev/null", O_RDWR);
	fd[4] = eventfd(0, 0); /* the one that is good */
	for (unsigned i = 0; i < 2 * ARRAY_SIZE(fd); i++) {
		struct channel_message m;
		uint64_t index = 0;
		int sock = dial(&s), rc;

		agree(sock);
		rc = script_call(sock, requests[i % 2], VERSION | NEED_REPLY, &index, 8, &fd[i / 2],
				 1, &m, WAIT_MS);
		if (i / 2 == 4)
			assert_true(!rc && !m.payload.u64);
		else
			assert_true(rc ? rc == -ECONNRESET : m.payload.u64 != 0);
		close(sock);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(fd); i++)
		close(fd[i]);
	end(&s);
}

/* DPDK bedf87c521, 966f89d998: what does not even make a header. */
/* Clauses: header-b */
static void fragments_and_silence_are_nothing(void **state)
{
	static const uint8_t zeroes[4096];
	struct scene s;
	int silent;

	begin(&s, state);
	silent = dial(&s);
	close(silent);
	for (unsigned n = 0; n < 12; n++) {
		int sock = dial(&s);

		assert_int_equal(send(sock, zeroes, n, MSG_NOSIGNAL), n);
		close(sock);
	}
	for (unsigned flags = 0; flags < 4; flags++) { /* versions that there are not */
		int sock = dial(&s);

		channel_send(sock, VHOST_USER_GET_FEATURES, flags, NULL, 0, NULL, 0);
		if (flags != VERSION)
			assert_true(channel_closed(sock, WAIT_MS));
		close(sock);
	}
	for (unsigned i = 0; i < 3; i++) { /* lengths that there are not */
		struct vhost_user_header header = { VHOST_USER_SET_MEM_TABLE, VERSION,
						    i == 0   ? 4097
						    : i == 1 ? 0x7fffffff
							     : 0xffffffff };
		int sock = dial(&s);

		assert_int_equal(send(sock, &header, sizeof(header), MSG_NOSIGNAL), sizeof(header));
		assert_true(channel_closed(sock, WAIT_MS));
		close(sock);
	}
	end(&s);
}

/* A message in single bytes, and one that never ends, do not keep others from being served. */
static void slow_front_ends_hold_up_nobody(void **state)
{
	const struct vhost_user_header header = { VHOST_USER_GET_FEATURES, VERSION, 0 };
	struct channel_message m;
	struct scene s;
	int sock;

	begin(&s, state);
	sock = dial(&s);
	for (unsigned i = 0; i < sizeof(header); i++) {
		assert_int_equal(send(sock, (const char *)&header + i, 1, MSG_NOSIGNAL), 1);
		usleep(2000);
		assert_passes(s.a, s.b);
		rig_assert_alive(s.rig);
	}
	assert_int_equal(channel_receive(sock, &m, WAIT_MS), 0);
	close(sock);
	end(&s);
}

/* Who asks and never listens is cut off, or waits; the switch does not. */
static void answers_that_nobody_reads_do_not_block(void **state)
{
	struct scene s;
	int sock;

	begin(&s, state);
	sock = dial(&s);
	assert_int_equal(fcntl(sock, F_SETFL, O_NONBLOCK), 0);
	for (unsigned i = 0; i < 100000; i++) {
		if (channel_send(sock, VHOST_USER_GET_FEATURES, VERSION, NULL, 0, NULL, 0))
			break;
	}
	rig_assert_alive(s.rig);
	assert_passes(s.a, s.b);
	close(sock);
	end(&s);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		CASE(every_request_of_every_size),
		CASE(descriptors_are_closed_whatever_comes),
		CASE(repetition_leaks_nothing),
		CASE(answers_stay_in_step),
		CASE(ring_indexes_are_checked),
		CASE(memory_that_is_none_is_refused),
		CASE(regions_that_overlap_are_refused),
		CASE(rings_that_are_nowhere_do_not_run),
		CASE(ring_sizes_are_checked),
		CASE(kicks_and_calls_must_be_eventfds),
		CASE(fragments_and_silence_are_nothing),
		CASE(slow_front_ends_hold_up_nobody),
		CASE(answers_that_nobody_reads_do_not_block),
	};

	setenv("RINGWAY_TEST_MESSAGES_MAX", "0", 1);
	return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
