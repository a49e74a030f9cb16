// SPDX-License-Identifier: Apache-2.0
/*
 * Three guests, A, B and C, at the sockets named on the command line, in one thread: what does C do
 * to the frames between A and B? For bench/full.py.
 *
 * A keeps a window of frames under way to B, which takes them at once. Meanwhile C
 *
 *   ready   is sent one frame for every eight to B, and takes it at once
 *   stuck   is sent the same, and takes none
 *   slow    is sent the same, and takes one every so many microseconds
 *   greedy  sends to B too, as much as its ring has room for
 *   crowd   does the same, and is "ready"; so A sends to several
 *   large   sends frames of 9000 bytes to A, as many as its ring has room for
 *
 * Frames that have not arrived for a while are given up, and made good by new ones. Beside a C that
 * sends to B as well, A keeps no window, but sends at a modest rate: what matters there is how much
 * of it arrives. What was sent and what arrived is printed as a line of JSON.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "driver/driver.h"

#define WINDOW	     64
#define STALL_US     100000
#define EVERY	     8	/* frames to B for one to C */
#define MODEST_US    20 /* from frame to frame */
#define FRAME	     64u
#define LARGE	     9000u
#define SETTLE_US    1200000 /* longer than a sender is one to several: policy/full */
#define TAKE_AT_ONCE 32

enum { A, B, C, GUESTS };

static struct driver *guest[GUESTS];
static uint64_t got[GUESTS][GUESTS]; /* frames, by receiver and sender */
static uint64_t sent;		     /* by A to B */
static uint64_t per_us;

/* The last byte of an address says whose it is. */
static bool send_one(unsigned from, unsigned to, uint32_t len)
{
	static uint8_t frame[LARGE] = { 2, [6] = 2, [12] = 0x88, [13] = 0xb5 };

	frame[5] = (uint8_t)to;
	frame[11] = (uint8_t)from;
	driver_reclaim(guest[from], 0);
	return !driver_send(guest[from], 0, NULL, frame, len, NULL);
}

static unsigned take(unsigned at, unsigned most)
{
	uint8_t frame[LARGE + 64];
	struct driver_frame f;
	unsigned n = 0;

	while (n < most && driver_receive(guest[at], 0, frame, sizeof(frame), &f) == 1) {
		got[at][frame[11] % GUESTS]++;
		n++;
	}
	if (n)
		driver_post(guest[at], 0);
	return n;
}

/* From A to B, and perhaps to C, until `most` were sent in all. */
static void send_until(uint64_t most, bool third)
{
	bool any = false;

	while (sent < most && send_one(A, B, FRAME)) {
		if (third && sent % EVERY == 0)
			send_one(A, C, FRAME);
		sent++;
		any = true;
	}
	if (any)
		driver_flush(guest[A], DRIVER_TX(0));
}

static void fill(unsigned from, unsigned to, uint32_t len)
{
	unsigned n = 0;

	while (n < WINDOW && send_one(from, to, len))
		n++;
	if (n)
		driver_flush(guest[from], DRIVER_TX(0));
}

struct third {
	bool sent_to;	      /* by A */
	bool ready;	      /* it takes what there is; else, */
	uint64_t take_cycles; /* a frame so often; 0: never */
	bool to_b, to_a;      /* it sends */
};

static void run(const struct third *third, uint64_t us)
{
	uint64_t given_up = sent - got[B][A], before = sent, start = clock_cycles(),
		 arrival = start, taken = start, now = start;

	while (now - start < us * per_us) {
		uint64_t arrived = got[B][A];

		send_until(third->to_b ? before + (now - start) / (MODEST_US * per_us)
				       : arrived + given_up + WINDOW,
			   third->sent_to);
		if (third->to_b)
			fill(C, B, FRAME);
		if (third->to_a)
			fill(C, A, LARGE);
		take(B, TAKE_AT_ONCE);
		take(A, TAKE_AT_ONCE);
		if (third->ready)
			take(C, TAKE_AT_ONCE);
		now = clock_cycles();
		if (third->take_cycles && now - taken >= third->take_cycles) {
			take(C, 1);
			taken = now;
		}
		if (got[B][A] != arrived) {
			arrival = now;
		} else if (now - arrival > STALL_US * per_us) {
			given_up = sent - got[B][A];
			arrival = now;
		}
	}
}

static int guests_open(char **socket, struct error *err)
{
	for (unsigned i = 0; i < GUESTS; i++) {
		struct driver_config config = { .connect = socket[i],
						.tx_buffer = LARGE + 64,
						.rx_buffer = 2048 };
		int r = driver_open(&config, &guest[i], err);

		if (r)
			return r;
		/* To itself: it is learned, and goes nowhere. */
		send_one(i, i, FRAME);
		driver_flush(guest[i], DRIVER_TX(0));
	}
	return 0;
}

static bool third_parse(struct third *third, const char *what, const char *us)
{
	uint64_t often = (uint64_t)atoi(us) * per_us;

	if (!strcmp(what, "ready"))
		*third = (struct third){ .sent_to = true, .ready = true };
	else if (!strcmp(what, "stuck"))
		*third = (struct third){ .sent_to = true };
	else if (!strcmp(what, "slow"))
		*third = (struct third){ .sent_to = true, .take_cycles = often };
	else if (!strcmp(what, "greedy"))
		*third = (struct third){ .to_b = true };
	else if (!strcmp(what, "crowd"))
		*third = (struct third){ .sent_to = true, .ready = true, .to_b = true };
	else if (!strcmp(what, "large"))
		*third = (struct third){ .to_a = true };
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	struct error err = { "" };
	struct third third;
	int status = 0;

	per_us = clock_cycles_per_us();
	if (argc < 6 || !third_parse(&third, argv[4], argc > 6 ? argv[6] : "0")) {
		fputs("usage: third SOCKET SOCKET SOCKET ready|stuck|slow|greedy|crowd|"
		      "large SECONDS [US]\n",
		      stderr);
		return 2;
	}
	if (guests_open(argv + 1, &err)) {
		fprintf(stderr, "%s\n", err.text);
		status = 1;
	} else {
		double seconds = atof(argv[5]);
		uint64_t from_a, a, c, to_c;

		run(&third, SETTLE_US);
		from_a = sent;
		a = got[B][A];
		c = got[B][C] + got[A][C];
		to_c = got[C][A];
		run(&third, (uint64_t)(seconds * 1e6));
		printf("{\"sent_to_b\": %.0f, \"a_to_b\": %.0f, \"from_c\": %.0f, \"to_c\": "
		       "%.0f}\n",
		       (double)(sent - from_a) / seconds, (double)(got[B][A] - a) / seconds,
		       (double)(got[B][C] + got[A][C] - c) / seconds,
		       (double)(got[C][A] - to_c) / seconds);
	}
	for (unsigned i = 0; i < GUESTS; i++)
		driver_close(guest[i]);
	return status;
}
