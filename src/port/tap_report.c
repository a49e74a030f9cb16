// SPDX-License-Identifier: Apache-2.0
/*
 * What a tap port tells of itself. Control thread; counters are read while workers write them.
 */
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "port/tap_priv.h"

static void report_state(const struct tap_port *p, struct port_report *ret)
{
	char name[IFNAMSIZ] = "NAME";

	switch (tap_state(p->queue[0]->q.kick)) {
	case TAP_UP:
		ret->state = "up";
		ret->queue_pairs = p->queues;
		break;
	case TAP_DOWN:
		ret->state = "down";
		tap_name(p->queue[0]->q.kick, name);
		snprintf(ret->reason, sizeof(ret->reason),
			 "the device's link is down: say 'ip link set dev %s up' where it is",
			 name);
		break;
	case TAP_GONE:
		ret->state = "gone";
		snprintf(ret->reason, sizeof(ret->reason),
			 "the device was deleted: delete the port and add it again");
		break;
	}
}

void tap_report(struct port *port, struct port_report *ret)
{
	struct tap_port *p = tap_port(port);

	memset(ret, 0, sizeof(*ret));
	ret->features = p->features;
	ret->mtu = tap_mtu(p->queue[0]->q.kick);
	report_state(p, ret);
	port_report_common(port, ret);
	for (unsigned i = 0; i < p->queues; i++) {
		frame_counters_add(&ret->ingress, &p->queue[i]->in.stats);
		frame_counters_add(&ret->egress, &p->queue[i]->out.stats);
	}
}

/* Numbered as a guest's rings would be: rx (to the kernel) is even, tx (from it) odd. */
unsigned tap_report_queues(struct port *port, struct queue_report *rows, unsigned max)
{
	struct tap_port *p = tap_port(port);

	for (unsigned i = 0; i < 2 * p->queues && i < max; i++) {
		struct tap_queue *q = p->queue[i / 2];
		bool tx = i & 1;
		const struct frame_counters *stats = tx ? &q->in.stats : &q->out.stats;

		rows[i] = (struct queue_report){
			.queue = i,
			.tx = tx,
			.state = tap_state(q->q.kick) == TAP_UP ? "running" : "stopped",
			.frames = load_relaxed(&stats->frames),
			.bytes = load_relaxed(&stats->bytes),
			.segments = tx ? 0 : load_relaxed(&q->out.segments),
			.kicks = tx ? load_relaxed(&q->q.kicks) : 0,
			.ingress = tx ? &q->q : NULL,
		};
	}
	return 2 * p->queues;
}
