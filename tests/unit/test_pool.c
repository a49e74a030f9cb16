// SPDX-License-Identifier: Apache-2.0
/*
 * Workers and the queues that are moved between them. The queues are of a port that carries
 * nothing: a turn of one that is busy lasts a while, and each notes the thread that it is in.
 */
#include "pool_rig.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

#define QUEUES	3
#define TURN_US 50
#define TICK_US 20000 /* between two measurements, which are a second apart in the switch */
#define TICKS	400
#define WAKES	50	  /* work for the quiet queue comes every so many turns of the greedy one */
#define BEFORE	(10 * 16) /* which may have so many before it is done: ten times 16 */

struct busy_queue {
	struct port_queue q;
	uint32_t work;	   /* turns that are waiting to be done; UINT32_MAX: without end */
	uint32_t restless; /* its worker never sleeps */
	uint32_t inside;   /* threads in a turn of it */
	uint32_t shared;   /* turns in which there was another one */
	uint32_t turns;
	uint32_t bytes;	 /* that each has */
	uint64_t thread; /* of the last turn */
	/* Work comes to that one while this one has the worker. */
	struct busy_queue *quiet;
	uint32_t since;	 /* how many turns this one had had then */
	uint32_t waited; /* how many it had until that was done, at most */
	bool gone;
};

static struct port port;
static struct busy_queue queue[QUEUES];

static struct busy_queue *busy_queue(struct port_queue *q)
{
	return container_of(q, struct busy_queue, q);
}

static void enter(struct busy_queue *q)
{
	if (__atomic_fetch_add(&q->inside, 1, __ATOMIC_ACQ_REL))
		add_relaxed(&q->shared, 1);
	store_relaxed(&q->thread, (uint64_t)pthread_self());
}

static void leave(struct busy_queue *q)
{
	__atomic_fetch_sub(&q->inside, 1, __ATOMIC_ACQ_REL);
}

static void greet(struct busy_queue *q)
{
	uint32_t had = load_relaxed(&q->turns);

	if (load_relaxed(&q->quiet->work)) {
		store_relaxed(&q->waited, MAX(load_relaxed(&q->waited), had - q->since));
	} else if (had % WAKES == 0) {
		q->since = had;
		store_release(&q->quiet->work, 1u); /* without a kick: it is looked at */
	}
}

static bool collect(struct port_queue *of, struct batch *b, struct virtq_calls *calls)
{
	struct busy_queue *q = busy_queue(of);
	uint32_t work = load_acquire(&q->work);
	uint64_t end = clock_ns() + TURN_US * 1000;

	enter(q);
	add_relaxed(&q->turns, 1);
	if (load_acquire(&q->quiet))
		greet(q);
	while (work && clock_ns() < end)
		;
	if (work && work != UINT32_MAX)
		__atomic_fetch_sub(&q->work, 1, __ATOMIC_ACQ_REL);
	leave(q);
	b->n = 0;
	b->bytes = load_relaxed(&q->bytes);
	return work;
}

static void complete(struct port_queue *of, const struct batch *b, struct virtq_calls *calls)
{
}

static bool ready(struct port_queue *of)
{
	return load_acquire(&busy_queue(of)->work);
}

static bool arm(struct port_queue *of)
{
	return ready(of) || load_relaxed(&busy_queue(of)->restless);
}

static void disarm(struct port_queue *of)
{
}

static const struct port_ops ops = {
	.collect = collect,
	.complete = complete,
	.ready = ready,
	.arm = arm,
	.disarm = disarm,
};

static int setup(void **state)
{
	memset(queue, 0, sizeof(queue));
	port = (struct port){ .ops = &ops, .name = "busy" };
	if (rig_begin(2))
		return -1;
	for (unsigned i = 0; i < QUEUES; i++) {
		queue[i].q.port = &port;
		queue[i].q.index = i;
		queue[i].q.kick = eventfd(0, EFD_NONBLOCK);
		pool_queue_up(pool, &queue[i].q);
	}
	return 0;
}

static void go(struct busy_queue *q)
{
	pool_queue_gone(pool, &q->q);
	q->gone = true;
}

static int teardown(void **state)
{
	for (unsigned i = 0; i < QUEUES; i++) {
		if (!queue[i].gone)
			go(&queue[i]);
	}
	pool_close(pool);
	for (unsigned i = 0; i < QUEUES; i++)
		close(queue[i].q.kick);
	rig_end();
	return 0;
}

static bool moved(void)
{
	return pool_owner(pool, &queue[0].q) != pool_owner(pool, &queue[2].q);
}

/* Until `done`, or the patience of TICKS is at its end. */
static bool tick_until(bool (*done)(void))
{
	for (unsigned i = 0; i < TICKS && !done(); i++) {
		usleep(TICK_US);
		pool_balance(pool);
	}
	return done();
}

static void nobody_shared(void)
{
	for (unsigned i = 0; i < QUEUES; i++)
		assert_int_equal(load_relaxed(&queue[i].shared), 0);
}

static void work(struct busy_queue *q, uint32_t turns)
{
	uint64_t one = 1;

	store_release(&q->work, turns);
	assert_int_equal(write(q->q.kick, &one, sizeof(one)), sizeof(one));
}

static void queues_are_spread(void **state)
{
	assert_int_equal(pool_owner(pool, &queue[0].q), 0);
	assert_int_equal(pool_owner(pool, &queue[1].q), 1);
	assert_int_equal(pool_owner(pool, &queue[2].q), 0);
}

/* A worker with two that work without end gives one away, and never are both in one of them. */
static void one_of_two_busy_queues_moves_to_the_idle_worker(void **state)
{
	store_relaxed(&queue[1].restless, 1u); /* the other worker sees at once what it is given */
	work(&queue[1], 1);
	work(&queue[0], UINT32_MAX);
	work(&queue[2], UINT32_MAX);
	assert_true(tick_until(moved));
	for (unsigned i = 0; i < 20; i++) {
		usleep(TICK_US);
		pool_balance(pool);
	}
	assert_int_equal(queue[0].q.load.moves + queue[2].q.load.moves, 1);
	assert_true(load_relaxed(&queue[0].thread) != load_relaxed(&queue[2].thread));
	nobody_shared();
}

static void idle_queues_stay(void **state)
{
	for (unsigned i = 0; i < 50; i++) {
		usleep(1000);
		pool_balance(pool);
	}
	for (unsigned i = 0; i < QUEUES; i++)
		assert_int_equal(queue[i].q.load.moves, 0);
}

/* The new worker is woken by its kicks. */
static void a_queue_that_was_moved_is_kicked_awake(void **state)
{
	struct busy_queue *q;
	uint64_t thread;

	work(&queue[0], UINT32_MAX);
	work(&queue[2], UINT32_MAX);
	assert_true(tick_until(moved));
	q = queue[0].q.load.moves ? &queue[0] : &queue[2];
	for (unsigned i = 0; i < QUEUES; i++)
		store_release(&queue[i].work, 0u);
	pool_balance(pool);
	usleep(TICK_US);
	thread = load_relaxed(&q->thread);
	for (unsigned k = 0; k < 50; k++) {
		work(q, 1);
		for (unsigned i = 0; i < 2000 && load_acquire(&q->work); i++)
			usleep(1000);
		assert_int_equal(load_acquire(&q->work), 0);
		assert_int_equal(load_relaxed(&q->thread), thread);
	}
	nobody_shared();
}

/* Of one worker; counted in turns, whatever else the machine has to do. */
static void a_greedy_queue_does_not_starve_another(void **state)
{
	usleep(TICK_US); /* all sleep */
	store_release(&queue[0].quiet, &queue[2]);
	work(&queue[0], UINT32_MAX);
	for (unsigned i = 0; i < TICKS && load_relaxed(&queue[0].turns) < 40 * WAKES; i++)
		usleep(TICK_US);
	assert_in_range(load_relaxed(&queue[0].turns), 40 * WAKES, UINT32_MAX);
	print_message("# up to %u turns of the greedy one went before\n",
		      load_relaxed(&queue[0].waited));
	assert_in_range(load_relaxed(&queue[0].waited), 0, BEFORE);
	assert_in_range(load_relaxed(&queue[2].turns), 20, UINT32_MAX);
}

/* Three turns of the one that takes a third too much for four of the other's. */
static void who_takes_more_than_a_turn_sits_turns_out(void **state)
{
	uint32_t large, small;

	store_relaxed(&queue[0].bytes, BATCH_BYTES * 4 / 3);
	store_relaxed(&queue[2].bytes, BATCH_BYTES);
	work(&queue[0], UINT32_MAX);
	work(&queue[2], UINT32_MAX);
	for (unsigned i = 0; i < TICKS && load_relaxed(&queue[2].turns) < 400; i++)
		usleep(TICK_US);
	large = load_relaxed(&queue[0].turns);
	small = load_relaxed(&queue[2].turns);
	assert_in_range(small, 400, UINT32_MAX);
	assert_in_range(large, small * 3 / 4 - 10, small * 3 / 4 + 10);
}

static uint32_t turns(void)
{
	return load_relaxed(&queue[0].turns) + load_relaxed(&queue[2].turns);
}

/* Whatever is under way, one that is down or gone is left alone. */
static void a_queue_may_go_while_it_is_moved(void **state)
{
	for (unsigned round = 0; round < 8; round++) {
		uint32_t before;

		assert_int_equal(setup(state), 0);
		work(&queue[0], UINT32_MAX);
		work(&queue[2], UINT32_MAX);
		for (unsigned i = 0;
		     i < 10 * TICKS && !queue[0].q.load.moves && !queue[2].q.load.moves; i++) {
			usleep(2000);
			pool_balance(pool);
		}
		assert_int_equal(queue[0].q.load.moves + queue[2].q.load.moves, 1);
		for (unsigned i = 0; i < QUEUES; i += 2) {
			if (round % 2)
				pool_queue_down(pool, &queue[i].q);
			else
				go(&queue[i]);
		}
		usleep(2000);
		before = turns();
		usleep(2000);
		assert_int_equal(turns(), before);
		nobody_shared();
		assert_int_equal(teardown(state), 0);
	}
}

static cpu_set_t cpus_at_start;

/* All workers that were made have measured one; what is started later would inherit the CPUs. */
static void measuring_a_wake_up_gives_the_thread_its_cpus_back(void **state)
{
	cpu_set_t now;

	sched_getaffinity(0, sizeof(now), &now);
	assert_true(CPU_EQUAL(&now, &cpus_at_start));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(queues_are_spread, setup, teardown),
		cmocka_unit_test_setup_teardown(idle_queues_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(one_of_two_busy_queues_moves_to_the_idle_worker,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_queue_that_was_moved_is_kicked_awake, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_greedy_queue_does_not_starve_another, setup,
						teardown),
		cmocka_unit_test_setup_teardown(who_takes_more_than_a_turn_sits_turns_out, setup,
						teardown),
		cmocka_unit_test(a_queue_may_go_while_it_is_moved),
		cmocka_unit_test(measuring_a_wake_up_gives_the_thread_its_cpus_back),
	};

	sched_getaffinity(0, sizeof(cpus_at_start), &cpus_at_start);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
