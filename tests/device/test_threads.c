// SPDX-License-Identifier: Apache-2.0
/*
 * Everything at once, for the thread sanitizer: traffic, front-ends that come and go (half of them
 * in the middle of a handshake), ports that are added and deleted, and statistics that are read
 * meanwhile. The switch runs with two workers, and a report of the sanitizer is its exit status.
 */
#include "harness.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "control/client.h"

#define SECONDS	    8
#define HANDSHAKES  1000
#define FLOW_FRAMES 100000
#define BESIDE	    65536 /* bytes of memory that no ring uses */
#define RESIDENT_KB 8192  /* what the switch may have grown by; the sanitizers keep some */

static struct rig *rig;
static uint32_t over;

static void *change_ports(void *arg)
{
	struct error err;

	for (unsigned i = 0; !load_relaxed(&over); i++) {
		char listen[64];
		json_t *result = NULL;

		snprintf(listen, sizeof(listen), "%s/extra%u", rig->folder, i % 4);
		if (!client_call(rig->control, "port.add",
				 json_pack("{s:s,s:s,s:{s:s}}", "name", "extra", "kind",
					   "vhost-user", "options", "listen", listen),
				 &result, &err))
			json_decref(result);
		if (!client_call(rig->control, "port.del", json_pack("{s:s}", "name", "extra"),
				 &result, &err))
			json_decref(result);
	}
	return NULL;
}

static void *read_statistics(void *arg)
{
	static const char *const methods[] = { "show.port", "show.queue", "show.worker", "show.fdb",
					       "save" };
	struct error err;
	uintptr_t failed = 0;

	for (unsigned i = 0; !load_relaxed(&over); i++) {
		json_t *result = NULL;

		if (client_call(rig->control, methods[i % ARRAY_SIZE(methods)], NULL, &result,
				&err))
			failed++;
		else
			json_decref(result);
	}
	return (void *)failed;
}

/* A guest that is restarted over and over, and whose driver sends while it lives. */
static void *come_and_go(void *arg)
{
	struct driver_config config = { .connect = rig->socket[2], .pairs = 2 };
	uintptr_t sessions = 0;

	while (!load_relaxed(&over)) {
		struct driver *d;
		struct error err;

		if (driver_open(&config, &d, &err))
			continue;
		for (unsigned k = 0; k < 50; k++) {
			uint8_t frame[512];

			frame_make(frame, sizeof(frame), 2, k % 2, k);
			driver_send(d, k % 2, NULL, frame, sizeof(frame), NULL);
			driver_flush(d, DRIVER_TX(k % 2));
		}
		driver_close(d);
		sessions++;
	}
	return (void *)sessions;
}

static void ports_sessions_and_statistics_change_under_traffic(void **state)
{
	pthread_t threads[3];
	void *failed, *sessions;
	uint64_t end = clock_ns() + SECONDS * 1000000000ull;
	struct driver *a, *b;
	unsigned rounds = 0;

	rig = *state;
	a = rig_open(rig, 0, NULL);
	b = rig_open(rig, 1, NULL);
	pthread_create(&threads[0], NULL, change_ports, NULL);
	pthread_create(&threads[1], NULL, read_statistics, NULL);
	pthread_create(&threads[2], NULL, come_and_go, NULL);
	while (clock_ns() < end) {
		for (unsigned k = 0; k < 32; k++) {
			uint8_t frame[2048];
			struct driver_frame f;

			frame_make(frame, 60 + k * 40, 0, k % 3, k);
			driver_send(a, 0, NULL, frame, 60 + k * 40, NULL);
			driver_flush(a, DRIVER_TX(0));
			driver_reclaim(a, 0);
			while (driver_receive(a, 0, frame, sizeof(frame), &f) > 0)
				;
			while (driver_receive(b, 0, frame, sizeof(frame), &f) > 0)
				;
		}
		rounds++;
	}
	store_relaxed(&over, 1u);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], &failed);
	pthread_join(threads[2], &sessions);
	print_message("# %u rounds, %ju sessions\n", rounds, (uintmax_t)(uintptr_t)sessions);
	assert_int_equal((uintptr_t)failed, 0);
	assert_true((uintptr_t)sessions > 0);
	assert_null(driver_broken(a));
	assert_null(driver_broken(b));
	driver_close(a);
	driver_close(b);
	rig_assert_alive(rig);
}

/* Puts the same kick in place of itself, so that the queue goes down and up as fast as it can. */
static void *replace_kicks(void *arg)
{
	struct driver *d = arg;
	uintptr_t replaced = 0;
	struct error err;

	while (!load_relaxed(&over)) {
		if (!frontend_set_fd(&d->fe, VHOST_USER_SET_VRING_KICK, DRIVER_TX(0),
				     d->ring[DRIVER_TX(0)].kick, &err))
			replaced++;
	}
	return (void *)replaced;
}

/* A queue that comes back belongs to whoever may still be in a turn of it, and holds frames. */
static void kicks_are_replaced_while_frames_are_held(void **state)
{
	uint64_t end = clock_ns() + SECONDS * 1000000000ull / 4, received = 0, blocked = 0;
	struct rig_counters n = { 0 };
	struct driver *a, *b;
	uint8_t frame[2048];
	struct driver_frame f;
	pthread_t thread;
	void *replaced;

	rig = *state;
	over = 0;
	a = rig_open(rig, 0, NULL);
	b = rig_open(rig, 1, NULL);
	assert_passes(a, b);
	pthread_create(&thread, NULL, replace_kicks, a);
	for (unsigned k = 0; clock_ns() < end; k++) {
		frame_make(frame, 200, 0, 1, k);
		blocked += driver_send(a, 0, NULL, frame, 200, NULL) < 0;
		driver_flush(a, DRIVER_TX(0));
		driver_reclaim(a, 0);
		/* Slower than it is sent to, so that its ring is full most of the time. */
		if (k % 4 == 0 && driver_receive(b, 0, frame, sizeof(frame), &f) > 0)
			received++;
	}
	store_relaxed(&over, 1u);
	pthread_join(thread, &replaced);
	for (unsigned i = 0; i < 1000; i++) {
		while (driver_receive(b, 0, frame, sizeof(frame), &f) > 0)
			received++;
		driver_post(b, 0);
		n = rig_counters(rig, 0, 1);
		if (n.sent == n.delivered + n.dropped && n.delivered == received + 1)
			break;
		usleep(1000);
	}
	print_message("# %ju kicks, %ju sent, %ju received, %ju dropped\n",
		      (uintmax_t)(uintptr_t)replaced, (uintmax_t)n.sent, (uintmax_t)received,
		      (uintmax_t)n.dropped);
	assert_int_equal(n.sent, n.delivered + n.dropped);
	assert_int_equal(n.delivered, received + 1);
	assert_true(blocked);
	assert_true((uintptr_t)replaced > 100);
	assert_null(driver_broken(a));
	assert_null(driver_broken(b));
	driver_close(a);
	driver_close(b);
	rig_assert_alive(rig);
}

/* Frames of one queue pair of one sender: each is told from all others by its bytes. */
struct flow {
	struct driver *from;
	unsigned port, pair;
	uint32_t sent, received;
};

static void flow_frame(const struct flow *f, uint8_t *frame, uint32_t n)
{
	frame_make(frame, 60 + n % 1400, f->port, 1, n * 64 + f->port * 16 + f->pair);
}

static bool flow_send(struct flow *f)
{
	uint8_t frame[2048];

	driver_reclaim(f->from, f->pair);
	flow_frame(f, frame, f->sent);
	if (driver_send(f->from, f->pair, NULL, frame, 60 + f->sent % 1400, NULL))
		return false;
	driver_flush(f->from, DRIVER_TX(f->pair));
	f->sent++;
	return true;
}

/* It must be the next of some flow. */
static void flows_take(struct flow *flow, unsigned n, const uint8_t *got, uint32_t len)
{
	for (unsigned i = 0; i < n; i++) {
		uint8_t expected[2048];

		flow_frame(&flow[i], expected, flow[i].received);
		if (len == 60 + flow[i].received % 1400 && !memcmp(got, expected, len)) {
			flow[i].received++;
			return;
		}
	}
	fail_msg("a frame of %u bytes from port %u is the next of no flow", len, got[11] - 1u);
}

/* Two workers deliver to the same ring at the same time; each flow stays whole and in order. */
static void many_queues_send_to_one_receiver(void **state)
{
	struct driver_config four = { .pairs = 4 }, two = { .pairs = 2 };
	struct driver *a, *b, *c;
	struct flow flow[8];
	uint32_t sent = 0, received = 0;
	uint64_t progress = clock_ns();

	rig = *state;
	a = rig_open(rig, 0, &four);
	b = rig_open(rig, 1, &two);
	c = rig_open(rig, 2, &four);
	assert_passes(a, b);
	for (unsigned i = 0; i < ARRAY_SIZE(flow); i++)
		flow[i] = (struct flow){ i % 2 ? c : a, i % 2 ? 2 : 0, i / 2, 0, 0 };
	while (received < FLOW_FRAMES) {
		uint8_t got[2048];
		struct driver_frame f;

		/* No more than the receiver has buffers for, so that none is lost. */
		for (unsigned i = 0; sent < FLOW_FRAMES && sent - received < 128; i++)
			sent += flow_send(&flow[(sent + i) % ARRAY_SIZE(flow)]);
		for (unsigned pair = 0; pair < 2; pair++) {
			while (driver_receive(b, pair, got, sizeof(got), &f) > 0) {
				flows_take(flow, ARRAY_SIZE(flow), got, f.len);
				driver_post(b, pair);
				received++;
				progress = clock_ns();
			}
		}
		if (clock_ns() - progress > 10000000000ull)
			fail_msg("%u frames sent, %u received", sent, received);
	}
	assert_null(driver_broken(b));
	driver_close(a);
	driver_close(b);
	driver_close(c);
}

/* Puts the same memory in place of itself, as a table and region by region, and another beside it.
 */
static void *replace_memory(void *arg)
{
	struct driver *d = arg;
	struct vhost_user_memory_region beside = {
		.region = { .guest_phys_addr = 1ull << 45,
			    .memory_size = BESIDE,
			    .userspace_addr = 1ull << 45 },
	};
	int fd = memfd_create("beside", MFD_CLOEXEC);
	uintptr_t replaced = 0; /* and 0 if that went wrong */
	struct error err;

	if (fd < 0 || ftruncate(fd, BESIDE))
		return NULL;
	while (!load_relaxed(&over)) {
		if (frontend_set_memory(&d->fe, &d->mem, false, &err) ||
		    frontend_set(&d->fe, VHOST_USER_ADD_MEM_REG, &beside, sizeof(beside), &fd, 1,
				 &err) ||
		    frontend_set(&d->fe, VHOST_USER_REM_MEM_REG, &beside, sizeof(beside), NULL, 0,
				 &err)) {
			replaced = 0;
			break;
		}
		replaced++;
	}
	close(fd);
	return (void *)replaced;
}

/* CVE-2021-3748: guests whose memory is plugged and moved while frames go into it and out of it. */
static void memory_is_replaced_while_frames_are_copied(void **state)
{
	uint64_t end = clock_ns() + SECONDS * 1000000000ull / 4;
	struct driver_config two = { .regions = 2, .quirks = DRIVER_MEM_SLOTS };
	pthread_t threads[2];
	void *replaced[2];
	struct stream s = { .count = 1000 };

	rig = *state;
	over = 0;
	s.from = rig_open(rig, 0, &two);
	s.to = rig_open(rig, 1, &two);
	pthread_create(&threads[0], NULL, replace_memory, s.from);
	pthread_create(&threads[1], NULL, replace_memory, s.to);
	while (clock_ns() < end)
		stream_both(&s);
	store_relaxed(&over, 1u);
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(threads[i], &replaced[i]);
		print_message("# %ju times\n", (uintmax_t)(uintptr_t)replaced[i]);
		assert_true((uintptr_t)replaced[i] > 0);
	}
	stream_both(&s);
	driver_close(s.from);
	driver_close(s.to);
	rig_assert_alive(rig);
}

/* Connects, says the first `bytes` of a handshake, and leaves. */
static void break_off(unsigned bytes)
{
	static const uint8_t start[] = { 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0,
					 0, 3, 0, 0, 0, 1, 0, 0, 0, 0 };
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", rig->socket[0]);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	if (bytes)
		assert_int_equal(send(fd, start, bytes, MSG_NOSIGNAL), bytes);
	close(fd);
}

/* The same with memory, features and the first of its rings told. */
static void break_off_late(unsigned rings)
{
	struct driver_config config = { .quirks = DRIVER_RINGS_LATER };
	struct driver *d = rig_open(rig, 0, &config);
	struct error err;

	for (unsigned i = 0; i < rings; i++)
		assert_int_equal(driver_ring_start(d, i, ring_base(d->ring), &err), 0);
	if (rings)
		assert_int_equal(driver_ring_enable(d, 0, true, &err), 0);
	driver_close(d);
}

static void a_thousand_handshakes_leave_nothing_behind(void **state)
{
	unsigned fds = 0, resident = 0;

	rig = *state;
	for (unsigned i = 0; i < HANDSHAKES; i++) {
		if (i % 4 == 1)
			break_off(i / 4 % 21);
		else if (i % 4 == 3)
			break_off_late(i / 4 % 3);
		else
			driver_close(rig_open(rig, 0, NULL));
		if (i == HANDSHAKES / 5) {
			rig_wait_state(rig, 0, "waiting");
			usleep(100000);
			fds = rig_open_fds(rig);
			resident = rig_resident(rig);
		}
	}
	rig_wait_state(rig, 0, "waiting");
	usleep(100000); /* descriptors are closed after a grace period */
	print_message("# %u descriptors, then %u; %u kB, then %u\n", fds, rig_open_fds(rig),
		      resident, rig_resident(rig));
	assert_in_range(rig_open_fds(rig), 0, fds + 2);
	assert_int_equal(rig_mappings(rig, "memfd:ringway-driver"), 0);
	assert_in_range(rig_resident(rig), 0, resident + RESIDENT_KB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ports_sessions_and_statistics_change_under_traffic,
						rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(kicks_are_replaced_while_frames_are_held, rig_setup,
						rig_teardown),
		cmocka_unit_test_setup_teardown(many_queues_send_to_one_receiver, rig_setup,
						rig_teardown),
		cmocka_unit_test_setup_teardown(memory_is_replaced_while_frames_are_copied,
						rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(a_thousand_handshakes_leave_nothing_behind,
						rig_setup, rig_teardown),
	};

	setenv("RINGWAY_WORKERS", "2", 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
