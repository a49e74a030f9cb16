/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real switch in a process of its own, and drivers at its sockets.
 *
 * The switch is the built binary (RINGWAY in the environment), with PORTS vhost-user ports p0, p1,
 * ... that listen in a directory of its own. A test opens drivers, sends frames (stream.h), and
 * asks the switch for its counters. rig_setup() and rig_teardown() are cmocka fixtures; the
 * teardown fails a test after which the switch has died.
 */
#ifndef RINGWAY_TESTS_DEVICE_HARNESS_H
#define RINGWAY_TESTS_DEVICE_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "driver/script.h"
#include "stream.h"

#define PORTS 3

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

/* What it has dropped, on stderr; of the rig that runs. */
void rig_print_drops(void);

/* Waits until the port's state is `state`; fails the test if it does not become so. */
void rig_wait_state(struct rig *rig, unsigned port, const char *state);

/* Of the switch: open descriptors, threads, resident memory in kB, mappings of files so named. */
unsigned rig_open_fds(const struct rig *rig);
unsigned rig_threads(const struct rig *rig);
unsigned rig_resident(const struct rig *rig);
/* That are still there after some seconds: what is large is unmapped apart. */
unsigned rig_mappings(const struct rig *rig, const char *name);

#endif
