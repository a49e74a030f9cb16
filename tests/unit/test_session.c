// SPDX-License-Identifier: Apache-2.0
/* Sessions over real socket pairs: what front-ends really send, answers, and how sessions end. */
#include "at_once.h"
#include "session_rig.h"

#include <sys/resource.h>
#include <sys/stat.h>

struct rig *rig;

#define PROTOCOL BIT(VHOST_USER_F_PROTOCOL_FEATURES)
#define MODERN	 (PROTOCOL | BIT(VIRTIO_F_VERSION_1))

static struct vhost_user_region region(void)
{
	return (struct vhost_user_region){
		.guest_phys_addr = MEMORY_GPA,
		.memory_size = MEMORY_SIZE,
		.userspace_addr = MEMORY_UVA,
	};
}

static void send_table(const struct vhost_user_region *r, unsigned n, const int *fds)
{
	struct vhost_user_memory table = { .regions = n };

	memcpy(table.region, r, n * sizeof(*r));
	rig_send(VHOST_USER_SET_MEM_TABLE, &table, 8 + n * (uint32_t)sizeof(*r), fds, n);
}

static void set_memory(void)
{
	struct vhost_user_region r = region();
	int fd = memory_fd(MEMORY_SIZE);

	send_table(&r, 1, &fd);
	close(fd);
	assert_int_equal(rig_ack(VHOST_USER_SET_MEM_TABLE), 0);
}

static void set_addr(unsigned index)
{
	struct vhost_ring_addr at = ring_addr(index);
	struct vhost_user_vring_addr addr = {
		.index = index, .desc = at.desc, .used = at.used, .avail = at.avail
	};

	rig_send(VHOST_USER_SET_VRING_ADDR, &addr, sizeof(addr), NULL, 0);
	assert_int_equal(rig_ack(VHOST_USER_SET_VRING_ADDR), 0);
}

static void set_eventfd(uint32_t request, unsigned index)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	assert_int_equal(rig_fd(request, index, fd), 0);
	close(fd);
}

static void start_ring(unsigned index, unsigned base)
{
	assert_int_equal(rig_state(VHOST_USER_SET_VRING_NUM, index, RING_SIZE), 0);
	assert_int_equal(rig_state(VHOST_USER_SET_VRING_BASE, index, base), 0);
	set_addr(index);
	set_eventfd(VHOST_USER_SET_VRING_KICK, index);
	set_eventfd(VHOST_USER_SET_VRING_CALL, index);
}

/* As QEMU 10 does at a reconnect, a migrating one included: bases are not 0. */
/* Clauses: protocol-features-a */
static void qemus_order_brings_rings_up(void **state)
{
	rig_connect();
	assert_int_equal(rig_get(VHOST_USER_GET_FEATURES), features_offered());
	assert_int_equal(rig_get(VHOST_USER_GET_PROTOCOL_FEATURES),
			 VHOST_PROTOCOL_FEATURES_OFFERED);
	rig_handshake();
	assert_int_equal(rig_get(VHOST_USER_GET_QUEUE_NUM), VHOST_PAIRS_MAX);
	assert_int_equal(rig_get(VHOST_USER_GET_MAX_MEM_SLOTS), 32);
	assert_int_equal(rig_get(VHOST_USER_SET_OWNER), 0);
	for (unsigned i = 0; i < 4; i++) {
		set_eventfd(VHOST_USER_SET_VRING_CALL, i);
		set_eventfd(VHOST_USER_SET_VRING_ERR, i);
	}
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rig_state(VHOST_USER_SET_VRING_ENABLE, i, 1), 0);
	assert_int_equal(rig_u64(VHOST_USER_SET_FEATURES, MODERN), 0);
	assert_int_equal(rig_get(VHOST_USER_GET_STATUS), 0);
	assert_int_equal(rig_u64(VHOST_USER_SET_STATUS, 0x0b), 0);
	set_memory();
	for (unsigned i = 0; i < 4; i++) {
		ring_at((void *)guest_memory_user(rig->dev.mem, MEMORY_UVA, 1), i, 77);
		start_ring(i, 77);
	}
	assert_int_equal(rig_get(VHOST_USER_GET_STATUS), 0x0b);
	assert_int_equal(rig_u64(VHOST_USER_SET_STATUS, 0x0f), 0);
	assert_int_equal(device_pairs_up(&rig->dev), 2);
	assert_int_equal(rig->dev.ring[3]->vq.avail_next, 77);
}

/* Clauses: protocol-features-a */
static void virtio_users_order_brings_rings_up(void **state)
{
	rig_handshake();
	assert_int_equal(rig_u64(VHOST_USER_SET_STATUS, 0), 0);
	assert_int_equal(rig_u64(VHOST_USER_SET_STATUS, 3), 0);
	set_eventfd(VHOST_USER_SET_VRING_CALL, 0);
	set_eventfd(VHOST_USER_SET_VRING_CALL, 1);
	assert_int_equal(rig_u64(VHOST_USER_SET_FEATURES, MODERN), 0);
	assert_int_equal(rig_u64(VHOST_USER_SET_STATUS, 0x0b), 0);
	set_memory();
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(rig_state(VHOST_USER_SET_VRING_NUM, i, RING_SIZE), 0);
		assert_int_equal(rig_state(VHOST_USER_SET_VRING_BASE, i, 0), 0);
		set_addr(i);
		set_eventfd(VHOST_USER_SET_VRING_KICK, i);
	}
	assert_int_equal(device_pairs_up(&rig->dev), 0);
	assert_int_equal(rig_state(VHOST_USER_SET_VRING_ENABLE, 0, 1), 0);
	assert_int_equal(rig_state(VHOST_USER_SET_VRING_ENABLE, 1, 1), 0);
	assert_int_equal(rig_u64(VHOST_USER_SET_STATUS, 0x0f), 0);
	assert_int_equal(rig->dev.ring[0]->vq.state, VIRTQ_RUNNING);
	assert_int_equal(rig->dev.ring[1]->vq.state, VIRTQ_RUNNING);
	assert_non_null(rig->dev.ring[1]->vq.call);
}

/* Clauses: mem-reg-a */
static void memory_may_come_region_by_region(void **state)
{
	struct vhost_user_memory_region r = { .region = region() };
	int fd = memory_fd(MEMORY_SIZE);

	rig_handshake();
	assert_int_equal(rig_u64(VHOST_USER_SET_FEATURES, MODERN), 0);
	rig_send(VHOST_USER_ADD_MEM_REG, &r, sizeof(r), &fd, 1);
	assert_int_equal(rig_ack(VHOST_USER_ADD_MEM_REG), 0);
	start_ring(1, 0);
	assert_int_equal(rig_state(VHOST_USER_SET_VRING_ENABLE, 1, 1), 0);
	assert_int_equal(rig->dev.ring[1]->vq.state, VIRTQ_RUNNING);
	/* With a descriptor, as QEMU once sent it. */
	rig_send(VHOST_USER_REM_MEM_REG, &r, sizeof(r), &fd, 1);
	assert_int_equal(rig_ack(VHOST_USER_REM_MEM_REG), 0);
	assert_int_not_equal(rig->dev.ring[1]->vq.state, VIRTQ_RUNNING);
	/* Once for each queue pair, as QEMU still sent it later. */
	rig_send(VHOST_USER_REM_MEM_REG, &r, sizeof(r), NULL, 0);
	assert_int_equal(rig_ack(VHOST_USER_REM_MEM_REG), 0);
	assert_true(rig_alive());
	close(fd);
}

/* Clauses: communication-a, vring-base-c */
static void get_vring_base_answers_with_index_and_base(void **state)
{
	struct vhost_user_vring_state s = { 1, 1234 };
	struct rig_reply reply;

	rig_handshake();
	assert_int_equal(rig_state(VHOST_USER_SET_VRING_BASE, 1, 0x8001), 0);
	rig_send_flags(VHOST_USER_GET_VRING_BASE, VHOST_USER_VERSION, &s, sizeof(s), NULL, 0);
	rig_turn();
	assert_true(rig_reply(&reply));
	assert_int_equal(reply.header.size, sizeof(s));
	assert_int_equal(reply.payload.state.index, 1);
	assert_int_equal(reply.payload.state.num, 0x8001);
	s.index = 0x10001;
	rig_send_flags(VHOST_USER_GET_VRING_BASE, VHOST_USER_VERSION, &s, sizeof(s), NULL, 0);
	rig_turn();
	assert_true(rig_reply(&reply));
	assert_int_equal(reply.payload.state.index, 0x10001);
	assert_int_equal(reply.payload.state.num, UINT32_MAX);
	assert_true(rig_alive());
}

/* Clauses: reply-ack-c */
static void answers_come_only_if_agreed_and_wanted(void **state)
{
	uint64_t features = MODERN;
	struct rig_reply reply;

	rig_connect();
	rig_send(VHOST_USER_SET_FEATURES, &features, sizeof(features), NULL, 0);
	rig_send(63, NULL, 0, NULL, 0);
	assert_false(rig_reply(&reply));
	rig_handshake();
	rig_send_flags(VHOST_USER_SET_FEATURES, VHOST_USER_VERSION, &features, sizeof(features),
		       NULL, 0);
	rig_send_flags(63, VHOST_USER_VERSION, NULL, 0, NULL, 0);
	rig_turn();
	assert_false(rig_reply(&reply));
	/* The last message that is answered is the one that takes REPLY_ACK back. */
	assert_int_equal(rig_u64(VHOST_USER_SET_PROTOCOL_FEATURES, 0), 0);
	rig_send(VHOST_USER_SET_FEATURES, &features, sizeof(features), NULL, 0);
	assert_false(rig_reply(&reply));
	assert_true(rig_alive());
}

static void what_needs_a_protocol_feature_is_refused_without(void **state)
{
	uint64_t only = BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK);
	struct vhost_user_memory_region r = { .region = region() };
	int fd = memory_fd(MEMORY_SIZE);

	rig_connect();
	rig_send(VHOST_USER_SET_PROTOCOL_FEATURES, &only, sizeof(only), NULL, 0);
	assert_int_not_equal(rig_get(VHOST_USER_GET_STATUS), 0);
	assert_int_not_equal(rig_u64(VHOST_USER_SET_STATUS, 1), 0);
	assert_int_not_equal(rig_u64(VHOST_USER_NET_SET_MTU, 1500), 0);
	assert_int_equal(rig_get(VHOST_USER_GET_MAX_MEM_SLOTS),
			 1); /* refused, and no number of slots */
	rig_send(VHOST_USER_REM_MEM_REG, &r, sizeof(r), NULL, 0);
	assert_int_not_equal(rig_ack(VHOST_USER_REM_MEM_REG), 0);
	rig_send(VHOST_USER_ADD_MEM_REG, &r, sizeof(r), &fd, 1);
	assert_int_not_equal(rig_ack(VHOST_USER_ADD_MEM_REG), 0);
	assert_null(rig->dev.mem);
	assert_int_equal(rig->dev.status, 0);
	close(fd);
	/* The one that ends a session when it fails was refused too, not done: */
	assert_true(rig_alive());
}

static void nothing_is_agreed_to_that_was_not_offered(void **state)
{
	rig_handshake();
	for (unsigned bit = 0; bit < 64; bit++) {
		bool offered = VHOST_PROTOCOL_FEATURES_OFFERED & BIT(bit);
		uint64_t bits = BIT(bit) | BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK);

		assert_int_equal(rig_u64(VHOST_USER_SET_PROTOCOL_FEATURES, bits) == 0, offered);
		offered = features_offered() & BIT(bit);
		assert_int_equal(rig_u64(VHOST_USER_SET_FEATURES, BIT(bit)) == 0, offered);
	}
	assert_true(rig_alive());
}

/* CVE-2020-10723 */
/* Clauses: vring-index-a */
static void ring_numbers_beyond_the_last_are_refused_in_every_message(void **state)
{
	static const uint32_t bad[] = {
		256, 511, 0xffff, 0x10000, 0x10001, 0x80000000, UINT32_MAX
	};
	int fd = eventfd(0, EFD_CLOEXEC);

	rig_handshake();
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		struct vhost_user_vring_addr addr = { .index = bad[i] };

		assert_int_not_equal(rig_state(VHOST_USER_SET_VRING_NUM, bad[i], 16), 0);
		assert_int_not_equal(rig_state(VHOST_USER_SET_VRING_BASE, bad[i], 0), 0);
		assert_int_not_equal(rig_state(VHOST_USER_SET_VRING_ENABLE, bad[i], 1), 0);
		assert_int_not_equal(rig_state(VHOST_USER_GET_VRING_BASE, bad[i], 1), 0);
		rig_send(VHOST_USER_SET_VRING_ADDR, &addr, sizeof(addr), NULL, 0);
		assert_int_not_equal(rig_ack(VHOST_USER_SET_VRING_ADDR), 0);
	}
	/* Those with a descriptor have 8 bits for the ring; above bit 8 there must be nothing. */
	for (unsigned bit = 9; bit < 64; bit++) {
		for (uint32_t id = VHOST_USER_SET_VRING_KICK; id <= VHOST_USER_SET_VRING_ERR;
		     id++) {
			assert_int_not_equal(rig_fd(id, BIT(bit), fd), 0);
			assert_int_not_equal(rig_u64(id, BIT(bit) | VHOST_USER_VRING_NOFD), 0);
		}
	}
	assert_int_equal(rig->dev.rings, 0);
	assert_true(rig_alive());
	for (unsigned i = 0; i < VHOST_RINGS_MAX; i++) {
		assert_int_equal(rig_state(VHOST_USER_SET_VRING_NUM, i, 16), 0);
		assert_int_equal(rig_u64(VHOST_USER_SET_VRING_KICK, i | VHOST_USER_VRING_NOFD), 0);
	}
	assert_int_equal(rig->dev.rings, VHOST_RINGS_MAX);
	close(fd);
}

static void flags_and_values_without_meaning_are_refused(void **state)
{
	struct vhost_user_vring_addr addr = { .index = 0, .flags = 1 };

	rig_handshake();
	rig_send(VHOST_USER_SET_VRING_ADDR, &addr, sizeof(addr), NULL, 0);
	assert_int_not_equal(rig_ack(VHOST_USER_SET_VRING_ADDR), 0);
	assert_int_not_equal(rig_state(VHOST_USER_SET_VRING_ENABLE, 0, 2), 0);
	assert_true(rig_alive());
}

static void pieces_of_any_length_make_a_message(void **state)
{
	uint8_t bytes[20];
	struct vhost_user_header h = { VHOST_USER_SET_VRING_KICK, NEED, 8 };
	uint64_t index = 1;
	int fd = eventfd(0, EFD_CLOEXEC);

	memcpy(bytes, &h, 12);
	memcpy(bytes + 12, &index, 8);
	rig_handshake();
	for (unsigned cut = 1; cut < sizeof(bytes); cut++) {
		struct rig_reply reply;

		rig_send_raw(bytes, cut, &fd, 1);
		rig_turn();
		assert_false(rig_reply(&reply));
		rig_send_raw(bytes + cut, sizeof(bytes) - cut, NULL, 0);
		rig_turn();
		assert_int_equal(rig_ack(VHOST_USER_SET_VRING_KICK), 0);
	}
	for (unsigned i = 0; i < sizeof(bytes); i++) {
		rig_send_raw(bytes + i, 1, &fd, i == 0);
		rig_turn();
	}
	assert_int_equal(rig_ack(VHOST_USER_SET_VRING_KICK), 0);
	close(fd);
}

static void descriptors_in_the_middle_of_a_message_end_the_session(void **state)
{
	struct vhost_user_header h = { VHOST_USER_SET_VRING_KICK, NEED, 8 };
	int fd = eventfd(0, EFD_CLOEXEC);
	unsigned before;

	rig_handshake();
	before = open_fds();
	rig_send_raw(&h, sizeof(h), NULL, 0);
	rig_turn();
	rig_send_raw("12345678", 8, &fd, 1);
	rig_turn();
	assert_int_equal(rig->ended, 1);
	assert_int_equal(rig_open_fds(), before - 1);
	close(fd);
}

/* The kernel leaves out what there is no number for; that is not the front-end's doing. */
static void without_descriptors_the_session_ends_and_says_so(void **state)
{
	struct rlimit before, none;
	int fd = eventfd(0, EFD_CLOEXEC);

	rig_handshake();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	rig_send(VHOST_USER_SET_VRING_KICK, &(uint64_t){ 0 }, 8, &fd, 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	close(fd);
	assert_int_equal(rig->ended, 1);
	assert_non_null(strstr(rig->reason, "no descriptors left"));
	assert_int_equal(rig->dev.refusals[REFUSAL_HOST], 1);
}

/* Of a socket that was inherited with such an option: what comes along is not only descriptors. */
static void credentials_that_come_along_are_passed_over(void **state)
{
	int yes = 1, fd = eventfd(0, EFD_CLOEXEC);
	unsigned before;

	rig_handshake();
	for (int any = 3; any < 64; any++) /* the session's is among them */
		setsockopt(any, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
	before = open_fds();
	assert_int_equal(rig_fd(VHOST_USER_SET_VRING_KICK, 0, fd), 0);
	close(fd);
	assert_int_equal(open_fds(), before);
	assert_true(rig->dev.ring[0]->kick >= 0);
	assert_true(rig_alive());
}

static void hang_up(void)
{
	close(rig->fd);
	rig->fd = -1;
	rig_turn();
}

static void a_clean_close_is_no_error(void **state)
{
	rig_connect();
	assert_int_equal(rig_logged(hang_up, "warn") + rig_logged(hang_up, "error"), 0);
	assert_int_equal(rig->ended, 1);
	assert_string_equal(rig->reason, "");
	/* With an answer that it never read. */
	rig_connect();
	rig_send(VHOST_USER_GET_FEATURES, NULL, 0, NULL, 0);
	assert_int_equal(rig_logged(hang_up, "warn"), 0);
	assert_int_equal(rig->ended, 1);
	assert_string_equal(rig->reason, "");
	/* Gone before it is answered. */
	rig_connect();
	rig_send_flags(VHOST_USER_GET_FEATURES, NEED, NULL, 0, NULL, 0);
	assert_int_equal(rig_logged(hang_up, "warn"), 0);
	assert_int_equal(rig->ended, 1);
	assert_string_equal(rig->reason, "");
}

static void a_close_within_a_message_is_said_once(void **state)
{
	static const size_t lengths[] = { 1, 11, 12, 13, 19 };
	struct vhost_user_header h = { VHOST_USER_SET_FEATURES, NEED, 8 };
	uint8_t bytes[20] = { 0 };

	memcpy(bytes, &h, sizeof(h));
	for (unsigned i = 0; i < ARRAY_SIZE(lengths); i++) {
		rig_connect();
		rig_send_raw(bytes, lengths[i], NULL, 0);
		rig_turn();
		assert_int_equal(rig_logged(hang_up, "warn"), 1);
		assert_int_equal(rig->ended, 1);
		assert_string_not_equal(rig->reason, "");
	}
}

static void refuse_thrice(void)
{
	for (unsigned i = 0; i < 3; i++)
		assert_int_not_equal(rig_u64(VHOST_USER_SET_FEATURES, BIT(62)), 0);
}

static void a_refusal_is_said_once_for_each_request(void **state)
{
	rig_handshake();
	assert_int_equal(rig_logged(refuse_thrice, "warn"), 1);
}

/* Clauses: header-b */
static void bad_headers_end_the_session(void **state)
{
	static const struct vhost_user_header bad[] = {
		{ VHOST_USER_GET_FEATURES, 0, 0 },
		{ VHOST_USER_GET_FEATURES, 2, 0 },
		{ VHOST_USER_GET_FEATURES, 3, 0 },
		{ VHOST_USER_GET_FEATURES, VHOST_USER_VERSION | VHOST_USER_REPLY, 0 },
		{ VHOST_USER_SET_FEATURES, 1, 4097 },
		{ 63, 1, 4097 },
		{ 63, 1, UINT32_MAX },
		{ VHOST_USER_SET_MEM_TABLE, 1, 0xfffffff8 },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		rig_handshake();
		rig_send_raw(&bad[i], sizeof(bad[i]), NULL, 0);
		assert_int_equal(rig_logged(rig_turn, "warn"), 1);
		assert_int_equal(rig->ended, 1);
		assert_string_not_equal(rig->reason, "");
	}
}

static void stop_session(void)
{
	session_stop(rig->session);
}

static void fail_session(void)
{
	session_end(rig->session, REFUSAL_MEMORY_GONE, "enough");
}

static void sessions_may_be_stopped_failed_and_started_within_the_hook(void **state)
{
	struct rig_reply reply;

	rig_handshake();
	stop_session();
	rig_turn();
	assert_int_equal(rig->ended, 0); /* who stops it needs not be told */
	assert_int_equal(recv(rig->fd, &reply, 1, MSG_DONTWAIT), 0);
	assert_false(rig->dev.agreed);

	rig_handshake();
	rig->on_ended = stop_session;
	fail_session();
	assert_int_equal(rig->ended, 1);
	assert_string_equal(rig->reason, "enough");

	rig_handshake();
	rig->on_ended = fail_session;
	fail_session();
	assert_int_equal(rig->ended, 1);

	rig_handshake();
	rig->on_ended = rig_start;
	hang_up();
	assert_true(rig_alive());
	assert_int_equal(rig_get(VHOST_USER_GET_QUEUE_NUM), VHOST_PAIRS_MAX);
	session_end(rig->session, REFUSAL_CALL_BLOCKED, "by control");
	assert_int_equal(rig->ended, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_open, rig_close)
		T(qemus_order_brings_rings_up),
		T(virtio_users_order_brings_rings_up),
		T(memory_may_come_region_by_region),
		T(get_vring_base_answers_with_index_and_base),
		T(answers_come_only_if_agreed_and_wanted),
		T(what_needs_a_protocol_feature_is_refused_without),
		T(nothing_is_agreed_to_that_was_not_offered),
		T(ring_numbers_beyond_the_last_are_refused_in_every_message),
		T(flags_and_values_without_meaning_are_refused),
		T(pieces_of_any_length_make_a_message),
		T(descriptors_in_the_middle_of_a_message_end_the_session),
		T(without_descriptors_the_session_ends_and_says_so),
		T(credentials_that_come_along_are_passed_over),
		T(a_clean_close_is_no_error),
		T(a_close_within_a_message_is_said_once),
		T(a_refusal_is_said_once_for_each_request),
		T(bad_headers_end_the_session),
		T(sessions_may_be_stopped_failed_and_started_within_the_hook),
#undef T
	};

	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
