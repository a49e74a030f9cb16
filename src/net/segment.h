/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cutting a large TCP or UDP packet into segments: the headers of each. The payload is copied by
 * the caller, who hands in its sum.
 *
 *	segment_begin(&s, ...);
 *	for (i = 0; i < s.n; i++) {
 *		copy segment_payload(&s, i) bytes, with checksum_copy() if they are to be finished
 *		segment_header(&s, i, header);
 *		segment_finish(&s, header, &payload_sum);    or give it segment_hdr()
 *	}
 *
 * Pure functions over private bytes.
 */
#ifndef RINGWAY_NET_SEGMENT_H
#define RINGWAY_NET_SEGMENT_H

#include "net/checksum.h"
#include "net/parse.h"

/*
 * The most segments that a packet is cut into: 64 KiB in segments of 48 bytes, the smallest that
 * Linux makes (CVE-2019-11477), are 1366.
 */
#define SEGMENTS_MAX 1366u

struct segments {
	const uint8_t *head;  /* the frame's first bytes: header_len of them, the caller's */
	uint32_t n;	      /* how many */
	uint32_t size;	      /* payload bytes of each but the last */
	uint32_t payload_len; /* of all */
	uint16_t header_len;  /* of each: Ethernet to TCP or UDP */
	uint16_t l3, l4;
	uint16_t csum_offset;
	bool ipv6;
	bool udp;
	uint16_t pseudo; /* sum of the pseudo header without its length */
};

/*
 * Prepares cutting the frame of `frame_len` bytes that parse_frame() found to be `p`, as `hdr`
 * wants it, which has a GSO type and passed vnet_hdr_check(). A payload that is smaller than one
 * segment, or empty, makes one. Returns PARSE_BAD if parse_agrees() does, or if there would be too
 * many segments or one longer than IP allows.
 */
enum parse segment_begin(struct segments *s, const uint8_t *head, const struct parsed *p,
			 const struct virtio_net_hdr *hdr, uint32_t frame_len);

/* Payload bytes of segment `i`; they begin i * s->size bytes into the payload. */
static inline uint32_t segment_payload(const struct segments *s, uint32_t i)
{
	return MIN(s->size, s->payload_len - i * s->size);
}

/* Bytes of segment `i` as a frame; no other is longer than the first. */
static inline uint32_t segment_len(const struct segments *s, uint32_t i)
{
	return s->header_len + segment_payload(s, i);
}

/*
 * Writes the s->header_len bytes of segment `i`'s headers to `header`, complete but for the
 * transport's checksum: that field holds the sum of the pseudo header, as NEEDS_CSUM wants it.
 */
void segment_header(const struct segments *s, uint32_t i, uint8_t *header);

/* Finishes that checksum; `payload` is the sum of the segment's payload alone. */
void segment_finish(const struct segments *s, uint8_t *header, const struct checksum *payload);

/* The virtio-net header of a segment that was not finished; of one that was, it is all zero. */
struct virtio_net_hdr segment_hdr(const struct segments *s);

#endif
