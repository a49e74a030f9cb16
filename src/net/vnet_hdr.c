// SPDX-License-Identifier: Apache-2.0
/*
 * The virtio-net header, checked once where it comes in and compared with what each receiver
 * agreed to where it goes out.
 *
 * Both sides work on the frame's private copy. The sums are made in 32 bits: three 16-bit fields
 * cannot wrap there, so a single comparison with the frame's length settles whether the checksum
 * lies inside it.
 */
#include "net/vnet_hdr.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the header's fields are little-endian");

/* The offload that a TCP type needs on the sending and on the receiving side. */
static bool gso_bits(uint8_t gso_type, uint64_t *ret_host, uint64_t *ret_guest)
{
	switch (gso_type & ~VIRTIO_NET_HDR_GSO_ECN) {
	case VIRTIO_NET_HDR_GSO_TCPV4:
		*ret_host = BIT(VIRTIO_NET_F_HOST_TSO4);
		*ret_guest = BIT(VIRTIO_NET_F_GUEST_TSO4);
		break;
	case VIRTIO_NET_HDR_GSO_TCPV6:
		*ret_host = BIT(VIRTIO_NET_F_HOST_TSO6);
		*ret_guest = BIT(VIRTIO_NET_F_GUEST_TSO6);
		break;
	default: /* UDP in fragments or segments is not offered; ECN alone means nothing */
		return false;
	}
	if (gso_type & VIRTIO_NET_HDR_GSO_ECN) {
		*ret_host |= BIT(VIRTIO_NET_F_HOST_ECN);
		*ret_guest |= BIT(VIRTIO_NET_F_GUEST_ECN);
	}
	return true;
}

/* A hint, which drivers get wrong: no shorter than what must be edited, no longer than the frame.
 */
static uint16_t hdr_len_bound(uint32_t hint, uint32_t csum_end, uint32_t frame_len)
{
	uint32_t longest = MIN(frame_len, (uint32_t)UINT16_MAX);

	hint = MAX(hint, csum_end);
	return (uint16_t)MIN(hint, longest);
}

enum drop vnet_hdr_check(struct virtio_net_hdr *hdr, uint32_t frame_len, uint64_t features)
{
	uint32_t csum_end = (uint32_t)hdr->csum_start + hdr->csum_offset + 2;
	uint64_t host, guest;

	hdr->flags &= VIRTIO_NET_HDR_F_NEEDS_CSUM;
	if (!hdr->flags) {
		if (hdr->gso_type != VIRTIO_NET_HDR_GSO_NONE)
			return DROP_HEADER_BAD;
		*hdr = (struct virtio_net_hdr){ 0 };
		return DROP_NONE;
	}
	if (!(features & BIT(VIRTIO_NET_F_CSUM)) || csum_end > frame_len)
		return DROP_HEADER_BAD;
	if (hdr->gso_type == VIRTIO_NET_HDR_GSO_NONE) {
		hdr->hdr_len = 0;
		hdr->gso_size = 0;
		return DROP_NONE;
	}
	if (!gso_bits(hdr->gso_type, &host, &guest) || (features & host) != host || !hdr->gso_size)
		return DROP_HEADER_BAD;
	hdr->hdr_len = hdr_len_bound(hdr->hdr_len, csum_end, frame_len);
	return DROP_NONE;
}

enum drop vnet_hdr_accept(const struct virtio_net_hdr *hdr, uint64_t features)
{
	uint64_t host, guest, needed = 0;

	if (hdr->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM)
		needed |= BIT(VIRTIO_NET_F_GUEST_CSUM);
	if (hdr->gso_type != VIRTIO_NET_HDR_GSO_NONE) {
		if (!gso_bits(hdr->gso_type, &host, &guest))
			return DROP_NOT_AGREED;
		needed |= guest;
	}
	return (features & needed) == needed ? DROP_NONE : DROP_NOT_AGREED;
}
