/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories in which ports may have their sockets, and all beneath them. Their names are what
 * realpath() makes of them, so that no symbolic link leads out. Control thread.
 */
#ifndef RINGWAY_CONTROL_DIRS_H
#define RINGWAY_CONTROL_DIRS_H

#include "base/error.h"

struct dirs {
	unsigned n;
	char **path;
};

/* Adds a directory, which must be there. 0 or a negative errno with `err` filled. */
int dirs_add(struct dirs *dirs, const char *dir, struct error *err);
/* Adds the one that a socket is in, there or not. 0 or -ENOMEM with `err` filled. */
int dirs_add_of(struct dirs *dirs, const char *socket, struct error *err);
/* Whether a socket is in one of them. */
bool dirs_hold(const struct dirs *dirs, const char *socket);
void dirs_free(struct dirs *dirs);

#endif
