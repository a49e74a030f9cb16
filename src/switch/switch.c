// SPDX-License-Identifier: Apache-2.0
/*
 * The switch as the control thread sees it: the table of ports and the clock. What workers do is in
 * forward.c.
 */
#include "switch/switch.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/rcu.h"

int switch_init(struct vswitch *sw)
{
	memset(sw, 0, sizeof(*sw));
	sw->ports_max = PORTS_MAX;
	sw->per_us = clock_cycles_per_us();
	sw->macs = mac_table_new();
	return sw->macs ? 0 : -ENOMEM;
}

void switch_destroy(struct vswitch *sw)
{
	mac_table_free(sw->macs);
	sw->macs = NULL;
}

int switch_add(struct vswitch *sw, struct port *port)
{
	uint16_t i = 0;

	while (i < sw->ports_max && sw->ports[i])
		i++;
	if (i == sw->ports_max)
		return -ENOSPC;
	/* What a worker may have learned for the port before this one in its last batch. */
	mac_forget_port(sw->macs, i);
	port->index = i;
	port->serial = ++sw->last_serial;
	rcu_publish(sw->ports[i], port);
	if (i >= sw->ports_end)
		rcu_publish(sw->ports_end, (uint16_t)(i + 1));
	return 0;
}

void switch_del(struct vswitch *sw, struct port *port)
{
	uint16_t end = sw->ports_end;

	rcu_publish(sw->ports[port->index], NULL);
	while (end && !sw->ports[end - 1])
		end--;
	rcu_publish(sw->ports_end, end);
	fence_store_load(); /* partner: learn() in forward.c */
	mac_forget_port(sw->macs, port->index);
}

struct port *switch_find(struct vswitch *sw, const char *name)
{
	for (uint16_t i = 0; i < sw->ports_end; i++) {
		if (sw->ports[i] && !strcmp(sw->ports[i]->name, name))
			return sw->ports[i];
	}
	return NULL;
}

void switch_tick(struct vswitch *sw, uint32_t now)
{
	store_relaxed(&sw->now, now);
	mac_expire(sw->macs, now);
}
