/* SPDX-License-Identifier: Apache-2.0 */
/* What control (tap.c) and datapath (tap_data.c) of the port share. */
#ifndef RINGWAY_PORT_TAP_PRIV_H
#define RINGWAY_PORT_TAP_PRIV_H

#include <pthread.h>

#include "net/gso.h"
#include "net/plan.h"
#include "port/tap.h"
#include "port/tap_io.h"
#include "port/tap_open.h"

/* A frame and its header; an odd number of cache lines, so that the first ones spread. */
#define TAP_BUFFER (1025u * CACHE_LINE)

#define TAP_PIECES_MAX 1024u /* IOV_MAX, header and head included */

/*
 * Pieces of a batch, or of as many segments as are written at once: all spans, and of each
 * operation a header, a head, and what may be cut off in front: the end of the snapshot, or of a
 * span.
 */
#define TAP_PIECES (BATCH_SPANS + 3 * TAP_IO_MAX)

/* What frames may ask for, in both directions, in words of virtio. */
#define TAP_FEATURES                                                                           \
	(BIT(VIRTIO_NET_F_CSUM) | BIT(VIRTIO_NET_F_GUEST_CSUM) | BIT(VIRTIO_NET_F_HOST_TSO4) | \
	 BIT(VIRTIO_NET_F_GUEST_TSO4) | BIT(VIRTIO_NET_F_HOST_TSO6) |                          \
	 BIT(VIRTIO_NET_F_GUEST_TSO6) | BIT(VIRTIO_NET_F_HOST_ECN) | BIT(VIRTIO_NET_F_GUEST_ECN))
/* And where the kernel knows them. */
#define TAP_FEATURES_USO \
	(BIT(VIRTIO_NET_F_HOST_USO) | BIT(VIRTIO_NET_F_GUEST_USO4) | BIT(VIRTIO_NET_F_GUEST_USO6))

_Static_assert(TAP_BUFFER >= VNET_HDR_LEN + FRAME_LEN_MAX, "the longest frame");

/* From the kernel into the switch. The lock is held from collect() to complete(). */
struct tap_ingress {
	pthread_mutex_t lock;
	struct tap_io io;
	uint8_t *buffers;    /* TAP_IO_MAX of TAP_BUFFER bytes */
	unsigned read, next; /* frames in the buffers; the first that was not collected */
	unsigned want;	     /* reads to try next */
	uint64_t empty;	     /* clock_cycles() when nothing was there; its worker's */
	struct iovec iov[TAP_IO_MAX];
	struct tap_op op[TAP_IO_MAX];
	uint8_t frame[TAP_IO_MAX]; /* operations that brought one, in the frames' order */
	struct frame_counters stats;
} cache_aligned;

/* From the switch to the kernel, by any worker. */
struct tap_egress {
	pthread_mutex_t lock;
	struct tap_io io;
	struct iovec *iov; /* TAP_PIECES of them */
	struct virtio_net_hdr_mrg_rxbuf hdr[TAP_IO_MAX];
	uint8_t head[TAP_IO_MAX][SNAPSHOT_ROOM]; /* of segments */
	uint64_t segments;			 /* made of some of the frames */
	struct tap_op op[TAP_IO_MAX];
	uint8_t frame[TAP_IO_MAX]; /* number in the batch, of each operation */
	struct frame_counters stats;
} cache_aligned;

struct tap_queue {
	struct port_queue q; /* first; its kick is the descriptor, -1: closed */
	struct tap_ingress in;
	struct tap_egress out;
};

struct tap_port {
	struct port port; /* first */
	unsigned queues;
	uint64_t features; /* TAP_FEATURES and perhaps more; 0 until it has started; relaxed */
	struct tap_queue *queue[TAP_QUEUES_MAX];

	/* Control thread. */
	char *dev; /* NULL: `fd` */
	int fd;	   /* inherited */
};

static inline struct tap_port *tap_port(struct port *port)
{
	return container_of(port, struct tap_port, port);
}

static inline struct tap_queue *tap_queue(struct port_queue *queue)
{
	return container_of(queue, struct tap_queue, q);
}

/* tap_data.c: the workers' operations. */
bool tap_collect(struct port_queue *queue, struct batch *b, struct virtq_calls *calls);
void tap_complete(struct port_queue *queue, const struct batch *b, struct virtq_calls *calls);
void tap_ingress_drop(struct port_queue *queue, enum drop reason, unsigned n);
bool tap_ready(struct port_queue *queue);
bool tap_arm(struct port_queue *queue);
void tap_disarm(struct port_queue *queue);
frame_set tap_egress(struct port *port, struct batch *b, frame_set set, struct virtq_calls *calls);

/* tap_report.c: what `show` tells. */
void tap_report(struct port *port, struct port_report *ret);
unsigned tap_report_queues(struct port *port, struct queue_report *rows, unsigned max);

#endif
