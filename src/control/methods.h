/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The methods of the control socket: port.add, port.del, port.set, show.port, show.queue, show.fdb,
 * show.worker, show.feature, save.
 *
 * Parameters have one form for all, an object with some of
 *	"name": of the port (show.worker: number, show.feature: name), a string
 *	"kind": of the port, a string
 *	"options": {"key": "value", ...}
 * Control thread.
 */
#ifndef RINGWAY_CONTROL_METHODS_H
#define RINGWAY_CONTROL_METHODS_H

#include <stddef.h>

/* A server_answer() whose context is the struct daemon. */
char *methods_answer(void *daemon, const char *line, size_t len);

#endif
