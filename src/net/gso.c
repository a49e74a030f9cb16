// SPDX-License-Identifier: Apache-2.0
/*
 * A frame with ECN has CWR set, which only its first segment may have: a receiver that did not
 * agree to GUEST_ECN may not be relied on to know that.
 */
#include "net/gso.h"

#include <netinet/in.h>

#include "net/checksum.h"

#define SENDER(name)   BIT(VIRTIO_NET_F_HOST_##name)
#define RECEIVER(name) BIT(VIRTIO_NET_F_GUEST_##name)

static const struct gso tcp4 = {
	.sender = SENDER(TSO4),
	.receiver = RECEIVER(CSUM) | RECEIVER(TSO4),
	.ipv4 = true,
	.protocol = IPPROTO_TCP,
	.csum_offset = CSUM_OFFSET_TCP,
};

static const struct gso tcp4_ecn = {
	.sender = SENDER(TSO4) | SENDER(ECN),
	.receiver = RECEIVER(CSUM) | RECEIVER(TSO4) | RECEIVER(ECN),
	.ipv4 = true,
	.protocol = IPPROTO_TCP,
	.csum_offset = CSUM_OFFSET_TCP,
};

static const struct gso tcp6 = {
	.sender = SENDER(TSO6),
	.receiver = RECEIVER(CSUM) | RECEIVER(TSO6),
	.ipv6 = true,
	.protocol = IPPROTO_TCP,
	.csum_offset = CSUM_OFFSET_TCP,
};

static const struct gso tcp6_ecn = {
	.sender = SENDER(TSO6) | SENDER(ECN),
	.receiver = RECEIVER(CSUM) | RECEIVER(TSO6) | RECEIVER(ECN),
	.ipv6 = true,
	.protocol = IPPROTO_TCP,
	.csum_offset = CSUM_OFFSET_TCP,
};

/* Its type does not tell IPv4 from IPv6. */
static const struct gso udp = {
	.sender = SENDER(USO),
	.receiver = RECEIVER(CSUM) | RECEIVER(USO4) | RECEIVER(USO6),
	.ipv4 = true,
	.ipv6 = true,
	.protocol = IPPROTO_UDP,
	.csum_offset = CSUM_OFFSET_UDP,
};

const struct gso *gso_find(uint8_t gso_type)
{
	switch (gso_type) {
	case VIRTIO_NET_HDR_GSO_TCPV4:
		return &tcp4;
	case VIRTIO_NET_HDR_GSO_TCPV4 | VIRTIO_NET_HDR_GSO_ECN:
		return &tcp4_ecn;
	case VIRTIO_NET_HDR_GSO_TCPV6:
		return &tcp6;
	case VIRTIO_NET_HDR_GSO_TCPV6 | VIRTIO_NET_HDR_GSO_ECN:
		return &tcp6_ecn;
	case VIRTIO_NET_HDR_GSO_UDP_L4:
		return &udp;
	default:
		return NULL;
	}
}
