// SPDX-License-Identifier: Apache-2.0
#include "base/refusal.h"

#include <errno.h>

const struct reason refusal_reasons[REFUSAL_COUNT] = { [REFUSAL_NONE] = { "none", "not refused" },
#define X(NAME, name, code, text) [REFUSAL_##NAME] = { #name, text },
						       REFUSALS(X)
#undef X
};

static const int codes[REFUSAL_COUNT] = {
#define X(NAME, name, code, text) [REFUSAL_##NAME] = code,
	REFUSALS(X)
#undef X
};

enum refusal refusal_of(int error)
{
	for (unsigned i = 1; i < REFUSAL_COUNT; i++) {
		if (codes[i] && codes[i] == -error)
			return (enum refusal)i;
	}
	return REFUSAL_HOST;
}
