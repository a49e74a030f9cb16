// SPDX-License-Identifier: Apache-2.0
#include "bench/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/client.h"

#define SWITCH_CPU   "1" /* the generator's is 0 */
#define START_TRIES  500
#define START_TRY_US 10000

int child_usage(const struct child *c, struct usage *ret, struct error *err)
{
	json_t *result, *row;
	int rc = client_call(c->control, "show.worker", NULL, &result, err);

	if (rc)
		return rc;
	row = json_array_get(json_object_get(result, "workers"), 0);
	ret->cycles = json_number_value(json_object_get(row, "busy_cycles"));
	ret->frames = json_number_value(json_object_get(row, "frames"));
	ret->bursts = json_number_value(json_object_get(row, "bursts"));
	json_decref(result);
	return 0;
}

/* Writes to `text` what one port has dropped one way, as ", b egress full 3". */
static size_t print_drops(const json_t *port, const char *way, char *text, size_t size)
{
	json_t *dropped = json_object_get(json_object_get(port, way), "dropped"), *count;
	const char *reason;
	size_t n = 0;

	json_object_foreach (dropped, reason, count) {
		n += (size_t)snprintf(text + n, size - n, ", %s %s %s %lld",
				      json_string_value(json_object_get(port, "name")), way, reason,
				      (long long)json_integer_value(count));
		n = MIN(n, size - 1);
	}
	return n;
}

void child_explain(const struct child *c, const char *load, const char *kind, struct error *err)
{
	struct error why = *err, unanswered;
	char drops[128] = "";
	json_t *result, *port;
	size_t i, n = 0;

	if (!client_call(c->control, "show.port", NULL, &result, &unanswered)) {
		json_array_foreach (json_object_get(result, "ports"), i, port) {
			n += print_drops(port, "ingress", drops + n, sizeof(drops) - n);
			n += print_drops(port, "egress", drops + n, sizeof(drops) - n);
		}
		json_decref(result);
	}
	error_write(err, "%s, %s: %s%s", load, kind, why.text, drops);
}

/* In the child: becomes `ringway run`. */
static void become_switch(struct child *c, const char *poll)
{
	char port[2][96];
	char *const argv[] = { "ringway", "run",    "--control", c->control, "--workers",
			       "1",	  "--cpus", SWITCH_CPU,	 "--poll",   (char *)poll,
			       "--port",  port[0],  "--port",	 port[1],    NULL };
	int log = open(c->log, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	for (unsigned i = 0; i < 2; i++)
		snprintf(port[i], sizeof(port[i]), "%c vhost-user listen=%s", 'a' + (int)i,
			 c->socket[i]);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	sigprocmask(SIG_SETMASK, &c->unblocked, NULL);
	if (log >= 0)
		dup2(log, STDERR_FILENO);
	execv("/proc/self/exe", argv);
	_exit(127);
}

static int start(struct child *c, const char *poll, struct error *err)
{
	struct usage usage;

	c->pid = fork();
	if (c->pid < 0)
		return error_set(err, errno, "fork: %s", strerror(errno));
	if (!c->pid)
		become_switch(c, poll);
	for (unsigned i = 0; i < START_TRIES; i++) {
		if (!child_usage(c, &usage, err))
			return 0;
		if (waitpid(c->pid, NULL, WNOHANG) == c->pid) {
			c->pid = 0;
			break;
		}
		usleep(START_TRY_US);
	}
	return error_set(err, ECHILD, "the switch did not start; its last words are above");
}

/* What the switch said, if it did not start. */
static void print_log(const struct child *c)
{
	FILE *log = fopen(c->log, "r");
	char line[512];

	while (log && fgets(line, sizeof(line), log))
		fputs(line, stderr);
	if (log)
		fclose(log);
}

static sigset_t ending(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	return signals;
}

bool child_interrupted(void)
{
	struct timespec now = { 0, 0 };
	sigset_t signals = ending();

	return sigtimedwait(&signals, NULL, &now) > 0;
}

static int make_folder(struct child *c, struct error *err)
{
	strcpy(c->folder, "/tmp/ringway-bench-XXXXXX");
	if (!mkdtemp(c->folder)) {
		int rc = error_set(err, errno, "%s: %s", c->folder, strerror(errno));

		c->folder[0] = '\0';
		return rc;
	}
	snprintf(c->control, sizeof(c->control), "%s/control", c->folder);
	snprintf(c->log, sizeof(c->log), "%s/log", c->folder);
	for (unsigned i = 0; i < 2; i++)
		snprintf(c->socket[i], sizeof(c->socket[i]), "%s/%c", c->folder, "ab"[i]);
	return 0;
}

int child_start(struct child *c, const char *poll, struct error *err)
{
	sigset_t signals = ending();
	int rc;

	memset(c, 0, sizeof(*c));
	sigprocmask(SIG_BLOCK, &signals, &c->unblocked);
	rc = make_folder(c, err);
	if (rc)
		return rc;
	rc = start(c, poll, err);
	if (rc)
		print_log(c);
	return rc;
}

/* It removes its sockets itself, unless it was killed. */
void child_stop(struct child *c)
{
	if (c->pid > 0) {
		kill(c->pid, SIGTERM);
		waitpid(c->pid, NULL, 0);
	}
	if (c->folder[0]) {
		unlink(c->control);
		unlink(c->socket[0]);
		unlink(c->socket[1]);
		unlink(c->log);
		rmdir(c->folder);
	}
	sigprocmask(SIG_SETMASK, &c->unblocked, NULL);
}
