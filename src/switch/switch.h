/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The learning switch: a batch of frames from one port's queue goes to the ports it is addressed
 * to.
 *
 * classify: one lookup per frame (memoised while the address repeats), one set of frames per
 * destination. deliver: each destination is visited once per batch. Frames for which a destination
 * has no room are held (switch/hold.h) if they are unicast, and their queue may have to wait.
 */
#ifndef RINGWAY_SWITCH_SWITCH_H
#define RINGWAY_SWITCH_SWITCH_H

#include "port/port.h"
#include "switch/mac.h"

struct vswitch {
	struct mac_table *macs;
	struct port *ports[PORTS_MAX]; /* rcu_read() by workers; rcu_publish() by control */
	uint16_t ports_end;	       /* one more than the highest index in use; same */
	uint16_t ports_max;	       /* that there may be; PORTS_MAX until control says less */
	uint32_t now;		       /* seconds, advanced by control's timer; relaxed */
	uint64_t per_us;	       /* cycles */
	uint64_t last_serial;	       /* of the port added last; control's */
};

int switch_init(struct vswitch *sw); /* 0 or -ENOMEM */
void switch_destroy(struct vswitch *sw);

/* Control thread. Gives the port an index; -ENOSPC if there is none below ports_max. */
int switch_add(struct vswitch *sw, struct port *port);
/* Unlinks it and forgets its addresses. The caller destroys the port afterwards. */
void switch_del(struct vswitch *sw, struct port *port);

/* NULL if there is no such port. Control thread. */
struct port *switch_find(struct vswitch *sw, const char *name);

/* Once a second, control thread: the clock of learning, and ageing. */
void switch_tick(struct vswitch *sw, uint32_t now);

/* Worker. All frames of `b`, from `queue`, whose lock is held. `now` is clock_cycles(). */
void switch_forward(struct vswitch *sw, struct port_queue *queue, struct batch *b,
		    struct virtq_calls *calls, uint64_t now);

#endif
