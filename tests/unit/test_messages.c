// SPDX-License-Identifier: Apache-2.0
/*
 * Every request number with every kind of payload and number of descriptors, memory that must not
 * be mapped, and descriptors counted over thousands of messages. What is expected of a request is
 * written down here once more, from the protocol's document and not from the table under test.
 */
#include "lingering.h"
#include "session_rig.h"

#include <sys/vfs.h>

#include "base/log.h"

struct rig *rig;

struct expected {
	unsigned min, max; /* payload */
	unsigned fds_min, fds_max;
	bool may_end; /* a failure is the end of the session, after its answer */
};

/* For a payload of zeros: no regions, ring 0, a descriptor comes. */
static struct expected expect(uint32_t request)
{
	switch (request) {
	case VHOST_USER_GET_FEATURES:
	case VHOST_USER_SET_OWNER:
	case VHOST_USER_RESET_OWNER:
	case VHOST_USER_GET_PROTOCOL_FEATURES:
	case VHOST_USER_GET_QUEUE_NUM:
	case VHOST_USER_GET_MAX_MEM_SLOTS:
	case VHOST_USER_GET_STATUS:
		return (struct expected){ 0, 0, 0, 0, false };
	case VHOST_USER_SET_FEATURES:
	case VHOST_USER_SET_PROTOCOL_FEATURES:
	case VHOST_USER_NET_SET_MTU:
	case VHOST_USER_SET_STATUS:
	case VHOST_USER_SET_VRING_NUM:
	case VHOST_USER_SET_VRING_BASE:
	case VHOST_USER_GET_VRING_BASE:
	case VHOST_USER_SET_VRING_ENABLE:
		return (struct expected){ 8, 8, 0, 0, false };
	case VHOST_USER_SET_VRING_ADDR:
		return (struct expected){ 40, 40, 0, 0, false };
	case VHOST_USER_SET_VRING_KICK:
	case VHOST_USER_SET_VRING_CALL:
	case VHOST_USER_SET_VRING_ERR:
		return (struct expected){ 8, 8, 1, 1, false };
	case VHOST_USER_SET_MEM_TABLE:
		return (struct expected){ 8, 8 + 8 * 32, 0, 8, true };
	case VHOST_USER_ADD_MEM_REG:
		return (struct expected){ 40, 40, 1, 1, true };
	case VHOST_USER_REM_MEM_REG:
		return (struct expected){ 40, 40, 0, 1, false };
	default:
		return (struct expected){ 0, 4096, 0, 8, false };
	}
}

static const uint8_t zeros[VHOST_USER_PAYLOAD_MAX];

static bool known(uint32_t request)
{
	return expect(request).max != 4096;
}

/* One message of zeros on a new session: is what happens what must happen? */
static void try_one(uint32_t request, uint32_t size, unsigned fds)
{
	struct expected e = expect(request);
	bool framed = size >= e.min && size <= e.max && fds >= e.fds_min && fds <= e.fds_max;
	int fd[16];
	struct rig_reply reply, more;

	for (unsigned i = 0; i < fds; i++)
		fd[i] = eventfd(0, EFD_CLOEXEC);
	rig_handshake();
	rig_send(request, zeros, size, fd, fds);
	for (unsigned i = 0; i < fds; i++)
		close(fd[i]);
	if (framed) {
		assert_true(rig_reply(&reply));
		assert_int_equal(reply.header.request, request);
		assert_int_equal(reply.header.size, 8);
		if (!known(request))
			assert_int_not_equal(reply.payload.u64, 0);
		assert_true(rig_alive() || (e.may_end && reply.payload.u64));
	} else {
		assert_int_equal(rig->ended, 1);
		assert_string_not_equal(rig->reason, "");
	}
	assert_false(rig_reply(&more));
}

/* Clauses: payload-a */
static void each_request_with_each_payload_and_number_of_descriptors(void **state)
{
	static const unsigned fds[] = { 0, 1, 2, 8, 9, 16 };
	unsigned before = rig_open_fds();

	for (uint32_t request = 0; request < 64; request++) {
		struct expected e = expect(request);
		const uint32_t sizes[] = { 0, 7, 8, 9, 39, 40, 41, 4096, e.min, e.max };

		for (unsigned s = 0; s < ARRAY_SIZE(sizes); s++) {
			for (unsigned f = 0; f < ARRAY_SIZE(fds); f++)
				try_one(request, sizes[s], fds[f]);
		}
	}
	try_one(UINT32_MAX, 8, 8);
	try_one(0x80000000u, 0, 0);
	close(rig->fd);
	rig->fd = -1;
	rig_turn();
	device_reset(&rig->dev);
	assert_int_equal(rig_open_fds(), before);
}

/* DPDK 1407b0752e, 612e17cf6d: too strict, and not strict enough, about these. */
/* Clauses: vring-kick-a, vring-call-a */
static void no_descriptor_is_a_promise_in_both_directions(void **state)
{
	static const uint32_t ids[] = { VHOST_USER_SET_VRING_KICK, VHOST_USER_SET_VRING_CALL,
					VHOST_USER_SET_VRING_ERR };
	uint64_t none = 1 | VHOST_USER_VRING_NOFD, some = 1;
	unsigned before;
	int fd[8];

	for (unsigned i = 0; i < 8; i++)
		fd[i] = eventfd(0, EFD_CLOEXEC);
	for (unsigned i = 0; i < ARRAY_SIZE(ids); i++) {
		rig_handshake();
		assert_int_equal(rig_u64(ids[i], none), 0);
		before = rig_open_fds();
		rig_send(ids[i], &none, sizeof(none), fd, 1);
		assert_int_equal(rig->ended, 1);
		assert_int_equal(rig_open_fds(), before - 1);
		rig_handshake();
		rig_send(ids[i], &some, sizeof(some), NULL, 0);
		assert_int_equal(rig->ended, 1);
		for (unsigned n = 2; n <= 8; n++) {
			rig_handshake();
			before = rig_open_fds();
			rig_send(ids[i], &some, sizeof(some), fd, n);
			assert_int_equal(rig->ended, 1);
			assert_int_equal(rig_open_fds(), before - 1);
		}
	}
	for (unsigned i = 0; i < 8; i++)
		close(fd[i]);
}

static const struct vhost_user_region good = {
	.guest_phys_addr = MEMORY_GPA,
	.memory_size = MEMORY_SIZE,
	.userspace_addr = MEMORY_UVA,
};

/* The session must refuse this memory, end, and keep nothing of it. */
static void refuse_table(const struct vhost_user_memory *table, uint32_t size, const int *fds,
			 unsigned n)
{
	unsigned before, mappings;

	rig_handshake();
	before = rig_open_fds();
	mappings = memory_mappings();
	rig_send(VHOST_USER_SET_MEM_TABLE, table, size, fds, n);
	assert_int_not_equal(rig_ack(VHOST_USER_SET_MEM_TABLE), 0);
	assert_int_equal(rig->ended, 1);
	assert_non_null(strstr(rig->reason, "SET_MEM_TABLE"));
	assert_null(rig->dev.mem);
	assert_int_equal(memory_mappings(), mappings);
	assert_int_equal(rig_open_fds(), before - 1);
}

/* Alone, behind a good one, and by itself as an added one. */
static void refuse_region(struct vhost_user_region bad, int fd)
{
	struct vhost_user_memory table = { .regions = 1, .region = { bad } };
	struct vhost_user_memory_region single = { .region = bad };
	int fds[2] = { memory_fd(MEMORY_SIZE), fd };

	refuse_table(&table, 8 + 32, &fd, 1);
	table.regions = 2;
	table.region[1] = bad;
	table.region[0] = good;
	table.region[0].guest_phys_addr = 0;
	table.region[0].userspace_addr = 0;
	refuse_table(&table, 8 + 64, fds, 2);
	close(fds[0]);
	rig_handshake();
	rig_send(VHOST_USER_ADD_MEM_REG, &single, sizeof(single), &fd, 1);
	assert_int_not_equal(rig_ack(VHOST_USER_ADD_MEM_REG), 0);
	assert_int_equal(rig->ended, 1);
	assert_null(rig->dev.mem);
}

/* Clauses: memory-b */
static void regions_that_are_nonsense_are_refused(void **state)
{
	static const struct {
		uint64_t gpa, size, uva, offset;
	} bad[] = {
		{ MEMORY_GPA, 0, MEMORY_UVA, 0 },
		{ MEMORY_GPA, MEMORY_SIZE, MEMORY_UVA, 1 }, /* past the end of the file */
		{ MEMORY_GPA, MEMORY_SIZE + 1, MEMORY_UVA, 0 },
		{ MEMORY_GPA, 4096, MEMORY_UVA, MEMORY_SIZE },
		{ MEMORY_GPA, 4096, MEMORY_UVA, UINT64_MAX },
		{ MEMORY_GPA, 4096, MEMORY_UVA, UINT64_MAX - 4095 },
		{ MEMORY_GPA, UINT64_MAX, MEMORY_UVA, 0 },
		{ MEMORY_GPA, UINT64_MAX, MEMORY_UVA, 1 },
		{ UINT64_MAX - 4094, 4096, MEMORY_UVA, 0 },
		{ MEMORY_GPA, 4096, UINT64_MAX - 4094, 0 },
		{ MEMORY_GPA, 1ull << 63, MEMORY_UVA, 1ull << 63 },
	};
	int fd = memory_fd(MEMORY_SIZE);

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		refuse_region((struct vhost_user_region){ bad[i].gpa, bad[i].size, bad[i].uva,
							  bad[i].offset },
			      fd);
	close(fd);
}

static void only_memory_files_are_mapped(void **state)
{
	int fds[8], pair[2], pipes[2], memory = memory_fd(MEMORY_SIZE);
	char path[64];
	unsigned n = 0;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(pipe(pipes), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", memory);
	fds[n++] = eventfd(0, 0);
	fds[n++] = pair[0];
	fds[n++] = pipes[1];
	fds[n++] = open("/dev/null", O_RDWR);
	fds[n++] = open("/dev/zero", O_RDWR);
	fds[n++] = open("/proc/self/exe", O_RDONLY);
	fds[n++] = open("/proc/self", O_RDONLY | O_DIRECTORY);
	fds[n++] = open(path, O_RDONLY); /* memory, but not for writing */
	for (unsigned i = 0; i < n; i++) {
		assert_true(fds[i] >= 0);
		refuse_region(good, fds[i]);
		close(fds[i]);
	}
	close(pair[1]);
	close(pipes[0]);
	close(memory);
}

/* Clauses: memory-b */
static void overlapping_regions_are_refused(void **state)
{
	static const struct {
		uint64_t gpa, uva;
	} second[] = {
		{ MEMORY_GPA, MEMORY_UVA },
		{ MEMORY_GPA, MEMORY_UVA + MEMORY_SIZE },
		{ MEMORY_GPA + MEMORY_SIZE, MEMORY_UVA },
		{ MEMORY_GPA + MEMORY_SIZE - 1, MEMORY_UVA + MEMORY_SIZE },
		{ MEMORY_GPA + MEMORY_SIZE, MEMORY_UVA - MEMORY_SIZE + 1 },
	};
	int fds[2] = { memory_fd(MEMORY_SIZE), memory_fd(MEMORY_SIZE) };

	for (unsigned i = 0; i < ARRAY_SIZE(second); i++) {
		struct vhost_user_memory table = { .regions = 2, .region = { good, good } };

		table.region[1].guest_phys_addr = second[i].gpa;
		table.region[1].userspace_addr = second[i].uva;
		refuse_table(&table, 8 + 64, fds, 2);
	}
	close(fds[0]);
	close(fds[1]);
}

/* Clauses: set-mem-table-a */
static void more_memory_than_allowed_is_refused(void **state)
{
	struct vhost_user_memory table = { .regions = 1, .region = { good } };
	int fd = memfd_create("large", MFD_CLOEXEC);

	table.region[0].memory_size = 2ull << 30;
	assert_int_equal(ftruncate(fd, (off_t)table.region[0].memory_size), 0);
	rig_handshake();
	rig->dev.options.memory_max_gib = 1;
	rig_send(VHOST_USER_SET_MEM_TABLE, &table, sizeof(table), &fd, 1);
	assert_int_not_equal(rig_ack(VHOST_USER_SET_MEM_TABLE), 0);
	assert_non_null(strstr(rig->reason, "memory-max=1"));
	rig_handshake();
	rig->dev.options.memory_max_gib = 2;
	rig_send(VHOST_USER_SET_MEM_TABLE, &table, sizeof(table), &fd, 1);
	assert_int_equal(rig_ack(VHOST_USER_SET_MEM_TABLE), 0);
	assert_int_equal(device_memory(&rig->dev), 2ull << 30);
	close(fd);
}

static void a_table_must_agree_with_its_size_and_descriptors(void **state)
{
	struct vhost_user_memory table = { .regions = 1, .region = { good } };
	int fds[8];

	for (unsigned i = 0; i < 8; i++)
		fds[i] = memory_fd(MEMORY_SIZE);
	refuse_table(&table, 8 + 32, fds, 0);
	refuse_table(&table, 8 + 32, fds, 2);
	refuse_table(&table, 8, fds, 1);
	refuse_table(&table, 8 + 64, fds, 1);
	table.regions = 9;
	refuse_table(&table, sizeof(table), fds, 8);
	table.regions = UINT32_MAX;
	refuse_table(&table, sizeof(table), fds, 8);
	/* Some front-ends send room for all eight. */
	table.regions = 1;
	rig_handshake();
	rig_send(VHOST_USER_SET_MEM_TABLE, &table, sizeof(table), fds, 1);
	assert_int_equal(rig_ack(VHOST_USER_SET_MEM_TABLE), 0);
	for (unsigned i = 0; i < 8; i++) {
		table.region[i] = good;
		table.region[i].guest_phys_addr += i * MEMORY_SIZE;
		table.region[i].userspace_addr += i * MEMORY_SIZE;
	}
	table.regions = 8;
	rig_send(VHOST_USER_SET_MEM_TABLE, &table, sizeof(table), fds, 8);
	assert_int_equal(rig_ack(VHOST_USER_SET_MEM_TABLE), 0);
	assert_int_equal(rig->dev.mem->n, 8);
	for (unsigned i = 0; i < 8; i++)
		close(fds[i]);
}

static void thirty_two_slots_and_not_one_more(void **state)
{
	struct vhost_user_memory_region r = { .region = good };
	int fd = memory_fd(MEMORY_SIZE);

	rig_handshake();
	for (unsigned i = 0; i < 32; i++) {
		rig_send(VHOST_USER_ADD_MEM_REG, &r, sizeof(r), &fd, 1);
		assert_int_equal(rig_ack(VHOST_USER_ADD_MEM_REG), 0);
		r.region.guest_phys_addr += MEMORY_SIZE;
		r.region.userspace_addr += MEMORY_SIZE;
	}
	rig_send(VHOST_USER_ADD_MEM_REG, &r, sizeof(r), &fd, 1);
	assert_int_not_equal(rig_ack(VHOST_USER_ADD_MEM_REG), 0);
	close(fd);
}

#define ROUNDS 10000

/* Descriptors of replaced calls are closed a grace period late. */
static void pace(unsigned i)
{
	if (i % 250 == 249)
		rcu_drain();
}

/* Clauses: communication-b */
static void good_and_bad_descriptors_are_all_closed_in_the_end(void **state)
{
	static const uint32_t ids[] = { VHOST_USER_SET_VRING_KICK, VHOST_USER_SET_VRING_CALL,
					VHOST_USER_SET_VRING_ERR };
	int event = eventfd(0, EFD_CLOEXEC), pipes[2];
	unsigned before;

	assert_int_equal(pipe(pipes), 0);
	rig_handshake();
	assert_int_equal(rig_fd(VHOST_USER_SET_VRING_KICK, 1, event), 0);
	assert_int_equal(rig_fd(VHOST_USER_SET_VRING_CALL, 1, event), 0);
	before = rig_open_fds();
	for (unsigned i = 0; i < ARRAY_SIZE(ids); i++) {
		for (unsigned n = 0; n < ROUNDS; n++, pace(n)) {
			bool bad = n & 1;

			assert_int_equal(rig_fd(ids[i], 1, bad ? pipes[1] : event) != 0, bad);
		}
		assert_int_equal(rig_open_fds(), before);
	}
	close(event);
	close(pipes[0]);
	close(pipes[1]);
}

static void memory_sent_again_and_again_is_mapped_once(void **state)
{
	struct vhost_user_memory table = { .regions = 1, .region = { good } };
	struct vhost_user_memory_region r = { .region = good };
	int fd = memory_fd(MEMORY_SIZE);
	unsigned before, mappings = memory_mappings();

	rig_handshake();
	before = open_fds();
	for (unsigned n = 0; n < ROUNDS; n++) {
		rig_send(VHOST_USER_SET_MEM_TABLE, &table, 8 + 32, &fd, 1);
		assert_int_equal(rig_ack(VHOST_USER_SET_MEM_TABLE), 0);
		rig_send(VHOST_USER_REM_MEM_REG, &r, sizeof(r), &fd, n & 1);
		assert_int_equal(rig_ack(VHOST_USER_REM_MEM_REG), 0);
		rig_send(VHOST_USER_ADD_MEM_REG, &r, sizeof(r), &fd, 1);
		assert_int_equal(rig_ack(VHOST_USER_ADD_MEM_REG), 0);
	}
	assert_int_equal(open_fds(), before);
	assert_int_equal(memory_mappings(), mappings + 1);
	close(fd);
}

/* CVE-2020-10726, CVE-2022-0669: descriptors of requests that are not even offered. */
static void descriptors_of_refused_requests_are_closed(void **state)
{
	static const uint32_t ids[] = { VHOST_USER_SET_LOG_BASE,
					VHOST_USER_SET_LOG_FD,
					VHOST_USER_SET_BACKEND_REQ_FD,
					VHOST_USER_GET_INFLIGHT_FD,
					VHOST_USER_SET_INFLIGHT_FD,
					VHOST_USER_GPU_SET_SOCKET,
					63 };
	unsigned before;
	int fds[8];

	for (unsigned i = 0; i < 8; i++)
		fds[i] = eventfd(0, EFD_CLOEXEC);
	rig_handshake();
	before = open_fds();
	for (unsigned n = 0; n < ROUNDS; n++) {
		uint32_t id = ids[n % ARRAY_SIZE(ids)];

		rig_send(id, zeros, 24, fds, 1 + n % 8);
		assert_int_not_equal(rig_ack(id), 0);
	}
	assert_int_equal(open_fds(), before);
	assert_true(rig_alive());
	for (unsigned i = 0; i < 8; i++)
		close(fds[i]);
}

/* CVE-2019-14818: repeated, it allocated each time. */
static void sizes_sent_again_and_again_cost_nothing(void **state)
{
	struct vhost_ring *ring;

	rig_handshake();
	assert_int_equal(rig_state(VHOST_USER_SET_VRING_NUM, 0, 16), 0);
	ring = rig->dev.ring[0];
	for (unsigned n = 0; n < ROUNDS; n++)
		assert_int_equal(rig_state(VHOST_USER_SET_VRING_NUM, 0, 16 << n % 8), 0);
	assert_ptr_equal(rig->dev.ring[0], ring);
	assert_int_equal(rig->dev.rings, 1);
}

/* Those for which there was no room the kernel would close, in the thread that receives. */
static void more_descriptors_than_it_takes_hold_up_nobody(void **state)
{
	int fd[24], peer[24];

	for (unsigned i = 0; i < ARRAY_SIZE(fd); i++)
		fd[i] = lingering_socket(&peer[i]);
	rig_handshake();
	rig_send_flags(VHOST_USER_SET_MEM_TABLE, NEED, zeros, 8, fd, ARRAY_SIZE(fd));
	for (unsigned i = 0; i < ARRAY_SIZE(fd); i++)
		close(fd[i]);
	alarm(30); /* it would be an hour */
	rig_turn();
	alarm(0);
	assert_int_equal(rig->ended, 1);
	assert_non_null(strstr(rig->reason, "too many descriptors"));
	assert_true(foreign_pending(rig->dev.foreign) > 0);
	for (unsigned i = 0; i < ARRAY_SIZE(fd); i++)
		lingering_reset(peer[i]);
	rig_settle();
}

static void sessions_that_break_off_leave_nothing_behind(void **state)
{
	struct vhost_user_memory table = { .regions = 1, .region = { good } };
	int memory = memory_fd(MEMORY_SIZE), event = eventfd(0, EFD_CLOEXEC);
	unsigned before = rig_open_fds(), mappings = memory_mappings();

	for (unsigned n = 0; n < 2000; n++) {
		uint8_t half[14] = { VHOST_USER_SET_VRING_KICK, 0, 0, 0, 1, 0, 0, 0, 8 };

		rig_handshake();
		if (n % 5 >= 1)
			rig_u64(VHOST_USER_SET_FEATURES, BIT(VIRTIO_F_VERSION_1));
		if (n % 5 >= 2)
			rig_send(VHOST_USER_SET_MEM_TABLE, &table, 8 + 32, &memory, 1);
		if (n % 5 >= 3)
			rig_send(VHOST_USER_SET_VRING_CALL, zeros, 8, &event, 1);
		if (n % 5 == 4)
			rig_send_raw(half, sizeof(half), &event, 1);
		close(rig->fd);
		rig->fd = -1;
		rig_turn();
		assert_int_equal(rig->ended, 1);
		pace(n);
	}
	assert_int_equal(rig_open_fds(), before);
	assert_int_equal(memory_mappings(), mappings);
	close(memory);
	close(event);
}

static int quiet_setup(void **state)
{
	log_set_level(LOG_ERROR);
	return rig_setup(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_open, rig_close)
		T(each_request_with_each_payload_and_number_of_descriptors),
		T(no_descriptor_is_a_promise_in_both_directions),
		T(regions_that_are_nonsense_are_refused),
		T(only_memory_files_are_mapped),
		T(overlapping_regions_are_refused),
		T(more_memory_than_allowed_is_refused),
		T(a_table_must_agree_with_its_size_and_descriptors),
		T(thirty_two_slots_and_not_one_more),
		T(good_and_bad_descriptors_are_all_closed_in_the_end),
		T(memory_sent_again_and_again_is_mapped_once),
		T(descriptors_of_refused_requests_are_closed),
		T(sizes_sent_again_and_again_cost_nothing),
		T(more_descriptors_than_it_takes_hold_up_nobody),
		T(sessions_that_break_off_leave_nothing_behind),
#undef T
	};

	return cmocka_run_group_tests(tests, quiet_setup, rig_teardown);
}
