// SPDX-License-Identifier: Apache-2.0
/*
 * What hardly ever fails does so once, wherever the control thread asks for it: the life of a
 * switch with a front-end, of a tap, and the way into the sandbox, again and again with the next
 * call failing. Whatever it was is told in a line or done without, and nothing is left behind.
 */
#include "session_rig.h"

#include <grp.h>
#include <liburing.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "base/inherit.h"
#include "faults.h"
#include "port/tap.h"
#include "port/tap_open.h"
#include "port/vhost_user.h"
#include "sandbox/layers.h"
#include "worker/pool.h"

#define TURNS_MAX 500

FAULTY(void *, malloc, (size_t n), (n), NULL, ENOMEM)
FAULTY(void *, calloc, (size_t n, size_t size), (n, size), NULL, ENOMEM)
FAULTY(void *, aligned_alloc, (size_t to, size_t n), (to, n), NULL, ENOMEM)
FAULTY(char *, strdup, (const char *s), (s), NULL, ENOMEM)
FAULTY(void *, mmap64, (void *at, size_t n, int prot, int flags, int fd, off_t offset),
       (at, n, prot, flags, fd, offset), MAP_FAILED, ENOMEM)
FAULTY(int, pthread_create,
       (pthread_t * ret, const pthread_attr_t *attr, void *(*main)(void *), void *arg),
       (ret, attr, main, arg), EAGAIN, 0)
static int open_code = ENFILE;
FAULTY(int, open64, (const char *path, int flags, mode_t mode), (path, flags, mode), -1, open_code)
FAULTY(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1, ENFILE)
FAULTY(int, eventfd, (unsigned value, int flags), (value, flags), -1, ENFILE)
FAULTY(int, accept4, (int fd, struct sockaddr *from, socklen_t *len, int flags),
       (fd, from, len, flags), -1, ENFILE)
FAULTY(int, epoll_create1, (int flags), (flags), -1, ENFILE)
FAULTY(int, epoll_ctl, (int epoll, int what, int fd, struct epoll_event *event),
       (epoll, what, fd, event), -1, ENOSPC)
FAULTY(int, epoll_pwait2,
       (int epoll, struct epoll_event *events, int max, const struct timespec *limit,
	const sigset_t *mask),
       (epoll, events, max, limit, mask), -1, ENOSYS)
FAULTY(int, uv_poll_init, (uv_loop_t * loop, uv_poll_t *poll, int fd), (loop, poll, fd), UV_ENOSPC,
       0)
FAULTY(int, fchmod, (int fd, mode_t mode), (fd, mode), -1, EPERM)
FAULTY(int, fchownat, (int dir, const char *path, uid_t uid, gid_t gid, int flags),
       (dir, path, uid, gid, flags), -1, EPERM)
FAULTY(int, bind, (int fd, const struct sockaddr *to, socklen_t len), (fd, to, len), -1, EIO)
FAULTY(int, listen, (int fd, int backlog), (fd, backlog), -1, EIO)
FAULTY(int, lstat64, (const char *path, struct stat *st), (path, st), -1, EIO)
FAULTY(int, fstat64, (int fd, struct stat *st), (fd, st), -1, EIO)
FAULTY(int, fstatfs64, (int fd, struct statfs *st), (fd, st), -1, EIO)
FAULTY(int, fcntl64, (int fd, int what, long arg), (fd, what, arg), -1, EIO)
FAULTY(int, ioctl, (int fd, unsigned long what, void *arg), (fd, what, arg), -1, EIO)
FAULTY(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms), -1, EIO)
FAULTY(ssize_t, readlink, (const char *path, char *to, size_t n), (path, to, n), -1, EIO)
FAULTY(ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags), (fd, msg, flags), -1, EIO)
FAULTY(ssize_t, send, (int fd, const void *bytes, size_t n, int flags), (fd, bytes, n, flags), -1,
       EIO)
FAULTY(ssize_t, getrandom, (void *to, size_t n, unsigned flags), (to, n, flags), -1, ENOSYS)
FAULTY(int, io_uring_queue_init, (unsigned n, struct io_uring *ring, unsigned flags),
       (n, ring, flags), -ENOMEM, 0)
FAULTY(int, io_uring_register_files, (struct io_uring * ring, const int *fds, unsigned n),
       (ring, fds, n), -ENOMEM, 0)
FAULTY(int, io_uring_register, (unsigned fd, unsigned what, void *arg, unsigned n),
       (fd, what, arg, n), -EINVAL, 0)
FAULTY(int, io_uring_submit, (struct io_uring * ring), (ring), -EAGAIN, 0)
FAULTY(long, syscall, (long number, long a, long b, long c, long d), (number, a, b, c, d), -1, EIO)
FAULTY(int, prctl, (int what, long a, long b, long c, long d), (what, a, b, c, d), -1, EINVAL)
FAULTY(scmp_filter_ctx, seccomp_init, (uint32_t action), (action), NULL, 0)
FAULTY(int, seccomp_attr_set, (scmp_filter_ctx filter, enum scmp_filter_attr what, uint32_t value),
       (filter, what, value), -EINVAL, 0)
FAULTY(int, seccomp_load, (const scmp_filter_ctx filter), (filter), -ENOMEM, 0)

/* A condition follows if there is one. */
int __real_seccomp_rule_add(scmp_filter_ctx filter, uint32_t action, int call, unsigned n, ...);
int __wrap_seccomp_rule_add(scmp_filter_ctx filter, uint32_t action, int call, unsigned n,
			    struct scmp_arg_cmp arg);
int __wrap_seccomp_rule_add(scmp_filter_ctx filter, uint32_t action, int call, unsigned n,
			    struct scmp_arg_cmp arg)
{
	if (faults_hit("seccomp_rule_add", 0))
		return -ENOMEM;
	return n ? __real_seccomp_rule_add(filter, action, call, n, arg)
		 : __real_seccomp_rule_add(filter, action, call, 0);
}

struct rig *rig;

static struct vswitch sw;
static struct pool *pool;
static struct port_env env;
static struct port *port;
static char dir[] = "/tmp/ringway-test-faults-XXXXXX", path[64];
static int memory, events, other; /* descriptors of the front-end's */

static void turn(void)
{
	faults_on = true;
	rig_turn();
	faults_on = false;
}

/* A port in a switch with a worker */

static void up(void *ctx, struct port_queue *queue)
{
	if (pool)
		pool_queue_up(pool, queue);
}

static void down(void *ctx, struct port_queue *queue)
{
	if (pool)
		pool_queue_down(pool, queue);
}

static void gone(void *ctx, struct port_queue *queue)
{
	if (pool)
		pool_queue_gone(pool, queue);
}

static int add_port(const struct port_ops *ops, const struct port_option *options, unsigned n,
		    struct error *err)
{
	int r = WITH_FAULTS(ops->create(&env, "p0", options, n, &port, err));

	if (r)
		return r;
	switch_add(&sw, port);
	return WITH_FAULTS(ops->start(port, err));
}

static int begin(struct error *err)
{
	int r = WITH_FAULTS(switch_init(&sw));

	if (!r)
		r = WITH_FAULTS(rcu_start());
	if (r)
		return error_set(err, -r, "no memory, or no thread");
	r = WITH_FAULTS(pool_open(&sw, 1, NULL, &pool, err));
	return r ? r : WITH_FAULTS(pool_start(pool, false, err));
}

static void end(void)
{
	if (port) {
		switch_del(&sw, port);
		port->ops->destroy(port);
	}
	if (pool)
		pool_close(pool);
	rig_turn();
	rcu_drain();
	if (sw.macs)
		switch_destroy(&sw);
	port = NULL;
	pool = NULL;
}

/* A front-end that goes on whatever it is told */

static void front_connect(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	rig->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(rig->fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
}

static void front_close(void)
{
	close(rig->fd);
	rig->fd = -1;
}

/* Is there an end to be read, which is a reset where the session left something unread? */
static bool front_refused(void)
{
	char byte;
	ssize_t n = recv(rig->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

	return n == 0 || (n < 0 && errno != EAGAIN);
}

static void say(uint32_t request, const void *payload, uint32_t size, int fd)
{
	struct rig_reply reply;

	if (front_refused())
		return;
	rig_send_flags(request, NEED, payload, size, &fd, fd >= 0);
	turn();
	if (!front_refused())
		rig_reply(&reply);
}

static void say_u64(uint32_t request, uint64_t value, int fd)
{
	say(request, &value, sizeof(value), fd);
}

static void say_ring(unsigned index)
{
	struct vhost_user_vring_state size = { index, RING_SIZE }, on = { index, 1 };
	struct vhost_ring_addr at = ring_addr(index);
	struct vhost_user_vring_addr addr = {
		.index = index, .desc = at.desc, .used = at.used, .avail = at.avail
	};

	say(VHOST_USER_SET_VRING_NUM, &size, sizeof(size), -1);
	say(VHOST_USER_SET_VRING_ADDR, &addr, sizeof(addr), -1);
	say_u64(VHOST_USER_SET_VRING_CALL, index, events);
	say_u64(VHOST_USER_SET_VRING_KICK, index, events);
	say(VHOST_USER_SET_VRING_ENABLE, &on, sizeof(on), -1);
}

static void say_all(void)
{
	struct vhost_user_memory table = {
		.regions = 1,
		.region = { { .guest_phys_addr = MEMORY_GPA,
			      .memory_size = MEMORY_SIZE,
			      .userspace_addr = MEMORY_UVA } },
	};

	say_u64(VHOST_USER_SET_PROTOCOL_FEATURES, VHOST_PROTOCOL_FEATURES_OFFERED, -1);
	say_u64(VHOST_USER_SET_FEATURES,
		BIT(VHOST_USER_F_PROTOCOL_FEATURES) | BIT(VIRTIO_F_VERSION_1), -1);
	say(VHOST_USER_SET_MEM_TABLE, &table, 8 + sizeof(table.region[0]), memory);
	say_u64(VHOST_USER_SET_VRING_ERR, 0, other); /* which it is not, and so is closed apart */
	for (unsigned i = 0; i < 2; i++)
		say_ring(i);
}

static int live_with_a_front_end(struct error *err)
{
	const struct port_option options[] = { { "listen", path }, { "group", "0" } };
	struct port_report report = { .state = "none" };
	int r = begin(err);

	if (!r)
		r = add_port(&vhost_user_ops, options, 2, err);
	if (!r) {
		turn();
		front_connect();
		turn();
		say_all();
		port->ops->report(port, &report);
		/* Part of it may be done without; otherwise the port says why it is down. */
		if (report.state[0] != 'u')
			r = error_set(err, EIO, "%s", report.reason);
		front_close();
		turn();
	}
	end();
	return r;
}

/* The same again and again */

/* What is closed by a thread of its own may take a moment. */
static bool fds_settle(unsigned fds)
{
	for (unsigned ms = 0; ms < 5000 && open_fds() != fds; ms++)
		usleep(1000);
	return open_fds() == fds;
}

static void fail_each(int (*life)(struct error *err), unsigned least)
{
	struct error err;
	int r;

	life(&err); /* what is made once */
	for (faults_turn = 0; faults_turn < TURNS_MAX; faults_turn++) {
		unsigned fds = open_fds();

		faults_calls = 0;
		faults_name = NULL;
		err.text[0] = '\0';
		r = life(&err);
		if (!faults_name)
			break;
		if (r > 0 || (r && !err.text[0]))
			fail_msg("call %u, of %s: %d without a word", faults_turn, faults_name, r);
		if (!fds_settle(fds))
			fail_msg("call %u, of %s: descriptors are left", faults_turn, faults_name);
	}
	assert_int_equal(r, 0);
	assert_in_range(faults_turn, least, TURNS_MAX - 1);
	faults_turn = TURNS_MAX;
}

static void a_switch_with_a_front_end(void **state)
{
	fail_each(live_with_a_front_end, 50);
}

static int live_with_a_tap(struct error *err)
{
	const struct port_option options[] = { { "dev", "ringway0" }, { "queues", "2" } };
	int r = switch_init(&sw);

	if (!r)
		r = add_port(&tap_ops, options, 2, err);
	if (!r) {
		struct port_report report;

		faults_on = true;
		port->ops->report(port, &report);
		faults_on = false;
	}
	end();
	return r;
}

static void need_taps(void)
{
	if (unshare(CLONE_NEWNET) || access("/dev/net/tun", R_OK | W_OK)) {
		print_message("needs root and /dev/net/tun\n");
		skip();
	}
}

static void a_tap(void **state)
{
	need_taps();
	fail_each(live_with_a_tap, 20);
}

/* One that is no descriptor of ours yet is closed here: what is told ends the process. */
static int live_with_what_was_inherited(const struct port_ops *ops, int fd, struct error *err)
{
	char number[16];
	const struct port_option option = { "fd", number };
	int r = switch_init(&sw);

	snprintf(number, sizeof(number), "%d", fd);
	inherit_note();
	if (!r)
		r = add_port(ops, &option, 1, err);
	if (!r)
		turn();
	end();
	if (r && fcntl(fd, F_GETFD) >= 0)
		close(fd);
	return r;
}

static int live_with_an_inherited_tap(struct error *err)
{
	struct ifreq ifr = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

	assert_int_equal(ioctl(fd, TUNSETIFF, &ifr), 0);
	return live_with_what_was_inherited(&tap_ops, fd, err);
}

static int live_with_an_inherited_front_end(struct error *err)
{
	int pair[2], r;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	r = live_with_what_was_inherited(&vhost_user_ops, pair[0], err);
	close(pair[1]);
	return r;
}

static void an_inherited_tap(void **state)
{
	need_taps();
	fail_each(live_with_an_inherited_tap, 8);
}

static void an_inherited_front_end(void **state)
{
	fail_each(live_with_an_inherited_front_end, 5);
}

static void why_there_are_no_taps(void **state)
{
	static const struct {
		int code;
		const char *said;
	} why[] = { { ENOENT, "modprobe tun" },
		    { EACCES, "may not be opened" },
		    { EMFILE, "ulimit -n" },
		    { EIO, "/dev/net/tun: Input/output error" } };
	struct error err;
	bool uso;
	int fd;

	need_taps();
	for (unsigned i = 0; i < ARRAY_SIZE(why); i++) {
		open_code = why[i].code;
		faults_name = NULL;
		for (faults_turn = 0; !faults_name || strcmp(faults_name, "open64") != 0;
		     faults_turn++) {
			faults_calls = 0;
			if (!WITH_FAULTS(tap_open("ringway0", 1, &fd, &uso, &err)))
				close(fd);
		}
		assert_non_null(strstr(err.text, why[i].said));
	}
	open_code = ENFILE;
	faults_turn = TURNS_MAX;
}

/* Into the sandbox */

enum { REFUSED = 1, NO_FAULT, SILENT };

/* In a child. What is done without is no more than a file that is out of reach, or Landlock. */
static int enter(void)
{
	const char *dirs[] = { dir };
	struct sandbox sandbox = { .dirs = dirs, .n_dirs = 1 };
	struct error err = { "" };
	int r = WITH_FAULTS(sandbox_enter(&sandbox, &err));

	if (r)
		return r < 0 && err.text[0] ? REFUSED : SILENT;
	if (!faults_name)
		return NO_FAULT;
	return mkdir(dir, 0700); /* dies of it */
}

static void the_way_into_the_sandbox(void **state)
{
	unsigned refused = 0;
	int status = 0;

	for (faults_turn = 0; faults_turn < TURNS_MAX; faults_turn++) {
		pid_t pid;

		faults_calls = 0;
		faults_name = NULL;
		fflush(NULL);
		pid = fork();
		if (!pid) {
			status = enter();
			if (SANDBOX_SANITIZED) /* which would look for leaks in there */
				_exit(status);
			exit(status);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status) && WEXITSTATUS(status) == NO_FAULT)
			break;
		if (WIFEXITED(status)) {
			assert_int_equal(WEXITSTATUS(status), REFUSED);
			refused++;
		} else {
			assert_int_equal(WTERMSIG(status), SIGSYS);
		}
	}
	assert_in_range(faults_turn, 50, TURNS_MAX - 1);
	assert_in_range(refused, faults_turn - 10, faults_turn);
	faults_turn = TURNS_MAX;
}

static int set_up(void **state)
{
	log_set_level(LOG_ERROR);
	rcu_register_thread();
	rcu_offline();
	rig_open(state);
	env = (struct port_env){
		.loop = &rig->loop, .queue_up = up, .queue_down = down, .queue_gone = gone
	};
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/s", dir);
	memory = memory_fd(MEMORY_SIZE);
	events = eventfd(0, EFD_CLOEXEC);
	other = open("/dev/null", O_RDWR | O_CLOEXEC);
	return 0;
}

static int tear_down(void **state)
{
	close(memory);
	close(events);
	close(other);
	rig_close(state);
	rcu_unregister_thread();
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_switch_with_a_front_end),
		cmocka_unit_test(the_way_into_the_sandbox),
		cmocka_unit_test(a_tap),
		cmocka_unit_test(an_inherited_tap),
		cmocka_unit_test(an_inherited_front_end),
		cmocka_unit_test(why_there_are_no_taps),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
