// SPDX-License-Identifier: Apache-2.0
/*
 * All sets of features meet all, as senders and as receivers, at a few sizes of packets: what
 * test_offload.c does for a sample. Goes on after a failure; ends with a table and the status 1 if
 * there was one.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "unlike.h"

#define TOLD_MAX 20

struct matrix {
	struct rig *rig;
	struct unlike from;
	struct unlike_tally tally;
	unsigned pairs, wrong;
	uint64_t since;
};

/* Descriptors in tables at neither, either and both ends, in turn. */
static void open_sender(struct matrix *m, unsigned set)
{
	unlike_open(m->rig, 0, set | (__builtin_parity(set) ? UNLIKE_INDIRECT : 0), NULL, &m->from);
}

static void try_pair(struct matrix *m, unsigned to_set)
{
	char wrong[UNLIKE_TEXT], sender[64], receiver[64];
	struct unlike to;

	unlike_open(m->rig, 1, to_set | (to_set & 1 ? UNLIKE_INDIRECT : 0), NULL, &to);
	assert_passes(m->from.d, to.d);
	m->pairs++;
	if (!unlike_run(m->rig, &m->from, &to, true, &m->tally, wrong)) {
		unlike_text(m->from.set, sender, sizeof(sender));
		unlike_text(to.set, receiver, sizeof(receiver));
		if (m->wrong++ < TOLD_MAX)
			fprintf(stderr, "\rfrom %s to %s: %s\n", sender, receiver, wrong);
		/* What is still under way must not be taken for the next pair's. */
		driver_close(m->from.d);
		open_sender(m, m->from.set % UNLIKE_MATRIX);
	}
	driver_close(to.d);
}

static void print_table(const struct matrix *m)
{
	static const char *const hows[UNLIKE_HOWS] = {
		[UNLIKE_PASSED] = "as it was",
		[UNLIKE_FINISHED] = "with its checksum finished",
		[UNLIKE_CUT] = "in segments, checksums left",
		[UNLIKE_CUT_FINISHED] = "in segments, finished",
	};

	printf("%-30s %12s %12s\n", "RECEIVED", "PACKETS", "FRAMES");
	for (unsigned i = 0; i < UNLIKE_HOWS; i++)
		printf("%-30s %12llu %12llu\n", hows[i], (unsigned long long)m->tally.packets[i],
		       (unsigned long long)m->tally.frames[i]);
	printf("%-30s %12llu\n", "not, too big for its buffers",
	       (unsigned long long)m->tally.too_big);
	printf("%-30s %12llu\n", "in part, for want of room in time",
	       (unsigned long long)m->tally.full);
	printf("%u pairs, %llu packets, %u pairs failed, %.0f s\n", m->pairs,
	       (unsigned long long)m->tally.sent, m->wrong, (double)(clock_ns() - m->since) / 1e9);
}

int main(void)
{
	struct matrix m = { .since = clock_ns() };
	void *state;

	if (rig_setup(&state))
		return 1;
	m.rig = state;
	for (unsigned from = 0; from < UNLIKE_MATRIX; from++) {
		open_sender(&m, from);
		for (unsigned to = 0; to < UNLIKE_MATRIX; to++)
			try_pair(&m, to);
		driver_close(m.from.d);
		fprintf(stderr, "\r%u of %u senders, %llu packets, %u pairs failed, %.0f s ",
			from + 1, (unsigned)UNLIKE_MATRIX, (unsigned long long)m.tally.sent,
			m.wrong, (double)(clock_ns() - m.since) / 1e9);
	}
	fputc('\n', stderr);
	if (rig_teardown(&state))
		m.wrong++;
	print_table(&m);
	return m.wrong ? 1 : 0;
}
