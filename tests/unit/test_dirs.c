// SPDX-License-Identifier: Apache-2.0
/* Which sockets are in an allowed directory, by whatever name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/dirs.h"

static char home[] = "/tmp/ringway-dirs-XXXXXX";

/* `home` and what follows it. */
static const char *path(const char *tail)
{
	static char text[2][128];
	static unsigned turn;

	turn = !turn;
	snprintf(text[turn], sizeof(text[turn]), "%s/%s", home, tail);
	return text[turn];
}

static int make_tree(void **state)
{
	if (!mkdtemp(home) || mkdir(path("in"), 0700) || mkdir(path("in/deep"), 0700) ||
	    mkdir(path("inner"), 0700) || symlink("..", path("in/out")) ||
	    symlink("in", path("link")))
		return -1;
	return 0;
}

static int remove_tree(void **state)
{
	unlink(path("link"));
	unlink(path("in/out"));
	rmdir(path("inner"));
	rmdir(path("in/deep"));
	rmdir(path("in"));
	return rmdir(home);
}

static void a_directory_and_all_beneath_it_are_allowed(void **state)
{
	struct dirs dirs = { .n = 0 };
	struct error err;

	assert_false(dirs_hold(&dirs, path("in/s")));
	assert_int_equal(dirs_add(&dirs, path("in"), &err), 0);
	assert_true(dirs_hold(&dirs, path("in/s")));
	assert_true(dirs_hold(&dirs, path("in/deep/s")));
	assert_true(dirs_hold(&dirs, path("in/../in/s")));
	assert_true(dirs_hold(&dirs, path("link/s")));
	assert_false(dirs_hold(&dirs, path("s")));
	assert_false(dirs_hold(&dirs, path("inner/s")));
	assert_false(dirs_hold(&dirs, path("in/../s")));
	assert_false(dirs_hold(&dirs, path("in/out/s")));
	assert_false(dirs_hold(&dirs, "/s"));
	assert_false(dirs_hold(&dirs, "s"));
	dirs_free(&dirs);
}

static void what_is_not_there_yet_is_judged_by_its_name(void **state)
{
	struct dirs dirs = { .n = 0 };
	struct error err;

	assert_int_equal(dirs_add_of(&dirs, path("link/new/s"), &err), 0);
	assert_true(dirs_hold(&dirs, path("in/new/s")));
	assert_true(dirs_hold(&dirs, path("in/new/er/s")));
	assert_false(dirs_hold(&dirs, path("in/s")));
	assert_false(dirs_hold(&dirs, path("in/new/../s")));
	assert_false(dirs_hold(&dirs, path("in/newer/s")));
	dirs_free(&dirs);
}

static void the_root_allows_everything(void **state)
{
	struct dirs dirs = { .n = 0 };
	struct error err;

	assert_int_equal(dirs_add_of(&dirs, "/s", &err), 0);
	assert_true(dirs_hold(&dirs, "/s"));
	assert_true(dirs_hold(&dirs, path("in/s")));
	dirs_free(&dirs);
}

static void a_directory_that_is_none_is_refused(void **state)
{
	struct dirs dirs = { .n = 0 };
	struct error err;

	assert_int_equal(dirs_add(&dirs, path("none"), &err), -ENOENT);
	assert_non_null(strstr(err.text, "mkdir"));
	assert_int_equal(dirs_add(&dirs, "/dev/null", &err), -ENOTDIR);
	assert_int_equal(dirs.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_directory_and_all_beneath_it_are_allowed),
		cmocka_unit_test(what_is_not_there_yet_is_judged_by_its_name),
		cmocka_unit_test(the_root_allows_everything),
		cmocka_unit_test(a_directory_that_is_none_is_refused),
	};

	return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
