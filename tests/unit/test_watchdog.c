// SPDX-License-Identifier: Apache-2.0
/*
 * Workers that do not come out of a call. The queues are of a port that carries nothing: in its one
 * turn, each has its worker do what the test wants.
 */
#include "pool_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "virtq/notify.h"

#define WORKERS	 2
#define RINGS	 4   /* of each device; device N is worker N's */
#define LONG_MS	 150 /* more than the watchdog lets pass */
#define PATIENCE 400
#define TURN_US	 5000
#define FULL	 (UINT64_MAX - 1)

struct device {
	struct port_queue q;
	void (*job)(struct device *dev, struct virtq_calls *calls);
	uint32_t done, interrupted;
	struct virtq_callee callee;
	struct virtq ring[RINGS];
	int call[RINGS];
	unsigned blamed;
};

static struct port port;
static struct device device[WORKERS];

static bool collect(struct port_queue *q, struct batch *b, struct virtq_calls *calls)
{
	struct device *dev = container_of(q, struct device, q);
	bool first = !load_relaxed(&dev->done);

	b->n = 0;
	b->bytes = 0;
	if (first)
		dev->job(dev, calls);
	store_release(&dev->done, 1u);
	return first;
}

static void complete(struct port_queue *q, const struct batch *b, struct virtq_calls *calls)
{
}

static bool ready(struct port_queue *q)
{
	return false;
}

static void disarm(struct port_queue *q)
{
}

static const struct port_ops ops = {
	.collect = collect,
	.complete = complete,
	.ready = ready,
	.arm = ready,
	.disarm = disarm,
};

/* A ring that has just been started is called without a look into the guest's memory. */
static void publish_to_all(struct device *dev, struct virtq_calls *calls)
{
	for (unsigned i = 0; i < RINGS; i++)
		virtq_calls_note(calls, &dev->ring[i]);
}

/* As one that was taken off its CPU inside a write that does not block. */
static void lose_the_cpu(struct device *dev, struct virtq_calls *calls)
{
	store_relaxed(&calls->writing_since, clock_ns());
	store_release(&calls->writing_to, &dev->ring[0]);
	if (usleep(2 * LONG_MS * 1000) && errno == EINTR)
		store_relaxed(&dev->interrupted, 1u);
	store_release(&calls->writing_to, NULL);
	publish_to_all(dev, calls); /* which do not block, and are called as if nothing had been */
}

static int setup(void **state)
{
	memset(device, 0, sizeof(device));
	port = (struct port){ .ops = &ops, .name = "hanging" };
	if (rig_begin(WORKERS, false))
		return -1;
	for (unsigned n = 0; n < WORKERS; n++) {
		struct device *dev = &device[n];

		for (unsigned i = 0; i < RINGS; i++) {
			dev->call[i] = eventfd(0, EFD_NONBLOCK);
			virtq_init(&dev->ring[i], &dev->callee);
			if (virtq_set_call(&dev->ring[i], dup(dev->call[i])))
				return -1;
			dev->ring[i].state = VIRTQ_RUNNING;
		}
	}
	return 0;
}

static int teardown(void **state)
{
	for (unsigned n = 0; n < WORKERS; n++) {
		if (device[n].job)
			pool_queue_gone(pool, &device[n].q);
	}
	pool_close(pool);
	for (unsigned n = 0; n < WORKERS; n++) {
		if (device[n].job)
			close(device[n].q.kick);
		for (unsigned i = 0; i < RINGS; i++) {
			virtq_destroy(&device[n].ring[i]);
			close(device[n].call[i]);
		}
	}
	rig_end();
	return 0;
}

static void go(unsigned n, void (*job)(struct device *dev, struct virtq_calls *calls))
{
	device[n].job = job;
	device[n].q.port = &port;
	device[n].q.index = n;
	device[n].q.kick = eventfd(0, EFD_NONBLOCK);
	pool_queue_up(pool, &device[n].q);
}

static void block(struct device *dev)
{
	for (unsigned i = 0; i < RINGS; i++) {
		uint64_t full = FULL;

		assert_int_equal(write(dev->call[i], &full, sizeof(full)), sizeof(full));
		assert_int_equal(fcntl(dev->call[i], F_SETFL, 0), 0);
	}
}

static bool called(const struct device *dev, unsigned ring)
{
	struct pollfd fd = { .fd = dev->call[ring], .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

/* Calls that do not block were made, by then or soon. */
static void assert_all_called(const struct device *dev)
{
	for (unsigned i = 0; i < RINGS; i++) {
		for (unsigned n = 0; n < PATIENCE && !called(dev, i); n++)
			usleep(TURN_US);
		assert_true(called(dev, i));
	}
}

static void blame(void *ctx, const struct virtq_callee *callee)
{
	for (unsigned n = 0; n < WORKERS; n++)
		device[n].blamed += callee == &device[n].callee;
}

static void look(void)
{
	pool_watchdog(pool, blame, NULL);
}

static void a_worker_that_lost_its_cpu_blames_nobody(void **state)
{
	go(0, lose_the_cpu);
	for (unsigned i = 0; i < PATIENCE && !load_acquire(&device[0].done); i++) {
		look();
		usleep(TURN_US);
	}
	assert_true(load_relaxed(&device[0].interrupted));
	assert_all_called(&device[0]);
	look();
	assert_int_equal(device[0].blamed, 0);
}

/* One look interrupts both, and neither hangs in the next ring of the same device. */
static void every_call_that_blocks_is_blamed_and_costs_one_interruption(void **state)
{
	for (unsigned n = 0; n < WORKERS; n++) {
		block(&device[n]);
		go(n, publish_to_all);
	}
	usleep(LONG_MS * 1000);
	look();
	assert_int_equal(device[0].blamed + device[1].blamed, 0);
	usleep(LONG_MS * 1000);
	look();
	assert_int_equal(device[0].blamed, 1);
	assert_int_equal(device[1].blamed, 1);
	usleep(LONG_MS * 1000);
	look();
	assert_int_equal(device[0].blamed + device[1].blamed, 2);
}

/* Of one worker, before and behind those that block. */
static void publish_to_both(struct device *dev, struct virtq_calls *calls)
{
	virtq_calls_note(calls, &device[1].ring[0]);
	publish_to_all(&device[0], calls);
	virtq_calls_note(calls, &device[1].ring[1]);
}

static void others_are_called_all_the_same(void **state)
{
	block(&device[0]);
	go(0, publish_to_both);
	for (unsigned i = 0; i < PATIENCE && !device[0].blamed; i++) {
		look();
		usleep(TURN_US);
	}
	assert_int_equal(device[0].blamed, 1);
	assert_int_equal(device[1].blamed, 0);
	for (unsigned i = 0; i < PATIENCE && !called(&device[1], 0); i++)
		usleep(TURN_US);
	assert_true(called(&device[1], 0));
	assert_true(called(&device[1], 1));
}

static void publish_to_all_of_both(struct device *dev, struct virtq_calls *calls)
{
	publish_to_all(&device[0], calls);
	publish_to_all(&device[1], calls);
}

/* A worker names one at a time: who blocks while another is named is so at its next call. */
static void two_that_block_one_worker_are_both_blamed(void **state)
{
	block(&device[0]);
	block(&device[1]);
	go(0, publish_to_all_of_both);
	for (unsigned i = 0; i < PATIENCE && !(device[0].blamed && device[1].blamed); i++) {
		look();
		usleep(TURN_US);
	}
	assert_int_equal(device[0].blamed, 1);
	assert_int_equal(device[1].blamed, 1);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_worker_that_lost_its_cpu_blames_nobody),
		CASE(every_call_that_blocks_is_blamed_and_costs_one_interruption),
		CASE(others_are_called_all_the_same),
		CASE(two_that_block_one_worker_are_both_blamed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
