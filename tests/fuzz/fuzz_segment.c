// SPDX-License-Identifier: Apache-2.0
/*
 * From a frame and a header that a guest made up to segments: whatever is cut has right checksums
 * and the whole payload. Input: the virtio-net header, the frame.
 */
#include <string.h>

#include "fuzz.h"
#include "net/gso.h"
#include "net/segment.h"
#include "net/vnet_hdr.h"
#include "unit/plain_net.h"

#define HEAD_MAX 244u /* as much of a frame as is ever copied aside */

static struct plain_frame frame;

size_t fuzz_seed(unsigned i, uint8_t *data)
{
	static const struct plain_shape shapes[] = {
		{ .protocol = 6, .payload = 250 },
		{ .protocol = 6, .tags = 1, .ip_options = 8, .payload = 99, .flags = PLAIN_CWR },
		{ .protocol = 6, .tags = 2, .v6 = true, .tcp_options = 12, .payload = 100 },
		{ .protocol = 6, .v6 = true, .extensions = "HdRfd", .payload = 101 },
		{ .protocol = 17, .payload = 300 },
		{ .protocol = 17, .v6 = true, .extensions = "h", .payload = 1 },
	};
	struct virtio_net_hdr hdr = { .flags = 1, .gso_size = 100 };

	if (i >= ARRAY_SIZE(shapes))
		return 0;
	plain_make(&frame, &shapes[i]);
	hdr.gso_type = shapes[i].v6 ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4;
	if (shapes[i].protocol == 17)
		hdr.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4;
	hdr.csum_start = (uint16_t)frame.l4;
	hdr.csum_offset = shapes[i].protocol == 6 ? 16 : 6;
	memcpy(data, &hdr, sizeof(hdr));
	memcpy(data + sizeof(hdr), frame.bytes, frame.len);
	return sizeof(hdr) + frame.len;
}

/* Verifies what can be without knowing the packet: not the transport's sum if it is routed. */
static void check_sums(const struct segments *s, const struct parsed *p, const uint8_t *segment,
		       uint32_t len)
{
	const uint8_t *ip = segment + s->l3;
	uint32_t l4_len = len - s->l4, sum;

	if (s->ipv6) {
		fuzz_check(plain_get16(ip + 4) == len - s->l3 - 40);
		sum = plain_pseudo(ip + 8, ip + 24, true, p->protocol, l4_len);
	} else {
		fuzz_check(plain_get16(ip + 2) == len - s->l3);
		fuzz_check(plain_sum(0, ip, s->l4 - s->l3) == 0xffff);
		sum = plain_pseudo(ip + 12, ip + 16, false, p->protocol, l4_len);
	}
	if (!p->routed)
		fuzz_check(plain_sum(sum, segment + s->l4, l4_len) == 0xffff);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t segment[FUZZ_INPUT_MAX];
	struct virtio_net_hdr hdr;
	struct segments s;
	struct parsed p;
	uint32_t len, at = 0;

	if (size < sizeof(hdr) || size > sizeof(hdr) + sizeof(segment))
		return 0;
	memcpy(&hdr, data, sizeof(hdr));
	data += sizeof(hdr);
	len = (uint32_t)(size - sizeof(hdr));
	if (parse_frame(data, (uint16_t)MIN(len, HEAD_MAX), len, &p) ||
	    segment_begin(&s, data, &p, &hdr, len))
		return 0;
	fuzz_check(s.n >= 1 && s.n <= SEGMENTS_MAX);
	for (uint32_t i = 0; i < s.n; i++) {
		uint32_t part = segment_payload(&s, i);
		struct checksum sum = { 0 };

		fuzz_check(part || s.n == 1);
		fuzz_check(part <= s.payload_len - at);
		checksum_copy(&sum, segment + s.header_len, data + s.header_len + at, part);
		segment_header(&s, i, segment);
		segment_finish(&s, segment, &sum);
		check_sums(&s, &p, segment, segment_len(&s, i));
		at += part;
	}
	fuzz_check(at == s.payload_len && s.header_len + at == len);
	return 0;
}
