/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ringway bench load`: loads two vhost-user ports, of whatever switch.
 * `ringway bench`: the whole measurement with a switch of its own (bench/table.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/load.h"
#include "bench/table.h"
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

static const char help_load[] =
	"usage: ringway bench load --a PATH --b PATH [option ...]\n"
	"\n"
	"Plays two guests at the vhost-user sockets A and B, in one polling thread, and sends\n"
	"frames between them in a closed loop. Any switch with two such sockets will do.\n"
	"\n"
	"options:\n" HELP_GUESTS
	"  --window N     frames under way at any time (as many as 256 buffers hold)\n"
	"  --oneway       from A to B only\n"
	"\n"
	"example:\n"
	"  ringway bench load --a /tmp/vm1.sock --b /tmp/vm2.sock --size 1500 --ring packed\n";

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

/* What `load` and `latency` have in common. */
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
	{ "oneway", 0, NULL, 'o' },
	{ NULL, 0, NULL, 0 },
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

static int size(unsigned *ret)
{
	if (!strcmp(optarg, "imix") || !strcmp(optarg, "tso")) {
		*ret = *optarg == 'i' ? GUESTS_IMIX : GUESTS_TSO;
		return CMD_DONE;
	}
	return whole("bench", "--size", GUESTS_SIZE_MIN, GUESTS_SIZE_MAX, ret);
}

/* An option of the guests; any other is a mistake. */
static int take_guests_option(struct guests_config *c, double *seconds, bool *json, int o,
			      char **argv)
{
	struct error err;

	switch (o) {
	case 'a':
	case 'b':
		c->socket[o == 'b'] = optarg;
		return CMD_DONE;
	case 's':
		return size(&c->size);
	case 't':
		return number("bench", "--seconds", 0.01, 86400, seconds);
	case 'q':
		return whole("bench", "--queues", 1, DRIVER_PAIRS_MAX, &c->queues);
	case 'm':
		return whole("bench", "--macs", 1, GUESTS_MACS_MAX, &c->macs);
	case 'e':
		return whole("bench", "--entries", 2, DRIVER_RING_MAX, &c->entries);
	case 'c':
		return whole("bench", "--cpu", 0, 4095, &c->cpu);
	case 'r':
		if (ring_form_parse(optarg, &c->form, &err))
			return cmd_usage("bench", "--ring: %s", err.text);
		return CMD_DONE;
	case 'd':
		c->data = true;
		return CMD_DONE;
	case 'j':
		*json = true;
		return CMD_DONE;
	default:
		return cmd_bad_option("bench", argv);
	}
}

static int check_guests(const struct guests_config *c, char **argv)
{
	if (argv[optind])
		return cmd_usage("bench", "'%s' is too much", argv[optind]);
	if (!c->socket[0] || !c->socket[1])
		return cmd_usage("bench", "both --a and --b are needed");
	if (!c->form.packed && c->entries & (c->entries - 1))
		return cmd_usage("bench", "--entries %u: a split ring has a power of two",
				 c->entries);
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

static void print_load(const struct load_config *c, const struct load_result *r)
{
	char size_text[GUESTS_SIZE_TEXT];

	guests_size_print(c->guests.size, size_text);
	printf("%s bytes: %.3f Mframes/s, %llu received, %llu lost in %.2f s\n"
	       "generator: %.1f cycles, %.4f kicks, %.4f calls a frame, at %.3f GHz\n"
	       "cache line between CPUs 0 and 1: %.0f ns there and back (class %s)\n",
	       size_text, r->frames_per_s / 1e6, (unsigned long long)r->received,
	       (unsigned long long)r->lost, r->seconds, r->cycles_per_frame, r->kicks_per_frame,
	       r->calls_per_frame, (double)clock_cycles_per_us() / 1e3, r->line_round_trip_ns,
	       line_class(r->line_round_trip_ns));
}

static void print_load_json(const struct load_config *c, const struct load_result *r)
{
	json_t *all = describe_guests(&c->guests);

	json_object_update_new(
		all, json_pack("{s:i, s:b, s:f, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:s}",
			       "window", (int)r->window, "oneway", (int)c->oneway, "seconds",
			       r->seconds, "sent", (json_int_t)r->sent, "received",
			       (json_int_t)r->received, "lost", (json_int_t)r->lost, "frames_per_s",
			       r->frames_per_s, "cycles_per_frame_generator", r->cycles_per_frame,
			       "kicks_per_frame", r->kicks_per_frame, "calls_per_frame",
			       r->calls_per_frame, "line_round_trip_ns", r->line_round_trip_ns,
			       "line_class", line_class(r->line_round_trip_ns)));
	print_line(all);
}

static int bench_load(int argc, char **argv)
{
	struct load_config c = { .guests = guests_config_default(), .seconds = 3 };
	struct load_result r;
	struct error err;
	bool json = false;
	int o, status = CMD_DONE;

	while (!status && (o = getopt_long(argc, argv, "h", load_options, NULL)) != -1) {
		if (o == 'h') {
			fputs(help_load, stdout);
			return CMD_DONE;
		}
		if (o == 'w')
			status = whole("bench", "--window", 1, LOAD_WINDOW_MAX, &c.window);
		else if (o == 'o')
			c.oneway = true;
		else
			status = take_guests_option(&c.guests, &c.seconds, &json, o, argv);
	}
	if (!status)
		status = check_guests(&c.guests, argv);
	if (status)
		return status;
	if (load_run(&c, &r, &err))
		return cmd_refused(&err);
	(json ? print_load_json : print_load)(&c, &r);
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
