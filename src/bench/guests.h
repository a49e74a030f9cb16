/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both guests of a switch, played by one thread of this process.
 *
 * A guest has a *lane* for each queue pair, and a *flow* for each lane that it sends on. Frames of
 * a flow carry numbers, so each frame that is missing is noticed. What arrives is sent back from
 * the same buffers as a new frame of the lane that it came to, as a forwarding guest would
 * (`echo`), or goes no further. When frames are sent besides is up to the caller: load.c.
 *
 * The first cache line of a frame holds the virtio-net header, Ethernet, IPv4 and UDP or TCP
 * headers and the number: it is read at arrival and written anew at sending. With `data` the rest
 * is copied out and in as well.
 *
 * `times` asks for latencies: from when a frame of guest A was written until it is found at B, and
 * until B's answer to it is found at A. The time of sending is kept here, not in the frame.
 *
 * Frames that are one descriptor each (`plain`) have a path of their own, in bursts, since a
 * generator must cost less than what it measures. All others are chains: of the buffers that a
 * frame was merged from, of pieces of one large buffer, or a table with the header apart.
 */
#ifndef RINGWAY_BENCH_GUESTS_H
#define RINGWAY_BENCH_GUESTS_H

#include "bench/frames.h"
#include "bench/histogram.h"
#include "driver/driver.h"

#define GUESTS_SIZE_MIN 60
#define GUESTS_SIZE_MAX 9216
#define GUESTS_IMIX	0u     /* as a size: 64, 570 and 1518 bytes, 7 to 4 to 1 */
#define GUESTS_TSO	65214u /* as a size: TCP to be cut, 45 segments of 1448 bytes */
#define GUESTS_MACS_MAX 65535

#define FRAME_BUFFERS_MAX 20 /* pieces of a frame in any form, its header among them */

/* How rings are and how they are used. */
struct ring_form {
	bool packed, in_order, event_idx;
	bool mergeable; /* a large frame is received in several buffers of 4 KiB */
	bool indirect;	/* a frame is sent as a table of descriptors, its header apart */
};

struct guests_config {
	const char *socket[2]; /* of the switch's vhost-user ports A and B */
	struct ring_form form;
	unsigned entries; /* of each ring */
	unsigned size;	  /* of a frame in bytes, as it is in the ring (no FCS) */
	unsigned queues;  /* pairs of each port */
	unsigned macs;	  /* addresses of each guest, which frames take at random */
	unsigned cpu;	  /* for the thread */
	bool data;	  /* touch every byte of each frame, not its first cache line alone */
	bool timed;
};

/* When a frame was sent, and the one that it answers; TSC. */
struct sent {
	uint64_t when, asked;
};
#define SENT_KEPT 65536u /* more than can be under way: the last ones of each flow */

struct times {
	struct histogram one_way, round_trip; /* TSC cycles */
};

struct flow {
	struct stamp stamp cache_aligned;
	uint32_t sent;	   /* number of the next frame to send */
	uint32_t expected; /* of the next to arrive; earlier ones arrived or are lost */
	struct sent *kept; /* SENT_KEPT of them, by number; NULL: not timed */
};

/* The token of a frame under way that is not plain. */
struct chain {
	struct chain *next; /* while it is free */
	unsigned n;
	void *buffer[FRAME_BUFFERS_MAX];
};

/* A queue pair of one guest. */
struct lane {
	struct driver_ring *rx, *tx;
	void **spare; /* buffers that are in no ring */
	unsigned spares;
	struct chain *chains, *free; /* for all of the tx ring; those not in use */
	struct flow *flow;	     /* that it sends */
	unsigned guest;
	bool awake; /* was called, and has not run dry since (load.c) */
};

struct guests {
	const struct guests_config *config;
	struct driver *driver[2];
	struct lane *lane; /* of guest A, then of B */
	struct flow *flow; /* same order */
	unsigned lanes;	   /* of both */
	uint32_t buffer;   /* bytes of a buffer */
	uint32_t piece;	   /* bytes of it that become one descriptor */
	uint32_t frame;	   /* bytes of the longest frame and its virtio-net header */
	unsigned slots;	   /* of a tx ring that it takes */
	bool plain;	   /* frames and buffers are one descriptor each */
	bool echo[2];	   /* what arrives at that guest is sent back */
	uint64_t received, lost, calls;
	uint8_t *scratch;
	struct times *times; /* NULL: not timed */
	uint64_t asked;	     /* `when` of the request that arrived last */
};

/* 64 bytes, one queue, one address each, a split ring of 256; the sockets are yet to be named. */
struct guests_config guests_config_default(void);

/* The same words as on the command line: a number, "imix" or "tso". */
#define GUESTS_SIZE_TEXT 12
void guests_size_print(unsigned size, char *text);
/* Bytes of a frame, on average. */
double guests_size_mean(unsigned size);

/*
 * Understands "packed,indirect,in_order,-mergeable,-event_idx" and the like, each word optional.
 * 0, or -EINVAL with `err` filled.
 */
int ring_form_parse(const char *text, struct ring_form *ret, struct error *err);
/* The same words, for a report; `text` holds RING_FORM_TEXT bytes. */
#define RING_FORM_TEXT 64
void ring_form_print(const struct ring_form *form, char *text);

/*
 * Pins the thread, connects both guests and waits until they hear each other: some switches need
 * seconds to take up a port. 0, or -errno with `err` filled (ENOLINK: they do not); close it in any
 * case.
 */
int guests_open(struct guests *g, const struct guests_config *config, struct error *err);
void guests_close(struct guests *g);

/* Receives a burst at one lane, and sends it back. Returns how many frames arrived. */
unsigned guests_turn(struct guests *g, struct lane *lane);

/* Makes one more frame available on the lane; false if there is no room. ring_flush() is left. */
bool guests_send(struct guests *g, struct lane *lane);
/* A short broadcast, by which a learning switch learns a guest's address. */
void guests_announce(struct guests *g, struct lane *lane);

/* Puts spare buffers into the rx ring. */
void guests_post(struct guests *g, struct lane *lane);

/* Buffers, of 2 or 4 KiB, that the longest frame takes. */
unsigned guests_buffers(const struct guests *g);

/* Frames that were sent, have not arrived and are not given up. */
uint32_t guests_under_way(const struct guests *g);
void guests_give_up(struct guests *g);

/*
 * What waits to be seen, and so is not lost, whoever is late: by the switch, chains of a guest that
 * it has not returned; by a guest, which may sleep for want of a call, rings with frames in them.
 */
struct guests_waiting {
	unsigned untaken[2], unread[2];
};
struct guests_waiting guests_waiting(struct guests *g);

/* 0, or -EPROTO if the device broke the rules. */
int guests_check(const struct guests *g, struct error *err);

/* Kicks that were made since the guests were opened. */
uint64_t guests_kicks(const struct guests *g);
/* Calls that came; those rings are awake then. */
uint64_t guests_calls(struct guests *g);

#endif
