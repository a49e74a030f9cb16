/* SPDX-License-Identifier: Apache-2.0 */
/* CPU lists as people write them ("0-3,8") and the placement of threads. */
#ifndef RINGWAY_BASE_CPU_H
#define RINGWAY_BASE_CPU_H

#include <limits.h>
#include <sched.h>

#include "base/error.h"

/*
 * Parses a list into CPUs in the order given, duplicates refused. At most `max`; returns how many,
 * or a negative errno with `err` filled (EINVAL: not a list, or too many; ENODEV: no such CPU
 * among those this process may use).
 */
int cpu_list_parse(const char *text, unsigned max, unsigned *ret_cpus, struct error *err);

/* How many CPUs this process may run on: affinity mask, not hardware. */
unsigned cpu_available(void);

#define CPU_NO_QUOTA UINT_MAX

/*
 * CPU time that the cgroup (v2) `group` and those above it may use, in thousandths of a CPU; `root`
 * is where they are mounted.
 */
unsigned cpu_quota_of(const char *root, const char *group);
/* This process's. */
unsigned cpu_quota(void);

/* Pins the calling thread; 0 or a negative errno. */
int cpu_pin_self(unsigned cpu);

#endif
