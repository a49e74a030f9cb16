// SPDX-License-Identifier: Apache-2.0
/*
 * The MAC table.
 *
 * An address has two buckets to be in, each one cache line of eight words; a lookup reads one line
 * or two. Beyond the first place of the first bucket it compares without branches, because where in
 * a bucket an address is cannot be predicted. With two choices the table can be filled to three
 * quarters before one address in ten thousand finds both of its buckets full. Which buckets they
 * are depends on a secret, since senders choose addresses.
 *
 * A word is the address above the port's number plus one, so that no word in use is 0. Readers take
 * it with one relaxed load: it refers to nothing but the port table, whose entries are read anew.
 * Writers hold the mutex, which also covers the stamps and the number of entries of each port.
 *
 * Fairness: the new entry counts as one of its port's, and the victim is an entry of the port that
 * has the most of all in the two buckets. If that is the learning port itself, it loses its oldest
 * one there; has it none there, the address is not learned, and frames to it are flooded.
 */
#include "switch/mac.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/atomic.h"
#include "port/port.h"

#define WAYS	8
#define BUCKETS (MAC_ENTRIES_MAX / WAYS)

_Static_assert((BUCKETS & (BUCKETS - 1)) == 0, "hashes are masked");
_Static_assert(WAYS * sizeof(uint64_t) == CACHE_LINE, "a bucket is a cache line");
_Static_assert(PORTS_MAX < UINT16_MAX, "the number plus one fits the word");

struct mac_table {
	uint64_t word[BUCKETS][WAYS] cache_aligned;
	uint32_t seen[BUCKETS][WAYS]; /* seconds; written with the mutex held, read relaxed */
	uint64_t secret[3];	      /* never change */

	pthread_mutex_t mutex cache_aligned;
	uint16_t entries[PORTS_MAX]; /* of each port */
	uint32_t moves;		     /* written with the mutex held, read relaxed */
};

struct buckets {
	unsigned first, second;
};

struct place {
	unsigned bucket, way;
};

struct mac_table *mac_table_new(void)
{
	struct mac_table *table = aligned_alloc(CACHE_LINE, sizeof(*table));

	if (!table)
		return NULL;
	memset(table, 0, sizeof(*table));
	pthread_mutex_init(&table->mutex, NULL);
	if (getrandom(table->secret, sizeof(table->secret), 0) == sizeof(table->secret))
		return table;
	mac_table_free(table);
	return NULL;
}

void mac_table_free(struct mac_table *table)
{
	pthread_mutex_destroy(&table->mutex);
	free(table);
}

static uint64_t fold(uint64_t a, uint64_t b)
{
	__uint128_t product = (__uint128_t)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/*
 * Twice, because addresses come in rows: one multiplication by a secret that happens to be of an
 * unlucky form leaves most of a row in a few buckets.
 */
static struct buckets buckets_of(const struct mac_table *table, uint64_t mac)
{
	const uint64_t golden_ratio = 0x9e3779b97f4a7c15u;
	uint64_t hash = fold(mac ^ table->secret[0], table->secret[1] | 1);
	unsigned first;

	hash = fold(hash ^ table->secret[2], golden_ratio);
	first = hash % BUCKETS;
	/* An odd difference: never the same bucket twice. */
	return (struct buckets){ first, first ^ ((hash >> 32) % BUCKETS | 1) };
}

static uint64_t word_make(uint64_t mac, uint16_t port)
{
	return mac << 16 | (port + 1u);
}

static uint16_t word_port(uint64_t word)
{
	return (uint16_t)(word - 1);
}

static uint64_t nearer(const uint64_t *word, uint64_t key, uint64_t nearest)
{
	uint64_t difference = load_relaxed(word) ^ key;

	return MIN(difference, nearest);
}

/*
 * Port plus one, or more than 16 bits if it is not there: the least difference of any word to that
 * of the address. In two chains, which the processor works on at the same time.
 */
static uint64_t bucket_lookup(const uint64_t *words, uint64_t mac)
{
	uint64_t key = mac << 16, even = UINT64_MAX, odd = UINT64_MAX;

#pragma GCC unroll 4
	for (unsigned i = 0; i < WAYS; i += 2) {
		even = nearer(&words[i], key, even);
		odd = nearer(&words[i + 1], key, odd);
	}
	return MIN(even, odd);
}

uint16_t mac_lookup(const struct mac_table *table, uint64_t mac)
{
	struct buckets at = buckets_of(table, mac);
	/* Where nearly all addresses are while there are few: 3 cycles instead of 13. */
	uint64_t found = nearer(&table->word[at.first][0], mac << 16, UINT64_MAX);

	if (unlikely(found > UINT16_MAX))
		found = bucket_lookup(table->word[at.first], mac);
	if (unlikely(found > UINT16_MAX))
		found = bucket_lookup(table->word[at.second], mac);
	/* Address 0 is never learned and finds an empty word: 0 - 1 is PORT_NONE too. */
	return found > UINT16_MAX ? PORT_NONE : (uint16_t)(found - 1);
}

static bool bucket_find(const struct mac_table *table, unsigned bucket, uint64_t mac,
			struct place *ret)
{
	for (unsigned i = 0; i < WAYS; i++) {
		if (load_relaxed(&table->word[bucket][i]) >> 16 == mac) {
			*ret = (struct place){ bucket, i };
			return true;
		}
	}
	return false;
}

static bool table_find(const struct mac_table *table, struct buckets at, uint64_t mac,
		       struct place *ret)
{
	return bucket_find(table, at.first, mac, ret) || bucket_find(table, at.second, mac, ret);
}

/* Mutex held. */
static void entry_set(struct mac_table *table, struct place at, uint64_t word)
{
	uint64_t *entry = &table->word[at.bucket][at.way], old = load_relaxed(entry);

	if (old)
		table->entries[word_port(old)]--;
	if (word)
		table->entries[word_port(word)]++;
	store_relaxed(entry, word);
}

/* An unused word of the emptier bucket, of the first among equals: lookups begin there. */
static bool find_unused(const struct mac_table *table, struct buckets at, struct place *ret)
{
	const unsigned bucket[2] = { at.first, at.second };
	unsigned unused[2] = { 0, 0 }, way[2] = { 0, 0 };
	unsigned better;

	for (unsigned b = 0; b < 2; b++) {
		for (unsigned i = WAYS; i-- > 0;) {
			if (!load_relaxed(&table->word[bucket[b]][i])) {
				unused[b]++;
				way[b] = i;
			}
		}
	}
	better = unused[1] > unused[0];
	*ret = (struct place){ bucket[better], way[better] };
	return unused[better];
}

/* Should entry `a` go rather than `b`? The port with more entries loses, and of it the older. */
static bool worse(const struct mac_table *table, struct place a, struct place b, uint16_t learner)
{
	uint16_t port_a = word_port(load_relaxed(&table->word[a.bucket][a.way]));
	uint16_t port_b = word_port(load_relaxed(&table->word[b.bucket][b.way]));
	unsigned many_a = table->entries[port_a] + (port_a == learner);
	unsigned many_b = table->entries[port_b] + (port_b == learner);

	if (many_a != many_b)
		return many_a > many_b;
	return (int32_t)(table->seen[a.bucket][a.way] - table->seen[b.bucket][b.way]) < 0;
}

/* The entry of two full buckets that makes room for one of `learner`'s. False: none does. */
static bool find_victim(const struct mac_table *table, struct buckets at, uint16_t learner,
			struct place *ret)
{
	struct place victim = { at.first, 0 };
	uint16_t port;

	for (unsigned i = 1; i < 2 * WAYS; i++) {
		struct place here = { i < WAYS ? at.first : at.second, i % WAYS };

		if (worse(table, here, victim, learner))
			victim = here;
	}
	port = word_port(load_relaxed(&table->word[victim.bucket][victim.way]));
	if (port != learner && table->entries[port] <= table->entries[learner])
		return false;
	*ret = victim;
	return true;
}

/* Mutex held. */
static void table_learn(struct mac_table *table, uint64_t mac, uint16_t port, uint32_t now)
{
	struct buckets at = buckets_of(table, mac);
	struct place here;

	if (table_find(table, at, mac, &here)) {
		if (table->word[here.bucket][here.way] != word_make(mac, port))
			store_relaxed(&table->moves, table->moves + 1);
	} else if (!find_unused(table, at, &here) && !find_victim(table, at, port, &here)) {
		return;
	}
	store_relaxed(&table->seen[here.bucket][here.way], now);
	entry_set(table, here, word_make(mac, port));
}

bool mac_learn(struct mac_table *table, uint64_t mac, uint16_t port, uint32_t now)
{
	struct place here;

	if (!mac || port >= PORTS_MAX)
		return false;
	if (table_find(table, buckets_of(table, mac), mac, &here) &&
	    load_relaxed(&table->word[here.bucket][here.way]) == word_make(mac, port) &&
	    load_relaxed(&table->seen[here.bucket][here.way]) == now)
		return false;
	pthread_mutex_lock(&table->mutex);
	table_learn(table, mac, port, now);
	pthread_mutex_unlock(&table->mutex);
	return true;
}

uint32_t mac_moves(const struct mac_table *table)
{
	return load_relaxed(&table->moves);
}

static bool too_old(const struct mac_table *table, struct place at, uint32_t now)
{
	uint32_t seen = load_relaxed(&table->seen[at.bucket][at.way]);

	return (int32_t)(now - seen) > MAC_AGE_SECONDS;
}

/* Each removal takes the mutex by itself: workers that learn do not wait for a whole walk. */
void mac_expire(struct mac_table *table, uint32_t now)
{
	for (unsigned i = 0; i < MAC_ENTRIES_MAX; i++) {
		struct place at = { i / WAYS, i % WAYS };
		uint64_t *entry = &table->word[at.bucket][at.way];

		if (!load_relaxed(entry) || !too_old(table, at, now))
			continue;
		pthread_mutex_lock(&table->mutex);
		if (load_relaxed(entry) && too_old(table, at, now))
			entry_set(table, at, 0);
		pthread_mutex_unlock(&table->mutex);
	}
}

void mac_forget_port(struct mac_table *table, uint16_t port)
{
	for (unsigned i = 0; i < MAC_ENTRIES_MAX; i++) {
		struct place at = { i / WAYS, i % WAYS };
		uint64_t *entry = &table->word[at.bucket][at.way];
		uint64_t word = load_relaxed(entry);

		if (!word || word_port(word) != port)
			continue;
		pthread_mutex_lock(&table->mutex);
		word = load_relaxed(entry);
		if (word && word_port(word) == port)
			entry_set(table, at, 0);
		pthread_mutex_unlock(&table->mutex);
	}
}

unsigned mac_list(const struct mac_table *table, struct mac_entry *entries, unsigned max,
		  uint32_t now)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MAC_ENTRIES_MAX; i++) {
		uint64_t word = load_relaxed(&table->word[i / WAYS][i % WAYS]);
		int32_t age = (int32_t)(now - load_relaxed(&table->seen[i / WAYS][i % WAYS]));

		if (!word)
			continue;
		if (n < max)
			entries[n] = (struct mac_entry){ word >> 16, word_port(word),
							 (uint32_t)MAX(age, 0) };
		n++;
	}
	return n;
}
