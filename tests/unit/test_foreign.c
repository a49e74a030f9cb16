// SPDX-License-Identifier: Apache-2.0
/* Descriptors that a front-end sent: which are what, and that closing one holds up nobody. */
#include "lingering.h"
#include "vhost_rig.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "vhost/foreign.h"

#define WAIT_NS 5000000000ull

static void only_an_eventfd_is_one(void **state)
{
	int fds[2], event = eventfd(0, EFD_CLOEXEC);
	char folder[] = "/tmp/ringway-test-XXXXXX", name[64];
	int file;

	assert_non_null(mkdtemp(folder));
	snprintf(name, sizeof(name), "%s/anon_inode:[eventfd]", folder);
	file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(file >= 0);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(foreign_is_eventfd(event), true);
	assert_int_equal(foreign_is_eventfd(fds[0]), false);
	assert_int_equal(foreign_is_eventfd(file), false);
	assert_true(foreign_is_eventfd(1000) < 0);
	unlink(name);
	rmdir(folder);
	close(file);
	close(event);
	close(fds[0]);
	close(fds[1]);
}

static void only_shared_memory_is_memory(void **state)
{
	int memory = memory_fd(4096), zero = open("/dev/zero", O_RDWR), exe;

	exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(guest_is_memory_file(memory));
	assert_false(guest_is_memory_file(zero));
	assert_false(guest_is_memory_file(exe));
	close(memory);
	close(zero);
	close(exe);
}

static void a_close_that_lasts_holds_up_nobody(void **state)
{
	struct foreign *f = NULL;
	uint64_t end = clock_ns() + WAIT_NS;
	int peer, fd = lingering_socket(&peer), other = open("/dev/null", O_RDWR);

	assert_int_equal(foreign_pending(f), 0);
	foreign_close(&f, &fd, 1);
	foreign_close(&f, &other, 1);
	while (foreign_pending(f) > 1 && clock_ns() < end)
		usleep(1000);
	assert_int_equal(foreign_pending(f), 1); /* others are not held up either */
	lingering_reset(peer);
	while (foreign_pending(f) && clock_ns() < end)
		usleep(1000);
	assert_int_equal(foreign_pending(f), 0);
	foreign_put(f);
}

/* What was sent and not read goes with a connection, and takes as long. */
static void nor_does_what_a_connection_still_has(void **state)
{
	struct foreign *f = NULL;
	uint64_t end = clock_ns() + WAIT_NS;
	int pair[2], empty[2], peer;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, empty), 0);
	foreign_hang_up(&f, empty[0]);
	assert_null(f);
	assert_int_equal(fcntl(empty[0], F_GETFD), -1);
	close(empty[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	peer = lingering_sent(pair[1]);
	foreign_hang_up(&f, pair[0]);
	assert_int_equal(foreign_pending(f), 1);
	assert_int_equal(send(pair[1], "", 1, MSG_NOSIGNAL), -1);
	close(pair[1]);
	lingering_reset(peer);
	while (foreign_pending(f) && clock_ns() < end)
		usleep(1000);
	assert_int_equal(foreign_pending(f), 0);
	foreign_put(f);
}

static void who_goes_first_leaves_it_to_end(void **state)
{
	struct foreign *f = NULL;
	int peer, fd = lingering_socket(&peer);

	foreign_close(&f, &fd, 1);
	assert_int_equal(foreign_pending(f), 1);
	foreign_put(f);
	lingering_reset(peer);
	for (unsigned i = 0; i < 5000 && fcntl(fd, F_GETFD) >= 0; i++)
		usleep(1000);
	assert_true(fcntl(fd, F_GETFD) < 0);
}

static void what_is_known_is_closed_at_once(void **state)
{
	struct foreign *f = NULL;
	int fds[4], before = (int)open_fds();

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	fds[2] = eventfd(0, EFD_CLOEXEC);
	fds[3] = memory_fd(4096);
	foreign_close(&f, fds, 4);
	assert_int_equal(open_fds(), before);
	assert_null(f);
}

static int large = -1;

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	if (fd == load_relaxed(&large))
		assert_int_not_equal(gettid(), getpid());
	return __real_close(fd);
}

/* Who is the last to close it frees its pages, which lasts, but it always ends: it does not count.
 */
static void nor_does_memory_that_is_large(void **state)
{
	struct foreign *f = NULL;
	uint64_t end = clock_ns() + WAIT_NS;
	int fd = memory_fd(32u << 20);

	assert_int_equal(fallocate(fd, 0, 0, 32u << 20), 0);
	store_relaxed(&large, fd);
	foreign_close(&f, &fd, 1);
	assert_null(f);
	while (fcntl(fd, F_GETFD) >= 0 && clock_ns() < end)
		usleep(1000);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	store_relaxed(&large, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_an_eventfd_is_one),
		cmocka_unit_test(only_shared_memory_is_memory),
		cmocka_unit_test(a_close_that_lasts_holds_up_nobody),
		cmocka_unit_test(nor_does_what_a_connection_still_has),
		cmocka_unit_test(nor_does_memory_that_is_large),
		cmocka_unit_test(who_goes_first_leaves_it_to_end),
		cmocka_unit_test(what_is_known_is_closed_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
