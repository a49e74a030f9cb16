// SPDX-License-Identifier: Apache-2.0
/* The files of listening sockets: modes, groups, who is unlinked and who is not. */
#include "endpoint_rig.h"

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
	close(accept(fd, NULL, NULL));
	assert_int_equal(open_listen("s", 0600), -EADDRINUSE);
	assert_true(exists("s"));
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(accept(fd, NULL, NULL), -1); /* who listens there saw nobody come */
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
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
