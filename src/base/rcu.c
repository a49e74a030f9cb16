// SPDX-License-Identifier: Apache-2.0
#include "base/rcu.h"

#include <unistd.h>

#ifdef RINGWAY_TSAN
char rcu_tsan_grace;
#endif

/* How many objects were handed over, by control, and released, by liburcu's thread. */
static uint64_t rcu_queued, rcu_released;

static void rcu_release(struct rcu_head *head)
{
	struct rcu_item *item = container_of(head, struct rcu_item, head);

	RCU_TSAN_ACQUIRE();
	item->release(item);
	store_release(&rcu_released, rcu_released + 1); /* rcu_drain() */
}

void rcu_free_later(struct rcu_item *item, void (*release)(struct rcu_item *item))
{
	item->release = release;
	rcu_queued++;
	RCU_TSAN_RELEASE();
	rcu_thread_online();
	call_rcu(&item->head, rcu_release);
	rcu_thread_offline();
}

void rcu_drain(void)
{
	while (load_acquire(&rcu_released) != rcu_queued) /* rcu_release() */
		usleep(1000);
}
