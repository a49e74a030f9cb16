// SPDX-License-Identifier: Apache-2.0
/* What the switch says of itself: why a port carries nothing, and counters that add up exactly. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/client.h"

#define WAIT_MS	 2000
#define IDLE_US	 300000
#define IDLE_S	 3
#define TSO_SIZE 10054
#define TSO_CUT	 1000

/* The row of a port; the caller's to free. */
static json_t *port_row(struct rig *rig, unsigned port)
{
	char name[8];
	struct error err;
	json_t *answer, *row;

	snprintf(name, sizeof(name), "p%u", port);
	assert_int_equal(client_call(rig->control, "show.port", json_pack("{s:s}", "name", name),
				     &answer, &err),
			 0);
	row = json_incref(json_array_get(json_object_get(answer, "ports"), 0));
	json_decref(answer);
	assert_non_null(row);
	return row;
}

static const char *text_of(const json_t *row, const char *key)
{
	return json_string_value(json_object_get(row, key));
}

/* Waits for a state, with these words in its reason; "": there is none. */
static void expect(struct rig *rig, unsigned port, const char *state, const char *words)
{
	bool good = false;

	for (unsigned i = 0; i < 500 && !good; i++) {
		json_t *row = port_row(rig, port);
		const char *reason = text_of(row, "reason");

		good = !strcmp(text_of(row, "state"), state) &&
		       (*words ? strstr(reason, words) != NULL : !*reason);
		if (i == 499)
			print_error("it says: %s: %s\n", text_of(row, "state"), reason);
		json_decref(row);
		usleep(good ? 0 : 10000);
	}
	if (!good)
		fail_msg("port %u does not say: %s: %s", port, state, words);
}

/* A front-end that gets stuck: with the features and the second of two rings told, and no memory.
 */
static void agree_without_memory(struct rig *rig)
{
	const struct vhost_user_vring_state size = { 1, 64 };
	uint64_t features = BIT(VIRTIO_F_VERSION_1) | BIT(VHOST_USER_F_PROTOCOL_FEATURES);
	struct error err;
	int sock = channel_connect(rig->socket[0], WAIT_MS, &err);

	assert_true(sock >= 0);
	expect(rig, 0, "connected", "not agreed to features");
	assert_int_equal(channel_send(sock, VHOST_USER_SET_FEATURES, VHOST_USER_VERSION, &features,
				      8, NULL, 0),
			 0);
	assert_int_equal(channel_send(sock, VHOST_USER_SET_VRING_NUM, VHOST_USER_VERSION, &size,
				      sizeof(size), NULL, 0),
			 0);
	expect(rig, 0, "agreed", "share=on");
	close(sock);
}

static bool has_feature(const json_t *row, const char *name)
{
	const json_t *features = json_object_get(row, "features");

	for (size_t i = 0; i < json_array_size(features); i++) {
		if (!strcmp(json_string_value(json_array_get(features, i)), name))
			return true;
	}
	return false;
}

static void each_state_says_why_nothing_passes(void **state)
{
	struct rig *rig = *state;
	struct driver_config later = { .quirks = DRIVER_RINGS_LATER };
	struct error err;
	struct driver *d;
	json_t *row;

	expect(rig, 0, "waiting", rig->socket[0]);
	agree_without_memory(rig);
	expect(rig, 0, "waiting", rig->socket[0]);
	d = rig_open(rig, 0, &later);
	expect(rig, 0, "agreed", "has not started its queues");
	row = port_row(rig, 0);
	assert_true(has_feature(row, "mrg_rxbuf") && has_feature(row, "version_1"));
	assert_int_equal(json_integer_value(json_object_get(row, "queue_pairs")), 0);
	json_decref(row);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(driver_ring_start(d, i, ring_base(d->ring), &err), 0);
		assert_int_equal(driver_ring_enable(d, i, true, &err), 0);
	}
	expect(rig, 0, "up", "share=on");
	send_one(d, 0, 1, 60, 1);
	expect(rig, 0, "up", "");
	script_avail_nonsense(&d->ring[DRIVER_TX(0)]);
	expect(rig, 0, "broken", "ring 1:");
	driver_close(d);
	expect(rig, 0, "waiting", rig->socket[0]);
	/* What another guest sent says nothing of the next one's memory. */
	d = rig_open(rig, 0, NULL);
	expect(rig, 0, "up", "share=on");
	driver_close(d);
}

static json_int_t limit_of(const json_t *row, const char *option)
{
	return json_integer_value(json_object_get(json_object_get(row, "limits"), option));
}

static void limits_are_told_and_how_often_each_was_met(void **state)
{
	static const struct vhost_user_header wrong = { .flags = 3 };
	struct rig *rig = *state;
	struct error err;
	json_t *row = port_row(rig, 0);

	assert_int_equal(limit_of(row, "memory-max"), 1024);
	assert_int_equal(limit_of(row, "messages-max"), 1000);
	assert_int_equal(limit_of(row, "queue-size-max"), 32768);
	assert_int_equal(limit_of(row, "log-max"), 1);
	assert_int_equal(json_object_size(json_object_get(row, "refused")), 0);
	json_decref(row);
	for (unsigned i = 0; i < 30; i++) {
		int sock = channel_connect(rig->socket[0], WAIT_MS, &err);

		assert_true(sock >= 0);
		assert_int_equal(send(sock, &wrong, sizeof(wrong), MSG_NOSIGNAL), sizeof(wrong));
		assert_true(channel_closed(sock, WAIT_MS));
		close(sock);
	}
	assert_int_equal(rig_refused(rig, 0, "malformed"), 30);
	assert_in_range(rig_refused(rig, 0, "log_max"), 1, 30);
}

static int log_file;

/* A switch whose log can be read. */
static int setup_with_log(void **state)
{
	int r, own = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

	log_file = memfd_create("log", MFD_CLOEXEC);
	if (own < 0 || log_file < 0 || dup2(log_file, STDERR_FILENO) < 0)
		return -1;
	r = rig_setup(state);
	dup2(own, STDERR_FILENO);
	close(own);
	return r;
}

static int teardown_with_log(void **state)
{
	char log[4096] = "";
	int r = rig_teardown(state);

	if (r && pread(log_file, log, sizeof(log) - 1, 0) > 0)
		print_error("its log: %s\n", log);
	close(log_file);
	return r;
}

/* As QEMU does after a crash of the back-end: it says where the ring was when it began. */
static void a_packed_ring_that_lost_its_place_says_so(void **state)
{
	const struct driver_config packed = { .features = driver_features_default() |
							  BIT(VIRTIO_F_RING_PACKED) };
	struct rig *rig = *state;
	struct driver *d = rig_open(rig, 0, &packed);
	struct driver_ring *tx = &d->ring[DRIVER_TX(0)];
	static const char said[] = "warn p0: ring 1 is packed";
	char log[4096] = "", *line;
	struct error err;
	uint32_t base, wrong;

	expect(rig, 0, "up", "packed rings");
	send_one(d, 0, 1, 60, 1);
	assert_true(script_wait_idle(tx, WAIT_MS));
	expect(rig, 0, "up", "");
	assert_int_equal(driver_ring_stop(d, DRIVER_TX(0), &base, &err), 0);
	assert_int_equal(driver_ring_start(d, DRIVER_TX(0), ring_base(tx), &err), 0);
	expect(rig, 0, "broken", "ring 1 is packed");
	expect(rig, 0, "broken", "reset the guest's device");
	assert_true(pread(log_file, log, sizeof(log) - 1, 0) > 0);
	line = strstr(log, said);
	assert_non_null(line);
	assert_non_null(strstr(line, "reset the guest's device"));
	assert_null(strstr(line + 1, said));
	assert_int_equal(driver_ring_stop(d, DRIVER_TX(0), &wrong, &err), 0);
	assert_int_equal(driver_ring_start(d, DRIVER_TX(0), base, &err), 0);
	expect(rig, 0, "up", "");
	send_one(d, 0, 1, 60, 2);
	assert_true(script_wait_idle(tx, WAIT_MS));
	driver_close(d);
}

static void assert_last_error(struct rig *rig, unsigned port, const char *words)
{
	json_t *row = port_row(rig, port);
	const char *text = text_of(row, "last_error");

	if (*words ? !strstr(text, words) : *text)
		fail_msg("the last error is '%s', should be: %s", text, words);
	json_decref(row);
}

/* The same socket given to two virtual machines: the second would hang without a word. */
static void a_front_end_that_waits_for_another_is_told_of(void **state)
{
	struct rig *rig = *state;
	struct driver *d = rig_open(rig, 0, NULL);
	struct error err;
	int sock = channel_connect(rig->socket[0], WAIT_MS, &err);
	bool told = false;

	assert_true(sock >= 0);
	for (unsigned i = 0; !told && i < 500; i++) {
		json_t *row = port_row(rig, 0);

		told = strstr(text_of(row, "last_error"), "another front-end has connected");
		json_decref(row);
		usleep(10000);
	}
	assert_true(told);
	close(sock);
	driver_close(d);
	d = rig_open(rig, 0, NULL); /* Its own connection is over at once, and this one's turn. */
	assert_last_error(rig, 0, "");
	driver_close(d);
}

/* Until a front-end comes that does better; a clean close is no error. */
static void the_last_error_is_kept(void **state)
{
	struct rig *rig = *state;
	struct error err;
	struct driver *d;
	int sock;

	driver_close(rig_open(rig, 0, NULL));
	rig_wait_state(rig, 0, "waiting");
	assert_last_error(rig, 0, "");
	sock = channel_connect(rig->socket[0], WAIT_MS, &err);
	assert_true(sock >= 0);
	channel_send(sock, VHOST_USER_SET_FEATURES, VHOST_USER_VERSION, "1234", 4, NULL, 0);
	assert_true(channel_closed(sock, WAIT_MS));
	close(sock);
	rig_wait_state(rig, 0, "waiting");
	assert_last_error(rig, 0, "SET_FEATURES");
	d = rig_open(rig, 0, NULL);
	rig_wait_state(rig, 0, "up");
	assert_last_error(rig, 0, "");
	driver_close(d);
}

static void set_features(struct rig *rig, const char *value)
{
	struct error err = { "" };
	json_t *result;

	if (client_call(rig->control, "port.set",
			json_pack("{s:s, s:{s:s}}", "name", "p0", "options", "features", value),
			&result, &err))
		fail_msg("port set features=%s: %s", value, err.text);
	json_decref(result);
}

/* As QEMU does that goes on and finds less on offer than its guest has agreed to. */
static void who_leaves_for_want_of_features_is_told_to_start_anew(void **state)
{
	struct rig *rig = *state;
	struct channel_message m;
	struct error err;

	for (unsigned less = 0; less < 2; less++) {
		int sock = channel_connect(rig->socket[0], WAIT_MS, &err);

		assert_true(sock >= 0);
		channel_send(sock, VHOST_USER_GET_FEATURES, VHOST_USER_VERSION, NULL, 0, NULL, 0);
		assert_int_equal(channel_receive(sock, &m, WAIT_MS), 0);
		close(sock);
		rig_wait_state(rig, 0, "waiting");
		assert_last_error(rig, 0, less ? "restart QEMU" : "");
		set_features(rig, less ? "" : "-tso,-guest_tso");
	}
}

/* What a port's counters must be. Frames to a port that are dropped there have one reason each. */
struct tally {
	uint64_t frames[2], bytes[2]; /* ingress, egress */
	uint64_t dropped[2];	      /* all reasons together */
};

static const char *const sides[] = { "ingress", "egress" };

static uint64_t number(const json_t *row, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(row, key));
}

static struct tally tally_of(const json_t *row)
{
	struct tally t = { 0 };

	for (unsigned i = 0; i < 2; i++) {
		const json_t *side = json_object_get(row, sides[i]);
		const char *reason;
		json_t *n;

		t.frames[i] = number(side, "frames");
		t.bytes[i] = number(side, "bytes");
		json_object_foreach (json_object_get(side, "dropped"), reason, n)
			t.dropped[i] += (uint64_t)json_integer_value(n);
	}
	return t;
}

/* The port's rings, summed up, are the port. */
static void assert_rings_add_up(struct rig *rig, unsigned port, const struct tally *t)
{
	uint64_t frames[2] = { 0, 0 }, bytes[2] = { 0, 0 };
	char name[8];
	struct error err;
	json_t *answer, *row;
	size_t i;

	snprintf(name, sizeof(name), "p%u", port);
	assert_int_equal(client_call(rig->control, "show.queue", json_pack("{s:s}", "name", name),
				     &answer, &err),
			 0);
	json_array_foreach (json_object_get(answer, "queues"), i, row) {
		bool rx = !strcmp(text_of(row, "direction"), "rx");

		frames[rx] += number(row, "frames");
		bytes[rx] += number(row, "bytes");
	}
	assert_true(i > 0);
	json_decref(answer);
	assert_memory_equal(frames, t->frames, sizeof(frames));
	assert_memory_equal(bytes, t->bytes, sizeof(bytes));
}

static void assert_tally(struct rig *rig, unsigned port, const struct tally *expected)
{
	struct tally t = { 0 };

	for (unsigned i = 0; i < 200; i++) {
		json_t *row = port_row(rig, port);

		t = tally_of(row);
		json_decref(row);
		if (!memcmp(&t, expected, sizeof(t)))
			break;
		usleep(10000);
	}
	for (unsigned i = 0; i < 2; i++) {
		if (t.frames[i] != expected->frames[i] || t.bytes[i] != expected->bytes[i] ||
		    t.dropped[i] != expected->dropped[i])
			fail_msg("port %u %s: %ju frames, %ju bytes, %ju dropped; should be %ju, "
				 "%ju, %ju",
				 port, sides[i], (uintmax_t)t.frames[i], (uintmax_t)t.bytes[i],
				 (uintmax_t)t.dropped[i], (uintmax_t)expected->frames[i],
				 (uintmax_t)expected->bytes[i], (uintmax_t)expected->dropped[i]);
	}
	assert_rings_add_up(rig, port, &t);
}

static void add(struct tally *t, unsigned side, uint64_t n, uint64_t len)
{
	t->frames[side] += n;
	t->bytes[side] += n * len;
}

/* `n` frames of `len` bytes from port 0, each taken by the switch before the next is sent. */
static void send_all(struct driver *a, unsigned to, unsigned n, uint32_t len)
{
	for (unsigned i = 0; i < n; i++) {
		driver_reclaim(a, 0);
		send_one(a, 0, to, len, i);
		assert_true(script_wait_idle(&a->ring[DRIVER_TX(0)], 1000));
	}
}

/* Chains that hold no frame: too short for a header, and with a header that asks for nonsense. */
static void send_malformed(struct driver *a, unsigned n)
{
	struct virtio_net_hdr bad = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_start = 0xffff };
	struct driver_done done;
	uint8_t frame[60];

	driver_reclaim(a, 0);
	for (unsigned i = 0; i < n; i++) {
		struct driver_piece piece = { a->mem.base, 5 };

		assert_int_equal(ring_add(&a->ring[DRIVER_TX(0)], &piece, 1, 0, false, a), 0);
		ring_flush(&a->ring[DRIVER_TX(0)]);
		assert_true(script_wait_idle(&a->ring[DRIVER_TX(0)], 1000));
		assert_int_equal(ring_take(&a->ring[DRIVER_TX(0)], &done, 1), 1);
		frame_make(frame, sizeof(frame), 0, 1, i);
		assert_int_equal(driver_send(a, 0, &bad, frame, sizeof(frame), NULL), 0);
		driver_flush(a, DRIVER_TX(0));
		assert_true(script_wait_idle(&a->ring[DRIVER_TX(0)], 1000));
		driver_reclaim(a, 0);
	}
}

/* One large frame that its receiver gets in segments counts once, with its own bytes. */
static void send_large(struct driver *a)
{
	struct virtio_net_hdr hdr = tso;
	static uint8_t frame[TSO_SIZE];

	hdr.gso_size = TSO_CUT;
	frame_make(frame, sizeof(frame), 0, 1, 1);
	frame_add_tcp(frame, sizeof(frame));
	assert_int_equal(driver_send(a, 0, &hdr, frame, sizeof(frame), NULL), 0);
	driver_flush(a, DRIVER_TX(0));
	assert_true(script_wait_idle(&a->ring[DRIVER_TX(0)], 1000));
	driver_reclaim(a, 0);
}

/* Ports 0, 1 and 2: a full-featured sender, one with small buffers, one with none at first. */
struct ports {
	struct driver *a, *b, *c;
	struct tally tally[PORTS];
};

static struct ports open_ports(struct rig *rig)
{
	struct driver_config large = { .features = driver_features_default() |
						   BIT(VIRTIO_NET_F_CSUM) |
						   BIT(VIRTIO_NET_F_HOST_TSO4),
				       .tx_buffer = TSO_SIZE + 12 };
	struct driver_config small = { .features = driver_features_default() &
						   ~BIT(VIRTIO_NET_F_MRG_RXBUF) };
	struct driver_config none = { .quirks = DRIVER_NO_RX_BUFFERS };
	struct ports p = { .a = rig_open(rig, 0, &large) };

	p.b = rig_open(rig, 1, &small);
	p.c = rig_open(rig, 2, &none);
	return p;
}

static void send_to_all(struct rig *rig, struct ports *p)
{
	struct tally *t = p->tally;

	send_one(p->b, 1, 0, 60, 1); /* of whom one has no room */
	add(&t[1], 0, 1, 60);
	assert_true(receive_one(p->a, 1, 0, 60, 1, 1000));
	add(&t[0], 1, 1, 60);
	rig_assert_dropped(rig, 2, "full", 1);
	t[2].dropped[1] += 1;
	send_one(p->c, 2, 0, 60, 1);
	add(&t[2], 0, 1, 60);
	assert_true(receive_one(p->a, 2, 0, 60, 1, 1000));
	assert_true(receive_one(p->b, 2, 0, 60, 1, 1000)); /* port 0 has not sent yet */
	add(&t[0], 1, 1, 60);
	add(&t[1], 1, 1, 60);
}

static void send_to_one(struct ports *p)
{
	struct stream s = { .from = p->a, .to = p->b, .count = 500 };
	struct tally *t = p->tally;

	stream_run(&s);
	add(&t[0], 0, 500, 0);
	add(&t[1], 1, 500, 0);
	t[0].bytes[0] += s.used_len - 500 * p->b->hdr_len;
	t[1].bytes[1] += s.used_len - 500 * p->b->hdr_len;
	send_all(p->a, 9, 50, 100); /* to nobody known */
	add(&t[0], 0, 50, 100);
	add(&t[1], 1, 50, 100);
	t[2].dropped[1] += 50;
	assert_int_equal(swallow(p->b), 50);
	send_all(p->a, 0, 20, 60); /* to itself */
	add(&t[0], 0, 20, 60);
	t[0].dropped[0] += 20;
	send_all(p->a, 1, 15, 3000);
	add(&t[0], 0, 15, 3000);
	t[1].dropped[1] += 15;
	send_malformed(p->a, 10);
	t[0].dropped[0] += 20;
}

static void every_frame_is_counted_once_on_each_side(void **state)
{
	struct rig *rig = *state;
	struct ports p = open_ports(rig);
	struct tally *t = p.tally;

	send_to_all(rig, &p);
	send_to_one(&p);
	send_all(p.a, 2, 10, 60);
	add(&t[0], 0, 10, 60);
	rig_assert_dropped(rig, 2, "full", 61); /* those held as well, when their time is up */
	t[2].dropped[1] += 10;
	driver_post(p.c, 0);
	send_all(p.a, 2, 30, 60);
	add(&t[0], 0, 30, 60);
	add(&t[2], 1, 30, 60);
	assert_int_equal(swallow(p.c), 30);
	send_large(p.a);
	add(&t[0], 0, 1, TSO_SIZE);
	add(&t[1], 1, 1, TSO_SIZE);
	assert_int_equal(swallow(p.b), (TSO_SIZE - TCP_HEADERS) / TSO_CUT);
	for (unsigned i = 0; i < PORTS; i++)
		assert_tally(rig, i, &t[i]);
	assert_int_equal(rig_dropped(rig, 0, "same_port"), 20);
	assert_int_equal(rig_dropped(rig, 0, "header_short"), 10);
	assert_int_equal(rig_dropped(rig, 0, "header_bad"), 10);
	assert_int_equal(rig_dropped(rig, 1, "too_big"), 15);
	driver_close(p.a);
	driver_close(p.b);
	driver_close(p.c);
}

static uint64_t worker_sum(struct rig *rig, const char *key)
{
	struct error err;
	json_t *answer, *row;
	uint64_t n = 0;
	size_t i;

	assert_int_equal(client_call(rig->control, "show.worker", NULL, &answer, &err), 0);
	json_array_foreach (json_object_get(answer, "workers"), i, row)
		n += number(row, key);
	json_decref(answer);
	return n;
}

/* With two guests connected that say nothing, nobody wakes up: no timer, no poll. */
static void quiet_guests_wake_nobody(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	struct stream s = { .from = a, .to = b, .count = 2000 };
	uint64_t sleeps;

	stream_both(&s);
	usleep(IDLE_US);
	assert_int_equal(worker_sum(*state, "armed"), worker_sum(*state, "queues"));
	sleeps = worker_sum(*state, "sleeps");
	sleep(IDLE_S);
	assert_in_range(worker_sum(*state, "sleeps") - sleeps, 0, 1);
	driver_close(a);
	driver_close(b);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		CASE(each_state_says_why_nothing_passes),
		CASE(limits_are_told_and_how_often_each_was_met),
		cmocka_unit_test_setup_teardown(a_packed_ring_that_lost_its_place_says_so,
						setup_with_log, teardown_with_log),
		CASE(a_front_end_that_waits_for_another_is_told_of),
		CASE(the_last_error_is_kept),
		CASE(who_leaves_for_want_of_features_is_told_to_start_anew),
		CASE(every_frame_is_counted_once_on_each_side),
		CASE(quiet_guests_wake_nobody),
	};

	return rig_run("report", tests, ARRAY_SIZE(tests), 0);
}
