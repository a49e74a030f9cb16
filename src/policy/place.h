/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker a queue goes to: the one with the fewest, the lowest number among equals. Pure. */
#ifndef RINGWAY_POLICY_PLACE_H
#define RINGWAY_POLICY_PLACE_H

unsigned place_queue(const unsigned *queues_of_worker, unsigned workers);

/* How many workers to run when nobody says: half of the CPUs, at least 1 and at most 4. */
unsigned place_workers(unsigned cpus);

#endif
