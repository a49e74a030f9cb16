// SPDX-License-Identifier: Apache-2.0
/*
 * The datapath of a vhost-user port: tx rings to batches, batches to rx rings, and which rx ring a
 * flow goes to. Workers only.
 */
#include "base/rcu.h"
#include "port/spread.h"
#include "port/vhost_user_priv.h"

/* Notes on which pair the guest sends its flows, if it receives on that pair too. */
static void note_flows(struct vhost_user_port *p, const struct rx_set *rx, struct batch *b,
		       unsigned pair)
{
	if (!rx->ring[pair])
		return;
	for (unsigned i = 0; i < b->n; i++)
		steer_note(&p->steer, frame_flow(&b->frame[i]), pair);
}

/* The rings that may have to be called. Which of those that receive was not said: all. */
static void note_rings(struct vhost_user_port *p, struct virtq *tx, struct virtq_calls *calls)
{
	const struct rx_set *rx = rcu_read(p->rx);

	virtq_calls_note(calls, tx);
	for (unsigned i = 0; rx && i < rx->pairs.n; i++)
		virtq_calls_note(calls, rx->ring[rx->pairs.pair[i]]);
}

bool vhost_user_collect(struct port_queue *queue, struct batch *b, struct virtq_calls *calls)
{
	struct vhost_user_queue *vq = vhost_user_queue(queue);
	struct vhost_user_port *p = vhost_user_port(queue->port);
	const struct rx_set *rx;

	if (unlikely(load_relaxed(&vq->fresh))) {
		exchange_acquire(&vq->fresh, 0u); /* partner: call_once() */
		note_rings(p, vq->tx, calls);
	}
	if (!virtq_collect(vq->tx, b))
		return false;
	rx = rcu_read(p->rx);
	if (rx && rx->pairs.n > 1)
		note_flows(p, rx, b, queue->index);
	return true;
}

void vhost_user_complete(struct port_queue *queue, const struct batch *b, struct virtq_calls *calls)
{
	virtq_complete(vhost_user_queue(queue)->tx, b, calls);
}

void vhost_user_ingress_drop(struct port_queue *queue, enum drop reason, unsigned n)
{
	count(&vhost_user_queue(queue)->tx->stats.dropped[reason], n);
}

bool vhost_user_ready(struct port_queue *queue)
{
	struct vhost_user_queue *vq = vhost_user_queue(queue);

	return load_relaxed(&vq->fresh) || virtq_ready(vq->tx);
}

bool vhost_user_arm(struct port_queue *queue)
{
	struct vhost_user_queue *vq = vhost_user_queue(queue);

	return virtq_kicks_on(vq->tx) || load_relaxed(&vq->fresh);
}

void vhost_user_disarm(struct port_queue *queue)
{
	virtq_kicks_off(vhost_user_queue(queue)->tx);
}

/*
 * Several pairs: the set is split by ring; within a flow the order stays. The guest may move a flow
 * at any time, so each frame is asked about once.
 */
static frame_set egress_steered(struct vhost_user_port *p, const struct rx_set *rx, struct batch *b,
				frame_set set, struct virtq_calls *calls)
{
	uint8_t pair[BATCH_FRAMES];
	frame_set refused = 0;
	unsigned i;

	batch_for_each (i, set)
		pair[i] = (uint8_t)steer_pick(&p->steer, frame_flow(&b->frame[i]), &rx->pairs);
	while (set) {
		struct virtq *ring = rx->ring[pair[__builtin_ctz(set)]];

		refused |= virtq_deliver(ring, b, spread_take(pair, &set), calls);
	}
	return refused;
}

frame_set vhost_user_egress(struct port *port, struct batch *b, frame_set set,
			    struct virtq_calls *calls)
{
	struct vhost_user_port *p = vhost_user_port(port);
	const struct rx_set *rx = rcu_read(p->rx);

	if (unlikely(!rx)) {
		port_egress_drop(port, DROP_PORT_DOWN, (unsigned)__builtin_popcount(set));
		return 0;
	}
	if (likely(rx->pairs.n == 1))
		return virtq_deliver(rx->ring[rx->pairs.pair[0]], b, set, calls);
	return egress_steered(p, rx, b, set, calls);
}
