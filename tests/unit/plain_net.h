/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames made and checked in the slowest and plainest way, for the tests of src/net. Shares nothing
 * with what it tests: everything is in network byte order, byte by byte.
 */
#ifndef RINGWAY_TESTS_PLAIN_NET_H
#define RINGWAY_TESTS_PLAIN_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PLAIN_FIN 0x01
#define PLAIN_PSH 0x08
#define PLAIN_ECE 0x40
#define PLAIN_CWR 0x80

#define PLAIN_FRAME_MAX (65535 + 14 + 8)

/* What a frame shall look like. */
struct plain_shape {
	unsigned tags; /* VLAN tags */
	bool v6;
	unsigned ip_options; /* IPv4: bytes of them */
	/*
	 * IPv6: extension headers. h, d: hop-by-hop and destination options; H: 24 bytes of
	 * hop-by-hop; r, R: routing, done with and not; f, F: fragment header of a whole packet and
	 * of a part.
	 */
	const char *extensions;
	uint8_t protocol;     /* 6, 17, or another, which gets no header */
	unsigned tcp_options; /* bytes of them */
	uint8_t flags;	      /* TCP's */
	uint32_t payload;     /* bytes */
	uint32_t seed;	      /* of the payload */
};

struct plain_frame {
	uint32_t len;
	uint32_t l3, l4, payload; /* where they begin */
	const uint8_t *src, *dst; /* that the pseudo header is made of */
	uint8_t bytes[PLAIN_FRAME_MAX];
};

static inline void plain_put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline uint32_t plain_get16(const uint8_t *p)
{
	return p[0] * 256u + p[1];
}

static inline uint32_t plain_get32(const uint8_t *p)
{
	return plain_get16(p) * 65536u + plain_get16(p + 2);
}

/* Adds two numbers of 16 bits with the carry brought round. */
static inline uint32_t plain_plus(uint32_t a, uint32_t b)
{
	return a + b > 0xffff ? a + b - 0xffff : a + b;
}

static inline uint32_t plain_sum(uint32_t sum, const uint8_t *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		sum = plain_plus(sum, i % 2 ? p[i] : p[i] * 256u);
	return sum;
}

static inline uint32_t plain_pseudo(const uint8_t *src, const uint8_t *dst, bool v6,
				    uint8_t protocol, uint32_t len)
{
	uint32_t sum = plain_sum(plain_sum(0, src, v6 ? 16 : 4), dst, v6 ? 16 : 4);

	return plain_plus(plain_plus(sum, protocol), len);
}

static inline uint32_t plain_put_extension(uint8_t *p, char kind, uint8_t next, uint32_t seed,
					   const uint8_t **dst)
{
	uint32_t len = kind == 'H' || kind == 'r' || kind == 'R' ? 24 : 8;

	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)(seed + i * 7);
	p[0] = next;
	switch (kind) {
	case 'f':
	case 'F':
		p[1] = 0;
		plain_put16(p + 2, kind == 'F' ? 0x0008 : 0x0006); /* bits 1 and 2 mean nothing */
		break;
	case 'r':
	case 'R':
		p[3] = kind == 'R';
		if (kind == 'R')
			*dst = p + 8;
		/* fallthrough */
	default:
		p[1] = (uint8_t)(len / 8 - 1);
	}
	return len;
}

static inline uint8_t plain_extension_type(char kind)
{
	switch (kind) {
	case 'h':
	case 'H':
		return 0;
	case 'd':
		return 60;
	case 'r':
	case 'R':
		return 43;
	default:
		return 44;
	}
}

static inline void plain_put_ip(struct plain_frame *f, const struct plain_shape *s)
{
	uint8_t *ip = f->bytes + f->l3;

	for (unsigned i = 0; i < 60; i++)
		ip[i] = (uint8_t)(s->seed + i * 13 + 1);
	if (!s->v6) {
		ip[0] = (uint8_t)(0x40 + (20 + s->ip_options) / 4);
		plain_put16(ip + 6, 0x4000); /* don't fragment */
		ip[9] = s->protocol;
		f->src = ip + 12;
		f->dst = ip + 16;
		f->l4 = f->l3 + 20 + s->ip_options;
	} else {
		const char *ext = s->extensions ? s->extensions : "";

		ip[0] = 0x60 + ip[0] % 16;
		ip[6] = *ext ? plain_extension_type(*ext) : s->protocol;
		f->src = ip + 8;
		f->dst = ip + 24;
		f->l4 = f->l3 + 40;
		for (; *ext; ext++)
			f->l4 += plain_put_extension(f->bytes + f->l4, *ext,
						     ext[1] ? plain_extension_type(ext[1])
							    : s->protocol,
						     s->seed, &f->dst);
	}
}

/* The lengths and IPv4's checksum, which depend on all that follows. */
static inline void plain_close_ip(struct plain_frame *f, bool v6)
{
	uint8_t *ip = f->bytes + f->l3;

	if (v6) {
		plain_put16(ip + 4, f->len - f->l3 - 40);
		return;
	}
	plain_put16(ip + 2, f->len - f->l3);
	plain_put16(ip + 10, 0);
	plain_put16(ip + 10, 0xffff - plain_sum(0, ip, ip[0] % 16u * 4));
}

/* Makes the frame; the transport's checksum field holds what NEEDS_CSUM wants there. */
static inline void plain_make(struct plain_frame *f, const struct plain_shape *s)
{
	static const uint16_t types[] = { 0x8100, 0x88a8 };
	uint32_t at = 12, x = s->seed * 2654435761u + 1;

	for (unsigned i = 0; i < 12; i++)
		f->bytes[i] = (uint8_t)(2 + i * 16);
	for (unsigned i = s->tags; i; i--, at += 4) {
		plain_put16(f->bytes + at, types[i - 1 < 2 ? i - 1 : 0]);
		plain_put16(f->bytes + at + 2, 100 + i);
	}
	plain_put16(f->bytes + at, s->v6 ? 0x86dd : 0x0800);
	f->l3 = at + 2;
	plain_put_ip(f, s);
	f->payload = f->l4;
	if (s->protocol == 6 || s->protocol == 17) {
		uint8_t *l4 = f->bytes + f->l4;

		f->payload += s->protocol == 6 ? 20 + s->tcp_options : 8;
		for (uint32_t i = 0; i < f->payload - f->l4; i++)
			l4[i] = (uint8_t)(s->seed + 0xf3 + i * 5);
		if (s->protocol == 6) {
			l4[12] = (uint8_t)((20 + s->tcp_options) / 4 * 16);
			l4[13] = 0x10 | s->flags;
		}
	}
	for (uint32_t i = 0; i < s->payload; i++) {
		x = x * 1664525u + 1013904223u;
		f->bytes[f->payload + i] = (uint8_t)(x >> 24);
	}
	f->len = f->payload + s->payload;
	plain_close_ip(f, s->v6);
	if (s->protocol == 17)
		plain_put16(f->bytes + f->l4 + 4, f->len - f->l4);
	if (f->payload > f->l4)
		plain_put16(f->bytes + f->l4 + (s->protocol == 6 ? 16 : 6),
			    plain_pseudo(f->src, f->dst, s->v6, s->protocol, f->len - f->l4));
}

/* Where the checksum lies in TCP's or UDP's header. */
static inline uint32_t plain_field(const struct plain_shape *s)
{
	return s->protocol == 6 ? 16 : 6;
}

/*
 * Cuts segment `i` out of the packet, with the `len` bytes of payload from `at` on, and writes it
 * to `to`. The transport's checksum is left as the packet's. Returns the segment's length.
 */
static inline uint32_t plain_cut(const struct plain_frame *f, const struct plain_shape *s,
				 uint32_t i, uint32_t at, uint32_t len, uint8_t *to)
{
	uint8_t *ip = to + f->l3, *l4 = to + f->l4;
	uint32_t total = f->payload + len - f->l3;
	bool last = at + len == s->payload;

	memcpy(to, f->bytes, f->payload);
	memcpy(to + f->payload, f->bytes + f->payload + at, len);
	if (s->v6) {
		plain_put16(ip + 4, total - 40);
	} else {
		plain_put16(ip + 2, total);
		plain_put16(ip + 4, (plain_get16(ip + 4) + i) % 65536);
		plain_put16(ip + 10, 0);
		plain_put16(ip + 10, 0xffff - plain_sum(0, ip, 20 + s->ip_options));
	}
	if (s->protocol == 17) {
		plain_put16(l4 + 4, 8 + len);
		return f->payload + len;
	}
	plain_put16(l4 + 4, (plain_get32(l4 + 4) + at) / 65536);
	plain_put16(l4 + 6, plain_get32(f->bytes + f->l4 + 4) + at);
	l4[13] = 0x10;
	if (s->flags & PLAIN_ECE)
		l4[13] += PLAIN_ECE;
	if (s->flags & PLAIN_CWR && i == 0)
		l4[13] += PLAIN_CWR;
	if (s->flags & PLAIN_PSH && last)
		l4[13] += PLAIN_PSH;
	if (s->flags & PLAIN_FIN && last)
		l4[13] += PLAIN_FIN;
	return f->payload + len;
}

#endif
