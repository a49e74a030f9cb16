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
	uint8_t *field = f->head + f->hdr.csum_start + f->hdr.csum_offset;
	struct checksum sum = { 0 };
	uint16_t value;

	checksum_add(&sum, f->head + f->hdr.csum_start, (size_t)f->head_len - f->hdr.csum_start);
	for (unsigned i = 0; i < f->spans; i++)
		sum_span(&sum, &b->span[f->span + i]);
	value = checksum_finish(&sum, f->hdr.csum_offset);
	memcpy(field, &value, sizeof(value));
	f->hdr = (struct virtio_net_hdr){ 0 };
	f->plain = true;
	b->summed += f->len;
}
