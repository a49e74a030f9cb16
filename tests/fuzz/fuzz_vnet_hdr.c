// SPDX-License-Identifier: Apache-2.0
/*
 * The virtio-net header: what passed the check holds only what was checked, and whoever it is
 * planned for understands it. Input: the sender's features, the receiver's, the frame's length,
 * the header.
 */
#include <string.h>

#include "fuzz.h"
#include "net/gso.h"
#include "net/plan.h"
#include "net/vnet_hdr.h"

struct input {
	uint64_t sender, receiver;
	uint32_t frame_len;
	struct virtio_net_hdr hdr;
} __attribute__((packed));

size_t fuzz_seed(unsigned i, uint8_t *data)
{
	static const struct virtio_net_hdr headers[] = {
		{ .flags = 0 },
		{ .flags = 1, .csum_start = 34, .csum_offset = 16 },
		{ .flags = 1,
		  .csum_start = 34,
		  .csum_offset = 16,
		  .gso_type = 1,
		  .gso_size = 1448 },
		{ .flags = 1,
		  .csum_start = 54,
		  .csum_offset = 16,
		  .gso_type = 0x84,
		  .gso_size = 9 },
		{ .flags = 1, .csum_start = 34, .csum_offset = 6, .gso_type = 5, .gso_size = 1472 },
		{ .flags = 7, .csum_start = 0xffff, .csum_offset = 0xffff, .hdr_len = 0xffff },
	};
	struct input in = { .sender = i % 2 ? ~0ull : 0x3800 | 1,
			    .receiver = i % 3 ? 0x382 : ~0ull,
			    .frame_len = i % 2 ? 1514 : 65000 };

	if (i >= 2 * ARRAY_SIZE(headers))
		return 0;
	in.hdr = headers[i / 2];
	memcpy(data, &in, sizeof(in));
	return sizeof(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct virtio_net_hdr hdr, again;
	struct input in;

	if (size < sizeof(in))
		return 0;
	memcpy(&in, data, sizeof(in));
	hdr = in.hdr;
	if (vnet_hdr_check(&hdr, in.frame_len, in.sender) != DROP_NONE)
		return 0;
	again = hdr;
	fuzz_check(vnet_hdr_check(&again, in.frame_len, in.sender) == DROP_NONE);
	fuzz_check(!memcmp(&again, &hdr, sizeof(hdr)));
	fuzz_check(hdr.flags <= 1);
	if (hdr.flags)
		fuzz_check((uint64_t)hdr.csum_start + hdr.csum_offset + 2 <= in.frame_len);
	else
		fuzz_check(vnet_hdr_plain(&hdr) && !hdr.csum_start && !hdr.gso_size);
	fuzz_check(!hdr.gso_type || (hdr.flags && hdr.gso_size && hdr.hdr_len <= in.frame_len));
	return 0;
}
