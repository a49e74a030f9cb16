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

#define START_MS    10000 /* under a sanitizer or valgrind it takes its time */
#define PATIENCE_MS 10000 /* without progress: lost */
#define SETTLED_MS  50
#define LOOK_US	    200

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

/* What the switch counted as dropped, on stderr. */
static void print_drops(void)
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

unsigned rig_mappings(const struct rig *rig, const char *name)
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

void frame_make(uint8_t *frame, uint32_t len, unsigned from, unsigned to, uint32_t seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;
	const uint8_t head[FRAME_MIN] = { 2,
					  0,
					  0,
					  0,
					  0,
					  (uint8_t)(to + 1),
					  2,
					  0,
					  0,
					  0,
					  0,
					  (uint8_t)(from + 1),
					  ETHERTYPE_TEST >> 8,
					  ETHERTYPE_TEST & 0xff };

	memcpy(frame, head, MIN(len, (uint32_t)FRAME_MIN));
	for (uint32_t i = FRAME_MIN; i < len; i++) {
		if ((i - FRAME_MIN) % 8 == 0) { /* xorshift64* */
			x ^= x >> 12;
			x ^= x << 25;
			x ^= x >> 27;
		}
		frame[i] = (uint8_t)(x * 0x2545f4914f6cdd1dull >> (8 * ((i - FRAME_MIN) % 8)));
	}
}

static void put16(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

static uint32_t sum16(const uint8_t *at, unsigned n, uint32_t sum)
{
	for (unsigned i = 0; i < n; i += 2)
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

const struct virtio_net_hdr tso = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
				    .gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
				    .hdr_len = TCP_HEADERS,
				    .gso_size = 1448,
				    .csum_start = 34,
				    .csum_offset = 16 };

void frame_add_tcp(uint8_t *frame, uint32_t len)
{
	static const uint8_t ip[20] = { 0x45, 0, 0,  0, 0, 0, 0x40, 0, 64, 6,
					0,    0, 10, 0, 0, 1, 10,   0, 0,  2 };
	static const uint8_t tcp[20] = { 0x30, 0x39, 0x14, 0x51, 0, 0, 0, 1, 0, 0,
					 0,    1,    0x50, 0x10, 2, 0, 0, 0, 0, 0 };
	uint32_t tcp_len = len - 34;

	put16(frame + 12, 0x0800);
	memcpy(frame + 14, ip, sizeof(ip));
	put16(frame + 16, len - 14);
	put16(frame + 24, ~sum16(frame + 14, 20, 0));
	memcpy(frame + 34, tcp, sizeof(tcp));
	put16(frame + 50, sum16(frame + 26, 8, 6 + (tcp_len & 0xffff) + (tcp_len >> 16)));
}

static void frame_of(const struct stream *s, uint8_t *frame, uint32_t len, uint32_t seed)
{
	frame_make(frame, len, s->from_port, s->to_port, seed);
	if (s->tcp)
		frame_add_tcp(frame, len);
}

static uint32_t length_of(const struct stream *s, uint32_t seed)
{
	uint32_t span = s->len_max - s->len_min + 1;

	return s->len_min + (uint32_t)((seed * 2654435761u >> 8) % span);
}

static void check_frame(struct stream *s, const uint8_t *got, const struct driver_frame *f,
			uint32_t seed)
{
	static uint8_t expected[FRAME_ROOM];
	uint32_t len = length_of(s, seed);

	frame_of(s, expected, len, seed);
	if (f->len != len)
		fail_msg("frame %u: %u bytes long, expected %u", seed, f->len, len);
	for (uint32_t i = 0; i < len; i++) {
		if (got[i] != expected[i])
			fail_msg("frame %u of %u bytes differs at byte %u: %#x, expected %#x", seed,
				 len, i, got[i], expected[i]);
	}
	assert_int_equal(f->used_len, len + s->to->hdr_len);
	if (s->hdr)
		assert_memory_equal(&f->hdr.hdr, s->hdr, sizeof(*s->hdr));
	else
		assert_int_equal(f->hdr.hdr.flags | f->hdr.hdr.gso_type, 0);
	s->buffers += f->buffers;
	s->used_len += f->used_len;
}

static unsigned send_some(struct stream *s, unsigned sent, unsigned limit)
{
	static uint8_t frame[FRAME_ROOM];
	unsigned n = 0;

	while (sent + n < limit) {
		uint32_t len = length_of(s, sent + n);
		int rc;

		frame_of(s, frame, len, sent + n);
		rc = driver_send(s->from, s->from_pair, s->hdr, frame, len, s->shape);
		if (rc == -ENOSPC)
			break;
		assert_int_equal(rc, 0);
		n++;
	}
	if (n)
		driver_flush(s->from, DRIVER_TX(s->from_pair));
	return n;
}

static void fill_defaults(struct stream *s)
{
	if (s->from_port == s->to_port)
		s->to_port = s->from_port + 1;
	if (!s->count)
		s->count = 100;
	if (!s->window)
		s->window = MIN(64u, s->to->config.ring_size);
	if (!s->len_max) {
		s->len_min = 60;
		s->len_max = 1514;
	}
	assert_true(s->len_max < FRAME_ROOM);
}

static void check_rings(const struct stream *s)
{
	const char *broken = driver_broken(s->from) ? driver_broken(s->from) : driver_broken(s->to);

	if (broken)
		fail_msg("the switch %s", broken);
}

/* Takes a frame from any pair of the receiver; of one pair only if it waits to be called. */
static int receive_any(struct stream *s, uint8_t *got, struct driver_frame *f)
{
	int rc = 0;

	if (s->by_call) {
		rc = driver_receive_wait(s->to, 0, got, FRAME_ROOM, f, PATIENCE_MS);
		driver_post(s->to, 0);
		return rc;
	}
	for (unsigned pair = 0; pair < s->to->config.pairs && !rc; pair++) {
		ring_calls_off(&s->to->ring[DRIVER_RX(pair)]);
		rc = driver_receive(s->to, pair, got, FRAME_ROOM, f);
		if (rc) /* before a frame is sent in its place */
			driver_post(s->to, pair);
	}
	return rc;
}

void stream_run(struct stream *s)
{
	static uint8_t got[FRAME_ROOM];
	unsigned sent = 0, received = 0;
	uint64_t progress = clock_ns();

	fill_defaults(s);
	ring_calls_off(&s->from->ring[DRIVER_TX(s->from_pair)]);
	while (received < s->count) {
		struct driver_frame f;
		int rc;

		sent += send_some(s, sent, MIN(s->count, received + s->window));
		rc = receive_any(s, got, &f);
		check_rings(s);
		if (rc == 1) {
			/* As a network card would: what was flooded is not for us. */
			if (f.len >= FRAME_MIN && got[5] == s->to_port + 1)
				check_frame(s, got, &f, received++);
			progress = clock_ns();
		} else if (clock_ns() - progress > PATIENCE_MS * 1000000ull) {
			print_drops();
			fail_msg("%u of %u frames sent, only %u arrived; %u not taken, %u pending",
				 sent, s->count, received,
				 ring_outstanding(&s->from->ring[DRIVER_TX(s->from_pair)]) -
					 ring_pending(&s->from->ring[DRIVER_TX(s->from_pair)]),
				 ring_pending(&s->to->ring[DRIVER_RX(0)]));
		}
	}
}

void stream_both(const struct stream *s)
{
	struct stream there = *s, back = *s;

	stream_run(&there);
	back.from = s->to;
	back.to = s->from;
	back.from_port = there.to_port;
	back.to_port = there.from_port;
	back.from_pair = 0;
	stream_run(&back);
}

void assert_passes(struct driver *a, struct driver *b)
{
	struct stream s = { .from = a, .to = b, .count = 1, .len_min = 60, .len_max = 60 };

	stream_both(&s);
}

unsigned swallow(struct driver *d)
{
	static uint8_t got[FRAME_ROOM];
	struct driver_frame f;
	unsigned n = 0;

	while (driver_receive(d, 0, got, sizeof(got), &f) == 1)
		n++;
	driver_post(d, 0);
	return n;
}

void settle(struct driver *a, struct driver *b)
{
	for (unsigned idle = 0; idle < SETTLED_MS; idle++) {
		if (swallow(a) + swallow(b))
			idle = 0;
		usleep(1000);
	}
}

void pass_and_close(struct driver *a, struct driver *b)
{
	struct stream s = { .from = a, .to = b };

	stream_both(&s);
	driver_close(a);
	driver_close(b);
}

void send_one(struct driver *d, unsigned from, unsigned to, uint32_t len, uint32_t seed)
{
	static uint8_t frame[FRAME_ROOM];

	frame_make(frame, len, from, to, seed);
	assert_int_equal(driver_send(d, 0, NULL, frame, len, NULL), 0);
	driver_flush(d, DRIVER_TX(0));
}

bool receive_one(struct driver *d, unsigned from, unsigned to, uint32_t len, uint32_t seed,
		 int timeout_ms)
{
	static uint8_t got[FRAME_ROOM], expected[FRAME_ROOM];
	uint64_t end = clock_ns() + (uint64_t)timeout_ms * 1000000;
	struct driver_frame f;
	int rc;

	while ((rc = driver_receive(d, 0, got, sizeof(got), &f)) == 0 && clock_ns() < end)
		usleep(LOOK_US);
	if (rc < 0)
		fail_msg("the switch %s", driver_broken(d));
	if (!rc)
		return false;
	frame_make(expected, len, from, to, seed);
	assert_int_equal(f.len, len);
	assert_memory_equal(got, expected, len);
	return true;
}
