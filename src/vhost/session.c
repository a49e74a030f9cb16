// SPDX-License-Identifier: Apache-2.0
/*
 * One front-end's connection, on the control thread.
 *
 * libuv says when the socket is readable; recvmsg() then reads exactly one message: first what is
 * missing of the header, then what is missing of the payload, so that bytes and descriptors of the
 * next message stay where they are. Descriptors come with the first byte of a message.
 *
 * Nothing here waits: a message may arrive in pieces over any time, answers that the front-end does
 * not read are kept up to a bound, and after some messages, or some time in them, the loop turns to
 * others first.
 *
 * The control thread is everybody's, so a port has an allowance of it, which its sessions share:
 * MESSAGES_AHEAD_NS, and messages_max a second. A message that takes long counts for more: no port
 * gets more than 1 / MESSAGE_SHARE of the thread for long. A front-end that has used its allowance
 * up is not read from until there is some again, which costs nobody but itself.
 *
 * The end of a session has two halves: session_end() closes and resets everything at once and tells
 * the owner; the memory goes when libuv has let go of it. In between `over` is set, and whoever
 * called it looks at that before going on.
 */
#include "vhost/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "vhost/features.h"
#include "vhost/messages.h"

#define MESSAGES_PER_TURN 64
#define TURN_NS		  2000000u
#define MESSAGES_AHEAD_NS 8000000000u
#define MESSAGE_SHARE	  10
#define DEBT_MAX_NS	  1000000000u /* or a flood of connections would lock the port out */
#define REST_MS		  20 /* longer than need be, so as not to wake up for each message */
#define FOREIGN_REASON	  "descriptors that it sent do not close; end whoever serves their files"
#define FDS_RECEIVED_MAX  253  /* SCM_MAX_FD: those without room the kernel would close, here */
#define REPLIES_MAX	  4096 /* bytes that wait for a front-end to read them */

struct session {
	uv_poll_t poll;
	uv_timer_t rest;
	unsigned open; /* handles that libuv has not let go of */
	bool rests, rested;
	int fd;
	struct vhost_device *dev;
	struct log_source *log;
	session_ended ended;
	void *ctx;
	bool over;
	bool spoke; /* a whole message came */

	struct message msg; /* being received */
	size_t have;	    /* bytes of it */

	uint8_t out[REPLIES_MAX];
	size_t out_len;
	bool watches_room;
	uint64_t complained; /* about these requests, in the log: once each (others: bit 0) */
};

static void on_closed(uv_handle_t *handle)
{
	struct session *s = handle->data;

	if (!--s->open)
		free(s);
}

static void close_fds(struct session *s)
{
	foreign_close(&s->dev->foreign, s->msg.fd, s->msg.fds);
	s->msg.fds = 0;
}

static void session_close(struct session *s)
{
	s->over = true;
	close_fds(s);
	uv_close((uv_handle_t *)&s->poll, on_closed);
	uv_close((uv_handle_t *)&s->rest, on_closed);
	foreign_hang_up(&s->dev->foreign, s->fd);
	device_reset(s->dev);
}

/* QEMU goes at once, without a word, if its guest has agreed to what is no longer offered. */
static bool may_have_missed_features(const struct session *s)
{
	return s->dev->told && s->dev->told != features_offered() && !s->dev->agreed;
}

void session_end(struct session *s, enum refusal why, const char *reason)
{
	if (s->over)
		return;
	s->dev->refusals[why]++;
	if (!*reason && may_have_missed_features(s))
		reason = "the front-end left without agreeing to features: if its guest has "
			 "agreed to some before that features= leaves out now, restart QEMU";
	if (*reason)
		log_event(LOG_WARN, s->log, "session ended: %s", reason);
	else
		log_event(s->spoke ? LOG_INFO : LOG_DEBUG, s->log,
			  "the front-end closed its connection");
	session_close(s);
	s->ended(s->ctx, reason);
}

void session_stop(struct session *s)
{
	if (!s->over)
		session_close(s);
}

/* Sending */

static void on_event(uv_poll_t *poll, int status, int events);

/* Whether there is room to send is asked only while something waits for it. */
static void watch(struct session *s)
{
	s->watches_room = s->out_len;
	uv_poll_start(&s->poll,
		      (s->rests ? UV_DISCONNECT : UV_READABLE) | (s->out_len ? UV_WRITABLE : 0),
		      on_event);
}

/* Returns how many bytes went out; the session is over if none ever will again. */
static size_t send_some(struct session *s, const void *bytes, size_t n)
{
	ssize_t sent = send(s->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (sent >= 0)
		return (size_t)sent;
	if (errno != EAGAIN)
		session_end(s, REFUSAL_NONE, ""); /* it asked, and was gone */
	return 0;
}

static void flush(struct session *s)
{
	size_t sent = send_some(s, s->out, s->out_len);

	if (s->over)
		return;
	s->out_len -= sent;
	memmove(s->out, s->out + sent, s->out_len);
	if (s->watches_room != (s->out_len > 0))
		watch(s);
}

static void reply(struct session *s, uint32_t request, const void *payload, uint32_t size)
{
	struct vhost_user_header header = {
		.request = request,
		.flags = VHOST_USER_VERSION | VHOST_USER_REPLY,
		.size = size,
	};

	if (sizeof(header) + size > sizeof(s->out) - s->out_len) {
		session_end(s, REFUSAL_UNREAD, "the front-end does not read its replies");
		return;
	}
	memcpy(s->out + s->out_len, &header, sizeof(header));
	memcpy(s->out + s->out_len + sizeof(header), payload, size);
	s->out_len += sizeof(header) + size;
	flush(s);
}

/* Acting */

static void complain(struct session *s, const struct error *err)
{
	uint32_t request = s->msg.header.request;
	uint64_t bit = request < 64 ? BIT(request) : BIT(0);

	if (s->complained & bit)
		return;
	s->complained |= bit;
	log_event(LOG_WARN, s->log, "%s (%u) refused: %s", message_type(request)->name, request,
		  err->text);
}

/* The message is complete. */
static void act(struct session *s)
{
	struct message *m = &s->msg;
	const struct message_type *type = message_type(m->header.request);
	uint64_t agreed = s->dev->protocol_features; /* before this message */
	bool ack = (m->header.flags & VHOST_USER_NEED_REPLY) &&
		   (agreed & BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK));
	struct error err;
	uint32_t own;
	bool fatal;
	int r;

	s->spoke = true;
	r = message_handle(s->dev, m, &own, &err);
	close_fds(s);
	if (foreign_pending(s->dev->foreign) > FOREIGN_MAX) {
		session_end(s, REFUSAL_STUCK, FOREIGN_REASON);
		return;
	}
	if (r)
		s->dev->refusals[refusal_of(r)]++;
	fatal = r && (type->flags & MESSAGE_FATAL) && !(type->needs & ~agreed);
	if (r && !fatal)
		complain(s, &err);
	if (own) {
		reply(s, m->header.request, &m->payload, own);
	} else if (ack) {
		uint64_t failed = r != 0;

		reply(s, m->header.request, &failed, sizeof(failed));
	}
	if (fatal) {
		struct error reason;

		error_set(&reason, 0, "%s: %.200s", type->name, err.text);
		session_end(s, REFUSAL_NONE, reason.text);
	}
}

/* Receiving */

/* Takes over what came along. False if that is not how descriptors may come. */
static bool take_fds(struct session *s, struct msghdr *msg)
{
	struct message *m = &s->msg;
	int more[FDS_RECEIVED_MAX];
	unsigned n_more = 0;
	bool first = !s->have;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		const unsigned char *data = CMSG_DATA(c);

		if (c->cmsg_type != SCM_RIGHTS) /* of SOL_SOCKET, as all that a Unix socket has */
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, data + i * sizeof(fd), sizeof(fd));
			if (first && m->fds < VHOST_USER_FDS_MAX)
				m->fd[m->fds++] = fd;
			else if (n_more < FDS_RECEIVED_MAX)
				more[n_more++] = fd;
		}
	}
	foreign_close(&s->dev->foreign, more, n_more);
	return !n_more && !(msg->msg_flags & (MSG_CTRUNC | MSG_TRUNC));
}

/* With an answer unread, a front-end's close is a reset; that is no error either. */
static void hung_up(struct session *s)
{
	if (s->have)
		session_end(s, REFUSAL_MALFORMED,
			    "the front-end closed its connection within a message");
	else
		session_end(s, REFUSAL_NONE, "");
}

/* Reads up to `n` bytes. Returns how many; 0 if there are none now or the session is over. */
static size_t receive(struct session *s, void *to, size_t n)
{
	union {
		struct cmsghdr align;
		/* An inherited socket may be one with SO_PASSCRED. */
		char room[CMSG_SPACE(FDS_RECEIVED_MAX * sizeof(int)) +
			  CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct iovec iov = { .iov_base = to, .iov_len = n };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.room),
	};
	ssize_t got = recvmsg(s->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (got < 0 && errno == EAGAIN)
		return 0;
	if (got <= 0) {
		hung_up(s);
		return 0;
	}
	if (!take_fds(s, &msg)) {
		/* There is room for all, so what is left out exceeds RLIMIT_NOFILE. */
		if (msg.msg_flags & MSG_CTRUNC)
			session_end(s, REFUSAL_HOST, error_reason(EMFILE));
		else
			session_end(s, REFUSAL_MALFORMED,
				    "too many descriptors, or not with the first byte of a "
				    "message");
		return 0;
	}
	return (size_t)got;
}

/* Goes on with the message that is coming in. True when it is complete. */
static bool assemble(struct session *s)
{
	struct message *m = &s->msg;
	struct error err;

	for (;;) {
		size_t head = sizeof(m->header), n;

		if (s->have < head)
			n = receive(s, (uint8_t *)&m->header + s->have, head - s->have);
		else
			n = receive(s, m->payload.bytes + (s->have - head),
				    head + m->header.size - s->have);
		if (!n)
			return false;
		s->have += n;
		if (s->have < head)
			continue;
		if (s->have == head && message_check_header(&m->header, &err))
			break;
		if (s->have == head + m->header.size) {
			if (message_check(m, &err))
				break;
			s->have = 0;
			return true;
		}
	}
	session_end(s, REFUSAL_MALFORMED, err.text);
	return false;
}

/* Its allowance */

static void on_rested(uv_timer_t *timer)
{
	struct session *s = timer->data;

	s->rests = false;
	watch(s);
}

/* True if nothing more is to be read for now. */
static bool must_rest(struct session *s, uint64_t now)
{
	unsigned max = s->dev->options.messages_max;
	uint64_t wait = allowance_wait(&s->dev->messages, now, MESSAGES_AHEAD_NS);

	if (!max || !wait)
		return false;
	if (!s->rested)
		log_event(LOG_WARN, s->log,
			  "the front-end sends more than messages-max=%u a second, or what takes "
			  "long; it is served more slowly ('ringway port set %s "
			  "messages-max=N' allows more)",
			  max, s->log->name);
	s->dev->refusals[REFUSAL_MESSAGES_MAX]++;
	s->rests = s->rested = true;
	uv_timer_start(&s->rest, on_rested, wait / 1000000 + REST_MS, 0);
	watch(s);
	return true;
}

/* For `messages`, or a part of one, that took `ns` until `now`. */
static void charge(struct session *s, unsigned messages, uint64_t ns, uint64_t now)
{
	unsigned max = s->dev->options.messages_max;
	struct allowance *a = &s->dev->messages;

	if (!max)
		return;
	allowance_take(a, now, MAX(messages * (1000000000u / max), ns * MESSAGE_SHARE));
	a->paid_until = MIN(a->paid_until, now + MESSAGES_AHEAD_NS + DEBT_MAX_NS);
}

/* What is left when it returns makes the socket readable again in the next turn. */
static void take_turn(struct session *s)
{
	uint64_t began = clock_ns(), now = began;
	bool complete = true;

	for (unsigned i = 0; i < MESSAGES_PER_TURN && complete && now - began < TURN_NS; i++) {
		uint64_t before = now;

		if (must_rest(s, now))
			return;
		complete = assemble(s);
		if (complete)
			act(s);
		if (s->over)
			return;
		now = clock_ns();
		charge(s, complete, now - before, now);
	}
}

static void on_event(uv_poll_t *poll, int status, int events)
{
	struct session *s = poll->data;

	/* An error of the socket's; libuv has no better name for any than EBADF. */
	if (status < 0 || (s->rests && events & UV_DISCONNECT)) {
		hung_up(s);
		return;
	}
	if (events & UV_WRITABLE)
		flush(s);
	if (!s->over && events & UV_READABLE)
		take_turn(s);
}

int session_start(uv_loop_t *loop, int fd, struct vhost_device *dev, struct log_source *log,
		  session_ended ended, void *ctx, struct session **ret, struct error *err)
{
	struct session *s;
	int r;

	s = calloc(1, sizeof(*s));
	if (!s)
		return error_no_memory(err);
	s->fd = fd;
	s->dev = dev;
	s->log = log;
	s->ended = ended;
	s->ctx = ctx;
	s->poll.data = s;
	r = uv_poll_init(loop, &s->poll, fd);
	if (r) {
		free(s);
		return error_set(err, -r, "cannot watch the session's socket: %s", uv_strerror(r));
	}
	uv_timer_init(loop, &s->rest);
	s->rest.data = s;
	s->open = 2;
	charge(s, 1, 0, clock_ns());
	watch(s);
	*ret = s;
	return 0;
}
