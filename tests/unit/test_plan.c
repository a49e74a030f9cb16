// SPDX-License-Identifier: Apache-2.0
/*
 * Every header that a sender with any set of features may send, to a receiver with any set: the
 * plan is compared with an oracle that asks what the receiver would be told and may not be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "net/gso.h"
#include "net/parse.h"
#include "net/plan.h"
#include "net/vnet_hdr.h"

#define FRAME_LEN 3000

/* One bit of a set each. */
enum { CSUM = 1, TSO4 = 2, TSO6 = 4, ECN = 8, USO4 = 16, USO6 = 32, SETS = 64 };

static const struct {
	unsigned member;
	unsigned host, guest; /* bit of the sender's feature, and of the receiver's */
} offloads[] = {
	{ CSUM, 0, 1 }, { TSO4, 11, 7 },  { TSO6, 12, 8 },
	{ ECN, 13, 9 }, { USO4, 56, 54 }, { USO6, 56, 55 },
};

static uint64_t host_features(unsigned set)
{
	uint64_t features = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(offloads); i++)
		features |= set & offloads[i].member ? 1ull << offloads[i].host : 0;
	return features;
}

static uint64_t guest_features(unsigned set)
{
	uint64_t features = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(offloads); i++)
		features |= set & offloads[i].member ? 1ull << offloads[i].guest : 0;
	return features;
}

/* What somebody who is given this header must have agreed to, in words of the header's fields. */
static bool understands(bool csum, unsigned gso_type, unsigned set)
{
	if (csum && !(set & CSUM))
		return false;
	if (gso_type == 1 || gso_type == 0x81)
		if (!(set & TSO4))
			return false;
	if (gso_type == 4 || gso_type == 0x84)
		if (!(set & TSO6))
			return false;
	if (gso_type == 5)
		if (!(set & USO4) || !(set & USO6))
			return false;
	if (gso_type >= 0x80 && !(set & ECN))
		return false;
	return true;
}

/* The least that has to be done: the first of these that is allowed. */
static enum plan oracle(bool csum, unsigned gso_type, unsigned set, bool fits)
{
	if (understands(csum, gso_type, set) && (fits || gso_type == 0))
		return PLAN_PASS;
	if (gso_type == 0)
		return PLAN_FINISH;
	if (understands(true, 0, set))
		return PLAN_SEGMENT;
	return PLAN_SEGMENT_FINISH;
}

/* UDP in segments is not taken from senders yet, but planned for. */
static bool may_send(struct virtio_net_hdr *hdr, unsigned sender)
{
	if (hdr->gso_type == VIRTIO_NET_HDR_GSO_UDP_L4)
		return hdr->flags && sender & CSUM && sender & (USO4 | USO6);
	return vnet_hdr_check(hdr, FRAME_LEN, host_features(sender)) == DROP_NONE;
}

static unsigned long planned[4];

static void check_pair(struct virtio_net_hdr hdr, unsigned sender, unsigned receiver, bool fits)
{
	enum plan plan;

	if (!may_send(&hdr, sender))
		return;
	plan = plan_frame(&hdr, guest_features(receiver), fits);
	assert_int_equal(plan, oracle(hdr.flags & 1, hdr.gso_type, receiver, fits));
	planned[plan]++;
}

/* Clauses: 5.1.6.4.1f, 5.1.6.4.1g */
static void test_every_sender_to_every_receiver(void **state)
{
	static const uint8_t types[] = { 0, 1, 4, 5, 0x80, 0x81, 0x84 };

	for (unsigned pair = 0; pair < SETS * SETS; pair++) {
		for (unsigned i = 0; i < 4 * ARRAY_SIZE(types); i++) {
			const struct virtio_net_hdr hdr = {
				.flags = i & 1,
				.gso_type = types[i / 4],
				.gso_size = types[i / 4] ? 1448 : 0,
				.csum_start = 34,
				.csum_offset = types[i / 4] == 5 ? 6 : 16,
			};

			check_pair(hdr, pair / SETS, pair % SETS, i & 2);
		}
	}
	for (unsigned i = 0; i < ARRAY_SIZE(planned); i++)
		assert_true(planned[i] > 100);
}

static void test_equals_pass_everything(void **state)
{
	static const uint8_t types[] = { 0, 1, 4, 0x81, 0x84 };

	for (unsigned set = 0; set < SETS; set++) {
		for (unsigned i = 0; i < ARRAY_SIZE(types); i++) {
			struct virtio_net_hdr hdr = { .flags = 1,
						      .gso_type = types[i],
						      .gso_size = 1448,
						      .csum_start = 34,
						      .csum_offset = 16 };

			if (vnet_hdr_check(&hdr, FRAME_LEN, host_features(set)) == DROP_NONE)
				assert_int_equal(plan_frame(&hdr, guest_features(set), true),
						 PLAN_PASS);
		}
	}
}

static void test_an_unknown_type_is_never_passed(void **state)
{
	for (unsigned type = 0; type < 256; type++) {
		const struct virtio_net_hdr hdr = { .flags = 1, .gso_type = (uint8_t)type };
		bool known = type == 0 || type == 1 || type == 4 || type == 5 || type == 0x81 ||
			     type == 0x84;

		assert_int_equal(plan_frame(&hdr, ~0ull, true) == PLAN_PASS, known);
	}
}

static void test_dhcp_is_finished_for_all(void **state)
{
	static const unsigned ports[] = { 67, 68, 546, 547 };
	uint8_t head[100] = { 0 };
	struct virtio_net_hdr hdr = { .flags = 1, .csum_start = 34, .csum_offset = 6 };
	unsigned found = 0;

	for (unsigned port = 0; port < 65536; port++) {
		bool dhcp = false;

		for (unsigned i = 0; i < ARRAY_SIZE(ports); i++)
			dhcp |= port == ports[i];
		head[36] = (uint8_t)(port >> 8);
		head[37] = (uint8_t)port;
		found += dhcp;
		assert_int_equal(plan_finish_for_all(&hdr, head, sizeof(head)), dhcp);
	}
	assert_int_equal(found, 4);
	head[36] = 0;
	head[37] = 67;
	/* All of the header must be there: what is not is not read. */
	for (uint32_t len = 0; len <= sizeof(head); len++)
		assert_int_equal(plan_finish_for_all(&hdr, head, len), len >= 42);
	hdr.csum_start = 65535;
	assert_false(plan_finish_for_all(&hdr, head, sizeof(head)));
	hdr.csum_start = 34;
	hdr.csum_offset = 16; /* TCP's */
	assert_false(plan_finish_for_all(&hdr, head, sizeof(head)));
	hdr.csum_offset = 6;
	hdr.gso_type = 5;
	assert_false(plan_finish_for_all(&hdr, head, sizeof(head)));
	hdr.gso_type = hdr.flags = 0;
	assert_false(plan_finish_for_all(&hdr, head, sizeof(head)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_sender_to_every_receiver),
		cmocka_unit_test(test_equals_pass_everything),
		cmocka_unit_test(test_dhcp_is_finished_for_all),
		cmocka_unit_test(test_an_unknown_type_is_never_passed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
