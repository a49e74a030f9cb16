// SPDX-License-Identifier: Apache-2.0
/*
 * Batches of operations. Whichever thread asks for one runs them all in its own system call.
 *
 * A write of 64 bytes costs 0.3 us in a batch and 1.6 by itself (docs/performance.md). What cannot
 * be done at once shall fail at once. From Linux 6.4 on a tap understands RWF_NOWAIT, which says
 * so; until 5.16 it was enough that the descriptor is O_NONBLOCK; in between io_uring would wait
 * until it can be done. That is then cancelled, and counts as failed.
 *
 * A ring that fails as such (the kernel has no memory for it) is given up for plain calls.
 *
 * A filter of system calls does not see what a ring does, so a ring is restricted to what is used
 * of it before it is enabled.
 */
#include "port/tap_io.h"

#include <errno.h>
#include <unistd.h>

#define UNDER_WAY  INT32_MIN  /* a result that is still to come */
#define CANCEL	   UINT64_MAX /* user_data of a request that is no operation */
#define RING_SLOTS (2 * TAP_IO_MAX)

static void close_ring(struct tap_io *io)
{
	if (!io->uring)
		return;
	io->uring = false;
	/* The kernel ends a ring when it finds time, and would hold the device for so long. */
	io_uring_unregister_files(&io->ring);
	io_uring_queue_exit(&io->ring);
}

/* Takes the results that are there; how many they were. */
static unsigned reap(struct tap_io *io, struct tap_op *ops)
{
	struct io_uring_cqe *cqe;
	unsigned head, seen = 0, done = 0;

	io_uring_for_each_cqe(&io->ring, head, cqe)
	{
		seen++;
		if (cqe->user_data == CANCEL)
			continue;
		ops[cqe->user_data].result = cqe->res == -ECANCELED ? -EAGAIN : cqe->res;
		io->order[io->done + done++] = (uint8_t)cqe->user_data;
	}
	io_uring_cq_advance(&io->ring, seen);
	io->done += done;
	return done;
}

static void prepare(struct tap_io *io, const struct tap_op *op, unsigned number, int opcode)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&io->ring);

	io_uring_prep_rw(opcode, sqe, 0, op->iov, op->n, 0);
	sqe->rw_flags = io->rw_flags;
	sqe->flags = IOSQE_FIXED_FILE;
	sqe->user_data = number;
}

/* What io_uring waits for is made to fail; returns when all have a result. */
static void cancel(struct tap_io *io, struct tap_op *ops, unsigned n, unsigned left)
{
	for (unsigned i = 0; i < n; i++) {
		struct io_uring_sqe *sqe;

		if (ops[i].result != UNDER_WAY)
			continue;
		sqe = io_uring_get_sqe(&io->ring);
		io_uring_prep_cancel64(sqe, i, 0);
		sqe->user_data = CANCEL;
	}
	while (left) {
		/* It may be interrupted or short of memory, but may not be left. */
		io_uring_submit_and_wait(&io->ring, 1);
		left -= reap(io, ops);
	}
}

/* Runs operations in the ring; how many of them have a result: all, unless the ring fails. */
static unsigned run_ring(struct tap_io *io, struct tap_op *ops, unsigned n, int opcode)
{
	unsigned taken = 0, done;

	for (unsigned i = 0; i < n; i++) {
		ops[i].result = UNDER_WAY;
		prepare(io, &ops[i], i, opcode);
	}
	while (taken < n) {
		int r = io_uring_submit(&io->ring);

		if (r <= 0)
			break;
		taken += (unsigned)r;
	}
	done = reap(io, ops);
	if (likely(done == n))
		return n;
	if (done < taken) {
		/* Those that were not taken are before the cancels, and so are taken now. */
		cancel(io, ops, n, n - done);
		return n;
	}
	close_ring(io); /* with those that it did not take */
	return taken;
}

/* Runs those from `first` on. */
static void run_plain(struct tap_io *io, struct tap_op *ops, unsigned first, unsigned n, int opcode)
{
	bool more = true;

	for (unsigned i = first; i < n; i++) {
		ssize_t r = -1;

		errno = EAGAIN;
		if (more && opcode == IORING_OP_READV)
			r = readv(io->fd, ops[i].iov, (int)ops[i].n);
		else if (more)
			r = writev(io->fd, ops[i].iov, (int)ops[i].n);
		ops[i].result = r < 0 ? -errno : (int)r;
		more = ops[i].result != -EAGAIN; /* or the next would not be either */
		io->order[io->done++] = (uint8_t)i;
	}
}

static void run(struct tap_io *io, struct tap_op *ops, unsigned n, int opcode)
{
	unsigned done = 0;

	io->done = 0;
	if (likely(io->uring))
		done = run_ring(io, ops, n, opcode);
	if (unlikely(done < n))
		run_plain(io, ops, done, n, opcode);
}

void tap_io_read(struct tap_io *io, struct tap_op *ops, unsigned n)
{
	run(io, ops, n, IORING_OP_READV);
}

void tap_io_write(struct tap_io *io, struct tap_op *ops, unsigned n)
{
	run(io, ops, n, IORING_OP_WRITEV);
}

/* Writes nothing, which a tap refuses as too short if it gets to see it. */
static void try_nowait(struct tap_io *io)
{
	struct tap_op op = { .n = 0 };

	io->rw_flags = RWF_NOWAIT;
	run(io, &op, 1, IORING_OP_WRITEV);
	if (op.result == -EOPNOTSUPP)
		io->rw_flags = 0;
}

static int restrict_ring(struct io_uring *ring)
{
	struct io_uring_restriction allowed[] = {
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_READV },
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_WRITEV },
		{ .opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_ASYNC_CANCEL },
		{ .opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED, .sqe_flags = IOSQE_FIXED_FILE },
		{ .opcode = IORING_RESTRICTION_REGISTER_OP,
		  .register_op = IORING_UNREGISTER_FILES },
	};

	/* liburing 2.3 has names for these two registrations, but does not export them. */
	return io_uring_register((unsigned)ring->ring_fd, IORING_REGISTER_RESTRICTIONS, allowed,
				 ARRAY_SIZE(allowed));
}

int tap_io_open(struct tap_io *io, int fd)
{
	int r = io_uring_queue_init(RING_SLOTS, &io->ring, IORING_SETUP_R_DISABLED);

	io->fd = fd;
	if (r < 0)
		return r;
	io->uring = true;
	r = restrict_ring(&io->ring);
	if (!r)
		r = io_uring_register_files(&io->ring, &fd, 1);
	if (!r)
		r = io_uring_register((unsigned)io->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS,
				      NULL, 0);
	if (r < 0)
		close_ring(io);
	else
		try_nowait(io);
	return r;
}

void tap_io_close(struct tap_io *io)
{
	close_ring(io);
	io->fd = -1;
}
