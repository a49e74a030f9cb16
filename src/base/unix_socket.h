/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix stream sockets and their files, for guests and for control.
 *
 * The file of a listening socket gets its mode and group before listen(): until then nobody can
 * connect, so there is no moment at which it is too open. Between the look at a stale socket and
 * its replacement another process could do the same; who must exclude that holds a lock.
 */
#ifndef RINGWAY_BASE_UNIX_SOCKET_H
#define RINGWAY_BASE_UNIX_SOCKET_H

#include <sys/types.h>
#include <sys/un.h>

#include "base/error.h"

#define UNIX_PATH_MAX (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

/* A listening socket, and which file is its own. */
struct unix_socket {
	int fd; /* non-blocking, close-on-exec */
	char path[UNIX_PATH_MAX + 1];
	dev_t dev;
	ino_t ino;
};

/* 0, or -EINVAL (empty) or -ENAMETOOLONG with `err` filled. */
int unix_socket_check(const char *path, struct error *err);

/* Connects. `flags`: SOCK_NONBLOCK or 0. A close-on-exec descriptor or a negative errno. */
int unix_socket_connect(const char *path, int flags);

/*
 * Removes the socket that a crash has left at `path`, and nothing else. 0 (it is gone, or was not
 * there) or a negative errno with `err` filled: EADDRINUSE (somebody has it open), EEXIST (a file
 * that is no socket), or why neither can be told.
 */
int unix_socket_remove_stale(const char *path, struct error *err);

/*
 * Listens at `path` with exactly this mode, whatever the umask, and group ((gid_t)-1: not changed).
 * A socket that nobody has open is replaced. 0 or a negative errno with `err` filled, and then
 * no file is left: EADDRINUSE (somebody has it open), EEXIST (a file that is no socket is there
 * and is left alone), ENOENT (no such directory), ... Control thread: the umask is changed briefly.
 */
int unix_socket_listen(const char *path, mode_t mode, gid_t group, int backlog,
		       struct unix_socket *ret, struct error *err);

/* Is the file at its path still the one that was made? Else nobody can connect any more. */
bool unix_socket_has_file(const struct unix_socket *socket);

/*
 * Removes the file if it is still the one that was made, then closes `fd`. If `fd` was given away
 * (-1), whoever has it closes it afterwards.
 */
void unix_socket_close(struct unix_socket *socket);

#endif
