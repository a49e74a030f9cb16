/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many reads or writes on one descriptor in one system call: io_uring, or plain readv and writev
 * where there is none. Which of them is decided when it is opened.
 *
 * Nothing is ever left under way: the operations write to private memory, but read from that of
 * guests, which may be unmapped as soon as the caller lets go of the guest's ring. Not locked: one
 * thread at a time, any thread.
 */
#ifndef RINGWAY_PORT_TAP_IO_H
#define RINGWAY_PORT_TAP_IO_H

#include <liburing.h>
#include <sys/uio.h>

#include "frame/batch.h"

#define TAP_IO_MAX BATCH_FRAMES /* operations at once */

struct tap_io {
	int fd; /* borrowed, O_NONBLOCK; -1: closed, everything fails with EBADF */
	bool uring;
	int rw_flags; /* of each operation in the ring */
	unsigned done;
	uint8_t order[TAP_IO_MAX]; /* the last operations by number, as they were done */
	struct io_uring ring;
};

/* One frame. */
struct tap_op {
	struct iovec *iov;
	unsigned n; /* of `iov`, at most IOV_MAX */
	int result; /* bytes, or a negative errno; -EAGAIN: not now */
};

/* 0; or a negative errno that says why there is no io_uring, and plain calls are used. */
int tap_io_open(struct tap_io *io, int fd);
/* Lets go of the descriptor, which the caller then closes. Twice does no harm. */
void tap_io_close(struct tap_io *io);

/*
 * Up to TAP_IO_MAX operations; all have a result afterwards. They are begun in order, but where
 * io_uring waits for one that cannot be done at once, that one may be done after the next: `order`.
 */
void tap_io_read(struct tap_io *io, struct tap_op *ops, unsigned n);
void tap_io_write(struct tap_io *io, struct tap_op *ops, unsigned n);

#endif
