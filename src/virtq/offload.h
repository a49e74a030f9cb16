/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames in another form than they came in: checksum finished, or cut into segments, because the
 * receiving driver did not agree to more. Private to this directory.
 */
#ifndef RINGWAY_VIRTQ_OFFLOAD_H
#define RINGWAY_VIRTQ_OFFLOAD_H

#include "virtq/take.h"

/*
 * Delivers a frame that cannot be passed on as it is. DROP_NONE, or why it was not delivered; for
 * DROP_FULL nothing was taken, and the stage begins anew.
 */
enum drop deliver_converted(struct virtq *vq, const struct batch *b, const struct frame *f,
			    struct ring_stage *stage, struct taking *t);

#endif
