// SPDX-License-Identifier: Apache-2.0
/* Finds the subcommand and hands over to it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/inherit.h"
#include "base/nearest.h"
#include "cmd/cmd.h"

struct subcommand {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
};

static const struct subcommand subcommands[] = {
	{ "run", cmd_run, "run a switch in the foreground" },
	{ "port", cmd_port, "add, delete or change a port of a running switch" },
	{ "show", cmd_show, "show ports, queues, addresses, workers or features" },
	{ "save", cmd_save, "print the running state as a configuration file" },
	{ "bench", cmd_bench, "measure a switch with guests of its own" },
	{ "conform", cmd_conform,
	  "try any vhost-user back-end by the letter of the specification" },
	{ "version", cmd_version, "print the version" },
};

static void print_help(FILE *out)
{
	fputs("usage: ringway COMMAND ...\n\n"
	      "A switch for virtual machines: vhost-user ports, one copy from guest to guest.\n\n"
	      "commands:\n",
	      out);
	for (unsigned i = 0; i < ARRAY_SIZE(subcommands); i++)
		fprintf(out, "  %-8s  %s\n", subcommands[i].name, subcommands[i].summary);
	fputs("\n"
	      "'ringway COMMAND --help' explains a command, with examples. Exit status: 0 done,\n"
	      "1 refused, 2 wrong usage, 3 no switch answers.\n",
	      out);
}

static int run_subcommand(int argc, char **argv)
{
	for (unsigned i = 0; i < ARRAY_SIZE(subcommands); i++) {
		if (!strcmp(argv[0], subcommands[i].name))
			return subcommands[i].run(argc, argv);
	}
	if (argv[0][0] == '-') {
		fprintf(stderr,
			"ringway: '%s' comes before the command; options go after it; "
			"see 'ringway --help'\n",
			argv[0]);
		return CMD_USAGE;
	}
	fprintf(stderr, "ringway: unknown command '%s'%s; see 'ringway --help'\n", argv[0],
		nearest_hint(argv[0], subcommands, ARRAY_SIZE(subcommands), sizeof(*subcommands)));
	return CMD_USAGE;
}

int main(int argc, char **argv)
{
	static char version[] = "version", help[] = "--help";
	int status;

	inherit_note();
	/* A file that may not grow any more is told by the write's result, of a log as well. */
	signal(SIGXFSZ, SIG_IGN);
	if (argc < 2) {
		print_help(stderr);
		return CMD_USAGE;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))
		argv[1] = version;
	if (argc > 2 && !strcmp(argv[1], "help")) { /* 'help port add' is 'port add --help' */
		memmove(&argv[1], &argv[2], (size_t)(argc - 2) * sizeof(*argv));
		argv[argc - 1] = help;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		print_help(stdout);
		status = CMD_DONE;
	} else {
		opterr = 0; /* the subcommands explain themselves, in one line */
		status = run_subcommand(argc - 1, argv + 1);
	}
	if ((fflush(stdout) || ferror(stdout)) && status == CMD_DONE) {
		fprintf(stderr, "ringway: cannot write the output: %s\n", strerror(errno));
		return CMD_REFUSED;
	}
	return status;
}
