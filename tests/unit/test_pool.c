// SPDX-License-Identifier: Apache-2.0
/* Workers, and queues that are moved between them. */
#include "busy_queue.h"

#include <sched.h>

static bool no_memory; /* for sets of queues */
static unsigned refused;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
	if (!no_memory)
		return __real_calloc(n, size);
	refused++;
	return NULL;
}

static bool moved(void)
{
	return pool_owner(pool, &queue[0].q) != pool_owner(pool, &queue[2].q);
}

static unsigned moves(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < queues; i++)
		n += queue[i].q.load.moves;
	return n;
}

static bool any_moved(void)
{
	return moves();
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
	for (unsigned i = 0; i < queues; i++)
		assert_int_equal(load_relaxed(&queue[i].shared), 0);
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
	for (unsigned i = 0; i < queues; i++)
		assert_int_equal(queue[i].q.load.moves, 0);
}

/* The new worker is woken by its kicks. */
static void a_queue_that_was_moved_is_kicked_awake(void **state)
{
	struct busy_queue *q;
	uint64_t thread = 0;

	work(&queue[0], UINT32_MAX);
	work(&queue[2], UINT32_MAX);
	assert_true(tick_until(moved));
	q = queue[0].q.load.moves ? &queue[0] : &queue[2];
	for (unsigned i = 0; i < queues; i++)
		store_release(&queue[i].work, 0u);
	pool_balance(pool);
	usleep(TICK_US);
	for (unsigned k = 0; k < 50; k++) {
		work(q, 1);
		for (unsigned i = 0; i < 2000 && load_acquire(&q->work); i++)
			usleep(1000);
		assert_int_equal(load_acquire(&q->work), 0);
		thread = k ? thread : load_relaxed(&q->thread); /* it may have had no turn yet */
		assert_int_equal(load_relaxed(&q->thread), thread);
	}
	nobody_shared();
}

/*
 * A kick that the new worker heard too early, it took for another's; and a tap that was empty just
 * now is not asked again at once.
 */
static void a_queue_that_was_moved_is_looked_at_though_it_was_not_armed(void **state)
{
	uint32_t before[QUEUES];
	unsigned which;

	work(&queue[0], UINT32_MAX);
	work(&queue[2], UINT32_MAX);
	for (unsigned i = 0; i < QUEUES; i += 2) {
		while (load_relaxed(&queue[i].turns) < 20) /* its kick is heard */
			usleep(1000);
		before[i] = load_relaxed(&queue[i].disarmed);
	}
	assert_true(tick_until(moved));
	which = queue[0].q.load.moves ? 0 : 2;
	assert_in_range(load_relaxed(&queue[which].disarmed), before[which] + 1, UINT32_MAX);
	nobody_shared();
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
		for (unsigned i = 0; i < queues; i += 2) {
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

static void done(const uint32_t *work)
{
	for (unsigned i = 0; i < TICKS && load_acquire(work); i++)
		usleep(TICK_US);
	assert_int_equal(load_acquire(work), 0);
}

static void a_place_that_was_left_is_taken_again(void **state)
{
	go(&queue[0]);
	come();
	come();
	assert_int_equal(queue[3].q.slot + queue[4].q.slot, 0 + 1);
	assert_int_equal(pool_owner(pool, &queue[3].q), 0);
	work(&queue[3], 1);
	done(&queue[3].work);
}

/* Half of what there is, so that to move it would pay most. */
static bool one_worker_is_busy(void)
{
	struct worker_report report;

	pool_report(pool, 0, &report);
	queue[2].q.load.load = report.load;
	return report.load > 750;
}

static void who_is_down_or_gone_is_not_moved(void **state)
{
	for (unsigned i = 0; i < 4; i++)
		come();
	assert_int_equal(pool_owner(pool, &queue[4].q), 0);
	assert_int_equal(pool_owner(pool, &queue[6].q), 0);
	go(&queue[0]);
	pool_queue_down(pool, &queue[2].q);
	work(&queue[4], UINT32_MAX);
	assert_true(tick_until(one_worker_is_busy));
	assert_int_equal(moves(), 0);
	work(&queue[6], UINT32_MAX);
	assert_true(tick_until(any_moved));
	assert_int_equal(queue[4].q.load.moves + queue[6].q.load.moves, 1);
}

/* Both workers' sets are full. */
static void without_memory_queues_stay_where_they_are(void **state)
{
	struct busy_queue *last = &queue[QUEUES + MORE - 1];

	while (&queue[queues] != last)
		come();
	no_memory = true;
	come();
	assert_int_equal(pool_owner(pool, &last->q), -1);
	work(&queue[0], UINT32_MAX);
	work(&queue[2], UINT32_MAX);
	for (unsigned i = 0; i < TICKS && refused < 3; i++) {
		usleep(TICK_US);
		pool_balance(pool);
	}
	no_memory = false;
	assert_in_range(refused, 3, TICKS);
	assert_int_equal(moves(), 0);
	assert_true(tick_until(any_moved));
	pool_queue_up(pool, &last->q);
	work(last, 1);
	done(&last->work);
	nobody_shared();
}

/* Who was busy of late, and asks for kicks by now. */
static void who_sleeps_is_woken_by_its_old_worker_and_moved(void **state)
{
	struct busy_queue *q;

	for (unsigned i = 0; i < TICKS && !moves(); i++) {
		work(&queue[0], UINT32_MAX);
		work(&queue[2], UINT32_MAX);
		usleep(TICK_US);
		store_release(&queue[0].work, 0u);
		store_release(&queue[2].work, 0u);
		for (unsigned k = 0; k < TICKS; k++) {
			if (load_relaxed(&queue[0].q.armed) && load_relaxed(&queue[2].q.armed))
				break;
			usleep(1000);
		}
		pool_balance(pool);
	}
	assert_int_equal(moves(), 1);
	assert_true(tick_until(moved));
	q = queue[0].q.load.moves ? &queue[0] : &queue[2];
	work(q, 1);
	done(&q->work);
	assert_int_equal(load_relaxed(&q->foreign), 0);
}

/* The old worker cannot pass it on until the end of a turn that it is in. */
static void a_move_takes_as_long_as_it_takes(void **state)
{
	work(&queue[0], UINT32_MAX);
	work(&queue[2], UINT32_MAX);
	for (unsigned i = 0; i < TICKS && !moves(); i++) {
		let_go(&queue[2]);
		usleep(TICK_US);
		hold_at(&queue[2], 1);
		pool_balance(pool);
	}
	assert_int_equal(moves(), 1);
	for (unsigned i = 0; i < 5; i++)
		pool_balance(pool);
	assert_int_equal(moves(), 1);
	assert_int_equal(pool_owner(pool, &queue[0].q), 0);
	assert_int_equal(pool_owner(pool, &queue[2].q), 0);
	let_go(&queue[2]);
	assert_true(tick_until(moved));
	nobody_shared();
}

/* In a stream of a tap's, a worker that may sleep does so as soon as it finds no work. */
static void who_always_polls_does_not_sleep_in_a_stream_either(void **state)
{
	struct port_ops taps = ops;
	struct worker_report before, after;

	taps.always_kicks = true;
	assert_int_equal(begin(&taps, true), 0);
	store_relaxed(&queue[0].bytes, BATCH_BYTES);
	work(&queue[0], 1);
	done(&queue[0].work);
	pool_report(pool, 0, &before); /* it slept until it had queues */
	work(&queue[0], 20);
	done(&queue[0].work);
	usleep(TICK_US);
	pool_report(pool, 0, &after);
	assert_int_equal(after.armed, 0);
	assert_int_equal(after.sleeps, before.sleeps);
	teardown(state);
}

/* It is not the same, but the least that there is. */
static void on_one_cpu_a_wake_up_is_measured_as_well(void **state)
{
	struct worker_report report;
	cpu_set_t all, first;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_getaffinity(0, sizeof(all), &all);
	if (sched_setaffinity(0, sizeof(first), &first))
		skip(); /* it belongs to others */
	assert_int_equal(setup(state), 0);
	sched_setaffinity(0, sizeof(all), &all);
	pool_report(pool, 0, &report);
	assert_true(report.wakeup_ns > 0);
	teardown(state);
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
		cmocka_unit_test_setup_teardown(
			a_queue_that_was_moved_is_looked_at_though_it_was_not_armed, setup,
			teardown),
		cmocka_unit_test(a_queue_may_go_while_it_is_moved),
		cmocka_unit_test_setup_teardown(a_place_that_was_left_is_taken_again, setup,
						teardown),
		cmocka_unit_test_setup_teardown(who_is_down_or_gone_is_not_moved, setup, teardown),
		cmocka_unit_test_setup_teardown(without_memory_queues_stay_where_they_are, setup,
						teardown),
		cmocka_unit_test_setup_teardown(who_sleeps_is_woken_by_its_old_worker_and_moved,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_move_takes_as_long_as_it_takes, setup, teardown),
		cmocka_unit_test(who_always_polls_does_not_sleep_in_a_stream_either),
		cmocka_unit_test(on_one_cpu_a_wake_up_is_measured_as_well),
		cmocka_unit_test(measuring_a_wake_up_gives_the_thread_its_cpus_back),
	};

	sched_getaffinity(0, sizeof(cpus_at_start), &cpus_at_start);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
