// SPDX-License-Identifier: Apache-2.0
/*
 * The datapath by itself: collect, forward (with deliver in it) and complete, on rings that this
 * program plays both drivers of, in one thread and in cache. For counting instructions of each
 * stage under callgrind (instructions.py), which is repeatable on any machine; by itself it prints
 * cycles, which leave out what cache misses between CPUs cost.
 */
#include <linux/virtio_ring.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "guest/sigbus.h"
#include "rings.h"

struct stages {
	uint64_t collect, forward, complete;
};

static void turn(struct vswitch *sw, struct guest *from, struct batch *b, struct virtq_calls *calls,
		 struct stages *s)
{
	uint64_t t0 = clock_cycles(), t1, t2;

	if (!rings_collect(&from->queue, b, calls))
		rings_die("nothing collected");
	t1 = clock_cycles();
	switch_forward(sw, &from->queue, b, calls, t1);
	t2 = clock_cycles();
	rings_complete(&from->queue, b, calls);
	s->collect += t1 - t0;
	s->forward += t2 - t1;
	s->complete += clock_cycles() - t2;
}

int main(int argc, char **argv)
{
	const struct form *form = rings_form(argc > 4 ? argv[4] : "plain");
	uint32_t frame_len = argc > 1 ? (uint32_t)atoi(argv[1]) : 64;
	uint32_t buffer_len = argc > 2 ? (uint32_t)atoi(argv[2]) : 2048;
	unsigned rounds = argc > 3 ? (unsigned)atoi(argv[3]) : 20000;
	unsigned buffers = form && form->gso_type
				   ? (frame_len - TCP_HEADERS + SEGMENT - 1) / SEGMENT
				   : (frame_len + VNET_HDR_LEN + buffer_len - 1) / buffer_len;
	unsigned burst = MIN(BATCH_FRAMES, RING / buffers);
	static struct vswitch sw;
	static struct guest guest[2];
	static struct batch batch;
	struct virtq_calls calls = { 0 };
	struct stages s = { 0 };
	double frames;

	if (frame_len < 64 || frame_len > 65535 || buffer_len < 64 || buffer_len > 65536 ||
	    buffers > RING || !form) {
		fprintf(stderr,
			"usage: stages [FRAME_LEN [BUFFER_LEN [ROUNDS [plain|pass|finish|cut|"
			"cut-finish]]]]\n");
		return 2;
	}
	if (sigbus_install() < 0 || switch_init(&sw))
		rings_die("switch");
	for (unsigned i = 0; i < 2; i++)
		rings_plug(&sw, &guest[i], i, frame_len, buffer_len, form);
	for (unsigned r = 0; r < rounds; r++) {
		if (r == rounds / 10)
			s = (struct stages){ 0 };
		for (unsigned i = 0; i < 2; i++) {
			rings_make_available(&guest[!i].rx, burst * buffers);
			rings_make_available(&guest[i].tx, burst);
			while (guest[i].tx.avail_next !=
			       ((struct vring_avail *)guest[i].tx.addr.avail)->idx)
				turn(&sw, &guest[i], &batch, &calls, &s);
		}
		virtq_calls_look(&calls);
	}
	frames = 2.0 * burst * (rounds - rounds / 10);
	printf("{\"frame\": %u, \"buffer\": %u, \"burst\": %u, \"frames\": %.0f, \"delivered\": "
	       "%llu, "
	       "\"cycles\": {\"collect\": %.1f, \"forward\": %.1f, \"complete\": %.1f}}\n",
	       frame_len, buffer_len, burst, 2.0 * burst * rounds,
	       (unsigned long long)(guest[0].rx.stats.frames + guest[1].rx.stats.frames),
	       (double)s.collect / frames, (double)s.forward / frames, (double)s.complete / frames);
	return 0;
}
