// SPDX-License-Identifier: Apache-2.0
/*
 * `ringway bench load`, `ringway bench latency`: load two vhost-user ports, of whatever switch.
 * `ringway bench`: the whole measurement with a switch of its own (bench/costs.c,
 * bench/paced.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/load.h"
#include "bench/tables.h"
#include "cmd/cmd.h"

#define HELP_GUESTS                                                                           \
	"  --size BYTES   frame length in the ring, without FCS (64); or imix: 64, 570 and\n" \
	"                 1518 bytes, 7 to 4 to 1; or tso: 64 KB of TCP to be cut\n"          \
	"  --data         touch every byte of the frames, not the first cache line alone\n"   \
	"  --ring FORM    split (that is it if nothing is said) or packed, and with commas\n" \
	"                 between: in_order, indirect (each frame sent is a table of\n"       \
	"                 descriptors, its header apart), -mergeable, -event_idx\n"           \
	"  --entries N    descriptors of each ring (256)\n"                                   \
	"  --queues N     queue pairs of each guest (1)\n"                                    \
	"  --macs N       addresses of each guest, taken at random (1)\n"                     \
	"  --seconds S    how long to measure, after a warm-up (3)\n"                         \
	"  --cpu N        the CPU to run on (0)\n"                                            \
	"  --json         one line of JSON in place of text\n"

#define HELP_PACE                                                                               \
	"  --rate R       an open loop: A sends R frames a second at random times, B answers\n" \
	"  --seed N       of those random times (1)\n"                                          \
	"  --oneway       from A to B only; B does not answer\n"                                \
	"  --calls        the guests sleep until they are called; else they poll\n"

#define HELP_TRACE                                                                                \
	"  --trace FILE   writes when A sent the last 2000 frames of its first queue: text, ns\n" \
	"                 from each to the next\n"

static const char help_load[] =
	"usage: ringway bench load --a PATH --b PATH [option ...]\n"
	"\n"
	"Plays two guests at the vhost-user sockets A and B, in one thread, and sends frames\n"
	"between them in a closed loop. Any switch with two such sockets will do.\n"
	"\n"
	"options:\n" HELP_GUESTS
	"  --window N     frames under way at any time (as many as 256 buffers hold)\n" HELP_PACE
	"\n"
	"example:\n"
	"  ringway bench load --a /tmp/vm1.sock --b /tmp/vm2.sock --size 1500 --ring packed\n";

static const char help_latency[] =
	"usage: ringway bench latency --a PATH --b PATH [option ...]\n"
	"\n"
	"Plays two guests at the vhost-user sockets A and B, and measures how long a frame takes\n"
	"from A to B, and until the answer to it is back. A sends when an answer has come, so "
	"that\n"
	"--window requests are always under way, or at a rate.\n"
	"\n"
	"options:\n" HELP_GUESTS
	"  --window N     requests under way at any time (1)\n" HELP_PACE HELP_TRACE "\n"
	"example:\n"
	"  ringway bench latency --a /tmp/vm1.sock --b /tmp/vm2.sock --rate 100000 --calls\n";

static const char help_bench[] =
	"usage: ringway bench [--latency] [--seconds S] [--repeat N] [--json]\n"
	"       ringway bench load|latency ...\n"
	"\n"
	"Measures this switch between two guests that it plays itself: starts a switch with one\n"
	"worker on CPU 1, plays both guests on CPU 0, runs each load several times, interleaved,\n"
	"and prints medians. 'ringway bench load' is the generator by itself, for any switch, and\n"
	"'ringway bench latency' the same with times; both explain themselves with --help.\n"
	"\n"
	"options:\n"
	"  --latency      loads at a pace, with workers that adapt and that always poll: times,\n"
	"                 CPU, kicks and calls in place of what frames cost\n"
	"  --seconds S    of each run (1)\n"
	"  --repeat N     runs of each load (3)\n"
	"  --json         one JSON object in place of a table\n"
	"\n"
	"example:\n"
	"  ringway bench --seconds 2 --repeat 5\n";

#define OPTIONS_GUESTS                                                                             \
	{ "a", 1, NULL, 'a' }, { "b", 1, NULL, 'b' }, { "size", 1, NULL, 's' },                    \
		{ "seconds", 1, NULL, 't' }, { "queues", 1, NULL, 'q' }, { "macs", 1, NULL, 'm' }, \
		{ "ring", 1, NULL, 'r' }, { "entries", 1, NULL, 'e' }, { "cpu", 1, NULL, 'c' },    \
		{ "data", 0, NULL, 'd' }, { "json", 0, NULL, 'j' },                                \
	{                                                                                          \
		"help", 0, NULL, 'h'                                                               \
	}

static const struct option load_options[] = {
	OPTIONS_GUESTS,
	{ "window", 1, NULL, 'w' },
	{ "rate", 1, NULL, 'R' },
	{ "seed", 1, NULL, 'S' },
	{ "oneway", 0, NULL, 'o' },
	{ "calls", 0, NULL, 'C' },
	{ "trace", 1, NULL, 'T' },
	{ NULL, 0, NULL, 0 },
};

/* The option's value as a number in [min, max]; CMD_DONE or CMD_USAGE. */
static int number(const char *command, const char *option, double min, double max, double *ret)
{
	char *end;
	double v = strtod(optarg, &end);

	if (!*optarg || *end || !(v >= min && v <= max))
		return cmd_usage(command, "%s '%s': a number from %.10g to %.10g is needed", option,
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

static int size(const char *command, unsigned *ret)
{
	if (!strcmp(optarg, "imix") || !strcmp(optarg, "tso")) {
		*ret = *optarg == 'i' ? GUESTS_IMIX : GUESTS_TSO;
		return CMD_DONE;
	}
	return whole(command, "--size", GUESTS_SIZE_MIN, GUESTS_SIZE_MAX, ret);
}

static int take_guests_option(const char *command, struct guests_config *c, int o, char **argv)
{
	struct error err;

	switch (o) {
	case 'a':
	case 'b':
		c->socket[o == 'b'] = optarg;
		return CMD_DONE;
	case 's':
		return size(command, &c->size);
	case 'q':
		return whole(command, "--queues", 1, DRIVER_PAIRS_MAX, &c->queues);
	case 'm':
		return whole(command, "--macs", 1, GUESTS_MACS_MAX, &c->macs);
	case 'e':
		return whole(command, "--entries", 2, DRIVER_RING_MAX, &c->entries);
	case 'c':
		return whole(command, "--cpu", 0, 4095, &c->cpu);
	case 'r':
		if (ring_form_parse(optarg, &c->form, &err))
			return cmd_usage(command, "--ring: %s", err.text);
		return CMD_DONE;
	case 'd':
		c->data = true;
		return CMD_DONE;
	default:
		return cmd_bad_option(command, o, argv);
	}
}

static int take_load_option(const char *command, struct load_config *c, bool *json, int o,
			    char **argv)
{
	switch (o) {
	case 't':
		return number(command, "--seconds", 0.01, 86400, &c->seconds);
	case 'w':
		return whole(command, "--window", 1, LOAD_WINDOW_MAX, &c->window);
	case 'R':
		return number(command, "--rate", 1, LOAD_RATE_MAX, &c->rate);
	case 'S':
		return whole(command, "--seed", 0, UINT32_MAX, &c->seed);
	case 'o':
		c->oneway = true;
		return CMD_DONE;
	case 'C':
		c->calls = true;
		return CMD_DONE;
	case 'T':
		c->trace = optarg;
		return CMD_DONE;
	case 'j':
		*json = true;
		return CMD_DONE;
	default:
		return take_guests_option(command, &c->guests, o, argv);
	}
}

static int check_load(const char *command, const struct load_config *c, char **argv)
{
	const struct guests_config *guests = &c->guests;

	if (argv[optind])
		return cmd_usage(command, "'%s' is too much", argv[optind]);
	if (!guests->socket[0] || !guests->socket[1])
		return cmd_usage(command, "both --a and --b are needed");
	if (!strcmp(guests->socket[0], guests->socket[1]))
		return cmd_usage(command, "--a and --b are the same; each guest has its own");
	if (c->trace && !guests->timed)
		return cmd_usage(command,
				 "--trace: only 'bench latency' knows when frames are sent");
	if (c->rate && c->window)
		return cmd_usage(command, "--rate or --window: a rate has no number under way");
	if (!guests->form.packed && guests->entries & (guests->entries - 1))
		return cmd_usage(command, "--entries %u: a split ring has a power of two",
				 guests->entries);
	return CMD_DONE;
}

/* A new object: what was asked of the guests. */
static json_t *describe_guests(const struct guests_config *c)
{
	char size_text[GUESTS_SIZE_TEXT], form[RING_FORM_TEXT];

	guests_size_print(c->size, size_text);
	ring_form_print(&c->form, form);
	return json_pack("{s:s, s:f, s:b, s:s, s:i, s:i, s:i, s:I}", "size", size_text,
			 "frame_bytes", guests_size_mean(c->size), "data", (int)c->data, "ring",
			 form, "entries", (int)c->entries, "queues", (int)c->queues, "macs",
			 (int)c->macs, "tsc_hz", (json_int_t)clock_cycles_per_us() * 1000000);
}

/* One line, and its end. */
static void print_line(json_t *object)
{
	json_dumpf(object, stdout, JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(object);
}

static void print_times(const char *what, const struct load_times *t)
{
	if (t->n)
		printf("%s: p50 %.2f, p99 %.2f, p99.9 %.2f, max %.2f us\n", what,
		       (double)t->p50 / 1e3, (double)t->p99 / 1e3, (double)t->p999 / 1e3,
		       (double)t->max / 1e3);
}

static void print_load(const struct load_config *c, const struct load_result *r)
{
	char size_text[GUESTS_SIZE_TEXT];

	guests_size_print(c->guests.size, size_text);
	printf("%s bytes: %.3f Mframes/s, %llu received, %llu lost in %.2f s\n"
	       "generator: %.1f cycles, %.4f kicks, %.4f calls a frame, at %.3f GHz\n",
	       size_text, r->frames_per_s / 1e6, (unsigned long long)r->received,
	       (unsigned long long)r->lost, r->seconds, r->cycles_per_frame, r->kicks_per_frame,
	       r->calls_per_frame, (double)clock_cycles_per_us() / 1e3);
	print_times("one way", &r->one_way);
	print_times("there and back", &r->round_trip);
	print_times("sent late by", &r->late);
	printf("between CPUs 0 and 1: a cache line %.0f ns there and back (class %s), a wake-up "
	       "%.1f us\n",
	       r->line_round_trip_ns, line_class(r->line_round_trip_ns), r->wake_up_ns / 1e3);
}

/* Only where there is something to tell. */
static void add_times(json_t *object, const char *key, const struct load_times *t)
{
	if (t->n)
		json_object_set_new(object, key,
				    json_pack("{s:I, s:I, s:I, s:I, s:I}", "n", (json_int_t)t->n,
					      "p50", (json_int_t)t->p50, "p99", (json_int_t)t->p99,
					      "p999", (json_int_t)t->p999, "max",
					      (json_int_t)t->max));
}

static void print_load_json(const struct load_config *c, const struct load_result *r)
{
	json_t *all = describe_guests(&c->guests);

	json_object_update_new(
		all, json_pack("{s:i, s:b, s:b, s:f, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f}",
			       "window", (int)r->window, "oneway", (int)c->oneway, "calls",
			       (int)c->calls, "seconds", r->seconds, "sent", (json_int_t)r->sent,
			       "received", (json_int_t)r->received, "lost", (json_int_t)r->lost,
			       "frames_per_s", r->frames_per_s, "cycles_per_frame_generator",
			       r->cycles_per_frame, "cpu", r->cpu, "kicks_per_frame",
			       r->kicks_per_frame, "calls_per_frame", r->calls_per_frame));
	json_object_update_new(all, json_pack("{s:f, s:s, s:f}", "line_round_trip_ns",
					      r->line_round_trip_ns, "line_class",
					      line_class(r->line_round_trip_ns), "wake_up_ns",
					      r->wake_up_ns));
	if (c->rate)
		json_object_update_new(all, json_pack("{s:f, s:i, s:f}", "rate", c->rate, "seed",
						      (int)c->seed, "sent_per_s", r->sent_per_s));
	add_times(all, "one_way_ns", &r->one_way);
	add_times(all, "round_trip_ns", &r->round_trip);
	add_times(all, "late_ns", &r->late);
	print_line(all);
}

static int bench_load(int argc, char **argv)
{
	struct load_config c = { .guests = guests_config_default(), .seconds = 3, .seed = 1 };
	bool timed = !strcmp(argv[0], "latency"), json = false;
	const char *command = timed ? "bench latency" : "bench load";
	struct load_result r;
	struct error err;
	int o, status = CMD_DONE;

	c.guests.timed = timed;
	while (!status && (o = getopt_long(argc, argv, "h", load_options, NULL)) != -1) {
		if (o == 'h') {
			fputs(timed ? help_latency : help_load, stdout);
			return CMD_DONE;
		}
		status = take_load_option(command, &c, &json, o, argv);
	}
	if (!status)
		status = check_load(command, &c, argv);
	if (status)
		return status;
	if (timed && !c.window)
		c.window = 1;
	if (load_run(&c, &r, &err))
		return cmd_refused(&err);
	(json ? print_load_json : print_load)(&c, &r);
	return CMD_DONE;
}

int cmd_bench(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seconds", 1, NULL, 't' }, { "repeat", 1, NULL, 'r' }, { "json", 0, NULL, 'j' },
		{ "latency", 0, NULL, 'l' }, { "help", 0, NULL, 'h' },	 { NULL, 0, NULL, 0 },
	};
	bool latency = false;
	struct tables_config c = { .seconds = 1, .repeat = 3 };
	struct error err;
	int o, status = CMD_DONE;

	if (argc > 1 && (!strcmp(argv[1], "load") || !strcmp(argv[1], "latency")))
		return bench_load(argc - 1, argv + 1);
	while (!status && (o = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (o == 'h') {
			fputs(help_bench, stdout);
			return CMD_DONE;
		}
		if (o == 't')
			status = number("bench", "--seconds", 0.01, 86400, &c.seconds);
		else if (o == 'r')
			status = whole("bench", "--repeat", 1, TABLES_REPEAT_MAX, &c.repeat);
		else if (o == 'j')
			c.json = true;
		else if (o == 'l')
			latency = true;
		else
			status = cmd_bad_option("bench", o, argv);
	}
	if (status)
		return status;
	if (optind < argc)
		return cmd_usage("bench", "'%s' is neither load nor latency", argv[optind]);
	return (latency ? paced_run : costs_run)(&c, &err) ? cmd_refused(&err) : CMD_DONE;
}
