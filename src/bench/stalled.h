/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing arrives: where what is under way waits, if it is not lost, and what the switch does. */
#ifndef RINGWAY_BENCH_STALLED_H
#define RINGWAY_BENCH_STALLED_H

#include <sys/types.h>

#include "bench/guests.h"

/* Does anything wait to be seen, by the switch or by a guest? */
bool stalled_waits(struct guests *g);

/*
 * -ENOLINK, and `err` says where frames are after `seconds` without any. `watched`, the switch, is
 * 0 if it is not known; it has used `used` seconds of CPU time meanwhile.
 */
int stalled_error(struct guests *g, double seconds, pid_t watched, double used, struct error *err);

#endif
