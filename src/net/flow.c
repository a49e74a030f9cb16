// SPDX-License-Identifier: Apache-2.0
/*
 * The hash of a flow: the two ends are hashed alike and added, so the order of source and
 * destination does not matter, and the sum is mixed again.
 *
 * No secret: whoever makes flows collide crowds his own frames onto one of the receiver's queues.
 */
#include "net/flow.h"

#include <linux/if_ether.h>
#include <netinet/in.h>

#include "net/eth.h"
#include "net/ip.h"

static uint32_t load32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint64_t load64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Every bit of the result depends on every bit of the argument. */
static uint64_t mix(uint64_t v)
{
	v ^= v >> 32;
	v *= 0xd6e8feb86659fd93u;
	v ^= v >> 32;
	v *= 0xd6e8feb86659fd93u;
	v ^= v >> 32;
	return v;
}

static uint32_t join(uint64_t one_end, uint64_t other_end)
{
	return (uint32_t)mix(mix(one_end) + mix(other_end));
}

static bool has_ports(uint8_t protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP;
}

static bool hash_ipv4(const uint8_t *ip, uint32_t len, uint32_t *ret_hash)
{
	uint64_t src_port = 0, dst_port = 0;
	uint32_t header;

	if (len < IPV4_HEADER_MIN || ip[0] >> 4 != 4)
		return false;
	header = (ip[0] & 15u) * 4;
	if (header >= IPV4_HEADER_MIN && len >= header + 4 && has_ports(ip[9]) &&
	    !(load16(ip + 6) & IPV4_FRAGMENT)) {
		src_port = load16(ip + header);
		dst_port = load16(ip + header + 2);
	}
	*ret_hash = join(load32(ip + 12) | src_port << 32, load32(ip + 16) | dst_port << 32);
	return true;
}

/* Extension headers are not walked: what has them hashes by addresses, fragments included. */
static bool hash_ipv6(const uint8_t *ip, uint32_t len, uint32_t *ret_hash)
{
	uint64_t src_port = 0, dst_port = 0;

	if (len < IPV6_HEADER_LEN || ip[0] >> 4 != 6)
		return false;
	if (len >= IPV6_HEADER_LEN + 4 && has_ports(ip[6])) {
		src_port = load16(ip + IPV6_HEADER_LEN);
		dst_port = load16(ip + IPV6_HEADER_LEN + 2);
	}
	*ret_hash = join(mix(load64(ip + 8) + src_port) + load64(ip + 16),
			 mix(load64(ip + 24) + dst_port) + load64(ip + 32));
	return true;
}

uint32_t flow_hash(const uint8_t *frame, uint32_t len)
{
	uint32_t at = 2 * ETH_ALEN, type, hash;

	if (len < ETH_HEADER_LEN)
		return 0;
	type = load16(frame + at);
	for (unsigned tags = 0; tags < VLAN_TAGS_MAX; tags++) {
		if ((type != ETH_P_8021Q && type != ETH_P_8021AD) || len < at + VLAN_TAG_LEN + 2)
			break;
		at += VLAN_TAG_LEN;
		type = load16(frame + at);
	}
	at += 2;
	if (type == ETH_P_IP && hash_ipv4(frame + at, len - at, &hash))
		return hash;
	if (type == ETH_P_IPV6 && hash_ipv6(frame + at, len - at, &hash))
		return hash;
	return join(frame_src(frame), frame_dst(frame));
}
