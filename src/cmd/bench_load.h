/* SPDX-License-Identifier: Apache-2.0 */
/* The generator of `ringway bench`: both guests of a switch, in one polling thread. */
#ifndef RINGWAY_CMD_BENCH_LOAD_H
#define RINGWAY_CMD_BENCH_LOAD_H

#include "base/error.h"

struct load_config {
	const char *socket[2]; /* of the switch's vhost-user ports A and B */
	unsigned size;	       /* of a frame in bytes, as it is in the ring (no FCS) */
	double seconds;	       /* measured; a warm-up comes before */
	unsigned window;       /* frames in flight, all directions and queues together */
	unsigned queues;       /* pairs of each port */
	unsigned cpu;	       /* for the thread */
	bool data;	       /* touch every byte of each frame, not its first cache line alone */
	bool oneway;	       /* from A to B only */
};

#define LOAD_SIZE_MIN	60
#define LOAD_SIZE_MAX	9216
#define LOAD_WINDOW_MAX 65536

struct load_result {
	double seconds;		       /* really measured */
	uint64_t sent, received, lost; /* in that time; the last ones had a second more to arrive */
	double frames_per_s;	       /* received */
	double cycles_per_frame;       /* of the generator, in turns that moved frames */
	double line_round_trip_ns;     /* of a cache line between CPUs 0 and 1 */
};

/* Runs it once. 0, or -errno with `err` filled (ENOLINK: frames do not arrive at all). */
int load_run(const struct load_config *config, struct load_result *ret, struct error *err);

/*
 * Time for a cache line to go to another CPU and back, in ns; 0 if there is one CPU only. Takes
 * about 50 ms. It tells whether two CPUs of a virtual machine are separate cores at the moment
 * ("X") or threads of one ("S"): only figures of one class can be compared.
 */
double line_round_trip(void);
const char *line_class(double round_trip_ns);

#endif
