/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of workers over a switch without ports; the test's thread is control. */
#ifndef RINGWAY_TEST_POOL_RIG_H
#define RINGWAY_TEST_POOL_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rcu.h"
#include "worker/pool.h"

static struct vswitch sw;
static struct pool *pool;

static inline int rig_begin(unsigned workers, bool always_poll)
{
	struct error err;

	rcu_register_thread();
	rcu_offline();
	return switch_init(&sw) || rcu_start() || pool_open(&sw, workers, NULL, &pool, &err) ||
	       pool_start(pool, always_poll, &err);
}

/* After pool_close(), and after what workers may have seen was let go of. */
static inline void rig_end(void)
{
	rcu_drain();
	rcu_unregister_thread();
	switch_destroy(&sw);
}

#endif
