/* SPDX-License-Identifier: Apache-2.0 */
/* What waking a sleeping thread costs on this host. */
#ifndef RINGWAY_WORKER_WAKEUP_H
#define RINGWAY_WORKER_WAKEUP_H

#include <stdint.h>

/*
 * Cycles that pass from the beginning of a write to an eventfd until a thread that sleeps for it
 * runs, and that the write itself takes, together; 0 if that cannot be found out. It sleeps on
 * `cpu` (-1: any), and is woken from another. Takes some milliseconds. Control thread.
 */
uint64_t wakeup_measure(int cpu);

#endif
