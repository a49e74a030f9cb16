/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the headers of a frame lie: Ethernet, up to two VLAN tags, IPv4 with options or IPv6 with
 * extension headers, TCP or UDP.
 *
 * Reads only the frame's first bytes, a private copy; whatever is found lies within them. Pure.
 */
#ifndef RINGWAY_NET_PARSE_H
#define RINGWAY_NET_PARSE_H

#include <linux/virtio_net.h>

#include "base/base.h"

enum parse {
	PARSE_DONE,
	PARSE_BAD,	/* the headers contradict each other or the frame's length */
	PARSE_TOO_LONG, /* they do not end within the bytes given */
};

/* Offsets are in bytes from the beginning of the frame. */
struct parsed {
	uint16_t l3;	  /* behind the VLAN tags */
	uint16_t l4;	  /* behind IPv4 options and IPv6 extension headers; l3 if not IP */
	uint16_t payload; /* behind the TCP or UDP header; l4 if there is none to be seen */
	uint8_t vlan_tags;
	uint8_t ip;	  /* 4 or 6; 0 is anything else, also a third tag */
	uint8_t protocol; /* what is at l4, an IPPROTO_; 0 if not IP */
	bool fragment;	  /* a part of a packet: TCP and UDP are not looked for */
	bool routed;	  /* IPv6: on its way to another address than its destination field says */
	uint32_t end;	  /* of the packet; padding may follow */
};

/*
 * Parses a frame of `frame_len` bytes of which the first `head_len` (no more than that) are at
 * `head`. Sets *ret only if PARSE_DONE. An IP length field of 0 is taken as the frame's: stacks
 * leave it to the hardware when they let it cut segments.
 */
enum parse parse_frame(const uint8_t *head, uint16_t head_len, uint32_t frame_len,
		       struct parsed *ret);

/*
 * Does the frame have the headers that its virtio-net header wants to be cut? Checks the protocol,
 * that the checksum is the transport's, and that the packet ends with the frame. PARSE_DONE or
 * PARSE_BAD. Without a GSO type the checksum may be anybody's, a tunnelled packet's for
 * example, and nothing is asked. `hdr` passed vnet_hdr_check().
 */
enum parse parse_agrees(const struct parsed *p, const struct virtio_net_hdr *hdr,
			uint32_t frame_len);

#endif
