/* SPDX-License-Identifier: Apache-2.0 */
/* The loads of `ringway bench`, and what is measured under them. */
#ifndef RINGWAY_BENCH_LOAD_H
#define RINGWAY_BENCH_LOAD_H

#include <sys/types.h>

#include "bench/guests.h"
#include "bench/line.h"

struct load_config {
	struct guests_config guests;
	double seconds;	 /* measured, or more if nothing arrives; a warm-up comes before */
	unsigned window; /* frames in flight, all directions and queues together; 0: 256 buffers */
	double rate;	 /* not 0: an open loop of so many frames a second, from A */
	unsigned seed;	 /* of the random gaps between those */
	bool oneway;	 /* from A to B only */
	pid_t watched;	 /* the switch, whose CPU time is told as well; 0: not known */
	bool calls;	 /* the guests sleep until they are called */
	const char *trace; /* a file for when A sent its last frames (bench/trace.h); NULL: none */
};

#define LOAD_WINDOW_MAX 65535
#define LOAD_RATE_MAX	1e8

/* Of many times, in ns. */
struct load_times {
	uint64_t n, p50, p99, p999, max;
};

struct load_result {
	double seconds;		       /* really measured */
	uint64_t sent, received, lost; /* in that time; the last ones had a second more to arrive */
	double frames_per_s;	       /* received */
	double sent_per_s;	       /* open loop: by A */
	double cycles_per_frame;       /* of the generator, in turns that moved frames */
	double cpu;		       /* of the generator's thread, a share of the time */
	double watched_cpu;	       /* of the switch, the same; more than 1 if it has threads */
	double kicks_per_frame, calls_per_frame;
	struct load_times one_way, round_trip; /* if the guests are timed */
	struct load_times late;	   /* open loop: how long after its time a frame was sent */
	double line_round_trip_ns; /* of a cache line between CPUs 0 and 1 */
	double wake_up_ns;	   /* of a thread on CPU 1 by one on CPU 0 */
	unsigned window;	   /* frames in flight */
};

/* Runs it once. 0, or -errno with `err` filled (ENOLINK: frames do not arrive at all). */
int load_run(const struct load_config *config, struct load_result *ret, struct error *err);

#endif
