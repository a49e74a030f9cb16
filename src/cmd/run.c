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
	"usage: ringway run [-f FILE] [--control PATH] [--workers N] [--cpus LIST] [--poll HOW]\n"
	"                   [--ports-max N] [--port 'NAME KIND key=value ...'] ...\n"
	"                   [--allow-dir DIR] ... [--keep-net-admin] [--no-sandbox] [-v] [-q]\n"
	"\n"
	"Runs a switch in the foreground until SIGINT, SIGTERM or SIGHUP.\n"
	"\n"
	"options:\n"
	"  -f, --file FILE   a configuration: 'port add ...' and 'run --workers N' lines\n"
	"  --control PATH    the control socket; if not said, ringway.sock in\n"
	"                    $XDG_RUNTIME_DIR/ringway, /run/ringway or /tmp/ringway-UID\n"
	"  --workers N       threads that move frames; if not said, half of the CPUs, 1 to 4, and\n"
	"                    no more than a cgroup's limit of CPU time (cpu.max) keeps busy\n"
	"  --cpus LIST       pin them, one CPU each, e.g. 2,3 or 2-5\n"
	"  --poll HOW        adapt (that is it if nothing is said): sleep when that is cheaper;\n"
	"                    always: never sleep, at the price of one CPU for each worker\n"
	"  --ports-max N     how many ports there may be, 1 to 4096; 4096 if not said\n"
	"  --port 'PORT'     add a port, as 'ringway port add' does; may be repeated\n"
	"  --allow-dir DIR   ports may be added later with sockets in DIR; may be repeated. The\n"
	"                    directories of ports given here and of the control socket are "
	"allowed\n"
	"  --keep-net-admin  taps may be added later as well: keep CAP_NET_ADMIN and io_uring\n"
	"  --no-sandbox      keep all rights of the user: capabilities, files, system calls\n"
	"  -v, --verbose     log more\n"
	"  -q, --quiet       log warnings and errors only; of -v and -q the last one counts\n"
	"\n"
	"examples:\n"
	"  ringway run -f /etc/ringway.conf\n"
	"  ringway run --port 'vm1 vhost-user listen=/tmp/vm1.sock' \\\n"
	"              --port 'vm2 vhost-user listen=/tmp/vm2.sock'\n";

struct run {
	struct config config;
	struct run_settings settings; /* of the command line, which has the last word */
	const char *control;
	struct confinement confinement;
};

static int refused_line(const char *source, unsigned line, const struct error *err)
{
	fprintf(stderr, "%s:%u: %s\n", source, line, err->text);
	return CMD_REFUSED;
}

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
	if (r >= 0)
		return CMD_DONE;
	if (line)
		return refused_line(path, line, &err);
	fprintf(stderr, "%s: %s\n", path, err.text);
	return CMD_REFUSED;
}

/* A port that was not quoted ends at its name. */
static int take_port(struct config *config, const char *next)
{
	struct error err;

	if (config_add_port(config, optarg, &err) >= 0)
		return CMD_DONE;
	if (next && *next != '-' && !strchr(optarg, ' '))
		return cmd_usage("run", "--port takes one word; quote the port: --port '%s %s ...'",
				 optarg, next);
	return cmd_usage_of("run", "port add", "--port '%s': %s", optarg, err.text);
}

static int take_setting(struct run *run, const char *key)
{
	struct error err;

	if (run_settings_set(&run->settings, key, optarg, &err) < 0)
		return cmd_usage("run", "%s", err.text);
	return CMD_DONE;
}

/* One option of the command line. Files and ports are commands in the order in which they stand. */
static int take_option(struct run *run, int c, char **argv)
{
	struct error err;

	switch (c) {
	case 'f':
		return read_file(&run->config, optarg);
	case 'c':
		run->control = optarg;
		return CMD_DONE;
	case 'w':
		return take_setting(run, "workers");
	case 'p':
		return take_setting(run, "cpus");
	case 'L':
		return take_setting(run, "poll");
	case 'M':
		return take_setting(run, "ports-max");
	case 'P':
		return take_port(&run->config, argv[optind]);
	case 'd':
		if (dirs_add(&run->confinement.dirs, optarg, &err) < 0)
			return cmd_refused(&err);
		return CMD_DONE;
	case 'k':
		run->confinement.taps_later = true;
		return CMD_DONE;
	case 's':
		run->confinement.off = true;
		return CMD_DONE;
	case 'v':
		log_set_level(LOG_DEBUG);
		return CMD_DONE;
	case 'q':
		log_set_level(LOG_WARN);
		return CMD_DONE;
	default:
		return cmd_bad_option("run", c, argv);
	}
}

static int take_options(struct run *run, int argc, char **argv, bool *ret_help)
{
	static const struct option options[] = {
		{ "file", required_argument, NULL, 'f' },
		{ "control", required_argument, NULL, 'c' },
		{ "workers", required_argument, NULL, 'w' },
		{ "cpus", required_argument, NULL, 'p' },
		{ "poll", required_argument, NULL, 'L' },
		{ "ports-max", required_argument, NULL, 'M' },
		{ "port", required_argument, NULL, 'P' },
		{ "allow-dir", required_argument, NULL, 'd' },
		{ "keep-net-admin", no_argument, NULL, 'k' },
		{ "no-sandbox", no_argument, NULL, 's' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, ":f:vqh", options, NULL)) != -1) {
		int status;

		if (c == 'h') {
			*ret_help = true;
			return CMD_DONE;
		}
		status = take_option(run, c, argv);
		if (status != CMD_DONE)
			return status;
	}
	if (optind < argc)
		return cmd_usage("run", "'%s' is too much; ports are given with --port",
				 argv[optind]);
	return CMD_DONE;
}

/* What the command line says goes before what the file says. */
static void merge_settings(struct run_settings *file, const struct run_settings *line)
{
	if (line->workers)
		file->workers = line->workers;
	if (line->poll)
		file->poll = line->poll;
	if (line->ports_max)
		file->ports_max = line->ports_max;
	if (line->n_cpus) {
		file->n_cpus = line->n_cpus;
		memcpy(file->cpus, line->cpus, sizeof(file->cpus));
		memcpy(file->cpus_text, line->cpus_text, sizeof(file->cpus_text));
	}
}

static void prepare_process(void)
{
	struct rlimit limit;

	/* A front-end that goes away is told by the write's result. */
	signal(SIGPIPE, SIG_IGN);
	/* Every ring takes two descriptors. */
	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static int apply(struct daemon *d, const struct config *config)
{
	struct error err = { "" };

	for (unsigned i = 0; i < config->n; i++) {
		const struct config_command *c = &config->commands[i];

		if (!daemon_apply(d, &c->command, &err))
			continue;
		if (c->line)
			return refused_line(c->source, c->line, &err);
		fprintf(stderr, "ringway: %s %s: %s\n", c->source, c->command.name, err.text);
		return CMD_REFUSED;
	}
	return CMD_DONE;
}

/* What came to light only when all was started. */
static int refused_start(const struct config *config, const char *port, const struct error *err)
{
	const struct config_command *c = config_added(config, port);

	return c && c->line ? refused_line(c->source, c->line, err) : cmd_refused(err);
}

static int run_switch(struct run *run)
{
	struct error err = { "" };
	struct daemon *d;
	int status;

	prepare_process();
	if (daemon_open(&d, &err) < 0)
		return cmd_refused(&err);
	d->confinement = run->confinement;
	run->confinement.dirs = (struct dirs){ .n = 0 }; /* the daemon's now */
	daemon_settings(d, &run->config.settings);
	status = apply(d, &run->config);
	if (status == CMD_DONE && daemon_run(d, run->control, &err) < 0)
		status = refused_start(&run->config, d->refused, &err);
	daemon_close(d);
	return status;
}

int cmd_run(int argc, char **argv)
{
	struct run run = { .control = NULL };
	bool wants_help = false;
	struct error err;
	unsigned workers;
	int status = take_options(&run, argc, argv, &wants_help);

	merge_settings(&run.config.settings, &run.settings);
	if (wants_help)
		fputs(help, stdout);
	else if (status == CMD_DONE &&
		 run_settings_workers(&run.config.settings, &workers, &err) < 0)
		status = cmd_usage("run", "%s", err.text);
	else if (status == CMD_DONE)
		status = run_switch(&run);
	config_free(&run.config);
	dirs_free(&run.confinement.dirs);
	return status;
}
