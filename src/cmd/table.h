/* SPDX-License-Identifier: Apache-2.0 */
/* A table for people: columns as wide as they must be, numbers to the right. */
#ifndef RINGWAY_CMD_TABLE_H
#define RINGWAY_CMD_TABLE_H

#include <stdio.h>

#include "base/base.h"

#define TABLE_COLUMNS_MAX 17

struct table {
	unsigned columns;
	unsigned n; /* cells, the headings among them */
	char **cell;
	bool right[TABLE_COLUMNS_MAX];
	bool failed; /* out of memory */
};

/* `headings`: separated by '|'; one that begins with '>' is over a column of numbers. */
void table_begin(struct table *t, const char *headings);

/* The next cell, row by row. */
void table_cell(struct table *t, const char *fmt, ...) printf_like(2, 3);

/* Prints it and frees its memory. */
void table_end(struct table *t, FILE *out);

#endif
