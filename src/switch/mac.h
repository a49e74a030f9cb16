/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MAC table: which address is behind which port.
 *
 * Bounded, read without a lock by every worker, written under a mutex by whoever learns. An entry's
 * address and port are one 64-bit word, so a reader sees both or neither. When the table (or its
 * stretch) is full, the victim is an entry of the port that has the most: a port that invents
 * addresses evicts its own and no one else's.
 */
#ifndef RINGWAY_SWITCH_MAC_H
#define RINGWAY_SWITCH_MAC_H

#include "base/base.h"

#define MAC_ENTRIES_MAX 8192
#define MAC_AGE_SECONDS 300

struct mac_table;

struct mac_entry {
	uint64_t mac;
	uint16_t port;
	uint32_t age; /* seconds since it was last seen */
};

struct mac_table *mac_table_new(void); /* NULL: no memory */
void mac_table_free(struct mac_table *table);

/* The port's index or PORT_NONE. Any thread, no lock. */
uint16_t mac_lookup(const struct mac_table *table, uint64_t mac);

/*
 * `mac` (not a group address) was seen on `port` at `now` (seconds, any origin). Any thread; takes
 * the mutex, and returns true, unless the table says that already: a new address (even if there is
 * no room for it), a move, or an entry that was not seen at `now` yet.
 */
bool mac_learn(struct mac_table *table, uint64_t mac, uint16_t port, uint32_t now);

/* How often an address has moved from one port to another. Any thread, no lock. */
uint32_t mac_moves(const struct mac_table *table);

/* Forgets what was not seen for MAC_AGE_SECONDS. Control thread. */
void mac_expire(struct mac_table *table, uint32_t now);
/* Forgets what is behind `port`. Any thread; slow. */
void mac_forget_port(struct mac_table *table, uint16_t port);

/* Copies up to `max` entries out, returns how many there are. Control thread. */
unsigned mac_list(const struct mac_table *table, struct mac_entry *entries, unsigned max,
		  uint32_t now);

#endif
