/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real switch in a process of its own, and drivers at its sockets.
 *
 * The switch is the built binary (RINGWAY in the environment), with PORTS vhost-user ports p0, p1,
 * ... that listen in a directory of its own. A test opens drivers, sends frames whose every byte
 * is known, and asks the switch for its counters. rig_setup() and rig_teardown() are cmocka
 * fixtures; the teardown fails a test after which the switch has died.
 */
#ifndef RINGWAY_TESTS_DEVICE_HARNESS_H
#define RINGWAY_TESTS_DEVICE_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "driver/driver.h"
#include "driver/script.h"

#define PORTS	       3
#define FRAME_MIN      14
#define FRAME_ROOM     65600
#define ETHERTYPE_TEST 0x88b5 /* local experimental */

/* What large TCP frames need, both ways. */
#define OFFLOADS                                                                               \
	(BIT(VIRTIO_NET_F_CSUM) | BIT(VIRTIO_NET_F_GUEST_CSUM) | BIT(VIRTIO_NET_F_HOST_TSO4) | \
	 BIT(VIRTIO_NET_F_GUEST_TSO4) | BIT(VIRTIO_NET_F_HOST_TSO6) |                          \
	 BIT(VIRTIO_NET_F_GUEST_TSO6))

struct rig {
	char folder[48];
	char control[64];
	char socket[PORTS][64];
	pid_t child;
};

int rig_setup(void **state);
int rig_teardown(void **state);

/* A driver at port `port`, with `config` (NULL: all defaults). Fails the test if it cannot. */
struct driver *rig_open(struct rig *rig, unsigned port, const struct driver_config *config);

/* RINGWAY_TEST_PACKED: drivers ask for packed rings. */
bool rig_packed(void);

/* Runs tests, of which the last `split_only` make no sense on packed rings. */
int rig_run(const char *name, const struct CMUnitTest *tests, size_t n, size_t split_only);

/* Is the switch alive, and does it answer within its time? */
void rig_assert_alive(struct rig *rig);

/*
 * Counters of a port. `drop` by name; waits up to a second until the figure is `expected` and then
 * compares.
 */
void rig_assert_dropped(struct rig *rig, unsigned port, const char *drop, uint64_t expected);
uint64_t rig_dropped(struct rig *rig, unsigned port, const char *drop);
/* How often something that is no frame was refused to it, by name. */
uint64_t rig_refused(struct rig *rig, unsigned port, const char *name);

/* What was counted for frames on their way from one port to another. */
struct rig_counters {
	uint64_t sent, delivered; /* frames of the first pair's rings */
	uint64_t segments;	  /* that some of those delivered were cut into */
	uint64_t dropped;	  /* by the sender at ingress, by the receiver at egress */
};

struct rig_counters rig_counters(struct rig *rig, unsigned from, unsigned to);

/* Waits until the port's state is `state`; fails the test if it does not become so. */
void rig_wait_state(struct rig *rig, unsigned port, const char *state);

/* Of the switch: open descriptors, threads, resident memory in kB, mappings of files so named. */
unsigned rig_open_fds(const struct rig *rig);
unsigned rig_threads(const struct rig *rig);
unsigned rig_resident(const struct rig *rig);
unsigned rig_mappings(const struct rig *rig, const char *name);

/* A frame of `len` bytes from port `from` to port `to`: addresses, type, and a pattern of `seed`.
 */
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
