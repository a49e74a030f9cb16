// SPDX-License-Identifier: Apache-2.0
/*
 * Two workers against one, on two CPUs, with nobody else on them: the rings refill themselves, and
 * so are never empty or full. Each worker has a pair of guests, which send to each other, so each
 * has the same memory in its caches; they share the switch's tables. One and two run in turn (A B,
 * B A), and each pair of runs says how far the CPUs were apart, since threads of one core (class S)
 * share what the workers need.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/figures.h"
#include "bench/line.h"
#include "guest/sigbus.h"
#include "rings.h"
#include "worker/pool.h"

#define GUESTS	     4u
#define WARM_UP_US   50000
#define LOOK_US	     5000
#define BUFFER_SPACE 256u

static struct vswitch sw;
static struct guest guest[GUESTS];

/* Frames by time and by the CPU time of the workers, which others do not take away; per second. */
struct rate {
	double wall, cpu;
};

/* All that was found in one class of the CPUs' distance. */
struct found {
	struct rate one[FIGURES_MAX], two[FIGURES_MAX];
	unsigned n;
};

static bool collect(struct port_queue *queue, struct batch *b, struct virtq_calls *calls)
{
	rings_refill(&container_of(queue, struct guest, queue)->tx);
	return rings_collect(queue, b, calls);
}

static frame_set egress(struct port *port, struct batch *b, frame_set set,
			struct virtq_calls *calls)
{
	rings_refill(&container_of(port, struct guest, port)->rx);
	return rings_egress(port, b, set, calls);
}

static const struct port_ops refilled = {
	.kind = "bench",
	.collect = collect,
	.complete = rings_complete,
	.ingress_drop = rings_ingress_drop,
	.egress = egress,
};

struct sum {
	uint64_t ns, frames, cpu_ns;
};

static struct sum look(struct pool *pool)
{
	struct sum s = { .ns = clock_ns() };

	for (unsigned i = 0; i < pool_workers(pool); i++) {
		struct worker_report w;

		pool_report(pool, i, &w);
		s.frames += w.frames;
		s.cpu_ns += w.cpu_ns;
	}
	return s;
}

/* Until each worker has had so many seconds of CPU time. */
static struct rate run(unsigned workers, double seconds)
{
	static const unsigned cpus[] = { 1, 0 };
	struct sum before, after;
	struct pool *pool;
	struct error err;

	if (pool_open(&sw, workers, cpus, &pool, &err) || pool_start(pool, true, &err)) {
		fprintf(stderr, "workers: %s\n", err.text);
		exit(1);
	}
	/* Queues go to the workers in turn: so the two of a pair to the same one. */
	for (unsigned i = 0; i < 2 * workers; i++)
		pool_queue_up(pool, &guest[i % workers * 2 + i / workers].queue);
	usleep(WARM_UP_US);
	before = look(pool);
	do {
		usleep(LOOK_US);
		after = look(pool);
	} while ((double)(after.cpu_ns - before.cpu_ns) < seconds * workers * 1e9);
	for (unsigned i = 0; i < GUESTS; i++)
		pool_queue_gone(pool, &guest[i].queue);
	pool_close(pool);
	for (unsigned i = 0; i < GUESTS; i++)
		guest[i].queue = (struct port_queue){ .port = &guest[i].port, .kick = -1 };
	return (struct rate){
		1e9 * (double)(after.frames - before.frames) / (double)(after.ns - before.ns),
		/* of each worker, and they are as many */
		1e9 * workers * (double)(after.frames - before.frames) /
			(double)(after.cpu_ns - before.cpu_ns),
	};
}

static void print(const char *class, unsigned frame_len, const struct found *f)
{
	double v[4][FIGURES_MAX];
	struct ratio wall, cpu;

	if (!f->n)
		return;
	for (unsigned i = 0; i < f->n; i++) {
		v[0][i] = f->two[i].wall;
		v[1][i] = f->one[i].wall;
		v[2][i] = f->two[i].cpu;
		v[3][i] = f->one[i].cpu;
	}
	wall = figures_ratio(v[0], v[1], f->n);
	cpu = figures_ratio(v[2], v[3], f->n);
	printf("%u B, class %s, %u pairs: two workers to one %.2f (%.2f-%.2f), by CPU time %.2f "
	       "(%.2f-%.2f); one does %.2f Mframes/s of its CPU time\n",
	       frame_len, class, f->n, wall.median, wall.least, wall.most, cpu.median, cpu.least,
	       cpu.most, figures_median(v[3], f->n) / 1e6);
}

int main(int argc, char **argv)
{
	uint32_t frame_len = argc > 1 ? (uint32_t)atoi(argv[1]) : 64;
	double seconds = argc > 2 ? atof(argv[2]) : 0.3;
	unsigned repeat = argc > 3 ? (unsigned)atoi(argv[3]) : 10;
	static struct found far, near;

	if (frame_len < 64 || frame_len > 9000 || !(seconds > 0) || !repeat ||
	    repeat > FIGURES_MAX) {
		fprintf(stderr, "usage: workers [FRAME_LEN [SECONDS [REPEAT]]]\n");
		return 2;
	}
	rcu_register_thread();
	rcu_offline();
	if (sigbus_install() < 0 || switch_init(&sw) || rcu_start())
		rings_die("switch");
	for (unsigned i = 0; i < GUESTS; i++) {
		guest[i].port.ops = &refilled;
		rings_plug(&sw, &guest[i], i, frame_len, frame_len + BUFFER_SPACE,
			   rings_form("plain"), false);
	}
	for (unsigned i = 0; i < repeat; i++) {
		struct found *f = *line_class(line_round_trip()) == 'X' ? &far : &near;

		if (i % 2)
			f->one[f->n] = run(1, seconds);
		f->two[f->n] = run(2, seconds);
		if (i % 2 == 0)
			f->one[f->n] = run(1, seconds);
		f->n++;
	}
	print("X", frame_len, &far);
	print("S", frame_len, &near);
	rcu_drain();
	return 0;
}
