/* SPDX-License-Identifier: Apache-2.0 */
/* Walking a descriptor chain into spans of host memory. Private to this directory. */
#ifndef RINGWAY_VIRTQ_CHAIN_H
#define RINGWAY_VIRTQ_CHAIN_H

#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>

#include "guest/access.h"
#include "virtq/virtq.h"

#define DESC_SIZE sizeof(struct vring_desc)

/*
 * How many descriptors are walked for one batch: one more than the pieces that are ever of use.
 * Descriptors of no length make no piece, an indirect table may claim to have 2^28 of them, and a
 * ring may be full of such: neither a table's size nor a number of chains is a bound.
 */
#define CHAIN_LINKS_MAX (BATCH_SPANS + 1)

/*
 * Walks the chain whose head descriptor is `d`, in `slot` and `slots` long if the ring is packed;
 * `write` is VRING_DESC_F_WRITE for a chain that the device writes to, 0 for one that it reads. On
 * DROP_NONE the spans and their total length are returned. *links, which begins as CHAIN_LINKS_MAX,
 * is how many may be walked, and is less by those that were: with less of them DROP_CHAIN_PIECES
 * means that it might have been walked with all.
 */
enum drop chain_walk(const struct virtq *vq, struct vring_desc d, uint16_t slot, uint16_t slots,
		     uint16_t write, struct span *spans, unsigned max, unsigned *links,
		     unsigned *ret_spans, uint64_t *ret_len);

#endif
