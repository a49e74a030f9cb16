// SPDX-License-Identifier: Apache-2.0
#include "conform/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unix_socket.h"

#define STOP_MS 3000

/* That somebody listens there is the back-end's own affair, a file in its way is not. */
static int make_way(const char *path, struct error *err)
{
	int r = unix_socket_remove_stale(path, err);

	return r == -EEXIST ? r : 0;
}

static int open_log(const char *path, struct error *err)
{
	int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	return log >= 0
		       ? log
		       : error_set(err, errno, "%s: %s; give a file that can be written with --log",
				   path, strerror(errno));
}

/* Never returns: the child is the back-end, or has said by `failed` why it is not. */
static void become(const struct conform_config *config, int input, int log, int failed)
{
	int error;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setsid();
	dup2(input, STDIN_FILENO);
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	execvp(config->command[0], config->command);
	error = errno;
	_exit(write(failed, &error, sizeof(error)) < 0 ? 126 : 127);
}

static int spawn(struct backend *b, const struct conform_config *config, int log, struct error *err)
{
	int input[2], failed[2], error;
	ssize_t said;

	if (pipe2(input, O_CLOEXEC))
		return error_set(err, errno, "pipe: %s", strerror(errno));
	if (pipe2(failed, O_CLOEXEC)) {
		close(input[0]);
		close(input[1]);
		return error_set(err, errno, "pipe: %s", strerror(errno));
	}
	b->child = fork();
	if (!b->child)
		become(config, input[0], log, failed[1]);
	error = errno;
	close(input[0]);
	close(failed[1]);
	b->stdin = input[1];
	/* The other end of it goes with a successful exec, so the end comes without a word. */
	said = b->child > 0 ? read(failed[0], &error, sizeof(error)) : 0;
	close(failed[0]);
	if (said == sizeof(error))
		return error_set(err, error, "%s cannot be run: %s; after -- comes a program",
				 config->command[0], strerror(error));
	if (b->child > 0)
		return 0;
	b->child = 0;
	close(b->stdin);
	return error_set(err, error, "fork: %s", strerror(error));
}

int backend_start(struct backend *b, const struct conform_config *config, struct error *err)
{
	int log, r = 0;

	for (unsigned i = 0; i < config->ports && !config->listen && !r; i++)
		r = make_way(config->path[i], err);
	if (r)
		return r;
	log = open_log(config->log ? config->log : "/dev/null", err);
	if (log < 0)
		return log;
	r = spawn(b, config, log, err);
	close(log);
	return r;
}

static bool reap(struct backend *b, int *status)
{
	if (waitpid(b->child, status, WNOHANG) != b->child)
		return false;
	kill(-b->child, SIGKILL); /* what it has left behind */
	close(b->stdin);
	b->child = 0;
	return true;
}

bool backend_ended(struct backend *b, char *text, size_t size)
{
	int status;

	if (!b->child || !reap(b, &status))
		return false;
	if (WIFSIGNALED(status))
		snprintf(text, size, "ended by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else
		snprintf(text, size, "ended with status %d", WEXITSTATUS(status));
	return true;
}

void backend_stop(struct backend *b)
{
	uint64_t end = clock_ns() + STOP_MS * 1000000ull;
	int status;

	if (!b->child)
		return;
	kill(-b->child, SIGTERM);
	while (!reap(b, &status)) {
		if (clock_ns() > end)
			kill(-b->child, SIGKILL);
		usleep(5000);
	}
}
