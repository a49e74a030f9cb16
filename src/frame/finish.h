/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finishing a checksum: at ingress, for frames whose receivers shall all have it finished, or by
 * whoever copies the rest of a frame and goes on with its sum (virtq/offload.c).
 */
#ifndef RINGWAY_FRAME_FINISH_H
#define RINGWAY_FRAME_FINISH_H

#include "frame/batch.h"
#include "net/checksum.h"

/* The sum of what is private of a frame, from where its checksum is to be of. */
static inline struct checksum finish_begin(const struct frame *f)
{
	struct checksum sum = { 0 };

	checksum_add(&sum, f->head + f->hdr.csum_start, (size_t)f->head_len - f->hdr.csum_start);
	return sum;
}

/* The whole sum becomes the field in `head`, the frame's first bytes or a copy of them. */
static inline void finish_end(const struct frame *f, const struct checksum *sum, uint8_t *head)
{
	uint16_t value = checksum_finish(sum, f->hdr.csum_offset);

	memcpy(head + f->hdr.csum_start + f->hdr.csum_offset, &value, sizeof(value));
}

/*
 * Writes the checksum into the snapshot; the frame is plain then. Its spans are summed but not
 * kept: a sender that changes them before they are copied has sent a wrong checksum, as it always
 * could. For a header with NEEDS_CSUM whose field lies within the snapshot.
 */
void frame_finish(struct batch *b, struct frame *f);

#endif
