/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The switch's state as JSON, for `show`, and as a configuration file, for `save`. Control thread;
 * the counters are read while workers write them.
 *
 * Each report is 0 with a new array in *ret_rows, NULL if there is no memory, or -ENOENT with `err`
 * filled. `name` picks one port (of queues and addresses: that port's), worker or feature; NULL:
 * all.
 */
#ifndef RINGWAY_CONTROL_REPORT_H
#define RINGWAY_CONTROL_REPORT_H

#include <jansson.h>

#include "control/daemon.h"

int report_ports(struct daemon *d, const char *name, json_t **ret_rows, struct error *err);
int report_queues(struct daemon *d, const char *name, json_t **ret_rows, struct error *err);
int report_fdb(struct daemon *d, const char *name, json_t **ret_rows, struct error *err);
int report_workers(struct daemon *d, const char *name, json_t **ret_rows, struct error *err);
int report_features(struct daemon *d, const char *name, json_t **ret_rows, struct error *err);

/* {"pending": what was set of this port and does not count yet, or ""}. NULL: no memory. */
json_t *report_pending(struct daemon *d, const char *name);

/* How often the control socket has refused something, by name. NULL: no memory. */
json_t *report_control_refused(struct daemon *d);

/* Commands that make a switch like this one, to be freed; NULL: no memory. */
char *report_config(struct daemon *d);

#endif
