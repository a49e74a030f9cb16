// SPDX-License-Identifier: Apache-2.0
/* The MAC table: what it remembers, whom it evicts, and what readers see meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "port/port.h"
#include "switch/mac.h"

static struct mac_table *table;
static struct mac_entry list[MAC_ENTRIES_MAX];

static int set_up(void **state)
{
	table = mac_table_new();
	return table ? 0 : -1;
}

static int tear_down(void **state)
{
	mac_table_free(table);
	return 0;
}

/* Address `i` of a family, as consecutive as those of real hosts. */
static uint64_t mac(unsigned family, unsigned i)
{
	return 0x020000000000u + ((uint64_t)family << 24) + i;
}

static unsigned remembered(unsigned family, unsigned n, uint16_t port)
{
	unsigned found = 0;

	for (unsigned i = 0; i < n; i++)
		found += mac_lookup(table, mac(family, i)) == port;
	return found;
}

static unsigned entries(void)
{
	return mac_list(table, list, MAC_ENTRIES_MAX, 0);
}

static void what_was_learned_is_found_and_nothing_else(void **state)
{
	mac_learn(table, mac(1, 1), 0, 0);
	mac_learn(table, mac(1, 2), PORTS_MAX - 1, 0);
	mac_learn(table, 0xfeffffffffff, 7, 0);
	assert_int_equal(mac_lookup(table, mac(1, 1)), 0);
	assert_int_equal(mac_lookup(table, mac(1, 2)), PORTS_MAX - 1);
	assert_int_equal(mac_lookup(table, 0xfeffffffffff), 7);
	assert_int_equal(mac_lookup(table, mac(1, 3)), PORT_NONE);
	assert_int_equal(mac_lookup(table, 0), PORT_NONE);
	assert_int_equal(mac_lookup(table, 0xffffffffffff), PORT_NONE);
}

static void an_empty_table_knows_nobody(void **state)
{
	for (unsigned i = 0; i < 10000; i++)
		assert_int_equal(mac_lookup(table, mac(1, i)), PORT_NONE);
	assert_int_equal(mac_lookup(table, 0), PORT_NONE);
	assert_int_equal(entries(), 0);
}

static void the_null_address_and_impossible_ports_are_not_learned(void **state)
{
	mac_learn(table, 0, 1, 0);
	mac_learn(table, mac(1, 1), PORT_NONE, 0);
	mac_learn(table, mac(1, 1), PORTS_MAX, 0);
	assert_int_equal(entries(), 0);
	assert_int_equal(mac_lookup(table, 0), PORT_NONE);
}

static void an_address_is_there_once_wherever_it_moves(void **state)
{
	for (unsigned turn = 0; turn < 100; turn++) {
		for (unsigned i = 0; i < 1000; i++)
			mac_learn(table, mac(1, i), (uint16_t)((turn + i) % 5), turn);
	}
	assert_int_equal(entries(), 1000);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(mac_lookup(table, mac(1, i)), (99 + i) % 5);
}

/* Rows of addresses as makers and hypervisors number them, and whatever the table's secret is. */
static void three_quarters_of_the_table_can_be_used(void **state)
{
	static const unsigned strides[] = { 1, 2, 16, 256, 4096 };
	const unsigned n = MAC_ENTRIES_MAX / 4 * 3;

	for (unsigned turn = 0; turn < 50; turn++) {
		unsigned stride = strides[turn % 5], found = 0;

		mac_table_free(table);
		table = mac_table_new();
		assert_non_null(table);
		for (unsigned i = 0; i < n; i++)
			mac_learn(table, mac(1, i * stride), 3, 0);
		for (unsigned i = 0; i < n; i++)
			found += mac_lookup(table, mac(1, i * stride)) == 3;
		assert_true(found >= n - n / 500);
	}
}

static void the_table_is_bounded(void **state)
{
	for (unsigned i = 0; i < 10 * MAC_ENTRIES_MAX; i++)
		mac_learn(table, mac(1, i), 3, 0);
	assert_in_range(entries(), MAC_ENTRIES_MAX * 9 / 10, MAC_ENTRIES_MAX);
}

static void a_port_that_invents_addresses_evicts_its_own(void **state)
{
	const uint16_t attacker = 60;

	for (uint16_t port = 0; port < 50; port++) {
		for (unsigned i = 0; i < 20; i++)
			mac_learn(table, mac(port, i), port, 0);
	}
	for (unsigned i = 0; i < 100000; i++)
		mac_learn(table, mac(99, i * 2654435761u % (1u << 24)), attacker, 1);
	for (uint16_t port = 0; port < 50; port++)
		assert_int_equal(remembered(port, 20, port), 20);
	/* Whoever comes later finds room, at the attacker's expense. */
	for (unsigned i = 0; i < 50; i++)
		mac_learn(table, mac(70, i), 70, 2);
	assert_int_equal(remembered(70, 50, 70), 50);
	for (uint16_t port = 0; port < 50; port++)
		assert_int_equal(remembered(port, 20, port), 20);
}

static void in_a_full_table_who_has_the_most_gets_nothing_of_the_others(void **state)
{
	unsigned n;

	for (uint16_t port = 0; port < 500; port++) {
		for (unsigned i = 0; i < 20; i++)
			mac_learn(table, mac(port, i), port, 0);
	}
	n = entries();
	assert_true(n > MAC_ENTRIES_MAX * 9 / 10);
	for (unsigned i = 0; i < 100000; i++)
		mac_learn(table, mac(999, i), 999, 1);
	/* It has got what was unused, and no more than its share of what was not. */
	for (unsigned i = 0, lost = 0; i < n; i++) {
		lost += mac_lookup(table, list[i].mac) != list[i].port;
		assert_true(lost <= 20);
	}
}

static void two_that_invent_addresses_share_what_there_is(void **state)
{
	unsigned first = 0, second = 0, n;

	for (unsigned i = 0; i < 50000; i++)
		mac_learn(table, mac(1, i), 1, 0);
	for (unsigned i = 0; i < 50000; i++)
		mac_learn(table, mac(2, i), 2, 1);
	n = entries();
	for (unsigned i = 0; i < n; i++) {
		first += list[i].port == 1;
		second += list[i].port == 2;
	}
	assert_in_range(first, MAC_ENTRIES_MAX * 4 / 10, MAC_ENTRIES_MAX * 6 / 10);
	assert_in_range(second, MAC_ENTRIES_MAX * 4 / 10, MAC_ENTRIES_MAX * 6 / 10);
}

static void of_a_port_that_has_too_many_the_silent_ones_go_first(void **state)
{
	for (unsigned i = 0; i < 1000; i++)
		mac_learn(table, mac(1, i), 1, 0);
	for (uint32_t now = 1; now <= 100; now++) {
		for (unsigned i = 0; i < 100; i++)
			mac_learn(table, mac(1, i), 1, now);
		for (unsigned i = 0; i < 500; i++)
			mac_learn(table, mac(2, now * 500 + i), 1, now);
	}
	assert_true(remembered(1, 100, 1) >= 99);
	assert_true(remembered(1, 1000, 1) < 200);
}

static void who_is_silent_is_forgotten_and_who_sends_is_not(void **state)
{
	const uint32_t start = UINT32_MAX - 100; /* the seconds may wrap */

	mac_learn(table, mac(1, 1), 1, start);
	mac_learn(table, mac(1, 2), 1, start);
	mac_expire(table, start + MAC_AGE_SECONDS);
	assert_int_equal(remembered(1, 3, 1), 2);
	mac_learn(table, mac(1, 2), 1, start + MAC_AGE_SECONDS);
	mac_expire(table, start + MAC_AGE_SECONDS + 1);
	assert_int_equal(mac_lookup(table, mac(1, 1)), PORT_NONE);
	assert_int_equal(mac_lookup(table, mac(1, 2)), 1);
	mac_expire(table, start + 2 * MAC_AGE_SECONDS + 1);
	assert_int_equal(mac_lookup(table, mac(1, 2)), PORT_NONE);
}

static void a_clock_behind_the_stamp_is_no_age(void **state)
{
	mac_learn(table, mac(1, 1), 1, 1000);
	mac_expire(table, 999);
	assert_int_equal(mac_lookup(table, mac(1, 1)), 1);
	assert_int_equal(mac_list(table, list, 1, 999), 1);
	assert_int_equal(list[0].age, 0);
}

static void a_port_is_forgotten_with_all_that_is_behind_it(void **state)
{
	for (unsigned i = 0; i < 500; i++) {
		mac_learn(table, mac(1, i), 1, 0);
		mac_learn(table, mac(2, i), 2, 0);
	}
	mac_forget_port(table, 1);
	assert_int_equal(remembered(1, 500, 1), 0);
	assert_int_equal(remembered(2, 500, 2), 500);
	assert_int_equal(entries(), 500);
	mac_forget_port(table, 3);
	assert_int_equal(entries(), 500);
}

static void a_forgotten_ports_share_is_free_again(void **state)
{
	for (unsigned turn = 0; turn < 20; turn++) {
		for (unsigned i = 0; i < 4000; i++)
			mac_learn(table, mac(turn, i), 1, 0);
		mac_forget_port(table, 1);
	}
	assert_int_equal(entries(), 0);
	/* Its number counts from zero: it is not taken for one that has too many. */
	for (unsigned i = 0; i < 100000; i++)
		mac_learn(table, mac(50, i), 2, 0);
	for (unsigned i = 0; i < 100; i++)
		mac_learn(table, mac(60, i), 1, 0);
	for (unsigned i = 0; i < 100000; i++)
		mac_learn(table, mac(51, i), 2, 1);
	assert_int_equal(remembered(60, 100, 1), 100);
}

static void the_list_tells_all_and_fills_what_it_may(void **state)
{
	for (unsigned i = 0; i < 10; i++)
		mac_learn(table, mac(1, i), (uint16_t)i, i);
	list[3].mac = 4711;
	assert_int_equal(mac_list(table, list, 3, 100), 10);
	assert_int_equal(list[3].mac, 4711);
	assert_int_equal(mac_list(table, list, MAC_ENTRIES_MAX, 100), 10);
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(list[i].mac, mac(1, list[i].port));
		assert_int_equal(list[i].age, 100 - list[i].port);
	}
}

/*
 * Threads against each other: readers must see an address that stays where it is at its port at any
 * time, one that moves between two ports at one of them, and never a port that has not been learned
 * for the address.
 */
#define STAYING 64u
#define MOVING	64u
#define ROUNDS	300u

static unsigned stop, wrong;

static void *move(void *arg)
{
	unsigned seed = 1;

	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < MOVING; i++)
			mac_learn(table, mac(2, i), (uint16_t)(2 + rand_r(&seed) % 2), round);
		for (unsigned i = 0; i < STAYING; i++)
			mac_learn(table, mac(1, i), 1, round);
	}
	return NULL;
}

static void *invent(void *arg)
{
	for (unsigned i = 0; i < ROUNDS * 200; i++)
		mac_learn(table, mac(3, i), 4, i / 200);
	return NULL;
}

static void *read_all(void *arg)
{
	unsigned bad = 0;

	while (!load_relaxed(&stop)) {
		for (unsigned i = 0; i < STAYING; i++)
			bad += mac_lookup(table, mac(1, i)) != 1;
		for (unsigned i = 0; i < MOVING; i++) {
			uint16_t port = mac_lookup(table, mac(2, i));

			bad += port != 2 && port != 3;
		}
		for (unsigned i = 0; i < 200; i++) {
			uint16_t port = mac_lookup(table, mac(3, i));

			bad += port != 4 && port != PORT_NONE;
		}
	}
	store_relaxed(&wrong, load_relaxed(&wrong) + bad);
	return NULL;
}

static void check_no_address_twice(void)
{
	unsigned n = entries();

	for (unsigned i = 0; i < n; i++) {
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(list[i].mac, list[k].mac);
	}
}

static void readers_see_whole_entries_while_others_write(void **state)
{
	pthread_t reader, writers[3];

	stop = wrong = 0;
	move(NULL);
	pthread_create(&reader, NULL, read_all, NULL);
	pthread_create(&writers[0], NULL, move, NULL);
	pthread_create(&writers[1], NULL, move, NULL);
	pthread_create(&writers[2], NULL, invent, NULL);
	for (unsigned i = 0; i < 100; i++) {
		mac_expire(table, ROUNDS);
		mac_forget_port(table, 4);
		mac_forget_port(table, 9);
		mac_list(table, list, MAC_ENTRIES_MAX, ROUNDS);
	}
	for (unsigned i = 0; i < 3; i++)
		pthread_join(writers[i], NULL);
	store_relaxed(&stop, 1u);
	pthread_join(reader, NULL);
	assert_int_equal(wrong, 0);
	check_no_address_twice();
	/* The numbers of entries have kept up, or the attacker's share would be wrong by now. */
	mac_forget_port(table, 4);
	mac_forget_port(table, 3);
	mac_forget_port(table, 2);
	mac_forget_port(table, 1);
	assert_int_equal(entries(), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_was_learned_is_found_and_nothing_else),
		TEST(an_empty_table_knows_nobody),
		TEST(the_null_address_and_impossible_ports_are_not_learned),
		TEST(an_address_is_there_once_wherever_it_moves),
		TEST(three_quarters_of_the_table_can_be_used),
		TEST(the_table_is_bounded),
		TEST(a_port_that_invents_addresses_evicts_its_own),
		TEST(in_a_full_table_who_has_the_most_gets_nothing_of_the_others),
		TEST(two_that_invent_addresses_share_what_there_is),
		TEST(of_a_port_that_has_too_many_the_silent_ones_go_first),
		TEST(who_is_silent_is_forgotten_and_who_sends_is_not),
		TEST(a_clock_behind_the_stamp_is_no_age),
		TEST(a_port_is_forgotten_with_all_that_is_behind_it),
		TEST(a_forgotten_ports_share_is_free_again),
		TEST(the_list_tells_all_and_fills_what_it_may),
		TEST(readers_see_whole_entries_while_others_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
