/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port: a thing plugged into the switch. One file per kind in this directory.
 *
 * The switch gets frames from a port's *queues* (ingress; each is collected from by one worker) and
 * hands frames to the port as a whole (egress; any worker). Memory of ports and queues is reached
 * by workers without a lock, so it is freed after a grace period.
 */
#ifndef RINGWAY_PORT_PORT_H
#define RINGWAY_PORT_PORT_H

#include <uv.h>

#include "base/atomic.h"
#include "base/drop.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rcu.h"
#include "base/refusal.h"
#include "frame/batch.h"
#include "net/flow.h"
#include "policy/full.h"
#include "policy/poll.h"
#include "virtq/notify.h"

#define PORT_NAME_MAX 31
#define PORTS_MAX     4096 /* in one switch */
#define PORT_NONE     UINT16_MAX

struct port;
struct hold;

/* What a queue makes its worker work, as control measures it. */
struct queue_load {
	uint64_t busy; /* cycles that were counted already */
	unsigned load; /* thousandths of a CPU, of late */
	uint32_t moves;
};

/* An ingress queue. Each part has one writer; what others read meanwhile is atomic. */
struct port_queue {
	/* The port's (control): set before the queue comes up, the kick whenever it is down. */
	struct port *port;
	unsigned index; /* within the port, unique among its queues */
	int kick;	/* becomes readable when there is work; -1: look every millisecond */

	/* The pool's (control, worker/queues.c). */
	bool served;   /* released, with `id` and `watched` */
	bool watched;  /* its worker is woken by `kick` */
	uint32_t id;   /* of this being served: another one each time */
	uint16_t heir; /* number of the worker that is to own it; 0: none yet */
	uint32_t slot; /* in that worker's set */
	struct queue_load load;

	/* The owner's, like all that follows: control names the first, and each the next. */
	uint16_t owner; /* number of the worker; 0: none yet. Released, with all that follows */

	/* Of its loop (worker/worker.c). */
	uint32_t owned;		/* `id` when the worker took it over */
	uint64_t busy;		/* cycles of turns that moved frames */
	uint64_t kicks;		/* wake-ups by the peer */
	bool armed;		/* kicks on, waiting for one */
	uint32_t debt;		/* work that it had done beyond its share of turns */
	struct poll_state poll; /* measured arrival gaps */

	/* Of its turns in the switch (switch/forward.c, switch/hold.c). */
	uint64_t last_src;	/* source learned last, and when */
	struct full_state full; /* whom it sends to, and if it stops for them */
	struct hold *hold; /* frames that wait for room; NULL until needed, freed with the queue */
} cache_aligned;

/* One row of `show queue`. */
struct queue_report {
	unsigned queue;	    /* vhost ring index */
	bool tx;	    /* guest to switch */
	const char *state;  /* "stopped", "disabled", "running", "broken" */
	const char *format; /* "split", "packed"; NULL: not known, or no virtqueue */
	unsigned size;	    /* 0: not known */
	uint64_t frames, bytes, kicks, calls;
	uint64_t segments; /* rx: made of some of the frames, which count as one each */
	const struct port_queue *ingress; /* the switch's side of a tx queue; NULL for rx */
};

/* An option that limits what the port's peer may do, and what it is now. */
struct port_limit {
	const char *option;
	uint64_t value;
};

#define PORT_LIMITS_MAX 4

/* One row of `show port`. */
struct port_report {
	/* "waiting", "connected", "agreed", "up", "broken"; of a tap "up", "down", "gone" */
	const char *state;
	char reason[256];     /* why it carries nothing; "" when it does */
	char last_error[256]; /* "" if none */
	char pending[128];    /* what was set and does not count yet; "" if nothing */
	uint64_t features;    /* agreed virtio features */
	unsigned queue_pairs; /* up */
	int mtu;	      /* 0: no limit; -1: not known */
	uint64_t memory;      /* bytes of its guest's that are mapped */
	struct frame_counters ingress, egress;
	struct port_limit limit[PORT_LIMITS_MAX];
	unsigned limits;
	uint64_t refused[REFUSAL_COUNT];
};

/* A key=value of the configuration. */
struct port_option {
	const char *key, *value;
};

/* What a port is given to live in; outlives all ports. */
struct port_env {
	uv_loop_t *loop;
	void *ctx;
	/* A queue has begun to deliver frames, or its kick changed: some worker shall own it. */
	void (*queue_up)(void *ctx, struct port_queue *queue);
	/* It has ceased to, for now. */
	void (*queue_down)(void *ctx, struct port_queue *queue);
	/* For good: the caller keeps it valid for a grace period. */
	void (*queue_gone)(void *ctx, struct port_queue *queue);
};

struct port_ops {
	const char *kind;
	bool always_kicks; /* its queues' kicks come whether they are armed or not */

	/* Control thread. */

	/*
	 * Makes a port; unknown keys and bad values are refused. 0 or a negative errno with `err`
	 * filled. The caller then fills in `index` and makes it visible to workers.
	 */
	int (*create)(const struct port_env *env, const char *name,
		      const struct port_option *options, unsigned n, struct port **ret,
		      struct error *err);
	/* Begins to listen, to connect, ...: after it is in the port table. */
	int (*start)(struct port *port, struct error *err);
	/* Ends what is going on; no worker reaches its queues then. Freed a grace period later. */
	void (*destroy)(struct port *port);
	/* Changes options that can change while it lives; the others are refused by name. */
	int (*set)(struct port *port, const struct port_option *options, unsigned n,
		   struct error *err);
	void (*report)(struct port *port, struct port_report *ret);
	/* Fills up to `max` rows, returns how many there are. */
	unsigned (*report_queues)(struct port *port, struct queue_report *rows, unsigned max);
	/*
	 * Looks for a fault that its peer made: pages of its memory gone (guest/sigbus.h), or
	 * being `dear` (NULL: nobody is), whose calls block or last (pool_watchdog()). Ends what is
	 * to blame.
	 */
	void (*check)(struct port *port, const struct virtq_callee *dear);

	/* Workers. */

	/* As virtq_collect() and virtq_complete(): true means a lock is held until complete(). */
	bool (*collect)(struct port_queue *queue, struct batch *b, struct virtq_calls *calls);
	void (*complete)(struct port_queue *queue, const struct batch *b,
			 struct virtq_calls *calls);
	/* Counts frames of the queue that the switch dropped after collect(); before complete(). */
	void (*ingress_drop)(struct port_queue *queue, enum drop reason, unsigned n);
	/* Work there? Kicks on (and look again: true if there is work)? Kicks off. */
	bool (*ready)(struct port_queue *queue);
	bool (*arm)(struct port_queue *queue);
	void (*disarm)(struct port_queue *queue);
	/*
	 * Copies frames to the port. Returns those for which there was no room now; all others were
	 * delivered or counted as dropped.
	 */
	frame_set (*egress)(struct port *port, struct batch *b, frame_set set,
			    struct virtq_calls *calls);
};

struct port {
	const struct port_ops *ops;
	const struct port_env *env;
	char name[PORT_NAME_MAX + 1];
	uint16_t index; /* in the switch's table */
	struct rcu_item rcu;
	bool receives;	 /* it is a destination of what goes to everybody; control's, relaxed */
	uint64_t serial; /* never used twice, unlike index and address; set by switch_add() */
	/* Copies addressed to it that never reached a ring; many writers (add_relaxed). */
	uint64_t egress_dropped[DROP_COUNT];
	char *options;	  /* as given, canonical "key=value ...", for `save`; owned */
	const char *path; /* of the socket that it listens at or connects to; NULL: none */
	struct log_source log;
};

/* What all kinds of ports begin and end with; `release` frees one after a grace period. */
void port_init(struct port *port, const struct port_ops *ops, const struct port_env *env,
	       const char *name);
void port_end(struct port *port, void (*release)(struct rcu_item *item));

/* The option log-max=, which all kinds have. */
int port_option_log_max(const struct port_option *option, unsigned *ret, struct error *err);
/* Adds what all kinds have to report: the limit of the log, and egress_dropped. */
void port_report_common(const struct port *port, struct port_report *ret);

static inline void port_egress_drop(struct port *port, enum drop reason, unsigned n)
{
	if (n)
		add_relaxed(&port->egress_dropped[reason], n);
}

/* For ports of several queues: worked out once. */
static inline uint32_t frame_flow(struct frame *f)
{
	if (!f->hashed) {
		f->flow = flow_hash(f->head, f->head_len);
		f->hashed = true;
	}
	return f->flow;
}

/* The kind called `kind`, or NULL. */
const struct port_ops *port_kind(const char *kind);
/* "vhost-user, tap, ..." for error messages and help. */
const char *port_kinds(void);

/*
 * The number that an option's value is, in this base (8 or 10): digits alone. 0, or -EINVAL with
 * `err` filled.
 */
int port_option_number(const struct port_option *option, int base, unsigned min, unsigned max,
		       unsigned *ret, struct error *err);

/* Names: 1 to PORT_NAME_MAX of [A-Za-z0-9_.:-], not starting with '-'. */
bool port_name_valid(const char *name);

#endif
