/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors whose close lasts, as a front-end may send them. */
#ifndef RINGWAY_TEST_LINGERING_H
#define RINGWAY_TEST_LINGERING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A connection whose close waits for data that its peer does not take; *ret_peer releases it. */
static inline int lingering_socket(int *ret_peer)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger forever = { .l_onoff = 1, .l_linger = 3600 };
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	static char bytes[1 << 16];
	socklen_t len = sizeof(at);

	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	*ret_peer = accept(listener, NULL, NULL);
	close(listener);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &forever, sizeof(forever)), 0);
	return fd;
}

static inline void lingering_reset(int peer)
{
	struct linger now = { .l_onoff = 1 };

	setsockopt(peer, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(peer);
}

/* Sends one through `sock` and keeps none; returns the peer. */
static inline int lingering_sent(int sock)
{
	struct iovec iov = { .iov_base = (char[1]){ 0 }, .iov_len = 1 };
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS } };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = control.room,
				  .msg_controllen = sizeof(control.room) };
	int peer, fd = lingering_socket(&peer);

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	assert_int_equal(sendmsg(sock, &message, 0), 1);
	close(fd);
	return peer;
}

#endif
