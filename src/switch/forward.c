// SPDX-License-Identifier: Apache-2.0
/*
 * Forwarding: what a worker does with a batch between collect and complete.
 *
 * One walk over the frames learns their sources and sorts them by destination; frames for everybody
 * are kept as one more set. Then each destination is handed its own frames and those for everybody
 * together, in the order in which they came, in one call; the other ports get only the latter.
 *
 * The batch is private and so are the addresses in it (they are in the snapshots). Ports are read
 * with rcu_read() and not kept: an index from the MAC table may be that of a port that is gone,
 * and its address is then as good as unknown.
 */
#include "base/rcu.h"
#include "net/eth.h"
#include "policy/share.h"
#include "switch/hold.h"
#include "switch/switch.h"

/* Where the frames of a batch go. */
struct sorted {
	unsigned n; /* destinations with frames of their own */
	struct {
		struct port *port;
		frame_set set;
	} to[BATCH_FRAMES];
	frame_set flood; /* for every port but the source */
	frame_set same;	 /* for the source */
};

/* Which of the sets a destination address stands for. */
static frame_set *sorted_set(struct vswitch *sw, const struct port *source, struct sorted *s,
			     uint64_t dst)
{
	struct port *port = NULL;
	uint16_t index;

	if (mac_is_group(dst))
		return &s->flood;
	index = mac_lookup(sw->macs, dst);
	if (index != PORT_NONE)
		port = rcu_read(sw->ports[index]);
	if (!port)
		return &s->flood;
	if (port == source)
		return &s->same;
	for (unsigned i = 0; i < s->n; i++) {
		if (s->to[i].port == port)
			return &s->to[i].set;
	}
	s->to[s->n].port = port;
	s->to[s->n].set = 0;
	return &s->to[s->n++].set;
}

/*
 * A queue that sends from one address looks into the table once a second, and whenever an address
 * has moved: it may be this one, taken by another guest. The low bits of the sum of both counts,
 * `stamp`, fill the word up, so that one comparison asks for all.
 */
static void learn(struct vswitch *sw, struct port_queue *queue, uint64_t src, uint32_t now,
		  uint32_t stamp)
{
	uint64_t learned = src | (uint64_t)stamp << 48;
	uint16_t index = queue->port->index;

	if (likely(queue->last_src == learned) || mac_is_group(src))
		return;
	if (mac_learn(sw->macs, src, index, now)) {
		/* Between the look at the port and this it may have given its number to another. */
		fence_store_load(); /* partner: switch_del() */
		if (unlikely(rcu_read(sw->ports[index]) != queue->port))
			mac_forget_port(sw->macs, index);
	}
	queue->last_src = learned;
}

static void sort(struct vswitch *sw, struct port_queue *queue, const struct batch *b,
		 struct sorted *s)
{
	struct port *source = queue->port;
	/* A port that was just removed still drains: what it sends goes on, nothing is learned. */
	bool present = rcu_read(sw->ports[source->index]) == source;
	uint32_t now = load_relaxed(&sw->now), stamp = now + mac_moves(sw->macs);
	frame_set *set = NULL;
	uint64_t last_dst = 0;

	for (unsigned i = 0; i < b->n; i++) {
		const uint8_t *head = b->frame[i].head;
		uint64_t dst = frame_dst(head);

		if (present)
			learn(sw, queue, frame_src(head), now, stamp);
		if (!set || dst != last_dst) {
			set = sorted_set(sw, source, s, dst);
			last_dst = dst;
		}
		*set |= 1u << i;
	}
}

/* Nothing overtakes what waits for the same port. */
static frame_set egress(struct port_queue *queue, struct port *port, struct batch *b, frame_set set,
			struct virtq_calls *calls)
{
	return hold_has(queue, port) ? set : port->ops->egress(port, b, set, calls);
}

static void flood(struct vswitch *sw, struct port_queue *queue, struct batch *b,
		  const struct sorted *s, struct virtq_calls *calls)
{
	unsigned end = rcu_read(sw->ports_end), reached = s->n, n;
	uint32_t copy = 0;

	batch_for_each (n, s->flood)
		copy += share_flooding(b->frame[n].len);
	for (unsigned i = 0; i < end; i++) {
		struct port *port = rcu_read(sw->ports[i]);
		bool visited = !port || port == queue->port || !load_relaxed(&port->receives);

		for (unsigned k = 0; k < s->n && !visited; k++)
			visited = s->to[k].port == port;
		if (visited)
			continue;
		reached++;
		hold_none(port, b, egress(queue, port, b, s->flood, calls));
	}
	if (reached)
		b->flooded += copy * (reached - 1);
	else
		queue->port->ops->ingress_drop(queue, DROP_NO_DESTINATION,
					       (unsigned)__builtin_popcount(s->flood));
}

/* To one destination with frames of its own; those for everybody come along. */
static void deliver(struct port_queue *queue, struct port *port, struct batch *b, frame_set own,
		    frame_set everybody, struct virtq_calls *calls, uint64_t now)
{
	frame_set refused = egress(queue, port, b, own | everybody, calls);

	if (likely(!refused))
		return;
	hold_none(port, b, refused & ~own);
	if (refused & own)
		hold_add(queue, port, b, refused & own, now);
}

void switch_forward(struct vswitch *sw, struct port_queue *queue, struct batch *b,
		    struct virtq_calls *calls, uint64_t now)
{
	struct sorted s;

	s.n = 0;
	s.flood = 0;
	s.same = 0;
	sort(sw, queue, b, &s);
	for (unsigned i = 0; i < s.n; i++) {
		full_sent(&queue->full, s.to[i].port, now, sw->per_us);
		deliver(queue, s.to[i].port, b, s.to[i].set, s.flood, calls, now);
	}
	if (s.flood)
		flood(sw, queue, b, &s, calls);
	if (s.same)
		queue->port->ops->ingress_drop(queue, DROP_SAME_PORT,
					       (unsigned)__builtin_popcount(s.same));
}
