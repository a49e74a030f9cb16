/* SPDX-License-Identifier: Apache-2.0 */
/* What a mistyped word was meant to be. */
#ifndef RINGWAY_BASE_NEAREST_H
#define RINGWAY_BASE_NEAREST_H

#include <stddef.h>

/*
 * " (did you mean 'NAME'?)" for a message about `word`, where NAME is the nearest of those of which
 * at most two letters are wrong, missing or too many, and not all; or "". Static, until the next
 * call. `names`: structs `stride` bytes apart, each of which begins with its name (const char *).
 */
const char *nearest_hint(const char *word, const void *names, unsigned n, size_t stride);

#endif
