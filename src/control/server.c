// SPDX-License-Identifier: Apache-2.0
/*
 * A client may send many requests without waiting and may read the answers when it likes, within
 * bounds: a line fits the client's buffer, and nothing more of it is read or served before it has
 * the answer to that. So it costs at most its buffer and one answer; and if for
 * SERVER_STALL_SECONDS it takes nothing of that it is closed.
 *
 * When an answer has gone is told in the loop's next turn, so between two requests everybody else
 * has a turn, however many were sent ahead. One that is not answered has an answer of no bytes.
 *
 * A client that has closed its sending side is served to the end.
 *
 * One more than SERVER_CLIENTS_MAX takes the place of the client that said nothing for the longest
 * time and has all its answers: whoever forgets connections cannot lock others out.
 *
 * Connections are accepted here and not by libuv, which turns in a circle for ever when descriptors
 * have run out and the one that it keeps in reserve cannot be opened again, as in the sandbox.
 * Until the next tick others wait in the backlog.
 */
#include "control/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <urcu/list.h>

#include "base/log.h"
#include "control/rpc.h"

struct client {
	uv_pipe_t pipe; /* first */
	struct server *server;
	struct cds_list_head node;
	bool reading;
	bool answering;	       /* the last request: its answer has not gone yet */
	bool finished;	       /* nothing more is read; closes when all is answered */
	size_t backlog_before; /* at the last tick */
	unsigned stalled;      /* ticks since the backlog last shrank */
	size_t used;
	char buffer[SERVER_LINE_MAX];
};

struct server {
	struct unix_socket socket;
	uv_poll_t listener;
	uv_pipe_t none; /* see server_open() */
	uv_timer_t tick;
	server_answer answer;
	void *ctx;
	uint64_t *refused;	      /* control/refusal.h */
	struct cds_list_head clients; /* whoever spoke last comes first */
	unsigned n_clients;
	unsigned handles; /* that are not closed yet, clients included */
};

struct reply {
	uv_write_t req; /* first */
	char *text;
};

static void client_serve(struct client *c);

static void server_handle_gone(struct server *s)
{
	if (!--s->handles)
		free(s);
}

static void client_closed(uv_handle_t *handle)
{
	struct client *c = (struct client *)handle;
	struct server *s = c->server;

	free(c);
	server_handle_gone(s);
}

static bool client_closing(const struct client *c)
{
	return uv_is_closing((const uv_handle_t *)&c->pipe);
}

static void client_close(struct client *c)
{
	if (client_closing(c))
		return;
	cds_list_del(&c->node);
	c->server->n_clients--;
	uv_close((uv_handle_t *)&c->pipe, client_closed);
}

static size_t client_backlog(const struct client *c)
{
	return uv_stream_get_write_queue_size((const uv_stream_t *)&c->pipe);
}

static void reply_sent(uv_write_t *req, int status)
{
	struct reply *reply = (struct reply *)req;
	struct client *c = (struct client *)req->handle;

	free(reply->text);
	free(reply);
	if (client_closing(c))
		return;
	c->answering = false;
	if (status < 0)
		client_close(c);
	else
		client_serve(c);
}

/* Takes over `text`; NULL is an answer that is not given. None is under way. */
static void client_reply(struct client *c, char *text)
{
	static char newline[] = "\n";
	struct reply *reply = malloc(sizeof(*reply));
	uv_buf_t bufs[2];

	if (!reply) {
		free(text);
		c->server->refused[CONTROL_REFUSAL_HOST]++;
		client_close(c);
		return;
	}
	reply->text = text;
	bufs[0] = uv_buf_init(text, text ? (unsigned)strlen(text) : 0);
	bufs[1] = uv_buf_init(newline, 1);
	c->answering = true;
	if (uv_write(&reply->req, (uv_stream_t *)&c->pipe, bufs, text ? 2 : 1, reply_sent)) {
		free(text);
		free(reply);
		client_close(c);
	}
}

/* Serves the next line in the buffer, if it is time for that; true if a whole one is left. */
static bool client_line(struct client *c)
{
	struct server *s = c->server;
	char *line = c->buffer, *end = c->buffer + c->used, *newline = NULL;

	while (!client_closing(c)) {
		newline = memchr(line, '\n', (size_t)(end - line));
		if (!newline || c->answering)
			break;
		if (newline > line)
			client_reply(c, s->answer(s->ctx, line, (size_t)(newline - line)));
		line = newline + 1;
	}
	c->used = (size_t)(end - line);
	memmove(c->buffer, line, c->used);
	return newline;
}

static void client_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct client *c = (struct client *)handle;

	*buf = uv_buf_init(c->buffer + c->used, (unsigned)(sizeof(c->buffer) - c->used));
}

static void client_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct client *c = (struct client *)stream;

	if (n == UV_EOF)
		c->finished =
			true; /* a line without its end may be half a line: it is not served */
	else if (n < 0)
		client_close(c);
	else
		c->used += (size_t)n;
	if (client_closing(c))
		return;
	cds_list_move(&c->node, &c->server->clients);
	client_serve(c);
}

static void client_serve(struct client *c)
{
	bool left = client_line(c), read;

	if (client_closing(c))
		return;
	if (!left && c->used == sizeof(c->buffer)) {
		client_reply(c, rpc_refuse(c->server->refused, CONTROL_REFUSAL_LINE_MAX,
					   "the line is too long"));
		c->used = 0;
		c->finished = true;
	}
	if (client_closing(c))
		return;
	if (c->finished && !left && !c->answering) {
		client_close(c);
		return;
	}
	read = !c->finished && !c->answering;
	if (read && !c->reading)
		uv_read_start((uv_stream_t *)&c->pipe, client_alloc, client_read);
	else if (!read && c->reading)
		uv_read_stop((uv_stream_t *)&c->pipe);
	c->reading = read;
}

/* Half a request counts for nothing, or who sends such would keep the place for ever. */
static void server_make_room(struct server *s)
{
	struct client *c;

	cds_list_for_each_entry_reverse(c, &s->clients, node)
	{
		if (!client_backlog(c)) {
			s->refused[CONTROL_REFUSAL_SILENT]++;
			client_close(c);
			return;
		}
	}
}

static void server_admit(struct server *s, int fd)
{
	struct client *c = calloc(1, sizeof(*c));

	if (s->n_clients >= SERVER_CLIENTS_MAX)
		server_make_room(s);
	if (!c) {
		s->refused[CONTROL_REFUSAL_HOST]++;
		close(fd);
		return;
	}
	c->server = s;
	uv_pipe_init(s->listener.loop, &c->pipe, 0);
	CDS_INIT_LIST_HEAD(&c->node);
	cds_list_add(&c->node, &s->clients);
	s->n_clients++;
	s->handles++;
	if (uv_pipe_open(&c->pipe, fd)) {
		s->refused[CONTROL_REFUSAL_HOST]++;
		close(fd);
		client_close(c);
		return;
	}
	if (s->n_clients > SERVER_CLIENTS_MAX) {
		client_reply(c, rpc_refuse(s->refused, CONTROL_REFUSAL_CLIENTS_MAX,
					   "too many clients; try again later"));
		c->finished = true;
	}
	if (!client_closing(c))
		client_serve(c);
}

static void server_accept(uv_poll_t *listener, int status, int events)
{
	struct server *s = listener->data;
	int fd = accept4(s->socket.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0) {
		server_admit(s, fd);
	} else if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
		s->refused[CONTROL_REFUSAL_HOST]++;
		uv_poll_stop(listener); /* it stays readable */
	}
}

static void server_tick(uv_timer_t *timer)
{
	struct server *s = timer->data;
	struct client *c, *next;

	cds_list_for_each_entry_safe(c, next, &s->clients, node)
	{
		size_t backlog = client_backlog(c);

		if (!backlog || backlog < c->backlog_before) {
			c->stalled = 0;
		} else if (++c->stalled >= SERVER_STALL_SECONDS) {
			s->refused[CONTROL_REFUSAL_UNREAD]++;
			client_close(c);
		}
		c->backlog_before = backlog;
	}
	if (!uv_is_active((const uv_handle_t *)&s->listener))
		uv_poll_start(&s->listener, UV_READABLE, server_accept);
}

static void server_handle_closed(uv_handle_t *handle)
{
	server_handle_gone(handle->data);
}

int server_open(uv_loop_t *loop, struct unix_socket *socket, server_answer answer, void *ctx,
		uint64_t *refused, struct server **ret, struct error *err)
{
	struct server *s = calloc(1, sizeof(*s));
	int r;

	if (!s) {
		unix_socket_close(socket);
		return error_no_memory(err);
	}
	s->socket = *socket;
	s->answer = answer;
	s->ctx = ctx;
	s->refused = refused;
	CDS_INIT_LIST_HEAD(&s->clients);
	r = uv_poll_init(loop, &s->listener, s->socket.fd);
	if (r) {
		unix_socket_close(&s->socket);
		free(s);
		return error_set(err, -r, "control socket: %s", error_reason(-r));
	}
	uv_timer_init(loop, &s->tick);
	/* With its first stream libuv opens a file, which the sandbox would refuse later. */
	uv_pipe_init(loop, &s->none, 0);
	s->listener.data = s->tick.data = s->none.data = s;
	s->handles = 3;
	uv_close((uv_handle_t *)&s->none, server_handle_closed);
	uv_poll_start(&s->listener, UV_READABLE, server_accept);
	uv_timer_start(&s->tick, server_tick, 1000, 1000);
	*ret = s;
	return 0;
}

void server_close(struct server *s)
{
	struct client *c, *next;

	if (!s)
		return;
	cds_list_for_each_entry_safe(c, next, &s->clients, node) client_close(c);
	uv_close((uv_handle_t *)&s->listener, server_handle_closed);
	uv_close((uv_handle_t *)&s->tick, server_handle_closed);
	unix_socket_close(&s->socket);
}
