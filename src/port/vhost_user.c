// SPDX-License-Identifier: Apache-2.0
/*
 * The control side of a vhost-user port: options, sessions, and which rings workers see.
 *
 * The device tells of every ring that changes. A tx ring that processes becomes a queue that some
 * worker owns; the rx rings that process become the set that egress chooses from. Both are changed
 * here first and freed a grace period later; what a ring itself is doing is settled by its lock.
 */
#include "port/vhost_user.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rcu.h"
#include "port/vhost_user_priv.h"

static struct vhost_user_port *port_of_device(struct vhost_device *dev)
{
	return container_of(dev, struct vhost_user_port, dev);
}

/* Rings */

static void rx_set_release(struct rcu_item *item)
{
	free(container_of(item, struct rx_set, rcu));
}

static void find_rx(const struct vhost_device *dev, struct rx_set *set)
{
	for (unsigned i = 0; i < dev->rings; i += 2) {
		struct vhost_ring *ring = dev->ring[i];

		if (!ring || virtq_state(&ring->vq) != VIRTQ_RUNNING)
			continue;
		set->ring[i / 2] = &ring->vq;
		set->pairs.receives[i / 2] = true;
		set->pairs.pair[set->pairs.n++] = (uint8_t)(i / 2);
	}
}

static bool same_rx(const struct rx_set *a, const struct rx_set *b)
{
	return a->pairs.n == b->pairs.n && !memcmp(a->ring, b->ring, sizeof(a->ring));
}

static void rx_changed(struct vhost_user_port *p)
{
	static const struct rx_set none;
	struct rx_set *before = p->rx, *set = NULL, found = none;

	find_rx(&p->dev, &found);
	/* A front-end that starts rings over and over must not pile up sets. */
	if (same_rx(&found, before ? before : &none))
		return;
	if (found.pairs.n) {
		set = malloc(sizeof(*set));
		if (!set) {
			log_event(LOG_ERROR, &p->port.log, "no memory for its receive queues");
			return;
		}
		*set = found;
	}
	rcu_publish(p->rx, set);
	store_relaxed(&p->port.receives, set != NULL);
	if (before)
		rcu_free_later(&before->rcu, rx_set_release);
}

static struct vhost_user_queue *queue_of(struct vhost_user_port *p, struct vhost_ring *tx)
{
	unsigned pair = tx->index / 2;
	struct vhost_user_queue *q = p->queue[pair];

	if (q)
		return q;
	q = aligned_alloc(_Alignof(struct vhost_user_queue), sizeof(*q));
	if (!q)
		return NULL;
	memset(q, 0, sizeof(*q));
	q->q.port = &p->port;
	q->q.index = pair;
	q->q.kick = -1;
	q->tx = &tx->vq;
	p->queue[pair] = q;
	return q;
}

static void tx_changed(struct vhost_user_port *p, struct vhost_ring *ring)
{
	const struct port_env *env = p->port.env;
	struct vhost_user_queue *q = queue_of(p, ring);
	bool active = virtq_active(virtq_state(&ring->vq));

	if (!q) {
		log_event(LOG_ERROR, &p->port.log, "no memory for its transmit queue");
		return;
	}
	if (q->q.served && (!active || q->q.kick != ring->kick))
		env->queue_down(env->ctx, &q->q);
	q->q.kick = ring->kick;
	if (active && !q->q.served)
		env->queue_up(env->ctx, &q->q);
}

/* The pair's, or any other that some worker serves; NULL: there is none. */
static struct vhost_user_queue *served_queue(struct vhost_user_port *p, unsigned pair)
{
	for (unsigned i = 0; i < VHOST_PAIRS_MAX; i++) {
		struct vhost_user_queue *q = p->queue[(pair + i) % VHOST_PAIRS_MAX];

		if (q && q->q.served)
			return q;
	}
	return NULL;
}

/*
 * Whatever was published to these rings by an earlier session, or before this call descriptor came,
 * may never have been called. A worker calls once, to be sure. A guest that only receives has none:
 * it is called with the next frame.
 */
static void call_once(struct vhost_user_port *p, unsigned pair)
{
	struct vhost_user_queue *q = served_queue(p, pair);

	if (!q)
		return;
	store_release(&q->fresh, 1u); /* partner: vhost_user_collect() */
	p->port.env->queue_up(p->port.env->ctx, &q->q);
}

/* Tells the log when the guest's network begins and ceases to work. */
static void log_up(struct vhost_user_port *p)
{
	bool up = device_pairs_up(&p->dev) > 0;
	char names[256];

	if (up == p->was_up)
		return;
	p->was_up = up;
	if (!up) {
		log_event(LOG_INFO, &p->port.log, "down: none of the guest's queues is up");
		return;
	}
	p->last_error[0] = '\0'; /* of a session before: it does not matter any more */
	features_text(p->dev.features, names, sizeof(names));
	log_event(LOG_INFO, &p->port.log, "up: %s", names);
}

/* All rings of a guest lose their places together: one line is enough. */
static void log_lost(struct vhost_user_port *p, const struct vhost_ring *ring)
{
	int broken = device_broken_ring(&p->dev);

	if (ring->vq.lost && broken == (int)ring->index)
		log_event(LOG_WARN, &p->port.log, VHOST_USER_RING_LOST, broken);
}

static void ring_changed(struct vhost_device *dev, struct vhost_ring *ring)
{
	struct vhost_user_port *p = port_of_device(dev);

	if (ring->index & 1)
		tx_changed(p, ring);
	else
		rx_changed(p);
	call_once(p, ring->index / 2);
	log_up(p);
	log_lost(p, ring);
}

/* Sessions */

static bool endpoint_ready(void *ctx)
{
	struct vhost_user_port *p = ctx;

	return foreign_pending(p->dev.foreign) <= FOREIGN_MAX;
}

static void on_session_ended(void *ctx, const char *reason)
{
	struct vhost_user_port *p = ctx;

	p->session = NULL;
	if (reason[0])
		snprintf(p->last_error, sizeof(p->last_error), "%s", reason);
	if (p->harmful)
		endpoint_pause(p->endpoint,
			       "waiting for a moment, since the last session has harmed others");
	else if (!endpoint_ready(p))
		endpoint_pause(p->endpoint,
			       "waiting until descriptors that the last front-end sent have "
			       "closed; end whoever serves their files");
	else
		endpoint_resume(p->endpoint);
	p->harmful = false;
}

static void endpoint_connected(void *ctx, int fd)
{
	struct vhost_user_port *p = ctx;
	struct error err;

	p->sent_before = vhost_user_sent(p);
	if (session_start(p->port.env->loop, fd, &p->dev, &p->port.log, on_session_ended, p,
			  &p->session, &err)) {
		foreign_hang_up(&p->dev.foreign, fd);
		on_session_ended(p, err.text);
	}
}

static void endpoint_waiting(void *ctx, const char *text)
{
	struct vhost_user_port *p = ctx;

	snprintf(p->waiting, sizeof(p->waiting), "%s", text);
}

/*
 * The usual reason: two virtual machines were given one socket. Whether the second is still there
 * is not to be seen until its turn has come.
 */
static void endpoint_another(void *ctx)
{
	struct vhost_user_port *p = ctx;

	snprintf(p->last_error, sizeof(p->last_error),
		 "another front-end has connected too, and gets its turn when this one is gone; "
		 "give each its own port and socket");
	log_event(LOG_WARN, &p->port.log, "%s", p->last_error);
}

static const struct endpoint_hooks endpoint_hooks = {
	.connected = endpoint_connected,
	.waiting = endpoint_waiting,
	.another = endpoint_another,
	.ready = endpoint_ready,
};

/* Options */

static int parse_group(const struct port_option *o, gid_t *ret, struct error *err)
{
	const struct group *group;
	unsigned gid = 0;
	int why;

	errno = 0;
	group = getgrnam(o->value);
	why = errno;
	if (group) {
		*ret = group->gr_gid;
		return 0;
	}
	if (!port_option_number(o, 10, 0, UINT32_MAX - 1, &gid, err)) {
		*ret = (gid_t)gid;
		return 0;
	}
	/* A file that was written anew since the start is refused (sandbox/landlock.c). */
	if (why == EACCES)
		return error_set(
			err, EACCES,
			"group=%.80s: /etc/group may not be read any more; give the number "
			"that 'getent group %.80s' tells",
			o->value, o->value);
	return error_set(err, EINVAL,
			 "group=%.80s: no such group; say one of 'getent group', or a "
			 "number up to %u",
			 o->value, UINT32_MAX - 1);
}

static int copy_path(const char **to, const char *value, struct error *err)
{
	free((char *)*to);
	*to = strdup(value);
	return *to ? 0 : error_no_memory(err);
}

static int unknown_option(const char *key, struct error *err)
{
	return error_set(err, EINVAL,
			 "a vhost-user port has no option '%.40s'; it has listen, connect, fd, "
			 "mode, group, mtu, features, queue-size-max, finish-csum, memory-max, "
			 "messages-max, log-max",
			 key);
}

static int parse_mtu(const struct port_option *o, struct vhost_device_options *to,
		     struct error *err)
{
	unsigned v = 0;

	if (port_option_number(o, 10, 0, UINT16_MAX, &v, err) || (v && v < DEVICE_MTU_MIN))
		return error_set(err, EINVAL, "mtu=%.40s: give %d to %d, or 0 for no limit",
				 o->value, DEVICE_MTU_MIN, UINT16_MAX);
	to->mtu = (uint16_t)v;
	return 0;
}

static int parse_number(const struct port_option *o, unsigned least, uint16_t most, uint16_t *to,
			struct error *err)
{
	unsigned v = 0;
	int r = port_option_number(o, 10, least, most, &v, err);

	if (!r)
		*to = (uint16_t)v;
	return r;
}

static int parse_size_max(const struct port_option *o, struct vhost_device_options *to,
			  struct error *err)
{
	return parse_number(o, 2, VIRTQ_SIZE_MAX, &to->size_max, err);
}

static int parse_memory_max(const struct port_option *o, struct vhost_device_options *to,
			    struct error *err)
{
	return parse_number(o, 1, GUEST_MEMORY_MAX >> 30, &to->memory_max_gib, err);
}

static int parse_messages_max(const struct port_option *o, struct vhost_device_options *to,
			      struct error *err)
{
	unsigned v = 0;

	/* To set a guest up takes hundreds. */
	if (port_option_number(o, 10, 0, 1000000, &v, err) || (v && v < 100))
		return error_set(err, EINVAL,
				 "messages-max=%.40s: give 100 to 1000000, or 0 for no limit",
				 o->value);
	to->messages_max = v;
	return 0;
}

static int parse_features(const struct port_option *o, struct vhost_device_options *to,
			  struct error *err)
{
	return features_parse(o->value, &to->offered, err);
}

static int parse_finish_csum(const struct port_option *o, struct vhost_device_options *to,
			     struct error *err)
{
	if (strcmp(o->value, "on") != 0 && strcmp(o->value, "off") != 0)
		return error_set(err, EINVAL, "finish-csum=%.40s: give on or off", o->value);
	to->finish_csum = !strcmp(o->value, "on");
	return 0;
}

/* Those that can change while the port lives. */
static const struct {
	const char *key;
	int (*parse)(const struct port_option *o, struct vhost_device_options *to,
		     struct error *err);
} device_options[] = {
	{ "mtu", parse_mtu },
	{ "features", parse_features },
	{ "queue-size-max", parse_size_max },
	{ "finish-csum", parse_finish_csum },
	{ "memory-max", parse_memory_max },
	{ "messages-max", parse_messages_max },
};

/* True if it is one of them; then `ret` is what came of it. */
static bool parse_device_option(const struct port_option *o, struct vhost_device_options *to,
				int *ret, struct error *err)
{
	for (unsigned i = 0; i < ARRAY_SIZE(device_options); i++) {
		if (!strcmp(device_options[i].key, o->key)) {
			*ret = device_options[i].parse(o, to, err);
			return true;
		}
	}
	return false;
}

static int parse_option(struct vhost_user_port *p, const struct port_option *o, struct error *err)
{
	unsigned v = 0;
	int r;

	if (parse_device_option(o, &p->dev.options, &r, err))
		return r;
	if (!strcmp(o->key, "log-max"))
		return port_option_log_max(o, &p->port.log.max, err);
	if (!strcmp(o->key, "listen"))
		return copy_path(&p->config.listen, o->value, err);
	if (!strcmp(o->key, "connect"))
		return copy_path(&p->config.connect, o->value, err);
	if (!strcmp(o->key, "group"))
		return parse_group(o, &p->config.group, err);
	if (!strcmp(o->key, "fd")) {
		r = port_option_number(o, 10, 3, INT32_MAX, &v, err);
		if (!r)
			p->config.fd = (int)v;
		return r;
	}
	if (!strcmp(o->key, "mode")) {
		r = port_option_number(o, 8, 0, 0777, &v, err);
		if (!r)
			p->config.mode = (mode_t)v;
		return r;
	}
	return unknown_option(o->key, err);
}

static int check_options(const struct vhost_user_port *p, bool has_mode, struct error *err)
{
	const struct endpoint_config *c = &p->config;

	if (!!c->listen + !!c->connect + (c->fd >= 0) != 1)
		return error_set(err, EINVAL,
				 "a vhost-user port wants one, and only one, of listen=PATH, "
				 "connect=PATH and fd=N (fd= with 'ringway run' only)");
	if (!c->listen && (has_mode || c->group != (gid_t)-1))
		return error_set(err, EINVAL, "mode= and group= go with listen=");
	return 0;
}

/* Life */

static void port_release(struct rcu_item *item)
{
	struct vhost_user_port *p = vhost_user_port(container_of(item, struct port, rcu));

	for (unsigned i = 0; i < VHOST_PAIRS_MAX; i++) {
		if (p->queue[i])
			free(p->queue[i]->q.hold);
		free(p->queue[i]);
	}
	free(p->rx);
	free((char *)p->config.listen);
	free((char *)p->config.connect);
	free(p);
}

static int vhost_user_create(const struct port_env *env, const char *name,
			     const struct port_option *options, unsigned n, struct port **ret,
			     struct error *err)
{
	struct vhost_user_port *p = calloc(1, sizeof(*p));
	bool has_mode = false;
	int r = 0;

	if (!p)
		return error_no_memory(err);
	port_init(&p->port, &vhost_user_ops, env, name);
	p->config.fd = -1;
	p->config.mode = 0600;
	p->config.group = (gid_t)-1;
	device_init(&p->dev, ring_changed);
	for (unsigned i = 0; i < n && !r; i++) {
		r = parse_option(p, &options[i], err);
		has_mode |= !strcmp(options[i].key, "mode");
	}
	if (!r)
		r = check_options(p, has_mode, err);
	if (r)
		goto release;
	p->port.path = p->config.listen ? p->config.listen : p->config.connect;
	*ret = &p->port;
	return 0;
release:
	port_release(&p->port.rcu);
	return r;
}

static int vhost_user_start(struct port *port, struct error *err)
{
	struct vhost_user_port *p = vhost_user_port(port);

	return endpoint_open(port->env->loop, &p->config, &endpoint_hooks, p, &p->endpoint, err);
}

static void vhost_user_destroy(struct port *port)
{
	struct vhost_user_port *p = vhost_user_port(port);

	if (p->session)
		session_stop(p->session);
	if (p->endpoint)
		endpoint_close(p->endpoint);
	device_reset(&p->dev);
	for (unsigned i = 0; i < VHOST_PAIRS_MAX; i++) {
		if (p->queue[i])
			port->env->queue_gone(port->env->ctx, &p->queue[i]->q);
	}
	/* Only now: until here a worker may come by a queue to its ring. */
	device_destroy(&p->dev);
	port_end(port, port_release);
}

static int cannot_set(const char *key, struct error *err)
{
	static const char *const fixed[] = { "listen", "connect", "fd", "mode", "group" };

	for (unsigned i = 0; i < ARRAY_SIZE(fixed); i++) {
		if (!strcmp(key, fixed[i]))
			return error_set(err, EINVAL,
					 "'%s' of a vhost-user port cannot change while it lives; "
					 "delete the port and add it again",
					 key);
	}
	return unknown_option(key, err);
}

static int vhost_user_set(struct port *port, const struct port_option *options, unsigned n,
			  struct error *err)
{
	struct vhost_user_port *p = vhost_user_port(port);
	struct vhost_device_options to = p->dev.options;
	unsigned log_max = port->log.max;

	for (unsigned i = 0; i < n; i++) {
		int r;

		if (!strcmp(options[i].key, "log-max"))
			r = port_option_log_max(&options[i], &log_max, err);
		else if (!parse_device_option(&options[i], &to, &r, err))
			return cannot_set(options[i].key, err);
		if (r)
			return r;
	}
	port->log.max = log_max;
	device_set_options(&p->dev, &to);
	return 0;
}

static void vhost_user_check(struct port *port, const struct virtq_callee *dear)
{
	struct vhost_user_port *p = vhost_user_port(port);

	if (!p->session)
		return;
	p->harmful = true;
	if (p->dev.mem && guest_memory_broken(p->dev.mem))
		session_end(p->session, REFUSAL_MEMORY_GONE,
			    "the front-end took pages of its guest's memory away");
	else if (dear == &p->dev.callee)
		session_end(p->session, REFUSAL_CALL_BLOCKED,
			    "the front-end let calls to its guest block, or last");
	else
		p->harmful = false;
}

const struct port_ops vhost_user_ops = {
	.kind = "vhost-user",
	.create = vhost_user_create,
	.start = vhost_user_start,
	.destroy = vhost_user_destroy,
	.set = vhost_user_set,
	.report = vhost_user_report,
	.report_queues = vhost_user_report_queues,
	.check = vhost_user_check,
	.collect = vhost_user_collect,
	.complete = vhost_user_complete,
	.ingress_drop = vhost_user_ingress_drop,
	.ready = vhost_user_ready,
	.arm = vhost_user_arm,
	.disarm = vhost_user_disarm,
	.egress = vhost_user_egress,
};
