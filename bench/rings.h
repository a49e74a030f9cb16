/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guests without a driver, for programs that measure the datapath by itself: rings in memory of
 * this program, in which buffers are made available again and again (in a split ring by an index
 * alone), and the port behind which they are.
 */
#ifndef RINGWAY_BENCH_RINGS_H
#define RINGWAY_BENCH_RINGS_H

#include "switch/switch.h"

#define RING	    256u
#define TCP_HEADERS 54u /* Ethernet, IPv4, TCP */
#define SEGMENT	    1460u

/* What is done to a frame: to a TCP packet, but for the first. */
struct form {
	const char *name;
	uint8_t flags, gso_type;
	uint64_t receiver; /* features */
};

/* "plain", "pass", "finish", "cut", "cut-finish"; NULL: none of them. */
const struct form *rings_form(const char *name);

/* A ring as its driver has it: each descriptor is a chain by itself. */
struct ring {
	struct virtq vq;
	uint64_t buffers; /* the first of them, from the guest's `base` on */
	uint32_t len;	  /* of each */
	unsigned n;	  /* used over and over */
	uint16_t flags;	  /* of the descriptors */
	unsigned made;	  /* packed: available so far */
};

/* A guest: memory, a tx ring and an rx ring, and the port they are behind. */
struct guest {
	struct port port; /* first */
	struct port_queue queue;
	struct ring tx, rx;
	struct guest_memory *mem;
	struct virtq_callee callee;
	uint8_t *base;
	size_t size;
	const struct form *form;
	bool packed;
};

/*
 * Plugs it in as number 0, 1, ...; each sends to its neighbour, 0 to 1, 1 to 0, 2 to 3, ... Its
 * rings are empty; `port.ops` are those below if it has none.
 */
void rings_plug(struct vswitch *sw, struct guest *g, unsigned number, uint32_t frame_len,
		uint32_t buffer_len, const struct form *form, bool packed);

/* The buffer that descriptor `i` names. */
uint8_t *rings_buffer(const struct guest *g, const struct ring *r, unsigned i);

/* Of such a port. */
bool rings_collect(struct port_queue *queue, struct batch *b, struct virtq_calls *calls);
void rings_complete(struct port_queue *queue, const struct batch *b, struct virtq_calls *calls);
void rings_ingress_drop(struct port_queue *queue, enum drop reason, unsigned n);
frame_set rings_egress(struct port *port, struct batch *b, frame_set set,
		       struct virtq_calls *calls);

/* Makes the `n` descriptors that follow available, or all of a split ring. */
void rings_make_available(struct ring *r, unsigned n);
void rings_refill(struct ring *r);

void rings_die(const char *what);

#endif
