// SPDX-License-Identifier: Apache-2.0
#include "control/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct config_command *config_added(const struct config *config, const char *name)
{
	for (unsigned i = config->n; i-- > 0;) {
		const struct config_command *c = &config->commands[i];

		if (strcmp(c->command.name, name) != 0)
			continue;
		if (c->command.verb == COMMAND_PORT_ADD)
			return c;
		if (c->command.verb == COMMAND_PORT_DEL)
			return NULL;
	}
	return NULL;
}

static int check_order(const struct config *config, const struct command *c, struct error *err)
{
	const struct config_command *added = config_added(config, c->name);

	if (c->verb == COMMAND_PORT_ADD && added && added->line)
		return error_set(err, EEXIST,
				 "port '%s' was added at %s:%u already; choose another name",
				 c->name, added->source, added->line);
	if (c->verb == COMMAND_PORT_ADD && added)
		return error_set(err, EEXIST,
				 "port '%s' was added by %s already; choose another name", c->name,
				 added->source);
	if (c->verb != COMMAND_PORT_ADD && !added)
		return error_set(err, ENOENT, "no port '%s' was added above; add it first",
				 c->name);
	if (c->verb == COMMAND_PORT_ADD && config->ports == PORTS_MAX)
		return error_set(err, ENOSPC, "no switch has more than %d ports; delete one above",
				 PORTS_MAX);
	return 0;
}

/* For another command: twice as much whenever `n` is a power of two, where all of it is in use. */
static int make_room(struct config *config, struct error *err)
{
	struct config_command *grown;

	if (config->n & (config->n - 1))
		return 0;
	grown = reallocarray(config->commands, config->n ? 2 * config->n : 1, sizeof(*grown));
	if (!grown)
		return error_no_memory(err);
	config->commands = grown;
	return 0;
}

/* Takes over `words`, also on failure. */
static int config_append(struct config *config, struct words *words, const char *source,
			 unsigned line, struct error *err)
{
	struct config_command added = { .words = *words, .source = source, .line = line };
	int r = command_parse(words->word, words->n, &added.command, err);

	if (!r)
		r = check_order(config, &added.command, err);
	if (!r)
		r = make_room(config, err);
	if (r < 0) {
		words_free(words);
		return r;
	}
	config->commands[config->n++] = added;
	config->ports += added.command.verb == COMMAND_PORT_ADD;
	config->ports -= added.command.verb == COMMAND_PORT_DEL;
	return 0;
}

static int config_line(struct config *config, const char *text, const char *source, unsigned line,
		       struct error *err)
{
	struct words words;
	int r = words_split(text, &words, err);

	if (r < 0)
		return r;
	if (words.n && !strcmp(words.word[0], "run")) {
		r = run_settings_parse(&config->settings, words.word + 1, words.n - 1, err);
		words_free(&words);
		return r;
	}
	if (words.n && strcmp(words.word[0], "port") != 0) {
		r = error_set(err, EINVAL,
			      "'%.40s' is no command for a file; there it can be port or run",
			      words.word[0]);
		words_free(&words);
		return r;
	}
	if (!words.n) {
		words_free(&words);
		return 0;
	}
	return config_append(config, &words, source, line, err);
}

/* A byte order mark is invisible: an error about it would help nobody. */
static size_t mark_len(const char *line)
{
	static const char mark[] = "\xef\xbb\xbf";
	size_t len = strlen(mark);

	return strncmp(line, mark, len) ? 0 : len;
}

int config_read(struct config *config, FILE *file, const char *source, unsigned *ret_line,
		struct error *err)
{
	char line[WORDS_LINE_MAX + 3]; /* the longest, its newline, NUL, and one to see that */
	unsigned number = 0;
	int r = 0;

	for (;;) {
		size_t len = 0;
		int c;

		while ((c = getc(file)) != EOF && c != '\n' && len < sizeof(line) - 1 && c)
			line[len++] = (char)c;
		if (c == EOF && !len)
			break;
		line[len] = '\0';
		number++;
		if (c == '\0')
			r = error_set(err, EINVAL, "a NUL byte; is this a text file?");
		else
			r = config_line(config, line + (number == 1 ? mark_len(line) : 0), source,
					number, err);
		if (r < 0)
			break;
	}
	if (ferror(file)) {
		number = 0;
		r = error_set(err, EIO, "cannot be read: %s; give a file", strerror(errno));
	}
	*ret_line = number;
	return r;
}

int config_add_port(struct config *config, const char *text, struct error *err)
{
	struct words words;
	char *line;
	int r;

	if (asprintf(&line, "port add %s", text) < 0)
		return error_no_memory(err);
	r = words_split(line, &words, err);
	free(line);
	if (r < 0)
		return r;
	return config_append(config, &words, "--port", 0, err);
}

void config_free(struct config *config)
{
	for (unsigned i = 0; i < config->n; i++)
		words_free(&config->commands[i].words);
	free(config->commands);
	config->commands = NULL;
	config->n = 0;
}
