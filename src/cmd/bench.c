/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ringway bench load`: loads two vhost-user ports, of whatever switch.
 * `ringway bench`: the whole measurement with a switch of its own (bench_table.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/bench_load.h"
#include "cmd/bench_table.h"
#include "cmd/cmd.h"
#include "driver/driver.h"

static const char help_load[] =
	"usage: ringway bench load --a PATH --b PATH [--size BYTES] [--seconds S] [--window N]\n"
	"                          [--queues N] [--data] [--oneway] [--cpu N] [--json]\n"
	"\n"
	"Plays two guests at the vhost-user sockets A and B, in one polling thread, and sends "
	"frames\n"
	"between them in a closed loop. Any switch with two such sockets will do.\n"
	"\n"
	"options:\n"
	"  --size BYTES   frame length in the ring, without FCS (64)\n"
	"  --seconds S    how long to measure, after a warm-up (3)\n"
	"  --window N     frames under way at any time (256)\n"
	"  --queues N     queue pairs of each port (1)\n"
	"  --data         touch every byte of the frames, not the first cache line alone\n"
	"  --oneway       from A to B only\n"
	"  --cpu N        the CPU to run on (0)\n"
	"  --json         one JSON object in place of text\n"
	"\n"
	"example:\n"
	"  ringway bench load --a /tmp/vm1.sock --b /tmp/vm2.sock --size 1500 --data\n";

static const char help_bench[] =
	"usage: ringway bench [--seconds S] [--repeat N] [--json]\n"
	"       ringway bench load ...\n"
	"\n"
	"Measures this switch between two guests that it plays itself: starts a switch with one\n"
	"worker on CPU 1, plays both guests on CPU 0, runs each load several times, interleaved,\n"
	"and prints medians. 'ringway bench load --help' explains the generator by itself.\n"
	"\n"
	"options:\n"
	"  --seconds S    of each run (1)\n"
	"  --repeat N     runs of each load (3)\n"
	"  --json         one JSON object in place of a table\n"
	"\n"
	"example:\n"
	"  ringway bench --seconds 2 --repeat 5\n";

static const struct option load_options[] = {
	{ "a", 1, NULL, 'a' },	     { "b", 1, NULL, 'b' },	 { "size", 1, NULL, 's' },
	{ "seconds", 1, NULL, 't' }, { "window", 1, NULL, 'w' }, { "queues", 1, NULL, 'q' },
	{ "cpu", 1, NULL, 'c' },     { "data", 0, NULL, 'd' },	 { "oneway", 0, NULL, 'o' },
	{ "json", 0, NULL, 'j' },    { "help", 0, NULL, 'h' },	 { NULL, 0, NULL, 0 },
};

/* The option's value as a number in [min, max]; CMD_DONE or CMD_USAGE. */
static int number(const char *command, const char *option, double min, double max, double *ret)
{
	char *end;
	double v = strtod(optarg, &end);

	if (!*optarg || *end || !(v >= min && v <= max))
		return cmd_usage(command, "%s '%s': a number from %g to %g is needed", option,
				 optarg, min, max);
	*ret = v;
	return CMD_DONE;
}

static int whole(const char *command, const char *option, unsigned min, unsigned max, unsigned *ret)
{
	double v = 0;
	int status = number(command, option, min, max, &v);

	if (status)
		return status;
	if (v != (unsigned)v)
		return cmd_usage(command, "%s '%s': not a whole number", option, optarg);
	*ret = (unsigned)v;
	return CMD_DONE;
}

static int take_load_option(struct load_config *c, bool *json, int o, char **argv)
{
	switch (o) {
	case 'a':
	case 'b':
		c->socket[o == 'b'] = optarg;
		return CMD_DONE;
	case 's':
		return whole("bench", "--size", LOAD_SIZE_MIN, LOAD_SIZE_MAX, &c->size);
	case 't':
		return number("bench", "--seconds", 0.01, 86400, &c->seconds);
	case 'w':
		return whole("bench", "--window", 1, LOAD_WINDOW_MAX, &c->window);
	case 'q':
		return whole("bench", "--queues", 1, DRIVER_PAIRS_MAX, &c->queues);
	case 'c':
		return whole("bench", "--cpu", 0, 4095, &c->cpu);
	case 'd':
	case 'o':
		*(o == 'd' ? &c->data : &c->oneway) = true;
		return CMD_DONE;
	case 'j':
		*json = true;
		return CMD_DONE;
	default:
		return cmd_bad_option("bench", argv);
	}
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
	int o;

	while ((o = getopt_long(argc, argv, "h", load_options, NULL)) != -1) {
		int status;

		if (o == 'h') {
			fputs(help_load, stdout);
			return CMD_DONE;
		}
		status = take_load_option(&c, &json, o, argv);
		if (status)
			return status;
	}
	if (optind < argc)
		return cmd_usage("bench", "'%s' is too much", argv[optind]);
	if (!c.socket[0] || !c.socket[1])
		return cmd_usage("bench", "both --a and --b are needed");
	if (load_run(&c, &r, &err))
		return cmd_refused(&err);
	print_load(&c, &r, json);
	return CMD_DONE;
}

int cmd_bench(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seconds", 1, NULL, 't' }, { "repeat", 1, NULL, 'r' }, { "json", 0, NULL, 'j' },
		{ "help", 0, NULL, 'h' },    { NULL, 0, NULL, 0 },
	};
	struct table_config c = { .seconds = 1, .repeat = 3 };
	struct error err;
	int o, status = CMD_DONE;

	if (argc > 1 && !strcmp(argv[1], "load"))
		return bench_load(argc - 1, argv + 1);
	while (!status && (o = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (o == 'h') {
			fputs(help_bench, stdout);
			return CMD_DONE;
		}
		if (o == 't')
			status = number("bench", "--seconds", 0.01, 86400, &c.seconds);
		else if (o == 'r')
			status = whole("bench", "--repeat", 1, TABLE_REPEAT_MAX, &c.repeat);
		else if (o == 'j')
			c.json = true;
		else
			status = cmd_bad_option("bench", argv);
	}
	if (status)
		return status;
	if (optind < argc)
		return cmd_usage("bench", "'%s' is too much", argv[optind]);
	return table_run(&c, &err) ? cmd_refused(&err) : CMD_DONE;
}
