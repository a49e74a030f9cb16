/* SPDX-License-Identifier: Apache-2.0 */
/* Frames whose every byte is known, and streams of them from one driver to another. */
#ifndef RINGWAY_TESTS_DEVICE_STREAM_H
#define RINGWAY_TESTS_DEVICE_STREAM_H

#include "driver/driver.h"

#define FRAME_MIN      14
#define FRAME_ROOM     65600
#define ETHERTYPE_TEST 0x88b5 /* local experimental */

/* `len` bytes from port `from` to port `to`: addresses, type, and a pattern of `seed`. */
void frame_make(uint8_t *frame, uint32_t len, unsigned from, unsigned to, uint32_t seed);

/* Puts IPv4 and TCP headers into a frame of 54 bytes or more; the TCP checksum is unfinished. */
#define TCP_HEADERS 54
void frame_add_tcp(uint8_t *frame, uint32_t len);

/* Of a large frame made so. */
extern const struct virtio_net_hdr tso;

/* A stream of frames from one driver to another. Zeroes are sensible defaults. */
struct stream {
	struct driver *from, *to;
	unsigned from_port, to_port; /* for the addresses; both 0: ports 0 and 1 */
	unsigned from_pair;	     /* it may arrive at any */
	unsigned count;		     /* frames; 0: 100 */
	unsigned window;	     /* under way; 0: what 64 and the rings allow */
	uint32_t len_min, len_max;   /* bytes; random between; 0: 60 to 1514 */
	const struct driver_shape *shape;
	const struct virtio_net_hdr *hdr;
	bool tcp;     /* the frames begin with IPv4 and TCP headers (frame_add_tcp()) */
	bool by_call; /* the receiver waits for calls and never looks without one */
	/* Sums over all frames received. */
	uint64_t buffers, used_len;
};

/*
 * Sends it and checks that all arrives, in order, byte for byte, and what each used entry says.
 * Fails the test otherwise.
 */
void stream_run(struct stream *s);

/* The same there and back, with the same settings; back from pair 0. */
void stream_both(const struct stream *s);

/* One frame of 60 bytes each way between ports 0 and 1: they still work. */
void assert_passes(struct driver *a, struct driver *b);

/* Takes all that has come to it: how many frames. */
unsigned swallow(struct driver *d);

/* Until nothing has come to either for a while. */
void settle(struct driver *a, struct driver *b);

/* The end of a test: a stream each way between ports 0 and 1, and both go. */
void pass_and_close(struct driver *a, struct driver *b);

/* Puts one frame on the wire, and takes one (false after `timeout_ms` without). */
void send_one(struct driver *d, unsigned from, unsigned to, uint32_t len, uint32_t seed);
bool receive_one(struct driver *d, unsigned from, unsigned to, uint32_t len, uint32_t seed,
		 int timeout_ms);

#endif
