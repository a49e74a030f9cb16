/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a frame went no further. Every frame that a port takes in is either addressed to other ports
 * or dropped at ingress; every copy that is addressed to a port is either delivered or dropped at
 * egress. So for each port: addressed = delivered + sum(dropped at egress), to the frame.
 *
 * X(NAME, name, what it means and whose fault it is)
 */
#ifndef RINGWAY_BASE_DROP_H
#define RINGWAY_BASE_DROP_H

#include <stdint.h>

#include "base/reason.h"

#define DROP_REASONS(X)                                                                            \
	/* at ingress */                                                                           \
	X(CHAIN_HEAD, chain_head, "available entry names a descriptor outside the ring")           \
	X(CHAIN_LOOP, chain_loop, "descriptor chain longer than its table allows")                 \
	X(CHAIN_NEXT, chain_next, "next descriptor outside its table")                             \
	X(CHAIN_DIRECTION, chain_direction, "device-writable descriptor in a tx chain")            \
	X(CHAIN_INDIRECT, chain_indirect,                                                          \
	  "bad indirect table: not agreed, nested, or of a wrong length")                          \
	X(CHAIN_PIECES, chain_pieces, "chain of more pieces than one batch holds")                 \
	X(MEMORY, memory, "descriptor outside the guest's memory")                                 \
	X(HEADER_SHORT, header_short, "chain shorter than the virtio-net header")                  \
	X(HEADER_BAD, header_bad, "virtio-net header contradicts the frame")                       \
	X(FRAME_SHORT, frame_short, "frame shorter than an Ethernet header")                       \
	X(FRAME_LONG, frame_long, "frame longer than any offload allows")                          \
	X(QUEUE_DISABLED, queue_disabled, "sent on a queue that the guest has disabled")           \
	X(NO_DESTINATION, no_destination, "no other port to send to")                              \
	X(SAME_PORT, same_port,                                                                    \
	  "its destination is behind its own port; do two guests have the same MAC address?")      \
	/* at egress */                                                                            \
	X(PORT_DOWN, port_down, "no queue of the port runs to receive with, or its link is down")  \
	X(FULL, full, "no room in the receiver's rx ring")                                         \
	X(TOO_BIG, too_big, "longer than the receiver's buffers or MTU allow")                     \
	X(HEADER_TOO_LONG, header_too_long,                                                        \
	  "headers that are to be changed reach further than is looked at")                        \
	X(HEADER_LIES, header_lies, "cannot be cut as its virtio-net header says")                 \
	X(RX_CHAIN, rx_chain, "the receiver posted a malformed rx chain")                          \
	X(HOST_REFUSED, host_refused, "malformed, or in more pieces than the host's kernel takes") \
	X(SENDER_FAULT, sender_fault, "the sender's memory went away under the frame")             \
	X(NO_MEMORY, no_memory, "no memory to hold the frame while the receiver is full")

enum drop {
	DROP_NONE,
#define X(NAME, name, text) DROP_##NAME,
	DROP_REASONS(X)
#undef X
		DROP_COUNT
};

extern const struct reason drop_reasons[DROP_COUNT];

/* What went through one place in one direction: one writer at a time, by count(). */
struct frame_counters {
	uint64_t frames, bytes; /* at ingress: taken in; at egress: delivered */
	uint64_t dropped[DROP_COUNT];
};

/* Adds what `from` says now, while others may be counting there. */
void frame_counters_add(struct frame_counters *to, const struct frame_counters *from);

#endif
