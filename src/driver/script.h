/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's scripted form: whatever a hostile guest or front-end could do.
 *
 * Messages are sent with driver/channel.h, which judges nothing. Here are the rings: descriptors
 * and available entries of any content, written into the rings of an honest driver, so that it can
 * go on afterwards and show that the device still serves it.
 */
#ifndef RINGWAY_DRIVER_SCRIPT_H
#define RINGWAY_DRIVER_SCRIPT_H

#include "driver/channel.h"
#include "driver/ring.h"

/* In `next`: the list's following entry (only where the flags say NEXT), or 0 at its end. */
#define SCRIPT_NEXT UINT16_MAX

/* A descriptor as it shall stand in the ring's table. */
struct script_desc {
	uint64_t addr;
	uint32_t len;
	uint16_t flags;
	uint16_t next;
};

/*
 * Writes `n` descriptors into free places of the ring and makes the first available, unpublished.
 * For the driver they are a chain that belongs to `token` and may be returned with up to `capacity`
 * bytes written. Returns the head, or -ENOSPC. If `ret_at` is not NULL the place of each is told.
 *
 * A packed ring has no `next`: the list are neighbours, of which all but the last should say NEXT,
 * the id is returned, and there is no `ret_at`.
 */
int script_chain(struct driver_ring *r, const struct script_desc *descs, unsigned n,
		 uint32_t capacity, void *token, uint16_t *ret_at);

/* The same for a table of indirect descriptors of the ring's format, in guest memory at `table`. */
void script_table(const struct driver_ring *r, struct vring_desc *table,
		  const struct script_desc *descs, unsigned n);

/* Makes `head`, any number, available, unpublished; the driver expects nothing back. */
void script_avail(struct driver_ring *r, uint16_t head);

/* Stores any available index, and kicks. */
void script_avail_index(struct driver_ring *r, uint16_t index);

/*
 * Makes all of the ring available once more, whatever is in it; the driver expects nothing back. A
 * packed ring's descriptors are `writable` or not.
 */
void script_avail_all(struct driver_ring *r, bool writable);

/* Makes something available of which no device can make sense (virtio 1.3, 2.7.6, 2.8.6). */
void script_avail_nonsense(struct driver_ring *r);

/* Waits until the device has returned everything. */
bool script_wait_idle(const struct driver_ring *r, int timeout_ms);

/* Sends a message and waits for an answer to it; as channel_send() and channel_receive(). */
int script_call(int sock, uint32_t request, uint32_t flags, const void *payload, uint32_t size,
		const int *fds, unsigned nfds, struct channel_message *ret, int timeout_ms);

#endif
