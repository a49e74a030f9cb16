// SPDX-License-Identifier: Apache-2.0
/* A receiver that agrees to something else while a frame is half delivered to it. */
#include "device_rig.h"
#include "plain_net.h"

#define BUFFER	 40000u /* room for the whole frame */
#define BUFFERS	 0x10000u
#define SIZE	 1000u
#define SEGMENTS 20u
#define HEADERS	 54u

/* Makes `n` of the ring's buffers available. */
static void post(unsigned n)
{
	struct vring_desc *desc = memory_at(rig->base, ring_addr(0).desc);
	struct vring_avail *avail = memory_at(rig->base, ring_addr(0).avail);

	for (unsigned i = 0; i < n; i++) {
		uint16_t at = (uint16_t)(avail->idx + i) % RING_SIZE;

		desc[at] = (struct vring_desc){ .addr = MEMORY_GPA + BUFFERS + at * BUFFER,
						.len = BUFFER,
						.flags = VRING_DESC_F_WRITE };
		avail->ring[at] = at;
	}
	avail->idx = (uint16_t)(avail->idx + n);
}

static void assert_segment(const struct plain_frame *p, unsigned i, bool finished)
{
	struct vring_used *used = memory_at(rig->base, ring_addr(0).used);
	const uint8_t *got = rig->base + BUFFERS + i % RING_SIZE * BUFFER;
	struct virtio_net_hdr hdr;

	assert_int_equal(used->ring[i % RING_SIZE].len, VNET_HDR_LEN + HEADERS + SIZE);
	memcpy(&hdr, got, sizeof(hdr));
	assert_int_equal(hdr.gso_type, 0);
	assert_int_equal(hdr.flags, finished ? 0 : VIRTIO_NET_HDR_F_NEEDS_CSUM);
	assert_memory_equal(got + VNET_HDR_LEN + HEADERS, p->bytes + HEADERS + i * SIZE, SIZE);
}

static void make(struct batch *b, struct plain_frame *p)
{
	struct frame *f = &b->frame[0];

	plain_make(p, &(struct plain_shape){ .protocol = 6, .payload = SEGMENTS * SIZE });
	memset(b, 0, sizeof(*b));
	*f = (struct frame){ .head = b->snapshot[0], .len = p->len, .head_len = 200, .spans = 1 };
	f->hdr = (struct virtio_net_hdr){ .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
					  .gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
					  .gso_size = SIZE,
					  .hdr_len = HEADERS,
					  .csum_start = (uint16_t)p->l4,
					  .csum_offset = 16 };
	memcpy(f->head, p->bytes, f->head_len);
	b->span[0] = (struct span){ (uintptr_t)p->bytes + f->head_len, p->len - f->head_len };
	b->n = 1;
}

/* From no segment at all to `features`: what it has in part goes on in segments, none twice. */
static void half_a_frame_goes_on_as(uint64_t features)
{
	static struct plain_frame p;
	static struct batch b;
	struct virtq_calls calls = { 0 };
	struct virtq *vq;
	uint32_t base;

	make(&b, &p);
	start_ring(0, MODERN);
	vq = &rig->dev.ring[0]->vq;
	post(RING_SIZE);
	assert_int_equal(virtq_deliver(vq, &b, 1, &calls), 1);
	assert_int_equal(b.frame[0].segments, RING_SIZE);
	assert_int_equal(b.segments, RING_SIZE);
	assert_int_equal(b.summed, RING_SIZE * SIZE);
	for (unsigned i = 0; i < RING_SIZE; i++)
		assert_segment(&p, i, true);
	assert_int_equal(device_get_base(&rig->dev, 0, &base, &rig->err), 0);
	for (enum step step = FEATURES; step <= ENABLE; step++)
		take(step, 0, MODERN | features, (uint16_t)base);
	post(RING_SIZE);
	assert_int_equal(virtq_deliver(vq, &b, 1, &calls), 0);
	for (unsigned i = RING_SIZE; i < SEGMENTS; i++)
		assert_segment(&p, i, !features);
	assert_int_equal(vq->used_next, SEGMENTS);
	assert_int_equal(b.frame[0].segments, 0);
	assert_int_equal(b.segments, SEGMENTS);
	assert_int_equal(b.summed, (features ? RING_SIZE : SEGMENTS) * SIZE);
	vq->call_pending = false;
}

static void half_a_frame_goes_on_as_it_began(void **state)
{
	half_a_frame_goes_on_as(0);
}

static void half_a_frame_goes_on_with_its_checksums_left(void **state)
{
	half_a_frame_goes_on_as(BIT(VIRTIO_NET_F_GUEST_CSUM));
}

static void half_a_frame_does_not_come_whole(void **state)
{
	half_a_frame_goes_on_as(BIT(VIRTIO_NET_F_GUEST_CSUM) | BIT(VIRTIO_NET_F_GUEST_TSO4));
}

/* A ring of mergeable buffers: two for the frame, and one to spare. */
static struct virtq *start_small(const struct plain_frame *p)
{
	struct vring_desc *desc = memory_at(rig->base, ring_addr(0).desc);

	start_ring(0, MODERN | BIT(VIRTIO_NET_F_MRG_RXBUF));
	post(3);
	for (unsigned i = 0; i < 3; i++)
		desc[i].len = p->len * 2 / 3;
	return &rig->dev.ring[0]->vq;
}

/* How many buffers there may be is not forgotten when the ring goes on with something changed. */
static void who_waits_for_buffers_still_does_when_the_mtu_changes(void **state)
{
	static struct plain_frame p;
	static struct batch b;
	struct vhost_device_options options = rig->dev.options;
	struct virtq_calls calls = { 0 };
	struct virtq *vq;

	make(&b, &p);
	b.frame[0].plain = true;
	vq = start_small(&p);
	assert_int_equal(virtq_deliver(vq, &b, 1, &calls), 0);
	assert_int_equal(vq->used_next, 2);
	assert_int_equal(virtq_deliver(vq, &b, 1, &calls), 1);
	options.mtu = 65000;
	device_set_options(&rig->dev, &options);
	assert_int_equal(virtq_deliver(vq, &b, 1, &calls), 1);
	assert_int_equal(vq->stats.dropped[DROP_TOO_BIG], 0);
	vq->call_pending = false;
}

#define PIECES 3u

/* One chain of this many descriptors in ring `index`, of buffers of `len` bytes. */
static void post_pieces(unsigned index, uint16_t flags, uint32_t len)
{
	struct vring_desc *desc = memory_at(rig->base, ring_addr(index).desc);
	struct vring_avail *avail = memory_at(rig->base, ring_addr(index).avail);

	for (unsigned i = 0; i < PIECES; i++)
		desc[i] = (struct vring_desc){ .addr = MEMORY_GPA + BUFFERS + i * BUFFER,
					       .len = len,
					       .flags = flags | VRING_DESC_F_NEXT,
					       .next = (uint16_t)(i + 1) };
	desc[PIECES - 1].flags = flags;
	avail->ring[avail->idx % RING_SIZE] = 0;
	avail->idx++;
}

/* So that their senders pay for it (policy/share), also for what comes to nothing. */
static void pieces_are_counted_that_were_walked(void **state)
{
	static struct plain_frame p;
	static struct batch b;
	struct virtq_calls calls = { 0 };
	struct virtq *tx, *rx;

	start_ring(1, MODERN);
	tx = &rig->dev.ring[1]->vq;
	for (uint32_t len = 0; len <= 100; len += 100) {
		post_pieces(1, 0, len);
		assert_true(virtq_collect(tx, &b));
		virtq_complete(tx, &b, &calls);
		assert_int_equal(b.n, !!len);
		assert_int_equal(b.pieces, PIECES);
	}
	make(&b, &p);
	b.frame[0].plain = true;
	start_ring(0, MODERN);
	rx = &rig->dev.ring[0]->vq;
	post_pieces(0, VRING_DESC_F_WRITE, BUFFER);
	assert_int_equal(virtq_deliver(rx, &b, 1, &calls), 0);
	assert_int_equal(b.pieces, PIECES);
	post_pieces(0, VRING_DESC_F_WRITE, 100);
	assert_int_equal(virtq_deliver(rx, &b, 1, &calls), 0);
	assert_int_equal(rx->stats.dropped[DROP_TOO_BIG], 1);
	assert_int_equal(b.pieces, 2 * PIECES);
	tx->call_pending = rx->call_pending = false;
}

/* Its sender pays for a checksum when it was made, not each time that there is no room for it. */
static void what_waits_for_buffers_costs_nothing(void **state)
{
	static struct plain_frame p;
	static struct batch b;
	struct virtq_calls calls = { 0 };
	struct virtq *vq;

	make(&b, &p);
	b.frame[0].hdr.gso_type = VIRTIO_NET_HDR_GSO_NONE;
	vq = start_small(&p);
	assert_int_equal(virtq_deliver(vq, &b, 1, &calls), 0);
	assert_int_equal(vq->used_next, 2);
	assert_int_equal(b.summed, p.len);
	assert_int_equal(virtq_deliver(vq, &b, 1, &calls), 1);
	assert_int_equal(b.summed, p.len);
	vq->call_pending = false;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(half_a_frame_goes_on_as_it_began),
		TEST(half_a_frame_goes_on_with_its_checksums_left),
		TEST(half_a_frame_does_not_come_whole),
		TEST(who_waits_for_buffers_still_does_when_the_mtu_changes),
		TEST(pieces_are_counted_that_were_walked),
		TEST(what_waits_for_buffers_costs_nothing),
	};

	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
