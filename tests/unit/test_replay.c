// SPDX-License-Identifier: Apache-2.0
/*
 * The policies that poll and call, with recorded traces: when frames really came to a queue, what
 * would a worker have done, and what does that cost?
 *
 * The worker is a model of worker/worker.c with one queue, in ns: it collects what is there, rests
 * or polls as policy/poll says, and looks at calls when policy/call says. What its steps take is
 * about what was measured (docs/performance.md); a wake-up is what the case says. Traces are of
 * `ringway bench latency --trace` against a worker that always polls, or of tcpdump.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "bench/histogram.h"
#include "bench/trace.h"
#include "policy/call.h"
#include "policy/poll.h"

#define PER_US	 1000u /* units of time are ns */
#define BURST	 32u
#define LOOK_NS	 100u /* a pass that finds nothing */
#define TURN_NS	 300u /* a turn, and for each of its frames, if they are small: */
#define FRAME_NS 60u
#define ARM_NS	 500u
#define SLEEP_NS \
	5000u /* CPU time to fall asleep and to come back; up to 30000 in virtual machines */

struct outcome {
	struct histogram delays; /* from when a frame came until it was collected; */
	uint64_t cpu, elapsed;
	uint64_t call_late; /* longest from when frames were published until their call was due */
	unsigned frames, sleeps, looks;
};

struct model {
	uint64_t when[TRACE_FRAMES];
	unsigned n, at; /* frames, and those collected */
	uint64_t now;
	unsigned frame_ns;
	struct poll_limits limits;
	struct poll_state poll, all;
	struct call_state call;
	struct outcome *out;
};

static void pass_time(struct model *m, uint64_t ns)
{
	m->now += ns;
	m->out->cpu += ns;
}

static void look_at_calls(struct model *m)
{
	if (!m->call.bursts)
		return;
	m->out->looks++;
	m->out->call_late = MAX(m->out->call_late, m->now - m->call.first);
	call_looked(&m->call);
}

static bool turn(struct model *m)
{
	uint64_t begin = m->now;
	unsigned n = 0;

	for (; n < BURST && m->at < m->n && m->when[m->at] <= begin; n++)
		histogram_add(&m->out->delays, begin - m->when[m->at++]);
	if (!n)
		return false;
	pass_time(m, TURN_NS + (uint64_t)n * m->frame_ns);
	poll_found(&m->poll, begin, &m->limits);
	poll_found_any(&m->all, begin, &m->limits);
	call_published(&m->call, m->now);
	return true;
}

static void sleep_until_kicked(struct model *m, uint64_t wakeup)
{
	look_at_calls(m);
	pass_time(m, ARM_NS);
	if (m->when[m->at] <= m->now) /* came in between */
		return;
	m->out->sleeps++;
	m->out->cpu += SLEEP_NS;
	m->now = m->when[m->at] + wakeup;
}

static void replay(struct model *m, uint64_t wakeup)
{
	while (m->at < m->n) {
		bool moved = turn(m);

		if (!moved)
			pass_time(m, LOOK_NS);
		call_passed(&m->call, moved, m->now);
		if (call_due(&m->call, m->now, PER_US))
			look_at_calls(m);
		if (!moved && m->at < m->n && poll_give_up(&m->poll, &m->all, m->now, &m->limits))
			sleep_until_kicked(m, wakeup);
	}
	m->out->frames = m->n;
	m->out->elapsed = m->now - m->when[0];
}

static const char *folder;

/* `wakeup` in us. */
static struct outcome run(const char *trace, unsigned wakeup, bool always, unsigned frame_ns)
{
	static struct model m;
	static struct outcome out;
	struct error err;
	char path[4096];
	int n;

	memset(&m, 0, sizeof(m));
	memset(&out, 0, sizeof(out));
	snprintf(path, sizeof(path), "%s/%s", folder, trace);
	n = trace_read(path, m.when, &err);
	if (n < 0)
		fail_msg("%s", err.text);
	m.n = (unsigned)n;
	m.out = &out;
	m.now = m.when[0];
	m.frame_ns = frame_ns;
	m.limits = poll_limits(wakeup * PER_US, PER_US, false);
	m.limits.always = always;
	replay(&m, wakeup * PER_US);
	return out;
}

static double p50_us(const struct outcome *o)
{
	return (double)histogram_quantile(&o->delays, 0.5) / PER_US;
}

/* Percent of a CPU, and of frames. */
static unsigned cpu(const struct outcome *o)
{
	return (unsigned)(100 * o->cpu / o->elapsed);
}

static unsigned sleeps(const struct outcome *o)
{
	return 100 * o->sleeps / o->frames;
}

static void rare_frames_are_slept_for_and_dense_ones_polled_for(void **state)
{
	static const struct {
		const char *trace;
		unsigned wakeup, cpu_max, sleeps_max;
		double p50_max; /* us */
	} rows[] = {
		{ "poisson-10k", 5, 10, 100, 5 },    { "poisson-10k", 15, 10, 100, 15 },
		{ "poisson-10k", 30, 10, 100, 30 },  { "poisson-100k", 5, 85, 10, 0.1 },
		{ "poisson-100k", 15, 85, 10, 0.1 }, { "poisson-100k", 30, 85, 5, 0.1 },
		{ "poisson-1m", 5, 100, 1, 0.1 },    { "poisson-1m", 15, 100, 1, 0.1 },
		{ "poisson-1m", 30, 100, 1, 0.1 },   { "requests", 5, 100, 1, 0.1 },
		{ "requests", 30, 100, 1, 0.1 },     { "tcp-heaps", 5, 3, 100, 5 },
		{ "tcp-heaps", 15, 3, 100, 15 },     { "tcp-heaps", 30, 3, 100, 30 },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct outcome o = run(rows[i].trace, rows[i].wakeup, false, FRAME_NS);

		print_message("# %s, wake-up %u us: CPU %u %%, sleeps for %u %% of frames, p50 "
			      "%.2f us\n",
			      rows[i].trace, rows[i].wakeup, cpu(&o), sleeps(&o), p50_us(&o));
		assert_int_equal(o.delays.n, o.frames);
		assert_in_range(cpu(&o), 0, rows[i].cpu_max);
		assert_in_range(sleeps(&o), 0, rows[i].sleeps_max);
		assert_true(p50_us(&o) <= rows[i].p50_max * 65 / 64); /* a bucket's width */
	}
}

static void a_worker_that_always_polls_never_sleeps(void **state)
{
	struct outcome o = run("poisson-10k", 15, true, FRAME_NS);

	assert_int_equal(o.sleeps, 0);
	assert_in_range(cpu(&o), 99, 100);
}

/* Late by no more than the bound and the turn in which it is reached. */
static void calls_are_few_and_never_late(void **state)
{
	static const struct {
		const char *trace;
		unsigned frame_ns, looks_max; /* percent of frames */
	} rows[] = {
		{ "poisson-10k", FRAME_NS, 100 }, { "poisson-100k", FRAME_NS, 80 },
		{ "poisson-1m", FRAME_NS, 30 },	  { "poisson-1m", 400, 15 },
		{ "poisson-1m", 2000, 5 },	  { "requests", FRAME_NS, 100 },
		{ "tcp-heaps", 10000, 100 },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		struct outcome o = run(rows[i].trace, 15, false, rows[i].frame_ns);

		print_message("# %s, %u ns a frame: looks for %u %% of frames, late by %.1f us\n",
			      rows[i].trace, rows[i].frame_ns, 100 * o.looks / o.frames,
			      (double)o.call_late / PER_US);
		assert_in_range(100 * o.looks / o.frames, 1, rows[i].looks_max);
		assert_in_range(o.call_late, 0,
				CALL_LATEST_US * PER_US + TURN_NS +
					(uint64_t)BURST * rows[i].frame_ns);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rare_frames_are_slept_for_and_dense_ones_polled_for),
		cmocka_unit_test(a_worker_that_always_polls_never_sleeps),
		cmocka_unit_test(calls_are_few_and_never_late),
	};

	if (argc != 2)
		return 2;
	folder = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
