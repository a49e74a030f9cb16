/* SPDX-License-Identifier: Apache-2.0 */
/* Finishing a checksum at ingress, for frames whose receivers shall all have it finished. */
#ifndef RINGWAY_FRAME_FINISH_H
#define RINGWAY_FRAME_FINISH_H

#include "frame/batch.h"

/*
 * Writes the checksum into the snapshot; the frame is plain then. Its spans are summed but not
 * kept: a sender that changes them before they are copied has sent a wrong checksum, as it always
 * could. For a header with NEEDS_CSUM whose field lies within the snapshot.
 */
void frame_finish(struct batch *b, struct frame *f);

#endif
