// SPDX-License-Identifier: Apache-2.0
#include "base/drop.h"

static const struct {
	const char *name, *text;
	enum drop_side side;
} drops[DROP_COUNT] = { [DROP_NONE] = { "none", "not dropped", DROP_INGRESS },
#define X(NAME, name, side, text) [DROP_##NAME] = { #name, text, DROP_##side },
			DROP_REASONS(X)
#undef X
};

const char *drop_name(enum drop reason)
{
	return drops[reason].name;
}

const char *drop_text(enum drop reason)
{
	return drops[reason].text;
}

enum drop_side drop_side(enum drop reason)
{
	return drops[reason].side;
}
