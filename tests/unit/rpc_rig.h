/* SPDX-License-Identifier: Apache-2.0 */
/* Methods to be called by JSON-RPC, and what was refused. */
#ifndef RINGWAY_TEST_RPC_RIG_H
#define RINGWAY_TEST_RPC_RIG_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "control/rpc.h"

static unsigned calls;
static uint64_t refused[CONTROL_REFUSAL_COUNT];

static inline int echo(void *ctx, const json_t *params, json_t **ret_result, struct error *err)
{
	calls++;
	*ret_result = params ? json_deep_copy(params) : json_object();
	return 0;
}

static inline int refuse(void *ctx, const json_t *params, json_t **ret_result, struct error *err)
{
	return error_set(err, json_object_get(params, "bad") ? EINVAL : EEXIST, "not so \xff");
}

/* A large answer: 64 KiB. */
static inline int large(void *ctx, const json_t *params, json_t **ret_result, struct error *err)
{
	char text[65536];

	calls++;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	*ret_result = json_string(text);
	return 0;
}

/* As one that had no memory for its answer. */
static inline int nothing(void *ctx, const json_t *params, json_t **ret_result, struct error *err)
{
	return 0;
}

static const struct rpc_method methods[] = {
	{ "echo", echo }, { "refuse", refuse }, { "large", large }, { "nothing", nothing }
};

static inline char *serve_bytes(const char *line, size_t len)
{
	return rpc_serve(methods, ARRAY_SIZE(methods), NULL, refused, line, len);
}

static inline void assert_refused(enum control_refusal why, const char *what)
{
	for (unsigned i = 0; i < CONTROL_REFUSAL_COUNT; i++) {
		if (refused[i] != (i == why))
			fail_msg("%s: %s is %llu", what, control_refusal_reasons[i].name,
				 (unsigned long long)refused[i]);
	}
}

#endif
