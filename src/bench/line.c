/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far two CPUs are apart: one thread writes a number, the other writes it back.
 *
 * The median of many short stretches is taken, so that being preempted (a poll-mode switch may own
 * one of the CPUs) spoils some stretches only.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "bench/line.h"

#define STRETCH	    64 /* round trips */
#define STRETCHES   1024
#define DURATION_NS 50000000
#define NEAR_NS	    200 /* threads of one core: about 100; separate cores: 250 and more */
#define STOP	    UINT64_MAX

struct line {
	uint64_t ping cache_aligned;
	uint64_t pong cache_aligned;
	double stretch[STRETCHES];
	unsigned n;
};

static void *answer(void *arg)
{
	struct line *line = arg;
	uint64_t seen = 0;

	cpu_pin_self(1);
	while (seen != STOP) {
		uint64_t now = load_acquire(&line->ping); /* partner: ask() */

		if (now != seen) {
			seen = now;
			store_release(&line->pong, now); /* partner: ask() */
		}
	}
	return NULL;
}

static void *ask(void *arg)
{
	struct line *line = arg;
	uint64_t begin = clock_ns(), number = 0;

	cpu_pin_self(0);
	while (line->n < STRETCHES) {
		uint64_t start = clock_ns();

		if (line->n && start - begin > DURATION_NS)
			break;
		for (unsigned i = 0; i < STRETCH; i++) {
			store_release(&line->ping, ++number); /* partner: answer() */
			while (load_acquire(&line->pong) != number)
				;
		}
		line->stretch[line->n++] = (double)(clock_ns() - start) / STRETCH;
	}
	store_release(&line->ping, STOP);
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double line_round_trip(void)
{
	pthread_t asking, answering;
	struct line *line;
	double median = 0;

	if (cpu_available() < 2)
		return 0;
	line = aligned_alloc(CACHE_LINE, sizeof(*line));
	if (!line)
		return 0;
	*line = (struct line){ .n = 0 };
	if (!pthread_create(&answering, NULL, answer, line)) {
		if (!pthread_create(&asking, NULL, ask, line))
			pthread_join(asking, NULL);
		else
			store_release(&line->ping, STOP);
		pthread_join(answering, NULL);
	}
	if (line->n) {
		qsort(line->stretch, line->n, sizeof(line->stretch[0]), by_value);
		median = line->stretch[line->n / 2];
	}
	free(line);
	return median;
}

const char *line_class(double round_trip_ns)
{
	return round_trip_ns < NEAR_NS ? "S" : "X";
}
