/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The switch that a benchmark starts for itself: `ringway run` with one worker on CPU 1 and two
 * ports, in a folder of its own. While it runs, SIGINT and SIGTERM are blocked, so that nothing is
 * left behind; whoever runs it asks for them between runs.
 */
#ifndef RINGWAY_BENCH_CHILD_H
#define RINGWAY_BENCH_CHILD_H

#include <signal.h>
#include <sys/types.h>

#include "base/error.h"

struct child {
	char folder[32]; /* "": not made */
	char control[48], socket[2][48], log[48];
	pid_t pid;
	sigset_t unblocked; /* signals, before */
};

/* Counters of its worker. */
struct usage {
	double cycles, frames, bursts;
};

/* `poll`: as of `run --poll`. 0, or -errno with `err` filled; child_stop() in any case. */
int child_start(struct child *c, const char *poll, struct error *err);
void child_stop(struct child *c);

int child_usage(const struct child *c, struct usage *ret, struct error *err);

/* Adds to `err` under which load it came about, in two words, and what the switch has dropped. */
void child_explain(const struct child *c, const char *load, const char *kind, struct error *err);

/* Has one of the blocked signals come? */
bool child_interrupted(void);

#endif
