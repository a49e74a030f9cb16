// SPDX-License-Identifier: Apache-2.0
/*
 * Between the look at a stale socket and its replacement a second switch could do the same, and
 * remove the first one's fresh socket: so this is done with a lock on the directory. A stranger may
 * hold that lock in a directory like /tmp, hence it is waited for briefly and never relied upon.
 */
#include "control/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_TRIES   50
#define LOCK_WAIT_US 10000

/* The default's directory; true if it lies where anybody may write. */
static bool default_dir(char *dir, size_t size)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	if (runtime && *runtime == '/') {
		snprintf(dir, size, "%s/ringway", runtime);
		return false;
	}
	if (!geteuid()) {
		snprintf(dir, size, "/run/ringway");
		return false;
	}
	snprintf(dir, size, "/tmp/ringway-%u", (unsigned)geteuid());
	return true;
}

static int check_path(const char *path, struct error *err)
{
	struct error why;
	int r = unix_socket_check(path, &why);

	return r ? error_set(err, -r, "--control: %s", why.text) : 0;
}

/* Writes the default path. 0, or -ENAMETOOLONG with `err` filled. */
static int default_path(char *ret_path, size_t size, struct error *err)
{
	char dir[PATH_MAX];
	int len;

	default_dir(dir, sizeof(dir));
	len = snprintf(ret_path, size, "%s/ringway.sock", dir);
	if (len < 0 || (size_t)len >= size)
		return error_set(err, ENAMETOOLONG,
				 "XDG_RUNTIME_DIR is too long for a socket; say --control PATH");
	return 0;
}

/* Ours, no symbolic link, and nobody else may write there (in /tmp: nor look). */
static int check_dir(const char *dir, bool in_public, struct error *err)
{
	mode_t others = in_public ? 077 : 022;
	struct stat st;

	if (lstat(dir, &st))
		return error_set(err, errno, "%s: %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return error_set(err, EPERM,
				 "%s is not a directory; remove it or say --control PATH", dir);
	if (st.st_uid != geteuid())
		return error_set(err, EPERM, "%s belongs to user %u; say --control PATH", dir,
				 (unsigned)st.st_uid);
	if (st.st_mode & others)
		return error_set(err, EPERM, "%s is open to others (mode %04o); chmod it to 0700",
				 dir, (unsigned)(st.st_mode & 07777));
	return 0;
}

static int make_default_dir(struct error *err)
{
	char dir[PATH_MAX];
	bool in_public = default_dir(dir, sizeof(dir));
	bool in_run = !strcmp(dir, "/run/ringway");

	/* In /run, where guests' sockets may lie beside it, others may pass; not so elsewhere. */
	if (mkdir(dir, in_run ? 0755 : 0700) && errno != EEXIST)
		return error_set(err, errno, "cannot make %s: %s; say --control PATH", dir,
				 strerror(errno));
	return check_dir(dir, in_public, err);
}

static int lock_dir_of(const char *path)
{
	char copy[UNIX_PATH_MAX + 1];
	int fd;

	strcpy(copy, path);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && i < LOCK_TRIES; i++)
		usleep(LOCK_WAIT_US);
	return fd;
}

int control_socket_listen(const char *path, struct unix_socket *ret, struct error *err)
{
	char fallback[PATH_MAX];
	int lock, r;

	if (!path) {
		r = default_path(fallback, sizeof(fallback), err);
		if (!r)
			r = make_default_dir(err);
		if (r < 0)
			return r;
		path = fallback;
	}
	r = check_path(path, err);
	if (r < 0)
		return r;
	lock = lock_dir_of(path);
	r = unix_socket_listen(path, 0600, (gid_t)-1, CONTROL_BACKLOG, ret, err);
	if (lock >= 0)
		close(lock);
	if (r == -EADDRINUSE)
		return error_set(err, EADDRINUSE,
				 "a switch answers at %s already; end it, or give this one another "
				 "--control PATH",
				 path);
	return r;
}

static int connect_path(const char *path, struct error *err)
{
	int r = check_path(path, err);

	if (r < 0)
		return r;
	r = unix_socket_connect(path, 0);
	if (r == -EACCES)
		return error_set(err, EACCES, "%s is another user's; become that user or root",
				 path);
	if (r < 0)
		return error_set(
			err, -r,
			"no switch answers at %s (%s); start one with 'ringway run' or say "
			"--control PATH",
			path, strerror(-r));
	return r;
}

int control_socket_connect(const char *path, struct error *err)
{
	char dir[PATH_MAX], fallback[PATH_MAX];
	struct error ignored;
	int r;

	if (path)
		return connect_path(path, err);
	r = default_path(fallback, sizeof(fallback), err);
	if (r < 0)
		return r;
	/* A directory in /tmp may be somebody's trap; one that is not there is no switch. */
	if (default_dir(dir, sizeof(dir)) && !access(dir, F_OK)) {
		r = check_dir(dir, true, err);
		if (r < 0)
			return r;
	}
	r = connect_path(fallback, err);
	if (r < 0 && strcmp(fallback, CONTROL_SYSTEM_PATH) != 0) {
		int system = connect_path(CONTROL_SYSTEM_PATH, &ignored);

		if (system >= 0)
			return system;
		if (system == -EACCES)
			return error_set(err, EACCES,
					 "no switch of yours answers at %s; the system's is for "
					 "root: say it with sudo",
					 fallback);
	}
	return r;
}
