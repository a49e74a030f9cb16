/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port that only counts, for tests of the switch: it takes frames while it has room and keeps
 * what identifies them. And a batch to send: frames whose first bytes are in the snapshot and whose
 * rest, if any, is in a memory of the sender's.
 */
#ifndef RINGWAY_TESTS_FAKE_PORT_H
#define RINGWAY_TESTS_FAKE_PORT_H

#include <string.h>

#include "net/eth.h"
#include "switch/switch.h"

#define MAC_BROADCAST 0xffffffffffffu

#define FAKE_LOG      4096u
#define FAKE_HEAD     116u /* bytes of a frame in its snapshot */
#define FAKE_HEADROOM 12u

struct fake_port {
	struct port port;
	struct port_queue queue;
	unsigned room; /* frames that it takes before it is full */
	unsigned calls;
	unsigned delivered;
	uint32_t got[FAKE_LOG];	 /* numbers of the frames delivered, in order */
	uint32_t hash[FAKE_LOG]; /* of all of their bytes */
	uint64_t ingress_dropped[DROP_COUNT];
};

static inline uint32_t fake_hash_more(uint32_t hash, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	return hash;
}

static inline uint32_t fake_hash(const struct batch *b, const struct frame *f)
{
	uint32_t hash = fake_hash_more(f->len, f->head, f->head_len);

	for (unsigned i = 0; i < f->spans; i++)
		hash = fake_hash_more(hash, (const uint8_t *)b->span[f->span + i].at,
				      b->span[f->span + i].len);
	return hash;
}

/* A frame's number is behind its Ethernet header. */
static inline uint32_t fake_number(const struct frame *f)
{
	uint32_t number;

	memcpy(&number, f->head + ETH_HEADER_LEN, sizeof(number));
	return number;
}

static inline frame_set fake_egress(struct port *port, struct batch *b, frame_set set,
				    struct virtq_calls *calls)
{
	struct fake_port *p = container_of(port, struct fake_port, port);
	unsigned i;

	p->calls++;
	batch_for_each (i, set) {
		if (!p->room)
			return set & ~((1u << i) - 1);
		p->room--;
		p->got[p->delivered % FAKE_LOG] = fake_number(&b->frame[i]);
		p->hash[p->delivered % FAKE_LOG] = fake_hash(b, &b->frame[i]);
		p->delivered++;
	}
	return 0;
}

static inline void fake_ingress_drop(struct port_queue *queue, enum drop reason, unsigned n)
{
	container_of(queue, struct fake_port, queue)->ingress_dropped[reason] += n;
}

static const struct port_ops fake_ops = {
	.kind = "fake",
	.egress = fake_egress,
	.ingress_drop = fake_ingress_drop,
};

static inline void fake_init(struct fake_port *p)
{
	memset(p, 0, sizeof(*p));
	p->port.ops = &fake_ops;
	p->port.receives = true;
	p->queue.port = &p->port;
	p->room = UINT32_MAX;
}

static inline void fake_mac_store(uint8_t *bytes, uint64_t mac)
{
	for (unsigned i = 0; i < 6; i++)
		bytes[i] = (uint8_t)(mac >> (40 - 8 * i));
}

/*
 * Adds a frame of `len` bytes. What does not fit into the snapshot is `rest`, in spans of at most
 * `span` bytes.
 */
static inline struct frame *batch_add(struct batch *b, uint64_t dst, uint64_t src, uint32_t number,
				      uint32_t len, const uint8_t *rest, uint32_t span)
{
	struct frame *f = &b->frame[b->n];

	memset(f, 0, sizeof(*f));
	f->len = len;
	f->head = b->snapshot[b->n] + FAKE_HEADROOM;
	f->head_len = (uint16_t)MIN(len, FAKE_HEAD);
	f->span = (uint16_t)b->spans;
	memset(f->head, (int)number, f->head_len);
	fake_mac_store(f->head, dst);
	fake_mac_store(f->head + 6, src);
	memcpy(f->head + ETH_HEADER_LEN, &number, sizeof(number));
	for (uint32_t at = 0; at < len - f->head_len; at += span) {
		uint32_t left = len - f->head_len - at;

		b->span[b->spans++] =
			(struct span){ .at = (uintptr_t)rest + at, .len = MIN(left, span) };
		f->spans++;
	}
	b->bytes += len;
	b->n++;
	return f;
}

static inline void batch_add_short(struct batch *b, uint64_t dst, uint64_t src, uint32_t number)
{
	batch_add(b, dst, src, number, 60, NULL, 1);
}

#endif
