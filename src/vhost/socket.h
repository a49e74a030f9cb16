/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where sessions come from: a socket that ringway listens on, one that it connects to (and tries
 * again for ever, the whole handshake included), or one that was inherited, connected.
 *
 * One session at a time: while there is one, further connections wait in the backlog. Control
 * thread.
 */
#ifndef RINGWAY_VHOST_SOCKET_H
#define RINGWAY_VHOST_SOCKET_H

#include <sys/types.h>
#include <uv.h>

#include "base/error.h"

struct endpoint;

struct endpoint_config {
	const char *listen;  /* path, or NULL */
	const char *connect; /* path, or NULL */
	int fd;		     /* connected socket, the endpoint's once it is open; or -1 */
	mode_t mode;	     /* of a listening socket's file, exactly, whatever the umask */
	gid_t group;	     /* of it; (gid_t)-1: not changed */
};

/*
 * Called from the loop; endpoint_resume() alone calls waiting() itself. The endpoint may be closed
 * or resumed from within.
 */
struct endpoint_hooks {
	/* A connected socket, non-blocking and close-on-exec, now the hook's. */
	void (*connected)(void *ctx, int fd);
	/* What it is waiting for has changed, e.g. why connect() fails; `text` for `show port`. */
	void (*waiting)(void *ctx, const char *text);
	/* Somebody else has connected and waited for a second of the session; once in each. */
	void (*another)(void *ctx);
	/* After a pause: may there be another session? If not it is asked again in a second. */
	bool (*ready)(void *ctx);
};

/*
 * Starts listening or connecting. 0 or a negative errno with `err` filled: ENAMETOOLONG (longer
 * than 107 bytes), EADDRINUSE (somebody has it open), EEXIST (a file that is no socket is there
 * and is left alone), EACCES ... A stale socket is replaced.
 */
int endpoint_open(uv_loop_t *loop, const struct endpoint_config *config,
		  const struct endpoint_hooks *hooks, void *ctx, struct endpoint **ret,
		  struct error *err);

/*
 * The session that came from it is over: wait for (or look for) the next one. Connecting pauses
 * first, 100 ms and then longer while sessions end within two seconds.
 */
void endpoint_resume(struct endpoint *endpoint);

/*
 * The same, after a second's pause: for a front-end whose session has cost others time, and would
 * again. `why` is what waiting() is told.
 */
void endpoint_pause(struct endpoint *endpoint, const char *why);

/* Somebody has removed or exchanged the file of its listening socket: nobody can connect. */
bool endpoint_lost(const struct endpoint *endpoint);

/* Closes it and removes its own socket file. */
void endpoint_close(struct endpoint *endpoint);

#endif
