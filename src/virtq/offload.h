/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames in another form than they came in: checksum finished, or cut into segments, because the
 * receiving driver did not agree to more. Private to this directory.
 */
#ifndef RINGWAY_VIRTQ_OFFLOAD_H
#define RINGWAY_VIRTQ_OFFLOAD_H

#include "virtq/take.h"

/*
 * Delivers a frame that cannot be passed on as it is, from segment f->segments on if it is cut.
 * DROP_NONE, or why it was not delivered, or not whole; for DROP_FULL f->segments says how far it
 * came. Then the stage begins anew.
 */
enum drop deliver_converted(struct virtq *vq, struct batch *b, struct frame *f,
			    struct ring_stage *stage, struct taking *t);

#endif
