// SPDX-License-Identifier: Apache-2.0
/*
 * A configuration file of any content: it is refused with a reason, or its ports are made, and what
 * `save` writes of them makes the same ports once more. Nothing is opened: ports are not started.
 * Input: the file.
 */
#include <string.h>

#include "control_rig.h"

#include "control/config.h"
#include "control/report.h"
#include "fuzz.h"

/* Reads a configuration and does what it says. False if it is refused. */
static bool apply(struct daemon *d, const void *text, size_t size)
{
	struct config config = { .n = 0 };
	FILE *file = size ? fmemopen((void *)text, size, "r") : NULL;
	struct error err = { "" };
	unsigned line = 0;
	int r;

	if (!file)
		return false;
	r = config_read(&config, file, "fuzz", &line, &err);
	fclose(file);
	for (unsigned i = 0; !r && i < config.n; i++) {
		if (rig_harmless(&config.commands[i].command))
			r = daemon_apply(d, &config.commands[i].command, &err);
	}
	fuzz_check(!r == !*err.text && r <= 0);
	fuzz_check(!strchr(err.text, '\n'));
	config_free(&config);
	return !r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct daemon *d = rig_daemon();
	char *saved, *again;

	apply(d, data, size);
	saved = report_config(d);
	fuzz_check(saved);
	rig_clear(d);
	fuzz_check(apply(d, saved, strlen(saved)) || !*saved);
	again = report_config(d);
	fuzz_check(again && !strcmp(saved, again));
	free(saved);
	free(again);
	rig_clear(d);
	return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *data)
{
	static const char *const seeds[] = {
		"# a file\nrun workers=2 cpus=0-1\nport add vm vhost-user listen=/tmp/a mtu=1500\n"
		"port set vm mtu=9000\nport add host tap dev=tap0\nport del host\n",
		"port add 'a b' vhost-user connect=\"/tmp/with \\\"quotes\\\"\" mode=0660\n",
		"port add up tap dev=%d queues=4 \\\nport add p vhost-user listen=/x group=0 "
		"offloads=none\n",
		"run cpus=1,3-5\nrun workers=0\nport add \xff\xfe vhost-user listen=\t'\n",
	};

	if (i >= ARRAY_SIZE(seeds))
		return 0;
	memcpy(data, seeds[i], strlen(seeds[i]));
	return strlen(seeds[i]);
}
