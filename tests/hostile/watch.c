// SPDX-License-Identifier: Apache-2.0
#include "watch.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define WINDOW	 64
#define BURST	 16
#define STALL_MS 3000 /* a worker that hangs in a call is noticed in much less */

static uint32_t length_of(uint32_t seed)
{
	return 60 + seed * 2654435761u % 1455;
}

void watch_begin(struct watch *w, struct rig *rig, const struct driver_config *config)
{
	memset(w, 0, sizeof(*w));
	w->rig = rig;
	w->d[0] = rig_open(rig, 0, config);
	w->d[1] = rig_open(rig, 1, NULL);
	assert_passes(w->d[0], w->d[1]); /* addresses are learned */
	w->moved_at = clock_ns();
}

static void send_some(struct watch *w, unsigned from)
{
	struct driver_ring *tx = &w->d[from]->ring[DRIVER_TX(0)];
	uint8_t frame[1514];

	driver_reclaim(w->d[from], 0);
	for (unsigned i = 0; i < BURST && w->sent[from] - w->got[from] < WINDOW; i++) {
		uint32_t seed = w->sent[from];

		if (!ring_room(tx))
			break;
		frame_make(frame, length_of(seed), from, !from, seed);
		assert_int_equal(driver_send(w->d[from], 0, NULL, frame, length_of(seed), NULL), 0);
		w->sent[from]++;
	}
	driver_flush(w->d[from], DRIVER_TX(0));
}

/* True: some came. */
static bool receive_some(struct watch *w, unsigned to)
{
	const unsigned before = w->got[!to];
	uint8_t got[2048], expected[1514];
	struct driver_frame f;
	int rc;

	for (unsigned pair = 0; pair < w->d[to]->config.pairs; pair++) {
		while ((rc = driver_receive(w->d[to], pair, got, sizeof(got), &f)) == 1) {
			uint32_t seed = w->got[!to];

			frame_make(expected, length_of(seed), !to, to, seed);
			/* From whoever is at port 2, who may send to everybody. */
			if (memcmp(got, expected, FRAME_MIN) != 0) {
				w->foreign++;
				continue;
			}
			w->got[!to]++;
			if (f.len != length_of(seed) || memcmp(got, expected, f.len) != 0)
				fail_msg("port %u: something else than frame %u came, %u bytes", to,
					 seed, f.len);
		}
		if (rc < 0)
			fail_msg("port %u: the switch %s", to, driver_broken(w->d[to]));
		driver_post(w->d[to], pair);
	}
	return w->got[!to] != before;
}

void watch_turn(struct watch *w)
{
	bool moved = false;
	uint64_t now;

	for (unsigned i = 0; i < 2; i++) {
		send_some(w, i);
		moved |= receive_some(w, !i);
	}
	now = clock_ns();
	w->worst_ns = MAX(w->worst_ns, now - w->moved_at);
	if (w->worst_ns > STALL_MS * 1000000ull)
		fail_msg("nothing came for %u ms: frame %u to port 1, %u to port 0", STALL_MS,
			 w->got[0], w->got[1]);
	if (moved)
		w->moved_at = now;
	else
		sched_yield();
}

static unsigned dropped(struct watch *w, unsigned from)
{
	return (unsigned)(rig_counters(w->rig, from, !from).dropped);
}

void watch_settle(struct watch *w)
{
	unsigned sent[2] = { w->sent[0], w->sent[1] };

	while ((int)(w->got[0] - sent[0]) < 0 || (int)(w->got[1] - sent[1]) < 0)
		watch_turn(w);
	assert_int_equal(dropped(w, 0) + dropped(w, 1), 0);
}

void watch_end(struct watch *w)
{
	watch_settle(w);
	print_message("# %u frames passed, never more than %.1f ms without one; %u of others\n",
		      w->got[0] + w->got[1], (double)w->worst_ns / 1e6, w->foreign);
	driver_close(w->d[0]);
	driver_close(w->d[1]);
}

struct effort effort_of(uint64_t full, unsigned sample_ms)
{
	bool all = getenv("RINGWAY_TEST_FULL");

	return (struct effort){ .end = all ? UINT64_MAX : clock_ns() + sample_ms * 1000000ull,
				.left = all ? full : UINT64_MAX };
}

bool effort_goes_on(const struct effort *e)
{
	return e->left && clock_ns() < e->end;
}
