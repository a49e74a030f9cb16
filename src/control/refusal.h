/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was refused at the control socket. It has little in common with what is refused to a port's
 * peer (base/refusal.h): what a client gets to hear is the code of its answer.
 *
 * X(NAME, name, code (control/rpc.h) or 0: there is no answer, what it means)
 */
#ifndef RINGWAY_CONTROL_REFUSAL_H
#define RINGWAY_CONTROL_REFUSAL_H

#include "base/reason.h"

#define CONTROL_REFUSALS(X)                                                                   \
	X(CLIENTS_MAX, clients_max, RPC_REFUSED, "more clients at once than are served")      \
	X(SILENT, silent, 0, "client that asked nothing, closed to make room for another")    \
	X(LINE_MAX, line_max, RPC_INVALID_REQUEST, "longer line than is read")                \
	X(UNREAD, unread, 0, "client that was closed since it did not read its answers")      \
	X(NOT_JSON, not_json, RPC_PARSE, "line that is not JSON, or nested too deep")         \
	X(NO_REQUEST, no_request, RPC_INVALID_REQUEST, "JSON that is not one request")        \
	X(NO_METHOD, no_method, RPC_METHOD_NOT_FOUND, "method that does not exist")           \
	X(PARAMS, params, RPC_INVALID_PARAMS, "parameters that are wrong in themselves")      \
	X(IMPOSSIBLE, impossible, RPC_REFUSED, "request that the switch could not carry out") \
	X(HOST, host, RPC_INTERNAL, "the host had no memory or descriptors for it")

enum control_refusal {
	CONTROL_REFUSAL_NONE,
#define X(NAME, name, code, text) CONTROL_REFUSAL_##NAME,
	CONTROL_REFUSALS(X)
#undef X
		CONTROL_REFUSAL_COUNT
};

extern const struct reason control_refusal_reasons[CONTROL_REFUSAL_COUNT];

#endif
