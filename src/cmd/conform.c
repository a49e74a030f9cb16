// SPDX-License-Identifier: Apache-2.0
/* `ringway conform`: the conformance kit (src/conform) against whatever back-end. */
#include "conform/conform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "cmd/cmd.h"

static const char help[] =
	"usage: ringway conform --connect PATH [--connect PATH2] [options] [-- COMMAND ...]\n"
	"       ringway conform --listen PATH ...\n"
	"       ringway conform --list\n"
	"\n"
	"Plays front-end and guest at a vhost-user network back-end, of whatever program, and "
	"tells\n"
	"case by case whether it keeps to virtio 1.3 and to QEMU's vhost-user document, and "
	"whether\n"
	"it outlives what breaks them. With two sockets, between whose ports the back-end "
	"forwards,\n"
	"frames are looked at as well. Use it on a back-end that serves nobody else: it may "
	"crash.\n"
	"\n"
	"options:\n"
	"  --connect PATH  a socket at which the back-end listens\n"
	"  --listen PATH   a socket to which it connects, in place of --connect\n"
	"  --case NAME     this case only\n"
	"  --timeout S     how long to wait for what must happen (10)\n"
	"  --log FILE      where the COMMAND's output goes (nowhere)\n"
	"  --json          one JSON object in place of a table\n"
	"  --list          print the cases and end\n"
	"  -- COMMAND ...  start the back-end, and again when it has crashed\n"
	"\n"
	"Exit status: 0 all that applies passed, 1 something failed or the back-end crashed.\n"
	"\n"
	"examples:\n"
	"  ringway conform --connect /tmp/vm1.sock --connect /tmp/vm2.sock\n"
	"  ringway conform --connect /tmp/p.sock -- passt -f --vhost-user -s /tmp/p.sock\n";

struct report {
	bool json;
	json_t *rows;
	unsigned n[CONFORM_VERDICTS];
};

/* The width of the column of names. */
static int name_width(void)
{
	size_t width = 0;

	for (unsigned i = 0; i < conform_cases_count; i++)
		width = MAX(width, strlen(conform_cases[i].name));
	return (int)width;
}

static int clause_width(void)
{
	size_t width = 0;

	for (unsigned i = 0; i < conform_cases_count; i++)
		width = MAX(width, strlen(conform_cases[i].clause));
	return (int)width;
}

static void list_cases(void)
{
	for (unsigned i = 0; i < conform_cases_count; i++)
		printf("%-*s  %-*s  %s\n", name_width(), conform_cases[i].name, clause_width(),
		       conform_cases[i].clause, conform_cases[i].what);
}

/* As they come, since it takes a while. */
static void take_result(const struct conform_result *r, void *arg)
{
	struct report *report = arg;
	const char *verdict = conform_verdict_name(r->verdict);

	report->n[r->verdict]++;
	if (report->json)
		json_array_append_new(report->rows,
				      json_pack("{s:s s:s s:s s:s s:s s:s s:f}", "case", r->c->name,
						"format", r->format, "clause", r->c->clause, "what",
						r->c->what, "result", verdict, "text", r->text,
						"seconds", r->seconds));
	else
		printf("%-*s  %-6s  %-*s  %s%s%s\n", name_width(), r->c->name, r->format,
		       clause_width(), r->c->clause, verdict, r->text[0] ? ": " : "", r->text);
	fflush(stdout);
}

static void print_summary(const struct report *report)
{
	json_t *summary = json_object();

	for (unsigned i = 0; i < CONFORM_VERDICTS; i++) {
		const char *name = conform_verdict_name((enum conform_verdict)i);

		if (report->json)
			json_object_set_new(summary, name, json_integer(report->n[i]));
		else
			printf("%s%u %s", i ? ", " : "", report->n[i], name);
	}
	if (report->json) {
		json_t *all = json_pack("{s:o s:o}", "cases", report->rows, "summary", summary);

		json_dumpf(all, stdout, JSON_COMPACT);
		json_decref(all);
	} else {
		json_decref(summary);
	}
	putchar('\n');
}

static int add_path(struct conform_config *c, bool listen)
{
	if (c->ports && c->listen != listen)
		return cmd_usage("conform", "--connect and --listen do not go together");
	if (c->ports == CONFORM_PORTS_MAX)
		return cmd_usage("conform", "'%s' is one socket too many", optarg);
	if (c->ports && !strcmp(c->path[0], optarg))
		return cmd_usage("conform", "'%s' is given twice; say it once", optarg);
	c->listen = listen;
	c->path[c->ports++] = optarg;
	return CMD_DONE;
}

static int take_timeout(struct conform_config *c)
{
	char *end;
	double s = strtod(optarg, &end);

	if (!*optarg || *end || !(s >= 0.1 && s <= 600))
		return cmd_usage("conform", "--timeout '%s': seconds from 0.1 to 600 are needed",
				 optarg);
	c->timeout_ms = (int)(s * 1000);
	return CMD_DONE;
}

static int take_case(struct conform_config *c)
{
	c->only = optarg;
	for (unsigned i = 0; i < conform_cases_count; i++) {
		if (!strcmp(conform_cases[i].name, optarg))
			return CMD_DONE;
	}
	return cmd_usage("conform", "there is no case '%s'%s; --list prints them", optarg,
			 nearest_hint(optarg, conform_cases, conform_cases_count,
				      sizeof(conform_cases[0])));
}

static int take_option(struct conform_config *c, struct report *report, int o, char **argv)
{
	switch (o) {
	case 'c':
	case 'l':
		return add_path(c, o == 'l');
	case 'n':
		return take_case(c);
	case 't':
		return take_timeout(c);
	case 'o':
		c->log = optarg;
		return CMD_DONE;
	case 'j':
		report->json = true;
		return CMD_DONE;
	default:
		return cmd_bad_option("conform", o, argv);
	}
}

static int run(const struct conform_config *c, struct report *report)
{
	struct error err;

	report->rows = json_array();
	if (conform_run(c, take_result, report, &err)) {
		json_decref(report->rows);
		return cmd_refused(&err);
	}
	print_summary(report);
	if (!report->json)
		json_decref(report->rows);
	return report->n[CONFORM_FAILED] + report->n[CONFORM_CRASHED] + report->n[CONFORM_NOT_RUN]
		       ? CMD_REFUSED
		       : CMD_DONE;
}

int cmd_conform(int argc, char **argv)
{
	static const struct option options[] = {
		{ "connect", 1, NULL, 'c' }, { "listen", 1, NULL, 'l' }, { "case", 1, NULL, 'n' },
		{ "timeout", 1, NULL, 't' }, { "log", 1, NULL, 'o' },	 { "json", 0, NULL, 'j' },
		{ "list", 0, NULL, 'L' },    { "help", 0, NULL, 'h' },	 { NULL, 0, NULL, 0 },
	};
	struct conform_config c = { .timeout_ms = 10000 };
	struct report report = { .json = false };
	int o;

	while ((o = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
		int status;

		if (o == 'h' || o == 'L') {
			if (o == 'h')
				fputs(help, stdout);
			else
				list_cases();
			return CMD_DONE;
		}
		status = take_option(&c, &report, o, argv);
		if (status)
			return status;
	}
	if (optind < argc && strcmp(argv[optind - 1], "--") != 0)
		return cmd_usage("conform",
				 "'%s' is too much; a socket is given with --connect or --listen",
				 argv[optind]);
	if (optind < argc)
		c.command = &argv[optind];
	if (!c.ports)
		return cmd_usage("conform", "a socket is needed: --connect PATH");
	return run(&c, &report);
}
