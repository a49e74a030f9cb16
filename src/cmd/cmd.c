// SPDX-License-Identifier: Apache-2.0
#include "cmd/cmd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "control/client.h"

static void usage(const char *name, const char *topic, const char *fmt, va_list args)
{
	fprintf(stderr, "ringway %s: ", name);
	vfprintf(stderr, fmt, args);
	fprintf(stderr, "; see 'ringway %s --help'\n", topic);
}

int cmd_usage(const char *name, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	usage(name, name, fmt, args);
	va_end(args);
	return CMD_USAGE;
}

int cmd_usage_of(const char *name, const char *topic, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	usage(name, topic, fmt, args);
	va_end(args);
	return CMD_USAGE;
}

int cmd_bad_option(const char *name, int how, char **argv)
{
	/* A short option may hide in a cluster; then getopt has not moved on, but names it. */
	const char *word = argv[optind - 1];

	if (optopt && word[0] == '-' && word[1] == '-')
		return cmd_usage(name,
				 strchr(word, '=') ? "option '%s' takes no value"
						   : "option '%s' needs a value after it",
				 word);
	if (optopt && how == ':')
		return cmd_usage(name, "option '-%c' needs a value after it", optopt);
	if (optopt)
		return cmd_usage(name, "unknown option '-%c'", optopt);
	return cmd_usage(name, "unknown option '%s'", word);
}

int cmd_options(const char *name, int argc, char **argv, bool has_json, struct cmd_options *ret)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' }, /* first, to be left out */
		{ "control", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	*ret = (struct cmd_options){ .control = NULL };
	while ((c = getopt_long(argc, argv, "h", options + !has_json, NULL)) != -1) {
		switch (c) {
		case 'c':
			ret->control = optarg;
			break;
		case 'j':
			ret->json = true;
			break;
		case 'h':
			ret->help = true;
			break;
		default:
			return cmd_bad_option(name, c, argv);
		}
	}
	return CMD_DONE;
}

int cmd_refused(const struct error *err)
{
	fprintf(stderr, "ringway: %s\n", err->text);
	return CMD_REFUSED;
}

int cmd_call(const char *control, const char *method, json_t *params, json_t **ret_result)
{
	struct error err = { "" };
	int r = client_call(control, method, params, ret_result, &err);

	if (r < 0)
		cmd_refused(&err);
	if (r == -EREMOTEIO)
		return CMD_REFUSED;
	return r < 0 ? CMD_NO_SWITCH : CMD_DONE;
}
