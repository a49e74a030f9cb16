// SPDX-License-Identifier: Apache-2.0
/*
 * The virtio-net header: every combination of a small range of each field is compared with an
 * oracle that repeats the specification's sentences one by one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "net/vnet_hdr.h"

#define F(name) BIT(VIRTIO_NET_F_##name)

static const uint8_t flags[] = { 0, 1, 2, 3, 4, 5, 7, 0x80, 0xff };
static const uint8_t types[] = { 0, 1, 2, 3, 4, 5, 6, 0x80, 0x81, 0x83, 0x84, 0x85, 0xff };
static const uint16_t starts[] = { 0, 14, 34, 0xfffe, 0xffff };
static const uint16_t offsets[] = { 0, 6, 16, 0xffff };
static const uint16_t sizes[] = { 0, 1, 1448, 0xffff };
static const uint16_t hints[] = { 0, 54, 0xffff };
static const uint32_t lengths[] = { 14, 15, 16, 51, 52, 1514, 65535, 65537, FRAME_LEN_MAX };

/* May it be sent, as the specification (5.1.6.2) and the head of vnet_hdr.h say it. */
static bool oracle_sends(const struct virtio_net_hdr *hdr, uint64_t len, uint64_t features)
{
	bool csum = hdr->flags % 2 == 1;

	if (!(features & F(CSUM)))
		return true;
	if (csum && (uint64_t)hdr->csum_start + (uint64_t)hdr->csum_offset + 1 >= len)
		return false;
	if (hdr->gso_type == 0)
		return true;
	if (!csum || hdr->gso_size == 0)
		return false;
	if (hdr->gso_type == 0x01)
		return features & F(HOST_TSO4);
	if (hdr->gso_type == 0x81)
		return features & F(HOST_TSO4) && features & F(HOST_ECN);
	if (hdr->gso_type == 0x04)
		return features & F(HOST_TSO6);
	if (hdr->gso_type == 0x84)
		return features & F(HOST_TSO6) && features & F(HOST_ECN);
	return false;
}

/* Who did not agree to leave checksums to others says nothing. */
static void check_cleaned(const struct virtio_net_hdr *sent, const struct virtio_net_hdr *hdr,
			  uint32_t len, uint64_t features)
{
	bool agreed = features & F(CSUM);
	bool csum = agreed && sent->flags & 1, gso = agreed && sent->gso_type;

	assert_int_equal(hdr->flags, csum ? 1 : 0);
	assert_int_equal(hdr->gso_type, gso ? sent->gso_type : 0);
	assert_int_equal(hdr->csum_start, csum ? sent->csum_start : 0);
	assert_int_equal(hdr->csum_offset, csum ? sent->csum_offset : 0);
	assert_int_equal(hdr->gso_size, gso ? sent->gso_size : 0);
	if (!gso)
		assert_int_equal(hdr->hdr_len, 0);
	else
		assert_true(hdr->hdr_len <= len &&
			    (hdr->hdr_len >= (uint32_t)hdr->csum_start + hdr->csum_offset + 2 ||
			     hdr->hdr_len == UINT16_MAX));
}

static uint64_t host_features(unsigned pick)
{
	return (pick & 1 ? F(CSUM) : 0) | (pick & 2 ? F(HOST_TSO4) : 0) |
	       (pick & 4 ? F(HOST_TSO6) : 0) | (pick & 8 ? F(HOST_ECN) : 0);
}

static unsigned long allowed;

static void check_one(const struct virtio_net_hdr *sent, uint32_t len)
{
	for (unsigned pick = 0; pick < 16; pick++) {
		uint64_t features = host_features(pick);
		struct virtio_net_hdr hdr = *sent;
		enum drop drop = vnet_hdr_check(&hdr, len, features);
		bool ok = oracle_sends(sent, len, features);

		if (drop != (ok ? DROP_NONE : DROP_HEADER_BAD))
			fail_msg("flags %x type %x start %u offset %u size %u len %u features %x",
				 sent->flags, sent->gso_type, sent->csum_start, sent->csum_offset,
				 sent->gso_size, len, pick);
		if (ok)
			check_cleaned(sent, &hdr, len, features);
		allowed += ok;
	}
}

#define EACH(i, array) for (unsigned i = 0; i < ARRAY_SIZE(array); i++)

/* Clauses: 5.1.6.2.2b */
static void a_header_is_taken_exactly_when_the_specification_allows_it(void **state)
{
	EACH(f, flags)
	EACH(t, types)
	EACH(s, starts)
	EACH(o, offsets)
	EACH(z, sizes)
	EACH(h, hints)
	EACH(l, lengths)
	{
		struct virtio_net_hdr hdr = { .flags = flags[f],
					      .gso_type = types[t],
					      .hdr_len = hints[h],
					      .gso_size = sizes[z],
					      .csum_start = starts[s],
					      .csum_offset = offsets[o] };

		check_one(&hdr, lengths[l]);
	}
	assert_true(allowed > 1000);
}

/* Clauses: 5.1.6.1a */
static void the_header_is_ten_bytes_only_for_legacy_drivers_without_mergeable_buffers(void **state)
{
	assert_int_equal(vnet_hdr_len(0), 10);
	assert_int_equal(vnet_hdr_len(F(CSUM) | F(HOST_TSO4)), 10);
	assert_int_equal(vnet_hdr_len(F(MRG_RXBUF)), 12);
	assert_int_equal(vnet_hdr_len(BIT(32)), 12);
	assert_int_equal(vnet_hdr_len(BIT(32) | F(MRG_RXBUF)), 12);
}

static void plain_means_nothing_to_do(void **state)
{
	struct virtio_net_hdr hdr = { .flags = VIRTIO_NET_HDR_F_DATA_VALID };

	assert_true(vnet_hdr_plain(&hdr));
	hdr.gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
	assert_false(vnet_hdr_plain(&hdr));
	hdr.gso_type = 0;
	hdr.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
	assert_false(vnet_hdr_plain(&hdr));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_header_is_taken_exactly_when_the_specification_allows_it),
		cmocka_unit_test(
			the_header_is_ten_bytes_only_for_legacy_drivers_without_mergeable_buffers),
		cmocka_unit_test(plain_means_nothing_to_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
