// SPDX-License-Identifier: Apache-2.0
/* Descriptors that a front-end sent: which are what, and that closing one holds up nobody. */
#include "vhost_rig.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
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

/* A connection whose close waits for data that its peer does not take; *ret_peer releases it. */
static int lingering_socket(int *ret_peer)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger forever = { .l_onoff = 1, .l_linger = 3600 };
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	static char bytes[1 << 16];
	socklen_t len = sizeof(at);

	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	*ret_peer = accept(listener, NULL, NULL);
	close(listener);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &forever, sizeof(forever)), 0);
	return fd;
}

static void reset(int peer)
{
	struct linger now = { .l_onoff = 1 };

	setsockopt(peer, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(peer);
}

static void a_close_that_lasts_holds_up_nobody(void **state)
{
	struct foreign *f = NULL;
	uint64_t end = clock_ns() + WAIT_NS;
	int peer, fd = lingering_socket(&peer), other = open("/dev/null", O_RDWR);

	assert_int_equal(foreign_pending(f), 0);
	foreign_close(&f, fd);
	foreign_close(&f, other);
	while (foreign_pending(f) > 1 && clock_ns() < end)
		usleep(1000);
	assert_int_equal(foreign_pending(f), 1); /* others are not held up either */
	reset(peer);
	while (foreign_pending(f) && clock_ns() < end)
		usleep(1000);
	assert_int_equal(foreign_pending(f), 0);
	foreign_put(f);
}

static void who_goes_first_leaves_it_to_end(void **state)
{
	struct foreign *f = NULL;
	int peer, fd = lingering_socket(&peer);

	foreign_close(&f, fd);
	assert_int_equal(foreign_pending(f), 1);
	foreign_put(f);
	reset(peer);
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
	for (unsigned i = 0; i < 4; i++)
		foreign_close(&f, fds[i]);
	assert_int_equal(open_fds(), before);
	assert_null(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_an_eventfd_is_one),
		cmocka_unit_test(only_shared_memory_is_memory),
		cmocka_unit_test(a_close_that_lasts_holds_up_nobody),
		cmocka_unit_test(who_goes_first_leaves_it_to_end),
		cmocka_unit_test(what_is_known_is_closed_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
