// SPDX-License-Identifier: Apache-2.0
/* Parses with the grammar of the configuration file, then asks the switch to do it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "control/command.h"

static const char help_options[] = "\n"
				   "options:\n"
				   "  --control PATH  the switch's control socket\n"
				   "\n";

static const char help_all[] =
	"usage: ringway port add NAME KIND key=value ... [--control PATH]\n"
	"       ringway port del NAME [--control PATH]\n"
	"       ringway port set NAME key=value ... [--control PATH]\n"
	"\n"
	"Changes the ports of a running switch. 'ringway port add --help' lists kinds and keys.\n";

static const char help_add[] =
	"usage: ringway port add NAME KIND key=value ... [--control PATH]\n"
	"\n"
	"Adds a port. NAME: 1 to 31 of A-Za-z0-9_.:- and not beginning with '-'.\n"
	"\n"
	"KIND vhost-user: a virtual machine. One of\n"
	"  listen=PATH   make a socket there, to which the virtual machine connects\n"
	"  connect=PATH  connect to the virtual machine's socket; tried again for ever\n"
	"  fd=N          a connected socket that was inherited ('ringway run' only)\n"
	"and, if wanted,\n"
	"  mode=MODE     of the listening socket, octal; 0600 if not said\n"
	"  group=NAME    of the listening socket, by name or number, e.g. QEMU's\n"
	"  mtu=N         no longer packets than that to and from the port; 0: any\n"
	"  features=-NAME,...  offered to the guest without these: csum, guest_csum, tso,\n"
	"                guest_tso, uso, guest_uso, mrg_rxbuf, mq, indirect_desc, event_idx,\n"
	"                ring_packed, in_order, and what needs them; nothing after the\n"
	"                '=', or all: everything\n"
	"  queue-size-max=N    larger rings are refused; 32768 if not said\n"
	"  finish-csum=on|off  no checksum is left to the guest, whatever it agreed to\n"
	"  memory-max=N        GiB that the guest may have; 1024 if not said, at most 4096\n"
	"  messages-max=N      that are served of the front-end in a second, 8 seconds' of them\n"
	"                at once; 1000 if not said; 0: no limit\n"
	"  log-max=N           lines a second of the log, 10 seconds' of them at once; 1 if not\n"
	"                said, at most 1000; 0: no limit\n"
	"'ringway port set' can change the last seven while the port lives; features= counts\n"
	"from the front-end's next connection on. 'ringway show feature' tells what each of its\n"
	"words takes away.\n"
	"\n"
	"KIND tap: the host, through a tap device. One of\n"
	"  dev=NAME      made and brought up if it is not there, else used as it is\n"
	"  fd=N          an open tap device that was inherited ('ringway run' only)\n"
	"and, if wanted,\n"
	"  queues=N      of the device, 1 to 256; 1 if not said\n"
	"  log-max=N     as above\n";

static const char help_del[] =
	"usage: ringway port del NAME [--control PATH]\n"
	"\n"
	"Deletes a port and its socket. Its virtual machine sees the link go.\n";

static const char help_set[] =
	"usage: ringway port set NAME key=value ... [--control PATH]\n"
	"\n"
	"Changes keys of a port while it lives. Keys that cannot change are refused by name;\n"
	"delete and add the port for those. 'ringway port add --help' lists the keys.\n";

static const char example_add[] =
	"examples:\n"
	"  ringway port add vm1 vhost-user listen=/run/ringway/vm1.sock\n"
	"  ringway port add vm2 vhost-user connect=/run/vm2/net.sock mtu=1500\n"
	"  ringway port add vm3 vhost-user listen=/run/ringway/vm3.sock mode=0660 group=kvm\n"
	"  ringway port add host0 tap dev=tap0\n";

static const char example_del[] = "example:\n  ringway port del vm1\n";
static const char example_set[] = "examples:\n"
				  "  ringway port set vm1 mtu=1500\n"
				  "  ringway port set vm1 features=-tso,-guest_tso\n";

static const struct topic {
	const char *verb, *name, *help, *example;
} topics[] = {
	{ "add", "port add", help_add, example_add },
	{ "del", "port del", help_del, example_del },
	{ "set", "port set", help_set, example_set },
};

/* What the verb is explained by, or NULL. */
static const struct topic *find_topic(const char *verb)
{
	for (unsigned i = 0; verb && i < ARRAY_SIZE(topics); i++) {
		if (!strcmp(topics[i].verb, verb))
			return &topics[i];
	}
	return NULL;
}

static int print_help(const struct topic *topic)
{
	if (topic)
		printf("%s%s%s", topic->help, help_options, topic->example);
	else
		printf("%s%s%s%s%s", help_all, help_options, example_add, strchr(example_del, ' '),
		       strchr(example_set, ' '));
	return CMD_DONE;
}

static json_t *params(const struct command *c)
{
	json_t *options = json_object(), *object;

	for (unsigned i = 0; i < c->n; i++) {
		/* The switch may have been started in another directory. */
		char *value = option_value(&c->options[i]);
		json_t *string = value ? json_string(value) : NULL;

		free(value);
		if (json_object_set_new(options, c->options[i].key, string)) {
			json_decref(options);
			return NULL;
		}
	}
	object = json_pack("{s:s, s:o}", "name", c->name, "options", options);
	if (object && c->kind && json_object_set_new(object, "kind", json_string(c->kind))) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static int call(const struct command *c, const char *control)
{
	static const char *const methods[] = {
		[COMMAND_PORT_ADD] = "port.add",
		[COMMAND_PORT_DEL] = "port.del",
		[COMMAND_PORT_SET] = "port.set",
	};
	json_t *object = params(c), *result;
	int status;

	if (!object)
		return cmd_usage("port", "the arguments are not UTF-8");
	status = cmd_call(control, methods[c->verb], object, &result);
	if (status == CMD_DONE) {
		const char *pending = json_string_value(json_object_get(result, "pending"));

		if (pending && *pending)
			printf("%s: %s\n", c->name, pending);
		json_decref(result);
	}
	return status;
}

int cmd_port(int argc, char **argv)
{
	struct cmd_options options;
	const struct topic *topic;
	struct command command;
	struct error err;
	int status;

	topic = find_topic(argv[1]);
	status = cmd_options(topic ? topic->name : argv[0], argc, argv, false, &options);
	if (status != CMD_DONE)
		return status;
	topic = find_topic(argv[optind]);
	if (options.help)
		return print_help(topic);
	/* getopt has moved the options to the front; the word before the rest becomes "port". */
	argv[--optind] = argv[0];
	if (command_parse(argv + optind, (unsigned)(argc - optind), &command, &err) < 0)
		return cmd_usage(topic ? topic->name : "port", "%s", err.text);
	return call(&command, options.control);
}
