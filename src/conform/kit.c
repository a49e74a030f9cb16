// SPDX-License-Identifier: Apache-2.0
#include "conform/kit.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"

#define SETTLE_US 50000

void kit_note(struct kit *k, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	if (!k->text[0])
		vsnprintf(k->text, sizeof(k->text), fmt, args);
	va_end(args);
}

int kit_keep(struct kit *k, int fd)
{
	if (fd >= 0 && k->fds < KIT_FDS_MAX)
		k->fd[k->fds++] = fd;
	return fd;
}

void kit_hang_up(struct kit *k)
{
	while (k->drivers)
		driver_close(k->driver[--k->drivers]);
	while (k->fds)
		close(k->fd[--k->fds]);
	usleep(SETTLE_US);
}

int kit_dial(struct kit *k, unsigned port, struct error *err)
{
	int ms = k->config->timeout_ms;
	struct timeval patience = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	int sock = k->config->listen ? channel_accept(k->listener[port], ms, err)
				     : channel_connect(k->config->path[port], ms, err);

	/* A back-end that does not read must not hold us up. */
	if (sock >= 0)
		setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	return sock;
}

int kit_connect(struct kit *k, int *ret_sock)
{
	struct error err;
	int sock = kit_dial(k, 0, &err);

	if (sock < 0)
		return kit_fail(k, "%s", err.text);
	*ret_sock = kit_keep(k, sock);
	return CONFORM_PASSED;
}

int kit_open(struct kit *k, unsigned port, const struct driver_config *config, struct driver **ret)
{
	struct driver_config c = config ? *config : (struct driver_config){ 0 };
	struct error err;

	if (!c.features)
		c.features = driver_features_default();
	if (k->packed)
		c.features |= BIT(VIRTIO_F_RING_PACKED);
	c.timeout_ms = k->config->timeout_ms;
	c.fd = kit_dial(k, port, &err);
	if (c.fd < 0)
		return kit_fail(k, "%s", err.text);
	if (k->drivers == KIT_DRIVERS_MAX || driver_open(&c, ret, &err))
		return kit_fail(k, "port %u: handshake: %s", port, err.text);
	k->driver[k->drivers++] = *ret;
	return CONFORM_PASSED;
}

int kit_open_running(struct kit *k, const struct driver_config *config, struct driver **ret)
{
	int rc = kit_open(k, 0, config, ret);

	return rc ? rc : kit_pump(k, *ret, 0, 1);
}

int kit_ask(struct kit *k, int sock, uint32_t request, uint32_t flags, const void *payload,
	    uint32_t size, struct channel_message *ret)
{
	int rc = script_call(sock, request, VHOST_USER_VERSION | flags, payload, size, NULL, 0, ret,
			     k->config->timeout_ms);

	if (rc)
		return kit_fail(k, "request %u: no answer: %s", request, strerror(-rc));
	if (ret->hdr.request != request)
		return kit_fail(k, "request %u: answered as if it were %u", request,
				ret->hdr.request);
	if ((ret->hdr.flags & VHOST_USER_VERSION_MASK) != VHOST_USER_VERSION ||
	    !(ret->hdr.flags & VHOST_USER_REPLY))
		return kit_fail(k, "request %u: flags of the answer are %#x", request,
				ret->hdr.flags);
	return CONFORM_PASSED;
}

int kit_ask_u64(struct kit *k, int sock, uint32_t request, uint32_t flags, uint64_t *ret)
{
	struct channel_message m;
	int rc = kit_ask(k, sock, request, flags, NULL, 0, &m);

	if (rc)
		return rc;
	if (m.hdr.size != sizeof(*ret))
		return kit_fail(k, "request %u: an answer of %u bytes, not 8", request, m.hdr.size);
	*ret = m.payload.u64;
	return CONFORM_PASSED;
}

int kit_in_step(struct kit *k, int sock)
{
	uint64_t features;

	return kit_ask_u64(k, sock, VHOST_USER_GET_FEATURES, 0, &features);
}

int kit_agree(struct kit *k, int sock)
{
	uint64_t features, protocol;
	int rc = kit_ask_u64(k, sock, VHOST_USER_GET_FEATURES, 0, &features);

	if (!rc)
		rc = kit_ask_u64(k, sock, VHOST_USER_GET_PROTOCOL_FEATURES, 0, &protocol);
	if (rc)
		return rc;
	protocol &= DRIVER_PROTOCOL_KNOWN;
	if (channel_send(sock, VHOST_USER_SET_PROTOCOL_FEATURES, VHOST_USER_VERSION, &protocol,
			 sizeof(protocol), NULL, 0))
		return kit_fail(k, "SET_PROTOCOL_FEATURES cannot be sent");
	return CONFORM_PASSED;
}

int kit_connect_agreed(struct kit *k, int *ret_sock)
{
	int rc = kit_connect(k, ret_sock);

	return rc ? rc : kit_agree(k, *ret_sock);
}

int kit_drain(struct kit *k, struct driver *d, unsigned index)
{
	struct driver_ring *r = &d->ring[index];
	uint64_t end = clock_ns() + (uint64_t)k->config->timeout_ms * 1000000;
	struct driver_done done;

	while (ring_outstanding(r)) {
		if (ring_take(r, &done, 1)) {
			/* What is not from the pool has no token. */
			if (done.token)
				d->pool[index].free[d->pool[index].n++] = done.token;
			continue;
		}
		if (r->broken)
			return kit_fail(k, "ring %u: %s", index, r->broken);
		if (clock_ns() > end || channel_closed(d->fe.sock, 0))
			return kit_fail(k, "ring %u: %u buffer%s did not come back%s", index,
					ring_outstanding(r), plural_s(ring_outstanding(r)),
					clock_ns() > end ? "" : ": it closed the connection");
		usleep(50);
	}
	return CONFORM_PASSED;
}

int kit_pump(struct kit *k, struct driver *d, unsigned pair, unsigned count)
{
	uint8_t frame[KIT_FRAME_ROOM];
	unsigned sent = 0;

	while (sent < count) {
		int rc;

		do
			kit_frame(k, frame, 60, 0, 1);
		while (!driver_send(d, pair, NULL, frame, 60, NULL) && ++sent < count);
		driver_flush(d, DRIVER_TX(pair));
		rc = kit_drain(k, d, DRIVER_TX(pair));
		if (rc)
			return rc;
	}
	return CONFORM_PASSED;
}

bool kit_alive(struct kit *k, struct error *err)
{
	struct driver *d;
	int rc;

	k->packed = false;
	k->text[0] = '\0';
	rc = kit_open_running(k, NULL, &d);
	if (rc)
		error_set(err, EIO, "%.150s", k->text);
	kit_hang_up(k);
	return !rc;
}
