// SPDX-License-Identifier: Apache-2.0
#include "base/refusal.h"

#include <errno.h>

static const struct {
	const char *name, *text;
	int code;
} refusals[REFUSAL_COUNT] = { [REFUSAL_NONE] = { "none", "not refused", 0 },
#define X(NAME, name, code, text) [REFUSAL_##NAME] = { #name, text, code },
			      REFUSALS(X)
#undef X
};

const char *refusal_name(enum refusal refusal)
{
	return refusals[refusal].name;
}

const char *refusal_text(enum refusal refusal)
{
	return refusals[refusal].text;
}

enum refusal refusal_of(int error)
{
	for (unsigned i = 1; i < REFUSAL_COUNT; i++) {
		if (refusals[i].code && refusals[i].code == -error)
			return (enum refusal)i;
	}
	return REFUSAL_HOST;
}
