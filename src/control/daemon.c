// SPDX-License-Identifier: Apache-2.0
/*
 * Order is what this file is about.
 *
 * Start: signals first, so that one that comes early is acted upon once all is there and leaves no
 * file behind. The control socket next, since it tells whether another switch is there already;
 * then the pool, without its threads, then ports, so that a queue that comes up finds a worker;
 * then the process gives up the rights that it needed for all that; then threads, which inherit
 * what is left of them; then "ready". Requests that come earlier wait in the socket's backlog until
 * the loop runs.
 *
 * End: the control socket first (nobody may add a port now), ports, workers; then the loop runs
 * until the last handle is closed, and liburcu's callbacks until the last object is freed.
 */
#include "control/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rcu.h"
#include "control/methods.h"
#include "control/notify.h"
#include "guest/sigbus.h"
#include "sandbox/sandbox.h"

#define SECOND_MS   1000
#define WATCHDOG_MS 100
#define END_MS	    500 /* for handles to close; more would be a fault of ours */

struct port *daemon_next_port(struct daemon *d, unsigned *at)
{
	while (*at < d->sw.ports_end) {
		struct port *port = d->sw.ports[(*at)++];

		if (port)
			return port;
	}
	return NULL;
}

static void queue_up(void *ctx, struct port_queue *queue)
{
	struct daemon *d = ctx;

	pool_queue_up(d->pool, queue);
}

static void queue_down(void *ctx, struct port_queue *queue)
{
	struct daemon *d = ctx;

	pool_queue_down(d->pool, queue);
}

static void queue_gone(void *ctx, struct port_queue *queue)
{
	struct daemon *d = ctx;

	pool_queue_gone(d->pool, queue);
}

/* Unlinks and ends a port; its memory goes after a grace period. */
static void port_remove(struct daemon *d, struct port *port)
{
	switch_del(&d->sw, port);
	free(port->options);
	port->options = NULL;
	port->ops->destroy(port);
}

static int port_start(struct port *port, struct error *err)
{
	struct error why = { "" };
	int r = port->ops->start(port, &why);

	if (r < 0)
		return error_set(err, -r, "port '%s': %s", port->name, why.text);
	return 0;
}

/*
 * Landlock knows a directory, or the file of the groups, by what it was when the switch started:
 * one that took its place since is refused, whatever its rights.
 */
static int port_start_later(struct daemon *d, struct port *port, struct error *err)
{
	struct error why;
	int r = port_start(port, &why);

	if (r == -EACCES && !d->confinement.off)
		return error_set(err, EACCES,
				 "%.200s; if its directory was made anew, restart the switch",
				 why.text);
	if (r < 0)
		*err = why;
	return r;
}

/* Two at one socket would be each other's front-ends, or one would wait for the other's end. */
static int check_unused(struct daemon *d, const char *key, const char *path, struct error *err)
{
	struct port *port;

	for (unsigned at = 0; (port = daemon_next_port(d, &at));) {
		if (port->path && !strcmp(port->path, path))
			return error_set(err, EADDRINUSE,
					 "%s=%.107s is port '%s' already; choose another path, or "
					 "delete that port",
					 key, path, port->name);
	}
	return 0;
}

/* What is given at the start says where ports may be; what comes later must keep to that. */
static int check_paths(struct daemon *d, const struct port_option *options, unsigned n,
		       struct error *err)
{
	struct confinement *c = &d->confinement;

	for (unsigned i = 0; i < n; i++) {
		const char *key = options[i].key, *path = options[i].value;

		if (!*path || (strcmp(key, "listen") != 0 && strcmp(key, "connect") != 0))
			continue;
		if (check_unused(d, key, path, err))
			return -EADDRINUSE;
		if (!d->running && dirs_add_of(&c->dirs, path, err))
			return -ENOMEM;
		if (d->running && !c->off && !dirs_hold(&c->dirs, path))
			return error_set(err, EACCES,
					 "%s=%.80s is outside of the directories that the switch "
					 "was started with; name its directory to 'ringway run' "
					 "with --allow-dir",
					 key, path);
	}
	return 0;
}

static int no_more_ports(struct daemon *d, struct error *err)
{
	unsigned max = d->sw.ports_max;

	d->ports_refused++;
	return error_set(err, ENOSPC, "the switch has %u port%s; delete one first%s", max,
			 plural_s(max),
			 max < PORTS_MAX ? ", or start it with a higher --ports-max" : "");
}

/* With its paths as they are in `text`, absolute: what it says of them is read elsewhere. */
static int create_port(struct daemon *d, const struct port_ops *ops, const char *name,
		       const char *text, struct port **ret, struct error *err)
{
	struct port_option options[OPTIONS_MAX];
	struct words words;
	unsigned n;
	int r = options_split(text, &words, options, &n, err);

	if (r < 0)
		return r;
	r = check_paths(d, options, n, err);
	if (r >= 0)
		r = ops->create(&d->env, name, options, n, ret, err);
	words_free(&words);
	return r;
}

int daemon_port_add(struct daemon *d, const char *name, const char *kind,
		    const struct port_option *options, unsigned n, struct error *err)
{
	const struct port_ops *ops = port_kind(kind);
	struct port *port;
	char *text;
	int r;

	if (switch_find(&d->sw, name))
		return error_set(err, EEXIST,
				 "port '%s' is there already; choose another name or delete it",
				 name);
	if (!ops)
		return error_set(err, EINVAL, "there is no kind '%.40s' of port; say one of %s",
				 kind, port_kinds());
	r = options_text(options, n, &text, err);
	if (r < 0)
		return r;
	r = create_port(d, ops, name, text, &port, err);
	if (r < 0) {
		free(text);
		return r;
	}
	port->options = text;
	r = switch_add(&d->sw, port);
	if (r < 0) {
		free(port->options);
		port->options = NULL;
		ops->destroy(port);
		return no_more_ports(d, err);
	}
	if (!d->running)
		return 0;
	r = port_start_later(d, port, err);
	if (r < 0)
		port_remove(d, port);
	else
		log_event(LOG_INFO, &port->log, "added: %s %s", kind, text);
	return r;
}

static int find_port(struct daemon *d, const char *name, struct port **ret, struct error *err)
{
	*ret = switch_find(&d->sw, name);
	if (!*ret)
		return error_set(err, ENOENT, "there is no port '%.40s'; see 'ringway show port'",
				 name);
	return 0;
}

int daemon_port_del(struct daemon *d, const char *name, struct error *err)
{
	struct log_source last = { .name = name };
	struct port *port;
	int r = find_port(d, name, &port, err);

	if (r < 0)
		return r;
	port_remove(d, port);
	if (d->running)
		log_event(LOG_INFO, &last, "deleted");
	return 0;
}

int daemon_port_set(struct daemon *d, const char *name, const struct port_option *options,
		    unsigned n, struct error *err)
{
	struct port *port;
	char *merged;
	int r = find_port(d, name, &port, err);

	if (r < 0)
		return r;
	r = options_merge(port->options, options, n, &merged, err);
	if (r < 0)
		return r;
	r = port->ops->set(port, options, n, err);
	if (r < 0) {
		free(merged);
		return r;
	}
	free(port->options);
	port->options = merged;
	if (d->running)
		log_event(LOG_INFO, &port->log, "set: %s", merged);
	return 0;
}

int daemon_apply(struct daemon *d, const struct command *command, struct error *err)
{
	switch (command->verb) {
	case COMMAND_PORT_ADD:
		return daemon_port_add(d, command->name, command->kind, command->options,
				       command->n, err);
	case COMMAND_PORT_DEL:
		return daemon_port_del(d, command->name, err);
	case COMMAND_PORT_SET:
		return daemon_port_set(d, command->name, command->options, command->n, err);
	}
	return -EINVAL;
}

static const int end_signals[DAEMON_SIGNALS] = { SIGINT, SIGTERM, SIGHUP };

static void on_signal(uv_signal_t *handle, int number)
{
	struct daemon *d = handle->data;

	log_event(LOG_INFO, NULL, "ending on signal %d", number);
	uv_stop(&d->loop);
}

/* Every port looks whether its peer has taken its memory away, or made a worker hang. */
static void check_ports(struct daemon *d, const struct virtq_callee *dear)
{
	struct port *port;

	for (unsigned at = 0; (port = daemon_next_port(d, &at));)
		port->ops->check(port, dear);
}

static void blame(void *ctx, const struct virtq_callee *callee)
{
	struct daemon *d = ctx;

	check_ports(d, callee);
	d->attacked = true;
}

/*
 * While no worker does anything the watchdog sleeps, and looks once a second, in the turn of the
 * other timer: ten times would be most of what an idle switch costs. A worker that then hangs does
 * so for up to a second, which is not to be had again and again. (Workers that wake it before a
 * call cost a wake-up of this thread each time that something comes after a silence: 1.3 to 1.5
 * times the CPU time of the whole switch at one to three frames a second.)
 */
static void on_watchdog(uv_timer_t *timer)
{
	struct daemon *d = timer->data;
	uint64_t done;

	pool_watchdog(d->pool, blame, d);
	done = pool_progress(d->pool);
	if (done == d->progress && !d->attacked)
		uv_timer_stop(timer);
	else if (!uv_is_active((uv_handle_t *)timer))
		uv_timer_start(timer, on_watchdog, WATCHDOG_MS, WATCHDOG_MS);
	d->progress = done;
}

static void on_second(uv_timer_t *timer)
{
	struct daemon *d = timer->data;

	switch_tick(&d->sw, (uint32_t)(clock_ns() / 1000000000u));
	if (d->pool) {
		pool_balance(d->pool);
		if (!uv_is_active((uv_handle_t *)&d->watchdog))
			on_watchdog(&d->watchdog);
	}
	log_tick();
}

static void on_sigbus(uv_poll_t *poll, int status, int events)
{
	struct daemon *d = poll->data;
	uint64_t n;

	if (read(d->sigbus_fd, &n, sizeof(n)) == sizeof(n))
		check_ports(d, NULL);
}

int daemon_open(struct daemon **ret, struct error *err)
{
	struct daemon *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return error_no_memory(err);
	d->env = (struct port_env){ .loop = &d->loop,
				    .ctx = d,
				    .queue_up = queue_up,
				    .queue_down = queue_down,
				    .queue_gone = queue_gone };
	d->sigbus_fd = sigbus_install();
	if (d->sigbus_fd < 0) {
		r = error_set(err, -d->sigbus_fd, "sigbus: %s", strerror(-d->sigbus_fd));
		goto fail;
	}
	r = switch_init(&d->sw);
	if (r < 0) {
		error_no_memory(err);
		goto fail;
	}
	r = uv_loop_init(&d->loop);
	if (r < 0) {
		error_set(err, -r, "event loop: %s", error_reason(-r));
		goto fail_loop;
	}
	rcu_register_thread();
	rcu_offline();
	*ret = d;
	return 0;
fail_loop:
	switch_destroy(&d->sw);
fail:
	free(d);
	return r;
}

/* nohup has it that the end of the terminal is not the switch's. */
static bool wanted(int number)
{
	struct sigaction now;

	return number != SIGHUP || sigaction(number, NULL, &now) || now.sa_handler != SIG_IGN;
}

static void watch_start(struct daemon *d)
{
	for (unsigned i = 0; i < ARRAY_SIZE(d->signals); i++) {
		uv_signal_init(&d->loop, &d->signals[i]);
		d->signals[i].data = d;
		if (wanted(end_signals[i]))
			uv_signal_start(&d->signals[i], on_signal, end_signals[i]);
	}
	uv_timer_init(&d->loop, &d->second);
	uv_timer_init(&d->loop, &d->watchdog);
	uv_poll_init(&d->loop, &d->sigbus, d->sigbus_fd);
	d->second.data = d->watchdog.data = d->sigbus.data = d;
	on_second(&d->second);
	uv_timer_start(&d->second, on_second, SECOND_MS, SECOND_MS);
	uv_timer_start(&d->watchdog, on_watchdog, WATCHDOG_MS, WATCHDOG_MS);
	uv_poll_start(&d->sigbus, UV_READABLE, on_sigbus);
}

static void watch_stop(struct daemon *d)
{
	for (unsigned i = 0; i < ARRAY_SIZE(d->signals); i++)
		uv_close((uv_handle_t *)&d->signals[i], NULL);
	uv_close((uv_handle_t *)&d->second, NULL);
	uv_close((uv_handle_t *)&d->watchdog, NULL);
	uv_close((uv_handle_t *)&d->sigbus, NULL);
}

static int control_open(struct daemon *d, const char *path, struct unix_socket *ret,
			struct error *err)
{
	int r = control_socket_listen(path, ret, err);

	if (r < 0)
		return r;
	return server_open(&d->loop, ret, methods_answer, d, d->control_refused, &d->server, err);
}

void daemon_settings(struct daemon *d, const struct run_settings *said)
{
	d->said = *said;
	d->sw.ports_max = said->ports_max ? said->ports_max : PORTS_MAX;
}

/* What a lack of threads or memory is told as; other errors as they are. */
static int no_room(int r, const struct error *why, struct error *err)
{
	if (r == -EAGAIN || r == -ENOMEM)
		return error_set(err, -r,
				 "cannot start the workers: %s; raise the limits of threads and "
				 "memory (ulimit -u and -v, the service's TasksMax=)",
				 strerror(-r));
	if (r < 0)
		*err = *why;
	return r;
}

static int open_pool(struct daemon *d, unsigned n, struct error *err)
{
	struct error why;
	int r = pool_open(&d->sw, n, d->said.n_cpus ? d->said.cpus : NULL, &d->pool, &why);

	return no_room(r, &why, err);
}

static int confine(struct daemon *d, struct error *err)
{
	struct confinement *c = &d->confinement;
	struct sandbox sandbox = { .dirs = (const char *const *)c->dirs.path,
				   .n_dirs = c->dirs.n,
				   .taps_later = c->taps_later };
	struct error why;
	int r;

	if (c->off) {
		log_event(LOG_WARN, NULL,
			  "--no-sandbox: whoever takes the switch over has all rights of its user: "
			  "capabilities, files and system calls");
		return 0;
	}
	json_object_seed(0); /* reads a file, once */
	r = sandbox_enter(&sandbox, &why);
	if (r == -EMFILE)
		*err = why; /* no fault of this host's, and told with its remedy */
	else if (r)
		error_set(err, -r, "%s; say --no-sandbox to run without", why.text);
	return r;
}

static int start_threads(struct daemon *d, struct error *err)
{
	struct error why;
	int r = rcu_start();

	if (r < 0)
		error_set(&why, -r, "cannot start a thread: %s", strerror(-r));
	else
		r = pool_start(d->pool, d->said.poll == POLL_ALWAYS, &why);
	return no_room(r, &why, err);
}

static int start_ports(struct daemon *d, unsigned *ret_n, struct error *err)
{
	struct port *port;
	unsigned n = 0;
	int r = 0;

	d->running = true;
	for (unsigned at = 0; !r && (port = daemon_next_port(d, &at)); n++) {
		r = port_start(port, err);
		if (r)
			strcpy(d->refused, port->name);
	}
	*ret_n = n;
	return r;
}

static void remove_ports(struct daemon *d)
{
	struct port *port;

	for (unsigned at = 0; (port = daemon_next_port(d, &at));)
		port_remove(d, port);
}

static void reach_manager(void)
{
	int r = notify_open();

	if (r < 0)
		log_event(LOG_WARN, NULL,
			  "the service manager cannot be told that the switch is ready: "
			  "$NOTIFY_SOCKET: %s",
			  strerror(-r));
}

static void serve(struct daemon *d, unsigned n_ports, const char *control)
{
	unsigned workers = pool_workers(d->pool);

	log_event(LOG_INFO, NULL, "ready: %u worker%s, %u port%s, control socket %s", workers,
		  plural_s(workers), n_ports, plural_s(n_ports), control);
	notify_send("READY=1");
	uv_run(&d->loop, UV_RUN_DEFAULT);
	notify_send("STOPPING=1");
}

int daemon_run(struct daemon *d, const char *control, struct error *err)
{
	struct unix_socket socket;
	unsigned workers, n_ports;
	int r = run_settings_workers(&d->said, &workers, err);

	if (r < 0)
		return r;
	watch_start(d);
	reach_manager();
	r = control_open(d, control, &socket, err);
	if (!r)
		r = dirs_add_of(&d->confinement.dirs, socket.path, err);
	if (!r)
		r = open_pool(d, workers, err);
	if (!r)
		r = start_ports(d, &n_ports, err);
	if (!r)
		r = confine(d, err);
	if (!r)
		r = start_threads(d, err);
	if (!r)
		serve(d, n_ports, socket.path);
	server_close(d->server);
	remove_ports(d);
	if (d->pool)
		pool_close(d->pool);
	d->pool = NULL;
	watch_stop(d);
	return r;
}

static void on_deadline(uv_timer_t *timer)
{
	uv_stop(timer->loop);
}

/* Runs the loop until every handle but this one is closed. */
static void drain(struct daemon *d)
{
	uv_timer_t deadline;

	uv_timer_init(&d->loop, &deadline);
	uv_timer_start(&deadline, on_deadline, END_MS, 0);
	uv_unref((uv_handle_t *)&deadline);
	uv_run(&d->loop, UV_RUN_DEFAULT);
	uv_close((uv_handle_t *)&deadline, NULL);
	uv_run(&d->loop, UV_RUN_NOWAIT);
	if (uv_loop_close(&d->loop))
		log_event(LOG_WARN, NULL, "a handle was left open at the end");
}

void daemon_close(struct daemon *d)
{
	remove_ports(d);
	drain(d);
	rcu_drain();
	rcu_unregister_thread();
	switch_destroy(&d->sw);
	dirs_free(&d->confinement.dirs);
	free(d);
}
