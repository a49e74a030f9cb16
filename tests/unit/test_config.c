// SPDX-License-Identifier: Apache-2.0
/* The grammar that command line and configuration file share. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/config.h"

#define assert_contains(text, part) assert_non_null(strstr((text), (part)))

static void splits(const char *line, unsigned n, const char *const *expected)
{
	struct words words;
	struct error err;

	assert_int_equal(words_split(line, &words, &err), 0);
	assert_int_equal(words.n, n);
	for (unsigned i = 0; i < n; i++)
		assert_string_equal(words.word[i], expected[i]);
	words_free(&words);
}

static void blanks_quotes_and_comments_make_words(void **state)
{
	splits("", 0, NULL);
	splits(" \t \r\n", 0, NULL);
	splits("# all of it", 0, NULL);
	splits("a  b\tc # rest", 3, (const char *[]){ "a", "b", "c" });
	splits("a#b", 1, (const char *[]){ "a#b" });
	splits("'a b' \"c d\"", 2, (const char *[]){ "a b", "c d" });
	splits("key='a b'c", 1, (const char *[]){ "key=a bc" });
	splits("'' x", 2, (const char *[]){ "", "x" });
	splits("\"a\\\"b\\\\c\" 'a\\b'", 2, (const char *[]){ "a\"b\\c", "a\\b" });
	splits("'#' \"#\"", 2, (const char *[]){ "#", "#" });
	splits("a\\b", 1, (const char *[]){ "a\\b" });
}

static void split_fails(const char *line, const char *part)
{
	struct words words;
	struct error err;

	assert_true(words_split(line, &words, &err) < 0);
	assert_contains(err.text, part);
}

static void lines_that_cannot_be_split_are_refused(void **state)
{
	char *longest = malloc(WORDS_LINE_MAX + 2);
	struct words words;
	struct error err;

	split_fails("a 'b", "not closed; add the second '");
	split_fails("a \"b\\\"", "not closed; add the second \"");
	split_fails("a b\001c", "0x01");
	split_fails("a 'b\tc'", "0x09");
	memset(longest, 'x', WORDS_LINE_MAX + 1);
	longest[WORDS_LINE_MAX + 1] = '\0';
	split_fails(longest, "4096");
	longest[WORDS_LINE_MAX] = '\0';
	assert_int_equal(words_split(longest, &words, &err), 0);
	words_free(&words);
	for (unsigned i = 0; i < 2 * (WORDS_MAX + 1); i += 2)
		memcpy(longest + i, "a ", 3);
	split_fails(longest, "64 words");
	free(longest);
}

static void quoted_words_are_read_back_as_they_were(void **state)
{
	static const char *const words[] = { "plain", "a b",  "it's",  "#x", "",       "a\"b",
					     "$HOME", "`ls`", "a\\b'", "'",  "\"'\\$`" };

	for (unsigned i = 0; i < ARRAY_SIZE(words); i++) {
		char text[64] = "";
		FILE *out = fmemopen(text, sizeof(text), "w");

		words_quote(out, words[i]);
		fclose(out);
		splits(text, 1, &words[i]);
	}
}

/* Splits and parses; the caller looks at the command before the words go. */
static int parse(const char *line, struct command *c, struct words *words, struct error *err)
{
	assert_int_equal(words_split(line, words, err), 0);
	return command_parse(words->word, words->n, c, err);
}

static void commands_are_parsed(void **state)
{
	struct command c;
	struct words words;
	struct error err;

	assert_int_equal(parse("port add vm1 tap listen=/a=b mtu=", &c, &words, &err), 0);
	assert_int_equal(c.verb, COMMAND_PORT_ADD);
	assert_string_equal(c.name, "vm1");
	assert_string_equal(c.kind, "tap");
	assert_int_equal(c.n, 2);
	assert_string_equal(c.options[0].key, "listen");
	assert_string_equal(c.options[0].value, "/a=b");
	assert_string_equal(c.options[1].key, "mtu");
	assert_string_equal(c.options[1].value, "");
	words_free(&words);

	assert_int_equal(parse("port del vm1", &c, &words, &err), 0);
	assert_int_equal(c.verb, COMMAND_PORT_DEL);
	words_free(&words);

	assert_int_equal(parse("port set vm1 mtu=9000", &c, &words, &err), 0);
	assert_int_equal(c.verb, COMMAND_PORT_SET);
	assert_null(c.kind);
	assert_string_equal(c.options[0].value, "9000");
	words_free(&words);
}

static void wrong_commands_say_what_would_be_right(void **state)
{
	static const struct {
		const char *line, *part;
	} wrong[] = {
		{ "prot add", "'prot'; here it can be port add, del or set" },
		{ "port", "add, del or set after it" },
		{ "port frob a", "'port frob'; there are port add, del and set" },
		{ "port add", "needs the port's name" },
		{ "port add -x tap", "'-x' is no name" },
		{ "port add 'a tap dev=b'", "no quotes around" },
		{ "port add a/b tap", "'a/b' is no name" },
		{ "port add 12345678901234567890123456789012 tap", "is no name" },
		{ "port add a", "needs a kind" },
		{ "port add a listen=/x", "a kind comes before 'listen=/x'" },
		{ "port add a tap up", "'up' is not an option; write it as key=value" },
		{ "port add a tap =v", "'' is not a key" },
		{ "port add a tap Key=v", "'Key' is not a key" },
		{ "port add a tap mtu=1 mtu=2", "'mtu' is given twice" },
		{ "port del a b", "'b' is too much" },
		{ "port set a", "needs what to set" },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct command c;
		struct words words;
		struct error err;

		assert_int_equal(parse(wrong[i].line, &c, &words, &err), -EINVAL);
		assert_contains(err.text, wrong[i].part);
		words_free(&words);
	}
}

static void too_many_options_are_refused(void **state)
{
	char line[512] = "port add a tap";
	struct command c;
	struct words words;
	struct error err;

	for (unsigned i = 0; i < OPTIONS_MAX; i++)
		sprintf(line + strlen(line), " k%u=v", i);
	assert_int_equal(parse(line, &c, &words, &err), 0);
	words_free(&words);
	strcat(line, " more=v");
	assert_int_equal(parse(line, &c, &words, &err), -EINVAL);
	assert_contains(err.text, "more than 32 options");
	words_free(&words);
}

static void options_keep_their_place_when_changed(void **state)
{
	const struct port_option old[] = { { "listen", "/a b" }, { "mtu", "1500" } };
	const struct port_option change[] = { { "mtu", "it's" }, { "mode", "0660" } };
	struct error err;
	char *text, *merged;

	assert_int_equal(options_text(old, 2, &text, &err), 0);
	assert_int_equal(options_merge(text, change, 2, &merged, &err), 0);
	assert_string_equal(text, "'listen=/a b' mtu=1500");
	assert_string_equal(merged, "'listen=/a b' \"mtu=it's\" mode=0660");
	free(text);
	free(merged);
}

static void options_that_no_line_could_hold_are_refused(void **state)
{
	char value[OPTIONS_TEXT_MAX + 1] = "", *text, *merged;
	struct port_option option = { "mtu", value };
	struct error err;

	memset(value, '0', OPTIONS_TEXT_MAX - strlen("mtu="));
	assert_int_equal(options_text(&option, 1, &text, &err), 0);
	value[strlen(value)] = '0';
	assert_int_equal(options_text(&option, 1, &merged, &err), -EINVAL);
	assert_contains(err.text, "shorten them");
	option.key = "x";
	value[0] = '\0';
	assert_int_equal(options_merge(text, &option, 1, &merged, &err), -EINVAL);
	assert_contains(err.text, "shorten them");
	free(text);
}

static int read_text(const char *text, size_t len, struct config *config, unsigned *line,
		     struct error *err)
{
	FILE *file = fmemopen((char *)text, len, "r");
	int r = config_read(config, file, "test.conf", line, err);

	fclose(file);
	return r;
}

static void a_file_is_a_list_of_commands(void **state)
{
	static const char text[] = "# a comment\n"
				   "\n"
				   "run --workers 3\r\n"
				   "run --ports-max 8\n"
				   "port add vm1 tap 'listen=/a b'  # the first\r\n"
				   "\tport add vm2 tap\n"
				   "port set vm2 mtu=1400\n"
				   "port del vm1\n"
				   "port add vm1 tap"; /* no newline at the end */
	struct config config = { .n = 0 };
	struct error err;
	unsigned line;

	assert_int_equal(read_text(text, strlen(text), &config, &line, &err), 0);
	assert_int_equal(config.n, 5);
	assert_int_equal(config.settings.workers, 3);
	assert_int_equal(config.settings.ports_max, 8);
	assert_string_equal(config.commands[0].command.options[0].value, "/a b");
	assert_int_equal(config.commands[0].line, 5);
	assert_int_equal(config.commands[4].line, 9);
	assert_string_equal(config.commands[4].source, "test.conf");
	config_free(&config);
}

/* As Windows' editors begin a file of UTF-8 with. */
static void a_byte_order_mark_is_no_word(void **state)
{
	static const char text[] = "\xef\xbb\xbfport add vm1 tap\n";
	struct config config = { .n = 0 };
	struct error err;
	unsigned line;

	assert_int_equal(read_text(text, strlen(text), &config, &line, &err), 0);
	assert_int_equal(config.n, 1);
	config_free(&config);
	assert_true(read_text(text, 3, &config, &line, &err) == 0 && !config.n);
}

static void errors_of_a_file_name_the_line(void **state)
{
	static const struct {
		const char *text;
		unsigned line;
		const char *part;
	} wrong[] = {
		{ "\n\nport add a\n", 3, "needs a kind" },
		{ "port add a tap dev=x,queues=2\n", 1, "dev=x queues=2" },
		{ "port add a tap\n#\nport add a tap\n", 3, "was added at test.conf:1 already" },
		{ "port set a mtu=1\n", 1, "no port 'a' was added above" },
		{ "port add a tap\nport del a\nport del a\n", 3, "no port 'a'" },
		{ "show port\n", 1, "'show' is no command for a file" },
		{ "run --port x\n", 1, "'--port' is not for a line of a file" },
		{ "run --workers\n", 1, "needs a value" },
		{ "run --workers 0\n", 1, "--workers is 1 to" },
		{ "run --workers=65\n", 1, "--workers is 1 to" },
		{ "run --ports-max 4097\n", 1, "--ports-max is 1 to 4096" },
		{ "run --ports-max 0\n", 1, "--ports-max is 1 to 4096" },
		{ "run 2\n", 1, "'2' after run" },
		{ "run --cpus x\n", 1, "'x' is not a list of CPUs" },
		{ "run --poll often\n", 1, "--poll is adapt or always" },
		{ "port add 'a tap\n", 1, "not closed" },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct config config = { .n = 0 };
		struct error err;
		unsigned line;

		assert_true(read_text(wrong[i].text, strlen(wrong[i].text), &config, &line, &err) <
			    0);
		assert_int_equal(line, wrong[i].line);
		assert_contains(err.text, wrong[i].part);
		config_free(&config);
	}
}

static void more_ports_than_any_switch_has_are_refused_where_they_stand(void **state)
{
	struct config config = { .n = 0 };
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct error err;
	unsigned line;

	for (unsigned i = 0; i < PORTS_MAX; i++)
		fprintf(out, "port add p%u tap\n", i);
	fputs("port del p7\nport add again tap\nport add more tap\n", out);
	fclose(out);
	assert_int_equal(read_text(text, len, &config, &line, &err), -ENOSPC);
	assert_int_equal(line, PORTS_MAX + 3);
	assert_contains(err.text, "more than 4096 ports");
	free(text);
	config_free(&config);
}

static void binary_and_endless_lines_are_refused(void **state)
{
	struct config config = { .n = 0 };
	char *endless = malloc(100000);
	struct error err;
	unsigned line;

	assert_true(read_text("#\nport\0add", 10, &config, &line, &err) < 0);
	assert_int_equal(line, 2);
	assert_contains(err.text, "NUL");
	memset(endless, 'a', 100000);
	endless[0] = '\n';
	assert_true(read_text(endless, 100000, &config, &line, &err) < 0);
	assert_int_equal(line, 2);
	assert_contains(err.text, "longer than 4096");
	free(endless);
	config_free(&config);
}

static void ports_of_the_command_line_use_the_same_grammar(void **state)
{
	struct config config = { .n = 0 };
	struct error err;

	assert_int_equal(config_add_port(&config, "a tap 'x=y z'", &err), 0);
	assert_string_equal(config.commands[0].command.options[0].value, "y z");
	assert_int_equal(config.commands[0].line, 0);
	assert_int_equal(config_add_port(&config, "a tap", &err), -EEXIST);
	assert_int_equal(config_add_port(&config, "# a tap", &err), -EINVAL);
	assert_int_equal(config_add_port(&config, "", &err), -EINVAL);
	assert_int_equal(config.n, 1);
	config_free(&config);
}

static void workers_follow_cpus_unless_both_are_said(void **state)
{
	struct run_settings s = { .workers = 0 };
	struct error err;
	unsigned n = 0;

	assert_int_equal(run_settings_workers(&s, &n, &err), 0);
	assert_true(n >= 1);
	s.n_cpus = 2;
	assert_int_equal(run_settings_workers(&s, &n, &err), 0);
	assert_int_equal(n, 2);
	s.workers = 3;
	assert_int_equal(run_settings_workers(&s, &n, &err), -EINVAL);
	assert_contains(err.text, "--workers is 3, and --cpus has 2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blanks_quotes_and_comments_make_words),
		cmocka_unit_test(lines_that_cannot_be_split_are_refused),
		cmocka_unit_test(quoted_words_are_read_back_as_they_were),
		cmocka_unit_test(commands_are_parsed),
		cmocka_unit_test(wrong_commands_say_what_would_be_right),
		cmocka_unit_test(too_many_options_are_refused),
		cmocka_unit_test(options_keep_their_place_when_changed),
		cmocka_unit_test(options_that_no_line_could_hold_are_refused),
		cmocka_unit_test(a_file_is_a_list_of_commands),
		cmocka_unit_test(a_byte_order_mark_is_no_word),
		cmocka_unit_test(errors_of_a_file_name_the_line),
		cmocka_unit_test(more_ports_than_any_switch_has_are_refused_where_they_stand),
		cmocka_unit_test(binary_and_endless_lines_are_refused),
		cmocka_unit_test(ports_of_the_command_line_use_the_same_grammar),
		cmocka_unit_test(workers_follow_cpus_unless_both_are_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
