// SPDX-License-Identifier: Apache-2.0
/*
 * The control side of a tap port: options, and the life of its queues.
 *
 * Queues are made with the port, opened when it starts and closed when it ends, under the locks
 * that workers hold to use them: the device is let go of at once, so that it can be opened again.
 * Their memory goes after a grace period.
 *
 * A device that comes and goes does so in the kernel: the port stays, and `show` asks the kernel.
 */
#include "port/tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rcu.h"
#include "port/tap_priv.h"

/* Options */

static int mtu_refused(const char *value, struct error *err)
{
	return error_set(
		err, EINVAL,
		"the MTU of a tap port is the device's: say 'ip link set dev NAME mtu %.10s'",
		value);
}

static int unknown_option(const char *key, struct error *err)
{
	return error_set(err, EINVAL,
			 "a tap port has no option '%.40s'; it has dev, queues, fd, log-max", key);
}

static int parse_option(struct tap_port *p, const struct port_option *o, struct error *err)
{
	unsigned v = 0;
	int r;

	if (!strcmp(o->key, "dev")) {
		if (!tap_name_valid(o->value))
			return error_set(err, EINVAL,
					 "dev=%.40s: give 1 to 15 characters, no blank and none of "
					 "/ : %%",
					 o->value);
		p->dev = strdup(o->value);
		return p->dev ? 0 : error_no_memory(err);
	}
	if (!strcmp(o->key, "queues"))
		return port_option_number(o, 10, 1, TAP_QUEUES_MAX, &p->queues, err);
	if (!strcmp(o->key, "fd")) {
		r = port_option_number(o, 10, 3, INT32_MAX, &v, err);
		if (!r)
			p->fd = (int)v;
		return r;
	}
	if (!strcmp(o->key, "log-max"))
		return port_option_log_max(o, &p->port.log.max, err);
	if (!strcmp(o->key, "mtu"))
		return mtu_refused(o->value, err);
	return unknown_option(o->key, err);
}

static int parse_options(struct tap_port *p, const struct port_option *options, unsigned n,
			 struct error *err)
{
	int r = 0;

	for (unsigned i = 0; i < n && !r; i++)
		r = parse_option(p, &options[i], err);
	if (r)
		return r;
	if (!p->dev == (p->fd < 0))
		return error_set(err, EINVAL, "a tap port wants one of dev=NAME and fd=N");
	if (!p->dev && p->queues)
		return error_set(err, EINVAL, "queues= goes with dev=; a descriptor is one queue");
	if (!p->queues)
		p->queues = 1;
	return 0;
}

/* Queues */

static void queue_free(struct tap_queue *q)
{
	pthread_mutex_destroy(&q->in.lock);
	pthread_mutex_destroy(&q->out.lock);
	free(q->in.buffers);
	free(q->out.iov);
	free(q->q.hold);
	free(q);
}

static struct tap_queue *queue_new(struct tap_port *p, unsigned index)
{
	struct tap_queue *q = aligned_alloc(_Alignof(struct tap_queue), sizeof(*q));

	if (!q)
		return NULL;
	memset(q, 0, sizeof(*q));
	q->q.port = &p->port;
	q->q.index = index;
	q->q.kick = q->in.io.fd = q->out.io.fd = -1;
	q->in.want = 1;
	q->in.buffers = malloc((size_t)TAP_IO_MAX * TAP_BUFFER);
	q->out.iov = calloc(TAP_PIECES, sizeof(*q->out.iov));
	pthread_mutex_init(&q->in.lock, NULL);
	pthread_mutex_init(&q->out.lock, NULL);
	if (q->in.buffers && q->out.iov)
		return q;
	queue_free(q);
	return NULL;
}

/* Takes the descriptor over. 0, or why it does without io_uring. */
static int queue_open(struct tap_queue *q, int fd)
{
	const struct port_env *env = q->q.port->env;
	int r, why;

	pthread_mutex_lock(&q->in.lock);
	r = tap_io_open(&q->in.io, fd);
	pthread_mutex_unlock(&q->in.lock);
	pthread_mutex_lock(&q->out.lock);
	why = tap_io_open(&q->out.io, fd);
	pthread_mutex_unlock(&q->out.lock);
	q->q.kick = fd;
	env->queue_up(env->ctx, &q->q);
	return r ? r : why;
}

static void queue_close(struct tap_queue *q)
{
	const struct port_env *env = q->q.port->env;

	if (q->q.kick < 0)
		return;
	env->queue_gone(env->ctx, &q->q);
	pthread_mutex_lock(&q->in.lock);
	tap_io_close(&q->in.io);
	pthread_mutex_unlock(&q->in.lock);
	pthread_mutex_lock(&q->out.lock);
	tap_io_close(&q->out.io);
	pthread_mutex_unlock(&q->out.lock);
	close(q->q.kick);
	q->q.kick = -1;
}

/* Life */

static void port_release(struct rcu_item *item)
{
	struct tap_port *p = tap_port(container_of(item, struct port, rcu));

	for (unsigned i = 0; i < p->queues; i++) {
		if (p->queue[i])
			queue_free(p->queue[i]);
	}
	free(p->dev);
	free(p);
}

static int tap_create(const struct port_env *env, const char *name,
		      const struct port_option *options, unsigned n, struct port **ret,
		      struct error *err)
{
	struct tap_port *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return error_no_memory(err);
	port_init(&p->port, &tap_ops, env, name);
	p->fd = -1;
	r = parse_options(p, options, n, err);
	for (unsigned i = 0; i < p->queues && !r; i++) {
		p->queue[i] = queue_new(p, i);
		if (!p->queue[i])
			r = error_no_memory(err);
	}
	if (r) {
		port_release(&p->port.rcu);
		return r;
	}
	*ret = &p->port;
	return 0;
}

static int tap_start(struct port *port, struct error *err)
{
	struct tap_port *p = tap_port(port);
	int fds[TAP_QUEUES_MAX] = { p->fd };
	bool uso = false;
	int r, why = 0;

	r = p->dev ? tap_open(p->dev, p->queues, fds, &uso, err) : tap_adopt(p->fd, &uso, err);
	if (r)
		return r;
	store_relaxed(&p->features, TAP_FEATURES | (uso ? TAP_FEATURES_USO : 0));
	store_relaxed(&port->receives, true);
	for (unsigned i = 0; i < p->queues; i++) {
		r = queue_open(p->queue[i], fds[i]);
		why = why ? why : r;
	}
	if (why)
		log_event(LOG_WARN, &port->log,
			  "no io_uring (%s): each frame costs a system call; a tap that is added "
			  "later needs --keep-net-admin for it",
			  strerror(-why));
	return 0;
}

static void tap_destroy(struct port *port)
{
	struct tap_port *p = tap_port(port);

	for (unsigned i = 0; i < p->queues; i++)
		queue_close(p->queue[i]);
	port_end(port, port_release);
}

static int cannot_set(const char *key, const char *value, struct error *err)
{
	if (!strcmp(key, "mtu"))
		return mtu_refused(value, err);
	if (strcmp(key, "dev") != 0 && strcmp(key, "queues") != 0 && strcmp(key, "fd") != 0)
		return unknown_option(key, err);
	return error_set(err, EINVAL,
			 "'%.40s' of a tap port cannot change while it lives; delete the port and "
			 "add it again",
			 key);
}

static int tap_set(struct port *port, const struct port_option *options, unsigned n,
		   struct error *err)
{
	unsigned log_max = port->log.max;

	for (unsigned i = 0; i < n; i++) {
		int r;

		if (strcmp(options[i].key, "log-max") != 0)
			return cannot_set(options[i].key, options[i].value, err);
		r = port_option_log_max(&options[i], &log_max, err);
		if (r)
			return r;
	}
	port->log.max = log_max;
	return 0;
}

/* Its peer is the kernel, which neither takes memory away nor lets calls block. */
static void tap_check(struct port *port, const struct virtq_callee *dear)
{
}

const struct port_ops tap_ops = {
	.kind = "tap",
	.always_kicks = true,
	.create = tap_create,
	.start = tap_start,
	.destroy = tap_destroy,
	.set = tap_set,
	.report = tap_report,
	.report_queues = tap_report_queues,
	.check = tap_check,
	.collect = tap_collect,
	.complete = tap_complete,
	.ingress_drop = tap_ingress_drop,
	.ready = tap_ready,
	.arm = tap_arm,
	.disarm = tap_disarm,
	.egress = tap_egress,
};
