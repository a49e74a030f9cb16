// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"

#define LONGEST 32

/* Levenshtein's: row by row of the table, of which the last is kept. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[LONGEST + 1], len = (unsigned)strlen(b);

	if (len > LONGEST || strlen(a) > LONGEST)
		return LONGEST;
	for (unsigned j = 0; j <= len; j++)
		row[j] = j;
	for (unsigned i = 0; a[i]; i++) {
		unsigned diagonal = row[0]++;

		for (unsigned j = 0; j < len; j++) {
			unsigned replaced = diagonal + (a[i] != b[j]);

			diagonal = row[j + 1];
			row[j + 1] = MIN(row[j], diagonal) + 1;
			row[j + 1] = MIN(row[j + 1], replaced);
		}
	}
	return row[len];
}

const char *nearest_hint(const char *word, const void *names, unsigned n, size_t stride)
{
	static char text[LONGEST + 24];
	unsigned best = MIN(3u, (unsigned)strlen(word));

	text[0] = '\0';
	for (unsigned i = 0; i < n; i++) {
		const char *name = *(const char *const *)((const char *)names + i * stride);
		unsigned d = distance(word, name);

		if (d >= best)
			continue;
		best = d;
		snprintf(text, sizeof(text), " (did you mean '%s'?)", name);
	}
	return text;
}
