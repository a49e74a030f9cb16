// SPDX-License-Identifier: Apache-2.0
/*
 * What is left to a process that has confined itself. Each attempt is a child's: it enters the
 * sandbox, tries, and tells by its end what came of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/layers.h"

#define NOBODY 65534
#define FAILED 99 /* exit status of a child that could not enter */

static char inside[] = "/tmp/ringway-inside-XXXXXX", outside[] = "/tmp/ringway-outside-XXXXXX";
static struct io_uring uring; /* made before the sandbox, unrestricted */

static bool has_landlock(long version)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, 1) >= version;
}

/* The wait status of a child that does `attempt` in the sandbox; its result is the exit status. */
static int in_sandbox(int (*attempt)(void), bool taps_later)
{
	const char *dirs[] = { inside, "/none" };
	struct sandbox sandbox = { .dirs = dirs, .n_dirs = 2, .taps_later = taps_later };
	struct error err;
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (sandbox_enter(&sandbox, &err)) {
			fprintf(stderr, "# %s\n", err.text);
			_exit(FAILED);
		}
		_exit(attempt());
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void assert_dies_of(int (*attempt)(void), int number)
{
	int status = in_sandbox(attempt, false);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), number);
}

static void assert_exits(int (*attempt)(void), bool taps_later, int expected)
{
	int status = in_sandbox(attempt, taps_later);

	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), expected);
}

/* 0 or errno, as an exit status. */
static int told(long r)
{
	return r < 0 ? errno : 0;
}

/* Forbidden calls: each ends the process */

static int start_program(void)
{
	char *const argv[] = { "/bin/true", NULL };

	return execv(argv[0], argv);
}

static int fork_itself(void)
{
	return (int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static int new_namespace(void)
{
	return unshare(CLONE_NEWUSER);
}

static int debug_another(void)
{
	return (int)ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
}

static int read_another(void)
{
	struct iovec v = { inside, 1 };

	return (int)process_vm_readv(getppid(), &v, 1, &v, 1, 0);
}

static int signal_another(void)
{
	return kill(getppid(), 0);
}

static int signal_anothers_thread(void)
{
	return (int)syscall(SYS_tgkill, 1, 1, 0);
}

static int internet_socket(void)
{
	return socket(AF_INET, SOCK_DGRAM, 0);
}

static int netlink_socket(void)
{
	return socket(AF_NETLINK, SOCK_RAW, 0);
}

static int mount_something(void)
{
	return mount("none", inside, "tmpfs", 0, NULL);
}

static int become_another(void)
{
	return setuid(NOBODY);
}

static int change_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 } };

	return (int)syscall(SYS_capset, &header, data);
}

static int make_directory(void)
{
	return mkdir(inside, 0700);
}

static int type_into_terminal(void)
{
	return ioctl(STDIN_FILENO, TIOCSTI, "x");
}

static int make_code(void)
{
	return mprotect((void *)((uintptr_t)inside & ~(uintptr_t)4095), 4096,
			PROT_READ | PROT_EXEC);
}

static int load_bpf(void)
{
	return (int)syscall(SYS_bpf, 0, NULL, 0);
}

static int register_with_ring(void)
{
	return io_uring_register_eventfd(&uring, 0);
}

static void forbidden_calls_end_the_process(void **state)
{
	int (*const attempts[])(void) = {
		start_program,
		new_namespace,
		read_another,
		signal_another,
		signal_anothers_thread,
		internet_socket,
		netlink_socket,
		mount_something,
		become_another,
		change_capabilities,
		make_directory,
		type_into_terminal,
		make_code,
		load_bpf,
	};

	for (unsigned i = 0; i < ARRAY_SIZE(attempts); i++)
		assert_dies_of(attempts[i], SIGSYS);
	/* The leak checker, in its own builds, is a process and a debugger. */
	if (!SANDBOX_SANITIZED) {
		assert_dies_of(fork_itself, SIGSYS);
		assert_dies_of(debug_another, SIGSYS);
	}
}

/* Refused: a library may ask */

static int map_code(void)
{
	return told((intptr_t)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0) == -1
			    ? -1
			    : 0);
}

static int make_ring(void)
{
	struct io_uring ring;

	return -io_uring_queue_init(2, &ring, 0);
}

static void what_a_library_may_ask_for_is_refused(void **state)
{
	assert_exits(map_code, false, EPERM);
	assert_exits(make_ring, false, EPERM);
}

static void a_ring_can_be_made_only_if_taps_may_come(void **state)
{
	if (io_uring_queue_init(2, &uring, 0)) {
		print_message("no io_uring here\n");
		skip();
	}
	assert_exits(make_ring, true, 0);
	assert_dies_of(register_with_ring, SIGSYS);
	io_uring_queue_exit(&uring);
}

/* Files */

static int bind_in(const char *dir)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/s", dir);
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
		return errno;
	return told(unlink(addr.sun_path));
}

static int bind_inside(void)
{
	return bind_in(inside);
}

static int bind_outside(void)
{
	return bind_in(outside);
}

static int open_in(const char *dir, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/file", dir);
	return told(open(path, flags, 0600));
}

static int make_file_inside(void)
{
	return open_in(inside, O_RDWR | O_CREAT);
}

static int write_file_outside(void)
{
	return open_in(outside, O_WRONLY);
}

static int remove_file_outside(void)
{
	return told(unlinkat(AT_FDCWD, outside, AT_REMOVEDIR));
}

static int read_file_outside(void)
{
	return open_in(outside, O_RDONLY);
}

static int look_a_group_up(void)
{
	return told(open("/etc/group", O_RDONLY));
}

static int open_tun(void)
{
	return told(open("/dev/net/tun", O_RDWR));
}

static void files_are_out_of_reach(void **state)
{
	char path[64];

	if (!has_landlock(2)) {
		print_message("no Landlock here\n");
		skip();
	}
	snprintf(path, sizeof(path), "%s/file", outside);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	assert_exits(bind_inside, false, 0);
	assert_exits(bind_outside, false, EACCES);
	assert_exits(make_file_inside, false, EACCES);
	assert_exits(write_file_outside, false, EACCES);
	assert_exits(remove_file_outside, false, EACCES);
	if (!SANDBOX_SANITIZED)
		assert_exits(read_file_outside, false, EACCES);
	assert_exits(look_a_group_up, false, 0);
	if (!access("/dev/net/tun", R_OK | W_OK))
		assert_exits(open_tun, false, 0);
	unlink(path);
}

static int connect_abstract(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "\0ringway-test-sandbox" };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	return told(connect(fd, (struct sockaddr *)&addr, sizeof(addr)));
}

static void abstract_sockets_are_out_of_reach(void **state)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "\0ringway-test-sandbox" };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (!has_landlock(6)) {
		print_message("Landlock of this kernel knows no abstract sockets\n");
		close(fd);
		skip();
	}
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_exits(connect_abstract, false, EPERM);
	close(fd);
}

/* Rights */

static uint64_t permitted(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data))
		abort();
	return (uint64_t)(data[1].permitted | data[1].effective) << 32 |
	       (data[0].permitted | data[0].effective);
}

/* Here capget() is forbidden after; what was left is seen through /proc by the parent. */
static uint64_t permitted_to_child(bool taps_later, uid_t uid)
{
	struct sandbox sandbox = { .taps_later = taps_later };
	struct error err;
	char line[256], path[64];
	unsigned long long caps = UINT64_MAX;
	int ready[2], status;
	pid_t pid;
	FILE *file;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		if ((uid && setuid(uid)) || sandbox_enter(&sandbox, &err))
			_exit(FAILED);
		if (write(ready[1], "", 1) != 1)
			_exit(FAILED);
		for (;;)
			poll(NULL, 0, -1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], line, 1), 1);
	close(ready[0]);
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		int no_new_privs, seccomp;

		sscanf(line, "CapPrm: %llx", &caps);
		if (sscanf(line, "NoNewPrivs: %d", &no_new_privs) == 1)
			assert_int_equal(no_new_privs, 1);
		if (sscanf(line, "Seccomp: %d", &seccomp) == 1)
			assert_int_equal(seccomp, 2);
	}
	fclose(file);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return caps;
}

static void no_capability_is_left_but_the_one_for_taps(void **state)
{
	if (!(permitted() & BIT(CAP_NET_ADMIN))) {
		print_message("needs capabilities to lose\n");
		skip();
	}
	assert_int_equal(permitted_to_child(false, 0), 0);
	assert_int_equal(permitted_to_child(true, 0), BIT(CAP_NET_ADMIN));
}

static void without_privileges_it_can_be_entered_too(void **state)
{
	if (getuid()) {
		print_message("needs root, to become another\n");
		skip();
	}
	assert_int_equal(permitted_to_child(false, NOBODY), 0);
	assert_int_equal(permitted_to_child(true, NOBODY), 0);
}

/* What goes on */

static void *touch(void *arg)
{
	*(char *)arg = 1;
	return arg;
}

static int make_threads(void)
{
	pthread_t thread;
	char touched = 0;

	if (pthread_create(&thread, NULL, touch, &touched) || pthread_join(thread, NULL))
		return 1;
	return touched == 1 ? 0 : 2;
}

static int use_memory(void)
{
	for (size_t size = 1; size < (size_t)64 << 20; size *= 2) {
		void *p = malloc(size);

		if (!p)
			return 1;
		memset(p, 1, size);
		free(p);
	}
	return 0;
}

static int abort_itself(void)
{
	signal(SIGABRT, SIG_DFL);
	abort();
}

static void threads_memory_and_abort_work(void **state)
{
	assert_exits(make_threads, false, 0);
	assert_exits(use_memory, false, 0);
	assert_dies_of(abort_itself, SIGABRT);
}

static int make_dirs(void **state)
{
	return mkdtemp(inside) && mkdtemp(outside) ? 0 : -1;
}

static int remove_dirs(void **state)
{
	return rmdir(inside) || rmdir(outside);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forbidden_calls_end_the_process),
		cmocka_unit_test(what_a_library_may_ask_for_is_refused),
		cmocka_unit_test(a_ring_can_be_made_only_if_taps_may_come),
		cmocka_unit_test(files_are_out_of_reach),
		cmocka_unit_test(abstract_sockets_are_out_of_reach),
		cmocka_unit_test(no_capability_is_left_but_the_one_for_taps),
		cmocka_unit_test(without_privileges_it_can_be_entered_too),
		cmocka_unit_test(threads_memory_and_abort_work),
	};

	return cmocka_run_group_tests(tests, make_dirs, remove_dirs);
}
