/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON-RPC 2.0: one request in, one answer out, both text of one line. Knows nothing of sockets.
 *
 * Batches are refused. A request without an id is a notification: carried out, never answered.
 * Nesting and size are bounded by the parser and by whoever reads the line.
 */
#ifndef RINGWAY_CONTROL_RPC_H
#define RINGWAY_CONTROL_RPC_H

#include <jansson.h>

#include "base/error.h"
#include "control/refusal.h"

enum rpc_error {
	RPC_PARSE = -32700,
	RPC_INVALID_REQUEST = -32600,
	RPC_METHOD_NOT_FOUND = -32601,
	RPC_INVALID_PARAMS = -32602,
	RPC_INTERNAL = -32603,
	RPC_REFUSED = -32000, /* well formed, but the switch cannot do it; data.errno says more */
};

struct rpc_method {
	const char *name;
	/*
	 * `params` is an object or NULL. 0 with a new reference in *ret_result, or a negative errno
	 * with `err` filled; -EINVAL is told as RPC_INVALID_PARAMS, others as RPC_REFUSED.
	 */
	int (*call)(void *ctx, const json_t *params, json_t **ret_result, struct error *err);
};

/*
 * Serves one request. Returns the answer, without a newline, to be freed; NULL: there is none to
 * give (or no memory for it). A refusal is counted in `refused`, told or not; it is indexed by
 * enum control_refusal.
 */
char *rpc_serve(const struct rpc_method *methods, unsigned n, void *ctx, uint64_t *refused,
		const char *line, size_t len);

/* An error as rpc_serve() would count and answer it, with a null id: for what is no request. */
char *rpc_refuse(uint64_t *refused, enum control_refusal why, const char *message);

/* A string that is JSON even if `text` is not UTF-8: other bytes become '?'. New reference. */
json_t *rpc_string(const char *text);

#endif
