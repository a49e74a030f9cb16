// SPDX-License-Identifier: Apache-2.0
#include "base/rcu.h"

#include <stdlib.h>

#ifdef RINGWAY_TSAN
char rcu_tsan_grace;
#endif

struct rcu_item {
	struct rcu_head head;
	void *object;
	void (*release)(void *object);
};

static void rcu_release(struct rcu_head *head)
{
	struct rcu_item *item = container_of(head, struct rcu_item, head);

	RCU_TSAN_ACQUIRE();
	item->release(item->object);
	free(item);
}

void rcu_free_later(void *object, void (*release)(void *object))
{
	struct rcu_item *item = malloc(sizeof(*item));

	if (!item) {
		/* Out of memory: waiting is the only way left to keep the promise. */
		synchronize_rcu();
		release(object);
		return;
	}
	item->object = object;
	item->release = release;
	RCU_TSAN_RELEASE();
	rcu_thread_online();
	call_rcu(&item->head, rcu_release);
	rcu_thread_offline();
}
