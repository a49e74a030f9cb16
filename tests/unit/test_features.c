// SPDX-License-Identifier: Apache-2.0
/* The table of features: names, and that nothing is offered that is not known by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "vhost/features.h"

static void each_bit_has_one_row_and_a_name_of_its_own(void **state)
{
	for (unsigned i = 0; i < virtio_features_count; i++) {
		assert_true(virtio_features[i].bit < 64);
		assert_true(*virtio_features[i].name && *virtio_features[i].text);
		for (unsigned j = 0; j < i; j++) {
			assert_int_not_equal(virtio_features[i].bit, virtio_features[j].bit);
			assert_string_not_equal(virtio_features[i].name, virtio_features[j].name);
		}
	}
}

/* Clauses: 6.2d */
static void what_is_not_implemented_is_not_offered(void **state)
{
	static const unsigned absent[] = { 26 /* VHOST_F_LOG_ALL */,
					   VIRTIO_NET_F_MAC,
					   VIRTIO_NET_F_GUEST_UFO,
					   VIRTIO_NET_F_HOST_UFO,
					   VIRTIO_F_ACCESS_PLATFORM,
					   VIRTIO_F_SR_IOV,
					   63 };
	static const unsigned absent_protocol[] = { VHOST_USER_PROTOCOL_F_LOG_SHMFD,
						    VHOST_USER_PROTOCOL_F_RARP,
						    VHOST_USER_PROTOCOL_F_BACKEND_REQ,
						    VHOST_USER_PROTOCOL_F_INFLIGHT_SHMFD,
						    6 /* CROSS_ENDIAN */,
						    13 /* RESET_DEVICE */ };

	for (unsigned i = 0; i < ARRAY_SIZE(absent); i++)
		assert_false(features_offered() & BIT(absent[i]));
	for (unsigned i = 0; i < ARRAY_SIZE(absent_protocol); i++)
		assert_false(VHOST_PROTOCOL_FEATURES_OFFERED & BIT(absent_protocol[i]));
}

/* bess#346, snabb#698: without these the second queue pair stayed off. */
/* Clauses: queues-b */
/* Features: ctrl_vq, status */
static void what_several_queues_need_is_offered(void **state)
{
	static const unsigned bits[] = { VIRTIO_NET_F_MQ, VIRTIO_NET_F_STATUS, VIRTIO_NET_F_CTRL_VQ,
					 VHOST_USER_F_PROTOCOL_FEATURES };

	for (unsigned i = 0; i < ARRAY_SIZE(bits); i++)
		assert_true(features_offered() & BIT(bits[i]));
	assert_true(VHOST_PROTOCOL_FEATURES_OFFERED & BIT(VHOST_USER_PROTOCOL_F_MQ));
}

static void text_names_known_bits_numbers_others_and_keeps_to_its_room(void **state)
{
	char text[128];

	features_text(0, text, sizeof(text));
	assert_string_equal(text, "");
	features_text(BIT(0) | BIT(15) | BIT(63), text, sizeof(text));
	assert_string_equal(text, "csum,mrg_rxbuf,bit63");
	protocol_features_text(BIT(0) | BIT(3) | BIT(13) | BIT(16) | BIT(63), text, sizeof(text));
	assert_string_equal(text, "mq,reply_ack,bit13,status,bit63");
	for (size_t size = 0; size < 20; size++) {
		memset(text, '#', sizeof(text));
		features_text(UINT64_MAX, text, size);
		assert_int_equal(text[size], '#');
		if (size)
			assert_non_null(memchr(text, '\0', size));
	}
}

/* Clauses: 2.2.2b, 5.1.3.1a */
static void what_is_left_out_takes_along_what_needs_it(void **state)
{
	const uint64_t host = BIT(VIRTIO_NET_F_HOST_TSO4) | BIT(VIRTIO_NET_F_HOST_TSO6) |
			      BIT(VIRTIO_NET_F_HOST_ECN);
	const uint64_t guest = BIT(VIRTIO_NET_F_GUEST_TSO4) | BIT(VIRTIO_NET_F_GUEST_TSO6) |
			       BIT(VIRTIO_NET_F_GUEST_ECN);
	const uint64_t uso = BIT(VIRTIO_NET_F_GUEST_USO4) | BIT(VIRTIO_NET_F_GUEST_USO6);
	const struct {
		const char *text;
		uint64_t gone;
	} rows[] = {
		{ "", 0 },
		{ "all", 0 },
		{ "-tso", host },
		{ "-uso", BIT(VIRTIO_NET_F_HOST_USO) },
		{ "-csum", BIT(VIRTIO_NET_F_CSUM) | BIT(VIRTIO_NET_F_HOST_USO) | host },
		{ "-guest_tso", guest },
		{ "-guest_uso", uso },
		{ "-guest_csum", BIT(VIRTIO_NET_F_GUEST_CSUM) | uso | guest },
		{ "-mrg_rxbuf,-mq", BIT(VIRTIO_NET_F_MRG_RXBUF) | BIT(VIRTIO_NET_F_MQ) },
		{ "-event_idx,-indirect_desc,-event_idx",
		  BIT(VIRTIO_RING_F_EVENT_IDX) | BIT(VIRTIO_RING_F_INDIRECT_DESC) },
	};
	uint64_t offered = 0;
	struct error err;

	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(features_parse(rows[i].text, &offered, &err), 0);
		assert_int_equal(offered, features_offered() & ~rows[i].gone);
	}
}

static void unknown_groups_are_refused_with_all_that_there_are(void **state)
{
	static const char *const bad[] = { "-",	     ",",	   "csum",     "-frob",
					   "-csum,", "-csu",	   "-csumm",   "--csum",
					   " -csum", "-csum,,-mq", "-csum mq", "all,-mq" };
	uint64_t offered = 7;
	struct error err;

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(features_parse(bad[i], &offered, &err), -EINVAL);
#define X(group, bits) assert_non_null(strstr(err.text, "-" #group));
		VIRTIO_FEATURE_GROUPS(X)
#undef X
	}
	/* Of whatever length. */
	for (unsigned n = 2; n < 20; n++) {
		char text[] = "-xxxxxxxxxxxxxxxxxxx";

		text[n] = '\0';
		assert_int_equal(features_parse(text, &offered, &err), -EINVAL);
	}
	assert_int_equal(offered, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_bit_has_one_row_and_a_name_of_its_own),
		cmocka_unit_test(what_is_not_implemented_is_not_offered),
		cmocka_unit_test(what_several_queues_need_is_offered),
		cmocka_unit_test(text_names_known_bits_numbers_others_and_keeps_to_its_room),
		cmocka_unit_test(what_is_left_out_takes_along_what_needs_it),
		cmocka_unit_test(unknown_groups_are_refused_with_all_that_there_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
