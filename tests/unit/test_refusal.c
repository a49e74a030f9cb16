// SPDX-License-Identifier: Apache-2.0
/* What is refused to a front-end is counted once, by one name. */
#include "session_rig.h"

#include "base/clock.h"

struct rig *rig;

static void each_has_a_name_of_its_own_a_text_and_an_errno_of_its_own(void **state)
{
	for (unsigned i = 0; i < REFUSAL_COUNT; i++) {
		assert_true(strlen(refusal_reasons[i].name) > 3 &&
			    strlen(refusal_reasons[i].text) > 8);
		assert_true(strspn(refusal_reasons[i].name, "abcdefghijklmnopqrstuvwxyz_") ==
			    strlen(refusal_reasons[i].name));
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(refusal_reasons[i].name, refusal_reasons[k].name);
	}
	assert_int_equal(refusal_of(-EPROTO), REFUSAL_MALFORMED);
	assert_int_equal(refusal_of(-EAGAIN), REFUSAL_CALLS);
	assert_int_equal(refusal_of(-ENOMEM), REFUSAL_HOST);
}

static void another_version(void)
{
	rig_send_flags(VHOST_USER_GET_FEATURES, 3, NULL, 0, NULL, 0);
}

static void wrong_size(void)
{
	rig_send(VHOST_USER_GET_FEATURES, "12345678", 8, NULL, 0);
}

static void too_many_descriptors(void)
{
	const int fds[] = { 0, 0 };
	uint64_t ring = 0;

	rig_send(VHOST_USER_SET_VRING_KICK, &ring, sizeof(ring), fds, 2);
}

static void half_a_message(void)
{
	rig_send_raw("half", 4, NULL, 0);
	rig_turn();
	close(rig->fd);
	rig->fd = -1;
}

static void unknown_request(void)
{
	rig_send(63, NULL, 0, NULL, 0);
}

static void unknown_features(void)
{
	rig_u64(VHOST_USER_SET_FEATURES, UINT64_MAX);
}

static void odd_size(void)
{
	rig_state(VHOST_USER_SET_VRING_NUM, 0, 3);
}

static void large_ring(void)
{
	rig->dev.options.size_max = 128;
	rig_state(VHOST_USER_SET_VRING_NUM, 0, 256);
}

static void no_eventfd(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	rig_fd(VHOST_USER_SET_VRING_CALL, 0, fd);
	close(fd);
}

/* Adds `n` regions of `size` bytes, each `step` behind the other, of one file of a page. */
static void add_regions(int fd, unsigned n, uint64_t size, uint64_t step)
{
	for (unsigned i = 0; i < n; i++) {
		struct vhost_user_memory_region m = {
			.region = { .guest_phys_addr = MEMORY_GPA + i * step,
				    .memory_size = size,
				    .userspace_addr = MEMORY_UVA + i * step },
		};

		rig_send(VHOST_USER_ADD_MEM_REG, &m, sizeof(m), &fd, 1);
		rig_ack(VHOST_USER_ADD_MEM_REG);
	}
}

static void no_memory_file(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	add_regions(fd, 1, 4096, 0);
	close(fd);
}

static void regions(unsigned n, uint64_t file, uint64_t size, uint64_t step)
{
	int fd = memory_fd(file);

	add_regions(fd, n, size, step);
	close(fd);
}

static void beyond_its_file(void)
{
	regions(1, 4096, 8192, 0);
}

static void overlapping(void)
{
	regions(2, 8192, 8192, 4096);
}

static void too_many_regions(void)
{
	regions(GUEST_REGIONS_MAX + 1, 4096, 4096, 4096);
}

static void too_much_memory(void)
{
	rig->dev.options.memory_max_gib = 1;
	regions(1, 2ull << 30, 2ull << 30, 0);
}

static void ring_outside_of_memory(void)
{
	struct vhost_user_vring_addr addr = { .desc = MEMORY_UVA + 4096,
					      .avail = MEMORY_UVA + 4096,
					      .used = MEMORY_UVA + 4096 };

	regions(1, 4096, 4096, 0);
	rig_state(VHOST_USER_SET_VRING_NUM, 0, 16);
	rig_send(VHOST_USER_SET_VRING_ADDR, &addr, sizeof(addr), NULL, 0);
}

static void calls_too_fast(void)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	rig->dev.callee.retired = VHOST_CALLS_RETIRED_MAX;
	rig_fd(VHOST_USER_SET_VRING_CALL, 0, fd);
	rig->dev.callee.retired = 0;
	close(fd);
}

static void never_reads(void)
{
	for (unsigned i = 0; i < 100000 && rig_alive(); i++) {
		rig_send_flags(VHOST_USER_GET_FEATURES, VHOST_USER_VERSION, NULL, 0, NULL, 0);
		uv_run(&rig->loop, UV_RUN_NOWAIT);
	}
}

static void memory_goes(void)
{
	session_end(rig->session, REFUSAL_MEMORY_GONE, "gone");
}

static void sends_too_much(void)
{
	rig->dev.options.messages_max = 1000;
	rig->dev.messages.paid_until = clock_ns() + 8100 * 1000000ull;
	rig_send(VHOST_USER_GET_FEATURES, NULL, 0, NULL, 0);
}

static const struct {
	const char *name;
	enum refusal refusal;
	void (*provoke)(void);
} rows[] = {
#define R(NAME, f)                    \
	{                             \
#f, REFUSAL_##NAME, f \
	}
	R(MALFORMED, another_version),
	R(MALFORMED, wrong_size),
	R(MALFORMED, too_many_descriptors),
	R(MALFORMED, half_a_message),
	R(NOT_OFFERED, unknown_request),
	R(NOT_OFFERED, unknown_features),
	R(VALUE, odd_size),
	R(VALUE, beyond_its_file),
	R(VALUE, ring_outside_of_memory),
	R(OVERLAP, overlapping),
	R(DESCRIPTOR, no_eventfd),
	R(DESCRIPTOR, no_memory_file),
	R(MEMORY_MAX, too_much_memory),
	R(NO_ROOM, too_many_regions),
	R(QUEUE_SIZE_MAX, large_ring),
	R(CALLS, calls_too_fast),
	R(UNREAD, never_reads),
	R(MEMORY_GONE, memory_goes),
	R(MESSAGES_MAX, sends_too_much),
#undef R
};

static void each_is_counted_once_and_by_its_name(void **state)
{
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		rig_open(NULL);
		rig_handshake();
		rows[i].provoke();
		rig_turn();
		for (unsigned k = 1; k < REFUSAL_COUNT; k++) {
			if (rig->dev.refusals[k] != (k == rows[i].refusal))
				fail_msg("%s: %s is %llu", rows[i].name, refusal_reasons[k].name,
					 (unsigned long long)rig->dev.refusals[k]);
		}
		rig_close(NULL);
	}
}

static void a_session_as_it_should_be_is_refused_nothing(void **state)
{
	rig_open(NULL);
	rig_handshake();
	assert_int_equal(rig_state(VHOST_USER_SET_VRING_NUM, 0, 256), 0);
	regions(2, 4096, 4096, 4096);
	rig_connect();
	for (unsigned k = 1; k < REFUSAL_COUNT; k++)
		assert_int_equal(rig->dev.refusals[k], 0);
	rig_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_has_a_name_of_its_own_a_text_and_an_errno_of_its_own),
		cmocka_unit_test(each_is_counted_once_and_by_its_name),
		cmocka_unit_test(a_session_as_it_should_be_is_refused_nothing),
	};

	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
