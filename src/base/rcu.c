// SPDX-License-Identifier: Apache-2.0
#include "base/rcu.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#ifdef RINGWAY_TSAN
char rcu_tsan_grace;
#endif

/* How many objects were handed over, by control, and released, by liburcu's thread. */
static uint64_t rcu_queued, rcu_released;
static bool rcu_started;

static void *tell_id(void *arg)
{
	*(pid_t *)arg = gettid();
	return NULL;
}

/* A thread that was joined still counts for a moment, until the kernel has forgotten it. */
static void wait_forgotten(pid_t id)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/task/%d", id);
	for (unsigned ms = 0; ms < 100 && !access(path, F_OK); ms++)
		usleep(1000);
}

int rcu_start(void)
{
	pthread_t thread;
	pid_t id = 0;
	/* liburcu cannot say that there is no thread to be had; this can. */
	int r = pthread_create(&thread, NULL, tell_id, &id);

	if (r)
		return -r;
	pthread_join(thread, NULL);
	wait_forgotten(id);
	get_default_call_rcu_data();
	rcu_started = true;
	return 0;
}

static void rcu_release(struct rcu_head *head)
{
	struct rcu_item *item = container_of(head, struct rcu_item, head);

	RCU_TSAN_ACQUIRE();
	item->release(item);
	store_release(&rcu_released, rcu_released + 1); /* rcu_drain() */
}

void rcu_free_later(struct rcu_item *item, void (*release)(struct rcu_item *item))
{
	if (!rcu_started) {
		release(item);
		return;
	}
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
