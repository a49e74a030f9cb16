// SPDX-License-Identifier: Apache-2.0
/* JSON-RPC by itself. */
#include "rpc_rig.h"

#include <stdio.h>
#include <stdlib.h>

static void answers(const char *line, const char *expected)
{
	char *text = serve_bytes(line, strlen(line));

	if (!expected)
		assert_null(text);
	else
		assert_string_equal(text, expected);
	free(text);
}

/* The code of the error that `line` is answered with. */
static int code_of(const char *line, size_t len)
{
	char *text = serve_bytes(line, len);
	json_t *answer = text ? json_loads(text, 0, NULL) : NULL;
	int code =
		(int)json_integer_value(json_object_get(json_object_get(answer, "error"), "code"));

	assert_null(json_object_get(answer, "result"));
	json_decref(answer);
	free(text);
	return code;
}

static void a_request_is_answered_with_its_id(void **state)
{
	answers("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":{\"a\":1}}",
		"{\"jsonrpc\":\"2.0\",\"result\":{\"a\":1},\"id\":1}");
	answers("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"echo\"}",
		"{\"jsonrpc\":\"2.0\",\"result\":{},\"id\":\"x\"}");
	answers("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"echo\"}",
		"{\"jsonrpc\":\"2.0\",\"result\":{},\"id\":null}");
}

static void a_notification_is_done_and_not_answered(void **state)
{
	calls = 0;
	answers("{\"jsonrpc\":\"2.0\",\"method\":\"echo\"}", NULL);
	assert_int_equal(calls, 1);
	answers("{\"jsonrpc\":\"2.0\",\"method\":\"refuse\"}", NULL);
	answers("{\"jsonrpc\":\"2.0\",\"method\":\"unknown\"}", NULL);
}

static void malformed_requests_get_the_standard_codes(void **state)
{
	static const struct {
		const char *line;
		int code;
	} wrong[] = {
		{ "{", RPC_PARSE },
		{ "nonsense", RPC_PARSE },
		{ "{\"a\":1,\"a\":2}", RPC_PARSE },
		{ "{} {}", RPC_PARSE },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", RPC_PARSE },
		{ "5", RPC_INVALID_REQUEST },
		{ "\"x\"", RPC_INVALID_REQUEST },
		{ "[]", RPC_INVALID_REQUEST },
		{ "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\"}]", RPC_INVALID_REQUEST },
		{ "{}", RPC_INVALID_REQUEST },
		{ "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"echo\"}", RPC_INVALID_REQUEST },
		{ "{\"jsonrpc\":2.0,\"id\":1,\"method\":\"echo\"}", RPC_INVALID_REQUEST },
		{ "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"echo\"}", RPC_INVALID_REQUEST },
		{ "{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"echo\"}", RPC_INVALID_REQUEST },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", RPC_INVALID_REQUEST },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1}", RPC_INVALID_REQUEST },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"frob\"}", RPC_METHOD_NOT_FOUND },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\"}", RPC_METHOD_NOT_FOUND },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}",
		  RPC_INVALID_PARAMS },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"refuse\",\"params\":{\"bad\":1}}",
		  RPC_INVALID_PARAMS },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"refuse\"}", RPC_REFUSED },
	};

	calls = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(code_of(wrong[i].line, strlen(wrong[i].line)), wrong[i].code);
	assert_int_equal(calls, 0);
}

static void a_refusal_is_json_whatever_its_text(void **state)
{
	answers("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"refuse\"}",
		"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32000,\"message\":\"not so ?\","
		"\"data\":{\"errno\":17}},\"id\":1}");
}

static void deep_and_binary_input_is_a_parse_error(void **state)
{
	char *deep = malloc(60000);

	memset(deep, '[', 60000);
	assert_int_equal(code_of(deep, 60000), RPC_PARSE);
	memset(deep, 0, 60000);
	assert_int_equal(code_of(deep, 60000), RPC_PARSE);
	free(deep);
}

#define REQUEST(id, rest) "{\"jsonrpc\":\"2.0\"," id "\"method\":" rest "}"

static void each_refusal_is_counted_once_and_by_its_name(void **state)
{
	static const struct {
		const char *line;
		enum control_refusal why;
	} rows[] = {
		{ "{", CONTROL_REFUSAL_NOT_JSON },
		{ "[]", CONTROL_REFUSAL_NO_REQUEST },
		{ REQUEST("\"id\":1,", "7"), CONTROL_REFUSAL_NO_REQUEST },
		{ REQUEST("\"id\":1,", "\"frob\""), CONTROL_REFUSAL_NO_METHOD },
		{ REQUEST("\"id\":1,", "\"echo\",\"params\":[1]"), CONTROL_REFUSAL_PARAMS },
		{ REQUEST("\"id\":1,", "\"refuse\",\"params\":{\"bad\":1}"),
		  CONTROL_REFUSAL_PARAMS },
		{ REQUEST("\"id\":1,", "\"refuse\""), CONTROL_REFUSAL_IMPOSSIBLE },
		{ REQUEST("\"id\":1,", "\"nothing\""), CONTROL_REFUSAL_HOST },
		/* Nobody is told. */
		{ REQUEST("", "\"frob\""), CONTROL_REFUSAL_NO_METHOD },
		{ REQUEST("", "\"refuse\""), CONTROL_REFUSAL_IMPOSSIBLE },
		{ REQUEST("\"id\":1,", "\"echo\""), CONTROL_REFUSAL_COUNT },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		memset(refused, 0, sizeof(refused));
		free(serve_bytes(rows[i].line, strlen(rows[i].line)));
		assert_refused(rows[i].why, rows[i].line);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_answered_with_its_id),
		cmocka_unit_test(a_notification_is_done_and_not_answered),
		cmocka_unit_test(malformed_requests_get_the_standard_codes),
		cmocka_unit_test(a_refusal_is_json_whatever_its_text),
		cmocka_unit_test(deep_and_binary_input_is_a_parse_error),
		cmocka_unit_test(each_refusal_is_counted_once_and_by_its_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
