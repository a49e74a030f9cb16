// SPDX-License-Identifier: Apache-2.0
/*
 * Lines at the control socket: each is answered with one line of JSON that has what JSON-RPC 2.0
 * asks for, or, if it is a notification, not at all. The methods are the real ones, on a switch
 * whose ports are not started. Input: the lines.
 */
#include <jansson.h>
#include <string.h>

#include "control_rig.h"

#include "control/methods.h"
#include "fuzz.h"

static void check_answer(const char *answer)
{
	json_error_t why;
	json_t *json = json_loads(answer, 0, &why), *code, *message;
	json_t *error = json_object_get(json, "error");

	fuzz_check(json_is_object(json));
	fuzz_check(!strcmp(json_string_value(json_object_get(json, "jsonrpc")), "2.0"));
	fuzz_check(json_object_get(json, "id"));
	fuzz_check(!error == !!json_object_get(json, "result"));
	if (error) {
		json_unpack(error, "{s:o, s:o}", "code", &code, "message", &message);
		fuzz_check(json_is_integer(code) && *json_string_value(message));
	}
	json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct daemon *d = rig_daemon();

	while (size) {
		const uint8_t *newline = memchr(data, '\n', size);
		size_t len = newline ? (size_t)(newline - data) : size;
		char *answer = memmem(data, len, "\"fd\"", 4)
				       ? NULL
				       : methods_answer(d, (const char *)data, len);

		if (answer) {
			fuzz_check(!strchr(answer, '\n') || answer[strlen(answer) - 1] == '\n');
			check_answer(answer);
		}
		free(answer);
		len += newline ? 1 : 0;
		data += len;
		size -= len;
	}
	rig_clear(d);
	return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *data)
{
	static const char *const seeds[] = {
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"port.add\",\"params\":{\"name\":\"a\","
		"\"kind\":\"vhost-user\",\"options\":{\"listen\":\"/tmp/a\",\"mtu\":\"1500\"}}}\n"
		"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"port.set\",\"params\":{\"name\":"
		"\"a\",\"options\":{\"mtu\":\"9000\"}}}\n"
		"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"show.port\",\"params\":{\"name\":\"a\"}"
		"}\n"
		"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"save\"}\n"
		"{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"port.del\",\"params\":{\"name\":\"a\"}}"
		"\n",
		"{\"jsonrpc\":\"2.0\",\"method\":\"port.add\",\"params\":{\"name\":\"t\",\"kind\":"
		"\"tap\",\"options\":{\"dev\":\"tap%d\"}}}\n"
		"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"show.queue\"}\n"
		"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"show.fdb\",\"params\":{}}\n"
		"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"show.worker\"}\n"
		"{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"show.feature\",\"params\":[]}\n",
		"[{\"id\":1}]\n{\"a\\u0000b\":1e999}\n\"\\ud800\"\n{}\n[[[[[[[[]]]]]]]]\nnull\n",
	};

	if (i >= ARRAY_SIZE(seeds))
		return 0;
	memcpy(data, seeds[i], strlen(seeds[i]));
	return strlen(seeds[i]);
}
