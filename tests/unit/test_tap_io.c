// SPDX-License-Identifier: Apache-2.0
/*
 * Batches of reads and writes, by io_uring and by plain calls alike: each has its own result, and
 * nothing is left under way. A pair of datagram sockets stands for the tap, and a terminal for one
 * that does not know RWF_NOWAIT.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pty.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "port/tap_io.h"

#define ROOM 64

static struct tap_io io;
static int peer;
static uint8_t buffer[TAP_IO_MAX][ROOM];
static struct iovec iov[TAP_IO_MAX];
static struct tap_op op[TAP_IO_MAX];

static bool no_uring(void)
{
	struct io_uring ring;

	if (io_uring_queue_init(2, &ring, 0))
		return true;
	io_uring_queue_exit(&ring);
	return false;
}

static void open_pair(bool uring)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, fds), 0);
	peer = fds[1];
	if (uring) {
		assert_int_equal(tap_io_open(&io, fds[0]), 0);
		assert_true(io.uring);
		/* A tap refuses what it is tried with, a socket passes it on. */
		assert_int_equal(read(peer, buffer, ROOM), 0);
	} else {
		io = (struct tap_io){ .fd = fds[0] };
	}
}

static void close_pair(void)
{
	int fd = io.fd;

	tap_io_close(&io);
	tap_io_close(&io);
	assert_int_equal(io.fd, -1);
	close(fd);
	close(peer);
}

static void ops_init(void)
{
	for (unsigned i = 0; i < TAP_IO_MAX; i++) {
		memset(buffer[i], (int)i, ROOM);
		iov[i] = (struct iovec){ buffer[i], 1 + i };
		op[i] = (struct tap_op){ .iov = &iov[i], .n = 1 };
	}
}

static void ops_init_read(void)
{
	ops_init();
	for (unsigned i = 0; i < TAP_IO_MAX; i++)
		iov[i].iov_len = ROOM;
}

/* The peer gets a message as operation `i` of ops_init() has written it. */
static void assert_peer_gets(unsigned i)
{
	uint8_t got[ROOM];

	assert_int_equal(read(peer, got, ROOM), 1 + i);
	for (unsigned k = 0; k <= i; k++)
		assert_int_equal(got[k], i);
}

static void assert_peer_gets_no_more(void)
{
	uint8_t got[ROOM];

	usleep(2000);
	assert_int_equal(read(peer, got, ROOM), -1);
	assert_int_equal(errno, EAGAIN);
}

static void reads_what_is_there(bool uring)
{
	open_pair(uring);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 5; i++)
			assert_int_equal(write(peer, "abcdefgh", i + 1), i + 1);
		ops_init_read();
		tap_io_read(&io, op, TAP_IO_MAX);
		for (unsigned i = 0; i < TAP_IO_MAX; i++)
			assert_int_equal(op[i].result, i < 5 ? (int)i + 1 : -EAGAIN);
		assert_memory_equal(buffer[4], "abcde", 5);
	}
	/* What comes later is for later reads. */
	assert_int_equal(write(peer, "later", 5), 5);
	usleep(2000);
	tap_io_read(&io, op, 1);
	assert_int_equal(op[0].result, 5);
	assert_memory_equal(buffer[0], "later", 5);
	close_pair();
}

static void writes_what_there_is_room_for(bool uring)
{
	unsigned fit = 0;
	int least = 1;

	open_pair(uring);
	ops_init();
	assert_int_equal(setsockopt(io.fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)), 0);
	tap_io_write(&io, op, TAP_IO_MAX);
	while (fit < TAP_IO_MAX && op[fit].result == (int)fit + 1)
		fit++;
	assert_in_range(fit, 1, TAP_IO_MAX - 1);
	for (unsigned i = fit; i < TAP_IO_MAX; i++)
		assert_int_equal(op[i].result, -EAGAIN);
	for (unsigned i = 0; i < fit; i++)
		assert_peer_gets(i);
	assert_peer_gets_no_more();
	close_pair();
}

static void one_that_fails_is_one(bool uring)
{
	struct iovec many[IOV_MAX + 1], pieces[3];
	uint8_t *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(nothing != MAP_FAILED);
	open_pair(uring);
	ops_init();
	for (unsigned i = 0; i <= IOV_MAX; i++)
		many[i] = (struct iovec){ buffer[0], 1 };
	for (unsigned i = 0; i < 3; i++)
		pieces[i] = (struct iovec){ buffer[5] + 2 * i, 2 };
	iov[1].iov_base = nothing;
	op[3].iov = many;
	op[3].n = IOV_MAX + 1;
	op[5].iov = pieces;
	op[5].n = 3;
	tap_io_write(&io, op, 6);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(op[i].result, i == 1 ? -EFAULT : i == 3 ? -EINVAL : (int)i + 1);
	assert_peer_gets(0);
	assert_peer_gets(2);
	assert_peer_gets(4);
	assert_peer_gets(5);
	assert_peer_gets_no_more();
	assert_true(io.uring == uring);
	close_pair();
	munmap(nothing, 4096);
}

static void closed_everything_fails(bool uring)
{
	open_pair(uring);
	close_pair();
	ops_init();
	tap_io_read(&io, op, 2);
	assert_int_equal(op[0].result, -EBADF);
	assert_int_equal(op[1].result, -EBADF);
	tap_io_write(&io, op, 1);
	assert_int_equal(op[0].result, -EBADF);
}

/* Linux 5.17 to 6.3: io_uring would wait until there is something to read. */
static void without_nowait_nothing_is_left_under_way(void **state)
{
	struct termios raw;
	int fd;

	if (no_uring())
		skip();
	assert_int_equal(openpty(&peer, &fd, NULL, NULL, NULL), 0);
	assert_int_equal(tcgetattr(fd, &raw), 0);
	cfmakeraw(&raw);
	assert_int_equal(tcsetattr(fd, TCSANOW, &raw), 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(tap_io_open(&io, fd), 0);
	assert_true(io.uring);
	assert_int_equal(io.rw_flags, 0);
	for (unsigned round = 0; round < 100; round++) {
		ops_init_read();
		tap_io_read(&io, op, TAP_IO_MAX);
		for (unsigned i = 0; i < TAP_IO_MAX; i++)
			assert_int_equal(op[i].result, -EAGAIN);
		assert_int_equal(write(peer, "abc", 3), 3);
		usleep(100);
		tap_io_read(&io, op, 2);
		assert_int_equal(op[0].result, 3);
		assert_int_equal(op[1].result, -EAGAIN);
		assert_memory_equal(buffer[0], "abc", 3);
		assert_int_equal(buffer[1][0], 1); /* untouched */
	}
	close_pair();
}

/* What else a ring could do for somebody who has taken the process over. */
static void a_ring_does_nothing_else(void **state)
{
	struct iovec some = { buffer, sizeof(buffer) };
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;

	if (no_uring())
		skip();
	open_pair(true);
	for (unsigned op_code = 0; op_code < IORING_OP_LAST; op_code++) {
		if (op_code == IORING_OP_READV || op_code == IORING_OP_WRITEV ||
		    op_code == IORING_OP_ASYNC_CANCEL)
			continue;
		sqe = io_uring_get_sqe(&io.ring);
		io_uring_prep_rw((int)op_code, sqe, -1, NULL, 0, 0);
		assert_int_equal(io_uring_submit_and_wait(&io.ring, 1), 1);
		assert_int_equal(io_uring_peek_cqe(&io.ring, &cqe), 0);
		assert_int_equal(cqe->res, -EACCES);
		io_uring_cqe_seen(&io.ring, cqe);
	}
	assert_int_equal(io_uring_register_buffers(&io.ring, &some, 1), -EACCES);
	close_pair();
}

#define BOTH(name)                                \
	static void name##_by_uring(void **state) \
	{                                         \
		if (no_uring())                   \
			skip();                   \
		name(true);                       \
	}                                         \
	static void name##_by_calls(void **state) \
	{                                         \
		name(false);                      \
	}

BOTH(reads_what_is_there)
BOTH(writes_what_there_is_room_for)
BOTH(one_that_fails_is_one)
BOTH(closed_everything_fails)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_is_there_by_uring),
		cmocka_unit_test(reads_what_is_there_by_calls),
		cmocka_unit_test(writes_what_there_is_room_for_by_uring),
		cmocka_unit_test(writes_what_there_is_room_for_by_calls),
		cmocka_unit_test(one_that_fails_is_one_by_uring),
		cmocka_unit_test(one_that_fails_is_one_by_calls),
		cmocka_unit_test(closed_everything_fails_by_uring),
		cmocka_unit_test(closed_everything_fails_by_calls),
		cmocka_unit_test(without_nowait_nothing_is_left_under_way),
		cmocka_unit_test(a_ring_does_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
