// SPDX-License-Identifier: Apache-2.0
/*
 * The datapath by itself: collect, forward (with deliver in it) and complete, on rings that this
 * program plays both drivers of, in one thread and in cache. For counting instructions of each
 * stage under callgrind (instructions.py), which is repeatable on any machine; by itself it prints
 * cycles a frame, the medians of all bursts, which leave out what cache misses between CPUs cost.
 *
 * Beside it, in every other round, the same bytes are copied twice, through a buffer between, and
 * nothing else is done: what a switch with a pool of its own costs at least (copies.py).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/figures.h"
#include "guest/sigbus.h"
#include "net/vnet_hdr.h"
#include "rings.h"

static void turn(struct vswitch *sw, struct guest *from, struct batch *b, struct virtq_calls *calls)
{
	uint64_t now = clock_cycles();

	if (!rings_collect(&from->queue, b, calls))
		rings_die("nothing collected");
	switch_forward(sw, &from->queue, b, calls, now);
	rings_complete(&from->queue, b, calls);
}

/* All of a guest's memory leaves the caches. */
static void cool(const struct guest *g)
{
	for (size_t at = 0; at < g->size; at += CACHE_LINE)
		__builtin_ia32_clflush(g->base + at);
	__builtin_ia32_mfence();
}

struct work {
	uint32_t frame_len, buffer_len;
	unsigned rounds;
	unsigned burst, buffers; /* frames of a burst, and buffers that one arrives in */
	const struct form *form;
	bool cold, packed;
};

/* Frames of a burst by way of a buffer that stays in the cache, as those of a pool do. */
static void copy_twice(const struct guest *from, const struct guest *to, const struct work *w)
{
	static uint8_t between[65536];
	unsigned at = 0;

	for (unsigned i = 0; i < w->burst; i++) {
		memcpy(between, rings_buffer(from, &from->tx, i) + VNET_HDR_LEN, w->frame_len);
		for (uint32_t done = 0; done < w->frame_len; at++) {
			uint32_t skip = done ? 0 : VNET_HDR_LEN;
			uint32_t n = MIN(w->buffer_len - skip, w->frame_len - done);

			memcpy(rings_buffer(to, &to->rx, at) + skip, between + done, n);
			done += n;
		}
	}
}

static struct vswitch sw;
static struct guest guest[2];

/* One guest sends a burst to the other. Returns the cycles that it took. */
static uint64_t pass_burst(struct guest *from, struct guest *to, const struct work *w)
{
	static struct batch batch;
	static struct virtq_calls calls;
	uint64_t began;

	rings_make_available(&to->rx, w->burst * w->buffers);
	rings_make_available(&from->tx, w->burst);
	began = clock_cycles();
	for (unsigned left = w->burst; left; left -= batch.n)
		turn(&sw, from, &batch, &calls);
	virtq_calls_look(&calls);
	return clock_cycles() - began;
}

static uint64_t copy_burst(struct guest *from, struct guest *to, const struct work *w)
{
	uint64_t began = clock_cycles();

	copy_twice(from, to, w);
	return clock_cycles() - began;
}

static double median_per_frame(double *bursts, const struct work *w)
{
	return figures_median(bursts, w->rounds) / w->burst;
}

static void run(const struct work *w)
{
	double *pass = calloc(w->rounds, sizeof(*pass)), *copy = calloc(w->rounds, sizeof(*copy));

	if (!pass || !copy)
		rings_die("memory");
	for (unsigned r = 0; r < w->rounds; r++) {
		struct guest *from = &guest[r % 2], *to = &guest[!(r % 2)];

		for (unsigned i = 0; i < 2; i++) {
			if (w->cold) {
				cool(from);
				cool(to);
			}
			if ((i + r / 2) % 2)
				copy[r] = (double)copy_burst(from, to, w);
			else
				pass[r] = (double)pass_burst(from, to, w);
		}
	}
	printf("{\"frame\": %u, \"buffer\": %u, \"burst\": %u, \"frames\": %u, "
	       "\"delivered\": %llu, \"cycles\": %.1f, \"cycles_two_copies\": %.1f}\n",
	       w->frame_len, w->buffer_len, w->burst, w->burst * w->rounds,
	       (unsigned long long)(guest[0].rx.vq.stats.frames + guest[1].rx.vq.stats.frames),
	       median_per_frame(pass, w), median_per_frame(copy, w));
	free(pass);
	free(copy);
}

/* What the command line says; false if it says nothing that can be done. */
static bool work_parse(struct work *w, int argc, char **argv)
{
	w->frame_len = argc > 1 ? (uint32_t)atoi(argv[1]) : 64;
	w->buffer_len = argc > 2 ? (uint32_t)atoi(argv[2]) : 2048;
	w->rounds = argc > 3 ? (unsigned)atoi(argv[3]) : 40000;
	w->form = rings_form("plain");
	for (int i = 4; i < argc && w->form; i++) {
		if (!strcmp(argv[i], "cold"))
			w->cold = true;
		else if (!strcmp(argv[i], "packed"))
			w->packed = true;
		else
			w->form = rings_form(argv[i]);
	}
	if (w->frame_len < 64 || w->frame_len > 65535 || w->buffer_len < 64 ||
	    w->buffer_len > 65535 + VNET_HDR_LEN || !w->rounds || !w->form)
		return false;
	w->buffers = w->form->gso_type
			     ? (w->frame_len - TCP_HEADERS + SEGMENT - 1) / SEGMENT
			     : (w->frame_len + VNET_HDR_LEN + w->buffer_len - 1) / w->buffer_len;
	w->burst = MIN(BATCH_FRAMES, RING / w->buffers);
	return w->burst > 0;
}

int main(int argc, char **argv)
{
	struct work w = { 0 };

	if (!work_parse(&w, argc, argv)) {
		fprintf(stderr,
			"usage: stages [FRAME_LEN [BUFFER_LEN [ROUNDS [WORD ...]]]], with WORDs "
			"cold, packed, and plain|pass|finish|cut|cut-finish\n");
		return 2;
	}
	if (sigbus_install() < 0 || switch_init(&sw))
		rings_die("switch");
	for (unsigned i = 0; i < 2; i++)
		rings_plug(&sw, &guest[i], i, w.frame_len, w.buffer_len, w.form, w.packed);
	run(&w);
	return 0;
}
