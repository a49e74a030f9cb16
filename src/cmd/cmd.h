/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands of the one binary. Each is a file with one function, which gets an argv that
 * begins with the subcommand's own name and returns an exit status.
 */
#ifndef RINGWAY_CMD_CMD_H
#define RINGWAY_CMD_CMD_H

#include <getopt.h>
#include <jansson.h>

#include "base/error.h"

enum cmd_status {
	CMD_DONE = 0,
	CMD_REFUSED = 1,   /* one line on stderr says why and what to do */
	CMD_USAGE = 2,	   /* the command line is wrong */
	CMD_NO_SWITCH = 3, /* no switch answers at the control socket */
};

int cmd_run(int argc, char **argv);
int cmd_port(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_save(int argc, char **argv);
int cmd_version(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_conform(int argc, char **argv);

/* Prints "ringway NAME: text; see 'ringway NAME --help'" and returns CMD_USAGE. */
int cmd_usage(const char *name, const char *fmt, ...) printf_like(2, 3);
/* The same, of what another command's help explains: "see 'ringway TOPIC --help'". */
int cmd_usage_of(const char *name, const char *topic, const char *fmt, ...) printf_like(3, 4);

/* The same of an option for which getopt_long() returned `how`, '?' or ':'; opterr is 0. */
int cmd_bad_option(const char *name, int how, char **argv);

struct cmd_options {
	const char *control; /* NULL: the default */
	bool json, help;
};

/*
 * Takes the options of the command `name` that speaks to a running switch: --control, --help, and
 * --json if it `has_json`. CMD_DONE, with the other words from argv[optind] on, or CMD_USAGE.
 */
int cmd_options(const char *name, int argc, char **argv, bool has_json, struct cmd_options *ret);

/* Prints an error and returns CMD_REFUSED. */
int cmd_refused(const struct error *err);

/*
 * Calls a method of the running switch with `params` (taken over; NULL: none). CMD_DONE with a new
 * reference in *ret_result, or prints why not and returns CMD_REFUSED or CMD_NO_SWITCH.
 */
int cmd_call(const char *control, const char *method, json_t *params, json_t **ret_result);

#endif
