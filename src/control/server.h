/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket's server: clients, lines, bounds. What a line means is the callback's matter.
 * Control thread.
 */
#ifndef RINGWAY_CONTROL_SERVER_H
#define RINGWAY_CONTROL_SERVER_H

#include <uv.h>

#include "base/error.h"
#include "control/socket.h"

#define SERVER_CLIENTS_MAX   32
#define SERVER_LINE_MAX	     65536 /* bytes of a request with its newline */
#define SERVER_STALL_SECONDS 5	   /* a client that takes nothing of its answer so long is closed */

struct server;

/* Returns the answer to a request, to be freed, or NULL. */
typedef char *(*server_answer)(void *ctx, const char *line, size_t len);

/*
 * Takes over `socket`, also on failure. `refused` (control/refusal.h) is where what no request
 * gets as far as to be refused is counted. 0 or a negative errno with `err` filled.
 */
int server_open(uv_loop_t *loop, struct unix_socket *socket, server_answer answer, void *ctx,
		uint64_t *refused, struct server **ret, struct error *err);

/* Removes the socket's file and closes all; memory is freed as the loop runs on. */
void server_close(struct server *server); /* NULL is allowed */

#endif
