/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: one connection of a front-end, which configures a device by messages.
 *
 * Everything a message may be is in one table (messages.c): payload sizes, descriptors, and what
 * must have been agreed to first. A well-framed request that cannot be served is answered non-zero
 * (if an answer is wanted) and the session lives; bad framing, or memory or ring state that cannot
 * be trusted, ends it: the session closes every descriptor and says why once. A clean close is no
 * error. Control thread; libuv watches the socket, recvmsg() reads it (libuv's pipes do not pass
 * arbitrary descriptors).
 */
#ifndef RINGWAY_VHOST_SESSION_H
#define RINGWAY_VHOST_SESSION_H

#include <uv.h>

#include "base/log.h"
#include "vhost/device.h"

struct session;

/*
 * The session is over and frees itself after this returns. `reason` is "" for a clean close by the
 * front-end, else one line for a person.
 */
typedef void (*session_ended)(void *ctx, const char *reason);

/*
 * Takes over `fd`, a connected stream socket. `log` (the port's) must outlive the session. 0 or a
 * negative errno, `fd` then stays the caller's.
 */
int session_start(uv_loop_t *loop, int fd, struct vhost_device *dev, struct log_source *log,
		  session_ended ended, void *ctx, struct session **ret, struct error *err);

/*
 * Ends it from this side: device_reset(), and `ended` is not called. May be called from within
 * `ended`, but not from within ring_changed().
 */
void session_stop(struct session *session);

/* Ends it for `why`: logged once with `reason`, if there is one, and then `ended` is called. */
void session_end(struct session *session, enum refusal why, const char *reason);

#endif
