/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running switch: it owns the event loop, the learning switch, the pool of workers and the
 * ports, and is what the control socket's methods act on.
 *
 * Life: daemon_open(); ports are made by daemon_port_*(); daemon_run() starts all of it, serves,
 * and returns when a signal has ended it; daemon_close(). Until daemon_run() nothing is visible
 * from outside and no worker runs, so a configuration that proves bad leaves no trace. One thread,
 * the control thread, which is registered with liburcu and offline. `confinement` is filled in,
 * and daemon_settings() called if anything was said, between the first two.
 */
#ifndef RINGWAY_CONTROL_DAEMON_H
#define RINGWAY_CONTROL_DAEMON_H

#include <uv.h>

#include "control/command.h"
#include "control/dirs.h"
#include "control/refusal.h"
#include "control/server.h"
#include "port/port.h"
#include "switch/switch.h"
#include "worker/pool.h"

#define DAEMON_SIGNALS 3 /* that end it */

/* How the process is confined when all that was given at its start is there (sandbox/sandbox.h). */
struct confinement {
	bool off;	  /* not at all */
	bool taps_later;  /* taps may be added while it runs */
	struct dirs dirs; /* where ports may be added; those of sockets given at the start join */
};

struct daemon {
	uv_loop_t loop;
	uv_signal_t signals[DAEMON_SIGNALS];
	uv_timer_t second, watchdog;
	uv_poll_t sigbus;
	uint64_t progress; /* of the workers, at the watchdog's last look */
	bool attacked;	   /* it has had a session ended for its calls, ever */
	int sigbus_fd;
	bool running;			 /* ports are started as they are added */
	char refused[PORT_NAME_MAX + 1]; /* the port that could not be started, or "" */

	struct vswitch sw;
	struct pool *pool; /* NULL until daemon_run() */
	struct port_env env;
	struct server *server;

	uint64_t ports_refused; /* for there may be no more of them */
	uint64_t control_refused[CONTROL_REFUSAL_COUNT];
	struct run_settings said; /* by whoever started it */
	struct confinement confinement;
};

/* One a process. 0 or a negative errno with `err` filled. */
int daemon_open(struct daemon **ret, struct error *err);
void daemon_close(struct daemon *d);

/* What whoever starts it says. */
void daemon_settings(struct daemon *d, const struct run_settings *said);

/*
 * Each is 0 or a negative errno with `err` filled, and then nothing has changed: EEXIST or ENOENT
 * (there is, or is no, port of that name), EINVAL (no such kind, key or value), or what the port
 * says.
 */
int daemon_port_add(struct daemon *d, const char *name, const char *kind,
		    const struct port_option *options, unsigned n, struct error *err);
int daemon_port_del(struct daemon *d, const char *name, struct error *err);
int daemon_port_set(struct daemon *d, const char *name, const struct port_option *options,
		    unsigned n, struct error *err);
int daemon_apply(struct daemon *d, const struct command *command, struct error *err);

/*
 * Serves until SIGINT, SIGTERM or SIGHUP. `control`: the socket's path, NULL: the default. 0 after
 * a clean end, or a negative errno with `err` filled if it could not start; if that is a port's
 * fault, `refused` is its name.
 */
int daemon_run(struct daemon *d, const char *control, struct error *err);

/* The next port at or after index *at, which then moves behind it; NULL: there is none. */
struct port *daemon_next_port(struct daemon *d, unsigned *at);

#endif
