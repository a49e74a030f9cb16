// SPDX-License-Identifier: Apache-2.0
/*
 * Asks for a report and prints it: as it came (--json, a contract that programs rely on), or as
 * tables. Of one port everything is told, of several a line each and what went wrong.
 */
#include <stdio.h>
#include <string.h>

#include "base/drop.h"
#include "base/nearest.h"
#include "base/refusal.h"
#include "cmd/cmd.h"
#include "cmd/table.h"
#include "control/refusal.h"

static const char help[] =
	"usage: ringway show [port|queue|fdb|worker|feature] [NAME] [--json] [--control PATH]\n"
	"\n"
	"Shows the state of a running switch; 'ringway show' alone shows ports, and\n"
	"'ringway show NAME' all of one port.\n"
	"\n"
	"  port     state, why a port carries nothing, limits, counters, drops by reason,\n"
	"           what else was refused, to its peer and at the control socket\n"
	"  queue    virtqueues: state, format (split or packed), size, frames, segments, held,\n"
	"           kicks, calls; the worker that has it, the load that it is (as a part of a\n"
	"           CPU), how often it was moved to another worker, whether it is polled or\n"
	"           armed (waits for a kick), and the mean time between arrivals\n"
	"  fdb      learned addresses and the ports behind which they are\n"
	"  worker   datapath threads: CPU it is pinned to, CPU time used, frames moved, bursts in\n"
	"           which they came, sleeps for want of work, queues it serves, how many of\n"
	"           them wait for a kick (armed), and the load that they are (as a part of a CPU,\n"
	"           over a few seconds); what a wake-up costs here, by which polling is\n"
	"           bounded\n"
	"  feature  virtio features: which are offered, which word of a port's features= takes\n"
	"           them away, and what they mean\n"
	"\n"
	"NAME picks a port and tells all of it; for fdb and queue that port's, for worker a\n"
	"number, for feature a feature.\n"
	"\n"
	"options:\n"
	"  --json          print JSON\n"
	"  --control PATH  the switch's control socket\n"
	"\n"
	"examples:\n"
	"  ringway show\n"
	"  ringway show port vm1\n"
	"  ringway show queue --json\n";

static const char *text_of(const json_t *row, const char *key)
{
	const char *text = json_string_value(json_object_get(row, key));

	return text ? text : "";
}

static json_int_t number_of(const json_t *row, const char *key)
{
	return json_integer_value(json_object_get(row, key));
}

static void number_cell(struct table *t, const json_t *row, const char *key)
{
	table_cell(t, "%" JSON_INTEGER_FORMAT, number_of(row, key));
}

/* A number that may be null. */
static void optional_cell(struct table *t, const json_t *row, const char *key)
{
	if (json_is_integer(json_object_get(row, key)))
		number_cell(t, row, key);
	else
		table_cell(t, "-");
}

static void load_cell(struct table *t, const json_t *row)
{
	table_cell(t, "%.1f", 100 * json_real_value(json_object_get(row, "load")));
}

static json_int_t sum_dropped(const json_t *row)
{
	static const char *const sides[] = { "ingress", "egress" };
	json_int_t sum = 0;
	const char *reason;
	json_t *n;

	for (unsigned i = 0; i < ARRAY_SIZE(sides); i++) {
		json_t *dropped = json_object_get(json_object_get(row, sides[i]), "dropped");

		json_object_foreach (dropped, reason, n)
			sum += json_integer_value(n);
	}
	return sum;
}

/* What was counted, by name, a line each. */
static void print_counts(const char *what, const json_t *counts, const struct reason *reasons,
			 unsigned n)
{
	for (unsigned i = 1; i < n; i++) {
		json_int_t count = number_of(counts, reasons[i].name);

		if (count)
			printf("  %s: %" JSON_INTEGER_FORMAT " %s (%s)\n", what, count,
			       reasons[i].name, reasons[i].text);
	}
}

static void print_limits(const json_t *port)
{
	json_t *limits = json_object_get(port, "limits"), *n;
	const char *option;

	printf("  limits:");
	json_object_foreach (limits, option, n)
		printf(" %s=%" JSON_INTEGER_FORMAT, option, json_integer_value(n));
	putchar('\n');
}

static void print_traffic(const json_t *port, const char *side)
{
	const json_t *counters = json_object_get(port, side);
	json_int_t frames = number_of(counters, "frames");

	printf("  %-8s %" JSON_INTEGER_FORMAT " frame%s, %" JSON_INTEGER_FORMAT " bytes\n", side,
	       frames, plural_s(frames), number_of(counters, "bytes"));
}

static bool has_faults(const json_t *port)
{
	return *text_of(port, "last_error") || sum_dropped(port) ||
	       json_object_size(json_object_get(port, "refused"));
}

static void print_faults(const json_t *port)
{
	if (*text_of(port, "last_error"))
		printf("  last error: %s\n", text_of(port, "last_error"));
	print_counts("dropped at ingress",
		     json_object_get(json_object_get(port, "ingress"), "dropped"), drop_reasons,
		     DROP_COUNT);
	print_counts("dropped at egress",
		     json_object_get(json_object_get(port, "egress"), "dropped"), drop_reasons,
		     DROP_COUNT);
	print_counts("refused", json_object_get(port, "refused"), refusal_reasons, REFUSAL_COUNT);
}

static void show_one_port(const json_t *port)
{
	const json_t *features = json_object_get(port, "features");
	const char *reason = text_of(port, "reason");

	printf("%s: %s, %s%s%s\n", text_of(port, "name"), text_of(port, "kind"),
	       text_of(port, "state"), *reason ? ": " : "", reason);
	printf("  options: %s\n", text_of(port, "options"));
	if (*text_of(port, "pending"))
		printf("  pending: %s\n", text_of(port, "pending"));
	printf("  queue pairs up: %" JSON_INTEGER_FORMAT "\n", number_of(port, "queue_pairs"));
	if (number_of(port, "mtu"))
		printf("  mtu: %" JSON_INTEGER_FORMAT "\n", number_of(port, "mtu"));
	else
		printf("  mtu: %s\n",
		       json_is_null(json_object_get(port, "mtu")) ? "not known" : "no limit");
	printf("  memory mapped: %" JSON_INTEGER_FORMAT " MiB\n", number_of(port, "memory") >> 20);
	print_limits(port);
	printf("  features:");
	for (size_t i = 0; i < json_array_size(features); i++)
		printf(" %s", json_string_value(json_array_get(features, i)));
	printf("%s\n", json_array_size(features) ? "" : " none agreed");
	print_traffic(port, "ingress");
	print_traffic(port, "egress");
	print_faults(port);
}

/* Among ports whose MTU is known. */
static void tell_unlike_mtus(const json_t *rows)
{
	const json_t *least = NULL, *most = NULL;

	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);

		if (!number_of(row, "mtu"))
			continue;
		if (!least || number_of(row, "mtu") < number_of(least, "mtu"))
			least = row;
		if (!most || number_of(row, "mtu") > number_of(most, "mtu"))
			most = row;
	}
	if (least && number_of(least, "mtu") < number_of(most, "mtu"))
		printf("\nMTUs differ: %s has %" JSON_INTEGER_FORMAT
		       ", %s has %" JSON_INTEGER_FORMAT
		       "; what is larger may be lost between them\n",
		       text_of(least, "name"), number_of(least, "mtu"), text_of(most, "name"),
		       number_of(most, "mtu"));
}

static void tell_room(const json_t *result, const json_t *rows)
{
	json_int_t max = number_of(result, "ports_max");
	json_int_t refused = number_of(result, "ports_refused");

	printf("\n%zu of %" JSON_INTEGER_FORMAT " port%s (--ports-max)", json_array_size(rows), max,
	       plural_s(max));
	if (refused)
		printf("; %" JSON_INTEGER_FORMAT " more %s refused", refused,
		       refused == 1 ? "was" : "were");
	putchar('\n');
}

static void show_ports(const json_t *result, const json_t *rows)
{
	struct table t;

	table_begin(&t,
		    "PORT|KIND|STATE|>PAIRS|>MTU|>INGRESS|>EGRESS|>DROPPED|WHY IT CARRIES NOTHING");
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);

		table_cell(&t, "%s", text_of(row, "name"));
		table_cell(&t, "%s", text_of(row, "kind"));
		table_cell(&t, "%s", text_of(row, "state"));
		number_cell(&t, row, "queue_pairs");
		if (number_of(row, "mtu"))
			number_cell(&t, row, "mtu");
		else
			table_cell(&t, "-");
		number_cell(&t, json_object_get(row, "ingress"), "frames");
		number_cell(&t, json_object_get(row, "egress"), "frames");
		table_cell(&t, "%" JSON_INTEGER_FORMAT, sum_dropped(row));
		table_cell(&t, "%s", text_of(row, "reason"));
	}
	table_end(&t, stdout);
	tell_room(result, rows);
	print_counts("refused at the control socket", json_object_get(result, "control_refused"),
		     control_refusal_reasons, CONTROL_REFUSAL_COUNT);
	tell_unlike_mtus(rows);
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);

		if (!has_faults(row))
			continue;
		printf("\n%s:\n", text_of(row, "name"));
		print_faults(row);
	}
}

/* How a queue's worker learns of new work. */
static const char *waits_of(const json_t *row)
{
	const json_t *armed = json_object_get(row, "armed");

	if (!json_is_boolean(armed))
		return "-";
	return json_is_true(armed) ? "armed" : "polled";
}

static void show_queues(const json_t *result, const json_t *rows)
{
	struct table t;

	table_begin(&t, "PORT|>QUEUE|DIR|STATE|FORMAT|>SIZE|>FRAMES|>BYTES|>SEGMENTS|>HELD|"
			">KICKS|>CALLS|>WORKER|>LOAD/%|>MOVES|WAITS|>GAP/US");
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);
		const char *format = text_of(row, "format");

		table_cell(&t, "%s", text_of(row, "port"));
		number_cell(&t, row, "queue");
		table_cell(&t, "%s", text_of(row, "direction"));
		table_cell(&t, "%s", text_of(row, "state"));
		table_cell(&t, "%s", *format ? format : "-");
		if (number_of(row, "size"))
			number_cell(&t, row, "size");
		else
			table_cell(&t, "-");
		number_cell(&t, row, "frames");
		number_cell(&t, row, "bytes");
		number_cell(&t, row, "segments");
		number_cell(&t, row, "held");
		number_cell(&t, row, "kicks");
		number_cell(&t, row, "calls");
		optional_cell(&t, row, "worker");
		load_cell(&t, row);
		number_cell(&t, row, "moves");
		table_cell(&t, "%s", waits_of(row));
		if (json_is_integer(json_object_get(row, "gap_ns")))
			table_cell(&t, "%.1f", (double)number_of(row, "gap_ns") / 1e3);
		else
			table_cell(&t, "-");
	}
	table_end(&t, stdout);
}

static void show_fdb(const json_t *result, const json_t *rows)
{
	struct table t;

	table_begin(&t, "ADDRESS|PORT|>AGE/S");
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);

		table_cell(&t, "%s", text_of(row, "mac"));
		table_cell(&t, "%s", text_of(row, "port"));
		number_cell(&t, row, "age");
	}
	table_end(&t, stdout);
}

static void show_workers(const json_t *result, const json_t *rows)
{
	struct table t;

	table_begin(&t, ">WORKER|>CPU|>CPU "
			"TIME/S|>FRAMES|>BURSTS|>SLEEPS|>QUEUES|>ARMED|>LOAD/%|>WAKE-UP/US");
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);

		number_cell(&t, row, "worker");
		optional_cell(&t, row, "cpu");
		table_cell(&t, "%.3f", (double)number_of(row, "cpu_ns") / 1e9);
		number_cell(&t, row, "frames");
		number_cell(&t, row, "bursts");
		number_cell(&t, row, "sleeps");
		number_cell(&t, row, "queues");
		number_cell(&t, row, "armed");
		load_cell(&t, row);
		table_cell(&t, "%.0f", (double)number_of(row, "wakeup_ns") / 1e3);
	}
	table_end(&t, stdout);
}

static void show_features(const json_t *result, const json_t *rows)
{
	struct table t;

	table_begin(&t, ">BIT|FEATURE|OFFERED|FEATURES=|MEANING");
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);

		number_cell(&t, row, "bit");
		table_cell(&t, "%s", text_of(row, "name"));
		table_cell(&t, "%s", json_is_true(json_object_get(row, "offered")) ? "yes" : "no");
		if (*text_of(row, "option"))
			table_cell(&t, "-%s", text_of(row, "option"));
		else
			table_cell(&t, "-");
		table_cell(&t, "%s", text_of(row, "text"));
	}
	table_end(&t, stdout);
}

static const struct view {
	const char *name, *method, *key;
	void (*print)(const json_t *result, const json_t *rows);
} views[] = {
	{ "port", "show.port", "ports", show_ports },
	{ "queue", "show.queue", "queues", show_queues },
	{ "fdb", "show.fdb", "fdb", show_fdb },
	{ "worker", "show.worker", "workers", show_workers },
	{ "feature", "show.feature", "features", show_features },
};

static const struct view *find_view(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(views); i++) {
		if (!strcmp(views[i].name, name))
			return &views[i];
	}
	return NULL;
}

static int show(const struct view *view, const char *name, const struct cmd_options *options)
{
	json_t *params = name ? json_pack("{s:s}", "name", name) : NULL, *result, *rows;
	int status;

	if (name && !params)
		return cmd_usage("show", "the name is not UTF-8");
	status = cmd_call(options->control, view->method, params, &result);
	if (status != CMD_DONE)
		return status;
	rows = json_object_get(result, view->key);
	if (options->json) {
		json_dumpf(result, stdout, JSON_COMPACT);
		putchar('\n');
	} else if (name && view->print == show_ports) {
		show_one_port(json_array_get(rows, 0));
	} else {
		view->print(result, rows);
	}
	json_decref(result);
	return status;
}

static bool names_port(const json_t *rows, const char *name)
{
	for (size_t i = 0; i < json_array_size(rows); i++) {
		if (!strcmp(text_of(json_array_get(rows, i), "name"), name))
			return true;
	}
	return false;
}

/* A word that is no view: the name of a port, or mistyped. */
static int show_named(int n, char **words, const struct cmd_options *options)
{
	const char *hint;
	bool found = false;
	json_t *result;

	if (n == 1) {
		int status = cmd_call(options->control, "show.port", NULL, &result);

		if (status != CMD_DONE)
			return status;
		found = names_port(json_object_get(result, "ports"), words[0]);
		json_decref(result);
	}
	if (found)
		return show(find_view("port"), words[0], options);
	if (n == 2 && find_view(words[1]))
		return cmd_usage("show", "the name comes last: 'ringway show %s %s'", words[1],
				 words[0]);
	hint = nearest_hint(words[0], views, ARRAY_SIZE(views), sizeof(*views));
	if (n == 2)
		return cmd_usage("show", "'%s'%s is none of port, queue, fdb, worker and feature",
				 words[0], hint);
	return cmd_usage("show",
			 "'%s'%s is neither a port of the switch nor one of port, queue, fdb, "
			 "worker and feature",
			 words[0], hint);
}

int cmd_show(int argc, char **argv)
{
	struct cmd_options options;
	const struct view *view;
	int status = cmd_options("show", argc, argv, true, &options);

	if (status != CMD_DONE)
		return status;
	if (options.help) {
		fputs(help, stdout);
		return CMD_DONE;
	}
	if (argc - optind > 2)
		return cmd_usage("show", "'%s' is too much", argv[optind + 2]);
	view = find_view(optind < argc ? argv[optind] : "port");
	if (!view)
		return show_named(argc - optind, argv + optind, &options);
	return show(view, argc - optind == 2 ? argv[optind + 1] : NULL, &options);
}
