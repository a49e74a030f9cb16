// SPDX-License-Identifier: Apache-2.0
/*
 * A walk from header to header. Before each of them is read, `reach` says whether it lies in the
 * packet (else it is bad) and in the bytes that are there (else they are too few); a header that
 * would be both is bad. Every step moves forward, so the number of bytes bounds the number of
 * extension headers.
 */
#include "net/parse.h"

#include <linux/if_ether.h>
#include <netinet/in.h>

#include "net/checksum.h"
#include "net/eth.h"
#include "net/gso.h"
#include "net/ip.h"

#define IPV6_FRAGMENT 0xfff9 /* an offset, or more fragments */

struct walk {
	const uint8_t *head;
	uint32_t head_len;
};

/* May bytes up to `to` be read, in a packet that ends at `end`? */
static enum parse reach(const struct walk *w, uint32_t to, uint32_t end)
{
	if (to > end)
		return PARSE_BAD;
	return to > w->head_len ? PARSE_TOO_LONG : PARSE_DONE;
}

/* Sets p->end from the length of the packet as its header says it, however short. */
static enum parse set_end(struct parsed *p, uint32_t stated)
{
	if (!stated)
		return PARSE_DONE; /* as long as the frame */
	if (stated > p->end - p->l3)
		return PARSE_BAD;
	p->end = p->l3 + stated;
	return PARSE_DONE;
}

static enum parse parse_ethernet(const struct walk *w, struct parsed *p, uint32_t *ret_type)
{
	enum parse parse = reach(w, ETH_HEADER_LEN, p->end);
	uint32_t type;

	if (parse)
		return parse;
	p->l3 = ETH_HEADER_LEN;
	type = load16(w->head + p->l3 - 2);
	while ((type == ETH_P_8021Q || type == ETH_P_8021AD) && p->vlan_tags < VLAN_TAGS_MAX) {
		parse = reach(w, p->l3 + VLAN_TAG_LEN, p->end);
		if (parse)
			return parse;
		p->l3 += VLAN_TAG_LEN;
		p->vlan_tags++;
		type = load16(w->head + p->l3 - 2);
	}
	*ret_type = type;
	return PARSE_DONE;
}

static enum parse parse_ipv4(const struct walk *w, struct parsed *p)
{
	const uint8_t *ip = w->head + p->l3;
	enum parse parse = reach(w, p->l3 + IPV4_HEADER_MIN, p->end);
	uint32_t header_len;

	if (parse)
		return parse;
	header_len = (ip[0] & 15u) * 4;
	if (ip[0] >> 4 != 4 || header_len < IPV4_HEADER_MIN)
		return PARSE_BAD;
	parse = set_end(p, load16(ip + 2));
	if (!parse)
		parse = reach(w, p->l3 + header_len, p->end);
	if (parse)
		return parse;
	p->ip = 4;
	p->protocol = ip[9];
	p->fragment = load16(ip + 6) & IPV4_FRAGMENT;
	p->l4 = (uint16_t)(p->l3 + header_len);
	return PARSE_DONE;
}

/* RFC 8200, 4: the extension headers that leave what follows them in the clear and whole. */
static bool is_extension(uint8_t protocol)
{
	return protocol == IPPROTO_HOPOPTS || protocol == IPPROTO_ROUTING ||
	       protocol == IPPROTO_DSTOPTS || protocol == IPPROTO_FRAGMENT;
}

static enum parse parse_extensions(const struct walk *w, struct parsed *p)
{
	while (is_extension(p->protocol) && !p->fragment) {
		const uint8_t *ext = w->head + p->l4;
		enum parse parse = reach(w, p->l4 + 8u, p->end);
		uint32_t len = 8;

		if (parse)
			return parse;
		if (p->protocol == IPPROTO_FRAGMENT)
			p->fragment = load16(ext + 2) & IPV6_FRAGMENT;
		else
			len += ext[1] * 8u;
		if (p->protocol == IPPROTO_ROUTING && ext[3])
			p->routed = true;
		parse = reach(w, p->l4 + len, p->end);
		if (parse)
			return parse;
		p->protocol = ext[0];
		p->l4 = (uint16_t)(p->l4 + len);
	}
	return PARSE_DONE;
}

static enum parse parse_ipv6(const struct walk *w, struct parsed *p)
{
	const uint8_t *ip = w->head + p->l3;
	enum parse parse = reach(w, p->l3 + IPV6_HEADER_LEN, p->end);
	uint32_t payload_len;

	if (parse)
		return parse;
	if (ip[0] >> 4 != 6)
		return PARSE_BAD;
	payload_len = load16(ip + 4);
	parse = set_end(p, payload_len ? payload_len + IPV6_HEADER_LEN : 0);
	if (parse)
		return parse;
	p->ip = 6;
	p->protocol = ip[6];
	p->l4 = (uint16_t)(p->l3 + IPV6_HEADER_LEN);
	return parse_extensions(w, p);
}

static enum parse parse_transport(const struct walk *w, struct parsed *p)
{
	uint32_t len = 0;
	enum parse parse;

	p->payload = p->l4;
	if (p->fragment)
		return PARSE_DONE;
	if (p->protocol == IPPROTO_TCP) {
		parse = reach(w, p->l4 + TCP_HEADER_MIN, p->end);
		if (parse)
			return parse;
		len = (w->head[p->l4 + 12] >> 4) * 4u;
		if (len < TCP_HEADER_MIN)
			return PARSE_BAD;
	} else if (p->protocol == IPPROTO_UDP) {
		len = UDP_HEADER_LEN;
	}
	parse = reach(w, p->l4 + len, p->end);
	if (parse)
		return parse;
	p->payload = (uint16_t)(p->l4 + len);
	return PARSE_DONE;
}

enum parse parse_frame(const uint8_t *head, uint16_t head_len, uint32_t frame_len,
		       struct parsed *ret)
{
	const struct walk w = { .head = head, .head_len = head_len };
	struct parsed p = { .end = frame_len };
	enum parse parse;
	uint32_t type;

	parse = parse_ethernet(&w, &p, &type);
	if (parse)
		return parse;
	if (type == ETH_P_IP) {
		parse = parse_ipv4(&w, &p);
	} else if (type == ETH_P_IPV6) {
		parse = parse_ipv6(&w, &p);
	} else {
		p.l4 = p.payload = p.l3;
		*ret = p;
		return PARSE_DONE;
	}
	if (!parse)
		parse = parse_transport(&w, &p);
	if (!parse)
		*ret = p;
	return parse;
}

enum parse parse_agrees(const struct parsed *p, const struct virtio_net_hdr *hdr,
			uint32_t frame_len)
{
	const struct gso *gso = gso_find(hdr->gso_type);

	if (hdr->gso_type == VIRTIO_NET_HDR_GSO_NONE)
		return PARSE_DONE;
	if (!gso || !(p->ip == 4 ? gso->ipv4 : p->ip == 6 && gso->ipv6) ||
	    p->protocol != gso->protocol || p->fragment || p->end != frame_len ||
	    hdr->csum_start != p->l4 || hdr->csum_offset != gso->csum_offset)
		return PARSE_BAD;
	return PARSE_DONE;
}
