/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which worker a queue goes to, when it is worth to move one, and how many workers there are.
 *
 * Loads are in thousandths of a CPU: cycles of turns that moved frames, as measured. A new queue
 * goes where the least is to be expected; nothing is known of it, nor of others that are new, so
 * each counts for something. One queue at a time is moved, from the worker that does the most to
 * the one that does the least. A move costs a wake-up and some cache misses, so a gain of an eighth
 * of a CPU pays for it in a millisecond; what has to be kept from happening is that queues move to
 * and fro with loads that come and go. So loads are means over a few seconds, the next move waits
 * until they tell what the last one has brought, and a worker that has time for all it owns keeps
 * it.
 *
 * Pure.
 */
#ifndef RINGWAY_POLICY_PLACE_H
#define RINGWAY_POLICY_PLACE_H

#include "base/base.h"

/* A worker that does less has no need of help. */
#define PLACE_BUSY 500u
/* The least by which the busier of the two has to be relieved. */
#define PLACE_GAIN 125u
/* What a queue counts for at least: with 50 of them idle a worker is as good as one half busy. */
#define PLACE_QUEUE_MIN 10u
/* Seconds after a move in which nothing is moved: the means are seven parts in eight new then. */
#define PLACE_REST 3u
/* A second's part in the moving mean: one in this many. */
#define PLACE_WEIGHT 2u

/* The mean, of `load` and of a second in which `busy` of `elapsed` cycles were spent. */
unsigned place_load(unsigned load, uint64_t busy, uint64_t elapsed);

/* What the queue counts for when another one has to be placed. */
unsigned place_expect(unsigned load);

/* The worker that a new queue goes to: the least loaded, the lowest number among equals. */
unsigned place_queue(const unsigned *load, unsigned workers);

/* The workers between which a queue might be moved; false: none has need of it. */
bool place_sides(const unsigned *load, unsigned workers, unsigned *ret_from, unsigned *ret_to);

/* By how much that relieves the busier of the two; 0: by too little. */
unsigned place_gain(unsigned from, unsigned to, unsigned queue);

/*
 * How many workers to run when nobody says: half of the CPUs and no more than a limit of CPU time
 * (thousandths of a CPU) keeps busy, at least 1 and at most 4.
 */
unsigned place_workers(unsigned cpus, unsigned quota);

#endif
