/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front-end's half of the vhost-user protocol, honest form: requests that are well-formed and
 * wait for their answers. Blocking; one thread at a time.
 */
#ifndef RINGWAY_DRIVER_FRONTEND_H
#define RINGWAY_DRIVER_FRONTEND_H

#include "driver/channel.h"
#include "driver/memory.h"
#include "driver/ring.h"

struct frontend {
	int sock;
	int timeout_ms;
	uint64_t offered, features;		    /* virtio, offered and agreed */
	uint64_t protocol_offered, protocol_agreed; /* vhost-user protocol features */
	uint64_t pairs_max;			    /* from GET_QUEUE_NUM, 1 without MQ */
};

/* A request that is always answered with a number. */
int frontend_get(struct frontend *fe, uint32_t request, uint64_t *ret, struct error *err);

/*
 * A request that is answered only if REPLY_ACK was agreed to, which is then asked for. An answer
 * that is not 0 is -EREMOTEIO.
 */
int frontend_set(struct frontend *fe, uint32_t request, const void *payload, uint32_t size,
		 const int *fds, unsigned nfds, struct error *err);
int frontend_set_u64(struct frontend *fe, uint32_t request, uint64_t value, struct error *err);

/*
 * GET_FEATURES, protocol features, GET_QUEUE_NUM, SET_OWNER; agrees to what of `features` and
 * `protocol` is offered. SET_FEATURES is left to the caller (frontend_set_features()), because
 * real front-ends do other things first.
 */
int frontend_greet(struct frontend *fe, uint64_t features, uint64_t protocol, struct error *err);
int frontend_set_features(struct frontend *fe, struct error *err);

/* Returns when the device has acted on all that it was told, also without REPLY_ACK. */
int frontend_sync(struct frontend *fe, struct error *err);

/* The memory table, as a whole or region by region (CONFIGURE_MEM_SLOTS). */
int frontend_set_memory(struct frontend *fe, const struct driver_memory *mem, bool slots,
			struct error *err);

/* NUM, BASE, ADDR of a ring, `base` being the next available entry that the device shall take. */
int frontend_set_ring(struct frontend *fe, unsigned index, const struct driver_ring *ring,
		      uint32_t base, struct error *err);
/* SET_VRING_KICK, _CALL or _ERR; `fd` -1: "none comes". */
int frontend_set_fd(struct frontend *fe, uint32_t request, unsigned index, int fd,
		    struct error *err);
int frontend_enable(struct frontend *fe, unsigned index, bool on, struct error *err);
int frontend_get_base(struct frontend *fe, unsigned index, uint32_t *ret_base, struct error *err);

/* Ors bits into the device's status, if STATUS was agreed to. */
int frontend_add_status(struct frontend *fe, uint8_t bits, struct error *err);

static inline bool frontend_has(const struct frontend *fe, unsigned feature)
{
	return fe->features & BIT(feature);
}

static inline bool frontend_has_protocol(const struct frontend *fe, unsigned feature)
{
	return fe->protocol_agreed & BIT(feature);
}

#endif
