// SPDX-License-Identifier: Apache-2.0
/* Endpoints in a directory of their own: files, modes, who is unlinked and who is not, retrying. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/inherit.h"
#include "base/unix_socket.h"
#include "vhost/socket.h"

static struct rig {
	uv_loop_t loop;
	struct endpoint *endpoint;
	char dir[48];
	struct error err;
	unsigned connected, waits, others;
	int fd; /* given away last */
	char waiting[256];
	bool end_at_once;	/* the session ends before it has begun */
	bool close_from_within; /* the endpoint is closed by its own hook */
} r;

static void on_connected(void *ctx, int fd)
{
	r.connected++;
	if (r.fd >= 0)
		close(r.fd);
	r.fd = fd;
	if (r.end_at_once) {
		close(fd);
		r.fd = -1;
		endpoint_resume(r.endpoint);
	}
	if (r.close_from_within) {
		endpoint_close(r.endpoint);
		r.endpoint = NULL;
	}
}

static void on_waiting(void *ctx, const char *text)
{
	r.waits++;
	snprintf(r.waiting, sizeof(r.waiting), "%s", text);
}

static void on_another(void *ctx)
{
	r.others++;
}

static const struct endpoint_hooks hooks = { on_connected, on_waiting, on_another };

static int setup(void **state)
{
	memset(&r, 0, sizeof(r));
	r.fd = -1;
	uv_loop_init(&r.loop);
	snprintf(r.dir, sizeof(r.dir), "/tmp/ringway-test-%d-XXXXXX", getpid());
	assert_non_null(mkdtemp(r.dir));
	assert_int_equal(chdir(r.dir), 0);
	return 0;
}

static void turn(void)
{
	for (unsigned i = 0; i < 4; i++)
		uv_run(&r.loop, UV_RUN_NOWAIT);
}

static void turn_for(unsigned ms)
{
	uint64_t until = clock_ns() + ms * 1000000ull;

	while (clock_ns() < until) {
		uv_run(&r.loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
}

static void close_endpoint(void)
{
	if (r.endpoint)
		endpoint_close(r.endpoint);
	r.endpoint = NULL;
	turn();
}

static int teardown(void **state)
{
	char command[64];

	close_endpoint();
	if (r.fd >= 0)
		close(r.fd);
	assert_int_equal(uv_loop_close(&r.loop), 0); /* no handle is left */
	assert_int_equal(chdir("/"), 0);
	snprintf(command, sizeof(command), "rm -r %s", r.dir);
	return system(command);
}

static int open_endpoint(struct endpoint_config config)
{
	return endpoint_open(&r.loop, &config, &hooks, NULL, &r.endpoint, &r.err);
}

static int open_listen(const char *path, mode_t mode)
{
	return open_endpoint(
		(struct endpoint_config){ .listen = path, .fd = -1, .mode = mode, .group = -1 });
}

static int open_connect(const char *path)
{
	return open_endpoint((struct endpoint_config){ .connect = path, .fd = -1, .group = -1 });
}

static struct sockaddr_un address(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	return addr;
}

/* A socket of somebody else's at this path; listening, or the leavings of a crash. */
static int foreign(const char *path, bool listening)
{
	struct sockaddr_un addr = address(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	if (listening)
		assert_int_equal(listen(fd, 4), 0);
	return fd;
}

static int connect_to(const char *path)
{
	struct sockaddr_un addr = address(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	return st.st_mode & 07777;
}

static bool exists(const char *path)
{
	struct stat st;

	return !lstat(path, &st);
}

static bool answers(const char *path)
{
	int fd = unix_socket_connect(path, SOCK_NONBLOCK);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || fd == -EAGAIN;
}

static void the_mode_is_the_one_asked_for_whatever_the_umask(void **state)
{
	static const mode_t umasks[] = { 0, 022, 077, 0777 }, modes[] = { 0600, 0660, 0666, 0777 };
	mode_t before = umask(0);

	for (unsigned u = 0; u < ARRAY_SIZE(umasks); u++) {
		for (unsigned m = 0; m < ARRAY_SIZE(modes); m++) {
			umask(umasks[u]);
			assert_int_equal(open_listen("s", modes[m]), 0);
			assert_int_equal(mode_of("s"), modes[m]);
			assert_int_equal(umask(0), umasks[u]);
			close_endpoint();
			assert_false(exists("s"));
		}
	}
	umask(before);
}

static void the_group_is_the_one_asked_for_or_there_is_no_socket(void **state)
{
	struct endpoint_config config = { .listen = "s", .fd = -1, .mode = 0660, .group = 12345 };
	struct stat st;

	if (geteuid()) {
		assert_int_equal(open_endpoint(config), -EPERM);
		assert_non_null(strstr(r.err.text, "in that group"));
		assert_false(exists("s"));
		return;
	}
	assert_int_equal(open_endpoint(config), 0);
	assert_int_equal(stat("s", &st), 0);
	assert_int_equal(st.st_gid, 12345);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(st.st_mode & 07777, 0660);
	close_endpoint();
	assert_int_equal(chmod(r.dir, 0777), 0);
	assert_int_equal(seteuid(65534), 0);
	assert_int_equal(open_endpoint(config), -EPERM);
	assert_int_equal(seteuid(0), 0);
	assert_non_null(strstr(r.err.text, "in that group"));
	assert_false(exists("s"));
}

/* Descriptors run out when the file has been made. */
static void a_socket_that_cannot_be_finished_leaves_no_file(void **state)
{
	struct endpoint_config config = { .listen = "s", .fd = -1, .mode = 0600 };
	struct rlimit before, few;
	int next = dup(0);

	close(next);
	config.group = getegid();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = (rlim_t)next + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(open_endpoint(config), -EMFILE);
	assert_false(exists("s"));
	assert_int_equal(open_listen("s", 0600), 0); /* which needs no more than that */
	close_endpoint();
	assert_false(exists("s"));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void a_directory_without_permission_is_named(void **state)
{
	if (geteuid())
		skip();
	assert_int_equal(chmod(r.dir, 0755), 0);
	assert_int_equal(seteuid(65534), 0);
	assert_int_equal(open_listen("s", 0600), -EACCES);
	assert_int_equal(seteuid(0), 0);
	assert_non_null(strstr(r.err.text, "s: Permission denied"));
	assert_int_equal(open_listen("nowhere/s", 0600), -ENOENT);
	assert_non_null(strstr(r.err.text, "no directory nowhere; make it"));
	assert_int_equal(open_listen("~/s", 0600), -ENOENT);
	assert_non_null(strstr(r.err.text, "no directory ~; write the whole path"));
}

static void only_stale_sockets_are_replaced(void **state)
{
	int fd = foreign("s", true);

	assert_true(answers("s"));
	assert_int_equal(open_listen("s", 0600), -EADDRINUSE);
	assert_true(exists("s"));
	close(fd);
	assert_false(answers("s"));
	assert_int_equal(open_listen("s", 0600), 0);
	turn();
	assert_true(answers("s"));

	fd = open("file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	assert_int_equal(symlink("file", "link"), 0);
	close_endpoint();
	assert_int_equal(open_listen("file", 0600), -EEXIST);
	assert_true(exists("file"));
	assert_int_equal(open_listen("link", 0600), -EEXIST);
	assert_true(exists("link") && exists("file"));
	assert_int_equal(mkdir("dir", 0700), 0);
	assert_int_equal(open_listen("dir", 0600), -EEXIST);
	assert_false(answers("file"));
	assert_false(answers("none"));
}

static void a_listener_with_a_full_backlog_is_alive(void **state)
{
	struct sockaddr_un addr = address("s");
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), first;

	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 0), 0);
	first = connect_to("s");
	assert_true(answers("s"));
	assert_int_equal(open_listen("s", 0600), -EADDRINUSE);
	close(first);
	close(fd);
}

static void at_the_end_only_its_own_file_goes(void **state)
{
	int fd;

	assert_int_equal(open_listen("s", 0600), 0);
	assert_int_equal(unlink("s"), 0);
	fd = foreign("s", true);
	close_endpoint();
	assert_true(exists("s"));
	close(fd);
}

static void long_paths_are_refused_and_short_ones_relative(void **state)
{
	char path[200];

	memset(path, 'a', sizeof(path));
	path[108] = '\0';
	assert_int_equal(open_listen(path, 0600), -ENAMETOOLONG);
	assert_non_null(strstr(r.err.text, "107"));
	assert_int_equal(open_connect(path), -ENAMETOOLONG);
	assert_false(answers(path));
	assert_int_equal(open_listen("", 0600), -EINVAL);
	path[107] = '\0';
	assert_int_equal(open_listen(path, 0600), 0);
	assert_true(exists(path));
	turn();
	close(connect_to(path));
	turn();
	assert_int_equal(r.connected, 1);
}

static void one_connection_at_a_time(void **state)
{
	int a, b;
	char byte;

	assert_int_equal(open_listen("s", 0600), 0);
	turn();
	assert_non_null(strstr(r.waiting, "waiting for a front-end to connect to s"));
	a = connect_to("s");
	b = connect_to("s");
	turn();
	assert_int_equal(r.connected, 1);
	assert_int_equal(fcntl(r.fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	assert_int_equal(fcntl(r.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(write(r.fd, "1", 1), 1);
	assert_int_equal(read(a, &byte, 1), 1);
	close(r.fd);
	r.fd = -1;
	turn_for(1100);
	assert_int_equal(r.connected, 1);
	assert_int_equal(r.others, 1); /* told, once */
	endpoint_resume(r.endpoint);
	turn();
	assert_int_equal(r.connected, 2);
	assert_int_equal(write(r.fd, "2", 1), 1);
	assert_int_equal(read(b, &byte, 1), 1);
	close(connect_to("s"));
	turn();
	endpoint_resume(r.endpoint); /* whoever comes next while that is not yet seen is no other */
	turn_for(1100);
	assert_int_equal(r.connected, 3);
	assert_int_equal(r.others, 1);
	close(connect_to("s"));
	turn();
	endpoint_pause(r.endpoint);
	turn_for(500);
	assert_int_equal(r.connected + r.others, 4); /* nobody, for a moment */
	close(a);
	close(b);
}

/* The descriptor that listens at `path`, which is the endpoint's own. */
static int listener(const char *path)
{
	struct sockaddr_un addr;

	for (int fd = 3; fd < 64; fd++) {
		socklen_t len = sizeof(addr);

		if (!getsockname(fd, (struct sockaddr *)&addr, &len) &&
		    addr.sun_family == AF_UNIX && !strcmp(addr.sun_path, path))
			return fd;
	}
	return -1;
}

static void on_thief(uv_poll_t *poll, int status, int what)
{
	int *stolen = poll->data;

	*stolen = accept4(listener("s"), NULL, NULL, SOCK_CLOEXEC);
	uv_poll_stop(poll);
}

/* Somebody else who holds the socket is faster, when it is known already that there is one. */
static void a_connection_may_be_gone_before_it_is_accepted(void **state)
{
	int first, second, stolen = -1, ready = eventfd(0, EFD_CLOEXEC);
	uint64_t one = 1;
	uv_poll_t thief = { .data = &stolen };

	assert_int_equal(open_listen("s", 0600), 0);
	turn();
	uv_poll_init(&r.loop, &thief, ready);
	uv_poll_start(&thief, UV_READABLE, on_thief);
	turn();
	assert_int_equal(write(ready, &one, sizeof(one)), sizeof(one)); /* is ready first */
	first = connect_to("s");
	turn();
	assert_true(stolen >= 0);
	assert_int_equal(r.connected, 0);
	assert_non_null(strstr(r.waiting, "waiting for a front-end to connect"));
	second = connect_to("s");
	turn();
	assert_int_equal(r.connected, 1);
	uv_close((uv_handle_t *)&thief, NULL);
	turn();
	close(first);
	close(second);
	close(stolen);
	close(ready);
}

static void connecting_waits_for_the_socket_and_says_why(void **state)
{
	int fd;

	assert_int_equal(open_connect("s"), 0);
	turn_for(350);
	assert_int_equal(r.connected, 0);
	assert_non_null(strstr(r.waiting, "waiting for s: No such file or directory"));
	assert_int_equal(r.waits, 1); /* said once, not at every try */
	fd = foreign("s", false);
	turn_for(1100);
	assert_non_null(strstr(r.waiting, "Connection refused"));
	assert_int_equal(listen(fd, 1), 0);
	turn_for(1100);
	assert_int_equal(r.connected, 1);
	close(fd);
}

/* cloud-hypervisor d3d83dcbd: connected to a listener that was dying, and gave up. */
static void what_cannot_be_connected_to_is_named(void **state)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = "datagrams" };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(open_endpoint(
				 (struct endpoint_config){ .connect = "datagrams", .fd = -1 }),
			 0);
	turn();
	assert_non_null(strstr(r.waiting, "it is not a stream socket"));
	close_endpoint();
	assert_int_equal(mkdir("file", 0700), 0);
	assert_int_equal(open_endpoint((struct endpoint_config){ .connect = "file", .fd = -1 }), 0);
	turn();
	assert_non_null(strstr(r.waiting, "waiting for file"));
	close_endpoint();
	assert_int_equal(open_connect("datagrams/s"), 0);
	turn();
	assert_non_null(strstr(r.waiting, "Not a directory (look at the path)"));
	close_endpoint();
	if (geteuid())
		skip();
	assert_int_equal(chmod(r.dir, 0755), 0);
	assert_int_equal(seteuid(65534), 0);
	assert_int_equal(open_connect("file/s"), 0);
	turn();
	assert_int_equal(seteuid(0), 0);
	assert_non_null(strstr(r.waiting, "let ringway's user search its directory"));
	close(fd);
}

static void others_may_wait_for_the_same_vmm(void **state)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = "busy" };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), other;

	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 0), 0);
	other = connect_to("busy");
	assert_int_equal(open_endpoint((struct endpoint_config){ .connect = "busy", .fd = -1 }), 0);
	turn();
	assert_non_null(strstr(r.waiting, "others wait for the same VMM"));
	close(other);
	close(fd);
}

/* It is told, and tried again later. */
static void a_connection_may_find_no_descriptor_free(void **state)
{
	struct rlimit before, none;
	int fd;

	assert_int_equal(open_endpoint((struct endpoint_config){ .listen = "s", .fd = -1 }), 0);
	turn();
	fd = connect_to("s");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	turn();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(r.connected, 0);
	assert_non_null(strstr(r.waiting, "cannot accept a connection to s: no descriptors left"));
	for (unsigned i = 0; i < 100 && !r.connected; i++)
		turn_for(50);
	assert_int_equal(r.connected, 1);
	close(fd);
}

static void a_session_that_ends_early_is_tried_again_but_not_in_a_tight_loop(void **state)
{
	int fd = foreign("s", true);
	unsigned tries;

	r.end_at_once = true;
	assert_int_equal(open_connect("s"), 0);
	turn_for(2000);
	tries = r.connected;
	assert_in_range(tries, 3, 8); /* after 100, 200, 400, 800, 1000 ms */
	close(fd);
	assert_int_equal(unlink("s"), 0);
	turn_for(1100);
	assert_non_null(strstr(r.waiting, "No such file"));
	fd = foreign("s", true);
	r.end_at_once = false;
	turn_for(1100);
	assert_true(r.connected > tries && r.fd >= 0);
	/* One that lasted is followed by the next at once, or nearly. */
	turn_for(2100);
	tries = r.connected;
	endpoint_resume(r.endpoint);
	turn_for(300);
	assert_int_equal(r.connected, tries + 1);
	close(fd);
}

static void after_one_that_harmed_others_it_waits_before_it_connects_again(void **state)
{
	int fd = foreign("s", true);

	assert_int_equal(open_connect("s"), 0);
	turn();
	assert_int_equal(r.connected, 1);
	endpoint_pause(r.endpoint);
	assert_non_null(strstr(r.waiting, "has harmed others"));
	turn_for(500);
	assert_int_equal(r.connected, 1);
	turn_for(1000);
	assert_int_equal(r.connected, 2);
	close(fd);
}

static int open_inherited(int fd)
{
	inherit_note();
	return open_endpoint((struct endpoint_config){ .fd = fd, .group = -1 });
}

static void an_inherited_socket_must_be_a_connected_stream(void **state)
{
	int pair[2], pipes[2], udp = socket(AF_INET, SOCK_DGRAM, 0), lone, listening;
	char byte;

	assert_int_equal(pipe(pipes), 0);
	lone = socket(AF_UNIX, SOCK_STREAM, 0);
	listening = foreign("s", true);
	assert_int_equal(open_inherited(pipes[0]), -ENOTSOCK);
	assert_int_equal(open_inherited(udp), -ENOTSOCK);
	assert_int_equal(open_inherited(9999), -EBADF);
	assert_int_equal(open_inherited(lone), -ENOTCONN);
	assert_int_equal(open_inherited(listening), -ENOTCONN);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	assert_int_equal(open_inherited(pair[0]), -ENOTSOCK);
	close(pair[0]);
	close(pair[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(open_inherited(pair[0]), 0);
	assert_int_equal(inherit_take(pair[0], &r.err), -EBADF); /* it has an owner now */
	turn();
	assert_int_equal(r.connected, 1);
	assert_int_equal(fcntl(r.fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	assert_int_equal(write(r.fd, "x", 1), 1);
	assert_int_equal(read(pair[1], &byte, 1), 1);
	endpoint_resume(r.endpoint);
	assert_non_null(strstr(r.waiting, "no other will come"));
	r.waiting[0] = '\0';
	endpoint_pause(r.endpoint); /* nor is there anything to wait for */
	assert_int_equal(r.waiting[0], '\0');
	close(pair[1]);
	close(pipes[0]);
	close(pipes[1]);
	close(udp);
	close(lone);
	close(listening);
}

static void an_endpoint_may_be_closed_at_any_moment(void **state)
{
	int fd, pair[2];

	/* Before it has begun; no hook is called any more. */
	assert_int_equal(open_listen("s", 0600), 0);
	close_endpoint();
	assert_int_equal(open_connect("none"), 0);
	close_endpoint();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(open_inherited(pair[0]), 0);
	close_endpoint();
	assert_int_equal(read(pair[1], &fd, 1), 0); /* what was inherited is closed with it */
	close(pair[1]);
	assert_int_equal(r.connected + r.waits, 0);

	/* From within its own hook. */
	r.close_from_within = true;
	assert_int_equal(open_listen("s", 0600), 0);
	turn();
	fd = connect_to("s");
	turn();
	assert_null(r.endpoint);
	close(fd);
	fd = foreign("t", true);
	assert_int_equal(open_connect("t"), 0);
	turn();
	assert_null(r.endpoint);
	close(fd);
	assert_int_equal(r.connected, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(the_mode_is_the_one_asked_for_whatever_the_umask),
		T(the_group_is_the_one_asked_for_or_there_is_no_socket),
		T(a_socket_that_cannot_be_finished_leaves_no_file),
		T(a_directory_without_permission_is_named),
		T(only_stale_sockets_are_replaced),
		T(a_listener_with_a_full_backlog_is_alive),
		T(at_the_end_only_its_own_file_goes),
		T(long_paths_are_refused_and_short_ones_relative),
		T(one_connection_at_a_time),
		T(a_connection_may_be_gone_before_it_is_accepted),
		T(connecting_waits_for_the_socket_and_says_why),
		T(what_cannot_be_connected_to_is_named),
		T(others_may_wait_for_the_same_vmm),
		T(a_connection_may_find_no_descriptor_free),
		T(a_session_that_ends_early_is_tried_again_but_not_in_a_tight_loop),
		T(after_one_that_harmed_others_it_waits_before_it_connects_again),
		T(an_inherited_socket_must_be_a_connected_stream),
		T(an_endpoint_may_be_closed_at_any_moment),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
