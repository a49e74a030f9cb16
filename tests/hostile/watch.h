/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traffic between ports 0 and 1 that must not notice what happens at port 2: numbered frames both
 * ways, of which each arrives, once, in order, byte for byte, and none is waited for long.
 */
#ifndef RINGWAY_TESTS_HOSTILE_WATCH_H
#define RINGWAY_TESTS_HOSTILE_WATCH_H

#include "harness.h"

struct watch {
	struct rig *rig;
	struct driver *d[2];
	unsigned sent[2], got[2]; /* from each port; frames that came from it */
	unsigned foreign;	  /* frames that were neither's */
	uint64_t moved_at;	  /* when a frame last came, or none was under way */
	uint64_t worst_ns;	  /* the longest time without */
};

/* `config` is port 0's. */
void watch_begin(struct watch *w, struct rig *rig, const struct driver_config *config);
/* Sends and receives what can be; again and again, until the attack is over. */
void watch_turn(struct watch *w);
/* All that is under way arrives, and nothing was dropped at either port. */
void watch_settle(struct watch *w);
void watch_end(struct watch *w);

/* RINGWAY_TEST_FULL: `full` rounds of an attack; otherwise as many as go into `sample_ms`. */
struct effort {
	uint64_t end, left;
};

struct effort effort_of(uint64_t full, unsigned sample_ms);
bool effort_goes_on(const struct effort *e);

#endif
