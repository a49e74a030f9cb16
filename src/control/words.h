/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words: how a line of a configuration file, or the text after --port, becomes an argv.
 *
 * Blanks separate words. '...' is literal; in "..." a backslash makes the next character literal.
 * A '#' that begins a word begins a comment. Any thread.
 */
#ifndef RINGWAY_CONTROL_WORDS_H
#define RINGWAY_CONTROL_WORDS_H

#include <stdio.h>

#include "base/error.h"

#define WORDS_MAX      64   /* in a line */
#define WORDS_LINE_MAX 4096 /* bytes in a line */

struct words {
	unsigned n;
	char *word[WORDS_MAX]; /* into `text` */
	char *text;	       /* owned */
};

/*
 * Splits a line. 0 or a negative errno with `err` filled: EINVAL (a quote that is not closed, a
 * control character, too many words), E2BIG (too long), ENOMEM. *ret is untouched on failure.
 */
int words_split(const char *line, struct words *ret, struct error *err);
void words_free(struct words *words);

/* Writes a word so that words_split(), and a shell, read it back as it was. */
void words_quote(FILE *out, const char *word);

#endif
