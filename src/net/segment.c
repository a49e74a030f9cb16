// SPDX-License-Identifier: Apache-2.0
/*
 * Each segment's headers are the packet's, with what differs written over them: lengths, the IPv4
 * identification and checksum, TCP's sequence number and flags, the transport's checksum.
 *
 * The pseudo header is summed anew from the addresses, whatever the sender put there. Only with an
 * IPv6 routing header that is not done with is the sender asked: it has to use the address of the
 * last hop (RFC 8200, 8.1), and has it summed already.
 */
#include "net/segment.h"

#include <netinet/in.h>
#include <string.h>

#include "net/ip.h"

#define IP_LEN_MAX 65535u

#define TCP_FIN 0x01
#define TCP_PSH 0x08
#define TCP_CWR 0x80

static void store16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void store32(uint8_t *p, uint32_t v)
{
	store16(p, v >> 16);
	store16(p + 2, v);
}

static uint16_t pseudo_sum(const struct segments *s, const struct parsed *p, uint32_t frame_len)
{
	struct checksum c = { 0 };

	if (p->routed) {
		checksum_add(&c, s->head + s->l4 + s->csum_offset, 2);
		checksum_add16(&c, (uint16_t) ~(frame_len - s->l4));
		return checksum_fold(c.sum);
	}
	if (s->ipv6)
		checksum_add(&c, s->head + s->l3 + 8, 32);
	else
		checksum_add(&c, s->head + s->l3 + 12, 8);
	checksum_add16(&c, p->protocol);
	return checksum_fold(c.sum);
}

enum parse segment_begin(struct segments *s, const uint8_t *head, const struct parsed *p,
			 const struct virtio_net_hdr *hdr, uint32_t frame_len)
{
	uint32_t payload_len = frame_len - p->payload;

	if (!hdr->gso_type || !hdr->gso_size || parse_agrees(p, hdr, frame_len) ||
	    p->payload - p->l3 + MIN(payload_len, (uint32_t)hdr->gso_size) > IP_LEN_MAX ||
	    payload_len > (uint64_t)SEGMENTS_MAX * hdr->gso_size)
		return PARSE_BAD;
	*s = (struct segments){
		.head = head,
		.n = MAX(1u, payload_len / hdr->gso_size + !!(payload_len % hdr->gso_size)),
		.size = hdr->gso_size,
		.payload_len = payload_len,
		.header_len = p->payload,
		.l3 = p->l3,
		.l4 = p->l4,
		.csum_offset = hdr->csum_offset,
		.ipv6 = p->ip == 6,
		.udp = p->protocol == IPPROTO_UDP,
	};
	s->pseudo = pseudo_sum(s, p, frame_len);
	return PARSE_DONE;
}

static void put_ipv4(uint8_t *ip, uint32_t header_len, uint32_t len, uint32_t i)
{
	struct checksum c = { 0 };
	uint16_t sum;

	store16(ip + 2, len);
	store16(ip + 4, load16(ip + 4) + i);
	store16(ip + 10, 0);
	checksum_add(&c, ip, header_len);
	sum = (uint16_t)~checksum_fold(c.sum);
	memcpy(ip + 10, &sum, sizeof(sum));
}

/* What ends the stream is said once, at its end; that the window was reduced, at the beginning. */
static void put_tcp(const struct segments *s, uint32_t i, uint8_t *tcp)
{
	uint32_t sequence = load16(tcp + 4) << 16 | load16(tcp + 6);

	store32(tcp + 4, sequence + i * s->size);
	if (i)
		tcp[13] &= (uint8_t)~TCP_CWR;
	if (i != s->n - 1)
		tcp[13] &= (uint8_t) ~(TCP_FIN | TCP_PSH);
}

void segment_header(const struct segments *s, uint32_t i, uint8_t *header)
{
	uint32_t l4_len = segment_len(s, i) - s->l4;
	struct checksum c = { .sum = s->pseudo };
	uint16_t sum;

	memcpy(header, s->head, s->header_len);
	if (s->ipv6)
		store16(header + s->l3 + 4, l4_len + s->l4 - s->l3 - IPV6_HEADER_LEN);
	else
		put_ipv4(header + s->l3, s->l4 - s->l3, l4_len + s->l4 - s->l3, i);
	if (s->udp)
		store16(header + s->l4 + 4, l4_len);
	else
		put_tcp(s, i, header + s->l4);
	checksum_add16(&c, (uint16_t)l4_len);
	sum = checksum_fold(c.sum);
	memcpy(header + s->l4 + s->csum_offset, &sum, sizeof(sum));
}

void segment_finish(const struct segments *s, uint8_t *header, const struct checksum *payload)
{
	struct checksum c = *payload;
	uint16_t sum;

	/* The header has an even length, so its words are in step with the payload's. */
	c.odd = false;
	checksum_add(&c, header + s->l4, s->header_len - s->l4);
	sum = checksum_finish(&c, s->csum_offset);
	memcpy(header + s->l4 + s->csum_offset, &sum, sizeof(sum));
}

struct virtio_net_hdr segment_hdr(const struct segments *s)
{
	return (struct virtio_net_hdr){
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.csum_start = s->l4,
		.csum_offset = s->csum_offset,
	};
}
