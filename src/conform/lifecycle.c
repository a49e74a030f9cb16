// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "conform/cases.h"

/* Published and kicked, with nobody to wait for. */
static void send_some(struct kit *k, struct driver *d, unsigned n)
{
	uint8_t frame[60];

	for (unsigned i = 0; i < n; i++) {
		kit_frame(k, frame, sizeof(frame), 0, 1);
		driver_send(d, 0, NULL, frame, sizeof(frame), NULL);
	}
	ring_publish(&d->ring[DRIVER_TX(0)]);
	ring_kick(&d->ring[DRIVER_TX(0)]);
}

static int stop(struct kit *k, struct driver *d, unsigned index, uint32_t *ret_base)
{
	struct error err;

	return driver_ring_stop(d, index, ret_base, &err) ? kit_fail(k, "%s", err.text) : 0;
}

static int start(struct kit *k, struct driver *d, unsigned index, uint32_t base)
{
	struct error err;

	if (driver_ring_start(d, index, base, &err) || driver_ring_enable(d, index, true, &err))
		return kit_fail(k, "%s", err.text);
	return CONFORM_PASSED;
}

/* "Ring states": a stopped ring is not processed at all. */
/* Clauses: ring-states-a, ring-states-f */
int case_base_stops(struct kit *k)
{
	struct driver *d;
	struct driver_ring *tx;
	uint16_t used;
	uint32_t base;
	int rc = kit_open(k, 0, NULL, &d);

	if (!rc)
		rc = kit_pump(k, d, 0, 20);
	if (!rc)
		rc = stop(k, d, DRIVER_TX(0), &base);
	if (rc)
		return rc;
	tx = &d->ring[DRIVER_TX(0)];
	used = ring_used(tx, NULL);
	send_some(k, d, 20);
	usleep(KIT_QUIET_MS * 1000);
	if (ring_used(tx, NULL) != used)
		return kit_fail(k, "a stopped ring was processed");
	return CONFORM_PASSED;
}

/* Clauses: vring-base-c */
int case_base_value(struct kit *k)
{
	uint32_t base, expected;
	struct driver *d;
	int rc = kit_open(k, 0, NULL, &d);

	if (!rc)
		rc = kit_pump(k, d, 0, 300); /* once around */
	for (unsigned index = 0; index < 2 && !rc; index++) {
		rc = stop(k, d, index, &base);
		ring_used(&d->ring[index], &expected);
		if (!rc && base != expected)
			return kit_fail(k, "ring %u: base %#x, but %#x was consumed", index, base,
					expected);
	}
	return rc;
}

/* Stopped in the midst of it, all is done afterwards, and nothing twice. */
/* Clauses: vring-base-a, vring-base-b */
int case_base_resume(struct kit *k)
{
	struct driver *d;
	int rc = kit_open(k, 0, NULL, &d);

	for (unsigned round = 0; round < 10 && !rc; round++) {
		uint32_t base;

		send_some(k, d, 100);
		rc = stop(k, d, DRIVER_TX(0), &base);
		send_some(k, d, 100);
		if (!rc)
			rc = start(k, d, DRIVER_TX(0), base);
		if (!rc)
			ring_kick(&d->ring[DRIVER_TX(0)]);
		if (!rc)
			rc = kit_drain(k, d, DRIVER_TX(0));
	}
	return rc;
}

/* As if the guest had come from elsewhere: the ring is where it was there. Returns its base. */
static uint32_t move_ring(struct driver_ring *r, uint16_t to)
{
	if (!r->packed) {
		r->avail_next = r->published = r->kicked_at = r->used_next = to;
		r->avail->idx = r->used->idx = to;
		return to;
	}
	r->add = r->take = (struct driver_place){ .slot = to % r->size, .wrap = 0 };
	for (unsigned i = 0; i < r->size; i++) /* used in the round before, with the other wrap */
		r->packed_desc[i].flags = i < r->add.slot ? 0 : 0x8080;
	return (uint32_t)(to % r->size) * 0x10001u;
}

/* Clauses: vring-base-a, vring-base-b */
int case_base_any(struct kit *k)
{
	static const uint16_t starts[] = { 1, 255, 256, 32768, 65500, 65535 };
	const struct driver_config c = { .quirks = DRIVER_RINGS_LATER | DRIVER_NO_RX_BUFFERS };
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < ARRAY_SIZE(starts) && !rc; i++) {
		struct driver *d;

		rc = kit_open(k, 0, &c, &d);
		for (unsigned index = 0; index < 2 && !rc; index++)
			rc = start(k, d, index, move_ring(&d->ring[index], starts[i]));
		if (!rc)
			rc = kit_pump(k, d, 0, 1000);
		kit_hang_up(k);
	}
	return rc;
}

int case_kick_before_enable(struct kit *k)
{
	const struct driver_config c = { .quirks = DRIVER_RINGS_LATER };
	struct driver *d;
	struct error err;
	int rc = kit_open(k, 0, &c, &d);

	for (unsigned index = 0; index < 2 && !rc; index++) {
		if (driver_ring_start(d, index, ring_base(&d->ring[index]), &err))
			rc = kit_fail(k, "%s", err.text);
	}
	if (rc)
		return rc;
	send_some(k, d, 10);
	usleep(KIT_QUIET_MS * 1000);
	for (unsigned index = 0; index < 2 && !rc; index++) {
		if (driver_ring_enable(d, index, true, &err))
			rc = kit_fail(k, "%s", err.text);
	}
	return rc ? rc : kit_drain(k, d, DRIVER_TX(0)); /* no other kick comes */
}

/* Clauses: vring-kick-a */
int case_no_kick_fd(struct kit *k)
{
	const struct driver_config c = { .quirks = DRIVER_NO_KICK_FD };
	struct driver *d;
	int rc = kit_open(k, 0, &c, &d);

	return rc ? rc : kit_pump(k, d, 0, 500);
}

/* Clauses: vring-call-a */
int case_no_call_fd(struct kit *k)
{
	const struct driver_config c = { .quirks = DRIVER_NO_CALL_FD };
	struct driver *d;
	int rc = kit_open(k, 0, &c, &d);

	return rc ? rc : kit_pump(k, d, 0, 500);
}

/* From then on calls come there, and what came meanwhile was not lost. */
/* Clauses: ring-states-i */
int case_call_replaced(struct kit *k)
{
	struct driver *d;
	struct error err;
	int rc = kit_open(k, 0, NULL, &d);

	for (unsigned i = 0; i < 5 && !rc; i++) {
		struct driver_ring *tx = &d->ring[DRIVER_TX(0)];
		struct pollfd p = { .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
				    .events = POLLIN };

		kit_keep(k, p.fd);
		if (frontend_set_fd(&d->fe, VHOST_USER_SET_VRING_CALL, DRIVER_TX(0), p.fd, &err))
			return kit_fail(k, "%s", err.text);
		ring_calls_on(tx);
		send_some(k, d, 1);
		if (poll(&p, 1, k->config->timeout_ms) != 1)
			return kit_fail(k, "no call at the new descriptor");
		rc = kit_drain(k, d, DRIVER_TX(0));
	}
	return rc;
}

/* Memory is plugged while rings run: the table that is said anew holds the old as well. */
/* Clauses: ring-states-i */
int case_memory_again(struct kit *k)
{
	struct driver *d;
	struct error err;
	int rc = kit_open(k, 0, NULL, &d);

	for (unsigned i = 0; i < 5 && !rc; i++) {
		rc = kit_pump(k, d, 0, 100);
		if (!rc && frontend_set_memory(&d->fe, &d->mem, false, &err))
			return kit_fail(k, "%s", err.text);
		send_some(k, d, 10);
		if (!rc)
			rc = kit_drain(k, d, DRIVER_TX(0));
	}
	return rc;
}

/* Frames are sent, of which none may arrive. */
static int send_while_disabled(struct kit *k, struct kit_traffic *t, struct driver *d,
			       unsigned ring)
{
	static uint8_t got[KIT_FRAME_ROOM];
	struct driver_frame f;
	struct error err;
	int rc;

	if (driver_ring_enable(d, ring, false, &err))
		return kit_fail(k, "%s", err.text);
	while (kit_receive(k, t, got, &f, KIT_QUIET_MS) == 1)
		;
	send_some(k, t->from, 20);
	rc = kit_receive(k, t, got, &f, KIT_QUIET_MS);
	if (rc)
		return rc < 0 ? -rc : kit_fail(k, "a frame came though ring %u is disabled", ring);
	return 0;
}

/* "Ring states": tx buffers of a disabled ring are processed and discarded. */
/* Clauses: ring-states-d */
int case_tx_disabled(struct kit *k)
{
	struct kit_traffic t;
	struct error err;
	int rc = kit_open_both(k, NULL, NULL, &t);

	if (rc)
		return rc;
	rc = send_while_disabled(k, &t, t.from, DRIVER_TX(0));
	if (rc)
		return rc;
	rc = kit_drain(k, t.from, DRIVER_TX(0));
	if (rc)
		return rc;
	if (driver_ring_enable(t.from, DRIVER_TX(0), true, &err))
		return kit_fail(k, "%s", err.text);
	return kit_traffic(k, &t);
}

/* Clauses: ring-states-c */
int case_rx_disabled(struct kit *k)
{
	struct kit_traffic t;
	struct error err;
	int rc = kit_open_both(k, NULL, NULL, &t);

	if (rc)
		return rc;
	rc = send_while_disabled(k, &t, t.to, DRIVER_RX(0));
	if (rc)
		return rc;
	if (driver_ring_enable(t.to, DRIVER_RX(0), true, &err))
		return kit_fail(k, "%s", err.text);
	driver_reclaim(t.from, 0);
	return kit_traffic(k, &t);
}

/* Clauses: 5.1.2a, queues-a */
/* Features: mq */
int case_queues(struct kit *k)
{
	const struct driver_config c = { .pairs = 2 };
	struct driver *d;
	int rc;

	if (k->pairs < c.pairs)
		return kit_lack(k, "one queue pair");
	rc = kit_open(k, 0, &c, &d);
	for (unsigned pair = 0; pair < c.pairs && !rc; pair++)
		rc = kit_pump(k, d, pair, 500);
	return rc;
}
