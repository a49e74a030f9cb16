// SPDX-License-Identifier: Apache-2.0
/*
 * A guest at port 2 makes up a million chains, headers, indexes and event fields (a sample of them
 * unless RINGWAY_TEST_FULL is set), in a thread of its own. Traffic between ports 0 and 1 loses
 * nothing and waits for nothing; each chain comes back, and is counted once, under its name.
 */
#include "storm.h"
#include "watch.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

#define CHAINS	     1000000u
#define SAMPLE_MS    3000
#define ROUNDS	     4
#define RETURN_MS    10000
#define SETTLE_TRIES 1000 /* of 10 ms */

/* Well-formed frames of the guest's that had nowhere to go are no malformed ones. */
static const char *const no_refusals[] = { "same_port", "no_destination" };

/* Those of the packed format, and what there is in the split one besides. */
static const char *const refusals[] = { "chain_direction", "chain_indirect", "chain_pieces",
					"memory",	   "header_short",   "header_bad",
					"frame_short",	   "frame_long",     "chain_head",
					"chain_loop",	   "chain_next" };
#define SPLIT_ONLY 3

struct attack {
	struct storm tx, rx;
	struct effort effort;
	uint32_t over; /* atomic */
};

/* Waits until all is back, and changes it meanwhile. */
static bool wait_back(struct storm *s, bool scribble)
{
	uint64_t end = clock_ns() + RETURN_MS * 1000000ull;

	while (s->n) {
		if (scribble)
			storm_scribble(s);
		else
			sched_yield();
		if (!storm_take(s))
			return false;
		if (clock_ns() > end) {
			snprintf(s->fault, sizeof(s->fault), "%u chains do not come back", s->n);
			return false;
		}
	}
	return true;
}

static void *storm(void *arg)
{
	struct attack *a = arg;

	for (unsigned i = 0; effort_goes_on(&a->effort); i++) {
		uint64_t before = a->tx.offered;

		storm_post(&a->tx);
		storm_post(&a->rx);
		if (!wait_back(&a->tx, i % 8 == 0) || !storm_take(&a->rx))
			break;
		if (i % 8 == 0)
			storm_scribble(&a->rx);
		a->effort.left -= MIN(a->effort.left, a->tx.offered - before);
	}
	store_release(&a->over, 1u);
	return NULL;
}

/* Frames for the attacker, by a queue of their own, which may have to wait for it. */
static unsigned feed(struct driver *d)
{
	uint8_t frame[1514];
	unsigned n = 0;

	driver_reclaim(d, 1);
	for (; n < 8 && ring_room(&d->ring[DRIVER_TX(1)]); n++) {
		uint32_t len = n ? 60 + 20 * n : sizeof(frame);

		frame_make(frame, len, 0, 1, n);
		memset(frame, STORM_BYTE, 6);
		assert_int_equal(driver_send(d, 1, NULL, frame, len, NULL), 0);
	}
	driver_flush(d, DRIVER_TX(1));
	return n;
}

static uint64_t refused(struct rig *rig)
{
	uint64_t n = rig_counters(rig, 2, 0).dropped;

	for (unsigned i = 0; i < ARRAY_SIZE(no_refusals); i++)
		n -= rig_dropped(rig, 2, no_refusals[i]);
	return n;
}

static uint64_t counted(struct rig *rig)
{
	return rig_counters(rig, 2, 0).sent + refused(rig);
}

/* An index or a chain that makes no sense at all breaks that ring; the next session mends it. */
static void break_ring(struct rig *rig, struct storm *s, struct watch *w)
{
	if (s->r->packed) {
		/* The first one last: a worker that polls may be looking. */
		for (unsigned i = STORM_RING; i--;)
			store_release(&s->r->packed_desc[(s->r->add.slot + i) % STORM_RING].flags,
				      (uint16_t)(VRING_DESC_F_NEXT |
						 packed_flags_available(&s->r->add)));
	} else {
		store_release(&s->r->avail->idx, (uint16_t)(s->avail + STORM_RING + 1 + s->n));
	}
	ring_kick(s->r);
	for (unsigned i = 0; i < 100; i++)
		watch_turn(w);
	rig_wait_state(rig, 2, "broken");
}

static struct driver *open_attacker(struct rig *rig, bool packed)
{
	struct driver_config config = {
		.ring_size = STORM_RING,
		.extra = STORM_EXTRA,
		.quirks = DRIVER_NO_RX_BUFFERS,
		.features = driver_features_default() | BIT(VIRTIO_NET_F_CSUM) |
			    BIT(VIRTIO_NET_F_HOST_TSO4) | BIT(VIRTIO_NET_F_HOST_TSO6) |
			    BIT(VIRTIO_NET_F_HOST_ECN) | (packed ? BIT(VIRTIO_F_RING_PACKED) : 0)
	};

	return rig_open(rig, 2, &config);
}

/* Its address is known from now on: nothing that is for it is flooded. */
static void learn_address(struct driver *d)
{
	uint8_t frame[60];

	memset(frame, STORM_BYTE, sizeof(frame));
	assert_int_equal(driver_send(d, 0, NULL, frame, sizeof(frame), NULL), 0);
	driver_flush(d, DRIVER_TX(0));
	assert_true(script_wait_idle(&d->ring[DRIVER_TX(0)], 1000));
	driver_reclaim(d, 0);
}

/* One session of the attacker's; returns how many frames were sent to it. */
static uint64_t attack_once(struct rig *rig, struct watch *w, bool packed, unsigned round)
{
	struct attack a = { .over = 0 };
	struct driver *d = open_attacker(rig, packed);
	uint64_t before, fed = 0;
	pthread_t thread;

	learn_address(d);
	storm_begin(&a.tx, d, DRIVER_TX(0), round + 1);
	storm_begin(&a.rx, d, DRIVER_RX(0), round + 101);
	a.effort = effort_of(CHAINS / ROUNDS, SAMPLE_MS / ROUNDS);
	before = counted(rig);
	assert_int_equal(pthread_create(&thread, NULL, storm, &a), 0);
	while (!load_acquire(&a.over)) {
		watch_turn(w);
		fed += feed(w->d[0]);
	}
	pthread_join(thread, NULL);
	if (*a.tx.fault || *a.rx.fault)
		fail_msg("round %u: %s%s", round, a.tx.fault, a.rx.fault);
	print_message("# %llu chains\n", (unsigned long long)a.tx.offered);
	watch_settle(w);
	assert_int_equal(counted(rig) - before, a.tx.offered);
	break_ring(rig, &a.tx, w);
	driver_close(d);
	rig_wait_state(rig, 2, "waiting");
	return fed;
}

static void storm_of(struct rig *rig, bool packed)
{
	struct driver_config two = { .pairs = 2 };
	struct rig_counters c = { .sent = 0 };
	struct watch w;
	uint64_t fed = 0;

	watch_begin(&w, rig, &two);
	for (unsigned round = 0; round < ROUNDS; round++)
		fed += attack_once(rig, &w, packed, round);
	for (unsigned i = 0; i < ARRAY_SIZE(refusals) - (packed ? SPLIT_ONLY : 0); i++) {
		if (!rig_dropped(rig, 2, refusals[i]))
			fail_msg("nothing was refused as %s", refusals[i]);
	}
	/* What was for the attacker is delivered, or dropped at its port. */
	assert_true(rig_dropped(rig, 2, "rx_chain"));
	for (unsigned i = 0; i < SETTLE_TRIES; i++) {
		c = rig_counters(rig, 0, 2);
		if (c.delivered + c.dropped == fed)
			break;
		usleep(10000);
	}
	assert_int_equal(c.delivered + c.dropped, fed);
	watch_end(&w);
}

static void a_million_split_chains_cost_their_guest_alone(void **state)
{
	storm_of(*state, false);
}

static void a_million_packed_chains_cost_their_guest_alone(void **state)
{
	storm_of(*state, true);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_million_split_chains_cost_their_guest_alone),
		CASE(a_million_packed_chains_cost_their_guest_alone),
	};

	return cmocka_run_group_tests_name("storm", tests, NULL, NULL);
}
