/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the control socket is, and how both ends come to it.
 *
 * Default: ringway.sock in $XDG_RUNTIME_DIR/ringway/, for root in /run/ringway/, else in
 * /tmp/ringway-UID/. A client falls back to /run/ringway/, where the system's service is: it
 * answers root, who may have an XDG_RUNTIME_DIR (a login), and its own user.
 */
#ifndef RINGWAY_CONTROL_SOCKET_H
#define RINGWAY_CONTROL_SOCKET_H

#include "base/error.h"
#include "base/unix_socket.h"

#define CONTROL_BACKLOG	    64
#define CONTROL_SYSTEM_PATH "/run/ringway/ringway.sock"

/*
 * Listens at `path`, mode 0600; NULL: at the default, whose directory is made. 0 or a negative
 * errno with `err` filled: EADDRINUSE (a switch answers there), EEXIST (a file that is no socket:
 * never touched), EPERM (a directory that others could have prepared), ... A socket at which nobody
 * answers is replaced.
 */
int control_socket_listen(const char *path, struct unix_socket *ret, struct error *err);

/*
 * Connects to the switch at `path`, NULL: at the default. Returns a blocking, close-on-exec
 * descriptor or a negative errno with `err` filled.
 */
int control_socket_connect(const char *path, struct error *err);

#endif
