// SPDX-License-Identifier: Apache-2.0
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/client.h"

#define START_MS 10000 /* under a sanitizer or valgrind it takes its time */

/* In the child. Frames need CPUs of their own only in benchmarks: nothing is pinned. */
static void become_switch(struct rig *rig)
{
	const char *binary = getenv("RINGWAY");
	char port[PORTS][128];
	char *argv[9 + 2 * PORTS];
	const char *max = getenv("RINGWAY_TEST_MESSAGES_MAX"); /* floods are at full speed */
	unsigned n = 0;

	argv[n++] = "ringway";
	argv[n++] = "run";
	argv[n++] = "--control";
	argv[n++] = rig->control;
	argv[n++] = "--workers";
	argv[n++] = getenv("RINGWAY_WORKERS") ? getenv("RINGWAY_WORKERS") : "1";
	argv[n++] = "--quiet";
	if (getenv("RINGWAY_TAPS_LATER"))
		argv[n++] = "--keep-net-admin";
	for (unsigned i = 0; i < PORTS; i++) {
		snprintf(port[i], sizeof(port[i]), "p%u vhost-user listen=%s messages-max=%s", i,
			 rig->socket[i], max ? max : "1000");
		argv[n++] = "--port";
		argv[n++] = port[i];
	}
	argv[n] = NULL;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execv(binary ? binary : "./ringway", argv);
	_exit(127);
}

static json_t *ask(struct rig *rig, const char *method)
{
	struct error err = { "" };
	json_t *result;
	int rc = client_call(rig->control, method, NULL, &result, &err);

	return rc ? NULL : result;
}

/* Of the test that runs, for what is told when it fails. */
static struct rig *current;

void rig_print_drops(void)
{
	json_t *answer = ask(current, "show.port"), *row;
	size_t i;

	json_array_foreach (json_object_get(answer, "ports"), i, row) {
		const char *sides[] = { "ingress", "egress" };

		for (unsigned k = 0; k < 2; k++) {
			json_t *dropped =
				json_object_get(json_object_get(row, sides[k]), "dropped");
			char *text = json_dumps(dropped, 0);

			if (json_object_size(dropped))
				print_error("port %zu %s dropped: %s\n", i, sides[k], text);
			free(text);
		}
	}
	json_decref(answer);
}

int rig_setup(void **state)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	uint64_t end = clock_ns() + START_MS * 1000000ull;
	json_t *answer = NULL;

	if (!rig)
		return -1;
	/* With the process in its name: rig/scratch.py cleans up after one that was killed. */
	snprintf(rig->folder, sizeof(rig->folder), "/tmp/ringway-test-%d-XXXXXX", getpid());
	if (!mkdtemp(rig->folder))
		return -1;
	snprintf(rig->control, sizeof(rig->control), "%s/control", rig->folder);
	for (unsigned i = 0; i < PORTS; i++)
		snprintf(rig->socket[i], sizeof(rig->socket[i]), "%s/p%u", rig->folder, i);
	*state = current = rig;
	rig->child = fork();
	if (!rig->child)
		become_switch(rig);
	while (!answer && clock_ns() < end && waitpid(rig->child, NULL, WNOHANG) == 0) {
		usleep(5000);
		answer = ask(rig, "show.port");
	}
	if (!answer) {
		print_error("the switch did not start (RINGWAY=%s)\n", getenv("RINGWAY"));
		return -1;
	}
	json_decref(answer);
	return 0;
}

/* Ended by SIGTERM it exits with 0; a sanitizer's complaint shows here as well. */
static int end_switch(struct rig *rig)
{
	uint64_t end = clock_ns() + START_MS * 1000000ull;
	int status;

	if (waitpid(rig->child, &status, WNOHANG) == rig->child) {
		print_error("the switch has died: status %#x\n", status);
		return -1;
	}
	kill(rig->child, SIGTERM);
	while (waitpid(rig->child, &status, WNOHANG) == 0) {
		if (clock_ns() > end) {
			print_error("the switch does not end\n");
			kill(rig->child, SIGKILL);
			waitpid(rig->child, NULL, 0);
			return -1;
		}
		usleep(1000);
	}
	if (status)
		print_error("the switch ended with status %#x\n", status);
	return status ? -1 : 0;
}

int rig_teardown(void **state)
{
	struct rig *rig = *state;
	int rc = rig->child > 0 ? end_switch(rig) : 0;

	for (unsigned i = 0; i < PORTS; i++)
		unlink(rig->socket[i]);
	unlink(rig->control);
	rmdir(rig->folder);
	free(rig);
	return rc;
}

bool rig_packed(void)
{
	return getenv("RINGWAY_TEST_PACKED");
}

int rig_run(const char *name, const struct CMUnitTest *tests, size_t n, size_t split_only)
{
	return _cmocka_run_group_tests(name, tests, n - (rig_packed() ? split_only : 0), NULL,
				       NULL);
}

struct driver *rig_open(struct rig *rig, unsigned port, const struct driver_config *config)
{
	struct driver_config c = config ? *config : (struct driver_config){ 0 };
	struct error err = { "" };
	struct driver *d;

	c.connect = rig->socket[port];
	if (rig_packed())
		c.features = (c.features ? c.features : driver_features_default()) |
			     BIT(VIRTIO_F_RING_PACKED);
	if (driver_open(&c, &d, &err))
		fail_msg("port %u: %s", port, err.text);
	return d;
}

void rig_assert_alive(struct rig *rig)
{
	json_t *answer = ask(rig, "show.port");

	assert_non_null(answer);
	json_decref(answer);
}

static json_t *port_row(json_t *answer, unsigned port)
{
	json_t *row = json_array_get(json_object_get(answer, "ports"), port);

	assert_non_null(row);
	return row;
}

uint64_t rig_dropped(struct rig *rig, unsigned port, const char *drop)
{
	json_t *answer = ask(rig, "show.port");
	json_t *row = port_row(answer, port);
	uint64_t n = 0;

	for (unsigned i = 0; i < 2; i++) {
		json_t *side = json_object_get(row, i ? "egress" : "ingress");

		n += (uint64_t)json_integer_value(
			json_object_get(json_object_get(side, "dropped"), drop));
	}
	json_decref(answer);
	return n;
}

uint64_t rig_refused(struct rig *rig, unsigned port, const char *name)
{
	json_t *answer = ask(rig, "show.port");
	json_t *refused = json_object_get(port_row(answer, port), "refused");
	uint64_t n = (uint64_t)json_integer_value(json_object_get(refused, name));

	json_decref(answer);
	return n;
}

static uint64_t ring_counter(struct rig *rig, unsigned port, unsigned ring, const char *key)
{
	char name[16];
	json_t *answer = ask(rig, "show.queue"), *row;
	uint64_t n = UINT64_MAX;
	size_t i;

	snprintf(name, sizeof(name), "p%u", port);
	json_array_foreach (json_object_get(answer, "queues"), i, row) {
		if (!strcmp(json_string_value(json_object_get(row, "port")), name) &&
		    json_integer_value(json_object_get(row, "queue")) == ring)
			n = (uint64_t)json_integer_value(json_object_get(row, key));
	}
	json_decref(answer);
	assert_true(n != UINT64_MAX);
	return n;
}

static uint64_t all_dropped(struct rig *rig, unsigned port, const char *side)
{
	json_t *answer = ask(rig, "show.port"), *n;
	json_t *row = json_object_get(port_row(answer, port), side);
	const char *reason;
	uint64_t sum = 0;

	json_object_foreach (json_object_get(row, "dropped"), reason, n)
		sum += (uint64_t)json_integer_value(n);
	json_decref(answer);
	return sum;
}

struct rig_counters rig_counters(struct rig *rig, unsigned from, unsigned to)
{
	return (struct rig_counters){
		.sent = ring_counter(rig, from, 1, "frames"),
		.delivered = ring_counter(rig, to, 0, "frames"),
		.segments = ring_counter(rig, to, 0, "segments"),
		.dropped = all_dropped(rig, from, "ingress") + all_dropped(rig, to, "egress"),
	};
}

void rig_assert_dropped(struct rig *rig, unsigned port, const char *drop, uint64_t expected)
{
	uint64_t n = rig_dropped(rig, port, drop);

	for (unsigned i = 0; i < 100 && n != expected; i++) {
		usleep(10000);
		n = rig_dropped(rig, port, drop);
	}
	if (n != expected)
		fail_msg("port %u: %s is %llu, expected %llu", port, drop, (unsigned long long)n,
			 (unsigned long long)expected);
}

void rig_wait_state(struct rig *rig, unsigned port, const char *state)
{
	char last[32] = "";

	for (unsigned i = 0; i < 500; i++) {
		json_t *answer = ask(rig, "show.port");
		json_t *row = port_row(answer, port);

		snprintf(last, sizeof(last), "%s",
			 json_string_value(json_object_get(row, "state")));
		json_decref(answer);
		if (!strcmp(last, state))
			return;
		usleep(10000);
	}
	fail_msg("port %u is %s, not %s", port, last, state);
}

unsigned rig_open_fds(const struct rig *rig)
{
	char path[64];
	unsigned n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", rig->child);
	dir = opendir(path);
	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* The number behind `key` in the switch's status file. */
static unsigned status_of(const struct rig *rig, const char *key)
{
	char path[64], line[128];
	unsigned n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", rig->child);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, key, strlen(key)))
			n = (unsigned)strtoul(line + strlen(key), NULL, 10);
	}
	fclose(f);
	return n;
}

unsigned rig_threads(const struct rig *rig)
{
	return status_of(rig, "Threads:");
}

unsigned rig_resident(const struct rig *rig)
{
	return status_of(rig, "VmRSS:");
}

static unsigned count_mappings(const struct rig *rig, const char *name)
{
	char path[64], line[512];
	unsigned n = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", rig->child);
	maps = fopen(path, "r");
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, name) != NULL;
	fclose(maps);
	return n;
}

unsigned rig_mappings(const struct rig *rig, const char *name)
{
	unsigned n = count_mappings(rig, name);

	for (unsigned i = 0; n && i < 5000; i++) {
		usleep(1000);
		n = count_mappings(rig, name);
	}
	return n;
}
