// SPDX-License-Identifier: Apache-2.0
#include "frame/finish.h"

#include "guest/access.h"

#define PIECE 512u

/* Each byte is loaded once, as by any other copy out of a guest's memory. */
static void sum_span(struct checksum *sum, const struct span *s)
{
	uint8_t copy[PIECE];

	for (uint32_t at = 0; at < s->len; at += PIECE)
		guest_copy_sum(sum, (uintptr_t)copy, s->at + at, MIN(s->len - at, PIECE));
}

void frame_finish(struct batch *b, struct frame *f)
{
	struct checksum sum = finish_begin(f);

	for (unsigned i = 0; i < f->spans; i++)
		sum_span(&sum, &b->span[f->span + i]);
	finish_end(f, &sum, f->head);
	f->hdr = (struct virtio_net_hdr){ 0 };
	f->plain = true;
	b->summed += f->len;
}
