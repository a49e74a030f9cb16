/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was refused to a port's peer, apart from its frames (base/drop.h), and how often it met a
 * limit. Where functions hand an error on, the errno says which of these it is.
 *
 * X(NAME, name, errno or 0, what it means)
 */
#ifndef RINGWAY_BASE_REFUSAL_H
#define RINGWAY_BASE_REFUSAL_H

#include "base/reason.h"

#define REFUSALS(X)                                                                             \
	X(MALFORMED, malformed, EPROTO, "message that is malformed or has wrong descriptors")   \
	X(NOT_OFFERED, not_offered, EOPNOTSUPP, "request or feature that was not offered")      \
	X(VALUE, value, EINVAL, "ring, size, address or region that cannot be")                 \
	X(OVERLAP, overlap, EEXIST, "memory regions that overlap")                              \
	X(DESCRIPTOR, descriptor, EBADF, "descriptor that is no eventfd, or no shared memory")  \
	X(MEMORY_MAX, memory_max, EDQUOT, "more memory than memory-max")                        \
	X(NO_ROOM, no_room, ENOSPC, "more memory, or regions of it, than there is room for")    \
	X(QUEUE_SIZE_MAX, queue_size_max, EFBIG, "ring larger than queue-size-max")             \
	X(CALLS, calls, EAGAIN, "call descriptors that are replaced too fast")                  \
	X(HOST, host, 0, "the host had no memory or descriptors for it, or its kernel refused") \
	X(STUCK, stuck, 0, "session of a front-end whose descriptors do not close")             \
	X(UNREAD, unread, 0, "session whose replies nobody read")                               \
	X(MEMORY_GONE, memory_gone, 0, "session that took its guest's memory away")             \
	X(CALL_BLOCKED, call_blocked, 0, "session that let calls to its guest block, or last")  \
	X(RING_BROKEN, ring_broken, 0, "ring that was stopped: what it holds makes no sense")   \
	X(MESSAGES_MAX, messages_max, 0, "wait before the next message, for messages-max")      \
	X(LOG_MAX, log_max, 0, "line that the log left out, for log-max")

enum refusal {
	REFUSAL_NONE,
#define X(NAME, name, code, text) REFUSAL_##NAME,
	REFUSALS(X)
#undef X
		REFUSAL_COUNT
};

extern const struct reason refusal_reasons[REFUSAL_COUNT];

/* Of a negative errno; REFUSAL_HOST if it is nobody's. */
enum refusal refusal_of(int error);

#endif
