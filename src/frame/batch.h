/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames on their way: at most 32, seen through the descriptor chains of one queue of one guest.
 *
 * A frame owns no buffer. Its first bytes are copied to a private snapshot, on which alone every
 * decision is made and from which they are delivered; the rest stays in the sender's memory as
 * spans until it is copied into the receiver's. A batch lives for one turn of one worker; one
 * whose frames wait for room (switch/hold.c), until they are gone.
 */
#ifndef RINGWAY_FRAME_BATCH_H
#define RINGWAY_FRAME_BATCH_H

#include <string.h>

#include "base/base.h"
#include "net/ip.h"
#include "net/vnet_hdr.h"

#define BATCH_FRAMES	32u /* bursts of 16 cost 1.08 times, 64 gain nothing (docs/performance.md) */
#define BATCH_SPANS	2048u /* a chain of more is dropped, one that does not fit now waits */
#define SNAPSHOT_COPIED 128u  /* virtio-net header and first bytes, together */
#define SNAPSHOT_ROOM	256u  /* room for edits to come, which may lengthen the headers */

/* A stretch of a guest's memory (or, in a held batch, of private memory). */
struct span {
	uintptr_t at;
	uint32_t len;
};

struct frame {
	uint8_t *head;	   /* the first bytes: &snapshot[...] */
	uint32_t len;	   /* of the whole frame, without virtio-net header */
	uint16_t head_len; /* bytes of it that are in the snapshot */
	uint16_t span;	   /* first of the spans that hold the rest */
	uint16_t spans;
	uint16_t segments;	   /* of it that a port has which had no room for all */
	bool plain;		   /* no offload is asked for: `hdr` has nothing to say */
	bool hashed;		   /* `flow` is valid */
	struct virtio_net_hdr hdr; /* checked; unless plain */
	uint32_t flow;		   /* flow_hash() */
};

/*
 * A batch ends with the frame that reaches this: it bounds how long a receiver's lock is held, and
 * is the share of a queue's turn. As much as a batch of MTU-sized frames has, or a guest that sends
 * large ones would get a multiple of what its neighbours get of their worker
 * (docs/performance.md).
 */
#define BATCH_BYTES (BATCH_FRAMES * 1536u)

struct batch {
	unsigned n;	 /* frames */
	unsigned spans;	 /* used of `span` */
	unsigned chains; /* taken from the ring, of good and of dropped frames alike */
	uint32_t bytes;	 /* of all frames */
	/* What was done for them beyond passing these bytes on (policy/share). */
	uint32_t segments; /* made */
	uint32_t summed;   /* bytes */
	uint32_t flooded;  /* by share_flooding() */
	uint32_t pieces;   /* descriptors walked, of their senders' and their receivers' chains */
	struct {
		uint16_t head, slots; /* virtq's: what returns it */
	} chain[BATCH_FRAMES];	      /* in ring order */
	struct frame frame[BATCH_FRAMES];
	uint8_t snapshot[BATCH_FRAMES][SNAPSHOT_ROOM] cache_aligned;
	struct span span[BATCH_SPANS];
};

static inline void batch_begin(struct batch *b)
{
	b->n = b->spans = b->chains = 0;
	b->bytes = b->segments = b->summed = b->flooded = b->pieces = 0;
}

/*
 * Takes over the virtio-net header at `hdr` of a frame whose length is known and whose sender
 * agreed to `features`. DROP_NONE, or DROP_HEADER_BAD.
 */
static inline enum drop frame_take_header(struct frame *f, const void *hdr, uint64_t features)
{
	enum drop drop;
	uint16_t asks; /* its flags and its GSO type */

	memcpy(&asks, hdr, sizeof(asks));
	f->plain = !asks;
	if (likely(f->plain))
		return DROP_NONE;
	memcpy(&f->hdr, hdr, sizeof(f->hdr));
	drop = vnet_hdr_check(&f->hdr, f->len, features);
	f->plain = vnet_hdr_plain(&f->hdr);
	return drop;
}

/*
 * Up to which byte finishing the checksum, or making segments, may have to change the frame: the
 * snapshot has to have that much of it, SNAPSHOT_ROOM permitting.
 */
static inline uint32_t frame_edit_end(const struct frame *f)
{
	uint32_t end;

	if (f->plain)
		return 0;
	end = f->hdr.csum_start;
	end += f->hdr.gso_type ? TCP_HEADER_MAX : f->hdr.csum_offset + 2u;
	return MIN(MIN(f->len, end), SNAPSHOT_ROOM - (uint32_t)VNET_HDR_LEN);
}

/* A set of frames of a batch, one bit each. */
typedef uint32_t frame_set;

/* Visits the numbers in a set, in order. */
#define batch_for_each(i, set)                                                                     \
	for (frame_set set_##i = (set); set_##i && ((i) = (unsigned)__builtin_ctz(set_##i), true); \
	     set_##i &= set_##i - 1)

#endif
