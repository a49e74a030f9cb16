// SPDX-License-Identifier: Apache-2.0
/*
 * A port is deleted while a worker has come out of epoll with a kick of one of its rings in its
 * hand, has lost its CPU there, offline for RCU, and gets it back in the midst of the deletion. The
 * ring must be there still; the address sanitizer tells if it is not.
 *
 * The worker is held in an epoll_pwait2() of this program's own, control in the queue_gone hook.
 */
#include "pool_rig.h"

#include "vhost_rig.h"

#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

#include "guest/sigbus.h"
#include "port/vhost_user_priv.h"
#include "worker/worker.h"

#define PATIENCE_S 10

static sem_t holds, goes, sleeps; /* the worker: has the kick, may go on, is done with it */
static uint32_t hold, watch;

static bool has_kick(const struct epoll_event *events, long n)
{
	for (long i = 0; i < n; i++) {
		if (events[i].data.u64 != WORKER_WAKE)
			return true;
	}
	return false;
}

int epoll_pwait2(int epoll, struct epoll_event *events, int n, const struct timespec *limit,
		 const sigset_t *mask)
{
	long got;

	if (load_acquire(&watch))
		sem_post(&sleeps);
	got = syscall(SYS_epoll_pwait2, epoll, events, n, limit, mask, sizeof(uint64_t));
	if (load_acquire(&hold) && has_kick(events, got)) {
		store_release(&hold, 0u);
		sem_post(&holds);
		sem_wait(&goes);
	}
	return (int)got;
}

static void wait_for(sem_t *sem)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += PATIENCE_S;
	assert_int_equal(sem_timedwait(sem, &end), 0);
}

static void queue_up(void *ctx, struct port_queue *queue)
{
	pool_queue_up(pool, queue);
}

static void queue_down(void *ctx, struct port_queue *queue)
{
	pool_queue_down(pool, queue);
}

/* By now the device has no session any more. Whatever was let go of is freed, then comes the kick.
 */
static void queue_gone(void *ctx, struct port_queue *queue)
{
	rcu_drain();
	store_release(&watch, 1u);
	sem_post(&goes);
	wait_for(&sleeps);
	pool_queue_gone(pool, queue);
}

static const struct port_env env = {
	.queue_up = queue_up,
	.queue_down = queue_down,
	.queue_gone = queue_gone,
};

/* A port whose first pair's tx ring processes. */
static struct port *port_with_a_ring(int kick)
{
	const struct port_option listen = { "listen", "/nowhere/none.sock" };
	struct guest_region_desc desc = memory_desc();
	struct vhost_ring_addr addr = ring_addr(1);
	int fd = memory_fd(MEMORY_SIZE);
	struct guest_mapping *mapping;
	struct vhost_device *dev;
	struct port *port;
	struct error err;

	assert_int_equal(port_kind("vhost-user")->create(&env, "p", &listen, 1, &port, &err), 0);
	assert_int_equal(switch_add(&sw, port), 0);
	dev = &vhost_user_port(port)->dev;
	assert_int_equal(guest_mapping_create(fd, &desc, &mapping, &err), 0);
	assert_int_equal(device_set_features(dev, BIT(VIRTIO_F_VERSION_1), &err), 0);
	assert_int_equal(device_set_memory(dev, &mapping, 1, &err), 0);
	guest_mapping_put(mapping);
	close(fd);
	assert_int_equal(device_set_size(dev, 1, RING_SIZE, &err), 0);
	assert_int_equal(device_set_addr(dev, 1, &addr, &err), 0);
	assert_int_equal(device_set_kick(dev, 1, kick, &err), 0);
	assert_int_equal(device_pairs_up(dev), 1);
	return port;
}

static void a_kick_at_hand_outlives_its_port(void **state)
{
	int kick = eventfd(0, EFD_CLOEXEC), ours = dup(kick);
	struct port *port;

	assert_int_equal(rig_begin(1, false), 0);
	store_release(&hold, 1u);
	port = port_with_a_ring(kick);
	assert_int_equal(eventfd_write(ours, 1), 0);
	wait_for(&holds);
	switch_del(&sw, port);
	port->ops->destroy(port);
	pool_close(pool);
	rig_end();
	close(ours);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_kick_at_hand_outlives_its_port),
	};

	sem_init(&holds, 0, 0);
	sem_init(&goes, 0, 0);
	sem_init(&sleeps, 0, 0);
	sigbus_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
