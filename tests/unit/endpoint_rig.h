/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint in a directory of its own, and what its hooks have been told. */
#ifndef RINGWAY_TESTS_ENDPOINT_RIG_H
#define RINGWAY_TESTS_ENDPOINT_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
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
	bool busy;		/* there may be no session yet */
	bool end_at_once;	/* the session ends before it has begun */
	bool close_from_within; /* the endpoint is closed by its own hook */
} r;

static inline void on_connected(void *ctx, int fd)
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

static inline void on_waiting(void *ctx, const char *text)
{
	r.waits++;
	snprintf(r.waiting, sizeof(r.waiting), "%s", text);
}

static inline void on_another(void *ctx)
{
	r.others++;
}

static inline bool on_ready(void *ctx)
{
	return !r.busy;
}

static const struct endpoint_hooks hooks = { on_connected, on_waiting, on_another, on_ready };

static inline int setup(void **state)
{
	memset(&r, 0, sizeof(r));
	r.fd = -1;
	uv_loop_init(&r.loop);
	snprintf(r.dir, sizeof(r.dir), "/tmp/ringway-test-%d-XXXXXX", getpid());
	assert_non_null(mkdtemp(r.dir));
	assert_int_equal(chdir(r.dir), 0);
	return 0;
}

static inline void turn(void)
{
	for (unsigned i = 0; i < 4; i++)
		uv_run(&r.loop, UV_RUN_NOWAIT);
}

static inline void turn_for(unsigned ms)
{
	uint64_t until = clock_ns() + ms * 1000000ull;

	while (clock_ns() < until) {
		uv_run(&r.loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
}

/* Until so many are counted, whatever else the machine has to do. */
static inline void turn_until(const unsigned *counted, unsigned n)
{
	for (unsigned ms = 0; *counted < n && ms < 10000; ms += 10)
		turn_for(10);
	assert_int_equal(*counted, n);
}

static inline void turn_until_waiting(const char *why)
{
	for (unsigned ms = 0; !strstr(r.waiting, why) && ms < 10000; ms += 10)
		turn_for(10);
	assert_non_null(strstr(r.waiting, why));
}

static inline void close_endpoint(void)
{
	if (r.endpoint)
		endpoint_close(r.endpoint);
	r.endpoint = NULL;
	turn();
}

static inline int teardown(void **state)
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

static inline int open_endpoint(struct endpoint_config config)
{
	return endpoint_open(&r.loop, &config, &hooks, NULL, &r.endpoint, &r.err);
}

static inline int open_listen(const char *path, mode_t mode)
{
	return open_endpoint(
		(struct endpoint_config){ .listen = path, .fd = -1, .mode = mode, .group = -1 });
}

static inline int open_connect(const char *path)
{
	return open_endpoint((struct endpoint_config){ .connect = path, .fd = -1, .group = -1 });
}

static inline struct sockaddr_un address(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	memcpy(addr.sun_path, path, strnlen(path, sizeof(addr.sun_path) - 1));
	return addr;
}

/* A socket of somebody else's at this path; listening, or the leavings of a crash. */
static inline int foreign(const char *path, bool listening)
{
	struct sockaddr_un addr = address(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	if (listening)
		assert_int_equal(listen(fd, 4), 0);
	return fd;
}

static inline int connect_to(const char *path)
{
	struct sockaddr_un addr = address(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static inline mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	return st.st_mode & 07777;
}

static inline bool exists(const char *path)
{
	struct stat st;

	return !lstat(path, &st);
}

static inline bool answers(const char *path)
{
	int fd = unix_socket_connect(path, SOCK_NONBLOCK);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || fd == -EAGAIN;
}

#endif
