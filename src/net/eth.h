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

/* Group addresses (multicast and broadcast) have the lowest bit of the first byte set. */
static inline bool mac_is_group(uint64_t mac)
{
	return mac >> 40 & 1;
}

/* The first byte on the wire is the most significant of the 48 bits. Reads two bytes more. */
static inline uint64_t mac_load(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return __builtin_bswap64(word) >> 16;
}

/* Of a frame of at least ETH_HEADER_LEN bytes. */
static inline uint64_t frame_dst(const uint8_t *frame)
{
	return mac_load(frame);
}

static inline uint64_t frame_src(const uint8_t *frame)
{
	return mac_load(frame + 6);
}

#endif
