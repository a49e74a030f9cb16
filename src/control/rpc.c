// SPDX-License-Identifier: Apache-2.0
#include "control/rpc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

json_t *rpc_string(const char *text)
{
	json_t *string = json_string(text);
	char *copy;

	if (string)
		return string;
	copy = strdup(text);
	for (char *p = copy; p && *p; p++) {
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	}
	string = copy ? json_string(copy) : NULL;
	free(copy);
	return string;
}

/* Takes over `payload` and `id`. */
static char *answer(const char *key, json_t *payload, json_t *id)
{
	json_t *reply = json_pack("{s:s, s:o, s:o}", "jsonrpc", "2.0", key, payload, "id", id);
	char *text = reply ? json_dumps(reply, JSON_COMPACT) : NULL;

	json_decref(reply);
	return text;
}

static char *refuse(uint64_t *refused, enum control_refusal why, const char *message, int error,
		    json_t *id)
{
	static const int codes[CONTROL_REFUSAL_COUNT] = {
#define X(NAME, name, code, text) [CONTROL_REFUSAL_##NAME] = code,
		CONTROL_REFUSALS(X)
#undef X
	};
	json_t *object =
		json_pack("{s:i, s:o}", "code", codes[why], "message", rpc_string(message));

	refused[why]++;
	if (object && error)
		json_object_set_new(object, "data", json_pack("{s:i}", "errno", error));
	return answer("error", object, id);
}

char *rpc_refuse(uint64_t *refused, enum control_refusal why, const char *message)
{
	return refuse(refused, why, message, 0, json_null());
}

static const struct rpc_method *find_method(const struct rpc_method *methods, unsigned n,
					    const char *name)
{
	for (unsigned i = 0; i < n; i++) {
		if (!strcmp(methods[i].name, name))
			return &methods[i];
	}
	return NULL;
}

/* What is wrong with the frame of the request, or NULL. */
static const char *check_request(const json_t *request)
{
	const char *version = json_string_value(json_object_get(request, "jsonrpc"));
	const json_t *id = json_object_get(request, "id");

	if (json_is_array(request))
		return "batches are not served; send one request a line";
	if (!json_is_object(request))
		return "a request is an object";
	if (!version || strcmp(version, "2.0") != 0)
		return "\"jsonrpc\" must be \"2.0\"";
	if (id && !json_is_string(id) && !json_is_number(id) && !json_is_null(id))
		return "\"id\" must be a string, a number or null";
	if (!json_is_string(json_object_get(request, "method")))
		return "\"method\" must be a string";
	return NULL;
}

static char *call(const struct rpc_method *methods, unsigned n, void *ctx, uint64_t *refused,
		  const json_t *request, json_t *id)
{
	const char *name = json_string_value(json_object_get(request, "method"));
	const json_t *params = json_object_get(request, "params");
	const struct rpc_method *method = find_method(methods, n, name);
	struct error err = { "" };
	json_t *result = NULL;
	int r;

	if (!method)
		return refuse(refused, CONTROL_REFUSAL_NO_METHOD, "no such method", 0, id);
	if (params && !json_is_object(params))
		return refuse(refused, CONTROL_REFUSAL_PARAMS, "\"params\" must be an object", 0,
			      id);
	r = method->call(ctx, params, &result, &err);
	if (r == -EINVAL)
		return refuse(refused, CONTROL_REFUSAL_PARAMS, err.text, -r, id);
	if (r < 0)
		return refuse(refused, CONTROL_REFUSAL_IMPOSSIBLE, err.text, -r, id);
	if (!result)
		return refuse(refused, CONTROL_REFUSAL_HOST, "out of memory", 0, id);
	return answer("result", result, id);
}

char *rpc_serve(const struct rpc_method *methods, unsigned n, void *ctx, uint64_t *refused,
		const char *line, size_t len)
{
	json_t *request = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
	const char *wrong;
	char *text;
	json_t *id;

	if (!request)
		return rpc_refuse(refused, CONTROL_REFUSAL_NOT_JSON, "not JSON");
	wrong = check_request(request);
	if (wrong) {
		json_decref(request);
		return rpc_refuse(refused, CONTROL_REFUSAL_NO_REQUEST, wrong);
	}
	id = json_incref(json_object_get(request, "id"));
	text = call(methods, n, ctx, refused, request, id ? id : json_null());
	if (!id) {
		free(text);
		text = NULL;
	}
	json_decref(request);
	return text;
}
