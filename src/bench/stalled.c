// SPDX-License-Identifier: Apache-2.0
#include "bench/stalled.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>

bool stalled_waits(struct guests *g)
{
	struct guests_waiting w = guests_waiting(g);

	return w.untaken[0] || w.untaken[1] || w.unread[0] || w.unread[1];
}

/* A letter, as in ps; '-' if there is no such thread any more. */
static char thread_state(pid_t process, const char *thread)
{
	char path[64], line[128], state = '-';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/stat", (int)process, thread);
	file = fopen(path, "re");
	if (!file)
		return state;
	/* "7 (name) S ..."; a name of this program's has no brackets. */
	if (fgets(line, sizeof(line), file))
		sscanf(line, "%*d (%*[^)]) %c", &state);
	fclose(file);
	return state;
}

/* A worker that was woken and gets no CPU is runnable; one that nobody woke sleeps. */
static const char *state_of(pid_t process, bool idle)
{
	const char *state = "has ended";
	struct dirent *thread;
	char path[32];
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)process);
	threads = opendir(path);
	while (threads && (thread = readdir(threads))) {
		char letter =
			thread->d_name[0] == '.' ? '-' : thread_state(process, thread->d_name);

		if (letter == 'R') {
			state = idle ? "waits for a CPU: let less run beside it" : "runs";
			break;
		}
		if (letter == 'S')
			state = "sleeps";
	}
	if (threads)
		closedir(threads);
	return state;
}

int stalled_error(struct guests *g, double seconds, pid_t watched, double used, struct error *err)
{
	struct guests_waiting w = guests_waiting(g);
	uint64_t lost = g->lost + guests_under_way(g), untaken = w.untaken[0] + w.untaken[1];
	char its[96] = "";

	if (watched)
		snprintf(its, sizeof(its), "; the switch used %.3f s of CPU time and %s", used,
			 state_of(watched, used < seconds / 10));
	return error_set(err, ENOLINK,
			 "no %s arrived in %.1f s: untaken %u of A and %u of B, unread %u and %u, "
			 "lost %llu%s",
			 g->times && g->echo[1] ? "answers" : "frames", seconds, w.untaken[0],
			 w.untaken[1], w.unread[0], w.unread[1],
			 (unsigned long long)(lost - MIN(lost, untaken)), its);
}
