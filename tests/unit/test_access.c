// SPDX-License-Identifier: Apache-2.0
/*
 * What the device does to a guest's memory and in which order, access by access, on both ring
 * formats. The device has a mapping of its own, which is watched; the test looks and writes through
 * another, and may do so between any two of the device's accesses.
 */
#include "device_rig.h"
#include "plain_net.h"
#include "steps.h"

#define RX    0u
#define TX    1u
#define AVAIL BIT(VRING_PACKED_DESC_F_AVAIL)
#define USED  BIT(VRING_PACKED_DESC_F_USED)
#define NEXT  VRING_DESC_F_NEXT
#define WRITE VRING_DESC_F_WRITE

#define BUFFERS	    0x80000u /* where they are in memory, */
#define BUFFERS_END 0xa0000u
#define BUFFER	    0x1000u /* one of each page */
#define FRAME	    100u
#define POISON	    0xa5
#define CONTENT	    7

static bool packed;
static struct batch batch;
static struct virtq_calls calls;

static uint64_t format(void)
{
	return MODERN | (packed ? BIT(VIRTIO_F_RING_PACKED) : 0);
}

/* The test's own view of memory, and where the parts of a ring are in it. */
static uint32_t offset(uint64_t uva)
{
	return (uint32_t)(uva - MEMORY_UVA);
}

static uint8_t *mine(uint32_t at)
{
	return rig->base + at;
}

static uint32_t descriptors(unsigned ring)
{
	return offset(ring_addr(ring).desc);
}

static struct vring_avail *avail(unsigned ring)
{
	return memory_at(rig->base, ring_addr(ring).avail);
}

static struct vring_used *used(unsigned ring)
{
	return memory_at(rig->base, ring_addr(ring).used);
}

static uint32_t buffer(unsigned i)
{
	return BUFFERS + i * BUFFER;
}

/* Begins a ring, where everything is unlike what is awaited in it. */
static struct virtq *begin(unsigned ring, uint64_t features)
{
	memset(mine(descriptors(ring)), 0, STEPS_PAGE);
	for (enum step step = FEATURES; step <= ENABLE; step++) {
		if (step != BASE)
			take(step, ring, format() | features, 0);
		else
			assert_int_equal(device_set_base(&rig->dev, ring, packed ? 0x80008000 : 0,
							 &rig->err),
					 0);
	}
	memset(mine(BUFFERS), POISON, BUFFERS_END - BUFFERS);
	return &rig->dev.ring[ring]->vq;
}

/* Descriptor `slot` of a ring; of a packed one available if `flags` say so. */
static void put(unsigned ring, unsigned slot, uint16_t id, uint32_t at, uint32_t len,
		unsigned flags)
{
	struct vring_packed_desc packed_desc = { MEMORY_GPA + at, len, id, (uint16_t)flags };
	struct vring_desc split_desc = { MEMORY_GPA + at, len, flags & (NEXT | WRITE),
					 (uint16_t)(slot + 1) };

	memcpy(mine(descriptors(ring) + slot * 16),
	       packed ? (void *)&packed_desc : (void *)&split_desc, 16);
}

/* The heads of a split ring's chains; a packed ring's are available already. */
static void offer(unsigned ring, const uint16_t *heads, unsigned n)
{
	memcpy(avail(ring)->ring, heads, n * sizeof(*heads));
	if (!packed)
		avail(ring)->idx = (uint16_t)n;
}

/* A frame that says which one it is, behind a header that asks for nothing. */
static void put_frame(unsigned i)
{
	memset(mine(buffer(i)), 0, VNET_HDR_LEN);
	memset(mine(buffer(i)) + VNET_HDR_LEN, (int)i + 1, FRAME);
}

static void watch(const struct virtq *vq, void (*look)(struct step_seen))
{
	uint32_t run = MEMORY_SIZE;

	if (!steps_begin((void *)guest_translate(vq->mem, MEMORY_GPA, MEMORY_SIZE, &run),
			 MEMORY_SIZE, look))
		skip();
}

/* Nobody is called here. */
static void forget_calls(struct virtq *vq)
{
	vq->call_pending = false;
	calls.first = NULL;
}

/* Takes what is there into `batch`, and returns it; no more to be done if the test fails. */
static bool collect(struct virtq *vq)
{
	bool taken = virtq_collect(vq, &batch);

	if (taken)
		virtq_complete(vq, &batch, &calls);
	return taken;
}

/* A batch of `n` frames of `len` bytes from private memory. */
static frame_set make_batch(unsigned n, uint32_t len)
{
	static uint8_t bytes[4096];

	memset(bytes, CONTENT, sizeof(bytes));
	memset(&batch, 0, sizeof(batch));
	for (batch.n = 0; batch.n < n; batch.n++) {
		uint32_t head_len = MIN(len, SNAPSHOT_COPIED - (uint32_t)VNET_HDR_LEN);

		batch.frame[batch.n] = (struct frame){ .head = batch.snapshot[batch.n],
						       .len = len,
						       .head_len = (uint16_t)head_len,
						       .span = (uint16_t)batch.n,
						       .spans = len > head_len,
						       .plain = true };
		memset(batch.snapshot[batch.n], CONTENT, head_len);
		batch.span[batch.n] = (struct span){ (uintptr_t)bytes, len - head_len };
	}
	return (frame_set)BIT(n) - 1;
}

/* What the ring says of the `i`-th chain of one descriptor that came back. */
static void assert_used(const uint8_t *memory, unsigned ring, unsigned i, unsigned slot,
			uint16_t id, uint32_t len)
{
	if (packed) {
		struct vring_packed_desc d;

		memcpy(&d, memory + descriptors(ring) + slot * 16, sizeof(d));
		assert_int_equal(d.id, id);
		assert_int_equal(d.flags, AVAIL | USED | (len ? WRITE : 0));
		assert_true(!len || d.len == len);
	} else {
		struct vring_used_elem e;

		memcpy(&e, memory + offset(ring_addr(ring).used) + 4 + i * sizeof(e), sizeof(e));
		assert_int_equal(e.id, id);
		assert_int_equal(e.len, len);
	}
}

/* When the driver is looked at for what is available it makes it so; before, all was different. */
static bool looked;

static void make_available(struct step_seen step)
{
	static const uint16_t heads[] = { 0, 1, 2, 3 };
	uint32_t at = packed ? descriptors(TX) + 8 : offset(ring_addr(TX).avail) + 2;

	if (looked || step.at != at)
		return;
	looked = true;
	for (unsigned i = 0; i < 4; i++) {
		put_frame(i);
		put(TX, i, (uint16_t)i, buffer(i), VNET_HDR_LEN + FRAME, AVAIL);
	}
	offer(TX, heads, 4);
}

/* Clauses: 2.7.13.3a, 2.8.15b */
static void what_was_made_available_is_seen_as_it_was_then(void **state)
{
	struct virtq *vq = begin(TX, 0);
	bool taken;

	memset(avail(TX)->ring, POISON, RING_SIZE * 2);
	for (unsigned i = 0; i < 4; i++)
		put(TX, i, 9, buffer(20), FRAME, 0);
	looked = false;
	watch(vq, make_available);
	taken = collect(vq);
	steps_end();
	forget_calls(vq);
	assert_true(taken);
	assert_int_equal(batch.n, 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(batch.chain[i].head, i);
		assert_int_equal(batch.frame[i].len, FRAME);
		assert_int_equal(batch.frame[i].head[FRAME - 1], i + 1);
	}
}

/* DPDK 134228ca39: what was checked was read again, and had become something else. */
static void each_part_of_a_descriptor_is_read_once(void **state)
{
	static const uint16_t heads[] = { 0, 1, 2, 3 };
	struct virtq *tx = begin(TX, 0), *rx = begin(RX, 0);
	bool taken;

	for (unsigned i = 0; i < 4; i++) {
		put_frame(i);
		put(TX, i, (uint16_t)i, buffer(i), VNET_HDR_LEN + FRAME, AVAIL);
		put(RX, i, (uint16_t)i, buffer(4 + i), BUFFER, AVAIL | WRITE);
	}
	offer(TX, heads, 4);
	offer(RX, heads, 4);
	watch(tx, NULL);
	taken = collect(tx);
	virtq_deliver(rx, &batch, 15, &calls);
	steps_end();
	forget_calls(tx);
	forget_calls(rx);
	assert_true(taken);
	assert_int_equal(rx->stats.frames, 4);
	for (unsigned ring = RX; ring <= TX; ring++) {
		uint32_t entries = offset(ring_addr(ring).avail) + 4;

		for (unsigned at = 0; at < 4 * 16; at += 8) {
			uint32_t from = descriptors(ring) + at;

			assert_int_equal(steps_within(from, from + 8, false), 1);
		}
		assert_int_equal(steps_within(entries, entries + 8, false), packed ? 0 : 4);
	}
}

/* All is as it would be, but that it is not available. */
/* Clauses: 2.8.15b */
static void what_is_not_available_is_left_alone(void **state)
{
	static const unsigned flags[] = { 0, USED, AVAIL | USED };
	const unsigned kinds = packed ? ARRAY_SIZE(flags) : 1;

	for (unsigned kind = 0; kind < kinds; kind++) {
		static const uint16_t heads[RING_SIZE];
		struct virtq *tx = begin(TX, 0), *rx = begin(RX, 0);
		frame_set set = make_batch(1, FRAME), refused;
		unsigned looks = 0;
		bool taken;

		for (unsigned i = 0; i < RING_SIZE; i++) {
			put_frame(i);
			put(TX, i, 0, buffer(i), VNET_HDR_LEN + FRAME, flags[kind]);
			put(RX, i, 0, buffer(i), BUFFER, flags[kind] | WRITE);
		}
		memcpy(avail(TX)->ring, heads, sizeof(heads));
		memcpy(avail(RX)->ring, heads, sizeof(heads));
		watch(tx, NULL);
		refused = virtq_deliver(rx, &batch, set, &calls);
		taken = collect(tx);
		steps_end();
		forget_calls(tx);
		forget_calls(rx);
		assert_int_equal(refused, set);
		assert_false(taken);
		/* But for where it would say so: the second half of a descriptor, or an index. */
		for (unsigned i = 0; i < 2; i++) {
			uint32_t at = packed ? descriptors(i) + 8 : offset(ring_addr(i).avail) + 2;

			looks += steps_within(at, at + 1, false);
		}
		assert_int_equal(looks, steps.n);
		device_reset(&rig->dev);
	}
}

/* Memory as it was when what was used became visible. */
static uint8_t published[MEMORY_SIZE];
static uint32_t published_by;

static void keep_what_is_published(struct step_seen step)
{
	if (step.write && step.at == published_by)
		memcpy(published, rig->base, MEMORY_SIZE);
}

static void watch_publication(const struct virtq *vq, unsigned ring)
{
	memset(published, 0, sizeof(published));
	published_by = packed ? descriptors(ring) + 8 : offset(ring_addr(ring).used) + 2;
	watch(vq, keep_what_is_published);
}

/* A packed list becomes visible by its first descriptor, which is all of one store. */
/* Clauses: 2.7.8.2a */
static void what_comes_back_is_complete_when_it_is_seen(void **state)
{
	static const uint16_t heads[] = { 0, 1, 2, 3 };
	struct virtq *vq = begin(TX, 0);
	bool taken;

	for (unsigned i = 0; i < 4; i++) {
		put_frame(i);
		put(TX, i, (uint16_t)i, buffer(i), VNET_HDR_LEN + FRAME, AVAIL);
	}
	offer(TX, heads, 4);
	memset(used(TX)->ring, POISON, RING_SIZE * 8);
	watch_publication(vq, TX);
	taken = collect(vq);
	steps_end();
	forget_calls(vq);
	assert_true(taken);
	for (unsigned i = packed; i < 4; i++)
		assert_used(published, TX, i, i, (uint16_t)i, 0);
	for (unsigned i = 0; i < 4; i++)
		assert_used(rig->base, TX, i, i, (uint16_t)i, 0);
	assert_int_equal(steps_within(published_by, published_by + 1, true), 1);
}

/* Four frames, each in `each` buffers of `room` bytes. */
static void assert_complete_when_seen(unsigned each, uint32_t room)
{
	uint16_t heads[8];
	struct virtq *vq = begin(RX, BIT(VIRTIO_NET_F_MRG_RXBUF));
	frame_set refused, set = make_batch(4, 300);

	for (unsigned i = 0; i < 4 * each; i++) {
		heads[i] = (uint16_t)i;
		put(RX, i, (uint16_t)i, buffer(i), room, AVAIL | WRITE);
	}
	offer(RX, heads, 4 * each);
	memset(used(RX)->ring, POISON, RING_SIZE * 8);
	watch_publication(vq, RX);
	refused = virtq_deliver(vq, &batch, set, &calls);
	steps_end();
	forget_calls(vq);
	assert_int_equal(refused, 0);
	assert_int_equal(steps_within(published_by, published_by + 1, true), 1);
	for (unsigned i = 0; i < 4 * each; i++) {
		bool first = i % each == 0, last = i % each == each - 1;
		uint32_t len = last ? VNET_HDR_LEN + 300 - (each - 1) * room : room;
		const uint8_t *got = published + buffer(i);

		if (i || !packed)
			assert_used(published, RX, i, i, (uint16_t)i, len);
		assert_used(rig->base, RX, i, i, (uint16_t)i, len);
		if (first)
			assert_int_equal(got[VNET_HDR_LEN - 2], each);
		assert_int_equal(got[first ? VNET_HDR_LEN : 0], CONTENT);
		assert_int_equal(got[len - 1], CONTENT);
		assert_int_equal(got[len], POISON);
	}
	device_reset(&rig->dev);
}

/* Clauses: 2.7.8.2a */
static void what_is_delivered_is_there_when_it_is_seen(void **state)
{
	assert_complete_when_seen(1, 400);
	assert_complete_when_seen(2, 200);
}

/* Ids of no order, one chain of two pieces and one that is malformed. */
/* Clauses: 2.8.12b, 2.8.15c */
static void what_comes_back_does_so_in_its_order_and_once(void **state)
{
	static const uint16_t slots[] = { 0, 1, 2, 4, 5, 6 }, ids[] = { 5, 2, 9, 0, 7, 1 };
	static const uint16_t heads[] = { 3, 8, 6, 9, 0, 5 };
	const unsigned n = ARRAY_SIZE(slots);
	uint32_t from = packed ? descriptors(TX) : offset(ring_addr(TX).used) + 4;
	uint32_t each = packed ? 16 : 8, to = from + RING_SIZE * each;
	struct virtq *vq = begin(TX, 0);
	unsigned frames = 0, writes;

	for (unsigned i = 0; i < n; i++) {
		unsigned slot = packed ? slots[i] : heads[i];
		bool pieces = i == 2;

		put_frame(i);
		put(TX, slot, ids[i], i == 4 ? MEMORY_SIZE : buffer(i), VNET_HDR_LEN + FRAME,
		    AVAIL | (pieces ? NEXT : 0));
		if (pieces)
			put(TX, slot + 1, ids[i], buffer(i) + VNET_HDR_LEN, FRAME, AVAIL);
	}
	offer(TX, heads, n);
	watch(vq, NULL);
	while (collect(vq))
		frames += batch.n;
	virtq_calls_look(&calls);
	steps_end();
	assert_int_equal(frames, n - 1);
	for (unsigned i = 0; i < n; i++) {
		uint32_t at = from + each * (packed ? slots[i] : i);

		assert_used(rig->base, TX, i, slots[i], packed ? ids[i] : heads[i], 0);
		assert_int_equal(steps_within(at, at + each, true), 1);
	}
	writes = steps_within(from, to, true);
	assert_int_equal(writes, n);
}

/* The ways in which a frame comes to a driver: `f` shall be delivered into `n` buffers of `len`. */
static void assert_nothing_read(uint64_t features, unsigned n, uint32_t len, unsigned want)
{
	uint16_t heads[RING_SIZE];
	struct virtq *vq = begin(RX, features);
	frame_set refused;

	for (unsigned i = 0; i < n; i++) {
		heads[i] = (uint16_t)i;
		put(RX, i, (uint16_t)i, buffer(i), len, AVAIL | WRITE);
	}
	offer(RX, heads, n);
	watch(vq, NULL);
	refused = virtq_deliver(vq, &batch, 1, &calls);
	steps_end();
	forget_calls(vq);
	assert_int_equal(refused, 0);
	assert_int_equal(vq->avail_next, want);
	assert_true(steps.n < STEPS_MAX);
	assert_true(steps_within(BUFFERS, BUFFERS_END, true) >= want);
	assert_int_equal(steps_within(BUFFERS, BUFFERS_END, false), 0);
	device_reset(&rig->dev);
}

/* A TCP frame that is to be cut into segments, and its checksum to be finished. */
static void make_large(uint32_t payload, uint16_t size)
{
	static struct plain_frame p;
	struct frame *f = &batch.frame[0];

	plain_make(&p, &(struct plain_shape){ .protocol = 6, .payload = payload });
	make_batch(1, p.len);
	f->plain = false;
	f->head_len = 54;
	f->hdr = (struct virtio_net_hdr){ .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
					  .gso_type = size ? VIRTIO_NET_HDR_GSO_TCPV4 : 0,
					  .gso_size = size,
					  .hdr_len = 54,
					  .csum_start = (uint16_t)p.l4,
					  .csum_offset = 16 };
	memcpy(f->head, p.bytes, 54);
	batch.span[0] = (struct span){ (uintptr_t)p.bytes + 54, p.len - 54 };
}

/* Clauses: 2.7.5.1b */
static void nothing_is_read_where_a_frame_is_delivered(void **state)
{
	static const uint64_t mergeable = BIT(VIRTIO_NET_F_MRG_RXBUF);

	make_batch(1, 1000);
	assert_nothing_read(0, 1, BUFFER, 1);
	assert_nothing_read(mergeable, 4, 300, 4);
	make_large(1000, 0);
	assert_nothing_read(0, 1, BUFFER, 1);
	assert_nothing_read(mergeable, 5, 300, 4);
	make_large(1000, 400);
	assert_nothing_read(0, 3, BUFFER, 3);
	assert_nothing_read(mergeable, 6, 300, 5);
}

/* Clauses: 2.7.5.1b */
static void nothing_is_read_from_what_a_sender_lets_be_written(void **state)
{
	static const uint16_t heads[] = { 0, 2 };
	struct virtq *vq = begin(TX, 0);
	bool taken;

	put_frame(0);
	put(TX, 0, 0, buffer(0), VNET_HDR_LEN + FRAME, AVAIL | NEXT);
	put(TX, 1, 0, buffer(2), FRAME, AVAIL | WRITE);
	put(TX, 2, 2, buffer(2), VNET_HDR_LEN + FRAME, AVAIL | WRITE);
	offer(TX, heads, 2);
	watch(vq, NULL);
	taken = collect(vq);
	steps_end();
	forget_calls(vq);
	assert_true(taken);
	assert_int_equal(batch.n, 0);
	assert_int_equal(batch.chains, 2);
	assert_int_equal(steps_within(buffer(2), BUFFERS_END, false), 0);
	assert_int_equal(steps_within(BUFFERS, BUFFERS_END, true), 0);
}

/* When the second chain is looked at, the first has been; then all go on, for ever. */
static void make_endless(struct step_seen step)
{
	if (step.at == descriptors(TX) + 16 + 8)
		put(TX, 0, 0, buffer(0), VNET_HDR_LEN + FRAME, AVAIL | NEXT);
}

/* Where the next one begins cannot be known; what was there before it can. */
/* Clauses: 2.8.6b */
static void what_comes_before_a_chain_without_an_end_is_taken(void **state)
{
	struct virtq *vq = begin(TX, 0);
	bool taken;

	put_frame(0);
	for (unsigned i = 0; i < RING_SIZE; i++)
		put(TX, i, (uint16_t)i, buffer(i), VNET_HDR_LEN + FRAME, AVAIL | (i ? NEXT : 0));
	watch(vq, make_endless);
	taken = collect(vq);
	steps_end();
	forget_calls(vq);
	assert_true(taken);
	assert_int_equal(virtq_state(vq), VIRTQ_BROKEN);
	assert_int_equal(batch.n, 1);
	assert_int_equal(vq->stats.frames, 1);
	assert_int_equal(vq->stats.dropped[DROP_QUEUE_DISABLED], 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_was_made_available_is_seen_as_it_was_then),
		TEST(each_part_of_a_descriptor_is_read_once),
		TEST(what_is_not_available_is_left_alone),
		TEST(what_comes_back_is_complete_when_it_is_seen),
		TEST(what_is_delivered_is_there_when_it_is_seen),
		TEST(what_comes_back_does_so_in_its_order_and_once),
		TEST(nothing_is_read_where_a_frame_is_delivered),
		TEST(nothing_is_read_from_what_a_sender_lets_be_written),
		TEST(what_comes_before_a_chain_without_an_end_is_taken), /* packed only */
	};

	packed = getenv("RINGWAY_TEST_PACKED") != NULL;
	return _cmocka_run_group_tests("access", tests, ARRAY_SIZE(tests) - !packed, rig_setup,
				       rig_teardown);
}
