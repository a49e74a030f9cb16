// SPDX-License-Identifier: Apache-2.0
/*
 * A greedy guest, one that says little, and one that listens to both: turns are limited in frames
 * and in bytes, and a queue that sleeps is looked at in between. Counted is not time but what the
 * greedy one gets through while the other one waits, in full turns.
 */
#include "harness.h"

#include <string.h>

#include "frame/batch.h"

#define ROUNDS 200
#define LOOKS  16 /* turns of the greedy one until its worker looks at a queue that sleeps */
#define TURNS  (10 * LOOKS) /* that it may get through, then: ten times as many */

enum { MODEST, LISTENER, GREEDY };

struct sums {
	uint64_t frames, bytes;
};

static unsigned turns(const struct sums *s)
{
	return (unsigned)MAX(s->frames / BATCH_FRAMES, s->bytes / BATCH_BYTES);
}

/* As much as there is room for; one that is lost is sent again, with the next. */
static void send(struct driver *d, unsigned from, uint32_t len, unsigned n)
{
	static uint8_t frame[FRAME_ROOM];

	frame_make(frame, len, from, LISTENER, 0);
	driver_reclaim(d, 0);
	while (n-- && !driver_send(d, 0, NULL, frame, len, NULL))
		;
	driver_flush(d, DRIVER_TX(0));
}

/* Takes what is there; true if some of it is the modest one's. */
static bool listen_once(struct driver *d, struct sums *heard)
{
	static uint8_t frame[FRAME_ROOM];
	struct driver_frame f;
	bool modest = false;
	int rc;

	while ((rc = driver_receive(d, 0, frame, sizeof(frame), &f)) > 0) {
		if (frame[11] == GREEDY + 1) {
			heard->frames++;
			heard->bytes += f.len;
		} else {
			modest = true;
		}
	}
	assert_int_equal(rc, 0);
	driver_post(d, 0);
	return modest;
}

static void modest_beside_greedy(struct rig *rig, uint32_t len)
{
	struct driver_config large = { .tx_buffer = len + 64 };
	struct driver *modest = rig_open(rig, MODEST, NULL);
	struct driver *listener = rig_open(rig, LISTENER, NULL);
	struct driver *greedy = rig_open(rig, GREEDY, &large);
	unsigned most = 0;

	send_one(listener, LISTENER, LISTENER, 60, 0); /* known from here on */
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct sums heard = { 0 };

		/* It sleeps when its turn comes: the greedy one has the worker to itself before. */
		for (unsigned k = 0; k < 20; k++) {
			send(greedy, GREEDY, len, 256);
			listen_once(listener, &(struct sums){ 0 });
		}
		do {
			send(modest, MODEST, 60, 1);
			send(greedy, GREEDY, len, 256);
			most = MAX(most, turns(&heard));
			assert_in_range(turns(&heard), 0, TURNS);
		} while (!listen_once(listener, &heard));
	}
	print_message("# at most %u turns of %u bytes' frames while a frame of the other waited\n",
		      most, len);
	driver_close(modest);
	driver_close(listener);
	driver_close(greedy);
}

static void many_frames_do_not_starve_another_guest(void **state)
{
	modest_beside_greedy(*state, 60);
}

static void long_frames_do_not_starve_another_guest(void **state)
{
	modest_beside_greedy(*state, 60000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(many_frames_do_not_starve_another_guest, rig_setup,
						rig_teardown),
		cmocka_unit_test_setup_teardown(long_frames_do_not_starve_another_guest, rig_setup,
						rig_teardown),
	};

	return rig_run("fair", tests, ARRAY_SIZE(tests), 0);
}
