/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ringway bench load`: loads two vhost-user ports, of whatever switch.
 * `ringway bench`: the whole measurement with a switch of its own (bench_table.c).
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/bench_load.h"
#include "cmd/bench_table.h"
#include "cmd/cmd.h"
#include "driver/driver.h"

static const char usage_load[] =
	"Usage: ringway bench load --a PATH --b PATH [OPTION]...\n"
	"Plays two guests at the vhost-user sockets A and B and sends frames between them.\n\n"
	"  --size BYTES    frame length in the ring, without FCS (64)\n"
	"  --seconds S     how long to measure, after a warm-up (3)\n"
	"  --window N      frames under way at any time (256)\n"
	"  --queues N      queue pairs of each port (1)\n"
	"  --data          touch every byte of the frames, not the first cache line alone\n"
	"  --oneway        from A to B only\n"
	"  --cpu N         the CPU to run on (0)\n"
	"  --json          one JSON object in place of text\n"
	"  --help\n";

static const char usage_bench[] =
	"Usage: ringway bench [--seconds S] [--repeat N] [--json]\n"
	"       ringway bench load ...           (see ringway bench load --help)\n"
	"Measures this switch between two guests that it plays itself: starts a switch with one\n"
	"worker, runs every load N times, interleaved, and prints the medians.\n\n"
	"  --seconds S     of each run (1)\n"
	"  --repeat N      runs of each load (3)\n"
	"  --json          one JSON object in place of a table\n"
	"  --help\n";

/* A number in [min, max] or exit with what is wrong. */
static double number(const char *option, const char *text, double min, double max, bool *bad)
{
	char *end;
	double v = strtod(text, &end);

	if (*text && !*end && v >= min && v <= max)
		return v;
	fprintf(stderr, "ringway bench: --%s %s: not a number from %g to %g\n", option, text, min,
		max);
	*bad = true;
	return min;
}

static int finish_options(int argc, char **argv, bool bad)
{
	if (!bad && optind < argc) {
		fprintf(stderr, "ringway bench: what is \"%s\"?\n", argv[optind]);
		bad = true;
	}
	return bad ? 2 : 0;
}

/* 0; or the exit status + 1 at once. */
static int parse_load(int argc, char **argv, struct load_config *c, bool *json)
{
	static const struct option options[] = {
		{ "a", 1, NULL, 'a' },	     { "b", 1, NULL, 'b' },	 { "size", 1, NULL, 's' },
		{ "seconds", 1, NULL, 't' }, { "window", 1, NULL, 'w' }, { "queues", 1, NULL, 'q' },
		{ "cpu", 1, NULL, 'c' },     { "data", 0, NULL, 'd' },	 { "oneway", 0, NULL, 'o' },
		{ "json", 0, NULL, 'j' },    { "help", 0, NULL, 'h' },	 { NULL, 0, NULL, 0 }
	};
	bool bad = false;
	int o, at;

	while ((o = getopt_long(argc, argv, "", options, &at)) != -1) {
		const char *name = o == '?' ? "" : options[at].name;

		if (o == 'a' || o == 'b')
			c->socket[o == 'b'] = optarg;
		else if (o == 's')
			c->size =
				(unsigned)number(name, optarg, LOAD_SIZE_MIN, LOAD_SIZE_MAX, &bad);
		else if (o == 't')
			c->seconds = number(name, optarg, 0.01, 86400, &bad);
		else if (o == 'w')
			c->window = (unsigned)number(name, optarg, 1, 1 << 20, &bad);
		else if (o == 'q')
			c->queues = (unsigned)number(name, optarg, 1, DRIVER_PAIRS_MAX, &bad);
		else if (o == 'c')
			c->cpu = (unsigned)number(name, optarg, 0, 4095, &bad);
		else if (o == 'd')
			c->data = true;
		else if (o == 'o')
			c->oneway = true;
		else if (o == 'j')
			*json = true;
		else if (o == 'h')
			return printf("%s", usage_load), 1;
		else
			bad = true;
	}
	if (!bad && (!c->socket[0] || !c->socket[1])) {
		fprintf(stderr, "ringway bench load: --a and --b are needed\n");
		bad = true;
	}
	bad = finish_options(argc, argv, bad);
	return bad ? 3 : 0;
}

static void print_load(const struct load_config *c, const struct load_result *r, bool json)
{
	const char *class = line_class(r->line_round_trip_ns);
	unsigned long long hz = clock_cycles_per_us() * 1000000ull;

	if (json)
		printf("{\"size\": %u, \"seconds\": %.3f, \"sent\": %llu, \"received\": %llu, "
		       "\"lost\": %llu, \"frames_per_s\": %.0f, "
		       "\"cycles_per_frame_generator\": %.1f, \"line_round_trip_ns\": %.1f, "
		       "\"line_class\": \"%s\", \"tsc_hz\": %llu}\n",
		       c->size, r->seconds, (unsigned long long)r->sent,
		       (unsigned long long)r->received, (unsigned long long)r->lost,
		       r->frames_per_s, r->cycles_per_frame, r->line_round_trip_ns, class, hz);
	else
		printf("%u bytes: %.3f Mframes/s, %llu received, %llu lost in %.2f s\n"
		       "generator: %.1f cycles a frame at %.3f GHz\n"
		       "cache line between CPUs 0 and 1: %.0f ns there and back (class %s)\n",
		       c->size, r->frames_per_s / 1e6, (unsigned long long)r->received,
		       (unsigned long long)r->lost, r->seconds, r->cycles_per_frame,
		       (double)hz / 1e9, r->line_round_trip_ns, class);
}

static int bench_load(int argc, char **argv)
{
	struct load_config c = { .size = 64, .seconds = 3, .window = 256, .queues = 1 };
	struct load_result r;
	struct error err;
	bool json = false;
	int rc = parse_load(argc, argv, &c, &json);

	if (rc)
		return rc - 1;
	if (load_run(&c, &r, &err)) {
		fprintf(stderr, "ringway bench load: %s\n", err.text);
		return 1;
	}
	print_load(&c, &r, json);
	return 0;
}

int cmd_bench(int argc, char **argv)
{
	static const struct option options[] = { { "seconds", 1, NULL, 't' },
						 { "repeat", 1, NULL, 'r' },
						 { "json", 0, NULL, 'j' },
						 { "help", 0, NULL, 'h' },
						 { NULL, 0, NULL, 0 } };
	struct table_config c = { .seconds = 1, .repeat = 3 };
	struct error err;
	bool bad = false;
	int o, at;

	if (argc > 1 && !strcmp(argv[1], "load"))
		return bench_load(argc - 1, argv + 1);
	while ((o = getopt_long(argc, argv, "", options, &at)) != -1) {
		if (o == 't')
			c.seconds = number("seconds", optarg, 0.01, 86400, &bad);
		else if (o == 'r')
			c.repeat = (unsigned)number("repeat", optarg, 1, TABLE_REPEAT_MAX, &bad);
		else if (o == 'j')
			c.json = true;
		else if (o == 'h')
			return printf("%s", usage_bench), 0;
		else
			bad = true;
	}
	if (finish_options(argc, argv, bad))
		return 2;
	if (table_run(&c, &err)) {
		fprintf(stderr, "ringway bench: %s\n", err.text);
		return 1;
	}
	return 0;
}
