/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that a front-end sent and that nobody wants: closing one may take as long as its
 * owner likes. On FUSE, NFS and the like the kernel asks a server first, which the front-end may
 * run, and a lingering socket waits for its peer. So all but those of which it is known are closed
 * by a thread of their own, together if they came together. Since such a thread may never come
 * back, they are counted, and whoever has more than FOREIGN_MAX of them that do not close gets no
 * session. A file of memory always closes, but who is the last to close a large one frees its
 * pages: that is done apart, too, and not counted.
 */
#ifndef RINGWAY_VHOST_FOREIGN_H
#define RINGWAY_VHOST_FOREIGN_H

#include "base/base.h"

#define FOREIGN_MAX 16u

struct foreign;

/*
 * Control thread. *f is made at first need, and nobody's but the caller's. Takes over the
 * descriptors; negative ones are none.
 */
void foreign_close(struct foreign **f, const int *fds, unsigned n);

/* The same for a connected Unix socket: what its peer sent and nobody read goes with it. */
void foreign_hang_up(struct foreign **f, int sock);

/* How many are not closed yet, or were closed with some that are not; of NULL: none. */
unsigned foreign_pending(const struct foreign *f);

/* Those that are not closed yet go on without it; NULL is allowed. */
void foreign_put(struct foreign *f);

/* True, false, or a negative errno: it cannot be told, for there is no /proc. */
int foreign_is_eventfd(int fd);

#endif
