/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hold: what a queue's frames do while their receiver has no room.
 *
 * At most one batch per queue is copied aside, so that the sender's chains can be returned, and the
 * queue is not collected from until all of it is delivered or its time (policy/full) is up: this
 * pushes back on the sender as a full wire would, where dropping at once makes guests retransmit by
 * the thousand. Order within a flow is kept, because nothing of the queue overtakes. The memory is
 * one block of malloc's, got at first need: whoever frees the queue frees it. Worker only.
 */
#ifndef RINGWAY_SWITCH_HOLD_H
#define RINGWAY_SWITCH_HOLD_H

#include "switch/switch.h"

/*
 * Copies the frames of `set`, which port `dest` has refused, aside. Those that may not wait, or for
 * which no memory is left, are dropped and counted at `dest`. May be called several times for one
 * batch, once per destination.
 */
void hold_add(struct vswitch *sw, struct port_queue *queue, struct port *dest, struct batch *b,
	      frame_set set, uint64_t now);

/* Those that it has refused are dropped and counted. */
void hold_none(struct port *dest, struct batch *b, frame_set set);

/* Nothing held: the queue may be collected from. */
bool hold_empty(const struct port_queue *queue);

/* How many it holds. Any thread. */
unsigned hold_frames(const struct port_queue *queue);

/*
 * Tries again to deliver; drops what waited too long or whose port is gone. True if anything moved.
 */
bool hold_retry(struct vswitch *sw, struct port_queue *queue, struct virtq_calls *calls,
		uint64_t now);

#endif
