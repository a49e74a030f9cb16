/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands that change a switch, in the one grammar that command line and configuration file
 * share:
 *
 *	port add NAME KIND key=value ...
 *	port del NAME
 *	port set NAME key=value ...
 *	run [--workers N] [--cpus LIST] [--poll HOW] [--ports-max N]	(settings; as a line of a
 *									file only these)
 *
 * Pure: what a command means for a switch is the daemon's matter, what a key means the port's.
 */
#ifndef RINGWAY_CONTROL_COMMAND_H
#define RINGWAY_CONTROL_COMMAND_H

#include "base/error.h"
#include "control/words.h"
#include "port/port.h"
#include "worker/pool.h"

#define OPTIONS_MAX	 32		       /* key=value of one port */
#define OPTIONS_TEXT_MAX (WORDS_LINE_MAX - 96) /* less what stands before them in a line */

enum command_verb { COMMAND_PORT_ADD, COMMAND_PORT_DEL, COMMAND_PORT_SET };

struct command {
	enum command_verb verb;
	const char *name; /* these point into the words that were parsed */
	const char *kind; /* PORT_ADD only */
	unsigned n;
	struct port_option options[OPTIONS_MAX];
};

/*
 * Parses `words`, e.g. "port", "add", "vm1", "vhost-user", "listen=/run/vm1.sock". Cuts the
 * options' words at their first '='. 0, or -EINVAL with `err` filled.
 */
int command_parse(char *const *words, unsigned n, struct command *ret, struct error *err);

/*
 * What all sources of options must keep to: keys of [a-z0-9_-], none twice, values of UTF-8 without
 * control characters (a file could not hold them). 0, or -EINVAL with `err` filled.
 */
int options_check(const struct port_option *options, unsigned n, struct error *err);

/*
 * The value as it is the same everywhere: of listen= and connect=, an absolute path. To be freed;
 * NULL: no memory.
 */
char *option_value(const struct port_option *option);

/*
 * "key=value key='other value'", values as of option_value(), to be freed. 0, or a negative errno
 * with `err` filled: so long that no line of a file could hold the port (OPTIONS_TEXT_MAX).
 */
int options_text(const struct port_option *options, unsigned n, char **ret, struct error *err);

/*
 * The options of a text that options_text() wrote; they point into *ret_words, the caller's to
 * free. 0 or a negative errno with `err` filled.
 */
int options_split(const char *text, struct words *ret_words,
		  struct port_option ret_options[OPTIONS_MAX], unsigned *ret_n, struct error *err);

/*
 * `text`, as options_text() wrote it, with `changes` in place of the old values or at its end; as
 * options_text().
 */
int options_merge(const char *text, const struct port_option *changes, unsigned n, char **ret,
		  struct error *err);

/* The settings of `run` that a file can hold as well. */
struct run_settings {
	unsigned workers; /* 0: not said */
	unsigned n_cpus;  /* 0: not said */
	unsigned cpus[WORKERS_MAX];
	char cpus_text[128]; /* as it was said */
	unsigned ports_max;  /* 0: not said */
	enum run_poll { POLL_UNSAID, POLL_ADAPT, POLL_ALWAYS } poll;
};

/* `key` is "workers", "cpus", "poll" or "ports-max". 0 or a negative errno with `err` filled. */
int run_settings_set(struct run_settings *settings, const char *key, const char *value,
		     struct error *err);
/* The words after `run` in a file. */
int run_settings_parse(struct run_settings *settings, char *const *words, unsigned n,
		       struct error *err);
/*
 * How many workers that makes: as many as CPUs, else what policy/place says. 0, or -EINVAL with
 * `err` filled if both were said and differ in number.
 */
int run_settings_workers(const struct run_settings *settings, unsigned *ret_workers,
			 struct error *err);

#endif
