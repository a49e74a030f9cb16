// SPDX-License-Identifier: Apache-2.0
/*
 * What a stream of frames of 1514 B loses beside one of larger frames: two pairs of guests on one
 * worker, all queues always full, in one thread and in cache. Turns are shared out as by a worker.
 *
 * For each form the neighbour takes turns with one of the same frames of 1514 B, A B B A, and
 * ratios are made within such a pass. Prints median (least-greatest) of what the stream gets, as a
 * part of what it gets beside its like; then its part of all bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/figures.h"
#include "guest/sigbus.h"
#include "policy/share.h"
#include "rings.h"

#define SMALL	   1514u
#define LARGE	   65535u
#define BUFFER	   2048u
#define CALL_TURNS 8u

/* Two pairs; the first one's stream is what is looked at. */
struct side {
	struct vswitch sw;
	struct guest guest[4];
	struct batch batch;
	struct virtq_calls calls;
};

static struct side *side_new(const char *form, uint32_t frame_len)
{
	struct side *s = aligned_alloc(CACHE_LINE, (sizeof(*s) + CACHE_LINE - 1) & ~63ul);

	if (!s)
		rings_die("memory");
	memset(s, 0, sizeof(*s));
	if (switch_init(&s->sw))
		rings_die("switch");
	for (unsigned i = 0; i < 4; i++) {
		bool other = i >= 2;

		rings_plug(&s->sw, &s->guest[i], i, other ? frame_len : SMALL, BUFFER,
			   rings_form(other ? form : "plain"), false);
		rings_refill(&s->guest[i].tx);
		rings_refill(&s->guest[i].rx);
	}
	return s;
}

static void turn(struct side *s, struct guest *from, struct guest *to)
{
	struct batch *b = &s->batch;

	if (share_sits_out(&from->queue.debt, BATCH_BYTES))
		return;
	if (!rings_collect(&from->queue, b, &s->calls))
		rings_die("nothing collected");
	switch_forward(&s->sw, &from->queue, b, &s->calls, 0);
	share_took(&from->queue.debt, BATCH_BYTES, b->bytes,
		   share_more(b->segments, b->summed, b->flooded, b->pieces));
	rings_complete(&from->queue, b, &s->calls);
	rings_refill(&from->tx);
	rings_refill(&to->rx);
}

static uint64_t bytes(const struct side *s, unsigned receiver)
{
	return s->guest[receiver].rx.vq.stats.bytes;
}

struct result {
	double rate; /* bytes of the stream in a nanosecond */
	double part; /* of all bytes */
};

static struct result run(struct side *s, unsigned rounds)
{
	uint64_t one = bytes(s, 1), other = bytes(s, 3);
	uint64_t begin = clock_cpu_ns(); /* so that others on the machine count less */

	for (unsigned i = 0; i < rounds; i++) {
		turn(s, &s->guest[0], &s->guest[1]);
		turn(s, &s->guest[2], &s->guest[3]);
		if (i % CALL_TURNS == 0)
			virtq_calls_look(&s->calls);
	}
	one = bytes(s, 1) - one;
	other = bytes(s, 3) - other;
	return (struct result){ (double)one / (double)(clock_cpu_ns() - begin),
				(double)one / (double)(one + other) };
}

/* One row: beside `form`, against beside its like. */
static void measure(struct side *like, const char *form, uint32_t frame_len, unsigned passes,
		    unsigned rounds)
{
	struct side *s = side_new(form, frame_len);
	double beside[FIGURES_MAX], alike[FIGURES_MAX], part = 0;
	struct ratio ratio;

	run(s, rounds);
	for (unsigned i = 0; i < passes; i++) {
		struct result a = run(like, rounds), b = run(s, rounds), c = run(s, rounds),
			      d = run(like, rounds);

		beside[i] = b.rate + c.rate;
		alike[i] = a.rate + d.rate;
		part = b.part;
	}
	if (s->guest[3].rx.vq.stats.frames == 0)
		rings_die("nothing arrives");
	ratio = figures_ratio(beside, alike, passes);
	printf("%5u B, %-10s  %.2f (%.2f-%.2f)  %.0f %%\n", frame_len, form, ratio.median,
	       ratio.least, ratio.most, 100 * part);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *form;
		uint32_t len;
	} rows[] = {
		{ "plain", SMALL }, { "plain", LARGE }, { "cut", LARGE }, { "cut-finish", LARGE }
	};
	unsigned passes = argc > 1 ? (unsigned)atoi(argv[1]) : 7;
	unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 10000;
	struct side *like;

	if (!passes || passes > FIGURES_MAX || !rounds) {
		fprintf(stderr, "usage: beside [PASSES [ROUNDS]], at most %d passes\n",
			FIGURES_MAX);
		return 2;
	}
	if (sigbus_install() < 0)
		rings_die("sigbus");
	like = side_new("plain", SMALL);
	run(like, rounds);
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		measure(like, rows[i].form, rows[i].len, passes, rounds);
	return 0;
}
