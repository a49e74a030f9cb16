/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A configuration: the commands of a file (one a line) and those of the command line's --port, each
 * with the place it came from. Reading one starts nothing. Control thread.
 */
#ifndef RINGWAY_CONTROL_CONFIG_H
#define RINGWAY_CONTROL_CONFIG_H

#include <stdio.h>

#include "control/command.h"
#include "control/words.h"

struct config_command {
	struct command command;
	struct words words; /* what it points into */
	const char *source; /* file's name or "--port"; the caller's, who keeps it */
	unsigned line;	    /* 0: not from a file */
};

struct config {
	struct run_settings settings;
	unsigned n;
	unsigned ports; /* that there are after all commands */
	struct config_command *commands;
};

/*
 * Adds the commands of `file`. On failure `err` says what is wrong and *ret_line where (0: the
 * whole file); what was read so far stays in the configuration.
 */
int config_read(struct config *config, FILE *file, const char *source, unsigned *ret_line,
		struct error *err);

/* Adds a port from the text after --port: "NAME KIND key=value ...". */
int config_add_port(struct config *config, const char *text, struct error *err);

/* The command that has added `name` and was not undone since, or NULL. */
const struct config_command *config_added(const struct config *config, const char *name);

void config_free(struct config *config);

#endif
