// SPDX-License-Identifier: Apache-2.0
/*
 * A thousand ports in one switch, 64 of them with a guest: all are there, frames pass between some,
 * what is idle is left alone, and it ends. No speeds: those are bench/scale.py's.
 */
#include "harness.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/client.h"

#define MANY	1000
#define GUESTS	64
#define STEP	((MANY - PORTS) / GUESTS)
#define ADDRESS 10 /* the first guest's, as of a port */
#define IDLE_S	2
/* Of CPU time, a second: 64 guests that do nothing want none of it. */
#define IDLE_SHARE 0.1

/* Of a guest: rings and buffers are small. */
static const struct driver_config small = { .ring_size = 64 };

static void listen_path(const struct rig *rig, unsigned port, char *path, size_t room)
{
	snprintf(path, room, "%s/many%u", rig->folder, port);
}

static json_t *ask(const struct rig *rig, const char *method, json_t *params)
{
	struct error err = { "" };
	json_t *result = NULL;

	if (client_call(rig->control, method, params, &result, &err))
		fail_msg("%s: %s", method, err.text);
	return result;
}

/* How many rows of `show` there are, and how many of them have `key` as `value`. */
static size_t rows_with(const struct rig *rig, const char *what, const char *key, const char *value,
			size_t *ret_with)
{
	char method[32];
	json_t *result, *rows;
	size_t n;

	snprintf(method, sizeof(method), "show.%s", what);
	result = ask(rig, method, NULL);
	snprintf(method, sizeof(method), "%ss", what);
	rows = json_object_get(result, method);
	*ret_with = 0;
	for (n = 0; n < json_array_size(rows); n++) {
		const char *text = json_string_value(json_object_get(json_array_get(rows, n), key));

		*ret_with += text && !strcmp(text, value);
	}
	json_decref(result);
	return n;
}

static void add_many(const struct rig *rig)
{
	for (unsigned i = 0; i < MANY - PORTS; i++) {
		char path[96], name[16];

		listen_path(rig, i, path, sizeof(path));
		snprintf(name, sizeof(name), "many%u", i);
		json_decref(ask(rig, "port.add",
				json_pack("{s:s,s:s,s:{s:s}}", "name", name, "kind", "vhost-user",
					  "options", "listen", path)));
	}
}

static double cpu_seconds(const struct rig *rig)
{
	char path[64];
	unsigned long user, system;
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/%d/stat", rig->child);
	stat = fopen(path, "r");
	assert_non_null(stat);
	assert_int_equal(fscanf(stat,
				"%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u "
				"%lu %lu",
				&user, &system),
			 2);
	fclose(stat);
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static void open_guests(struct rig *rig, struct driver **guest)
{
	for (unsigned i = 0; i < GUESTS; i++) {
		struct driver_config config = small;
		struct error err = { "" };
		char path[96];

		listen_path(rig, i * STEP, path, sizeof(path));
		config.connect = path;
		if (driver_open(&config, &guest[i], &err))
			fail_msg("guest %u: %s", i, err.text);
	}
	/* Addressed to themselves: learned, and heard by nobody. */
	for (unsigned i = 0; i < GUESTS; i++)
		send_one(guest[i], ADDRESS + i, ADDRESS + i, 60, 0);
}

static void pass_frames(struct driver **guest)
{
	for (unsigned i = 0; i < GUESTS; i += 2) {
		struct stream s = { .from = guest[i],
				    .to = guest[i + 1],
				    .from_port = ADDRESS + i,
				    .to_port = ADDRESS + i + 1 };

		stream_both(&s);
	}
}

static void assert_idle(const struct rig *rig)
{
	double before, used;

	sleep(1);
	before = cpu_seconds(rig);
	sleep(IDLE_S);
	used = cpu_seconds(rig) - before;
	if (used > IDLE_SHARE * IDLE_S)
		fail_msg("%.2f s of CPU time in %d s of silence", used, IDLE_S);
}

/* All ports are there, and so many of them are up. */
static void wait_up(const struct rig *rig, size_t up)
{
	size_t with = 0;

	for (unsigned i = 0; i < 500; i++) {
		assert_int_equal(rows_with(rig, "port", "state", "up", &with), MANY);
		if (with == up)
			break;
		usleep(10000);
	}
	assert_int_equal(with, up);
}

static void a_thousand_ports_and_64_guests(void **state)
{
	struct rig *rig = *state;
	struct driver *guest[GUESTS];
	size_t with;

	add_many(rig);
	assert_int_equal(rows_with(rig, "port", "state", "waiting", &with), MANY);
	assert_int_equal(with, MANY);
	open_guests(rig, guest);
	wait_up(rig, GUESTS);
	assert_int_equal(rows_with(rig, "queue", "state", "running", &with), 2 * GUESTS);
	pass_frames(guest);
	assert_idle(rig);
	/* A guest goes: its port waits for another one, and the others do not mind. */
	for (unsigned i = 0; i < GUESTS; i += 2)
		driver_close(guest[i]);
	wait_up(rig, GUESTS / 2);
	for (unsigned i = 1; i < GUESTS; i += 2)
		driver_close(guest[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_thousand_ports_and_64_guests, rig_setup,
						rig_teardown),
	};
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_max < 2 * MANY) {
		printf("1..0 # SKIP a thousand ports want %d descriptors (ulimit -Hn)\n", 2 * MANY);
		return 0;
	}
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	return cmocka_run_group_tests_name("scale", tests, NULL, NULL);
}
