/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The virtio-net header (virtio 1.3, 5.1.6): what a sender may say in it, and what a receiver may
 * be given. Pure functions over a private copy; all fields are little-endian, for legacy guests
 * too (they are little-endian here, see docs/architecture.md).
 */
#ifndef RINGWAY_NET_VNET_HDR_H
#define RINGWAY_NET_VNET_HDR_H

#include <linux/virtio_config.h>
#include <linux/virtio_net.h>

#include "base/base.h"
#include "base/drop.h"
#include "net/eth.h"

/* Longest frame that any offload can make: 64 KiB of IP behind an Ethernet header and two tags. */
#define FRAME_LEN_MAX (65535u + ETH_HEADER_LEN + VLAN_TAGS_MAX * VLAN_TAG_LEN)

/* With mergeable buffers or VERSION_1 the header has num_buffers (5.1.6.1), else it has not. */
#define VNET_HDR_LEN	    sizeof(struct virtio_net_hdr_mrg_rxbuf)
#define VNET_HDR_LEN_LEGACY sizeof(struct virtio_net_hdr)

static inline unsigned vnet_hdr_len(uint64_t features)
{
	return features & (BIT(VIRTIO_NET_F_MRG_RXBUF) | BIT(VIRTIO_F_VERSION_1))
		       ? VNET_HDR_LEN
		       : VNET_HDR_LEN_LEGACY;
}

/* Nothing left to do: no checksum to finish, no segments to make. The common case, inline. */
static inline bool vnet_hdr_plain(const struct virtio_net_hdr *hdr)
{
	return !(hdr->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) &&
	       hdr->gso_type == VIRTIO_NET_HDR_GSO_NONE;
}

/*
 * May a driver that agreed to `features` send this header with a frame of `frame_len` bytes
 * (5.1.6.2)? One that did not agree to leave checksums to others asks for nothing, whatever the
 * header says: DPDK's packed vectorized driver does not clear it, and sends what was in the
 * buffer before. Bits that a driver may not set but that do no harm (RSC_INFO, DATA_VALID) are
 * cleared, and so is everything that has no meaning without NEEDS_CSUM or a GSO type: after
 * DROP_NONE the header holds only what was checked. Returns DROP_NONE or DROP_HEADER_BAD.
 */
enum drop vnet_hdr_check(struct virtio_net_hdr *hdr, uint32_t frame_len, uint64_t features);

#endif
