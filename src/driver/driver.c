// SPDX-License-Identifier: Apache-2.0
#include "driver/driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DEFAULT_TIMEOUT_MS 5000
#define DEFAULT_RING	   256
#define DEFAULT_BUFFER	   2048

uint64_t driver_features_default(void)
{
	return BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_NET_F_MRG_RXBUF) |
	       BIT(VIRTIO_RING_F_EVENT_IDX) | BIT(VIRTIO_RING_F_INDIRECT_DESC) |
	       BIT(VIRTIO_F_ANY_LAYOUT) | BIT(VIRTIO_NET_F_MQ) |
	       BIT(VHOST_USER_F_PROTOCOL_FEATURES);
}

static void fill_defaults(struct driver_config *c)
{
	if (!c->timeout_ms)
		c->timeout_ms = DEFAULT_TIMEOUT_MS;
	if (!c->features)
		c->features = driver_features_default();
	if (!c->protocol)
		c->protocol = DRIVER_PROTOCOL_KNOWN;
	if (!(c->quirks & DRIVER_MEM_SLOTS))
		c->protocol &= ~BIT(VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS);
	if (!c->pairs)
		c->pairs = 1;
	if (!c->ring_size)
		c->ring_size = DEFAULT_RING;
	if (!c->regions)
		c->regions = 1;
	if (!c->rx_buffer)
		c->rx_buffer = DEFAULT_BUFFER;
	if (!c->tx_buffer)
		c->tx_buffer = DEFAULT_BUFFER;
}

static int open_socket(const struct driver_config *c, struct error *err)
{
	int listener, sock;

	if (c->connect)
		return channel_connect(c->connect, c->timeout_ms, err);
	if (!c->listen)
		return c->fd;
	listener = channel_listen(c->listen, err);
	if (listener < 0)
		return listener;
	sock = channel_accept(listener, c->timeout_ms, err);
	close(listener);
	return sock;
}

/* The rings in the order in which they are spoken of. */
static unsigned ring_order(const struct driver *d, unsigned i)
{
	return d->config.quirks & DRIVER_TX_FIRST ? i ^ 1 : i;
}

/*
 * An odd number of cache lines between buffers: with a power of two all their first lines would
 * fall into the same few sets of the cache.
 */
static size_t stride_of(uint32_t buffer)
{
	size_t lines = (buffer + DRIVER_PIECES_MAX * 4 + CACHE_LINE - 1) / CACHE_LINE;

	return (lines | 1) * CACHE_LINE;
}

static int make_pool(struct driver *d, unsigned index)
{
	size_t stride = index & 1 ? d->tx_stride : d->rx_stride;
	struct driver_pool *pool = &d->pool[index];
	uint8_t *at = driver_memory_alloc(&d->mem, stride * d->config.ring_size, CACHE_LINE);

	pool->free = calloc(d->config.ring_size, sizeof(*pool->free));
	if (!at || !pool->free)
		return -ENOMEM;
	/* The last is taken first: so they are used in the order of their addresses. */
	for (unsigned i = d->config.ring_size; i--;)
		pool->free[pool->n++] = at + i * stride;
	return 0;
}

static int make_ring(struct driver *d, unsigned index)
{
	struct driver_config *c = &d->config;
	struct driver_ring *r = &d->ring[index];
	int rc = ring_init(r, &d->mem, c->ring_size, frontend_has(&d->fe, VIRTIO_F_RING_PACKED),
			   frontend_has(&d->fe, VIRTIO_RING_F_EVENT_IDX),
			   frontend_has(&d->fe, VIRTIO_RING_F_INDIRECT_DESC),
			   c->quirks & DRIVER_SHUFFLE ? index + 1 : 0);

	if (rc)
		return rc;
	r->in_order = frontend_has(&d->fe, VIRTIO_F_IN_ORDER);
	r->kicks = c->kicks;
	if (!(c->quirks & DRIVER_NO_KICK_FD))
		r->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!(c->quirks & DRIVER_NO_CALL_FD))
		r->call = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return 0;
}

/* Memory, rings and buffers; nothing is said to the device. */
static int make_guest(struct driver *d, struct error *err)
{
	struct driver_config *c = &d->config;
	bool indirect = frontend_has(&d->fe, VIRTIO_RING_F_INDIRECT_DESC);
	size_t buffers;
	int rc;

	d->hdr_len = frontend_has(&d->fe, VIRTIO_F_VERSION_1) ||
				     frontend_has(&d->fe, VIRTIO_NET_F_MRG_RXBUF)
			     ? sizeof(struct virtio_net_hdr_mrg_rxbuf)
			     : sizeof(struct virtio_net_hdr);
	d->mergeable = frontend_has(&d->fe, VIRTIO_NET_F_MRG_RXBUF);
	d->rings = 2 * c->pairs;
	d->rx_stride = stride_of(c->rx_buffer);
	d->tx_stride = stride_of(c->tx_buffer);
	buffers = (d->rx_stride + d->tx_stride) * c->ring_size * c->pairs;
	rc = driver_memory_create(&d->mem, ring_bytes(c->ring_size, indirect) * d->rings,
				  buffers + c->extra, c->regions, c->gpa, err);
	if (rc)
		return rc;
	d->ring = calloc(d->rings, sizeof(*d->ring));
	d->pool = calloc(d->rings, sizeof(*d->pool));
	rc = d->ring && d->pool ? 0 : -ENOMEM;
	for (unsigned i = 0; i < d->rings && !rc; i++)
		rc = make_ring(d, i);
	for (unsigned i = 0; i < d->rings && !rc; i++)
		rc = make_pool(d, i);
	return rc ? error_set(err, -rc, "rings of %u: %s", c->ring_size, strerror(-rc)) : 0;
}

static int enable_all(struct driver *d, struct error *err)
{
	int rc = 0;

	for (unsigned i = 0; i < d->rings && !rc; i++)
		rc = frontend_enable(&d->fe, ring_order(d, i), true, err);
	return rc;
}

/* From SET_OWNER to the last message, in the order of QEMU or of DPDK's virtio_user. */
static int shake_hands(struct driver *d, struct error *err)
{
	bool early = d->config.quirks & DRIVER_ENABLE_FIRST;
	bool later = d->config.quirks & DRIVER_RINGS_LATER;
	int rc = 0;

	for (unsigned i = 0; i < d->rings && !rc && !later; i++) {
		unsigned index = ring_order(d, i);

		rc = frontend_set_fd(&d->fe, VHOST_USER_SET_VRING_CALL, index, d->ring[index].call,
				     err);
	}
	if (!rc && early && !later)
		rc = enable_all(d, err);
	if (!rc)
		rc = frontend_set_features(&d->fe, err);
	if (!rc)
		rc = frontend_add_status(&d->fe,
					 VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER |
						 VIRTIO_CONFIG_S_FEATURES_OK,
					 err);
	if (!rc)
		rc = frontend_set_memory(
			&d->fe, &d->mem,
			frontend_has_protocol(&d->fe, VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS),
			err);
	for (unsigned i = 0; i < d->rings && !rc && !later; i++)
		rc = driver_ring_start(d, ring_order(d, i), ring_base(&d->ring[0]), err);
	if (!rc && !early && !later)
		rc = enable_all(d, err);
	if (!rc)
		rc = frontend_add_status(&d->fe, VIRTIO_CONFIG_S_DRIVER_OK, err);
	return rc ? rc : frontend_sync(&d->fe, err);
}

int driver_open(const struct driver_config *config, struct driver **ret, struct error *err)
{
	struct driver *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return error_no_memory(err);
	d->config = *config;
	fill_defaults(&d->config);
	d->fe.timeout_ms = d->config.timeout_ms;
	rc = d->fe.sock = open_socket(&d->config, err);
	if (rc >= 0)
		rc = frontend_greet(&d->fe, d->config.features, d->config.protocol, err);
	if (!rc && d->config.pairs > d->fe.pairs_max)
		rc = error_set(err, ENOTSUP, "%u queue pairs wanted, %llu offered", d->config.pairs,
			       (unsigned long long)d->fe.pairs_max);
	if (!rc)
		rc = make_guest(d, err);
	if (!rc)
		rc = shake_hands(d, err);
	if (rc) {
		driver_close(d);
		return rc;
	}
	for (unsigned i = 0; i < d->config.pairs && !(d->config.quirks & DRIVER_NO_RX_BUFFERS); i++)
		driver_post(d, i);
	*ret = d;
	return 0;
}

void driver_close(struct driver *d)
{
	if (!d)
		return;
	if (d->fe.sock >= 0)
		close(d->fe.sock);
	for (unsigned i = 0; i < d->rings && d->ring; i++)
		ring_destroy(&d->ring[i]);
	for (unsigned i = 0; i < d->rings && d->pool; i++)
		free(d->pool[i].free);
	free(d->ring);
	free(d->pool);
	driver_memory_destroy(&d->mem);
	free(d);
}

int driver_ring_start(struct driver *d, unsigned index, uint32_t base, struct error *err)
{
	struct driver_ring *r = &d->ring[index];
	int rc = frontend_set_ring(&d->fe, index, r, base, err);

	if (!rc)
		rc = frontend_set_fd(&d->fe, VHOST_USER_SET_VRING_KICK, index, r->kick, err);
	if (!rc)
		rc = frontend_set_fd(&d->fe, VHOST_USER_SET_VRING_CALL, index, r->call, err);
	return rc;
}

int driver_ring_enable(struct driver *d, unsigned index, bool on, struct error *err)
{
	return frontend_enable(&d->fe, index, on, err);
}

int driver_ring_stop(struct driver *d, unsigned index, uint32_t *ret_base, struct error *err)
{
	return frontend_get_base(&d->fe, index, ret_base, err);
}

const char *driver_broken(const struct driver *d)
{
	for (unsigned i = 0; i < d->rings; i++) {
		if (d->ring[i].broken)
			return d->ring[i].broken;
	}
	return NULL;
}
