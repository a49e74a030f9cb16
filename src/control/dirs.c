// SPDX-License-Identifier: Apache-2.0
#include "control/dirs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Takes over `path`. */
static int append(struct dirs *dirs, char *path, struct error *err)
{
	char **grown = path ? reallocarray(dirs->path, dirs->n + 1, sizeof(*grown)) : NULL;

	if (!grown) {
		free(path);
		return error_no_memory(err);
	}
	dirs->path = grown;
	dirs->path[dirs->n++] = path;
	return 0;
}

int dirs_add(struct dirs *dirs, const char *dir, struct error *err)
{
	char *path = realpath(dir, NULL);
	struct stat st;

	if (!path)
		return error_set(err, errno, "--allow-dir '%s': %s; make it, with mkdir -p", dir,
				 strerror(errno));
	if (stat(path, &st) || !S_ISDIR(st.st_mode)) {
		free(path);
		return error_set(err, ENOTDIR, "--allow-dir '%s': not a directory; name one", dir);
	}
	return append(dirs, path, err);
}

/* The part of the path that is there, without links, and the rest as it is. NULL: no memory. */
static char *real_path(const char *path)
{
	char *there = strdup(path), *slash, *real = NULL, *ret = NULL;

	while (there && !(real = realpath(there, NULL)) && (slash = strrchr(there, '/')) &&
	       slash != there)
		*slash = '\0';
	if (real && asprintf(&ret, "%s%s", real, path + strlen(there)) < 0)
		ret = NULL;
	else if (!real)
		ret = strdup(path);
	free(real);
	free(there);
	return ret;
}

/* The directory of a socket, as real_path() has it. */
static char *dir_of(const char *socket)
{
	const char *slash = strrchr(socket, '/');
	char *dir = slash ? strndup(socket, MAX(slash - socket, 1)) : strdup(".");
	char *real = dir ? real_path(dir) : NULL;

	free(dir);
	return real;
}

int dirs_add_of(struct dirs *dirs, const char *socket, struct error *err)
{
	return append(dirs, dir_of(socket), err);
}

static bool beneath(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return !strncmp(path, dir, len) && (!path[len] || path[len] == '/' || dir[len - 1] == '/');
}

bool dirs_hold(const struct dirs *dirs, const char *socket)
{
	char *dir = dir_of(socket);
	bool held = false;

	/* A step up from what is not there may lead anywhere, once it is. */
	for (unsigned i = 0; dir && !strstr(dir, "/..") && i < dirs->n; i++)
		held |= beneath(dir, dirs->path[i]);
	free(dir);
	return held;
}

void dirs_free(struct dirs *dirs)
{
	for (unsigned i = 0; i < dirs->n; i++)
		free(dirs->path[i]);
	free(dirs->path);
	*dirs = (struct dirs){ .n = 0 };
}
