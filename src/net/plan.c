// SPDX-License-Identifier: Apache-2.0
/*
 * A frame is passed only to who agreed to all that its header says (net/gso.h); for others it is
 * cut.
 *
 * GUEST_CSUM comes first: a driver may not agree to anything else without it (virtio 1.3, 5.1.3.1),
 * and one that does gets nothing unfinished.
 */
#include "net/plan.h"

#include "net/checksum.h"
#include "net/gso.h"
#include "net/ip.h"

enum plan plan_frame(const struct virtio_net_hdr *hdr, uint64_t features, bool fits)
{
	bool csum = features & BIT(VIRTIO_NET_F_GUEST_CSUM);
	const struct gso *gso;

	if (hdr->gso_type == VIRTIO_NET_HDR_GSO_NONE)
		return csum || !(hdr->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) ? PLAN_PASS
									   : PLAN_FINISH;
	gso = gso_find(hdr->gso_type);
	if (fits && gso && !(gso->receiver & ~features))
		return PLAN_PASS;
	return csum ? PLAN_SEGMENT : PLAN_SEGMENT_FINISH;
}

bool plan_finish_for_all(const struct virtio_net_hdr *hdr, const uint8_t *head, uint32_t head_len)
{
	const uint8_t *udp = head + hdr->csum_start;

	if (!(hdr->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) || hdr->gso_type ||
	    hdr->csum_offset != CSUM_OFFSET_UDP || hdr->csum_start + UDP_HEADER_LEN > head_len)
		return false;
	switch (load16(udp + 2)) {
	case 67: /* to a DHCP server, a client; the same of IPv6 */
	case 68:
	case 546:
	case 547:
		return true;
	default:
		return false;
	}
}
