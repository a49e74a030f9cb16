// SPDX-License-Identifier: Apache-2.0
#include "unlike.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>

#include "base/clock.h"

#define PATIENCE_MS 10000
#define RING	    128u
#define MERGE_ROOM  1536u
#define PLAIN_ROOM  1530u /* 1500 bytes, Ethernet header, a tag, virtio-net header */
#define BURST	    8u
#define SLOW_SHARE  5  /* one in so many of those that take long */
#define ASK_MS	    50 /* longer than the switch waits for room that does not come */

void unlike_text(unsigned set, char *text, size_t size)
{
	static const char *const names[] = { "csum", "guest_csum", "tso4",     "tso6",	"ecn",
					     "uso",  "merge",	   "indirect", "legacy" };
	size_t used = (size_t)snprintf(text, size, "%s", set ? "" : "nothing");

	for (unsigned i = 0; i < ARRAY_SIZE(names) && used < size; i++) {
		if (set & 1u << i)
			used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "," : "",
						 names[i]);
	}
}

static uint64_t features_of(unsigned set)
{
	static const struct {
		unsigned set;
		uint64_t features;
	} rows[] = {
		{ UNLIKE_CSUM, BIT(VIRTIO_NET_F_CSUM) },
		{ UNLIKE_GUEST_CSUM, BIT(VIRTIO_NET_F_GUEST_CSUM) },
		{ UNLIKE_TSO4, BIT(VIRTIO_NET_F_HOST_TSO4) | BIT(VIRTIO_NET_F_GUEST_TSO4) },
		{ UNLIKE_TSO6, BIT(VIRTIO_NET_F_HOST_TSO6) | BIT(VIRTIO_NET_F_GUEST_TSO6) },
		{ UNLIKE_ECN, BIT(VIRTIO_NET_F_HOST_ECN) | BIT(VIRTIO_NET_F_GUEST_ECN) },
		{ UNLIKE_USO, BIT(VIRTIO_NET_F_HOST_USO) | BIT(VIRTIO_NET_F_GUEST_USO4) |
				      BIT(VIRTIO_NET_F_GUEST_USO6) },
		{ UNLIKE_MERGE, BIT(VIRTIO_NET_F_MRG_RXBUF) },
		{ UNLIKE_INDIRECT, BIT(VIRTIO_RING_F_INDIRECT_DESC) },
	};
	uint64_t features = BIT(VIRTIO_RING_F_EVENT_IDX) | BIT(VHOST_USER_F_PROTOCOL_FEATURES);

	if (!(set & UNLIKE_LEGACY))
		features |= BIT(VIRTIO_F_VERSION_1);
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		features |= set & rows[i].set ? rows[i].features : 0;
	return features;
}

void unlike_open(struct rig *rig, unsigned port, unsigned set, const struct driver_config *like,
		 struct unlike *ret)
{
	struct driver_config c = like ? *like : (struct driver_config){ 0 };
	bool large = set & (UNLIKE_TSO4 | UNLIKE_TSO6 | UNLIKE_USO);

	c.features = features_of(set);
	c.tx_buffer = UNLIKE_PACKET_MAX;
	if (!c.ring_size)
		c.ring_size = RING;
	if (!c.rx_buffer)
		c.rx_buffer = set & UNLIKE_MERGE ? MERGE_ROOM
			      : large		 ? UNLIKE_PACKET_MAX
						 : PLAIN_ROOM;
	if (set & UNLIKE_INDIRECT)
		c.rx_shape = (struct driver_shape){ .n = 3, .indirect = true, .len = { 12, 101 } };
	*ret = (struct unlike){ .rig = rig, .port = port, .set = set };
	ret->d = rig_open(rig, port, &c);
	ret->full = rig_dropped(rig, port, "full");
	assert_int_equal(ret->d->fe.features & ~BIT(VIRTIO_F_RING_PACKED), c.features);
}

/* Which offload cuts such packets. */
static unsigned cutter(const struct plain_shape *s)
{
	return s->protocol == 17 ? UNLIKE_USO : s->v6 ? UNLIKE_TSO6 : UNLIKE_TSO4;
}

static bool needs_ecn(const struct plain_shape *s)
{
	return s->protocol == 6 && s->flags & PLAIN_CWR;
}

static uint32_t l4_sum(const struct unlike_packet *p, const uint8_t *bytes, uint32_t len)
{
	const struct plain_frame *f = &p->frame;
	uint32_t seed = plain_pseudo(f->src, f->dst, p->shape.v6, p->shape.protocol, len - f->l4);

	return plain_sum(seed, bytes + f->l4, len - f->l4);
}

/* The sender does it itself: the field is the checksum of the rest. */
static void finish(struct unlike_packet *p)
{
	uint8_t *field = p->frame.bytes + p->frame.l4 + plain_field(&p->shape);
	uint32_t sum;

	plain_put16(field, 0);
	sum = 0xffff - l4_sum(p, p->frame.bytes, p->frame.len);
	plain_put16(field, sum || p->shape.protocol == 6 ? sum : 0xffff);
}

bool unlike_make(struct unlike_packet *p, const struct unlike *from, unsigned to_port)
{
	const struct plain_shape *s = &p->shape;
	struct plain_frame *f = &p->frame;

	if (p->gso_size &&
	    (~from->set & (UNLIKE_CSUM | cutter(s)) || (needs_ecn(s) && !(from->set & UNLIKE_ECN))))
		return false;
	plain_make(f, s);
	frame_make(f->bytes, 12, from->port, to_port, 0);
	p->hdr = (struct virtio_net_hdr){ 0 };
	if (!(from->set & UNLIKE_CSUM)) {
		finish(p);
		return true;
	}
	p->hdr.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
	p->hdr.csum_start = (uint16_t)f->l4;
	p->hdr.csum_offset = (uint16_t)plain_field(s);
	if (!p->gso_size)
		return true;
	p->hdr.gso_type = s->protocol == 17 ? VIRTIO_NET_HDR_GSO_UDP_L4
			  : s->v6	    ? VIRTIO_NET_HDR_GSO_TCPV6
					    : VIRTIO_NET_HDR_GSO_TCPV4;
	if (needs_ecn(s))
		p->hdr.gso_type |= VIRTIO_NET_HDR_GSO_ECN;
	p->hdr.gso_size = (uint16_t)p->gso_size;
	p->hdr.hdr_len = (uint16_t)f->payload;
	return true;
}

int unlike_send(const struct unlike *from, const struct unlike_packet *p)
{
	struct driver_shape shape = { .n = 2, .len = { from->d->hdr_len } };

	if (from->set & UNLIKE_INDIRECT) {
		shape = (struct driver_shape){ .n = 19,
					       .indirect = true,
					       .len = { from->d->hdr_len, p->frame.payload } };
		for (unsigned i = 2; i < shape.n; i++)
			shape.len[i] = 4096;
	}
	return driver_send(from->d, 0, &p->hdr, p->frame.bytes, p->frame.len, &shape);
}

static bool receiver_takes(const struct unlike_packet *p, const struct unlike *to)
{
	unsigned wants = UNLIKE_GUEST_CSUM | cutter(&p->shape);

	if (needs_ecn(&p->shape))
		wants |= UNLIKE_ECN;
	return !(~to->set & wants);
}

/* Adds pieces, of `len` bytes with their header the last and `full` bytes all others. */
static void fill_ring(struct unlike_fate *fate, const struct unlike *to, uint32_t n, uint32_t full,
		      uint32_t len)
{
	const struct driver_config *c = &to->d->config;
	bool merge = to->set & UNLIKE_MERGE;
	uint32_t chains = merge ? (full + c->rx_buffer - 1) / c->rx_buffer : 1;
	uint32_t last = merge ? (len + c->rx_buffer - 1) / c->rx_buffer : 1;

	fate->too_big = full > c->rx_buffer * (merge ? c->ring_size : 1);
	if (fate->too_big)
		return;
	fate->pieces = n;
	fate->chains = (n - 1) * chains + last;
	fate->slowly = fate->chains > c->ring_size;
}

struct unlike_fate unlike_fate(const struct unlike_packet *p, const struct unlike *to)
{
	const struct driver_config *c = &to->d->config;
	uint32_t room = c->rx_buffer * (to->set & UNLIKE_MERGE ? c->ring_size : 1);
	uint32_t need = to->d->hdr_len + p->frame.len, size = p->gso_size;
	struct unlike_fate fate = { .how = UNLIKE_PASSED };

	if (p->hdr.gso_type && (need > room || !receiver_takes(p, to))) {
		uint32_t head = to->d->hdr_len + p->frame.payload, payload = p->shape.payload;
		uint32_t n = payload ? (payload + size - 1) / size : 1;

		fate.how = to->set & UNLIKE_GUEST_CSUM ? UNLIKE_CUT : UNLIKE_CUT_FINISHED;
		fill_ring(&fate, to, n, head + MIN(size, payload), head + payload - (n - 1) * size);
		return fate;
	}
	if (p->hdr.flags && !(to->set & UNLIKE_GUEST_CSUM))
		fate.how = UNLIKE_FINISHED;
	fill_ring(&fate, to, 1, need, need);
	return fate;
}

#define WRONG(...) (snprintf(wrong, UNLIKE_TEXT, __VA_ARGS__), false)

/* After a look for what might have come before it: has the switch given a frame up? */
static bool given_up(struct unlike *to)
{
	bool any = rig_dropped(to->rig, to->port, "full") > to->full;

	to->full += any;
	return any;
}

/* The next frame; none (of length 0) if it was given up and all that was there is taken. */
static bool wait_frame(struct unlike *to, struct unlike_fate *fate, uint8_t *got,
		       struct driver_frame *f, char wrong[UNLIKE_TEXT])
{
	uint64_t begin = clock_ns(), waited = 0;

	f->len = 0;
	while (waited < PATIENCE_MS * 1000000ull) {
		int rc = driver_receive(to->d, 0, got, FRAME_ROOM, f);

		if (rc < 0)
			return WRONG("the switch %s", driver_broken(to->d));
		if (rc || fate->full)
			return true;
		sched_yield();
		waited = clock_ns() - begin;
		fate->full = fate->slowly && waited > ASK_MS * 1000000ull && given_up(to);
	}
	return WRONG("nothing arrives");
}

/* The virtio-net header that piece has to have. */
static struct virtio_net_hdr expected_hdr(const struct unlike_packet *p, enum unlike_how how)
{
	struct virtio_net_hdr hdr = p->hdr;

	if (how == UNLIKE_PASSED)
		return hdr;
	if (how != UNLIKE_CUT)
		return (struct virtio_net_hdr){ 0 };
	hdr.gso_type = 0;
	hdr.gso_size = hdr.hdr_len = 0;
	return hdr;
}

static bool check_csum(const struct unlike_packet *p, const uint8_t *got, uint32_t len, bool left,
		       char wrong[UNLIKE_TEXT])
{
	const struct plain_frame *f = &p->frame;
	uint32_t field = plain_get16(got + f->l4 + plain_field(&p->shape));
	uint32_t seed = plain_pseudo(f->src, f->dst, p->shape.v6, p->shape.protocol, len - f->l4);

	if (left && field != seed)
		return WRONG("checksum begun with %#x, not %#x", field, seed);
	if (!left && l4_sum(p, got, len) != 0xffff)
		return WRONG("wrong checksum %#x", field);
	if (!left && p->shape.protocol == 17 && !field)
		return WRONG("the checksum says that there is none");
	if (!p->shape.v6 && plain_sum(0, got + f->l3, 20 + p->shape.ip_options) != 0xffff)
		return WRONG("wrong IP checksum");
	return true;
}

static bool check_piece(const struct unlike *to, const struct unlike_packet *p,
			const struct unlike_fate *fate, uint32_t i, const uint8_t *got,
			const struct driver_frame *f, char wrong[UNLIKE_TEXT])
{
	static uint8_t expected[PLAIN_FRAME_MAX];
	struct virtio_net_hdr hdr = expected_hdr(p, fate->how);
	uint32_t field = p->frame.l4 + plain_field(&p->shape), len = p->frame.len;
	uint32_t room = to->d->config.rx_buffer, size = p->gso_size;
	bool cut = fate->how == UNLIKE_CUT || fate->how == UNLIKE_CUT_FINISHED;

	if (cut)
		len = plain_cut(&p->frame, &p->shape, i, i * size,
				MIN(size, p->shape.payload - i * size), expected);
	else
		memcpy(expected, p->frame.bytes, len);
	if (f->len != len || f->used_len != len + to->d->hdr_len)
		return WRONG("%u bytes (used: %llu), not %u", f->len,
			     (unsigned long long)f->used_len, len);
	if (to->set & UNLIKE_MERGE && f->buffers != (len + to->d->hdr_len + room - 1) / room)
		return WRONG("in %u buffers", f->buffers);
	if (memcmp(&f->hdr.hdr, &hdr, sizeof(hdr)))
		return WRONG("header: flags %u, GSO %u of %u, checksum at %u+%u", f->hdr.hdr.flags,
			     f->hdr.hdr.gso_type, f->hdr.hdr.gso_size, f->hdr.hdr.csum_start,
			     f->hdr.hdr.csum_offset);
	memcpy(expected + field, got + field, 2);
	for (uint32_t at = 0; at < len; at++) {
		if (got[at] != expected[at])
			return WRONG("byte %u is %#x, not %#x", at, got[at], expected[at]);
	}
	return check_csum(p, got, len, hdr.flags, wrong);
}

static void describe(const struct unlike_packet *p, const struct unlike_fate *fate, uint32_t i,
		     char wrong[UNLIKE_TEXT])
{
	size_t used = strlen(wrong);

	snprintf(wrong + used, UNLIKE_TEXT - used,
		 "; frame %u of %u for IPv%u, %s, %u tags, options %u and '%s', %u bytes, %u of "
		 "payload, GSO %u of %u",
		 i + 1, fate->pieces, p->shape.v6 ? 6 : 4, p->shape.protocol == 6 ? "TCP" : "UDP",
		 p->shape.tags, p->shape.ip_options, p->shape.extensions ? p->shape.extensions : "",
		 p->frame.len, p->shape.payload, p->hdr.gso_type, p->gso_size);
}

bool unlike_receive(struct unlike *to, const struct unlike_packet *p, struct unlike_fate *ret,
		    char wrong[UNLIKE_TEXT])
{
	static uint8_t got[FRAME_ROOM];
	struct unlike_fate fate = unlike_fate(p, to);
	struct driver_frame f;

	for (uint32_t i = 0; i < fate.pieces; i++) {
		bool fine = wait_frame(to, &fate, got, &f, wrong);

		if (fine && !f.len) {
			fate.pieces = i;
		} else if (!fine || !check_piece(to, p, &fate, i, got, &f, wrong)) {
			describe(p, &fate, i, wrong);
			return false;
		}
		if (fate.slowly)
			driver_post(to->d, 0);
	}
	*ret = fate;
	return true;
}

/* A size of packets. */
struct size {
	uint32_t mss;	/* 0: not to be cut; 1: as much as makes IP packets of 1500 bytes */
	uint32_t times; /* so many times that of payload... */
	int plus;	/* ...and that much more; */
	uint32_t len;	/* or the length of the frame; MAX: the longest that IP has */
	bool few;
};

#define LONGEST UINT32_MAX

static const struct size sizes[] = {
	{ .len = 59 },
	{ .len = 60, .few = true },
	{ .len = 61 },
	{ .len = 127 },
	{ .len = 128 },
	{ .len = 129, .few = true },
	{ .len = 130 },
	{ .len = 1513 },
	{ .len = 1514, .few = true },
	{ .len = 1515 },
	{ .len = 9013 },
	{ .len = 9014 },
	{ .len = 9015 },
	{ .mss = 1, .times = 0, .plus = 0 },
	{ .mss = 1, .times = 1, .plus = -1 },
	{ .mss = 1, .times = 1, .plus = 0 },
	{ .mss = 1, .times = 1, .plus = 1, .few = true },
	{ .mss = 1, .times = 2, .plus = -1 },
	{ .mss = 1, .times = 2, .plus = 0 },
	{ .mss = 1, .times = 2, .plus = 1 },
	{ .mss = 1, .len = 9013 },
	{ .mss = 1, .len = 9014 },
	{ .mss = 1, .len = 9015 },
	{ .mss = 1, .len = 65534 },
	{ .mss = 1, .len = 65535, .few = true },
	{ .mss = 1, .len = 65536 },
	{ .mss = 1, .len = LONGEST },
	{ .mss = 535, .len = 9014 },
	{ .mss = 536, .len = LONGEST },
	{ .mss = 8948, .len = 9014 },
	{ .mss = 8948, .len = 65535 },
};

/* Numbered from 0; false behind the last. */
static bool shape_of(unsigned i, struct plain_shape *ret)
{
	static const char *const extensions[] = { "", "", "", "hd", "R" };
	static const uint8_t options[] = { 0, 0, 0, 8, 40 };
	static const uint8_t flags[] = { PLAIN_PSH, PLAIN_CWR | PLAIN_PSH, PLAIN_FIN | PLAIN_PSH, 0,
					 PLAIN_CWR | PLAIN_ECE };
	unsigned wrap = i / 4;

	if (wrap == ARRAY_SIZE(options))
		return false;
	*ret = (struct plain_shape){
		.v6 = i & 1,
		.protocol = i & 2 ? 17 : 6,
		.tags = wrap < 3 ? wrap : 0,
		.extensions = extensions[wrap],
		.tcp_options = 12,
	};
	ret->ip_options = ret->v6 ? 0 : options[wrap];
	ret->flags = flags[(i + wrap) % ARRAY_SIZE(flags)];
	return true;
}

/* Fills in p->shape and p->gso_size for packet `i`; false if no packet has that size. */
static bool packet_of(unsigned i, struct unlike_packet *p)
{
	const struct size *size = &sizes[i % ARRAY_SIZE(sizes)];
	struct plain_shape *s = &p->shape;
	uint32_t head, len = size->len;

	s->payload = 0;
	s->seed = i + 1;
	plain_make(&p->frame, s);
	head = p->frame.payload;
	p->gso_size = size->mss == 1 ? 1500 - (head - p->frame.l3) : size->mss;
	if (len == LONGEST)
		len = 65535 + p->frame.l3;
	if (!len)
		len = head + p->gso_size * size->times + (uint32_t)size->plus;
	s->payload = len - head;
	return len >= head;
}

/* What is counted since `before`, once the switch holds nothing back any more: chains of held
 * frames are returned. */
static struct rig_counters settled(struct rig *rig, const struct unlike *from,
				   const struct unlike *to, const struct rig_counters *before)
{
	struct rig_counters n;

	for (unsigned i = 0; i < PATIENCE_MS; i++, usleep(1000)) {
		n = rig_counters(rig, from->port, to->port);
		n.sent -= before->sent;
		n.delivered -= before->delivered;
		n.segments -= before->segments;
		n.dropped -= before->dropped;
		if (n.sent == n.delivered + n.dropped)
			break;
	}
	return n;
}

/*
 * Whatever was sent before has been counted by now: one that is too big may have been given up as
 * `full`, waiting to be looked at while the ring had no buffer, and is not to be taken for the
 * next.
 */
static void begin_slowly(const struct unlike *from, struct unlike *to,
			 const struct rig_counters *before)
{
	settled(to->rig, from, to, before);
	to->full = rig_dropped(to->rig, to->port, "full");
}

/* Sends a few packets from number *i on at once, as many as there is room for at either end. */
static unsigned send_burst(const struct unlike *from, struct unlike *to, bool few,
			   const struct rig_counters *before, unsigned *i,
			   struct unlike_packet *burst)
{
	uint32_t chains = 0;
	unsigned n = 0;

	for (; n < BURST; ++*i) {
		struct unlike_packet *p = &burst[n];
		struct unlike_fate fate;

		if (!shape_of(*i / ARRAY_SIZE(sizes), &p->shape))
			break;
		if ((few && !sizes[*i % ARRAY_SIZE(sizes)].few) || !packet_of(*i, p) ||
		    !unlike_make(p, from, to->port))
			continue;
		fate = unlike_fate(p, to);
		if (fate.slowly && *i % SLOW_SHARE)
			continue;
		chains += fate.chains;
		if (fate.slowly && !n)
			begin_slowly(from, to, before);
		if ((n && chains > to->d->config.ring_size) || unlike_send(from, p))
			break;
		n++;
	}
	driver_flush(from->d, DRIVER_TX(0));
	return n;
}

static void add_fate(struct unlike_tally *tally, const struct unlike_fate *fate)
{
	tally->sent++;
	tally->too_big += fate->too_big;
	tally->full += fate->full;
	tally->packets[fate->how] += !fate->too_big && !fate->full;
	tally->frames[fate->how] += fate->pieces;
}

static bool run_bursts(const struct unlike *from, struct unlike *to, bool few,
		       const struct rig_counters *before, struct unlike_tally *tally,
		       char wrong[UNLIKE_TEXT])
{
	static struct unlike_packet burst[BURST];
	struct unlike_fate fate;
	unsigned n, i = 0;

	for (;;) {
		n = send_burst(from, to, few, before, &i, burst);
		if (!n)
			break;
		for (unsigned k = 0; k < n; k++) {
			if (!unlike_receive(to, &burst[k], &fate, wrong))
				return false;
			add_fate(tally, &fate);
		}
		driver_post(to->d, 0);
		if (!script_wait_idle(&from->d->ring[DRIVER_TX(0)], PATIENCE_MS))
			return WRONG("chains are not returned");
	}
	if (ring_pending(&to->d->ring[DRIVER_RX(0)]))
		return WRONG("more arrives than was sent");
	return true;
}

static bool same(const char *what, uint64_t is, uint64_t expected, char wrong[UNLIKE_TEXT])
{
	return is == expected || WRONG("%s: %llu counted, %llu expected", what,
				       (unsigned long long)is, (unsigned long long)expected);
}

bool unlike_run(struct rig *rig, const struct unlike *from, struct unlike *to, bool few,
		struct unlike_tally *tally, char wrong[UNLIKE_TEXT])
{
	struct rig_counters before = rig_counters(rig, from->port, to->port), n;
	struct unlike_tally t = { .sent = 0 };

	if (!run_bursts(from, to, few, &before, &t, wrong))
		return false;
	n = settled(rig, from, to, &before);
	for (unsigned i = 0; i < UNLIKE_HOWS; i++) {
		tally->packets[i] += t.packets[i];
		tally->frames[i] += t.frames[i];
	}
	tally->sent += t.sent;
	tally->too_big += t.too_big;
	tally->full += t.full;
	return same("sent", n.sent, t.sent, wrong) &&
	       same("delivered", n.delivered, t.sent - t.too_big - t.full, wrong) &&
	       same("segments", n.segments, t.frames[UNLIKE_CUT] + t.frames[UNLIKE_CUT_FINISHED],
		    wrong) &&
	       same("dropped", n.dropped, t.too_big + t.full, wrong);
}

void unlike_meet(struct rig *rig, struct unlike d[2], unsigned a, unsigned b,
		 const struct driver_config *like_b)
{
	unlike_open(rig, 0, a, NULL, &d[0]);
	unlike_open(rig, 1, b, like_b, &d[1]);
	assert_passes(d[0].d, d[1].d);
}

void unlike_part(struct unlike d[2])
{
	assert_passes(d[0].d, d[1].d);
	driver_close(d[0].d);
	driver_close(d[1].d);
}

void unlike_make_tcp(struct unlike_packet *p, const struct unlike *from, uint32_t payload,
		     uint32_t gso_size, uint32_t seed)
{
	p->shape = (struct plain_shape){ .protocol = 6, .payload = payload, .seed = seed };
	p->gso_size = gso_size;
	assert_true(unlike_make(p, from, 1));
}

void unlike_expect(struct unlike *to, const struct unlike_packet *p)
{
	struct unlike_fate fate;
	char wrong[UNLIKE_TEXT];

	if (!unlike_receive(to, p, &fate, wrong))
		fail_msg("%s", wrong);
	assert_false(fate.full);
}
