/* SPDX-License-Identifier: Apache-2.0 */
/* What control (vhost_user.c) and datapath (vhost_user_data.c) of the port share. */
#ifndef RINGWAY_PORT_VHOST_USER_PRIV_H
#define RINGWAY_PORT_VHOST_USER_PRIV_H

#include "policy/steer.h"
#include "port/vhost_user.h"
#include "vhost/device.h"
#include "vhost/session.h"
#include "vhost/socket.h"

/* What the log and `show` say of a ring, by its index. */
#define VHOST_USER_RING_LOST                                                                    \
	"ring %d is packed and begins where its buffers are used already, as after a crash of " \
	"the switch; reset the guest's device: reboot it, or bind its driver anew"

/* The rx rings that run; replaced as a whole (RCU) when one starts or stops. */
struct rx_set {
	struct rcu_item rcu;
	struct steer_pairs pairs;
	struct virtq *ring[VHOST_PAIRS_MAX]; /* by pair; NULL: does not run */
};

_Static_assert(VHOST_PAIRS_MAX <= STEER_PAIRS_MAX, "each can be noted");

/* A queue pair: its tx ring is what a worker owns. */
struct vhost_user_queue {
	struct port_queue q; /* first */
	struct virtq *tx;
	uint32_t fresh; /* this or an rx ring was started or has another call: call all once */
};

struct vhost_user_port {
	struct port port; /* first */
	struct vhost_device dev;
	struct rx_set *rx; /* rcu_read() by workers; NULL: none runs */
	struct vhost_user_queue *queue[VHOST_PAIRS_MAX];
	struct steer_table steer;

	/* Control thread. */
	struct endpoint_config config;
	struct endpoint *endpoint;
	struct session *session;
	bool harmful;	      /* the session is being ended for what it did to others */
	bool was_up;	      /* as the log has it */
	uint64_t sent_before; /* vhost_user_sent() when the session began */
	char waiting[256];    /* what the endpoint waits for */
	char last_error[256]; /* why the last session ended, if it was a fault */
};

static inline struct vhost_user_port *vhost_user_port(struct port *port)
{
	return container_of(port, struct vhost_user_port, port);
}

static inline struct vhost_user_queue *vhost_user_queue(struct port_queue *queue)
{
	return container_of(queue, struct vhost_user_queue, q);
}

/* vhost_user_data.c: the workers' operations. */
bool vhost_user_collect(struct port_queue *queue, struct batch *b, struct virtq_calls *calls);
void vhost_user_complete(struct port_queue *queue, const struct batch *b,
			 struct virtq_calls *calls);
void vhost_user_ingress_drop(struct port_queue *queue, enum drop reason, unsigned n);
bool vhost_user_ready(struct port_queue *queue);
bool vhost_user_arm(struct port_queue *queue);
void vhost_user_disarm(struct port_queue *queue);
frame_set vhost_user_egress(struct port *port, struct batch *b, frame_set set,
			    struct virtq_calls *calls);

/* vhost_user_report.c: what `show` tells. */
uint64_t vhost_user_sent(const struct vhost_user_port *p); /* frames and malformed chains, ever */
void vhost_user_report(struct port *port, struct port_report *ret);
unsigned vhost_user_report_queues(struct port *port, struct queue_report *rows, unsigned max);

#endif
