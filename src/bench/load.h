/* SPDX-License-Identifier: Apache-2.0 */
/* The load of `ringway bench`: frames in a closed loop between two guests. */
#ifndef RINGWAY_BENCH_LOAD_H
#define RINGWAY_BENCH_LOAD_H

#include "bench/guests.h"
#include "bench/line.h"

struct load_config {
	struct guests_config guests;
	double seconds;	 /* measured; a warm-up comes before */
	unsigned window; /* frames in flight, all directions and queues together; 0: 256 buffers */
	bool oneway;	 /* from A to B only */
};

#define LOAD_WINDOW_MAX 65536

struct load_result {
	double seconds;		       /* really measured */
	uint64_t sent, received, lost; /* in that time; the last ones had a second more to arrive */
	double frames_per_s;	       /* received */
	double cycles_per_frame;       /* of the generator, in turns that moved frames */
	double kicks_per_frame, calls_per_frame;
	double line_round_trip_ns; /* of a cache line between CPUs 0 and 1 */
	unsigned window;	   /* frames in flight */
};

/* Runs it once. 0, or -errno with `err` filled (ENOLINK: frames do not arrive at all). */
int load_run(const struct load_config *config, struct load_result *ret, struct error *err);

#endif
