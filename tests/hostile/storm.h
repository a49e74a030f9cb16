/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guest that makes up its chains: random ones, and such as are nearly right, as fast as they are
 * returned, in a ring of either format. It keeps account of what it offered, and sees to it that
 * each comes back as the specification wants (2.7.14, 2.8.8).
 */
#ifndef RINGWAY_TESTS_HOSTILE_STORM_H
#define RINGWAY_TESTS_HOSTILE_STORM_H

#include "driver/driver.h"

#define STORM_RING  64u
#define STORM_EXTRA (4u << 20) /* guest memory that it needs */
#define STORM_BYTE  2	       /* its memory, and so its frames and their addresses, are of these */

/* A chain that is under way. */
struct storm_chain {
	uint16_t head; /* packed: the id */
	uint16_t slot, slots;
};

struct storm {
	struct driver *d;
	struct driver_ring *r;
	bool write; /* an rx ring */
	uint8_t *area, *tables;
	uint64_t seed;
	struct storm_chain way[STORM_RING];
	uint16_t first, n;    /* of way[] */
	uint16_t avail, used; /* split: indexes */
	uint64_t offered;     /* entries, heads outside the ring among them */
	bool scribbled;	      /* lengths that come back may be its own */
	char fault[128];      /* what the device did wrong */
};

/*
 * Of ring `index`, in which nothing is under way, of a driver with STORM_RING descriptors,
 * STORM_EXTRA bytes and no buffers.
 */
void storm_begin(struct storm *s, struct driver *d, unsigned index, uint64_t seed);

/* Makes some chains available; what becomes of them is storm_take()'s to see. */
void storm_post(struct storm *s);

/* Changes what is under way. */
void storm_scribble(struct storm *s);

/* Takes what has come back. False: `fault` says what is wrong. */
bool storm_take(struct storm *s);

#endif
