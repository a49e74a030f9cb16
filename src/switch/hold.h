/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hold: what a queue's frames do while their receiver has no room.
 *
 * They are copied aside, so that the sender's chains can be returned, until they are delivered or
 * their time (policy/full) is up. Meanwhile the queue is not collected from, which pushes back on
 * the sender as a full wire would, where dropping at once makes guests retransmit by the thousand;
 * or, if it sends to several, not while it holds more than a batch. Two batches are the most that
 * it can hold. Order within a flow is kept, because nothing overtakes what waits for the same port.
 * The memory is one block of malloc's, got at first need: whoever frees the queue frees it. Worker
 * only.
 */
#ifndef RINGWAY_SWITCH_HOLD_H
#define RINGWAY_SWITCH_HOLD_H

#include "switch/switch.h"

/*
 * Copies the frames of `set`, which port `dest` has refused, aside. Those for which there is no
 * room are dropped and counted at `dest`. May be called several times for one batch, once per
 * destination.
 */
void hold_add(struct port_queue *queue, struct port *dest, struct batch *b, frame_set set,
	      uint64_t now);

/* Those that it has refused are dropped and counted. */
void hold_none(struct port *dest, struct batch *b, frame_set set);

/* Do frames wait for the port, which others must not overtake? */
bool hold_has(const struct port_queue *queue, const struct port *dest);

bool hold_empty(const struct port_queue *queue);

/* How many it holds. Any thread. */
unsigned hold_frames(const struct port_queue *queue);

/*
 * Tries again to deliver; drops what waited too long or whose port is gone, and says if the queue
 * may be collected from (full.stops). True if anything moved.
 */
bool hold_retry(struct vswitch *sw, struct port_queue *queue, struct virtq_calls *calls,
		uint64_t now);

#endif
