/* SPDX-License-Identifier: Apache-2.0 */
/* A switch with a sender and two receivers that have no room, for tests of what waits for them. */
#ifndef RINGWAY_TESTS_HOLD_RIG_H
#define RINGWAY_TESTS_HOLD_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

#include "fake_port.h"
#include "policy/full.h"
#include "switch/hold.h"

#define PER_US 10u
#define LIMIT  ((uint64_t)FULL_HOLD_US * PER_US)
#define START  1000u

static struct vswitch sw;
static struct virtq_calls calls;
static struct batch batch;
static struct fake_port sender, a, b;

static inline int rig_open(void)
{
	struct fake_port *const ports[] = { &sender, &a, &b };

	memset(&calls, 0, sizeof(calls));
	batch_begin(&batch);
	if (switch_init(&sw))
		return -1;
	sw.per_us = PER_US;
	for (unsigned i = 0; i < ARRAY_SIZE(ports); i++) {
		fake_init(ports[i]);
		if (switch_add(&sw, &ports[i]->port))
			return -1;
	}
	a.room = b.room = 0;
	return 0;
}

static inline void rig_close(void)
{
	free(sender.queue.hold);
	switch_destroy(&sw);
}

static inline bool retry(uint64_t now)
{
	return hold_retry(&sw, &sender.queue, &calls, now);
}

#endif
