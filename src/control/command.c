// SPDX-License-Identifier: Apache-2.0
#include "control/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cpu.h"
#include "base/nearest.h"
#include "control/words.h"
#include "policy/place.h"

#define KEY_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789_-"

static int parse_options(char *const *words, unsigned n, struct command *c, struct error *err)
{
	if (n > OPTIONS_MAX)
		return error_set(err, EINVAL, "more than %d options; use fewer", OPTIONS_MAX);
	for (unsigned i = 0; i < n; i++) {
		char *equals = strchr(words[i], '=');

		if (!equals)
			return error_set(err, EINVAL,
					 "'%s' is not an option; write it as key=value", words[i]);
		*equals = '\0';
		c->options[i] = (struct port_option){ .key = words[i], .value = equals + 1 };
	}
	c->n = n;
	return options_check(c->options, n, err);
}

static int parse_verb(const char *word, enum command_verb *ret, struct error *err)
{
	static const char *const verbs[] = {
		[COMMAND_PORT_ADD] = "add",
		[COMMAND_PORT_DEL] = "del",
		[COMMAND_PORT_SET] = "set",
	};

	for (unsigned i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (!strcmp(word, verbs[i])) {
			*ret = (enum command_verb)i;
			return 0;
		}
	}
	return error_set(err, EINVAL,
			 "unknown command 'port %s'%s; there are port add, del and set", word,
			 nearest_hint(word, verbs, ARRAY_SIZE(verbs), sizeof(*verbs)));
}

int command_parse(char *const *words, unsigned n, struct command *ret, struct error *err)
{
	struct command c = { .n = 0 };
	unsigned used = 3;
	int r;

	if (!n || strcmp(words[0], "port") != 0)
		return error_set(err, EINVAL,
				 "unknown command '%s'; here it can be port add, del or set",
				 n ? words[0] : "");
	if (n < 2)
		return error_set(err, EINVAL, "'port' needs add, del or set after it");
	r = parse_verb(words[1], &c.verb, err);
	if (r < 0)
		return r;
	if (n < 3)
		return error_set(err, EINVAL, "port %s needs the port's name", words[1]);
	c.name = words[2];
	if (strchr(c.name, ' '))
		return error_set(err, EINVAL,
				 "'%.40s' is one word; name, kind and each key=value are words of "
				 "their own, with no quotes around all of them",
				 c.name);
	if (!port_name_valid(c.name))
		return error_set(err, EINVAL,
				 "'%.40s' is no name for a port; use 1 to %d of A-Za-z0-9_.:- and "
				 "begin with another than '-'",
				 c.name, PORT_NAME_MAX);
	if (c.verb == COMMAND_PORT_ADD) {
		if (n < 4)
			return error_set(err, EINVAL,
					 "port add needs a kind; after '%s' say one of %s", c.name,
					 port_kinds());
		c.kind = words[used++];
		if (strchr(c.kind, '='))
			return error_set(err, EINVAL, "a kind comes before '%s'; say one of %s",
					 c.kind, port_kinds());
	}
	if (c.verb == COMMAND_PORT_DEL && n > used)
		return error_set(err, EINVAL, "port del takes one name; '%s' is too much",
				 words[used]);
	if (c.verb == COMMAND_PORT_SET && n == used)
		return error_set(err, EINVAL, "port set needs what to set; write it as key=value");
	r = parse_options(words + used, n - used, &c, err);
	if (r < 0)
		return r;
	*ret = c;
	return 0;
}

/* The control socket's JSON can carry nothing else, so `save` would lose it. */
static bool is_utf8(const char *text)
{
	json_t *string = json_string(text);

	json_decref(string);
	return string;
}

/* Where a key begins that a comma joins to the value, as in "/vm1.sock,mtu=1500"; else NULL. */
static const char *joined_key(const char *value)
{
	for (const char *comma = value; (comma = strchr(comma, ',')); comma++) {
		size_t len = strspn(comma + 1, KEY_LETTERS);

		if (len && comma[1 + len] == '=')
			return comma + 1;
	}
	return NULL;
}

static int check_joined(const struct port_option *option, struct error *err)
{
	const char *joined = joined_key(option->value);
	int len = joined ? (int)MIN(joined - 1 - option->value, 60) : 0;

	if (!joined)
		return 0;
	return error_set(err, EINVAL,
			 "a comma after '%.*s' does not separate keys, a space does: %s=%.*s %s",
			 len, option->value, option->key, len, option->value, joined);
}

int options_check(const struct port_option *options, unsigned n, struct error *err)
{
	for (unsigned i = 0; i < n; i++) {
		const char *key = options[i].key, *value = options[i].value;
		int r;

		if (!*key || key[strspn(key, KEY_LETTERS)])
			return error_set(err, EINVAL,
					 "'%s' is not a key; keys are made of a-z, 0-9, _ and -",
					 key);
		for (const char *p = value; *p; p++) {
			if ((unsigned char)*p < ' ' || *p == 0x7f)
				return error_set(
					err, EINVAL,
					"control character in the value of '%s'; remove it", key);
		}
		if (!is_utf8(value))
			return error_set(err, EINVAL,
					 "the value of '%s' is not UTF-8; choose another", key);
		r = check_joined(&options[i], err);
		if (r < 0)
			return r;
		for (unsigned j = 0; j < i; j++) {
			if (!strcmp(key, options[j].key))
				return error_set(err, EINVAL, "'%s' is given twice; say it once",
						 key);
		}
	}
	return 0;
}

char *option_value(const struct port_option *option)
{
	bool path = !strcmp(option->key, "listen") || !strcmp(option->key, "connect");
	char *here = path && *option->value && *option->value != '/' ? getcwd(NULL, 0) : NULL;
	char *value;

	if (here && is_utf8(here)) {
		if (asprintf(&value, "%s/%s", here, option->value) < 0)
			value = NULL;
	} else {
		value = strdup(option->value);
	}
	free(here);
	return value;
}

/* One word, because an option is quoted as a whole: 'key=some value'. */
static int option_write(FILE *out, const struct port_option *option)
{
	char *word, *value = option_value(option);
	int len = value ? asprintf(&word, "%s=%s", option->key, value) : -1;

	free(value);
	if (len < 0)
		return -ENOMEM;
	words_quote(out, word);
	free(word);
	return 0;
}

int options_text(const struct port_option *options, unsigned n, char **ret, struct error *err)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int r = 0;

	if (!out)
		return error_no_memory(err);
	for (unsigned i = 0; i < n && !r; i++) {
		if (i)
			fputc(' ', out);
		r = option_write(out, &options[i]);
	}
	if (fclose(out) || r)
		r = error_no_memory(err);
	else if (size > OPTIONS_TEXT_MAX)
		r = error_set(err, EINVAL,
			      "the options take %zu bytes, and a line of a file could hold %d; "
			      "shorten them",
			      size, OPTIONS_TEXT_MAX);
	if (r)
		free(text);
	else
		*ret = text;
	return r;
}

int options_split(const char *text, struct words *ret_words,
		  struct port_option ret_options[OPTIONS_MAX], unsigned *ret_n, struct error *err)
{
	int r = words_split(text, ret_words, err);

	if (r)
		return r;
	*ret_n = MIN(ret_words->n, (unsigned)OPTIONS_MAX);
	for (unsigned i = 0; i < *ret_n; i++) {
		char *key = ret_words->word[i], *value = strchr(key, '=');

		*value = '\0';
		ret_options[i] = (struct port_option){ .key = key, .value = value + 1 };
	}
	return 0;
}

int options_merge(const char *text, const struct port_option *changes, unsigned n, char **ret,
		  struct error *err)
{
	struct port_option merged[OPTIONS_MAX];
	struct words words;
	unsigned total;
	int r = options_split(text, &words, merged, &total, err);

	if (r)
		return r;
	for (unsigned i = 0; i < n && !r; i++) {
		unsigned at = 0;

		while (at < total && strcmp(merged[at].key, changes[i].key) != 0)
			at++;
		if (at == OPTIONS_MAX) {
			r = error_set(err, EINVAL, "more than %d options; use fewer", OPTIONS_MAX);
		} else {
			merged[at] = changes[i];
			total = MAX(total, at + 1);
		}
	}
	if (!r)
		r = options_text(merged, total, ret, err);
	words_free(&words);
	return r;
}

static int parse_count(const char *key, const char *value, unsigned max, unsigned *ret,
		       struct error *err)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(value, &end, 10);
	if (*value < '0' || *value > '9' || *end || errno || n < 1 || n > max)
		return error_set(err, EINVAL, "--%s is 1 to %u, not '%.40s'", key, max, value);
	*ret = (unsigned)n;
	return 0;
}

static int parse_poll(const char *value, enum run_poll *ret, struct error *err)
{
	if (!strcmp(value, "adapt"))
		*ret = POLL_ADAPT;
	else if (!strcmp(value, "always"))
		*ret = POLL_ALWAYS;
	else
		return error_set(err, EINVAL, "--poll is adapt or always, not '%.40s'", value);
	return 0;
}

int run_settings_set(struct run_settings *settings, const char *key, const char *value,
		     struct error *err)
{
	int n;

	if (!strcmp(key, "workers"))
		return parse_count(key, value, WORKERS_MAX, &settings->workers, err);
	if (!strcmp(key, "ports-max"))
		return parse_count(key, value, PORTS_MAX, &settings->ports_max, err);
	if (!strcmp(key, "poll"))
		return parse_poll(value, &settings->poll, err);
	if (strcmp(key, "cpus") != 0)
		return error_set(err, EINVAL,
				 "'--%s' is not for a line of a file; run takes --workers N, "
				 "--cpus LIST, --poll HOW and --ports-max N there",
				 key);
	if (strlen(value) >= sizeof(settings->cpus_text))
		return error_set(err, EINVAL, "--cpus is longer than %zu bytes; use ranges as 0-3",
				 sizeof(settings->cpus_text) - 1);
	n = cpu_list_parse(value, WORKERS_MAX, settings->cpus, err);
	if (n < 0)
		return n;
	settings->n_cpus = (unsigned)n;
	strcpy(settings->cpus_text, value);
	return 0;
}

int run_settings_parse(struct run_settings *settings, char *const *words, unsigned n,
		       struct error *err)
{
	for (unsigned i = 0; i < n; i++) {
		char *key = words[i], *value = strchr(key, '=');
		int r;

		if (strncmp(key, "--", 2) != 0)
			return error_set(
				err, EINVAL,
				"'%s' after run; it takes --workers N, --cpus LIST, --poll HOW "
				"and --ports-max N here",
				key);
		if (value)
			*value++ = '\0';
		else if (i + 1 < n)
			value = words[++i];
		else
			return error_set(err, EINVAL, "'%s' needs a value after it", key);
		r = run_settings_set(settings, key + 2, value, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int run_settings_workers(const struct run_settings *settings, unsigned *ret_workers,
			 struct error *err)
{
	if (settings->n_cpus && settings->workers && settings->n_cpus != settings->workers)
		return error_set(err, EINVAL,
				 "--workers is %u, and --cpus has %u; name one CPU for each worker",
				 settings->workers, settings->n_cpus);
	if (settings->workers)
		*ret_workers = settings->workers;
	else if (settings->n_cpus)
		*ret_workers = settings->n_cpus;
	else
		*ret_workers = place_workers(cpu_available(), cpu_quota());
	return 0;
}
