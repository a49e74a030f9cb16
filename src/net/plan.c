// SPDX-License-Identifier: Apache-2.0
/*
 * A frame is passed only to who agreed to all that its header says. One that says GSO ECN has CWR
 * set, which only its first segment may have: a receiver that did not agree to GUEST_ECN may
 * not be relied on to know that, so it is cut here.
 *
 * GUEST_CSUM comes first: a driver may not agree to anything else without it (virtio 1.3, 5.1.3.1),
 * and one that does gets nothing unfinished.
 */
#include "net/plan.h"

#include "net/checksum.h"
#include "net/parse.h"

#define UDP_LEN 8u

/* What a receiver must have agreed to for a GSO type; 0: the type is not known, nobody has. */
static uint64_t gso_needs(uint8_t gso_type)
{
	const uint64_t csum = BIT(VIRTIO_NET_F_GUEST_CSUM), ecn = BIT(VIRTIO_NET_F_GUEST_ECN);

	switch (gso_type) {
	case VIRTIO_NET_HDR_GSO_TCPV4:
		return csum | BIT(VIRTIO_NET_F_GUEST_TSO4);
	case VIRTIO_NET_HDR_GSO_TCPV4 | VIRTIO_NET_HDR_GSO_ECN:
		return csum | ecn | BIT(VIRTIO_NET_F_GUEST_TSO4);
	case VIRTIO_NET_HDR_GSO_TCPV6:
		return csum | BIT(VIRTIO_NET_F_GUEST_TSO6);
	case VIRTIO_NET_HDR_GSO_TCPV6 | VIRTIO_NET_HDR_GSO_ECN:
		return csum | ecn | BIT(VIRTIO_NET_F_GUEST_TSO6);
	case VIRTIO_NET_HDR_GSO_UDP_L4: /* which does not tell IPv4 from IPv6 */
		return csum | BIT(VIRTIO_NET_F_GUEST_USO4) | BIT(VIRTIO_NET_F_GUEST_USO6);
	default:
		return 0;
	}
}

enum plan plan_frame(const struct virtio_net_hdr *hdr, uint64_t features, bool fits)
{
	bool csum = features & BIT(VIRTIO_NET_F_GUEST_CSUM);
	uint64_t needs;

	if (hdr->gso_type == VIRTIO_NET_HDR_GSO_NONE)
		return csum || !(hdr->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) ? PLAN_PASS
									   : PLAN_FINISH;
	needs = gso_needs(hdr->gso_type);
	if (fits && needs && (features & needs) == needs)
		return PLAN_PASS;
	return csum ? PLAN_SEGMENT : PLAN_SEGMENT_FINISH;
}

bool plan_finish_for_all(const struct virtio_net_hdr *hdr, const uint8_t *head, uint32_t head_len)
{
	const uint8_t *udp = head + hdr->csum_start;

	if (!(hdr->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) || hdr->gso_type ||
	    hdr->csum_offset != CSUM_OFFSET_UDP || hdr->csum_start + UDP_LEN > head_len)
		return false;
	switch (udp[2] << 8 | udp[3]) {
	case 67: /* to a DHCP server, a client; the same of IPv6 */
	case 68:
	case 546:
	case 547:
		return true;
	default:
		return false;
	}
}
