/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the vhost-user protocol, apart from the socket they come through: what each may look
 * like, and what it does. For session.c only. Control thread.
 */
#ifndef RINGWAY_VHOST_MESSAGES_H
#define RINGWAY_VHOST_MESSAGES_H

#include "vhost/device.h"
#include "vhost/wire.h"

struct message {
	struct vhost_user_header header;
	union vhost_user_payload payload;
	int fd[VHOST_USER_FDS_MAX]; /* whoever keeps one puts -1 in its place */
	unsigned fds;
};

enum message_flags {
	MESSAGE_NOFD = 1,  /* one descriptor, or none and VHOST_USER_VRING_NOFD in the u64 */
	MESSAGE_FATAL = 2, /* failed, it leaves memory that cannot be trusted */
};

struct message_type {
	const char *name;
	uint16_t size_min, size_max; /* of the payload */
	uint8_t fds_min, fds_max;
	uint8_t reply; /* payload of its own reply; 0: it has none */
	uint8_t flags;
	uint32_t needs; /* protocol features that must have been agreed to */
	/* 0 or a negative errno; one with a reply of its own leaves it in the payload, always. */
	int (*handle)(struct vhost_device *dev, struct message *m, struct error *err);
};

/* Never NULL: an unknown request may have any payload and any descriptors, and is refused. */
const struct message_type *message_type(uint32_t request);

/* Framing, as soon as the header is there and again with the whole message. 0 or -EPROTO. */
int message_check_header(const struct vhost_user_header *header, struct error *err);
int message_check(const struct message *m, struct error *err);

/*
 * Does it. 0 or a negative errno with `err` filled. *ret_reply is the size of the reply of its own
 * that is now in the payload, 0 if there is none.
 */
int message_handle(struct vhost_device *dev, struct message *m, uint32_t *ret_reply,
		   struct error *err);

#endif
