// SPDX-License-Identifier: Apache-2.0
/*
 * Makes a configuration of file and command line, checks all of it, and only then runs a switch. A
 * file's errors are told as FILE:LINE, and nothing is started.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "control/config.h"
#include "control/daemon.h"

static const char help[] =
	"usage: ringway run [-f FILE] [--control PATH] [--workers N] [--cpus LIST]\n"
	"                   [--port 'NAME KIND key=value ...'] ... [-v] [-q]\n"
	"\n"
	"Runs a switch in the foreground until SIGINT or SIGTERM.\n"
	"\n"
	"options:\n"
	"  -f, --file FILE   a configuration: 'port add ...' and 'run --workers N' lines\n"
	"  --control PATH    the control socket; if not said, ringway.sock in\n"
	"                    $XDG_RUNTIME_DIR/ringway, /run/ringway or /tmp/ringway-UID\n"
	"  --workers N       threads that move frames; if not said, half of the CPUs, 1 to 4\n"
	"  --cpus LIST       pin them, one CPU each, e.g. 2,3 or 2-5\n"
	"  --port 'PORT'     add a port, as 'ringway port add' does; may be repeated\n"
	"  -v, --verbose     log more\n"
	"  -q, --quiet       log warnings and errors only\n"
	"\n"
	"examples:\n"
	"  ringway run -f /etc/ringway.conf\n"
	"  ringway run --port 'vm1 vhost-user listen=/tmp/vm1.sock' \\\n"
	"              --port 'vm2 vhost-user listen=/tmp/vm2.sock'\n";

struct run {
	struct config config;
	struct run_settings settings; /* of the command line, which has the last word */
	const char *file, *control;
};

static int read_file(struct config *config, const char *path)
{
	FILE *file = fopen(path, "re");
	struct error err;
	unsigned line;
	int r;

	if (!file) {
		fprintf(stderr, "ringway: %s: %s; give a readable file with -f\n", path,
			strerror(errno));
		return CMD_REFUSED;
	}
	r = config_read(config, file, path, &line, &err);
	fclose(file);
	if (r < 0 && line)
		fprintf(stderr, "%s:%u: %s\n", path, line, err.text);
	else if (r < 0)
		fprintf(stderr, "%s: %s\n", path, err.text);
	return r < 0 ? CMD_REFUSED : CMD_DONE;
}

/* One option of the command line; ports are kept for later, since the file's come first. */
static int take_option(struct run *run, int c, char **argv)
{
	struct error err;

	switch (c) {
	case 'f':
		run->file = optarg;
		return CMD_DONE;
	case 'c':
		run->control = optarg;
		return CMD_DONE;
	case 'w':
	case 'p':
		if (run_settings_set(&run->settings, c == 'w' ? "workers" : "cpus", optarg, &err) <
		    0)
			return cmd_usage("run", "%s", err.text);
		return CMD_DONE;
	case 'P':
		if (config_add_port(&run->config, optarg, &err) < 0)
			return cmd_usage("run", "--port '%s': %s", optarg, err.text);
		return CMD_DONE;
	case 'v':
		log_set_level(LOG_DEBUG);
		return CMD_DONE;
	case 'q':
		log_set_level(LOG_WARN);
		return CMD_DONE;
	default:
		return cmd_bad_option("run", argv);
	}
}
