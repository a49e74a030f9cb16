// SPDX-License-Identifier: Apache-2.0
#include "vhost/features.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const struct virtio_feature virtio_features[] = {
#define X(bit, name, offered, text) { bit, #name, offered, text },
	VIRTIO_FEATURES(X)
#undef X
};

const unsigned virtio_features_count = ARRAY_SIZE(virtio_features);

uint64_t features_offered(void)
{
	uint64_t bits = 0;

	for (unsigned i = 0; i < virtio_features_count; i++) {
		if (virtio_features[i].offered)
			bits |= BIT(virtio_features[i].bit);
	}
	return bits;
}

/* Which of them needs which others, any of them; in an order in which one look is enough. */
static const struct {
	uint64_t bits, any_of;
} needs[] = {
	{ BIT(VIRTIO_NET_F_HOST_TSO4) | BIT(VIRTIO_NET_F_HOST_TSO6) | BIT(VIRTIO_NET_F_HOST_UFO) |
		  BIT(VIRTIO_NET_F_HOST_USO),
	  BIT(VIRTIO_NET_F_CSUM) },
	{ BIT(VIRTIO_NET_F_HOST_ECN), BIT(VIRTIO_NET_F_HOST_TSO4) | BIT(VIRTIO_NET_F_HOST_TSO6) },
	{ BIT(VIRTIO_NET_F_GUEST_TSO4) | BIT(VIRTIO_NET_F_GUEST_TSO6) |
		  BIT(VIRTIO_NET_F_GUEST_UFO) | BIT(VIRTIO_NET_F_GUEST_USO4) |
		  BIT(VIRTIO_NET_F_GUEST_USO6),
	  BIT(VIRTIO_NET_F_GUEST_CSUM) },
	{ BIT(VIRTIO_NET_F_GUEST_ECN),
	  BIT(VIRTIO_NET_F_GUEST_TSO4) | BIT(VIRTIO_NET_F_GUEST_TSO6) },
	{ BIT(VIRTIO_NET_F_CTRL_RX) | BIT(VIRTIO_NET_F_MQ), BIT(VIRTIO_NET_F_CTRL_VQ) },
};

/* The group that is called the first `len` bytes of `name`, or 0. */
static uint64_t group_bits(const char *name, size_t len)
{
#define X(group, bits)                                            \
	if (strlen(#group) == len && !strncmp(#group, name, len)) \
		return bits;
	VIRTIO_FEATURE_GROUPS(X)
#undef X
	return 0;
}

const char *feature_group(unsigned bit)
{
#define X(group, bits)       \
	if ((bits)&BIT(bit)) \
		return #group;
	VIRTIO_FEATURE_GROUPS(X)
#undef X
	return NULL;
}

int features_parse(const char *text, uint64_t *ret_offered, struct error *err)
{
#define X(group, bits) " -" #group
	static const char groups[] = VIRTIO_FEATURE_GROUPS(X);
#undef X
	uint64_t offered = features_offered();

	for (const char *at = strcmp(text, "all") != 0 ? text : ""; *at;) {
		size_t len = strcspn(at, ",");
		uint64_t bits = *at == '-' ? group_bits(at + 1, len - 1) : 0;

		if (!bits)
			return error_set(err, EINVAL,
					 "features=: '%.*s' is none of%s; write them with commas "
					 "between",
					 (int)MIN(len, (size_t)30), at, groups);
		offered &= ~bits;
		at += len + (at[len] && at[len + 1]);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(needs); i++) {
		if (!(offered & needs[i].any_of))
			offered &= ~needs[i].bits;
	}
	*ret_offered = offered;
	return 0;
}

static const char *feature_name(unsigned bit)
{
	for (unsigned i = 0; i < virtio_features_count; i++) {
		if (virtio_features[i].bit == bit)
			return virtio_features[i].name;
	}
	return NULL;
}

static const char *protocol_feature_name(unsigned bit)
{
	static const char *const names[] = {
		[VHOST_USER_PROTOCOL_F_MQ] = "mq",
		[VHOST_USER_PROTOCOL_F_LOG_SHMFD] = "log_shmfd",
		[VHOST_USER_PROTOCOL_F_RARP] = "rarp",
		[VHOST_USER_PROTOCOL_F_REPLY_ACK] = "reply_ack",
		[VHOST_USER_PROTOCOL_F_NET_MTU] = "net_mtu",
		[VHOST_USER_PROTOCOL_F_BACKEND_REQ] = "backend_req",
		[VHOST_USER_PROTOCOL_F_INFLIGHT_SHMFD] = "inflight_shmfd",
		[VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS] = "configure_mem_slots",
		[VHOST_USER_PROTOCOL_F_STATUS] = "status",
	};

	return bit < ARRAY_SIZE(names) ? names[bit] : NULL;
}

static void bits_text(uint64_t bits, const char *(*name_of)(unsigned bit), char *text, size_t size)
{
	size_t used = 0;

	if (size)
		text[0] = '\0';
	for (unsigned bit = 0; bit < 64 && used < size; bit++) {
		const char *name = name_of(bit), *comma = used ? "," : "";

		if (!(bits & BIT(bit)))
			continue;
		if (name)
			used += (size_t)snprintf(text + used, size - used, "%s%s", comma, name);
		else
			used += (size_t)snprintf(text + used, size - used, "%sbit%u", comma, bit);
	}
}

void features_text(uint64_t features, char *text, size_t size)
{
	bits_text(features, feature_name, text, size);
}

void protocol_features_text(uint64_t features, char *text, size_t size)
{
	bits_text(features, protocol_feature_name, text, size);
}
