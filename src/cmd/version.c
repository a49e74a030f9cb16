// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"

static const char help[] = "usage: ringway version\n"
			   "\n"
			   "Prints the version, as 'ringway --version' does.\n"
			   "\n"
			   "example:\n"
			   "  ringway version\n";

int cmd_version(int argc, char **argv)
{
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		fputs(help, stdout);
		return CMD_DONE;
	}
	if (argc > 1)
		return cmd_usage("version", "'%s' is too much", argv[1]);
	puts("ringway " RINGWAY_VERSION);
	return CMD_DONE;
}
