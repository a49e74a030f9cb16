/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket of a vhost-user connection, seen from the front-end: whole messages with descriptors.
 *
 * Nothing is judged here: any request, flags, payload and number of descriptors can be sent, since
 * hostile tests do so. All calls block, each within a time; one thread at a time.
 */
#ifndef RINGWAY_DRIVER_CHANNEL_H
#define RINGWAY_DRIVER_CHANNEL_H

#include "base/error.h"
#include "vhost/wire.h"

#define CHANNEL_FDS_MAX 64 /* that can be sent at once; the protocol has fewer */

struct channel_message {
	struct vhost_user_header hdr;
	union vhost_user_payload payload;
	int fds[VHOST_USER_FDS_MAX]; /* the receiver's to close */
	unsigned nfds;
};

/* Connects, again and again for `timeout_ms` if nobody listens yet. A descriptor or -errno. */
int channel_connect(const char *path, int timeout_ms, struct error *err);

/* The other way round: a listening socket at `path`, and one connection from it. */
int channel_listen(const char *path, struct error *err);
int channel_accept(int listener, int timeout_ms, struct error *err);

/* Sends one message. `flags` is sent as it is. 0 or -errno (EPIPE: the peer has closed). */
int channel_send(int sock, uint32_t request, uint32_t flags, const void *payload, uint32_t size,
		 const int *fds, unsigned nfds);

/*
 * Receives one message. 0, or -ETIMEDOUT, -ECONNRESET (closed by the peer), -EPROTO (payload too
 * long), -errno.
 */
int channel_receive(int sock, struct channel_message *ret, int timeout_ms);

/* True if the peer closes within the time; what it still sends is thrown away. */
bool channel_closed(int sock, int timeout_ms);

#endif
