// SPDX-License-Identifier: Apache-2.0
/*
 * The flow hash: both directions alike, fragments with their addresses, and never a byte past the
 * end, for which each frame lies in a heap block of exactly its size (address sanitizer).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "net/flow.h"

#define TCP  6
#define UDP  17
#define SCTP 132
#define ICMP 1

struct packet {
	unsigned tags;
	unsigned version;  /* 4, 6; else an unknown type */
	unsigned options;  /* of IPv4, in words */
	unsigned fragment; /* the 16 bits of IPv4 */
	uint8_t protocol;
	uint8_t src, dst; /* last bytes of MAC and IP addresses */
	uint16_t src_port, dst_port;
	uint8_t ttl;
	uint8_t bytes[128];
	uint32_t len;
};

static void put16(struct packet *p, unsigned v)
{
	p->bytes[p->len++] = (uint8_t)(v >> 8);
	p->bytes[p->len++] = (uint8_t)v;
}

static void put_ipv4(struct packet *p)
{
	uint8_t *ip = &p->bytes[p->len];

	ip[0] = (uint8_t)(0x45 + p->options);
	ip[6] = (uint8_t)(p->fragment >> 8);
	ip[7] = (uint8_t)p->fragment;
	ip[8] = p->ttl;
	ip[9] = p->protocol;
	memcpy(ip + 12, (uint8_t[]){ 10, 0, 0, p->src, 10, 0, 0, p->dst }, 8);
	p->len += 20 + 4 * p->options;
}

static void put_ipv6(struct packet *p)
{
	uint8_t *ip = &p->bytes[p->len];

	ip[0] = 0x60;
	ip[6] = p->protocol;
	ip[7] = p->ttl;
	ip[8] = ip[24] = 0xfd;
	ip[23] = p->src;
	ip[39] = p->dst;
	p->len += 40;
}

static uint32_t build(struct packet *p)
{
	memset(p->bytes, 0, sizeof(p->bytes));
	memcpy(p->bytes, (uint8_t[]){ 2, 0, 0, 0, 0, p->dst, 2, 0, 0, 0, 0, p->src }, 12);
	p->len = 12;
	for (unsigned i = 0; i < p->tags; i++) {
		put16(p, i + 1 < p->tags ? 0x88a8 : 0x8100);
		put16(p, 100 + i);
	}
	put16(p, p->version == 4 ? 0x0800 : p->version == 6 ? 0x86dd : 0x88b5);
	if (p->version == 4)
		put_ipv4(p);
	if (p->version == 6)
		put_ipv6(p);
	put16(p, p->src_port);
	put16(p, p->dst_port);
	p->len += 12;
	return p->len;
}

/* From a block that ends where the frame ends. */
static uint32_t hash_bytes(const uint8_t *bytes, uint32_t len)
{
	uint8_t *exact = malloc(len ? len : 1);
	uint32_t hash;

	assert_non_null(exact);
	memcpy(exact, bytes, len);
	hash = flow_hash(len ? exact : exact + 1, len);
	free(exact);
	return hash;
}

static uint32_t hash(struct packet p)
{
	build(&p);
	return hash_bytes(p.bytes, p.len);
}

static struct packet reverse(struct packet p)
{
	struct packet r = p;

	r.src = p.dst;
	r.dst = p.src;
	r.src_port = p.dst_port;
	r.dst_port = p.src_port;
	r.ttl = 3;
	return r;
}

static struct packet some(unsigned version, uint8_t protocol)
{
	return (struct packet){ .version = version,
				.protocol = protocol,
				.src = 1,
				.dst = 2,
				.src_port = 40000,
				.dst_port = 80,
				.ttl = 64 };
}

static void both_directions_of_a_flow_have_one_hash(void **state)
{
	static const uint8_t protocols[] = { TCP, UDP, SCTP, ICMP, 0, 58 };
	static const unsigned versions[] = { 4, 6, 0 };

	for (unsigned v = 0; v < 3; v++) {
		for (unsigned i = 0; i < sizeof(protocols); i++) {
			for (unsigned tags = 0; tags < 4; tags++) {
				struct packet p = some(versions[v], protocols[i]);

				p.tags = tags;
				assert_int_equal(hash(p), hash(reverse(p)));
				p.options = 3;
				assert_int_equal(hash(p), hash(reverse(p)));
			}
		}
	}
}

static void ports_tell_flows_apart_behind_tags_and_options(void **state)
{
	static const uint8_t protocols[] = { TCP, UDP, SCTP };

	for (unsigned version = 4; version <= 6; version += 2) {
		for (unsigned i = 0; i < sizeof(protocols); i++) {
			for (unsigned tags = 0; tags <= 2; tags++) {
				struct packet p = some(version, protocols[i]), other;

				p.tags = tags;
				p.options = version == 4 ? 2 : 0;
				other = p;
				other.src_port++;
				assert_int_not_equal(hash(p), hash(other));
				other = p;
				other.dst_port++;
				assert_int_not_equal(hash(p), hash(other));
				other = p;
				other.src++;
				assert_int_not_equal(hash(p), hash(other));
			}
		}
	}
}

static void a_header_that_is_shorter_than_possible_has_no_ports(void **state)
{
	struct packet p = some(4, TCP), r = reverse(p);

	build(&p);
	build(&r);
	for (uint8_t words = 0; words < 5; words++) {
		p.bytes[14] = r.bytes[14] = 0x40 | words;
		assert_int_equal(hash_bytes(p.bytes, p.len), hash_bytes(r.bytes, r.len));
	}
}

static void the_same_ports_of_other_ends_are_another_flow(void **state)
{
	for (unsigned version = 4; version <= 6; version += 2) {
		struct packet p = some(version, TCP), crossed = p;

		crossed.src_port = p.dst_port;
		crossed.dst_port = p.src_port;
		assert_int_not_equal(hash(p), hash(crossed));
	}
}

static void all_fragments_of_a_packet_have_one_hash(void **state)
{
	struct packet first = some(4, UDP), later = first, last = first, whole = first;

	first.fragment = 0x2000;
	later.fragment = 0x2000 | 185;
	last.fragment = 370;
	later.src_port = 0xabcd; /* payload, where the first has ports */
	last.src_port = 0x1234;
	assert_int_equal(hash(first), hash(later));
	assert_int_equal(hash(first), hash(last));
	whole.fragment = 0x4000; /* "don't fragment" is not one */
	assert_int_equal(hash(whole), hash(some(4, UDP)));
}

static void without_ports_the_addresses_decide(void **state)
{
	static const uint8_t ipv6_headers[] = { 44 /* fragment */, 0, 60, 58 };
	struct packet p = some(4, ICMP), other = p;

	other.src_port = 7;
	assert_int_equal(hash(p), hash(other));
	other.src = 9;
	assert_int_not_equal(hash(p), hash(other));
	for (unsigned i = 0; i < sizeof(ipv6_headers); i++) {
		p = some(6, ipv6_headers[i]);
		other = p;
		other.dst_port = 7;
		assert_int_equal(hash(p), hash(other));
		other.dst = 9;
		assert_int_not_equal(hash(p), hash(other));
	}
}

static void other_types_go_by_their_mac_addresses(void **state)
{
	struct packet p = some(0, 0), other = p;

	other.src_port = 7;
	assert_int_equal(hash(p), hash(other));
	other.src = 9;
	assert_int_not_equal(hash(p), hash(other));
	p = some(4, TCP);
	p.tags = 3; /* too deep to look */
	other = p;
	other.src_port = 7;
	assert_int_equal(hash(p), hash(other));
}

static void a_frame_cut_anywhere_is_not_read_past_its_end(void **state)
{
	for (unsigned version = 0; version <= 6; version++) {
		for (unsigned tags = 0; tags <= 3; tags++) {
			struct packet p = some(version, TCP);

			p.tags = tags;
			p.options = version == 4 ? 10 : 0;
			build(&p);
			for (uint32_t len = 0; len <= p.len; len++)
				hash_bytes(p.bytes, len);
		}
	}
}

static void random_frames_are_not_read_past_their_end(void **state)
{
	unsigned seed = 1;

	for (unsigned n = 0; n < 100000; n++) {
		static const uint8_t types[][2] = { { 8, 0 }, { 0x86, 0xdd }, { 0x81, 0 } };
		uint8_t bytes[80];
		uint32_t len = (uint32_t)rand_r(&seed) % (sizeof(bytes) + 1);

		for (unsigned i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)(rand_r(&seed) >> 8);
		memcpy(bytes + 12, types[n % 3], 2);
		memcpy(bytes + 16, types[n % 2], 2);
		hash_bytes(bytes, len);
	}
}

static void flows_spread_over_queues_by_high_and_by_low_bits(void **state)
{
	const unsigned flows = 8000, queues = 8;

	for (unsigned version = 4; version <= 6; version += 2) {
		unsigned high[8] = { 0 }, low[8] = { 0 };

		for (unsigned i = 0; i < flows; i++) {
			struct packet p = some(version, TCP);
			uint32_t h;

			p.src_port = (uint16_t)(32768 + i);
			h = hash(p);
			high[h >> 29]++;
			low[h % queues]++;
		}
		for (unsigned i = 0; i < queues; i++) {
			assert_in_range(high[i], flows / queues * 8 / 10, flows / queues * 12 / 10);
			assert_in_range(low[i], flows / queues * 8 / 10, flows / queues * 12 / 10);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_directions_of_a_flow_have_one_hash),
		cmocka_unit_test(ports_tell_flows_apart_behind_tags_and_options),
		cmocka_unit_test(a_header_that_is_shorter_than_possible_has_no_ports),
		cmocka_unit_test(the_same_ports_of_other_ends_are_another_flow),
		cmocka_unit_test(all_fragments_of_a_packet_have_one_hash),
		cmocka_unit_test(without_ports_the_addresses_decide),
		cmocka_unit_test(other_types_go_by_their_mac_addresses),
		cmocka_unit_test(a_frame_cut_anywhere_is_not_read_past_its_end),
		cmocka_unit_test(random_frames_are_not_read_past_their_end),
		cmocka_unit_test(flows_spread_over_queues_by_high_and_by_low_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
