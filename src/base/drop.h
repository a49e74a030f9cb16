/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a frame went no further. Every frame that a port takes in is either addressed to other ports
 * or dropped at ingress; every copy that is addressed to a port is either delivered or dropped at
 * egress. So for each port: addressed = delivered + sum(dropped at egress), to the frame.
 *
 * X(NAME, name, side, what it means and whose fault it is)
 */
#ifndef RINGWAY_BASE_DROP_H
#define RINGWAY_BASE_DROP_H

#include "base/base.h"

#define DROP_REASONS(X)                                                                           \
	X(CHAIN_HEAD, chain_head, INGRESS, "available entry names a descriptor outside the ring") \
	X(CHAIN_LOOP, chain_loop, INGRESS, "descriptor chain longer than its table allows")       \
	X(CHAIN_NEXT, chain_next, INGRESS, "next descriptor outside its table")                   \
	X(CHAIN_DIRECTION, chain_direction, INGRESS, "device-writable descriptor in a tx chain")  \
	X(CHAIN_INDIRECT, chain_indirect, INGRESS,                                                \
	  "bad indirect table: not agreed, nested, or of a wrong length")                         \
	X(CHAIN_PIECES, chain_pieces, INGRESS, "chain of more pieces than one batch holds")       \
	X(MEMORY, memory, INGRESS, "descriptor outside the guest's memory")                       \
	X(HEADER_SHORT, header_short, INGRESS, "chain shorter than the virtio-net header")        \
	X(HEADER_BAD, header_bad, INGRESS, "virtio-net header contradicts the frame")             \
	X(FRAME_SHORT, frame_short, INGRESS, "frame shorter than an Ethernet header")             \
	X(FRAME_LONG, frame_long, INGRESS, "frame longer than any offload allows")                \
	X(QUEUE_DISABLED, queue_disabled, INGRESS, "sent on a queue that the guest has disabled") \
	X(NO_DESTINATION, no_destination, INGRESS, "no other port to send to")                    \
	X(SAME_PORT, same_port, INGRESS,                                                          \
	  "its destination is behind its own port; do two guests have the same MAC address?")     \
	X(PORT_DOWN, port_down, EGRESS,                                                           \
	  "no queue of the port runs to receive with, or its link is down")                       \
	X(FULL, full, EGRESS, "no room in the receiver's rx ring")                                \
	X(TOO_BIG, too_big, EGRESS, "longer than the receiver's buffers or MTU allow")            \
	X(HEADER_TOO_LONG, header_too_long, EGRESS,                                               \
	  "headers that are to be changed reach further than is looked at")                       \
	X(HEADER_LIES, header_lies, EGRESS, "cannot be cut as its virtio-net header says")        \
	X(RX_CHAIN, rx_chain, EGRESS, "the receiver posted a malformed rx chain")                 \
	X(HOST_REFUSED, host_refused, EGRESS,                                                     \
	  "malformed, or in more pieces than the host's kernel takes")                            \
	X(SENDER_FAULT, sender_fault, EGRESS, "the sender's memory went away under the frame")    \
	X(NO_MEMORY, no_memory, EGRESS, "no memory to hold the frame while the receiver is full")

enum drop {
	DROP_NONE,
#define X(NAME, name, side, text) DROP_##NAME,
	DROP_REASONS(X)
#undef X
		DROP_COUNT
};

enum drop_side { DROP_INGRESS, DROP_EGRESS };

const char *drop_name(enum drop reason);
const char *drop_text(enum drop reason);
enum drop_side drop_side(enum drop reason);

#endif
