// SPDX-License-Identifier: Apache-2.0
/*
 * Listening, connecting and inherited sockets, on the control thread.
 *
 * An endpoint gives away one connected socket and then rests until endpoint_resume(): others wait
 * in the listening socket's backlog meanwhile, which is told once, since nothing else would say why
 * they hang. A try to connect is one connect() that cannot wait (a Unix socket connects at once or
 * fails) and a timer for the next.
 */
#include "vhost/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/inherit.h"
#include "base/unix_socket.h"
#include "vhost/foreign.h"

#define BACKLOG	     16
#define RETRY_MIN_MS 100u
#define RETRY_MAX_MS 1000u
#define ANOTHER_MS   1000u
#define HANDSHAKE_NS 2000000000ull /* a session that lasts longer got beyond it */

struct endpoint {
	const struct endpoint_hooks *hooks;
	void *ctx;
	uv_timer_t timer;
	uv_poll_t poll; /* of the listening socket */
	unsigned open;	/* handles that libuv has not let go of */

	enum { LISTEN, CONNECT, INHERIT } kind;
	char *path;
	mode_t mode;
	struct unix_socket listening;
	int fd; /* inherited and not yet given away; else -1 */
	unsigned delay_ms;
	uint64_t given_at; /* clock_ns() when the last connection was given away */
	char waiting[256]; /* said last */
};

static void say_waiting(struct endpoint *e, const char *text)
{
	if (!strcmp(e->waiting, text))
		return;
	snprintf(e->waiting, sizeof(e->waiting), "%s", text);
	e->hooks->waiting(e->ctx, e->waiting);
}

static void give_away(struct endpoint *e, int fd)
{
	e->waiting[0] = '\0';
	e->given_at = clock_ns();
	e->hooks->connected(e->ctx, fd);
}

/* Listening */

static void on_incoming(uv_poll_t *poll, int status, int events);
static void on_timer(uv_timer_t *timer);

static void listen_watch(struct endpoint *e)
{
	const char *who = e->mode & 022 ? "" : ": the same user's";
	struct error text;

	uv_timer_stop(&e->timer);
	uv_poll_start(&e->poll, UV_READABLE, on_incoming);
	error_set(&text, 0, "waiting for a front-end to connect to %s (mode=%04o%s)", e->path,
		  (unsigned)e->mode, who);
	say_waiting(e, text.text);
}

static void on_still_waiting(uv_timer_t *timer)
{
	struct endpoint *e = timer->data;

	e->hooks->another(e->ctx);
}

/* One that was restarted may come before the end of its old session is seen. */
static void on_another(uv_poll_t *poll, int status, int events)
{
	struct endpoint *e = poll->data;

	uv_poll_stop(poll); /* it stays readable */
	uv_timer_start(&e->timer, on_still_waiting, ANOTHER_MS, 0);
}

static void on_incoming(uv_poll_t *poll, int status, int events)
{
	struct endpoint *e = poll->data;
	int fd = accept4(e->listening.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct error text;

	if (fd >= 0) {
		uv_poll_start(&e->poll, UV_READABLE, on_another);
		give_away(e, fd);
		return;
	}
	if (errno == EAGAIN)
		return;
	/* It stays readable: without a pause this would be asked for ever. */
	error_set(&text, 0, "cannot accept a connection to %s: %s", e->path, error_reason(errno));
	uv_poll_stop(&e->poll);
	uv_timer_start(&e->timer, on_timer, RETRY_MAX_MS, 0);
	say_waiting(e, text.text);
}

/* Connecting */

static const char *remedy(int code)
{
	switch (code) {
	case ENOENT:
		return "it appears when the VMM is started with that socket as a server";
	case ECONNREFUSED:
		return "a VMM that is gone left it behind, or does not listen yet";
	case EACCES:
	case EPERM:
		return "let ringway's user search its directory and write to it";
	case EAGAIN:
		return "others wait for the same VMM";
	case EPROTOTYPE:
		return "it is not a stream socket";
	default:
		return "look at the path";
	}
}

static void try_connect(struct endpoint *e)
{
	int fd = unix_socket_connect(e->path, SOCK_NONBLOCK);
	struct error text;

	if (fd >= 0) {
		give_away(e, fd);
		return;
	}
	error_set(&text, 0, "waiting for %s: %s (%s)", e->path, error_reason(-fd), remedy(-fd));
	uv_timer_start(&e->timer, on_timer, e->delay_ms, 0);
	e->delay_ms = MIN(e->delay_ms * 2, RETRY_MAX_MS);
	say_waiting(e, text.text);
}

static void on_timer(uv_timer_t *timer)
{
	struct endpoint *e = timer->data;
	int fd = e->fd;

	if (!e->hooks->ready(e->ctx)) {
		uv_timer_start(timer, on_timer, RETRY_MAX_MS, 0);
		return;
	}
	switch (e->kind) {
	case LISTEN:
		listen_watch(e);
		break;
	case CONNECT:
		try_connect(e);
		break;
	case INHERIT:
		e->fd = -1;
		give_away(e, fd);
		break;
	}
}

/* Inherited */

static int check_inherited(int fd, struct error *err)
{
	struct sockaddr_un peer;
	int domain = -1, type = -1, r = inherit_take(fd, err);
	socklen_t len = sizeof(int);

	if (r)
		return r;
	/* What is no socket leaves both as they are. */
	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len);
	getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len);
	if (domain != AF_UNIX || type != SOCK_STREAM)
		return error_set(err, ENOTSOCK, "descriptor %d is not a Unix stream socket", fd);
	len = sizeof(peer);
	if (getpeername(fd, (struct sockaddr *)&peer, &len))
		return error_set(err, errno, "descriptor %d is not a connected socket", fd);
	return inherit_own(fd, err);
}

/* Life */

static void on_closed(uv_handle_t *handle)
{
	struct endpoint *e = handle->data;

	if (--e->open)
		return;
	free(e->path);
	free(e);
}

static int prepare(struct endpoint *e, const struct endpoint_config *config, struct error *err)
{
	int r = 0;

	switch (e->kind) {
	case LISTEN:
		r = unix_socket_listen(e->path, config->mode, config->group, BACKLOG, &e->listening,
				       err);
		if (r == -EADDRINUSE)
			error_set(err, EADDRINUSE,
				  "somebody listens at %s already; end that, or choose another "
				  "listen=PATH",
				  e->path);
		break;
	case CONNECT:
		r = unix_socket_check(e->path, err);
		break;
	case INHERIT:
		r = check_inherited(config->fd, err);
		if (!r)
			e->fd = config->fd;
		break;
	}
	return r;
}

static void discard(struct endpoint *e)
{
	unix_socket_close(&e->listening);
	free(e->path);
	free(e);
}

int endpoint_open(uv_loop_t *loop, const struct endpoint_config *config,
		  const struct endpoint_hooks *hooks, void *ctx, struct endpoint **ret,
		  struct error *err)
{
	const char *path = config->listen ? config->listen : config->connect;
	struct endpoint *e = calloc(1, sizeof(*e));
	int r;

	if (e && path)
		e->path = strdup(path);
	if (!e || (path && !e->path)) {
		free(e);
		return error_no_memory(err);
	}
	e->kind = config->listen ? LISTEN : config->connect ? CONNECT : INHERIT;
	e->listening.fd = e->fd = -1;
	e->hooks = hooks;
	e->ctx = ctx;
	e->mode = config->mode;
	e->delay_ms = RETRY_MIN_MS;
	r = prepare(e, config, err);
	if (!r && e->kind == LISTEN) {
		r = uv_poll_init(loop, &e->poll, e->listening.fd);
		if (r)
			error_set(err, -r, "cannot watch %s: %s", e->path, uv_strerror(r));
	}
	if (r) {
		discard(e);
		return r;
	}
	if (e->kind == LISTEN) {
		e->poll.data = e;
		e->open++;
	}
	uv_timer_init(loop, &e->timer);
	e->timer.data = e;
	e->open++;
	/* Hooks are called from the loop, never from here: the caller has no endpoint yet. */
	uv_timer_start(&e->timer, on_timer, 0, 0);
	*ret = e;
	return 0;
}

void endpoint_resume(struct endpoint *e)
{
	struct error text;

	switch (e->kind) {
	case LISTEN:
		listen_watch(e);
		break;
	case CONNECT:
		/* Never at once: a front-end that ends each session would keep us busy. */
		if (clock_ns() - e->given_at > HANDSHAKE_NS)
			e->delay_ms = RETRY_MIN_MS;
		uv_timer_start(&e->timer, on_timer, e->delay_ms, 0);
		e->delay_ms = MIN(e->delay_ms * 2, RETRY_MAX_MS);
		error_set(&text, 0, "the session ended; connecting to %s again", e->path);
		say_waiting(e, text.text);
		break;
	case INHERIT:
		say_waiting(e, "the inherited connection has ended; no other will come");
		break;
	}
}

void endpoint_pause(struct endpoint *e, const char *why)
{
	if (e->kind == INHERIT) {
		endpoint_resume(e);
		return;
	}
	if (e->kind == LISTEN)
		uv_poll_stop(&e->poll);
	say_waiting(e, why);
	uv_timer_start(&e->timer, on_timer, RETRY_MAX_MS, 0);
}

bool endpoint_lost(const struct endpoint *e)
{
	return e->kind == LISTEN && !unix_socket_has_file(&e->listening);
}

/* Nobody gets in any more, and who waits has perhaps sent something already. */
static void turn_away(int listening, struct foreign **f)
{
	int fd;

	shutdown(listening, SHUT_RDWR);
	while ((fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		foreign_hang_up(f, fd);
}

void endpoint_close(struct endpoint *e)
{
	struct foreign *f = NULL;

	if (e->kind == LISTEN) {
		uv_close((uv_handle_t *)&e->poll, on_closed);
		turn_away(e->listening.fd, &f);
	}
	uv_close((uv_handle_t *)&e->timer, on_closed);
	unix_socket_close(&e->listening);
	if (e->fd >= 0)
		foreign_hang_up(&f, e->fd);
	e->fd = -1;
	foreign_put(f);
}
