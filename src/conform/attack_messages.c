// SPDX-License-Identifier: Apache-2.0
/*
 * A front-end that says what it must not. The back-end may end the connection, refuse, or look over
 * it; it must not say that it did what cannot be done, and it serves whoever comes next.
 */
#include "conform/cases.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define VERSION	   VHOST_USER_VERSION
#define NEED_REPLY VHOST_USER_NEED_REPLY
#define REACT_US   20000

static const uint8_t zeroes[4096];

/* An answer of success is wrong, whatever else it does is right. */
static int refused(struct kit *k, int sock, uint32_t request, const void *payload, uint32_t size,
		   const int *fds, unsigned n)
{
	struct channel_message m;
	int rc = script_call(sock, request, VERSION | NEED_REPLY, payload, size, fds, n, &m,
			     k->config->timeout_ms);

	if (!rc && m.hdr.request == request && m.hdr.size == 8 && !m.payload.u64)
		return kit_fail(k, "agreed to");
	if (rc == -ETIMEDOUT)
		return kit_fail(k, "neither an answer nor an end");
	return CONFORM_PASSED;
}

static const char *doing(struct kit *k, const char *what, unsigned long long n)
{
	static char text[48];

	snprintf(text, sizeof(text), "%s %#llx", what, n);
	k->doing = text;
	return text;
}

int case_unknown_request(struct kit *k)
{
	static const uint32_t requests[] = { 0, 60, 200, 0x10000, UINT32_MAX };
	int sock, rc = CONFORM_PASSED;

	for (unsigned i = 0; i < ARRAY_SIZE(requests) && !rc; i++) {
		doing(k, "request", requests[i]);
		rc = kit_connect_agreed(k, &sock);
		if (!rc)
			rc = refused(k, sock, requests[i], zeroes, 8, NULL, 0);
		kit_hang_up(k);
	}
	return rc;
}

/* Every request with payloads of sizes that are not its own. */
/* Clauses: payload-a */
int case_request_sizes(struct kit *k)
{
	static const uint32_t sizes[] = { 0, 7, 8, 16, 41, 4096 };
	int sock, rc = CONFORM_PASSED;

	for (uint32_t request = 1; request < 45; request++) {
		doing(k, "request", request);
		for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
			rc = kit_connect_agreed(k, &sock);
			if (rc)
				return rc;
			channel_send(sock, request, VERSION, zeroes, sizes[i], NULL, 0);
			close(k->fd[--k->fds]);
			usleep(2000);
		}
	}
	return rc;
}

/* A header announces more than there can be. */
int case_length_lies(struct kit *k)
{
	static const uint32_t sizes[] = { 4097, 65536, 0x7fffffff, 0x80000000, UINT32_MAX };
	int sock, rc = CONFORM_PASSED;

	for (unsigned i = 0; i < ARRAY_SIZE(sizes) && !rc; i++) {
		struct vhost_user_header header = { VHOST_USER_SET_MEM_TABLE, VERSION, sizes[i] };

		doing(k, "a length of", sizes[i]);
		rc = kit_connect_agreed(k, &sock);
		if (rc)
			return rc;
		send(sock, &header, sizeof(header), MSG_NOSIGNAL);
		for (unsigned n = 0; n < 20; n++)
			send(sock, zeroes, sizeof(zeroes), MSG_NOSIGNAL | MSG_DONTWAIT);
		usleep(REACT_US);
		kit_hang_up(k);
	}
	return rc;
}

int case_versions(struct kit *k)
{
	static const uint32_t flags[] = { 0, 2, 3, 0xfffffff0, 0x5 };
	int sock, rc = CONFORM_PASSED;

	for (unsigned i = 0; i < ARRAY_SIZE(flags) && !rc; i++) {
		doing(k, "flags", flags[i]);
		rc = kit_connect(k, &sock);
		if (rc)
			return rc;
		channel_send(sock, VHOST_USER_GET_FEATURES, flags[i], NULL, 0, NULL, 0);
		usleep(REACT_US);
		kit_hang_up(k);
	}
	return rc;
}

/* More descriptors than any message has, and with messages that have none. */
static int send_fds(struct kit *k, const uint32_t *requests, unsigned n, unsigned count)
{
	int fds[CHANNEL_FDS_MAX], sock, rc = CONFORM_PASSED;

	for (unsigned i = 0; i < n && !rc; i++) {
		doing(k, "request", requests[i]);
		rc = kit_connect_agreed(k, &sock);
		if (rc)
			return rc;
		for (unsigned fd = 0; fd < count; fd++)
			fds[fd] = kit_keep(k, memfd_create("conform", MFD_CLOEXEC));
		channel_send(sock, requests[i], VERSION, zeroes, 8, fds, count);
		channel_send(sock, VHOST_USER_GET_FEATURES, VERSION, NULL, 0, NULL, 0);
		usleep(REACT_US);
		kit_hang_up(k);
	}
	return rc;
}

/* Clauses: communication-b */
int case_too_many_fds(struct kit *k)
{
	static const uint32_t requests[] = { VHOST_USER_SET_VRING_CALL, VHOST_USER_SET_VRING_KICK,
					     VHOST_USER_SET_MEM_TABLE, VHOST_USER_SET_OWNER };
	int rc = send_fds(k, requests, ARRAY_SIZE(requests), 9);

	return rc ? rc : send_fds(k, requests, ARRAY_SIZE(requests), CHANNEL_FDS_MAX);
}

int case_fds_unasked(struct kit *k)
{
	static const uint32_t requests[] = { VHOST_USER_GET_FEATURES, VHOST_USER_SET_OWNER,
					     VHOST_USER_SET_VRING_NUM, VHOST_USER_SET_VRING_BASE,
					     VHOST_USER_GET_VRING_BASE };

	return send_fds(k, requests, ARRAY_SIZE(requests), 1);
}

/* CVE-2020-10723: an index that fits when it is cut short. */
/* Clauses: vring-index-a */
int case_ring_index(struct kit *k)
{
	static const uint32_t bad[] = {
		0x7000, 0x10000, 0x10001, 0x7fffffff, 0x80000000, UINT32_MAX
	};
	static const uint32_t requests[] = { VHOST_USER_SET_VRING_NUM, VHOST_USER_SET_VRING_BASE,
					     VHOST_USER_SET_VRING_ENABLE,
					     VHOST_USER_SET_VRING_ADDR };
	int sock, rc = CONFORM_PASSED;

	for (unsigned i = 0; i < ARRAY_SIZE(bad) * ARRAY_SIZE(requests) && !rc; i++) {
		uint32_t request = requests[i % ARRAY_SIZE(requests)];
		struct vhost_user_vring_addr payload = { .index = bad[i / ARRAY_SIZE(requests)] };

		doing(k, "request and index", (uint64_t)request << 32 | payload.index);
		rc = kit_connect_agreed(k, &sock);
		if (!rc)
			rc = refused(k, sock, request, &payload,
				     request == VHOST_USER_SET_VRING_ADDR ? 40 : 8, NULL, 0);
		kit_hang_up(k);
	}
	return rc;
}

/* 2.7: a split ring's size is a power of two, up to 32768. */
/* Clauses: vring-num-a */
int case_ring_size(struct kit *k)
{
	static const uint32_t bad[] = { 0, 32769, 65536, 0x10100, UINT32_MAX };
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < ARRAY_SIZE(bad) && !rc; i++) {
		const struct driver_config c = { .quirks = DRIVER_RINGS_LATER };
		struct vhost_user_vring_state num = { DRIVER_TX(0), bad[i] };
		struct driver *d;
		struct error err;

		doing(k, "a size of", bad[i]);
		rc = kit_open(k, 0, &c, &d);
		if (rc)
			return rc;
		/* Whatever it says, the ring is then started as if it had agreed. */
		if (frontend_set(&d->fe, VHOST_USER_SET_VRING_NUM, &num, sizeof(num), NULL, 0,
				 &err) != -ECONNRESET) {
			const struct driver_ring *r = &d->ring[DRIVER_TX(0)];
			struct vhost_user_vring_addr addr = { .index = DRIVER_TX(0),
							      .desc = (uintptr_t)r->desc,
							      .avail = (uintptr_t)r->avail,
							      .used = (uintptr_t)r->used };

			frontend_set(&d->fe, VHOST_USER_SET_VRING_ADDR, &addr, sizeof(addr), NULL,
				     0, &err);
			frontend_set_fd(&d->fe, VHOST_USER_SET_VRING_KICK, DRIVER_TX(0), r->kick,
					&err);
			frontend_enable(&d->fe, DRIVER_TX(0), true, &err);
		}
		usleep(REACT_US);
		kit_hang_up(k);
	}
	return rc;
}

/* Clauses: vring-addr-a */
int case_ring_nowhere(struct kit *k)
{
	static const uint64_t offsets[] = { UINT64_MAX, 1, 2, 8, 1ull << 40 };
	const struct driver_config c = { .quirks = DRIVER_RINGS_LATER, .regions = 2 };
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < 3 * ARRAY_SIZE(offsets) && !rc; i++) {
		static const char *const parts[] = { "descriptors at +", "available at +",
						     "used at the end of its region" };
		uint64_t off = i % 3 < 2 ? offsets[i / 3] : 0;
		struct driver_ring ring;
		struct driver *d;
		struct error err;

		doing(k, parts[i % 3], off);
		rc = kit_open(k, 0, &c, &d);
		if (rc)
			return rc;
		ring = d->ring[DRIVER_TX(0)];
		if (i % 3 == 0)
			ring.desc = (void *)((uintptr_t)ring.desc + off);
		else if (i % 3 == 1)
			ring.avail = (void *)((uintptr_t)ring.avail + off);
		else
			ring.used = (void *)(d->mem.base + d->mem.region[0].size - 16);
		d->fe.timeout_ms = 500; /* each of these may be without an answer */
		frontend_set_ring(&d->fe, DRIVER_TX(0), &ring, 0, &err);
		frontend_set_fd(&d->fe, VHOST_USER_SET_VRING_KICK, DRIVER_TX(0), ring.kick, &err);
		frontend_enable(&d->fe, DRIVER_TX(0), true, &err);
		ring_kick(&d->ring[DRIVER_TX(0)]);
		usleep(REACT_US);
		kit_hang_up(k);
	}
	return rc;
}

static int set_memory(struct kit *k, const struct vhost_user_region *region, int fd)
{
	struct vhost_user_memory table = { .regions = 1, .region = { *region } };
	int sock, rc = kit_connect_agreed(k, &sock);

	if (!rc)
		rc = refused(k, sock, VHOST_USER_SET_MEM_TABLE, &table, 8 + sizeof(*region), &fd,
			     1);
	return rc;
}

/* Clauses: memory-b */
int case_memory_bad(struct kit *k)
{
	static const struct {
		const char *name;
		struct vhost_user_region region;
	} bad[] = {
		{ "size and offset wrap", { 0, 0x10000, 0x10000, UINT64_MAX - 0xfff } },
		{ "of 2^64 bytes", { 0, UINT64_MAX, 0x10000, 0 } },
		{ "guest addresses wrap", { UINT64_MAX - 0xfff, 0x10000, 0x10000, 0 } },
		{ "user addresses wrap", { 0, 0x10000, UINT64_MAX - 0xfff, 0 } },
		{ "of 2^62 bytes", { 0, 1ull << 62, 0x10000, 0 } },
	};
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < ARRAY_SIZE(bad) && !rc; i++) {
		int fd = kit_keep(k, memfd_create("conform", MFD_CLOEXEC));

		k->doing = bad[i].name;
		if (ftruncate(fd, 0x10000))
			return kit_fail(k, "no memory");
		rc = set_memory(k, &bad[i].region, fd);
		kit_hang_up(k);
	}
	return rc;
}

int case_memory_no_file(struct kit *k)
{
	static const char *const names[] = { "an eventfd", "a pipe", "a socket" };
	const struct vhost_user_region region = { 0, 0x10000, 0x10000, 0 };
	int fds[3], rc = CONFORM_PASSED;

	for (unsigned i = 0; i < ARRAY_SIZE(names) && !rc; i++) {
		int ends[2];

		if (pipe2(ends, O_CLOEXEC))
			return kit_fail(k, "no pipe");
		kit_keep(k, ends[1]);
		fds[0] = kit_keep(k, eventfd(0, EFD_CLOEXEC));
		fds[1] = kit_keep(k, ends[0]);
		fds[2] = kit_keep(k, socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
		k->doing = names[i];
		rc = set_memory(k, &region, fds[i]);
		kit_hang_up(k);
	}
	return rc;
}

/* The file becomes shorter, and then a buffer in what is gone is sent: SIGBUS. */
/* Clauses: memory-c */
int case_memory_truncated(struct kit *k)
{
	const struct driver_config c = { .regions = 2, .extra = 8 << 20 };
	struct driver_piece piece = { .len = 100 };
	struct driver_region *last;
	struct driver_ring *tx;
	struct driver *d;
	int rc = kit_open_running(k, &c, &d);

	if (rc)
		return rc;
	tx = &d->ring[DRIVER_TX(0)];
	last = &d->mem.region[1];
	piece.at = d->mem.base + d->mem.size - 4096;
	if (ftruncate(last->fd, (off_t)(last->size - 65536)))
		return kit_lack(k, "memory that can be truncated");
	ring_add(tx, &piece, 1, 0, false, NULL);
	ring_publish(tx);
	ring_kick(tx);
	script_wait_idle(tx, 2 * KIT_QUIET_MS);
	return CONFORM_PASSED;
}

/* Kicks and calls that are no eventfds, and that may block whoever writes or reads them. */
int case_wrong_kind_of_fd(struct kit *k)
{
	static const uint32_t requests[] = { VHOST_USER_SET_VRING_KICK, VHOST_USER_SET_VRING_CALL };
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < 3 * ARRAY_SIZE(requests) && !rc; i++) {
		struct driver *d;
		struct error err;
		int ends[2], fd;

		rc = kit_open_running(k, NULL, &d);
		if (rc)
			return rc;
		if (pipe2(ends, O_CLOEXEC))
			return kit_fail(k, "no pipe");
		kit_keep(k, ends[0]);
		kit_keep(k, ends[1]);
		fd = i % 3 == 0	  ? ends[0]
		     : i % 3 == 1 ? ends[1]
				  : kit_keep(k, memfd_create("conform", MFD_CLOEXEC));
		d->fe.timeout_ms = 500;
		frontend_set_fd(&d->fe, requests[i / 3], DRIVER_TX(0), fd, &err);
		ring_calls_on(&d->ring[DRIVER_TX(0)]);
		for (unsigned n = 0; n < 16; n++) {
			uint8_t frame[60];

			kit_frame(k, frame, sizeof(frame), 0, 1);
			driver_send(d, 0, NULL, frame, sizeof(frame), NULL);
			driver_flush(d, DRIVER_TX(0));
		}
		usleep(REACT_US);
		kit_hang_up(k);
	}
	return rc;
}

int case_fragments(struct kit *k)
{
	int sock, rc = CONFORM_PASSED;

	for (unsigned n = 0; n < 12 && !rc; n++) {
		rc = kit_connect(k, &sock);
		if (!rc)
			send(sock, zeroes, n, MSG_NOSIGNAL);
		usleep(1000);
		kit_hang_up(k);
	}
	return rc;
}

/* Asks and never listens. */
int case_answers_unread(struct kit *k)
{
	int sock, rc = kit_connect(k, &sock);

	if (rc)
		return rc;
	fcntl(sock, F_SETFL, O_NONBLOCK);
	for (unsigned i = 0; i < 100000; i++) {
		if (channel_send(sock, VHOST_USER_GET_FEATURES, VERSION, NULL, 0, NULL, 0))
			break;
	}
	usleep(REACT_US);
	return CONFORM_PASSED;
}

/* Rings that are started, stopped and enabled, of which nothing is known. */
int case_nothing_set_up(struct kit *k)
{
	static const uint32_t requests[] = { VHOST_USER_SET_VRING_ENABLE, VHOST_USER_GET_VRING_BASE,
					     VHOST_USER_SET_VRING_KICK,	  VHOST_USER_SET_VRING_CALL,
					     VHOST_USER_SET_VRING_ENABLE, VHOST_USER_GET_VRING_BASE,
					     VHOST_USER_RESET_OWNER };
	int sock, rc = CONFORM_PASSED;

	for (unsigned first = 0; first < ARRAY_SIZE(requests) && !rc; first++) {
		rc = kit_connect_agreed(k, &sock);
		for (unsigned i = first; i < ARRAY_SIZE(requests) && !rc; i++) {
			struct vhost_user_vring_state state = { .index = i % 2, .num = 1 };
			uint64_t index = i % 2;
			int fd = kit_keep(k, eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
			bool is_fd = requests[i] == VHOST_USER_SET_VRING_KICK ||
				     requests[i] == VHOST_USER_SET_VRING_CALL;

			channel_send(sock, requests[i], VERSION,
				     is_fd ? (void *)&index : (void *)&state, 8, &fd, is_fd);
		}
		usleep(REACT_US);
		kit_hang_up(k);
	}
	return rc;
}

int case_gone_under_load(struct kit *k)
{
	int rc = CONFORM_PASSED;

	for (unsigned round = 0; round < 20 && !rc; round++) {
		struct driver *d;

		rc = kit_open_running(k, NULL, &d);
		for (unsigned i = 0; i < 200 && !rc; i++) {
			uint8_t frame[1000];

			kit_frame(k, frame, sizeof(frame), 0, 1);
			driver_send(d, 0, NULL, frame, sizeof(frame), NULL);
		}
		if (!rc)
			driver_flush(d, DRIVER_TX(0));
		kit_hang_up(k);
	}
	return rc;
}
