// SPDX-License-Identifier: Apache-2.0
#include "conform/cases.h"

#include <errno.h>

#define NEED_REPLY VHOST_USER_NEED_REPLY

/* QEMU's document, "Header" and GET_FEATURES. */
/* Clauses: header-a, communication-a, 6.2a */
int case_features(struct kit *k)
{
	uint64_t first, again;
	int sock, rc = kit_connect(k, &sock);

	if (!rc)
		rc = kit_ask_u64(k, sock, VHOST_USER_GET_FEATURES, 0, &first);
	if (!rc)
		rc = kit_ask_u64(k, sock, VHOST_USER_GET_FEATURES, 0, &again);
	if (rc)
		return rc;
	if (first != again)
		return kit_fail(k, "%#llx were offered and then %#llx", (unsigned long long)first,
				(unsigned long long)again);
	if (!(first & BIT(VIRTIO_F_VERSION_1)))
		return kit_fail(k, "VIRTIO_F_VERSION_1 is not offered");
	return CONFORM_PASSED;
}

/* 2.2.2: a device should do with any valid subset. */
/* Clauses: 2.2.2a */
/* Features: version_1 */
int case_features_least(struct kit *k)
{
	struct driver_config c = { .features = BIT(VIRTIO_F_VERSION_1) |
					       BIT(VHOST_USER_F_PROTOCOL_FEATURES) };
	struct driver *d;
	int rc = kit_open(k, 0, &c, &d);

	return rc ? rc : kit_pump(k, d, 0, 100);
}

/* Clauses: protocol-features-a */
int case_protocol_features(struct kit *k)
{
	int sock, rc = kit_connect(k, &sock);
	uint64_t protocol;

	/* Also before anything was agreed to. */
	return rc ? rc : kit_ask_u64(k, sock, VHOST_USER_GET_PROTOCOL_FEATURES, 0, &protocol);
}

/* Clauses: queues-a */
int case_queue_num(struct kit *k)
{
	int sock, rc = kit_connect_agreed(k, &sock);
	uint64_t pairs;

	if (!rc)
		rc = kit_ask_u64(k, sock, VHOST_USER_GET_QUEUE_NUM, 0, &pairs);
	if (!rc && !pairs)
		return kit_fail(k, "no queue pair at all");
	return rc;
}

/* "Ring states": then there is no SET_VRING_ENABLE, and rings are enabled from the start. */
/* Clauses: ring-states-g */
/* Features: protocol_features */
int case_no_protocol_features(struct kit *k)
{
	struct driver_config c = { .features = driver_features_default() &
					       ~BIT(VHOST_USER_F_PROTOCOL_FEATURES) };
	struct driver *d;
	int rc = kit_open(k, 0, &c, &d);

	return rc ? rc : kit_pump(k, d, 0, 100);
}

/* Clauses: reply-ack-c */
int case_need_reply_early(struct kit *k)
{
	int sock, rc = kit_connect(k, &sock);

	if (!rc)
		rc = kit_in_step(k, sock);
	if (rc)
		return rc;
	if (channel_send(sock, VHOST_USER_SET_OWNER, VHOST_USER_VERSION | NEED_REPLY, NULL, 0, NULL,
			 0))
		return kit_fail(k, "SET_OWNER cannot be sent");
	return kit_in_step(k, sock);
}

struct request {
	uint32_t request, size;
	uint64_t payload[5];
};

/* What a front-end says, in a sensible order, and what the protocol has no answer for. */
static const struct request plain[] = {
	{ VHOST_USER_SET_OWNER, 0, { 0 } },
	{ VHOST_USER_SET_VRING_CALL, 8, { 0x100 } },
	{ VHOST_USER_SET_VRING_CALL, 8, { 0x101 } },
	{ VHOST_USER_SET_FEATURES, 8, { BIT(VIRTIO_F_VERSION_1) | BIT(30) } },
	{ VHOST_USER_SET_VRING_NUM, 8, { 256ull << 32 } },
	{ VHOST_USER_SET_VRING_BASE, 8, { 0 } },
	{ VHOST_USER_SET_VRING_NUM, 8, { 256ull << 32 | 1 } },
	{ VHOST_USER_SET_VRING_ENABLE, 8, { 0 } },
};

/* Clauses: reply-ack-a */
int case_acks(struct kit *k)
{
	int sock, rc = kit_connect_agreed(k, &sock);

	for (unsigned i = 0; i < ARRAY_SIZE(plain) && !rc; i++) {
		struct channel_message m;

		rc = kit_ask(k, sock, plain[i].request, NEED_REPLY, plain[i].payload, plain[i].size,
			     &m);
		if (!rc && m.hdr.size != 8)
			return kit_fail(k, "request %u: an answer of %u bytes, not 8",
					plain[i].request, m.hdr.size);
		if (!rc && m.payload.u64)
			return kit_fail(k, "request %u was refused", plain[i].request);
		if (!rc) /* and no more than one */
			rc = kit_in_step(k, sock);
	}
	return rc;
}

/* Clauses: reply-ack-c */
int case_no_acks(struct kit *k)
{
	int sock, rc = kit_connect_agreed(k, &sock);

	for (unsigned i = 0; i < ARRAY_SIZE(plain) && !rc; i++) {
		if (channel_send(sock, plain[i].request, VHOST_USER_VERSION, plain[i].payload,
				 plain[i].size, NULL, 0))
			return kit_fail(k, "request %u cannot be sent", plain[i].request);
		rc = kit_in_step(k, sock);
	}
	return rc;
}

/* A request that has an answer of its own gets that one alone. */
/* Clauses: reply-ack-b */
int case_one_answer(struct kit *k)
{
	static const uint32_t requests[] = { VHOST_USER_GET_FEATURES,
					     VHOST_USER_GET_PROTOCOL_FEATURES };
	int sock, rc = kit_connect_agreed(k, &sock);

	for (unsigned i = 0; i < 2 * ARRAY_SIZE(requests) && !rc; i++) {
		uint64_t value;

		rc = kit_ask_u64(k, sock, requests[i % 2], NEED_REPLY, &value);
		if (!rc && !value)
			return kit_fail(k, "request %u: the answer is 0, like one of success",
					requests[i % 2]);
	}
	return rc;
}

/* It was not done, so it must not be said that it was. */
/* Clauses: reply-ack-a, vring-index-a */
int case_refusal(struct kit *k)
{
	const struct vhost_user_vring_state num = { 0x7000, 256 };
	struct channel_message m;
	int sock, rc = kit_connect_agreed(k, &sock);

	if (rc)
		return rc;
	rc = script_call(sock, VHOST_USER_SET_VRING_NUM, VHOST_USER_VERSION | NEED_REPLY, &num,
			 sizeof(num), NULL, 0, &m, k->config->timeout_ms);
	if (!rc && !m.payload.u64)
		return kit_fail(k, "a ring of index 0x7000 was agreed to");
	if (rc && rc != -ECONNRESET && rc != -EPIPE)
		return kit_fail(k, "neither an answer nor an end: %s", strerror(-rc));
	return CONFORM_PASSED;
}

static int set_status(struct kit *k, int sock, uint64_t status)
{
	uint64_t got;
	int rc;

	if (channel_send(sock, VHOST_USER_SET_STATUS, VHOST_USER_VERSION, &status, sizeof(status),
			 NULL, 0))
		return kit_fail(k, "SET_STATUS cannot be sent");
	rc = kit_ask_u64(k, sock, VHOST_USER_GET_STATUS, 0, &got);
	if (!rc && got != status)
		return kit_fail(k, "status %#llx reads as %#llx", (unsigned long long)status,
				(unsigned long long)got);
	return rc;
}

/* 2.1.2: what the driver has written is there, until it is reset. */
/* Clauses: 2.1.2a */
int case_status(struct kit *k)
{
	int sock, rc = kit_connect_agreed(k, &sock);
	const uint64_t features = BIT(VIRTIO_F_VERSION_1) | BIT(VHOST_USER_F_PROTOCOL_FEATURES);

	if (!rc)
		rc = set_status(k, sock, VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER);
	if (!rc && channel_send(sock, VHOST_USER_SET_FEATURES, VHOST_USER_VERSION, &features,
				sizeof(features), NULL, 0))
		return kit_fail(k, "SET_FEATURES cannot be sent");
	if (!rc)
		rc = set_status(k, sock,
				VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER |
					VIRTIO_CONFIG_S_FEATURES_OK);
	return rc ? rc : set_status(k, sock, 0);
}

/* One connection each. */
static int pump_each(struct kit *k, const struct driver_config *configs, unsigned n)
{
	int rc = CONFORM_PASSED;

	for (unsigned i = 0; i < n && !rc; i++) {
		struct driver *d;

		rc = kit_open(k, 0, &configs[i], &d);
		if (!rc)
			rc = kit_pump(k, d, 0, 500);
		kit_hang_up(k);
	}
	return rc;
}

int case_orders(struct kit *k)
{
	const struct driver_config orders[] = {
		{ .quirks = DRIVER_ENABLE_FIRST }, /* QEMU's */
		{ .quirks = DRIVER_TX_FIRST },
		{ .quirks = DRIVER_ENABLE_FIRST | DRIVER_TX_FIRST },
	};

	return pump_each(k, orders, ARRAY_SIZE(orders));
}

/* Clauses: memory-a */
int case_regions(struct kit *k)
{
	const struct driver_config guests[] = {
		{ .regions = 2, .gpa = 0x100000000 },
		{ .regions = 8, .gpa = 0x7ff000 },
	};

	return pump_each(k, guests, ARRAY_SIZE(guests));
}

/* Clauses: mem-reg-a */
int case_slots(struct kit *k)
{
	const struct driver_config guest = { .regions = 3, .quirks = DRIVER_MEM_SLOTS };
	int sock, rc = kit_connect_agreed(k, &sock);
	uint64_t slots;

	if (!rc)
		rc = kit_ask_u64(k, sock, VHOST_USER_GET_MAX_MEM_SLOTS, 0, &slots);
	if (!rc && slots < guest.regions)
		return kit_fail(k, "only %llu slots", (unsigned long long)slots);
	kit_hang_up(k);
	return rc ? rc : pump_each(k, &guest, 1);
}

/* Clauses: communication-c */
int case_reconnect(struct kit *k)
{
	static const struct driver_config plain_guests[10];

	return pump_each(k, plain_guests, ARRAY_SIZE(plain_guests));
}
