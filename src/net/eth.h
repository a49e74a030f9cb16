/* SPDX-License-Identifier: Apache-2.0 */
/* MAC addresses as 48-bit numbers in a uint64_t: compared, hashed and stored in one go. */
#ifndef RINGWAY_NET_ETH_H
#define RINGWAY_NET_ETH_H

#include <stdint.h>
#include <string.h>

#include "base/base.h"

#define ETH_HEADER_LEN 14
#define VLAN_TAG_LEN   4
#define VLAN_TAGS_MAX  2 /* QinQ */
#define MAC_BROADCAST  0xffffffffffffULL

/* The first byte on the wire is the most significant of the 48 bits. */
static inline uint64_t mac_load(const uint8_t *bytes)
{
	uint32_t high;
	uint16_t low;

	memcpy(&high, bytes, 4);
	memcpy(&low, bytes + 4, 2);
	return (uint64_t)__builtin_bswap32(high) << 16 | __builtin_bswap16(low);
}

/* Group addresses (multicast and broadcast) have the lowest bit of the first byte set. */
static inline bool mac_is_group(uint64_t mac)
{
	return mac >> 40 & 1;
}

static inline uint64_t frame_dst(const uint8_t *frame)
{
	return mac_load(frame);
}

static inline uint64_t frame_src(const uint8_t *frame)
{
	return mac_load(frame + 6);
}

#endif
