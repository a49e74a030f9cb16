/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the process gives up once it has opened what it was told to at its start.
 *
 * A fault in the datapath or in the protocol would let a guest or front-end act as the switch. So
 * the switch keeps no more than it needs to go on:
 *
 * - no capability but CAP_NET_ADMIN, and that only if it shall make tap devices later;
 * - no file but: sockets made and removed in some directories, taps, and what names groups
 *   (Landlock, as far as the kernel has it);
 * - no system call but those that it makes (seccomp). Any other ends the process at once: there is
 *   no honest reason for one, and to go on after it would be to let somebody try the next.
 *
 * The first two are a thread's own and are inherited by the threads that it makes, hence all of it
 * comes before there is a second one. None of it can be taken back.
 *
 * Not confined: connecting to a Unix socket with a name in the file system, which neither layer can
 * tell from another one.
 */
#ifndef RINGWAY_SANDBOX_SANDBOX_H
#define RINGWAY_SANDBOX_SANDBOX_H

#include "base/error.h"

struct sandbox {
	const char *const *dirs; /* where sockets are made and removed, as far as they are there */
	unsigned n_dirs;
	bool taps_later; /* keeps CAP_NET_ADMIN, if it is there, and io_uring_setup() */
};

/*
 * Confines the process, of which the caller is the only thread. What the kernel has not got of
 * Landlock is logged and done without; anything else that is missing is a failure. 0 or a negative
 * errno with `err` filled.
 */
int sandbox_enter(const struct sandbox *sandbox, struct error *err);

#endif
