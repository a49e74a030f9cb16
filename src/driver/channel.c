// SPDX-License-Identifier: Apache-2.0
#include "driver/channel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unix_socket.h"

#define RETRY_US 2000 /* between attempts to connect */

/* What is left of `timeout_ms` since `start`, for poll(). */
static int time_left(uint64_t start, int timeout_ms)
{
	uint64_t passed = (clock_ns() - start) / 1000000;

	return passed >= (uint64_t)timeout_ms ? 0 : timeout_ms - (int)passed;
}

int channel_connect(const char *path, int timeout_ms, struct error *err)
{
	uint64_t start = clock_ns();
	int sock = unix_socket_check(path, err);

	if (sock)
		return sock;
	while ((sock = unix_socket_connect(path, 0)) < 0) {
		if ((sock != -ENOENT && sock != -ECONNREFUSED) || !time_left(start, timeout_ms))
			return error_set(err, -sock,
					 "%s: cannot connect: %s; start what listens there, as a "
					 "user who may connect to it",
					 path, strerror(-sock));
		usleep(RETRY_US);
	}
	return sock;
}

int channel_listen(const char *path, struct error *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int sock, rc = unix_socket_check(path, err);

	if (rc)
		return rc;
	strcpy(address.sun_path, path);
	sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return error_set(err, errno, "socket: %s", strerror(errno));
	if (bind(sock, (struct sockaddr *)&address, sizeof(address)) || listen(sock, 8)) {
		rc = error_set(
			err, errno,
			"%s: cannot listen: %s; give a path that is free, in a directory that "
			"is there",
			path, strerror(errno));
		close(sock);
		return rc;
	}
	return sock;
}

static int wait_readable(int sock, int timeout_ms)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	int n;

	do
		n = poll(&p, 1, timeout_ms);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n ? 0 : -ETIMEDOUT;
}

int channel_accept(int listener, int timeout_ms, struct error *err)
{
	int sock, rc = wait_readable(listener, timeout_ms);

	if (rc)
		return error_set(err, -rc,
				 "nobody connected: %s; start what connects there meanwhile",
				 strerror(-rc));
	sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	return sock < 0 ? error_set(err, errno, "accept: %s", strerror(errno)) : sock;
}

int channel_send(int sock, uint32_t request, uint32_t flags, const void *payload, uint32_t size,
		 const int *fds, unsigned nfds)
{
	struct vhost_user_header hdr = { .request = request, .flags = flags, .size = size };
	struct iovec iov[2] = { { &hdr, sizeof(hdr) }, { (void *)payload, payload ? size : 0 } };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(CHANNEL_FDS_MAX * sizeof(int))];
	} control;
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t n;

	if (nfds > CHANNEL_FDS_MAX)
		return -EINVAL;
	if (nfds) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(&control.align), fds, nfds * sizeof(int));
	}
	do
		n = sendmsg(sock, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == iov[0].iov_len + iov[1].iov_len ? 0 : -EIO;
}

static void keep_fds(struct msghdr *msg, struct channel_message *ret)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		ret->nfds = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(ret->fds, CMSG_DATA(c), ret->nfds * sizeof(int));
	}
}

/* Reads exactly `size` bytes; descriptors come with the first of a message. */
static int read_all(int sock, void *to, size_t size, struct channel_message *ret, uint64_t start,
		    int timeout_ms)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(VHOST_USER_FDS_MAX * sizeof(int))];
	} control;
	size_t done = 0;

	while (done < size) {
		struct iovec iov = { (char *)to + done, size - done };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = control.bytes,
				      .msg_controllen = sizeof(control) };
		int rc = wait_readable(sock, time_left(start, timeout_ms));
		ssize_t n;

		if (rc)
			return rc;
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ECONNRESET;
		keep_fds(&msg, ret);
		done += (size_t)n;
	}
	return 0;
}

int channel_receive(int sock, struct channel_message *ret, int timeout_ms)
{
	uint64_t start = clock_ns();
	int rc;

	ret->nfds = 0;
	rc = read_all(sock, &ret->hdr, sizeof(ret->hdr), ret, start, timeout_ms);
	if (rc)
		return rc;
	if (ret->hdr.size > sizeof(ret->payload))
		return -EPROTO;
	return read_all(sock, &ret->payload, ret->hdr.size, ret, start, timeout_ms);
}

bool channel_closed(int sock, int timeout_ms)
{
	uint64_t start = clock_ns();
	char sink[256];

	for (;;) {
		ssize_t n;

		if (wait_readable(sock, time_left(start, timeout_ms)))
			return false;
		n = recv(sock, sink, sizeof(sink), 0);
		if (n == 0 || (n < 0 && errno != EINTR))
			return true;
	}
}
