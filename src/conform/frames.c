// SPDX-License-Identifier: Apache-2.0
#include "conform/cases.h"

/* Two drivers and traffic between them. */
static int run(struct kit *k, const struct driver_config *from, const struct driver_config *to,
	       struct kit_traffic *traffic)
{
	struct kit_traffic t = *traffic, opened;
	int rc = kit_open_both(k, from, to, &opened);

	if (rc)
		return rc;
	t.from = opened.from;
	t.to = opened.to;
	rc = kit_traffic(k, &t);
	*traffic = t;
	return rc;
}

int case_frames(struct kit *k)
{
	struct kit_traffic t = { .count = 500 };

	return run(k, NULL, NULL, &t);
}

/* 2.7.4.1, 2.8.5: nothing may be assumed about how a buffer is cut. */
/* Clauses: 2.7.4.1a, 2.8.5a */
int case_pieces(struct kit *k)
{
	const struct driver_shape shapes[] = {
		{ .n = 2, .len = { 12 } },
		{ .n = 3, .len = { 5, 7 } },
		{ .n = 14, .len = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 } },
		{ .n = 4, .len = { 12, 14, 1 } },
		{ .n = 3, .len = { 26, 60 } },
	};
	struct kit_traffic t;
	int rc = kit_open_both(k, NULL, NULL, &t);

	for (unsigned i = 0; i < ARRAY_SIZE(shapes) && !rc; i++) {
		t.shape = &shapes[i];
		t.count = 20;
		rc = kit_traffic(k, &t);
	}
	return rc;
}

/* 2.7.5.3, 2.8.7: in both directions. */
/* Clauses: 2.8.7a */
/* Features: indirect_desc */
int case_indirect(struct kit *k)
{
	const struct driver_shape one = { .n = 1, .indirect = true };
	const struct driver_shape many = { .n = 4, .indirect = true, .len = { 12, 20, 100 } };
	struct driver_config to = { .rx_shape = many };
	struct kit_traffic t;
	int rc = kit_open_both(k, NULL, &to, &t);

	for (unsigned i = 0; i < 2 && !rc; i++) {
		t.shape = i ? &many : &one;
		rc = kit_traffic(k, &t);
	}
	return rc;
}

/* A chain of the sender's made by hand: must arrive once it is complete. */
static int arrives(struct kit *k, struct kit_traffic *t, const struct script_desc *descs,
		   unsigned n, uint32_t len)
{
	static uint8_t got[KIT_FRAME_ROOM];
	struct driver_frame f;

	for (unsigned i = 0; i < 5; i++) {
		struct driver_ring *tx = &t->from->ring[DRIVER_TX(0)];
		int rc = kit_drain(k, t->from, DRIVER_TX(0));

		if (rc)
			return rc;
		if (script_chain(tx, descs, n, 0, NULL, NULL) < 0)
			return kit_fail(k, "no room in the ring");
		ring_publish(tx);
		ring_kick(tx);
		rc = kit_drain(k, t->from, DRIVER_TX(0));
		if (rc)
			return rc;
		rc = kit_receive(k, t, got, &f, 3 * KIT_QUIET_MS);
		if (rc < 0)
			return -rc;
		if (rc == 1)
			return f.len == len ? CONFORM_PASSED
					    : kit_fail(k, "%u bytes arrived as %u", len, f.len);
	}
	return kit_fail(k, "the frame does not arrive");
}

/* A header and a frame in guest memory, and a table for two descriptors; where, in *ret. */
struct scene {
	uint64_t frame, table;
	struct vring_desc *entries;
};

static int open_scene(struct kit *k, uint32_t len, struct kit_traffic *t, struct scene *ret)
{
	const struct driver_config c = { .extra = 8192 };
	int rc = kit_open_both(k, &c, NULL, t);
	uint8_t *at;

	if (rc)
		return rc;
	at = driver_memory_alloc(&t->from->mem, 4096, 64);
	ret->entries = driver_memory_alloc(&t->from->mem, 64, 64);
	kit_frame(k, at + t->from->hdr_len, len, 0, 1);
	ret->frame = driver_memory_gpa(&t->from->mem, at);
	ret->table = driver_memory_gpa(&t->from->mem, ret->entries);
	return CONFORM_PASSED;
}

/* 2.7.5.3.2: the device handles descriptors in the ring, and one with a table at their end. */
/* Clauses: 2.7.5.3.2b */
int case_indirect_behind_direct(struct kit *k)
{
	struct kit_traffic t;
	struct scene s;
	int rc = open_scene(k, 200, &t, &s);

	if (rc)
		return rc;
	{
		const struct script_desc table[] = {
			{ s.frame + 12, 100, VRING_DESC_F_NEXT, SCRIPT_NEXT },
			{ s.frame + 112, 100, 0, 0 },
		};
		const struct script_desc ring[] = {
			{ s.frame, 12, VRING_DESC_F_NEXT, SCRIPT_NEXT },
			{ s.table, sizeof(struct vring_desc) * 2, VRING_DESC_F_INDIRECT, 0 },
		};

		script_table(&t.from->ring[DRIVER_TX(0)], s.entries, table, 2);
		return arrives(k, &t, ring, 2, 200);
	}
}

/* 2.7.5.3.2: the write flag of the descriptor that names a table means nothing. */
/* Clauses: 2.7.5.3.2a */
int case_indirect_write_flag(struct kit *k)
{
	struct kit_traffic t;
	struct scene s;
	int rc = open_scene(k, 200, &t, &s);

	if (rc)
		return rc;
	{
		const struct script_desc table[] = { { s.frame, 212, 0, 0 } };
		const struct script_desc ring[] = { { s.table, sizeof(struct vring_desc),
						      VRING_DESC_F_INDIRECT | VRING_DESC_F_WRITE,
						      0 } };

		script_table(&t.from->ring[DRIVER_TX(0)], s.entries, table, 1);
		return arrives(k, &t, ring, 1, 200);
	}
}

/* Regions that are neighbours for the guest and not for the back-end. */
/* Clauses: memory-a */
int case_across_regions(struct kit *k)
{
	const struct driver_config c = { .regions = 8, .gpa = 0x100000000 };
	struct kit_traffic t = { .count = 600, .len_min = 1000, .len_max = 1514 };

	return run(k, &c, &c, &t);
}

/* 5.1.6.4.1: as many buffers as it takes, told in the first one's header. */
/* Clauses: 5.1.6.3.2a, 5.1.6.4.1c */
/* Features: mrg_rxbuf */
int case_mergeable(struct kit *k)
{
	const struct driver_config small = { .rx_buffer = 256 };
	struct kit_traffic t = { .len_min = 60, .len_max = 1514 };
	int rc = run(k, NULL, &small, &t);

	if (!rc && t.buffers <= 2 * 50)
		return kit_fail(k, "50 frames of up to 1514 bytes took %u buffers of 256",
				t.buffers);
	return rc;
}

/* 5.1.6.4.1: without mergeable buffers num_buffers is 1; the driver looks. */
/* Clauses: 5.1.6.3.2b, 5.1.6.4.1a */
int case_not_mergeable(struct kit *k)
{
	const struct driver_config c = { .features = driver_features_default() &
						     ~BIT(VIRTIO_NET_F_MRG_RXBUF) };
	struct kit_traffic t = { .count = 100 };

	return run(k, NULL, &c, &t);
}

/* 5.1.6.4.1: nobody has agreed to checksums or segments. */
/* Clauses: 5.1.6.4.1d, 5.1.6.4.1f */
int case_header_clean(struct kit *k)
{
	struct kit_traffic t = { .count = 1 };
	int rc = run(k, NULL, NULL, &t);

	if (!rc && (t.last.hdr.flags || t.last.hdr.gso_type))
		return kit_fail(k, "flags %#x and gso_type %#x", t.last.hdr.flags,
				t.last.hdr.gso_type);
	return rc;
}

int case_rx_by_call(struct kit *k)
{
	struct kit_traffic t;
	int rc = kit_open_both(k, NULL, NULL, &t);

	t.by_call = true;
	return rc ? rc : kit_traffic(k, &t);
}

static uint32_t sum16(const uint8_t *at, unsigned n, uint32_t sum)
{
	for (unsigned i = 0; i < n; i += 2)
		sum += (uint32_t)at[i] << 8 | (i + 1 < n ? at[i + 1] : 0);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static void put16(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

/* A TCP segment whose checksum is that of the pseudo header alone. */
static void make_tcp(struct kit *k, uint8_t *frame, uint32_t len)
{
	static const uint8_t ip[20] = { 0x45, 0, 0,  0, 0, 0, 0x40, 0, 64, 6,
					0,    0, 10, 0, 0, 1, 10,   0, 0,  2 };
	static const uint8_t tcp[20] = { 0x30, 0x39, 0x14, 0x51, 0, 0, 0, 1, 0, 0,
					 0,    1,    0x50, 0x10, 2, 0, 0, 0, 0, 0 };

	kit_frame(k, frame, len, 0, 1);
	put16(frame + 12, 0x0800);
	memcpy(frame + 14, ip, sizeof(ip));
	put16(frame + 16, len - 14);
	put16(frame + 24, ~sum16(frame + 14, 20, 0));
	memcpy(frame + 34, tcp, sizeof(tcp));
	put16(frame + 50, sum16(frame + 26, 8, 6 + len - 34));
}

/* Sends it and takes what comes of it: 1, 0 (nothing), or a verdict's negative. */
static int exchange(struct kit *k, struct kit_traffic *t, const struct virtio_net_hdr *hdr,
		    const uint8_t *frame, uint32_t len, uint8_t *got, struct driver_frame *f)
{
	uint64_t end = 10;
	int rc;

	if (driver_send(t->from, 0, hdr, frame, len, NULL))
		return -kit_fail(k, "a frame of %u bytes could not be sent", len);
	driver_flush(t->from, DRIVER_TX(0));
	while (end--) {
		rc = driver_receive(t->to, 0, got, KIT_FRAME_ROOM, f);
		if (rc < 0)
			return -kit_fail(k, "the receiver's ring: %s", driver_broken(t->to));
		if (rc && f->len >= 54 && got[5] == 2 && got[12] == 8 && !got[13])
			return 1;
		if (!rc)
			ring_wait(&t->to->ring[DRIVER_RX(0)], KIT_QUIET_MS);
	}
	return 0;
}

static uint64_t sends(uint64_t bits)
{
	return driver_features_default() | bits;
}

/* 5.1.6.4.1: who has not agreed to unfinished checksums gets none. */
/* Clauses: 5.1.6.4.1d, 5.1.6.4.1e */
/* Features: csum */
int case_csum(struct kit *k)
{
	const struct driver_config from = { .features = sends(BIT(VIRTIO_NET_F_CSUM)) };
	const struct virtio_net_hdr hdr = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
					    .csum_start = 34,
					    .csum_offset = 16 };
	static uint8_t frame[1000], got[KIT_FRAME_ROOM];
	struct kit_traffic t;
	struct driver_frame f;
	int rc = kit_open_both(k, &from, NULL, &t);

	if (rc)
		return rc;
	make_tcp(k, frame, sizeof(frame));
	rc = exchange(k, &t, &hdr, frame, sizeof(frame), got, &f);
	if (rc < 0)
		return -rc;
	if (!rc)
		return kit_fail(k, "the frame does not arrive");
	if (f.hdr.hdr.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM)
		return kit_fail(k, "the receiver is to finish a checksum");
	if (sum16(got + 34, f.len - 34, sum16(got + 26, 8, 6 + f.len - 34)) != 0xffff)
		return kit_fail(k, "the checksum that arrives is wrong");
	return CONFORM_PASSED;
}

/* 5.1.6.4.1: who has not agreed to large frames gets none; whether in segments or not at all. */
/* Clauses: 5.1.6.4.1f */
/* Features: host_tso4 */
int case_gso(struct kit *k)
{
	const struct driver_config from = { .features = sends(BIT(VIRTIO_NET_F_CSUM) |
							      BIT(VIRTIO_NET_F_HOST_TSO4)),
					    .tx_buffer = 16384 };
	const struct virtio_net_hdr hdr = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
					    .gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
					    .gso_size = 1000,
					    .hdr_len = 54,
					    .csum_start = 34,
					    .csum_offset = 16 };
	static uint8_t frame[8000], got[KIT_FRAME_ROOM];
	struct kit_traffic t;
	struct driver_frame f;
	int rc = kit_open_both(k, &from, NULL, &t);

	if (rc)
		return rc;
	make_tcp(k, frame, sizeof(frame));
	rc = exchange(k, &t, &hdr, frame, sizeof(frame), got, &f);
	if (rc < 0)
		return -rc;
	if (rc && (f.hdr.hdr.gso_type || f.hdr.hdr.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM))
		return kit_fail(k, "gso_type %#x and flags %#x", f.hdr.hdr.gso_type,
				f.hdr.hdr.flags);
	if (rc && f.len > 1054)
		return kit_fail(k, "a frame of %u bytes, to be cut at 1054", f.len);
	return CONFORM_PASSED;
}
