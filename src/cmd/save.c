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
	"  ringway save > /etc/ringway.conf\n";

int cmd_save(int argc, char **argv)
{
	static const struct option options[] = {
		{ "control", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *control = NULL;
	json_t *result;
	int c, status;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			control = optarg;
			break;
		case 'h':
			fputs(help, stdout);
			return CMD_DONE;
		default:
			return cmd_bad_option("save", argv);
		}
	}
	if (optind < argc)
		return cmd_usage("save", "'%s' is too much", argv[optind]);
	status = cmd_call(control, "save", NULL, &result);
	if (status == CMD_DONE) {
		const char *text = json_string_value(json_object_get(result, "config"));

		fputs(text ? text : "", stdout);
		json_decref(result);
	}
	return status;
}
