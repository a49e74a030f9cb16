/* SPDX-License-Identifier: Apache-2.0 */
/* A session and its front-end in one thread: send, let the loop turn, look at what came back. */
#ifndef RINGWAY_TEST_SESSION_RIG_H
#define RINGWAY_TEST_SESSION_RIG_H

#include "vhost_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/log.h"
#include "vhost/session.h"

#define NEED (VHOST_USER_VERSION | VHOST_USER_NEED_REPLY)

struct rig {
	uv_loop_t loop;
	struct vhost_device dev;
	struct session *session;
	int fd; /* the front-end's side, or -1 */
	unsigned ended;
	char reason[256];
	void (*on_ended)(void); /* done from within the hook, once */
};

extern struct rig *rig;

static inline void rig_ended(void *ctx, const char *reason)
{
	void (*then)(void) = rig->on_ended;

	rig->ended++;
	snprintf(rig->reason, sizeof(rig->reason), "%s", reason);
	rig->on_ended = NULL;
	if (then)
		then();
}

static inline void rig_turn(void)
{
	for (unsigned i = 0; i < 4; i++)
		uv_run(&rig->loop, UV_RUN_NOWAIT);
}

/* A new connection. The loop does not turn, so this may be called when one has ended. */
static inline void rig_start(void)
{
	static struct log_source log = { .name = "p0" };
	struct error err;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	rig->fd = pair[0];
	rig->ended = 0;
	assert_int_equal(session_start(&rig->loop, pair[1], &rig->dev, &log, rig_ended, NULL,
				       &rig->session, &err),
			 0);
}

/* Descriptors of other kinds than it wants, and unread ones, are closed by other threads. */
static inline void rig_settle(void)
{
	while (foreign_pending(rig->dev.foreign))
		usleep(100);
}

/* The same; whatever there was is closed first. */
static inline void rig_connect(void)
{
	if (rig->fd >= 0)
		close(rig->fd);
	rig_turn();
	rig_settle();
	rig_start();
}

static inline void rig_send_raw(const void *bytes, size_t n, const int *fds, unsigned n_fds)
{
	char control[CMSG_SPACE(253 * sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = (void *)bytes, .iov_len = n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds) {
		struct cmsghdr *c = (struct cmsghdr *)control;

		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	assert_int_equal(sendmsg(rig->fd, &msg, MSG_NOSIGNAL), (ssize_t)n);
}

static inline void rig_send_flags(uint32_t request, uint32_t flags, const void *payload,
				  uint32_t size, const int *fds, unsigned n_fds)
{
	uint8_t bytes[sizeof(struct vhost_user_header) + VHOST_USER_PAYLOAD_MAX];
	struct vhost_user_header h = { .request = request, .flags = flags, .size = size };

	memcpy(bytes, &h, sizeof(h));
	if (size)
		memcpy(bytes + sizeof(h), payload, size);
	rig_send_raw(bytes, sizeof(h) + size, fds, n_fds);
}

/* Sends one message with need_reply and lets the session see it. */
static inline void rig_send(uint32_t request, const void *payload, uint32_t size, const int *fds,
			    unsigned n_fds)
{
	rig_send_flags(request, NEED, payload, size, fds, n_fds);
	rig_turn();
}

struct rig_reply {
	struct vhost_user_header header;
	union vhost_user_payload payload;
};

/* The next reply; false if there is none. */
static inline bool rig_reply(struct rig_reply *ret)
{
	ssize_t n = recv(rig->fd, &ret->header, sizeof(ret->header), MSG_DONTWAIT);

	if (n <= 0)
		return false;
	assert_int_equal(n, sizeof(ret->header));
	assert_true(ret->header.size <= sizeof(ret->payload));
	n = recv(rig->fd, &ret->payload, ret->header.size, MSG_DONTWAIT);
	assert_int_equal(n, ret->header.size);
	return true;
}

static inline bool rig_alive(void)
{
	return !rig->ended;
}

/* Exactly one acknowledgement has come: its value. */
static inline uint64_t rig_ack(uint32_t request)
{
	struct rig_reply reply, more;

	assert_true(rig_reply(&reply));
	assert_int_equal(reply.header.request, request);
	assert_int_equal(reply.header.flags, VHOST_USER_VERSION | VHOST_USER_REPLY);
	assert_int_equal(reply.header.size, sizeof(uint64_t));
	assert_false(rig_reply(&more));
	return reply.payload.u64;
}

static inline uint64_t rig_u64(uint32_t request, uint64_t value)
{
	rig_send(request, &value, sizeof(value), NULL, 0);
	return rig_ack(request);
}

static inline uint64_t rig_state(uint32_t request, uint32_t index, uint32_t num)
{
	struct vhost_user_vring_state s = { index, num };

	rig_send(request, &s, sizeof(s), NULL, 0);
	return rig_ack(request);
}

static inline uint64_t rig_fd(uint32_t request, uint64_t value, int fd)
{
	rig_send(request, &value, sizeof(value), &fd, 1);
	return rig_ack(request);
}

static inline uint64_t rig_get(uint32_t request)
{
	rig_send(request, NULL, 0, NULL, 0);
	return rig_ack(request);
}

/* Connected, all protocol features agreed to. */
static inline void rig_handshake(void)
{
	uint64_t features = VHOST_PROTOCOL_FEATURES_OFFERED;
	struct rig_reply none;

	rig_connect();
	rig_send(VHOST_USER_SET_PROTOCOL_FEATURES, &features, sizeof(features), NULL, 0);
	assert_false(rig_reply(&none)); /* REPLY_ACK holds from the next message on */
}

static inline unsigned rig_open_fds(void)
{
	rig_settle();
	return open_fds_settled();
}

/* The log goes to a file meanwhile: how many lines, and how many of a level. */
static inline unsigned rig_logged(void (*what)(void), const char *level)
{
	int file = memfd_create("log", MFD_CLOEXEC), kept = dup(STDERR_FILENO);
	char text[4096] = "";
	unsigned n = 0;

	fflush(stderr);
	dup2(file, STDERR_FILENO);
	log_set_level(LOG_DEBUG); /* which limits no port */
	what();
	fflush(stderr);
	dup2(kept, STDERR_FILENO);
	close(kept);
	assert_true(pread(file, text, sizeof(text) - 1, 0) >= 0);
	close(file);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (!strncmp(line, level, strlen(level)))
			n++;
	}
	return n;
}

static inline int rig_open(void **state)
{
	rig = calloc(1, sizeof(*rig));
	rig->fd = -1;
	uv_loop_init(&rig->loop);
	device_init(&rig->dev, NULL);
	rig->dev.options.messages_max = 0; /* they are sent as fast as they are taken */
	return 0;
}

static inline int rig_close(void **state)
{
	if (rig->fd >= 0)
		close(rig->fd);
	rig_turn();
	device_destroy(&rig->dev);
	assert_int_equal(uv_loop_close(&rig->loop), 0); /* no handle is left */
	rcu_drain();
	free(rig);
	return 0;
}

#endif
