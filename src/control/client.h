/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of the control socket: one request, one answer. For the command line; blocks. */
#ifndef RINGWAY_CONTROL_CLIENT_H
#define RINGWAY_CONTROL_CLIENT_H

#include <jansson.h>

#include "base/error.h"

#define CLIENT_WAIT_SECONDS 10
#define CLIENT_ANSWER_MAX   (1u << 28) /* bytes; that of 'show queue' has some 300 for each ring */

/*
 * Calls `method` of the switch at `path` (NULL: the default) with `params` (taken over; NULL:
 * none). 0 with a new reference in *ret_result, or a negative errno with `err` filled: -EREMOTEIO
 * means that the switch has refused, everything else that no switch has answered.
 */
int client_call(const char *path, const char *method, json_t *params, json_t **ret_result,
		struct error *err);

#endif
