/* SPDX-License-Identifier: Apache-2.0 */
/* A switch that has one worker and does not run: ports are made, and open nothing. */
#ifndef RINGWAY_TESTS_FUZZ_CONTROL_RIG_H
#define RINGWAY_TESTS_FUZZ_CONTROL_RIG_H

#include <string.h>

#include "control/daemon.h"
#include "fuzz.h"

static inline struct daemon *rig_daemon(void)
{
	static struct daemon *d;
	struct error err;

	if (d)
		return d;
	fuzz_check(!daemon_open(&d, &err));
	fuzz_check(!pool_open(&d->sw, 1, NULL, &d->pool, &err));
	return d;
}

static inline void rig_clear(struct daemon *d)
{
	struct port *port;
	struct error err;

	for (unsigned at = 0; (port = daemon_next_port(d, &at));) {
		char name[sizeof(port->name)];

		strcpy(name, port->name);
		fuzz_check(!daemon_port_del(d, name, &err));
	}
}

/* A descriptor that is said to be inherited would be one of the fuzzer's own. */
static inline bool rig_harmless(const struct command *command)
{
	for (unsigned i = 0; i < command->n; i++) {
		if (!strcmp(command->options[i].key, "fd"))
			return false;
	}
	return true;
}

#endif
