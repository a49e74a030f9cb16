// SPDX-License-Identifier: Apache-2.0
#include "base/drop.h"

const struct reason drop_reasons[DROP_COUNT] = { [DROP_NONE] = { "none", "not dropped" },
#define X(NAME, name, text) [DROP_##NAME] = { #name, text },
						 DROP_REASONS(X)
#undef X
};
