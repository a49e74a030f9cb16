// SPDX-License-Identifier: Apache-2.0
/*
 * The parser: reads nothing behind the bytes it is given, and finds nothing there. Input: how much
 * longer the frame is than them (16 bits), the first bytes.
 */
#include <string.h>

#include "fuzz.h"
#include "net/parse.h"
#include "unit/plain_net.h"

static struct plain_frame frame;

size_t fuzz_seed(unsigned i, uint8_t *data)
{
	static const struct plain_shape shapes[] = {
		{ .protocol = 6, .payload = 20 },
		{ .protocol = 17, .tags = 1, .ip_options = 8 },
		{ .protocol = 6, .tags = 2, .v6 = true, .tcp_options = 12 },
		{ .protocol = 6, .v6 = true, .extensions = "HdRfd" },
		{ .protocol = 17, .v6 = true, .extensions = "hF", .payload = 30 },
		{ .protocol = 58, .v6 = true, .payload = 8 },
	};

	if (i >= ARRAY_SIZE(shapes))
		return 0;
	plain_make(&frame, &shapes[i]);
	memset(data, 0, 2);
	memcpy(data + 2, frame.bytes, frame.len);
	return 2 + frame.len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct parsed p = { .end = 0 }, whole;
	uint32_t head_len, frame_len;
	uint16_t more;

	if (size < 2 || size - 2 > UINT16_MAX)
		return 0;
	memcpy(&more, data, sizeof(more));
	head_len = (uint32_t)size - 2;
	frame_len = head_len + more;
	switch (parse_frame(data + 2, (uint16_t)head_len, frame_len, &p)) {
	case PARSE_DONE:
		break;
	case PARSE_TOO_LONG:
		fuzz_check(more);
		return 0;
	case PARSE_BAD:
		return 0;
	}
	fuzz_check(p.vlan_tags <= 2 && p.l3 == 14 + 4 * p.vlan_tags);
	fuzz_check(p.l3 <= p.l4 && p.l4 <= p.payload);
	fuzz_check(p.payload <= head_len && p.payload <= p.end && p.end <= frame_len);
	fuzz_check(p.ip == 0 || (p.ip == 4 && p.l4 >= p.l3 + 20) ||
		   (p.ip == 6 && p.l4 >= p.l3 + 40));
	fuzz_check(p.ip || p.l3 == p.payload);
	/* No byte behind the headers mattered. */
	fuzz_check(parse_frame(data + 2, p.payload, frame_len, &whole) == PARSE_DONE);
	fuzz_check(whole.l4 == p.l4 && whole.payload == p.payload && whole.end == p.end);
	fuzz_check(whole.protocol == p.protocol && whole.fragment == p.fragment);
	return 0;
}
