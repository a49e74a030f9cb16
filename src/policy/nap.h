/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to sleep by the clock before sleeping until there is work: in a stream of large frames from
 * a port whose kicks cannot be turned off (a tap).
 *
 * There each frame of 64 KiB wakes the worker, at its sender's cost, for work that takes less than
 * waking up and falling asleep do; and to poll in between takes CPU time that both ends of the
 * stream need (docs/performance.md). So when what was moved since the last sleep was mostly such
 * frames, nothing is polled; and if it was more than one of them, the worker takes a nap, and moves
 * at once what has come meanwhile. A nap that does not bring the like is not repeated for a while:
 * who waits for an answer after each few frames shall not wait for naps.
 *
 * Pure; times are in any one unit, of which `per_us` are a microsecond.
 */
#ifndef RINGWAY_POLICY_NAP_H
#define RINGWAY_POLICY_NAP_H

#include "base/base.h"

#define NAP_US	     100u   /* the kernel adds up to 50 */
#define NAP_STREAM   32768u /* bytes in large frames that are a stream, */
#define NAP_BYTES    98304u /* and that are worth a nap */
#define NAP_MEAN     8192u  /* bytes a frame, acknowledgements included */
#define NAP_PAUSE_US 2000u  /* after a nap that did not pay: it costs one part in 20 */

struct nap_state {
	uint64_t bytes;	 /* since it slept, from such ports */
	uint64_t frames; /* from all */
	uint64_t paused; /* until then there are no naps */
	bool napped;	 /* the last sleep began with one */
};

static inline void nap_moved(struct nap_state *state, unsigned frames, uint32_t bytes)
{
	state->frames += frames;
	state->bytes += bytes;
}

/* Large frames come, and little else. */
static inline bool nap_stream(const struct nap_state *state)
{
	return state->bytes >= NAP_STREAM && state->bytes / NAP_MEAN >= state->frames;
}

/*
 * The worker goes to sleep at `now`; true: to nap first. `held`: frames wait for room, to which it
 * returns by the clock anyway; that is no nap, and what it brings says nothing about them.
 */
static inline bool nap_sleep(struct nap_state *state, uint64_t now, uint64_t per_us, bool held)
{
	bool stream = nap_stream(state);

	if (state->napped && !stream)
		state->paused = now + NAP_PAUSE_US * per_us;
	state->napped = !held && stream && state->bytes >= NAP_BYTES && now >= state->paused;
	state->bytes = state->frames = 0;
	return state->napped;
}

#endif
