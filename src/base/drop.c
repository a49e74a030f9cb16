// SPDX-License-Identifier: Apache-2.0
#include "base/drop.h"

#include "base/atomic.h"

const struct reason drop_reasons[DROP_COUNT] = { [DROP_NONE] = { "none", "not dropped" },
#define X(NAME, name, text) [DROP_##NAME] = { #name, text },
						 DROP_REASONS(X)
#undef X
};

void frame_counters_add(struct frame_counters *to, const struct frame_counters *from)
{
	to->frames += load_relaxed(&from->frames);
	to->bytes += load_relaxed(&from->bytes);
	for (unsigned i = 0; i < DROP_COUNT; i++)
		to->dropped[i] += load_relaxed(&from->dropped[i]);
}
