/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors that the process was started with: the only ones that an `fd=N` may name. Any
 * other is the process's own, and to take it for a port would pull it from under libuv or another
 * port.
 */
#ifndef RINGWAY_BASE_INHERIT_H
#define RINGWAY_BASE_INHERIT_H

#include "base/error.h"

/*
 * Notes which descriptors are open. First thing in main(), before anything is opened. Those of
 * standard input, output and error that are closed become /dev/null, so that no socket gets their
 * numbers.
 */
void inherit_note(void);

/* Takes one out. 0, or -EBADF with `err` filled: it was not inherited, or is taken already. */
int inherit_take(int fd, struct error *err);

/* One that has turned out to be what it should be: from now on non-blocking, and for no child. */
int inherit_own(int fd, struct error *err);

#endif
