// SPDX-License-Identifier: Apache-2.0
#include "bench/frames.h"

#include <arpa/inet.h>
#include <string.h>

#define ETH_HEADER 14
#define IP_HEADER  20
#define TCP_HEADER 20
#define SEGMENT	   1448
#define UDP	   17
#define TCP	   6

static uint16_t fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)(sum + (sum >> 16));
}

static uint32_t sum_words(const void *at, unsigned words)
{
	const uint8_t *p = at;
	uint32_t sum = 0;

	for (unsigned i = 0; i < words; i++) {
		uint16_t word;

		memcpy(&word, p + 2 * i, sizeof(word));
		sum += word;
	}
	return sum;
}

static void set_ip_length(struct stamp *s, uint16_t len)
{
	s->total_len = htons(len);
	s->ip_csum = 0;
	s->ip_csum = (uint16_t)~fold(sum_words(&s->version, IP_HEADER / 2));
}

void frames_set_length(struct stamp *s, uint32_t len)
{
	uint16_t ip = (uint16_t)(len - sizeof(s->vnet) - ETH_HEADER);

	set_ip_length(s, ip);
	s->udp_len = htons((uint16_t)(ip - IP_HEADER));
}

/* What a driver says of TCP that is to be cut and has no checksum yet (virtio 1.3, 5.1.6.2). */
static void make_segmented(struct stamp *s, uint32_t len)
{
	uint16_t ip = (uint16_t)(len - sizeof(s->vnet) - ETH_HEADER);

	s->protocol = TCP;
	set_ip_length(s, ip);
	s->vnet.hdr = (struct virtio_net_hdr){
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
		.hdr_len = ETH_HEADER + IP_HEADER + TCP_HEADER,
		.gso_size = SEGMENT,
		.csum_start = ETH_HEADER + IP_HEADER,
		.csum_offset = offsetof(struct stamp, tcp_csum) - offsetof(struct stamp, src_port),
	};
	/* The pseudo header's part of the checksum. */
	s->tcp_csum =
		fold(sum_words(&s->ip_src, 4) + htons(TCP) + htons((uint16_t)(ip - IP_HEADER)));
}

void frames_make(struct stamp *s, unsigned guest, unsigned queue, uint32_t len, bool segmented)
{
	*s = (struct stamp){ .ethertype = htons(FRAMES_IPV4),
			     .version = 0x45,
			     .ttl = 64,
			     .protocol = UDP,
			     .magic = FRAMES_MAGIC };
	s->src[0] = s->dst[0] = 2;
	s->src[5] = (uint8_t)(0xa + guest);
	s->dst[5] = (uint8_t)(0xb - guest);
	s->ip_src = htonl(0x0a000001 + guest);
	s->ip_dst = htonl(0x0a000002 - guest);
	s->src_port = s->dst_port = htons((uint16_t)(1024 + queue));
	if (segmented)
		make_segmented(s, len);
	else
		frames_set_length(s, len);
}
