// SPDX-License-Identifier: Apache-2.0
/*
 * From one guest's tx ring to another's rx ring, in either format, with everything in both rings
 * made up: whatever is there, only the guests' memory is read and written, each chain is returned
 * and counted once, and it ends.
 *
 * Each part of a ring and each region is an allocation of its own, which the address sanitizer
 * guards; a guest's descriptors may name its own rings. Input: struct input, then the bytes of the
 * tx ring's three parts, of the rx ring's, and of the memory that both have their buffers in.
 */
#include <linux/virtio_config.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "virtq/notify.h"
#include "virtq/virtq.h"

#define PAGE	     0x1000u
#define DATA	     0x4000u /* guest-physical; two regions, one behind the other, then a hole */
#define LARGE	     0x10000u
#define LARGE_LEN    0x18000u
#define SIZE_MAX_LOG 6

struct input {
	uint8_t shape[2];    /* of tx and of rx: enum shape */
	uint8_t size[2];     /* of the rings */
	uint16_t base[2];    /* where they begin */
	uint16_t offload[2]; /* features, see offload_bits */
	uint8_t mtu;	     /* of the receiver */
	uint8_t looks;	     /* kicks on, kicks off, a look for calls; while it goes on */
} __attribute__((packed));

enum shape {
	PACKED = 1,
	INDIRECT = 2,
	EVENT_IDX = 4,
	MERGEABLE = 8,
	LEGACY = 16,
	DISABLED = 32, /* after it was enabled: it drains */
};

static const uint8_t offload_bits[] = {
	VIRTIO_NET_F_CSUM,	 VIRTIO_NET_F_GUEST_CSUM, VIRTIO_NET_F_GUEST_TSO4,
	VIRTIO_NET_F_GUEST_TSO6, VIRTIO_NET_F_GUEST_ECN,  VIRTIO_NET_F_HOST_TSO4,
	VIRTIO_NET_F_HOST_TSO6,	 VIRTIO_NET_F_HOST_ECN,	  54 /* GUEST_USO4 */,
	55 /* GUEST_USO6 */,	 56 /* HOST_USO */,
};

enum { DESC, AVAIL, USED, DATA_FIRST, DATA_SECOND, DATA_LARGE, AREAS };

struct guest {
	struct guest_memory *mem;
	uint8_t *area[AREAS];
	uint32_t len[AREAS];
	struct virtq vq;
};

static struct guest guest[2];
static struct batch batch;
static struct virtq_callee callee;
static int call; /* of all rings */

static struct guest_memory *memory(void)
{
	static const uint64_t at[AREAS] = { PAGE, 2 * PAGE, 3 * PAGE, DATA, DATA + PAGE, LARGE };
	struct guest_mapping *mapping[AREAS];
	struct guest_memory *mem = NULL;
	struct error err;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	fuzz_check(fd >= 0 && !ftruncate(fd, LARGE_LEN));
	for (unsigned i = 0; i < AREAS; i++) {
		struct guest_region_desc desc = { .gpa = at[i], .uva = at[i], .size = PAGE };

		if (i == DATA_LARGE)
			desc.size = LARGE_LEN;
		fuzz_check(!guest_mapping_create(fd, &desc, &mapping[i], &err));
	}
	fuzz_check(!guest_memory_create(mapping, AREAS, &mem, &err));
	for (unsigned i = 0; i < AREAS; i++)
		guest_mapping_put(mapping[i]);
	close(fd);
	return mem;
}

static uint64_t features_of(uint8_t shape, uint16_t offload)
{
	uint64_t features = shape & LEGACY ? 0 : BIT(VIRTIO_F_VERSION_1);

	features |= shape & PACKED ? BIT(VIRTIO_F_RING_PACKED) | BIT(VIRTIO_F_VERSION_1) : 0;
	features |= shape & INDIRECT ? BIT(VIRTIO_RING_F_INDIRECT_DESC) : 0;
	features |= shape & EVENT_IDX ? BIT(VIRTIO_RING_F_EVENT_IDX) : 0;
	features |= shape & MERGEABLE ? BIT(VIRTIO_NET_F_MRG_RXBUF) : 0;
	for (unsigned i = 0; i < ARRAY_SIZE(offload_bits); i++)
		features |= offload >> i & 1 ? BIT(offload_bits[i]) : 0;
	return features;
}

/* Takes up to `n` bytes of the input; the rest of `to` is zeroes. */
static void fill(uint8_t *to, uint32_t n, const uint8_t **data, size_t *size)
{
	size_t some = MIN((size_t)n, *size);

	memset(to, 0, n);
	memcpy(to, *data, some);
	*data += some;
	*size -= some;
}

static void begin(struct guest *g, const struct input *in, unsigned i, const uint8_t **data,
		  size_t *size)
{
	bool packed = in->shape[i] & PACKED;
	uint16_t n =
		(uint16_t)(packed ? in->size[i] % 64u + 1 : 1u << in->size[i] % (SIZE_MAX_LOG + 1));
	struct virtq_setup setup = { .mem = g->mem,
				     .size = n,
				     .base = in->base[i],
				     .features = features_of(in->shape[i], in->offload[i]),
				     .mtu = i ? in->mtu * 32u : 0 };

	g->len[DESC] = n * 16u;
	g->len[AVAIL] = packed ? 4 : 6 + 2u * n;
	g->len[USED] = packed ? 4 : 6 + 8u * n;
	g->len[DATA_FIRST] = g->len[DATA_SECOND] = PAGE;
	g->len[DATA_LARGE] = LARGE_LEN;
	for (unsigned k = 0; k < AREAS; k++) {
		if (!g->area[k] || k <= USED)
			g->area[k] = malloc(g->len[k]);
		fuzz_check(g->area[k]);
		g->mem->region[k].host = (uintptr_t)g->area[k] - g->mem->region[k].gpa;
		g->mem->region[k].size = g->len[k];
		if (k <= USED)
			fill(g->area[k], g->len[k], data, size);
		else
			memset(g->area[k], 0, g->len[k]);
	}
	setup.addr = (struct virtq_addr){ (uintptr_t)g->area[DESC], (uintptr_t)g->area[AVAIL],
					  (uintptr_t)g->area[USED] };
	virtq_init(&g->vq, &callee);
	fuzz_check(!virtq_set_call(&g->vq, dup(call)));
	virtq_set_enabled(&g->vq, true);
	virtq_start(&g->vq, &setup);
	if (in->shape[i] & DISABLED)
		virtq_set_enabled(&g->vq, false);
}

static void end(struct guest *g)
{
	uint32_t base = virtq_stop(&g->vq);

	fuzz_check(!g->vq.packed || (base & 0x7fff) < g->vq.size);
	virtq_destroy(&g->vq);
	for (unsigned k = 0; k <= USED; k++)
		free(g->area[k]);
}

static frame_set all_frames(const struct batch *b)
{
	return (frame_set)((1ull << b->n) - 1);
}

static uint64_t all_dropped(const struct virtq *vq)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < DROP_COUNT; i++)
		n += vq->stats.dropped[i];
	return n;
}

static bool in_memory(const struct guest *g, uintptr_t at, uint64_t len)
{
	for (unsigned i = 0; i < AREAS; i++) {
		uint64_t offset = at - (uintptr_t)g->area[i];

		if (offset < g->len[i] && len <= g->len[i] - offset)
			return true;
	}
	return false;
}

static void check_batch(const struct guest *from, const struct batch *b)
{
	fuzz_check(b->n <= BATCH_FRAMES && b->chains <= BATCH_FRAMES && b->spans <= BATCH_SPANS);
	for (unsigned i = 0; i < b->n; i++) {
		const struct frame *f = &b->frame[i];
		uint64_t len = f->head_len;

		fuzz_check(f->head_len <= SNAPSHOT_ROOM - VNET_HDR_LEN);
		for (unsigned k = f->span; k < (unsigned)f->span + f->spans; k++) {
			fuzz_check(k < BATCH_SPANS);
			fuzz_check(!b->span[k].len ||
				   in_memory(from, b->span[k].at, b->span[k].len));
			len += b->span[k].len;
		}
		fuzz_check(len == f->len);
	}
}

static void look(const struct input *in, struct virtq_calls *calls)
{
	for (unsigned i = 0; i < 2; i++) {
		if (in->looks & 1)
			virtq_kicks_on(&guest[i].vq);
		if (in->looks & 2)
			virtq_kicks_off(&guest[i].vq);
		if (in->looks & 8)
			virtq_ready(&guest[i].vq);
	}
	if (in->looks & 4)
		virtq_calls_look(calls);
}

/* One batch from tx to rx; how many entries of the tx ring it took, 0: none are left. */
static unsigned turn(struct virtq_calls *calls)
{
	struct virtq *tx = &guest[0].vq, *rx = &guest[1].vq;
	uint64_t heads = tx->stats.dropped[DROP_CHAIN_HEAD], counted, done;
	frame_set refused;
	unsigned entries;

	counted = tx->stats.frames + all_dropped(tx);
	done = rx->stats.frames + all_dropped(rx);
	if (!virtq_collect(tx, &batch))
		return 0;
	check_batch(&guest[0], &batch);
	entries = batch.chains + (unsigned)(tx->stats.dropped[DROP_CHAIN_HEAD] - heads);
	fuzz_check(entries);
	fuzz_check(tx->stats.frames + all_dropped(tx) == counted + entries);
	refused = virtq_deliver(rx, &batch, all_frames(&batch), calls);
	fuzz_check(!(refused & ~all_frames(&batch)));
	fuzz_check(rx->stats.frames + all_dropped(rx) + (unsigned)__builtin_popcount(refused) ==
		   done + batch.n);
	virtq_complete(tx, &batch, calls);
	return entries;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct virtq_calls calls = { 0 };
	unsigned entries = 0, n;
	struct input in;

	if (size < sizeof(in))
		return 0;
	memcpy(&in, data, sizeof(in));
	data += sizeof(in);
	size -= sizeof(in);
	for (unsigned i = 0; i < 2; i++) {
		if (!guest[i].mem) {
			guest[i].mem = memory();
			call = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		}
		begin(&guest[i], &in, i, &data, &size);
	}
	for (unsigned i = 0; i < 2; i++)
		memcpy(guest[i].area[DATA_FIRST], data, MIN(size, (size_t)PAGE));
	while ((n = turn(&calls))) {
		entries += n;
		/* The driver makes no more available meanwhile. */
		fuzz_check(entries <= guest[0].vq.size);
		look(&in, &calls);
	}
	for (unsigned i = 0; i < 2; i++)
		end(&guest[i]);
	return 0;
}

/* Seeds: a few frames that a receiver can take, in each format, with tables and without. */

static uint8_t *put(uint8_t *at, const void *bytes, size_t n)
{
	memcpy(at, bytes, n);
	return at + n;
}

static uint8_t *put_ring(uint8_t *at, bool packed, bool write, bool table, unsigned n)
{
	const uint16_t direction = write ? VRING_DESC_F_WRITE : 0;
	const uint16_t tail[] = { 0, 0, 0, 0 };

	for (uint16_t i = 0; i < n; i++) {
		struct vring_desc d = { .addr = DATA + 0x100u, .len = write ? 1600 : 100 };
		uint16_t flags = table && !(i & 3) ? VRING_DESC_F_INDIRECT : direction;

		if (table && !(i & 3)) {
			d.addr = DATA;
			d.len = 32;
		} else if (i & 1 && i + 1u < n) {
			flags |= VRING_DESC_F_NEXT;
		} else if (i == n - 1) {
			d.addr = LARGE;
			d.len = LARGE_LEN - 0x8000;
		}
		d.flags = packed ? i : flags;
		d.next = packed ? flags | 1u << VRING_PACKED_DESC_F_AVAIL : (uint16_t)(i + 1);
		at = put(at, &d, sizeof(d));
	}
	if (packed)
		return put(put(at, tail, 4), tail, 4);
	at = put(at, tail, 2);
	at = put(at, &(uint16_t){ (uint16_t)n }, 2);
	for (uint16_t i = 0; i < n; i++)
		at = put(at, &i, 2);
	at = put(at, tail, 2);
	memset(at, 0, 6 + 8 * n);
	return at + 6 + 8 * n;
}

size_t fuzz_seed(unsigned i, uint8_t *data)
{
	const bool tx_packed = i & 1, rx_packed = i & 2, table = i & 4;
	const uint8_t more =
		(uint8_t)((i & 8 ? MERGEABLE | EVENT_IDX : 0) | (table ? INDIRECT : 0));
	const unsigned n = 8;
	struct input in = { .shape = { (uint8_t)(more | (tx_packed ? PACKED : 0)),
				       (uint8_t)(more | (rx_packed ? PACKED : 0)) },
			    .size = { tx_packed ? n - 1 : 3, rx_packed ? n - 1 : 3 },
			    .base = { tx_packed ? 0x8000 : 0, rx_packed ? 0x8000 : 0 },
			    .offload = { 0x7ff, i & 8 ? 0 : 0x7ff },
			    .looks = 15 };
	struct vring_desc desc[2] = { { .addr = DATA + 0x200, .len = 12 },
				      { .addr = DATA + PAGE - 50, .len = 100 } };
	struct virtio_net_hdr hdr = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
				      .gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
				      .gso_size = 1000,
				      .hdr_len = 54,
				      .csum_start = 34,
				      .csum_offset = 16 };
	static const uint8_t ip[] = { 8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6 };
	uint8_t *at = data, *area;

	if (i >= 16)
		return 0;
	if (!tx_packed)
		desc[0].flags = VRING_DESC_F_NEXT;
	desc[0].next = tx_packed ? 0 : 1;
	at = put(at, &in, sizeof(in));
	at = put_ring(at, tx_packed, false, table, n);
	at = put_ring(at, rx_packed, true, false, n);
	area = at;
	memset(area, 0, 0x300);
	put(area, desc, sizeof(desc));
	put(area + 0x100, &hdr, sizeof(hdr));
	put(area + 0x200, &hdr, sizeof(hdr));
	put(area + 0x100 + VNET_HDR_LEN + 12, ip, sizeof(ip));
	area[0x100 + VNET_HDR_LEN + 46] = 0x50;
	return (size_t)(area + 0x300 - data);
}
