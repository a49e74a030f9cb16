// SPDX-License-Identifier: Apache-2.0
/* Where sessions come from: one connection at a time, retrying, inherited sockets. */
#include "endpoint_rig.h"
#include "lingering.h"

#include <sys/eventfd.h>

#include "base/inherit.h"

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
	turn_until(&r.others, 1); /* told, once */
	assert_int_equal(r.connected, 1);
	endpoint_resume(r.endpoint);
	turn();
	assert_int_equal(r.connected, 2);
	assert_int_equal(write(r.fd, "2", 1), 1);
	assert_int_equal(read(b, &byte, 1), 1);
	close(connect_to("s"));
	turn();
	endpoint_resume(r.endpoint); /* whoever comes next while that is not yet seen is no other */
	turn_until(&r.connected, 3);
	assert_int_equal(r.others, 1);
	close(connect_to("s"));
	turn();
	endpoint_pause(r.endpoint, "has harmed others");
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
	turn_until_waiting("Connection refused");
	assert_int_equal(listen(fd, 1), 0);
	turn_until(&r.connected, 1);
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
	turn_until_waiting("No such file");
	fd = foreign("s", true);
	r.end_at_once = false;
	turn_until(&r.connected, tries + 1);
	assert_true(r.fd >= 0);
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
	endpoint_pause(r.endpoint, "has harmed others");
	assert_non_null(strstr(r.waiting, "has harmed others"));
	turn_for(500);
	assert_int_equal(r.connected, 1);
	turn_until(&r.connected, 2);
	close(fd);
}

static void after_a_pause_it_waits_until_it_may_go_on(void **state)
{
	int fd;

	assert_int_equal(open_listen("s", 0600), 0);
	turn();
	r.busy = true;
	endpoint_pause(r.endpoint, "has harmed others");
	fd = connect_to("s");
	turn_for(2500);
	assert_int_equal(r.connected, 0);
	r.busy = false;
	turn_until(&r.connected, 1);
	close(fd);
}

/* Nor by whoever waits in the backlog, or has left something there. */
static void closing_is_not_held_up_by_what_was_sent(void **state)
{
	uint64_t began;
	int fd, peer;

	assert_int_equal(open_listen("s", 0600), 0);
	fd = connect_to("s");
	peer = lingering_sent(fd);
	close(fd);
	began = clock_ns();
	alarm(30); /* it would be an hour */
	close_endpoint();
	assert_true(clock_ns() - began < 10000000000ull);
	alarm(0);
	lingering_reset(peer);
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
	endpoint_pause(r.endpoint, "has harmed others"); /* nor is there anything to wait for */
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
		T(one_connection_at_a_time),
		T(a_connection_may_be_gone_before_it_is_accepted),
		T(connecting_waits_for_the_socket_and_says_why),
		T(what_cannot_be_connected_to_is_named),
		T(others_may_wait_for_the_same_vmm),
		T(a_connection_may_find_no_descriptor_free),
		T(a_session_that_ends_early_is_tried_again_but_not_in_a_tight_loop),
		T(after_one_that_harmed_others_it_waits_before_it_connects_again),
		T(after_a_pause_it_waits_until_it_may_go_on),
		T(closing_is_not_held_up_by_what_was_sent),
		T(an_inherited_socket_must_be_a_connected_stream),
		T(an_endpoint_may_be_closed_at_any_moment),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
