// SPDX-License-Identifier: Apache-2.0
/*
 * The virtio-net header, checked once where it comes in; net/plan.h compares it with what each
 * receiver agreed to.
 *
 * It is the frame's private copy that is looked at. The sums are made in 32 bits: three 16-bit
 * fields cannot wrap there, so a single comparison with the frame's length settles whether the
 * checksum lies inside it.
 */
#include "net/vnet_hdr.h"

#include "net/gso.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the header's fields are little-endian");

/* A hint, often wrong: made no shorter than what must be edited, no longer than the frame. */
static uint16_t hdr_len_bound(uint32_t hint, uint32_t csum_end, uint32_t frame_len)
{
	uint32_t longest = MIN(frame_len, (uint32_t)UINT16_MAX);

	hint = MAX(hint, csum_end);
	return (uint16_t)MIN(hint, longest);
}

enum drop vnet_hdr_check(struct virtio_net_hdr *hdr, uint32_t frame_len, uint64_t features)
{
	uint32_t csum_end = (uint32_t)hdr->csum_start + hdr->csum_offset + 2;
	const struct gso *gso;

	if (!(features & BIT(VIRTIO_NET_F_CSUM))) {
		*hdr = (struct virtio_net_hdr){ 0 };
		return DROP_NONE;
	}
	hdr->flags &= VIRTIO_NET_HDR_F_NEEDS_CSUM;
	if (!hdr->flags) {
		if (hdr->gso_type != VIRTIO_NET_HDR_GSO_NONE)
			return DROP_HEADER_BAD;
		*hdr = (struct virtio_net_hdr){ 0 };
		return DROP_NONE;
	}
	if (csum_end > frame_len)
		return DROP_HEADER_BAD;
	if (hdr->gso_type == VIRTIO_NET_HDR_GSO_NONE) {
		hdr->hdr_len = 0;
		hdr->gso_size = 0;
		return DROP_NONE;
	}
	gso = gso_find(hdr->gso_type);
	if (!gso || (gso->sender & ~features) || !hdr->gso_size)
		return DROP_HEADER_BAD;
	hdr->hdr_len = hdr_len_bound(hdr->hdr_len, csum_end, frame_len);
	return DROP_NONE;
}
