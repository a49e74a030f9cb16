// SPDX-License-Identifier: Apache-2.0
/*
 * The splitter writes the words, each ended by a NUL, into one buffer as long as the line: taking
 * quotes away only ever makes a word shorter.
 */
#include "control/words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_control(char c)
{
	return (unsigned char)c < ' ' || c == 0x7f;
}

/*
 * Copies the word at `p` to `*out`, which moves on; returns where it ended, or NULL with `err`
 * filled.
 */
static const char *take_word(const char *p, char **out, struct error *err)
{
	char quote = '\0', *to = *out;

	for (; *p && (quote || !is_blank(*p)); p++) {
		if (is_control(*p)) {
			error_set(err, EINVAL, "control character 0x%02x in a word; remove it", *p);
			return NULL;
		}
		if (quote) {
			if (*p == quote) {
				quote = '\0';
				continue;
			}
			if (quote == '"' && *p == '\\' && p[1])
				p++;
		} else if (*p == '\'' || *p == '"') {
			quote = *p;
			continue;
		}
		*to++ = *p;
	}
	if (quote) {
		error_set(err, EINVAL, "a quote is not closed; add the second %c", quote);
		return NULL;
	}
	*to++ = '\0';
	*out = to;
	return p;
}

int words_split(const char *line, struct words *ret, struct error *err)
{
	struct words words = { .n = 0 };
	size_t len = strlen(line);
	const char *p = line;
	char *to;

	if (len > WORDS_LINE_MAX)
		return error_set(err, E2BIG, "line longer than %d bytes; shorten it",
				 WORDS_LINE_MAX);
	/* Each word is followed by a blank or the end, so its NUL has room. */
	to = words.text = malloc(len + 1);
	if (!to)
		return error_no_memory(err);
	for (;;) {
		while (is_blank(*p))
			p++;
		if (!*p || *p == '#')
			break;
		if (words.n == WORDS_MAX) {
			free(words.text);
			return error_set(err, EINVAL, "more than %d words in a line; use fewer",
					 WORDS_MAX);
		}
		words.word[words.n++] = to;
		p = take_word(p, &to, err);
		if (!p) {
			free(words.text);
			return -EINVAL;
		}
	}
	*ret = words;
	return 0;
}

void words_free(struct words *words)
{
	free(words->text);
	words->text = NULL;
	words->n = 0;
}

void words_quote(FILE *out, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_./:=,@%+-";

	if (*word && !word[strspn(word, plain)]) {
		fputs(word, out);
	} else if (!strchr(word, '\'')) {
		fprintf(out, "'%s'", word);
	} else {
		fputc('"', out);
		for (; *word; word++) {
			/* A shell gives a meaning to all of these, the splitter to a backslash. */
			if (strchr("\"\\$`", *word))
				fputc('\\', out);
			fputc(*word, out);
		}
		fputc('"', out);
	}
}
