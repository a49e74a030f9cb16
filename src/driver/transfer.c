// SPDX-License-Identifier: Apache-2.0
/*
 * The driver's frames: cutting buffers into descriptors, sending, receiving, merging.
 *
 * Convenient rather than fast: frames are copied in and out. Benchmarks work on the rings
 * themselves (driver/ring.h).
 */
#include <errno.h>
#include <string.h>

#include "driver/driver.h"

/* Bytes between the pieces of a buffer, so that none is contiguous by accident or aligned. */
#define PIECE_GAP 3

/* Cuts `len` bytes of `buffer`; returns the number of pieces. */
static unsigned cut(const struct driver_shape *shape, void *buffer, uint32_t len,
		    struct driver_piece pieces[DRIVER_PIECES_MAX])
{
	uint8_t *at = buffer;
	unsigned n = 0;

	for (; shape && n + 1 < shape->n && len > shape->len[n]; n++) {
		pieces[n] = (struct driver_piece){ at, shape->len[n] };
		at += shape->len[n] + PIECE_GAP;
		len -= shape->len[n];
	}
	pieces[n++] = (struct driver_piece){ at, len };
	return n;
}

/* Copies between the pieces and private memory, from byte `skip` of the pieces on. */
static void copy_pieces(const struct driver_piece *pieces, unsigned n, uint32_t skip, void *private,
			uint32_t len, bool in)
{
	uint8_t *p = private;

	for (unsigned i = 0; i < n && len; i++) {
		uint32_t part;
		uint8_t *at = (uint8_t *)pieces[i].at + skip;

		if (skip >= pieces[i].len) {
			skip -= pieces[i].len;
			continue;
		}
		part = MIN(len, pieces[i].len - skip);
		if (in)
			memcpy(p, at, part);
		else
			memcpy(at, p, part);
		skip = 0;
		p += part;
		len -= part;
	}
}

int driver_send(struct driver *d, unsigned pair, const struct virtio_net_hdr *hdr,
		const void *frame, uint32_t len, const struct driver_shape *shape)
{
	struct driver_ring *r = &d->ring[DRIVER_TX(pair)];
	struct driver_pool *pool = &d->pool[DRIVER_TX(pair)];
	struct virtio_net_hdr_mrg_rxbuf full = { .num_buffers = 0 };
	struct driver_piece pieces[DRIVER_PIECES_MAX];
	unsigned n;
	int rc;

	if (hdr)
		full.hdr = *hdr;
	if (len + d->hdr_len > d->config.tx_buffer)
		return -EMSGSIZE;
	driver_reclaim(d, pair);
	if (!pool->n)
		return -ENOSPC;
	n = cut(shape, pool->free[pool->n - 1], len + d->hdr_len, pieces);
	copy_pieces(pieces, n, 0, &full, d->hdr_len, false);
	copy_pieces(pieces, n, d->hdr_len, (void *)frame, len, false);
	rc = ring_add(r, pieces, n, 0, shape && shape->indirect, pool->free[pool->n - 1]);
	if (!rc)
		pool->n--;
	return rc;
}

void driver_flush(struct driver *d, unsigned index)
{
	ring_flush(&d->ring[index]);
}

unsigned driver_reclaim(struct driver *d, unsigned pair)
{
	struct driver_pool *pool = &d->pool[DRIVER_TX(pair)];
	struct driver_done done;
	unsigned n = 0;

	while (ring_take(&d->ring[DRIVER_TX(pair)], &done, 1)) {
		pool->free[pool->n++] = done.token;
		n++;
	}
	return n;
}

void driver_post(struct driver *d, unsigned pair)
{
	struct driver_ring *r = &d->ring[DRIVER_RX(pair)];
	struct driver_pool *pool = &d->pool[DRIVER_RX(pair)];
	struct driver_shape *shape = &d->config.rx_shape;
	struct driver_piece pieces[DRIVER_PIECES_MAX];

	while (pool->n) {
		void *buffer = pool->free[pool->n - 1];
		unsigned n = cut(shape, buffer, d->config.rx_buffer, pieces);

		if (ring_add(r, pieces, 0, n, shape->indirect, buffer))
			break;
		pool->n--;
	}
	if (r->published != r->avail_next)
		ring_flush(r);
}

/* What one returned rx buffer holds goes behind `at` bytes of the frame. */
static void copy_buffer(struct driver *d, struct driver_done *done, uint32_t skip, uint8_t *to,
			size_t room, size_t at)
{
	struct driver_piece pieces[DRIVER_PIECES_MAX];
	unsigned n = cut(&d->config.rx_shape, done->token, d->config.rx_buffer, pieces);
	size_t len = done->len - skip;

	if (at < room)
		copy_pieces(pieces, n, skip, to + at, (uint32_t)MIN(len, room - at), true);
}

static int breach(struct driver_ring *r, const char *reason)
{
	ring_break(r, reason);
	return -EPROTO;
}

/* How many buffers the frame takes, by its header in the first one. 0: nonsense. */
static unsigned count_buffers(struct driver *d, struct driver_done *first, struct driver_frame *ret)
{
	struct driver_piece pieces[DRIVER_PIECES_MAX];
	unsigned n = cut(&d->config.rx_shape, first->token, d->config.rx_buffer, pieces);

	memset(&ret->hdr, 0, sizeof(ret->hdr));
	copy_pieces(pieces, n, 0, &ret->hdr, d->hdr_len, true);
	if (d->hdr_len < sizeof(ret->hdr))
		return 1;
	/* 5.1.6.4.1: without mergeable buffers the field is 1. */
	return d->mergeable || ret->hdr.num_buffers == 1 ? ret->hdr.num_buffers : 0;
}

int driver_receive(struct driver *d, unsigned pair, void *to, size_t room, struct driver_frame *ret)
{
	struct driver_ring *r = &d->ring[DRIVER_RX(pair)];
	struct driver_pool *pool = &d->pool[DRIVER_RX(pair)];
	struct driver_done done;
	size_t len;

	/* In handfuls, but before the device runs out of buffers. */
	if (pool->n >= r->size / 2u)
		driver_post(d, pair);
	if (!ring_take(r, &done, 1)) {
		driver_post(d, pair);
		return r->broken ? -EPROTO : 0;
	}
	pool->free[pool->n++] = done.token;
	if (done.len < d->hdr_len)
		return breach(r, "used fewer bytes than the header has");
	ret->buffers = count_buffers(d, &done, ret);
	if (!ret->buffers)
		return breach(r, "num_buffers is not what was agreed to");
	copy_buffer(d, &done, d->hdr_len, to, room, 0);
	ret->used_len = done.len;
	len = done.len - d->hdr_len;
	for (unsigned i = 1; i < ret->buffers; i++) {
		if (!ring_take(r, &done, 1))
			return breach(r, "num_buffers is more than was used");
		pool->free[pool->n++] = done.token;
		copy_buffer(d, &done, 0, to, room, len);
		ret->used_len += done.len;
		len += done.len;
	}
	ret->len = (uint32_t)len;
	r->frames++;
	return 1;
}

int driver_receive_wait(struct driver *d, unsigned pair, void *to, size_t room,
			struct driver_frame *ret, int timeout_ms)
{
	int rc = driver_receive(d, pair, to, room, ret);

	if (rc || !ring_wait(&d->ring[DRIVER_RX(pair)], timeout_ms))
		return rc;
	return driver_receive(d, pair, to, room, ret);
}
