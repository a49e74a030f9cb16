// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "cmd/cmd.h"

static const char help[] =
	"usage: ringway save [--control PATH]\n"
	"\n"
	"Prints the commands that make a switch like the running one, for 'ringway run -f'.\n"
	"\n"
	"options:\n"
	"  --control PATH  the switch's control socket\n"
	"\n"
	"example:\n"
	"  ringway save > saved && mv saved /etc/ringway.conf\n";

int cmd_save(int argc, char **argv)
{
	struct cmd_options options;
	json_t *result;
	int status = cmd_options("save", argc, argv, false, &options);

	if (status != CMD_DONE)
		return status;
	if (options.help) {
		fputs(help, stdout);
		return CMD_DONE;
	}
	if (optind < argc)
		return cmd_usage("save", "'%s' is too much", argv[optind]);
	status = cmd_call(options.control, "save", NULL, &result);
	if (status == CMD_DONE) {
		const char *text = json_string_value(json_object_get(result, "config"));

		fputs(text ? text : "", stdout);
		json_decref(result);
	}
	return status;
}
