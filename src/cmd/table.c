// SPDX-License-Identifier: Apache-2.0
#include "cmd/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Takes over `text`. */
static void add_cell(struct table *t, char *text)
{
	char **grown = text ? reallocarray(t->cell, t->n + 1, sizeof(*grown)) : NULL;

	if (!grown) {
		free(text);
		t->failed = true;
		return;
	}
	t->cell = grown;
	t->cell[t->n++] = text;
}

void table_begin(struct table *t, const char *headings)
{
	*t = (struct table){ .columns = 0 };
	for (const char *p = headings; *p && t->columns < TABLE_COLUMNS_MAX;) {
		size_t len = strcspn(p, "|");

		t->right[t->columns] = *p == '>';
		if (*p == '>') {
			p++;
			len--;
		}
		add_cell(t, strndup(p, len));
		t->columns++;
		p += len;
		p += *p == '|';
	}
}

void table_cell(struct table *t, const char *fmt, ...)
{
	va_list args;
	char *text;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		text = NULL;
	va_end(args);
	add_cell(t, text);
}

static void print_row(const struct table *t, unsigned first, const int *width, FILE *out)
{
	unsigned last = t->columns - 1;

	/* No blanks at the end of a line. */
	while (last && !*t->cell[first + last])
		last--;
	for (unsigned i = 0; i < last; i++)
		fprintf(out, "%*s  ", t->right[i] ? width[i] : -width[i], t->cell[first + i]);
	fprintf(out, "%*s\n", t->right[last] ? width[last] : 0, t->cell[first + last]);
}

void table_end(struct table *t, FILE *out)
{
	int width[TABLE_COLUMNS_MAX] = { 0 };

	if (t->failed)
		fputs("ringway: out of memory\n", stderr);
	for (unsigned i = 0; i < t->n; i++)
		width[i % t->columns] = MAX(width[i % t->columns], (int)strlen(t->cell[i]));
	for (unsigned i = 0; !t->failed && i + t->columns <= t->n; i += t->columns)
		print_row(t, i, width, out);
	for (unsigned i = 0; i < t->n; i++)
		free(t->cell[i]);
	free(t->cell);
}
