/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations in which split and packed rings differ, by one name each. Where `packed` is a
 * constant (collect.c and deliver.c, whose bodies are instantiated once for each format) nothing is
 * left of the choice.
 *
 * Private to this directory; the ring's lock is held.
 */
#ifndef RINGWAY_VIRTQ_RING_H
#define RINGWAY_VIRTQ_RING_H

#include "virtq/packed.h"
#include "virtq/split.h"

/* Looks ahead from what is not consumed yet. */
static inline void stage_begin(const struct virtq *vq, struct ring_stage *stage)
{
	stage->n = stage->next = 0;
	stage->at = vq->avail_next;
	stage->round = vq->round;
}

/* Up to `max` more chains; how many. `write` as in chain_walk(). */
static instantiated unsigned stage_fill(struct virtq *vq, struct ring_stage *stage, unsigned max,
					uint16_t write, const bool packed)
{
	return packed ? packed_stage_fill(vq, stage, max, write)
		      : split_stage_fill(vq, stage, max, write);
}

/*
 * Takes a chain. Of a packed ring nothing is noted: what was taken is used before anything else is
 * looked at, and only that moves its one place on.
 */
static instantiated void ring_consume(struct virtq *vq, const bool packed)
{
	if (!packed)
		vq->avail_next++;
}

/*
 * Returns a chain, `len` bytes of it written to; visible after ring_publish(). `slots` matters for
 * a packed ring only.
 */
static instantiated void ring_use(struct virtq *vq, struct used_list *list, uint16_t head,
				  unsigned slots, uint32_t len, const bool packed)
{
	if (packed)
		packed_used_store(vq, list, head, slots, len);
	else
		split_used_store(vq, vq->used_next++, head, len);
}

/* There is something in the list. */
static instantiated void ring_publish(const struct virtq *vq, const struct used_list *list,
				      const bool packed)
{
	if (packed)
		packed_used_publish(list);
	else
		split_used_publish(vq);
}

static inline bool ring_ready(struct virtq *vq)
{
	return vq->packed ? packed_ready(vq) : split_available(vq, vq->avail_next, 1) > 0;
}

#endif
