// SPDX-License-Identifier: Apache-2.0
/*
 * How far two CPUs are apart: one thread writes a number, the other writes it back, both watching
 * or both asleep until they are woken.
 *
 * The median of many short stretches is taken, so that being preempted (a poll-mode switch may own
 * one of the CPUs) spoils some stretches only.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "bench/figures.h"
#include "bench/line.h"

#define STRETCH	    64 /* round trips */
#define STRETCHES   1024
#define DURATION_NS 50000000
#define NEAR_NS	    200 /* threads of one core: about 100; separate cores: 250 and more */
#define STOP	    UINT64_MAX

struct line {
	uint64_t ping cache_aligned;
	uint64_t pong cache_aligned;
	int ping_fd, pong_fd; /* eventfds, to sleep on; -1: watch the numbers */
	double stretch[STRETCHES];
	unsigned n;
};

/* Waits for a number that is not `seen`. */
static uint64_t hear(const uint64_t *number, int fd, uint64_t seen)
{
	uint64_t now, count;

	if (fd >= 0 && read(fd, &count, sizeof(count)) < 0)
		return STOP;
	do {
		now = load_acquire(number); /* partner: say() */
	} while (now == seen);
	return now;
}

static void say(uint64_t *number, int fd, uint64_t value)
{
	uint64_t one = 1;

	store_release(number, value); /* partner: hear() */
	if (fd >= 0 && write(fd, &one, sizeof(one)) < 0)
		return; /* an eventfd is never full after so few */
}

static void *answer(void *arg)
{
	struct line *line = arg;
	uint64_t seen = 0;

	cpu_pin_self(1);
	while ((seen = hear(&line->ping, line->ping_fd, seen)) != STOP)
		say(&line->pong, line->pong_fd, seen);
	return NULL;
}

static void *ask(void *arg)
{
	struct line *line = arg;
	uint64_t begin = clock_ns(), number = 0;
	unsigned trips = line->ping_fd < 0 ? STRETCH : 1;

	cpu_pin_self(0);
	while (line->n < STRETCHES) {
		uint64_t start = clock_ns();

		if (line->n && start - begin > DURATION_NS)
			break;
		for (unsigned i = 0; i < trips; i++) {
			say(&line->ping, line->ping_fd, number + 1);
			number = hear(&line->pong, line->pong_fd, number);
		}
		line->stretch[line->n++] = (double)(clock_ns() - start) / trips;
	}
	say(&line->ping, line->ping_fd, STOP);
	return NULL;
}

/* The median time there and back, asleep or awake. */
static double round_trip(bool asleep)
{
	pthread_t asking, answering;
	struct line *line;
	double median = 0;

	if (cpu_available() < 2)
		return 0;
	line = aligned_alloc(CACHE_LINE, sizeof(*line));
	if (!line)
		return 0;
	*line = (struct line){ .ping_fd = asleep ? eventfd(0, EFD_CLOEXEC) : -1,
			       .pong_fd = asleep ? eventfd(0, EFD_CLOEXEC) : -1 };
	if (!pthread_create(&answering, NULL, answer, line)) {
		if (!pthread_create(&asking, NULL, ask, line))
			pthread_join(asking, NULL);
		else
			say(&line->ping, line->ping_fd, STOP);
		pthread_join(answering, NULL);
	}
	if (line->n)
		median = figures_median(line->stretch, line->n);
	if (line->ping_fd >= 0)
		close(line->ping_fd);
	if (line->pong_fd >= 0)
		close(line->pong_fd);
	free(line);
	return median;
}

double line_round_trip(void)
{
	return round_trip(false);
}

double line_wake_up(void)
{
	return round_trip(true) / 2;
}

const char *line_class(double round_trip_ns)
{
	return round_trip_ns < NEAR_NS ? "S" : "X";
}
