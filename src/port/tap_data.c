// SPDX-License-Identifier: Apache-2.0
/*
 * The datapath of a tap port. Workers only.
 *
 * Ingress: frames are read into private buffers, as many at once as the last reads let expect, and
 * collected from there; their first bytes are copied to the snapshot as those of any frame, so
 * that the switch need not know where they are from. The descriptor itself is the kick: the kernel
 * says through epoll that there is something to read, whether it was armed or not.
 *
 * Egress: the kernel gathers a frame from where it is, the rest of it straight from the sending
 * guest's memory. A flow goes to one queue by its hash, and the kernel answers on that queue. What
 * the kernel cannot cut (UDP, before Linux 6.2) is cut here, with headers of its own and the same
 * payload; its checksums are the kernel's as ever.
 *
 * A queue that is closed has descriptor -1, to which nothing can be written and from which nothing
 * comes.
 */
#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "frame/cut.h"
#include "frame/finish.h"
#include "net/eth.h"
#include "port/spread.h"
#include "port/tap_priv.h"

/* No more than about this is read at once, or the first would wait for the last. */
#define READ_BYTES 131072
/*
 * To find a tap empty costs a system call, 1 us. So one that was is not asked again for this long:
 * while its worker polls it, and while it is armed but its worker is busy with others, which shall
 * not feel it.
 */
#define POLLED_US 5u
#define ARMED_US  100u

/* Reads to try next, if `got` of `want` brought `bytes` in all. */
static unsigned want_next(unsigned want, unsigned got, uint32_t bytes)
{
	unsigned fit;

	if (!got)
		return MAX(want / 2, 1u);
	fit = MAX((unsigned)(READ_BYTES / (bytes / got)), 1u);
	fit = MIN(fit, TAP_IO_MAX);
	want = got == want ? 2 * want : (want + got) / 2;
	return MIN(want, fit);
}

/* Fills the buffers; true if there is anything in them. */
static bool read_frames(struct tap_ingress *in)
{
	uint32_t bytes = 0;
	unsigned got = 0;

	for (unsigned i = 0; i < in->want; i++) {
		in->iov[i] = (struct iovec){ in->buffers + i * TAP_BUFFER, TAP_BUFFER };
		in->op[i] = (struct tap_op){ .iov = &in->iov[i], .n = 1 };
	}
	tap_io_read(&in->io, in->op, in->want);
	for (unsigned i = 0; i < in->want; i++) {
		unsigned number = in->io.order[i];

		if (in->op[number].result <= 0)
			continue;
		bytes += (uint32_t)in->op[number].result;
		in->frame[got++] = (uint8_t)number;
	}
	in->read = got;
	in->next = 0;
	in->want = want_next(in->want, got, bytes);
	return got;
}

/* What was read into a buffer becomes the batch's next frame. */
static enum drop add_frame(struct batch *b, uint64_t features, const uint8_t *from, uint32_t len)
{
	struct frame *f = &b->frame[b->n];
	uint32_t rest;

	if (unlikely(len < VNET_HDR_LEN + ETH_HEADER_LEN))
		return DROP_FRAME_SHORT;
	f->len = len - (uint32_t)VNET_HDR_LEN;
	if (unlikely(f->len > FRAME_LEN_MAX))
		return DROP_FRAME_LONG;
	if (unlikely(frame_take_header(f, from, features)))
		return DROP_HEADER_BAD;
	f->head = b->snapshot[b->n] + VNET_HDR_LEN;
	f->head_len = (uint16_t)MAX(MIN(f->len, SNAPSHOT_COPIED - (uint32_t)VNET_HDR_LEN),
				    frame_edit_end(f));
	memcpy(f->head, from + VNET_HDR_LEN, f->head_len);
	rest = f->len - f->head_len;
	f->span = (uint16_t)b->spans;
	f->spans = rest ? 1 : 0;
	if (rest)
		b->span[b->spans++] =
			(struct span){ (uintptr_t)from + VNET_HDR_LEN + f->head_len, rest };
	f->segments = 0;
	f->hashed = false;
	if (!f->plain && plan_finish_for_all(&f->hdr, f->head, f->head_len))
		frame_finish(b, f);
	b->bytes += f->len;
	b->n++;
	return DROP_NONE;
}

static bool was_empty(const struct tap_ingress *in, unsigned us)
{
	return clock_cycles() - in->empty < us * clock_cycles_per_us();
}

bool tap_collect(struct port_queue *queue, struct batch *b, struct virtq_calls *calls)
{
	const uint64_t features = load_relaxed(&tap_port(queue->port)->features);
	struct tap_ingress *in = &tap_queue(queue)->in;

	if (was_empty(in, POLLED_US))
		return false;
	pthread_mutex_lock(&in->lock);
	if (in->next == in->read && !read_frames(in)) {
		pthread_mutex_unlock(&in->lock);
		in->empty = clock_cycles();
		return false;
	}
	batch_begin(b);
	for (; in->next < in->read && b->bytes < BATCH_BYTES; in->next++) {
		const struct tap_op *op = &in->op[in->frame[in->next]];
		enum drop drop = add_frame(b, features, op->iov->iov_base, (uint32_t)op->result);

		if (unlikely(drop))
			count(&in->stats.dropped[drop], 1);
	}
	count(&in->stats.frames, b->n);
	count(&in->stats.bytes, b->bytes);
	return true;
}

void tap_complete(struct port_queue *queue, const struct batch *b, struct virtq_calls *calls)
{
	pthread_mutex_unlock(&tap_queue(queue)->in.lock);
}

void tap_ingress_drop(struct port_queue *queue, enum drop reason, unsigned n)
{
	count(&tap_queue(queue)->in.stats.dropped[reason], n);
}

/* A device that is gone is not readable, or its worker would look at it for ever. */
static bool readable(struct tap_ingress *in)
{
	struct pollfd p = { .events = POLLIN };

	pthread_mutex_lock(&in->lock);
	p.fd = in->io.fd;
	poll(&p, 1, 0);
	pthread_mutex_unlock(&in->lock);
	return p.revents & POLLIN;
}

bool tap_ready(struct port_queue *queue)
{
	struct tap_ingress *in = &tap_queue(queue)->in;

	if (was_empty(in, ARMED_US))
		return false;
	if (readable(in))
		return true;
	in->empty = clock_cycles();
	return false;
}

/*
 * It was found empty when it was last looked at; whatever has come since is an edge that epoll
 * knows of.
 */
bool tap_arm(struct port_queue *queue)
{
	return false;
}

/* There is, or may be, something to read. */
void tap_disarm(struct port_queue *queue)
{
	tap_queue(queue)->in.empty = 0;
}

/* One frame to one operation, whose pieces begin at `iov`; how many they are, 0: too many. */
static unsigned gather(struct tap_egress *out, const struct batch *b, const struct frame *f,
		       unsigned slot, struct iovec *iov)
{
	struct virtio_net_hdr_mrg_rxbuf *hdr = &out->hdr[slot];
	unsigned n = 2;

	if (unlikely(f->spans > TAP_PIECES_MAX - 2))
		return 0;
	memset(hdr, 0, sizeof(*hdr));
	if (!f->plain)
		hdr->hdr = f->hdr;
	iov[0] = (struct iovec){ hdr, sizeof(*hdr) };
	iov[1] = (struct iovec){ f->head, f->head_len };
	for (unsigned i = 0; i < f->spans; i++) {
		const struct span *s = &b->span[f->span + i];

		iov[n++] = (struct iovec){ (void *)s->at, s->len };
	}
	out->op[slot] = (struct tap_op){ .iov = iov, .n = n };
	return n;
}

/* What the kernel's answer means. DROP_FULL: it may be tried again. */
static enum drop verdict(int result)
{
	switch (result) {
	case -EAGAIN:
	case -ENOBUFS:
	case -ENOMEM:
		return DROP_FULL;
	case -EIO:    /* its link is down */
	case -EBADFD: /* the device is gone */
	case -ENODEV: /* so it is */
	case -EBADF:  /* the port is closed */
		return DROP_PORT_DOWN;
	case -EFAULT:
		return DROP_SENDER_FAULT;
	default:
		return result < 0 ? DROP_HOST_REFUSED : DROP_NONE;
	}
}

/*
 * Up to where there is no way back: behind the last of `n` operations that was done. What was not
 * done before it has been overtaken, and may not be tried again.
 */
static unsigned written(const struct tap_egress *out, unsigned n)
{
	while (n && out->op[n - 1].result < 0)
		n--;
	return n;
}

/* Counts what has become of the frames that were written; returns those to be tried again. */
static frame_set settle(struct tap_egress *out, const struct batch *b, unsigned n)
{
	unsigned end = written(out, n);
	frame_set refused = 0;
	uint64_t frames = 0, bytes = 0;

	for (unsigned i = 0; i < n; i++) {
		enum drop drop = verdict(out->op[i].result);

		if (likely(!drop)) {
			frames++;
			bytes += b->frame[out->frame[i]].len;
		} else if (drop == DROP_FULL && i >= end) {
			refused |= 1u << out->frame[i];
		} else {
			count(&out->stats.dropped[drop], 1);
		}
	}
	count(&out->stats.frames, frames);
	count(&out->stats.bytes, bytes);
	return refused;
}

/* As gather(), of one segment. */
static unsigned gather_segment(struct tap_egress *out, const struct segments *s, uint32_t i,
			       struct source *from, unsigned slot, struct iovec *iov)
{
	unsigned n = 2;

	segment_header(s, i, out->head[slot]);
	out->hdr[slot] = (struct virtio_net_hdr_mrg_rxbuf){ .hdr = segment_hdr(s) };
	iov[0] = (struct iovec){ &out->hdr[slot], sizeof(out->hdr[slot]) };
	iov[1] = (struct iovec){ out->head[slot], s->header_len };
	for (uint32_t part, left = segment_payload(s, i); left; left -= part) {
		if (n == TAP_PIECES_MAX)
			return 0;
		iov[n].iov_base = (void *)source_next(from, left, &part);
		iov[n++].iov_len = part;
	}
	out->op[slot] = (struct tap_op){ .iov = iov, .n = n };
	return n;
}

/* Segments from `first` on, as many as can be written at once; how many, 0: one cannot. */
static unsigned gather_segments(struct tap_egress *out, const struct segments *s, uint32_t first,
				struct source *from)
{
	struct iovec *iov = out->iov;
	unsigned n = 0;

	for (; n < TAP_IO_MAX && first + n < s->n; n++) {
		unsigned pieces = gather_segment(out, s, first + n, from, n, iov);

		if (!pieces)
			return 0;
		iov += pieces;
	}
	return n;
}

/* The same of `n` segments: how many there are before the first that was not written, and why. */
static unsigned settle_segments(struct tap_egress *out, unsigned n, enum drop *ret_drop)
{
	unsigned first = n, done = 0;

	for (unsigned i = 0; i < n; i++) {
		if (!verdict(out->op[i].result))
			done++;
		else
			first = MIN(first, i);
	}
	*ret_drop = first < n ? verdict(out->op[first].result) : DROP_NONE;
	count(&out->segments, done);
	return first;
}

/* From where it was left off; *ret_again: the segments behind f->segments may be tried again. */
static enum drop write_segments(struct tap_egress *out, struct batch *b, struct frame *f,
				bool *ret_again)
{
	struct segments s;
	struct source from;
	enum drop drop = frame_cut(b, f, &s, &from);

	if (drop)
		return drop;
	while (f->segments < s.n && !drop) {
		unsigned n = gather_segments(out, &s, f->segments, &from), done;

		if (!n)
			return DROP_HOST_REFUSED;
		tap_io_write(&out->io, out->op, n);
		done = settle_segments(out, n, &drop);
		*ret_again = drop == DROP_FULL && written(out, n) == done;
		f->segments += (uint16_t)done;
		b->segments += done;
	}
	return drop;
}

/* One that has to be cut. False: it, or what is left of it, waits. */
static bool write_cut(struct tap_egress *out, struct batch *b, struct frame *f)
{
	bool again = false;
	enum drop drop = write_segments(out, b, f, &again);

	if (again)
		return false;
	f->segments = 0;
	if (drop) {
		count(&out->stats.dropped[drop], 1);
	} else {
		count(&out->stats.frames, 1);
		count(&out->stats.bytes, f->len);
	}
	return true;
}

static frame_set write_some(struct tap_egress *out, const struct batch *b, unsigned n)
{
	if (!n)
		return 0;
	tap_io_write(&out->io, out->op, n);
	return settle(out, b, n);
}

/* In order: behind one that has to wait all others do. */
static frame_set write_frames(struct tap_egress *out, struct batch *b, frame_set set,
			      uint64_t features)
{
	struct iovec *iov = out->iov;
	frame_set refused = 0;
	unsigned n = 0, i;

	pthread_mutex_lock(&out->lock);
	batch_for_each (i, set) {
		struct frame *f = &b->frame[i];
		unsigned pieces;

		if (unlikely(!f->plain &&
			     plan_frame(&f->hdr, features, !f->segments) != PLAN_PASS)) {
			refused = write_some(out, b, n); /* those before it */
			n = 0;
			iov = out->iov;
			if (refused || !write_cut(out, b, f)) {
				refused |= set & ~((1u << i) - 1);
				break;
			}
			continue;
		}
		pieces = gather(out, b, f, n, iov);
		if (likely(pieces)) {
			iov += pieces;
			out->frame[n++] = (uint8_t)i;
		} else {
			count(&out->stats.dropped[DROP_HOST_REFUSED], 1);
		}
	}
	refused |= write_some(out, b, n);
	pthread_mutex_unlock(&out->lock);
	return refused;
}

_Static_assert(TAP_QUEUES_MAX - 1 <= UINT8_MAX, "a queue's number is a byte in tap_egress()");

frame_set tap_egress(struct port *port, struct batch *b, frame_set set, struct virtq_calls *calls)
{
	struct tap_port *p = tap_port(port);
	const uint64_t features = load_relaxed(&p->features);
	uint8_t queue[BATCH_FRAMES];
	frame_set refused = 0;
	unsigned i;

	if (p->queues == 1)
		return write_frames(&p->queue[0]->out, b, set, features);
	batch_for_each (i, set)
		queue[i] = (uint8_t)((uint64_t)frame_flow(&b->frame[i]) * p->queues >> 32);
	while (set) {
		struct tap_egress *out = &p->queue[queue[__builtin_ctz(set)]]->out;

		refused |= write_frames(out, b, spread_take(queue, &set), features);
	}
	return refused;
}
