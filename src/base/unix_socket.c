// SPDX-License-Identifier: Apache-2.0
/*
 * bind() takes the mode of the file from the socket's own inode, less the umask. The umask belongs
 * to the whole process and is cleared for the length of the bind(): only the control thread makes
 * files, and it is here.
 */
#include "base/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int unix_socket_check(const char *path, struct error *err)
{
	if (!*path)
		return error_set(err, EINVAL, "the socket's path is empty; give one");
	if (strlen(path) > UNIX_PATH_MAX)
		return error_set(err, ENAMETOOLONG,
				 "the socket's path has %zu bytes, a Unix socket's may have %zu; "
				 "choose a shorter one",
				 strlen(path), UNIX_PATH_MAX);
	return 0;
}

static struct sockaddr_un address(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	memcpy(addr.sun_path, path, strlen(path));
	return addr;
}

static int connect_as(int type, const char *path)
{
	struct sockaddr_un addr;
	int fd, r;

	if (strlen(path) > UNIX_PATH_MAX)
		return -ENAMETOOLONG;
	addr = address(path);
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

int unix_socket_connect(const char *path, int flags)
{
	return connect_as(SOCK_STREAM | flags, path);
}

static int make_error(const char *path, int code, struct error *err)
{
	const char *slash = strrchr(path, '/');
	int len = slash ? (int)(slash - path) : 0;

	if (code == ENOENT && slash && strpbrk(path, "~$"))
		return error_set(err, code,
				 "there is no directory %.*s; write the whole path (~ and $ are "
				 "the shell's)",
				 len, path);
	if (code == ENOENT && slash)
		return error_set(err, code, "there is no directory %.*s; make it, with mkdir -p",
				 len, path);
	if (code == EACCES || code == EPERM)
		return error_set(err, code,
				 "cannot make a socket at %s: %s; let ringway's user write to its "
				 "directory, or choose another path",
				 path, strerror(code));
	return error_set(err, code, "cannot make a socket at %s: %s; choose another path", path,
			 strerror(code));
}

int unix_socket_remove_stale(const char *path, struct error *err)
{
	struct stat st;
	int r;

	if (lstat(path, &st)) {
		if (errno == ENOENT)
			return 0;
		return make_error(path, errno, err);
	}
	if (!S_ISSOCK(st.st_mode))
		return error_set(err, EEXIST,
				 "%s exists and is no socket; remove it or choose another path",
				 path);
	/* Of another type: refused as such if there is somebody, who does not see it. */
	r = connect_as(SOCK_DGRAM, path);
	if (r >= 0)
		close(r);
	if (r >= 0 || r == -EPROTOTYPE)
		return error_set(err, EADDRINUSE, "somebody listens at %s already", path);
	if (r != -ECONNREFUSED)
		return error_set(err, -r, "cannot tell whether somebody listens at %s: %s", path,
				 error_reason(-r));
	if (unlink(path) && errno != ENOENT)
		return error_set(err, errno, "cannot remove the stale socket %s: %s", path,
				 strerror(errno));
	return 0;
}

static int bind_file(struct unix_socket *s, mode_t mode, struct error *err)
{
	struct sockaddr_un addr = address(s->path);
	mode_t umask_before = umask(0);
	int r = 0;

	if (fchmod(s->fd, mode & 0777) || bind(s->fd, (struct sockaddr *)&addr, sizeof(addr)))
		r = errno;
	umask(umask_before);
	return r ? make_error(s->path, r, err) : 0;
}

/* Notes which file is ours. It takes no descriptor, so it works with the last of them in use. */
static int note_file(struct unix_socket *s, struct error *err)
{
	struct stat st;

	if (lstat(s->path, &st))
		return error_set(err, errno, "cannot look at the new socket %s: %s", s->path,
				 strerror(errno));
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	return 0;
}

static int set_group(struct unix_socket *s, gid_t group, struct error *err)
{
	/* Held by this descriptor, it cannot be exchanged for another before fchownat(). */
	int r = 0, file = open(s->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (file < 0 || fstat(file, &st))
		r = error_set(err, errno, "cannot look at the new socket %s: %s", s->path,
			      strerror(errno));
	else if (st.st_dev != s->dev || st.st_ino != s->ino || !S_ISSOCK(st.st_mode))
		r = error_set(err, EEXIST, "%s was exchanged while it was made", s->path);
	else if (fchownat(file, "", (uid_t)-1, group, AT_EMPTY_PATH))
		r = error_set(err, errno,
			      "cannot give %s to group %u: %s; ringway's user must be in that "
			      "group (root: give the port at the start)",
			      s->path, group, strerror(errno));
	if (file >= 0)
		close(file);
	return r;
}

int unix_socket_listen(const char *path, mode_t mode, gid_t group, int backlog,
		       struct unix_socket *ret, struct error *err)
{
	struct unix_socket s = { .fd = -1 };
	int r = unix_socket_check(path, err);

	if (!r)
		r = unix_socket_remove_stale(path, err);
	if (r)
		return r;
	strcpy(s.path, path);
	s.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s.fd < 0)
		return error_set(err, errno, "cannot make a socket: %s", error_reason(errno));
	r = bind_file(&s, mode, err);
	if (!r)
		r = note_file(&s, err);
	if (!r && group != (gid_t)-1)
		r = set_group(&s, group, err);
	if (!r && listen(s.fd, backlog))
		r = error_set(err, errno, "cannot listen at %s: %s", path, strerror(errno));
	if (r)
		unix_socket_close(&s);
	else
		*ret = s;
	return r;
}

bool unix_socket_has_file(const struct unix_socket *socket)
{
	struct stat st;

	/* The open socket keeps its inode, so that no other file can have this number. */
	return socket->ino && !lstat(socket->path, &st) && st.st_dev == socket->dev &&
	       st.st_ino == socket->ino;
}

void unix_socket_close(struct unix_socket *socket)
{
	if (unix_socket_has_file(socket))
		unlink(socket->path);
	if (socket->fd >= 0)
		close(socket->fd);
	socket->fd = -1;
}
