// SPDX-License-Identifier: Apache-2.0
/* The control socket's server, with clients that misbehave. */
#include "rpc_rig.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/server.h"

static struct rig {
	char dir[48], path[64];
	uv_loop_t loop;
	struct server *server;
} rig;

static char *serve(void *ctx, const char *line, size_t len)
{
	return serve_bytes(line, len);
}

static int rig_open(void **state)
{
	struct unix_socket socket;
	struct error err;

	snprintf(rig.dir, sizeof(rig.dir), "/tmp/ringway-test-%d-XXXXXX", getpid());
	if (!mkdtemp(rig.dir))
		return -1;
	snprintf(rig.path, sizeof(rig.path), "%s/control.sock", rig.dir);
	uv_loop_init(&rig.loop);
	calls = 0;
	memset(refused, 0, sizeof(refused));
	return control_socket_listen(rig.path, &socket, &err) ||
	       server_open(&rig.loop, &socket, serve, NULL, refused, &rig.server, &err);
}

static int rig_close(void **state)
{
	server_close(rig.server);
	uv_run(&rig.loop, UV_RUN_DEFAULT);
	/* The socket's file is gone, so the directory is empty, and no handle is left. */
	return uv_loop_close(&rig.loop) || rmdir(rig.dir);
}

static int rig_connect(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, rig.path);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static void rig_run(void)
{
	for (int i = 0; i < 20; i++)
		uv_run(&rig.loop, UV_RUN_NOWAIT);
}

/* Sends all, running the loop as the socket fills. False: the server has closed. */
static bool rig_send(int fd, const char *text, size_t len)
{
	for (int tries = 0; len && tries < 1000; tries++) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			return false;
		if (n > 0) {
			text += n;
			len -= (size_t)n;
		}
		rig_run();
	}
	return !len;
}

/* Reads what is there; -1 if the server has closed after it. */
static int rig_receive(int fd, char *buffer, size_t size)
{
	size_t used = 0;
	ssize_t n;

	do {
		rig_run();
		n = recv(fd, buffer + used, size - 1 - used, 0);
		used += n > 0 ? (size_t)n : 0;
	} while (n > 0 && used < size - 1);
	buffer[used] = '\0';
	return n == 0 || (n < 0 && errno == ECONNRESET) ? -1 : (int)used;
}

#define ECHO_1	 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"}\n"
#define ANSWER_1 "{\"jsonrpc\":\"2.0\",\"result\":{},\"id\":1}\n"

static void a_line_may_come_in_pieces(void **state)
{
	char text[256];
	int fd = rig_connect();

	for (const char *p = ECHO_1; *p; p++) {
		assert_int_equal(rig_receive(fd, text, sizeof(text)), 0);
		assert_true(rig_send(fd, p, 1));
	}
	rig_receive(fd, text, sizeof(text));
	assert_string_equal(text, ANSWER_1);
	close(fd);
}

static void requests_may_be_sent_ahead(void **state)
{
	char text[256];
	int fd = rig_connect();

	assert_true(rig_send(fd, ECHO_1 "\n{\n" ECHO_1, strlen(ECHO_1 "\n{\n" ECHO_1)));
	rig_receive(fd, text, sizeof(text));
	assert_string_equal(text,
			    ANSWER_1 "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,\"message\":"
				     "\"not JSON\"},\"id\":null}\n" ANSWER_1);
	close(fd);
}

/* Whoever sends many at once would hold up all others, guests' front-ends among them. */
static void everybody_has_a_turn_between_two_requests(void **state)
{
	static const char notification[] = "{\"jsonrpc\":\"2.0\",\"method\":\"echo\"}\n";
	const unsigned n = 100;
	int fd = rig_connect();

	rig_run(); /* it is admitted */
	for (unsigned i = 0; i < n; i++) {
		const char *request = i < n / 2 ? ECHO_1 : notification;

		assert_int_equal(send(fd, request, strlen(request), 0), strlen(request));
	}
	for (unsigned turns = 0; turns < 10 * n && calls < n; turns++) {
		unsigned before = calls;

		uv_run(&rig.loop, UV_RUN_NOWAIT);
		/* From 1.45 on libuv looks up to eight times in a turn for what has gone. */
		assert_in_range(calls - before, 0, 10);
	}
	assert_int_equal(calls, n);
	close(fd);
}

#define LARGE "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"large\"}\n"

static void who_has_said_all_still_gets_the_answers(void **state)
{
	char *text = malloc(1 << 20);
	size_t total = 0;
	int fd = rig_connect(), n;

	for (int i = 0; i < 8; i++)
		assert_int_equal(send(fd, LARGE, strlen(LARGE), 0), strlen(LARGE));
	assert_int_equal(send(fd, ECHO_1 "{\"half", strlen(ECHO_1 "{\"half"), 0),
			 strlen(ECHO_1 "{\"half"));
	shutdown(fd, SHUT_WR);
	rig_run();
	do {
		n = rig_receive(fd, text, 1 << 20);
		total += strlen(text);
	} while (n > 0);
	assert_int_equal(n, -1);
	assert_int_equal(calls, 9);
	assert_true(total > 8 * 65535);
	free(text);
	close(fd);
}

static void a_huge_line_ends_the_connection(void **state)
{
	char *huge = malloc(3 * SERVER_LINE_MAX), text[256];
	int fd = rig_connect(), other = rig_connect();

	memset(huge, 'x', 3 * SERVER_LINE_MAX);
	rig_send(fd, huge, 3 * SERVER_LINE_MAX);
	assert_int_equal(rig_receive(fd, text, sizeof(text)), -1);
	assert_non_null(strstr(text, "-32600"));
	assert_non_null(strstr(text, "too long"));
	assert_refused(CONTROL_REFUSAL_LINE_MAX, "a huge line");
	/* Nobody else has noticed. */
	assert_true(rig_send(other, ECHO_1, strlen(ECHO_1)));
	rig_receive(other, text, sizeof(text));
	assert_string_equal(text, ANSWER_1);
	free(huge);
	close(fd);
	close(other);
}

static void the_longest_line_is_served(void **state)
{
	char *line = malloc(SERVER_LINE_MAX), text[256];
	int fd = rig_connect();

	memset(line, ' ', SERVER_LINE_MAX);
	memcpy(line, ECHO_1, strlen(ECHO_1) - 1);
	line[SERVER_LINE_MAX - 1] = '\n';
	assert_true(rig_send(fd, line, SERVER_LINE_MAX));
	rig_receive(fd, text, sizeof(text));
	assert_string_equal(text, ANSWER_1);
	free(line);
	close(fd);
}

static void who_does_not_read_is_not_served_and_then_closed(void **state)
{
	struct pollfd closed = { .fd = rig_connect() };
	uint64_t start = clock_ns(), waited;

	for (int i = 0; i < 200; i++)
		assert_true(send(closed.fd, LARGE, strlen(LARGE), 0) > 0);
	rig_run();
	/* What the sockets hold, the bound, and one answer more; not all 200. */
	assert_in_range(calls, 4, 30);
	do {
		uv_run(&rig.loop, UV_RUN_NOWAIT);
		waited = (clock_ns() - start) / 1000000000u;
	} while (!poll(&closed, 1, 20) && waited < SERVER_STALL_SECONDS + 5);
	assert_in_range(waited, SERVER_STALL_SECONDS - 1, SERVER_STALL_SECONDS + 4);
	assert_in_range(calls, 4, 30);
	assert_refused(CONTROL_REFUSAL_UNREAD, "answers that nobody reads");
	close(closed.fd);
}

static void who_reads_late_gets_all_of_it(void **state)
{
	char *text = malloc(1 << 20);
	size_t total = 0;
	int fd = rig_connect();

	for (int i = 0; i < 40; i++)
		assert_true(rig_send(fd, LARGE, strlen(LARGE)));
	assert_in_range(calls, 4, 30);
	for (int n; (n = rig_receive(fd, text, 1 << 20)) > 0;)
		total += (size_t)n;
	assert_int_equal(calls, 40);
	assert_true(total > 40 * 65535);
	free(text);
	close(fd);
}

static void expect_echo(int fd)
{
	char text[256];

	assert_true(rig_send(fd, ECHO_1, strlen(ECHO_1)));
	rig_receive(fd, text, sizeof(text));
	assert_string_equal(text, ANSWER_1);
}

static void connect_all(int fds[SERVER_CLIENTS_MAX])
{
	for (int i = 0; i < SERVER_CLIENTS_MAX; i++) {
		fds[i] = rig_connect();
		rig_run();
	}
}

static void close_all(const int fds[SERVER_CLIENTS_MAX])
{
	for (int i = 0; i < SERVER_CLIENTS_MAX; i++)
		close(fds[i]);
}

static void clients_are_bounded(void **state)
{
	int fds[SERVER_CLIENTS_MAX], one;
	char text[256];

	connect_all(fds);
	/* Each has answers that it did not read yet: nobody's place is free. */
	for (int i = 0; i < SERVER_CLIENTS_MAX; i++) {
		for (int n = 0; n < 8; n++)
			assert_true(send(fds[i], LARGE, strlen(LARGE), 0) > 0);
	}
	rig_run();
	one = rig_connect();
	assert_int_equal(rig_receive(one, text, sizeof(text)), -1);
	assert_non_null(strstr(text, "too many clients"));
	assert_refused(CONTROL_REFUSAL_CLIENTS_MAX, "one client more");
	close(one);
	close(fds[0]);
	rig_run();
	fds[0] = rig_connect();
	expect_echo(fds[0]);
	close_all(fds);
}

static void who_says_nothing_makes_room_for_others(void **state)
{
	int fds[SERVER_CLIENTS_MAX], one;
	char text[256];

	connect_all(fds);
	assert_true(rig_send(fds[1], "{\"half", strlen("{\"half")));
	for (int i = 2; i < SERVER_CLIENTS_MAX; i++)
		expect_echo(fds[i]);
	expect_echo(fds[0]);
	/* It is the one with half a request now that was silent for the longest time. */
	one = rig_connect();
	expect_echo(one);
	assert_refused(CONTROL_REFUSAL_SILENT, "one client more");
	assert_int_equal(rig_receive(fds[1], text, sizeof(text)), -1);
	assert_string_equal(text, "");
	for (int i = 0; i < SERVER_CLIENTS_MAX; i++) {
		if (i != 1)
			expect_echo(fds[i]);
	}
	close(one);
	close_all(fds);
}

static void a_lack_of_descriptors_is_counted_and_the_client_served_later(void **state)
{
	struct rlimit limit, none;
	char text[256];
	int fd = rig_connect();

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	rig_run();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_refused(CONTROL_REFUSAL_HOST, "no descriptors");
	assert_true(rig_send(fd, ECHO_1, strlen(ECHO_1)));
	for (int i = 0; i < 1000 && !rig_receive(fd, text, sizeof(text)); i++)
		usleep(20000);
	assert_string_equal(text, ANSWER_1);
	close(fd);
}

static void who_goes_at_once_harms_nobody(void **state)
{
	for (int i = 0; i < 100; i++) {
		int fd = rig_connect();

		assert_true(send(fd, LARGE, strlen(LARGE), 0) > 0);
		if (i & 1)
			rig_run();
		close(fd);
	}
	rig_run();
}

/* --- the socket ----------------------------------------------------------------------------- */

static void the_socket_is_its_owners_alone(void **state)
{
	struct stat st;

	assert_int_equal(stat(rig.path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void a_second_switch_is_refused(void **state)
{
	struct unix_socket second;
	struct error err;

	assert_int_equal(control_socket_listen(rig.path, &second, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, "a switch answers"));
}

static void a_stale_socket_is_replaced(void **state)
{
	char path[64];
	struct unix_socket socket;
	struct error err;

	snprintf(path, sizeof(path), "%s/stale.sock", rig.dir);
	assert_int_equal(control_socket_listen(path, &socket, &err), 0);
	close(socket.fd);
	assert_int_equal(control_socket_listen(path, &socket, &err), 0);
	unix_socket_close(&socket);
	assert_int_equal(access(path, F_OK), -1);
}

static void the_socket_of_a_successor_is_not_removed(void **state)
{
	char path[64];
	struct unix_socket first, second;
	struct error err;

	snprintf(path, sizeof(path), "%s/second.sock", rig.dir);
	assert_int_equal(control_socket_listen(path, &first, &err), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(control_socket_listen(path, &second, &err), 0);
	unix_socket_close(&first);
	assert_int_equal(access(path, F_OK), 0);
	unix_socket_close(&second);
	assert_int_equal(access(path, F_OK), -1);
}

static void what_is_no_socket_is_left_alone(void **state)
{
	char path[64], target[64];
	struct unix_socket socket;
	struct error err;

	snprintf(path, sizeof(path), "%s/file", rig.dir);
	snprintf(target, sizeof(target), "%s/link", rig.dir);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(symlink(rig.path, target), 0);
	assert_int_equal(control_socket_listen(path, &socket, &err), -EEXIST);
	assert_int_equal(control_socket_listen(target, &socket, &err), -EEXIST);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(target), 0);
}

static void long_and_empty_paths_are_refused(void **state)
{
	char path[200];
	struct unix_socket socket;
	struct error err;

	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	path[0] = '/';
	assert_int_equal(control_socket_listen(path, &socket, &err), -ENAMETOOLONG);
	assert_int_equal(control_socket_listen("", &socket, &err), -EINVAL);
}

#define with_rig(test) cmocka_unit_test_setup_teardown(test, rig_open, rig_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_rig(a_line_may_come_in_pieces),
		with_rig(requests_may_be_sent_ahead),
		with_rig(everybody_has_a_turn_between_two_requests),
		with_rig(who_has_said_all_still_gets_the_answers),
		with_rig(a_huge_line_ends_the_connection),
		with_rig(the_longest_line_is_served),
		with_rig(who_does_not_read_is_not_served_and_then_closed),
		with_rig(who_reads_late_gets_all_of_it),
		with_rig(clients_are_bounded),
		with_rig(who_says_nothing_makes_room_for_others),
		with_rig(a_lack_of_descriptors_is_counted_and_the_client_served_later),
		with_rig(who_goes_at_once_harms_nobody),
		with_rig(the_socket_is_its_owners_alone),
		with_rig(a_second_switch_is_refused),
		with_rig(a_stale_socket_is_replaced),
		with_rig(the_socket_of_a_successor_is_not_removed),
		with_rig(what_is_no_socket_is_left_alone),
		cmocka_unit_test(long_and_empty_paths_are_refused),
	};

	signal(SIGPIPE, SIG_IGN); /* as `ringway run` does */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
