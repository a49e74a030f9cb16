/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drivers that agreed to different things: packets as Linux would send them, and what must come of
 * each of them at the other end.
 *
 * What a receiver is to get is worked out here from the specification, byte by byte, with
 * unit/plain_net.h; nothing is shared with what is tested. Checksums are not expected but verified.
 */
#ifndef RINGWAY_TESTS_DEVICE_UNLIKE_H
#define RINGWAY_TESTS_DEVICE_UNLIKE_H

#include "harness.h"
#include "net/gso.h" /* constants that older kernel headers lack */
#include "unit/plain_net.h"

/* What a driver agrees to, in the role of a sender and of a receiver: all sets of these. */
enum {
	UNLIKE_CSUM = 1 << 0,
	UNLIKE_GUEST_CSUM = 1 << 1,
	UNLIKE_TSO4 = 1 << 2, /* each of these: HOST_ and GUEST_ */
	UNLIKE_TSO6 = 1 << 3,
	UNLIKE_ECN = 1 << 4,
	UNLIKE_USO = 1 << 5,
	UNLIKE_MERGE = 1 << 6,
	UNLIKE_MATRIX = 1 << 7, /* that many sets are tried with each other */
	UNLIKE_INDIRECT = 1 << 7,
	UNLIKE_SETS = 1 << 8,
	UNLIKE_LEGACY = 1 << 8, /* no VERSION_1: with a header of 10 bytes unless MERGE is there */

	UNLIKE_ALL = UNLIKE_SETS - 1,
};

#define UNLIKE_PACKET_MAX (PLAIN_FRAME_MAX + 12)
#define UNLIKE_TEXT	  256

struct unlike {
	struct rig *rig;
	unsigned port, set;
	struct driver *d;
	uint64_t full; /* frames that were given up at its port as that */
};

struct unlike_packet {
	struct plain_shape shape;
	uint32_t gso_size; /* 0: not to be cut */
	struct virtio_net_hdr hdr;
	struct plain_frame frame;
};

enum unlike_how {
	UNLIKE_PASSED,
	UNLIKE_FINISHED,
	UNLIKE_CUT,
	UNLIKE_CUT_FINISHED,
	UNLIKE_HOWS,
};

struct unlike_fate {
	enum unlike_how how;
	uint32_t pieces; /* frames that arrive */
	uint32_t chains; /* rx buffers that they take */
	bool too_big;	 /* it is dropped as that */
	bool slowly;	 /* they are more than its ring has: it makes room as they come */
	bool full;	 /* what is missing was given up, for that took too long */
};

struct unlike_tally {
	uint64_t packets[UNLIKE_HOWS], frames[UNLIKE_HOWS];
	uint64_t sent, too_big, full;
};

/* "csum,tso4,..." */
void unlike_text(unsigned set, char *text, size_t size);

/* A driver with `set` at a port; ring and buffers as `like` says, or as Linux has them (NULL). */
void unlike_open(struct rig *rig, unsigned port, unsigned set, const struct driver_config *like,
		 struct unlike *ret);

/* Makes the packet from p->shape and p->gso_size. False if such a sender would not send it. */
bool unlike_make(struct unlike_packet *p, const struct unlike *from, unsigned to_port);

/* Not yet published; 0 or -ENOSPC. */
int unlike_send(const struct unlike *from, const struct unlike_packet *p);

struct unlike_fate unlike_fate(const struct unlike_packet *p, const struct unlike *to);

/*
 * Takes what must come of the packet, and verifies it. False: what is wrong is in `wrong`. A packet
 * of more frames than the ring has room for may end early: *ret says what came of it.
 */
bool unlike_receive(struct unlike *to, const struct unlike_packet *p, struct unlike_fate *ret,
		    char wrong[UNLIKE_TEXT]);

/*
 * Packets of every form at the sizes where something changes (`few`: at some of them), in bursts;
 * counters are compared at the end, and added to `tally`.
 */
bool unlike_run(struct rig *rig, const struct unlike *from, struct unlike *to, bool few,
		struct unlike_tally *tally, char wrong[UNLIKE_TEXT]);

/* For tests: drivers at ports 0 and 1, both known to the switch, that go when they have parted. */
void unlike_meet(struct rig *rig, struct unlike d[2], unsigned a, unsigned b,
		 const struct driver_config *like_b);
void unlike_part(struct unlike d[2]);
/* TCP over IPv4, for port 1. */
void unlike_make_tcp(struct unlike_packet *p, const struct unlike *from, uint32_t payload,
		     uint32_t gso_size, uint32_t seed);
/* All of it has to arrive. */
void unlike_expect(struct unlike *to, const struct unlike_packet *p);

#endif
