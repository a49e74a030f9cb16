// SPDX-License-Identifier: Apache-2.0
#include "control/refusal.h"

const struct reason control_refusal_reasons[CONTROL_REFUSAL_COUNT] = {
	[CONTROL_REFUSAL_NONE] = { "none", "not refused" },
#define X(NAME, name, code, text) [CONTROL_REFUSAL_##NAME] = { #name, text },
	CONTROL_REFUSALS(X)
#undef X
};
