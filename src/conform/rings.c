// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "conform/cases.h"

#define IN_ORDER_CHAINS 16u
#define NEVER_WRITTEN	0xabababab

/* Past 65536, so that every index has come around. */
/* Clauses: 2.7.6a, 2.8.1a */
int case_wrap(struct kit *k)
{
	const struct driver_config c = { .ring_size = 128 };
	struct driver *d;
	int rc = kit_open(k, 0, &c, &d);

	return rc ? rc : kit_pump(k, d, 0, 70000);
}

/* Made available all at once: as many as there are places. */
int case_full(struct kit *k)
{
	static const unsigned sizes[] = { 8, 64, 256 };
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < ARRAY_SIZE(sizes) && !rc; i++) {
		const struct driver_config c = { .ring_size = sizes[i] };
		struct driver *d;

		rc = kit_open(k, 0, &c, &d);
		for (unsigned round = 0; round < 50 && !rc; round++)
			rc = kit_pump(k, d, 0, sizes[i]);
		kit_hang_up(k);
	}
	return rc;
}

static int pump_sizes(struct kit *k, const unsigned *sizes, unsigned n)
{
	static char doing[32];
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < n && !rc; i++) {
		struct driver_config c = { .ring_size = sizes[i] };
		struct driver *d;

		snprintf(doing, sizeof(doing), "ring of %u", sizes[i]);
		k->doing = doing;
		/* A table for each descriptor would be gigabytes. */
		c.features = driver_features_default() & ~BIT(VIRTIO_RING_F_INDIRECT_DESC);
		rc = kit_open(k, 0, &c, &d);
		if (!rc)
			rc = kit_pump(k, d, 0, MIN(3 * sizes[i] + 1, 20000u));
		kit_hang_up(k);
	}
	return rc;
}

/* 2.7, 2.8: up to 32768. */
/* Clauses: 2.7a, 2.8a */
int case_sizes(struct kit *k)
{
	static const unsigned sizes[] = { 2, 16, 1024, 4096, 32768 };

	return pump_sizes(k, sizes, ARRAY_SIZE(sizes));
}

/* 2.8: a packed ring's size is no power of two, necessarily. */
/* Clauses: 2.8a */
int case_odd_sizes(struct kit *k)
{
	static const unsigned sizes[] = { 3, 7, 100, 255, 1000 };

	return pump_sizes(k, sizes, ARRAY_SIZE(sizes));
}

/* 2.7.9, 2.8.8: a batch may be told by its last buffer alone, where its first one was. */
static int check_order(struct kit *k, const struct driver_ring *r, const uint16_t *order)
{
	unsigned at = 0;

	while (at < IN_ORDER_CHAINS) {
		const struct vring_packed_desc *d = &r->packed_desc[at];
		uint32_t id = r->packed ? d->id : r->used->ring[at].id;
		unsigned next = at;

		if (r->packed && d->flags >> VRING_PACKED_DESC_F_USED != 1)
			return kit_fail(k, "slot %u is not used, but a later one may be", at);
		while (next < IN_ORDER_CHAINS && order[next] != id)
			next++;
		if (next == IN_ORDER_CHAINS)
			return kit_fail(k, "used entry %u has id %#x, which was before or never",
					at, id);
		at = next + 1;
	}
	return CONFORM_PASSED;
}

/* The last chain's end, in whichever way it is told. */
static bool all_used(const struct driver_ring *r, const uint16_t *order)
{
	if (!r->packed)
		return load_acquire(&r->used->idx) == IN_ORDER_CHAINS;
	for (unsigned i = 0; i < IN_ORDER_CHAINS; i++) {
		if (load_acquire(&r->packed_desc[i].flags) >> VRING_PACKED_DESC_F_USED == 1 &&
		    r->packed_desc[i].id == order[IN_ORDER_CHAINS - 1])
			return true;
	}
	return false;
}

/* Clauses: 2.7.9a, 2.8.8a, 6.2c */
/* Features: in_order */
int case_in_order(struct kit *k)
{
	struct driver_config c = { .features = driver_features_default() | BIT(VIRTIO_F_IN_ORDER) };
	uint64_t end;
	uint16_t order[IN_ORDER_CHAINS];
	struct driver_ring *tx;
	struct driver *d;
	int rc = kit_open(k, 0, &c, &d);

	if (rc)
		return rc;
	tx = &d->ring[DRIVER_TX(0)];
	for (unsigned i = 0; i < IN_ORDER_CHAINS; i++) {
		uint8_t frame[60];

		if (!tx->packed)
			tx->used->ring[i].id = NEVER_WRITTEN;
		order[i] = tx->free[tx->free_first & tx->mask];
		kit_frame(k, frame, sizeof(frame), 0, 1);
		driver_send(d, 0, NULL, frame, sizeof(frame), NULL);
	}
	ring_publish(tx);
	ring_kick(tx);
	end = clock_ns() + (uint64_t)k->config->timeout_ms * 1000000;
	while (!all_used(tx, order)) {
		if (clock_ns() > end)
			return kit_fail(k, "%u buffers were not used", IN_ORDER_CHAINS);
		usleep(100);
	}
	return check_order(k, tx, order);
}

static int send_one(struct kit *k, struct driver *d)
{
	uint8_t frame[60];

	kit_frame(k, frame, sizeof(frame), 0, 1);
	if (driver_send(d, 0, NULL, frame, sizeof(frame), NULL))
		return kit_fail(k, "no room in the ring");
	ring_publish(&d->ring[DRIVER_TX(0)]);
	ring_kick(&d->ring[DRIVER_TX(0)]);
	return CONFORM_PASSED;
}

/* True if a call comes within the time; it is taken. */
static bool called(const struct driver_ring *r, int timeout_ms)
{
	struct pollfd p = { .fd = r->call, .events = POLLIN };
	uint64_t n;

	return poll(&p, 1, timeout_ms) == 1 && read(r->call, &n, sizeof(n)) == sizeof(n);
}

/* 2.7.7.2, 2.8.22: who asks to be called is. */
/* Clauses: 2.7.7.2e, 2.8.10b */
int case_calls_wanted(struct kit *k)
{
	struct driver *d;
	int rc = kit_open(k, 0, NULL, &d);

	for (unsigned i = 0; i < 50 && !rc; i++) {
		struct driver_ring *tx = &d->ring[DRIVER_TX(0)];

		ring_calls_on(tx);
		rc = send_one(k, d);
		if (!rc && !called(tx, k->config->timeout_ms))
			return kit_fail(k, "no call for buffer %u", i + 1);
		if (!rc)
			rc = kit_drain(k, d, DRIVER_TX(0));
	}
	return rc;
}

/* The same clause: who asks not to be called should not be. */
/* Clauses: 2.7.7.2b, 2.8.10a */
int case_calls_unwanted(struct kit *k)
{
	struct driver_config c = { .features = driver_features_default() &
					       ~BIT(VIRTIO_RING_F_EVENT_IDX) };
	unsigned calls = 0;
	struct driver *d;
	int rc = kit_open_running(k, &c, &d); /* a first call may be owed from before */

	if (rc)
		return rc;
	called(&d->ring[DRIVER_TX(0)], KIT_QUIET_MS);
	ring_calls_off(&d->ring[DRIVER_TX(0)]);
	for (unsigned i = 0; i < 20 && !rc; i++) {
		rc = send_one(k, d);
		if (!rc)
			rc = kit_drain(k, d, DRIVER_TX(0));
		calls += called(&d->ring[DRIVER_TX(0)], 5);
	}
	return !rc && calls > 1 ? kit_fail(k, "%u calls for 20 buffers", calls) : rc;
}

static void call_at_the_fifth(struct driver_ring *tx)
{
	ring_calls_off(tx);
	called(tx, KIT_QUIET_MS);
	if (tx->packed) {
		tx->driver_event->off_wrap = (uint16_t)((tx->take.slot + 4) | 1u << 15);
		store_release(&tx->driver_event->flags, (uint16_t)VRING_PACKED_EVENT_FLAG_DESC);
	} else {
		store_release(tx->used_event, (uint16_t)(tx->used_next + 4));
	}
}

/* 2.7.7.2, 2.8.10: a call at the fifth buffer, not before, and it does come. */
/* Clauses: 2.7.7.2e, 2.7.7.2f, 2.8.10b */
/* Features: event_idx */
int case_calls_by_index(struct kit *k)
{
	bool again = true; /* what was owed from the start may come late, where CPUs are busy */
	struct driver_ring *tx;
	struct driver *d;
	int rc = kit_open_running(k, NULL, &d);

	if (rc)
		return rc;
	tx = &d->ring[DRIVER_TX(0)];
	call_at_the_fifth(tx);
	for (unsigned i = 0; i < 5 && !rc; i++) {
		if (i && called(tx, 10)) {
			if (!again)
				return kit_fail(k, "a call at buffer %u, but the 5th was asked for",
						i);
			again = false;
			call_at_the_fifth(tx);
			i = 0;
		}
		rc = send_one(k, d);
		if (!rc)
			rc = kit_drain(k, d, DRIVER_TX(0));
	}
	if (!rc && !called(tx, k->config->timeout_ms))
		return kit_fail(k, "no call for the 5th buffer, which was asked for");
	return rc;
}

/* 2.7.10.2, 2.8.14: who kicks only when it is asked to is never forgotten. */
/* Clauses: 2.7.10.2d, 2.8.21a */
int case_kicks_as_asked(struct kit *k)
{
	const struct driver_config c = { .kicks = DRIVER_KICK_AS_ASKED };
	struct driver *d;
	int rc = kit_open(k, 0, &c, &d);

	for (unsigned i = 0; i < 300 && !rc; i++) {
		rc = kit_pump(k, d, 0, 1 + i % 3);
		/* Time to fall asleep, now and then. */
		usleep(i % 10 ? i % 7 * 100 : 20000);
	}
	return rc;
}
