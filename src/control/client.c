// SPDX-License-Identifier: Apache-2.0
#include "control/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "control/socket.h"

/* Takes over `params`. A line with its newline, or NULL. */
static char *request_line(const char *method, json_t *params)
{
	json_t *request = json_pack("{s:s, s:i, s:s, s:o*}", "jsonrpc", "2.0", "id", 1, "method",
				    method, "params", params);
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL, *line = NULL;

	json_decref(request);
	if (text && asprintf(&line, "%s\n", text) < 0)
		line = NULL;
	free(text);
	return line;
}

static int send_all(int fd, const char *text)
{
	size_t left = strlen(text);

	while (left) {
		ssize_t n = send(fd, text, left, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		left -= (size_t)n;
	}
	return 0;
}

/* Twice the room for a line, within bounds. */
static int grow(char **line, size_t *size)
{
	size_t more = *size ? 2 * *size : 65536;
	char *grown;

	if (more > CLIENT_ANSWER_MAX)
		return -EMSGSIZE;
	grown = realloc(*line, more);
	if (!grown)
		return -ENOMEM;
	*line = grown;
	*size = more;
	return 0;
}

/* Reads one line, to be freed whatever is returned. */
static int receive_line(int fd, char **line)
{
	size_t size = 0, used = 0;
	char *end = NULL;

	while (!end) {
		int r = used == size ? grow(line, &size) : 0;
		ssize_t n;

		if (r)
			return r;
		n = recv(fd, *line + used, size - used, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ECONNRESET;
		end = memchr(*line + used, '\n', (size_t)n);
		used += (size_t)n;
	}
	*end = '\0';
	return 0;
}

/* Takes the answer apart. */
static int read_answer(const char *line, json_t **ret_result, struct error *err)
{
	json_t *answer = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	json_t *result = json_object_get(answer, "result");
	const json_t *error = json_object_get(answer, "error");
	const char *message = json_string_value(json_object_get(error, "message"));
	int r = 0;

	if (result)
		*ret_result = json_incref(result);
	else if (message)
		r = error_set(err, EREMOTEIO, "%s", message);
	else
		r = error_set(err, EPROTO, "what answers there is no switch; say --control PATH");
	json_decref(answer);
	return r;
}

static const char *reason(int r)
{
	switch (r) {
	case -EAGAIN:
		return "it took too long";
	case -EMSGSIZE:
		return "it does not end";
	default:
		return strerror(-r);
	}
}

int client_call(const char *path, const char *method, json_t *params, json_t **ret_result,
		struct error *err)
{
	const struct timeval wait = { .tv_sec = CLIENT_WAIT_SECONDS };
	char *request = request_line(method, params), *line = NULL;
	int fd, r;

	if (!request)
		return error_set(err, EREMOTEIO, "out of memory");
	fd = control_socket_connect(path, err);
	if (fd < 0) {
		free(request);
		return fd;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	r = send_all(fd, request);
	if (!r)
		r = receive_line(fd, &line);
	if (r < 0)
		error_set(err, -r, "%s: no answer (%s); is it the control socket of a switch?",
			  path ? path : "control socket", reason(r));
	else
		r = read_answer(line, ret_result, err);
	free(line);
	free(request);
	close(fd);
	return r;
}
