// SPDX-License-Identifier: Apache-2.0
/*
 * What a guest sends reaches the host byte for byte, and back; what the host's kernel does not want
 * costs nobody anything. In a network namespace of its own, with a packet socket at the host's end
 * of the tap.
 */
#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "control/client.h"
#include "net/gso.h" /* constants that older kernel headers lack */
#include "unit/plain_net.h"

#define DEVICE	     "rwtest0"
#define TAP	     PORTS /* the tap's number among the switch's ports */
#define LARGEST	     (65535 + 14)
#define HOST_LARGEST 65535 /* that the kernel leaves unsegmented for a tap */
#define WAIT_MS	     5000

/* The host's end. */
static int host;

/* IPv6 would say things by itself. */
static void no_ipv6(void)
{
	int fd = open("/proc/sys/net/ipv6/conf/default/disable_ipv6", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	assert_int_equal(write(fd, "1", 1), 1);
	close(fd);
}

static int host_open(uint16_t ethertype)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ethertype),
				  .sll_ifindex = (int)if_nametoindex(DEVICE) };
	int on = 1, fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd >= 0 && !setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) &&
	    !bind(fd, (struct sockaddr *)&at, sizeof(at)))
		return fd;
	print_error("packet socket: %s\n", strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static int set_up(void **state)
{
	json_t *params = json_pack("{s:s, s:s, s:{s:s}}", "name", "host", "kind", "tap", "options",
				   "dev", DEVICE);
	struct error err = { "" };
	json_t *result;

	if (rig_setup(state))
		return -1;
	if (client_call(((struct rig *)*state)->control, "port.add", params, &result, &err)) {
		print_error("%s\n", err.text);
		return -1;
	}
	json_decref(result);
	host = host_open(ETHERTYPE_TEST);
	return host < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	close(host);
	return rig_teardown(state);
}

/* Takes what has reached the host; its length without header, or -1 after `timeout_ms`. */
static int host_receive(struct virtio_net_hdr *hdr, uint8_t *frame, size_t room, int timeout_ms)
{
	struct pollfd p = { .fd = host, .events = POLLIN };
	struct iovec iov[2] = { { hdr, sizeof(*hdr) }, { frame, room } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t n;

	if (poll(&p, 1, timeout_ms) <= 0)
		return -1;
	n = recvmsg(host, &m, 0);
	assert_true(n >= (ssize_t)sizeof(*hdr));
	return (int)(n - (ssize_t)sizeof(*hdr));
}

static void assert_host_gets(uint32_t len, uint32_t seed)
{
	static uint8_t got[FRAME_ROOM], expected[FRAME_ROOM];
	struct virtio_net_hdr hdr;

	frame_make(expected, len, 0, TAP, seed);
	assert_int_equal(host_receive(&hdr, got, sizeof(got), WAIT_MS), len);
	assert_memory_equal(got, expected, len);
	assert_int_equal(hdr.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM, 0);
	assert_int_equal(hdr.gso_type, 0);
}

static void host_send(const struct virtio_net_hdr *hdr, const uint8_t *frame, uint32_t len)
{
	static const struct virtio_net_hdr plain;
	struct iovec iov[2] = { { (void *)(hdr ? hdr : &plain), sizeof(plain) },
				{ (void *)frame, len } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };

	assert_int_equal(sendmsg(host, &m, 0), len + sizeof(plain));
}

/* Is the transport's checksum right? `p` has the same addresses and length. */
static void assert_sum(const struct plain_frame *p, const uint8_t *got)
{
	uint32_t len = p->len - p->l4;
	uint32_t seed = plain_pseudo(p->src, p->dst, p->bytes[p->l3] >> 4 == 6, 17, len);

	assert_int_equal(plain_sum(seed, got + p->l4, len), 0xffff);
}

static void assert_nothing_more(void)
{
	struct virtio_net_hdr hdr;
	uint8_t got[64];

	assert_int_equal(host_receive(&hdr, got, sizeof(got), 50), -1);
}

/* CVE-2024-41090, CVE-2024-41091: frames without a whole Ethernet header in the kernel. */
static void less_than_a_header_never_reaches_the_host(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL);
	uint8_t frame[FRAME_MIN];

	frame_make(frame, sizeof(frame), 0, TAP, 0);
	for (uint32_t len = 0; len < FRAME_MIN; len++)
		assert_int_equal(driver_send(a, 0, NULL, frame, len, NULL), 0);
	send_one(a, 0, TAP, FRAME_MIN, 1);
	assert_host_gets(FRAME_MIN, 1);
	assert_nothing_more();
	rig_assert_dropped(*state, 0, "frame_short", FRAME_MIN);
	driver_close(a);
}

static void every_length_reaches_the_host(void **state)
{
	static const struct driver_shape shapes[] = { { 0 }, { .n = 3, .len = { 12, 100 } } };
	static uint8_t frame[FRAME_ROOM];
	struct driver *a = rig_open(*state, 0, NULL);

	for (unsigned i = 0; i < ARRAY_SIZE(shapes); i++) {
		for (uint32_t len = FRAME_MIN; len <= 1514; len++) {
			driver_reclaim(a, 0);
			frame_make(frame, len, 0, TAP, len);
			assert_int_equal(driver_send(a, 0, NULL, frame, len, &shapes[i]), 0);
			driver_flush(a, DRIVER_TX(0));
			assert_host_gets(len, len);
		}
	}
	driver_close(a);
}

static void every_length_comes_from_the_host(void **state)
{
	static uint8_t frame[FRAME_ROOM];
	struct driver *a = rig_open(*state, 0, NULL);

	for (uint32_t len = FRAME_MIN; len <= 1514; len++) {
		frame_make(frame, len, TAP, 0, len);
		host_send(NULL, frame, len);
		assert_true(receive_one(a, TAP, 0, len, len, WAIT_MS));
	}
	driver_close(a);
}

/* More than a batch, read and written at once, in order. */
static void bursts_stay_in_order(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL);
	static uint8_t frame[2048];

	for (uint32_t i = 0; i < 200; i++) {
		frame_make(frame, 60 + i, 0, TAP, i);
		assert_int_equal(driver_send(a, 0, NULL, frame, 60 + i, NULL), 0);
	}
	driver_flush(a, DRIVER_TX(0));
	for (uint32_t i = 0; i < 200; i++)
		assert_host_gets(60 + i, i);
	for (uint32_t i = 0; i < 200; i++) {
		frame_make(frame, 60 + i, TAP, 0, i);
		host_send(NULL, frame, 60 + i);
	}
	for (uint32_t i = 0; i < 200; i++)
		assert_true(receive_one(a, TAP, 0, 60 + i, i, WAIT_MS));
	driver_close(a);
}

static void large_frames_pass_with_their_header(void **state)
{
	static const uint32_t lens[] = { 2000, 9014, HOST_LARGEST, LARGEST };
	static uint8_t frame[FRAME_ROOM], got[FRAME_ROOM];
	struct driver_config c = { .features = driver_features_default() | OFFLOADS,
				   .tx_buffer = LARGEST + 12 };
	struct driver *a = rig_open(*state, 0, &c);
	struct virtio_net_hdr hdr;
	struct driver_frame f;

	close(host);
	host = host_open(0x0800);
	assert_true(host >= 0);
	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		frame_make(frame, lens[i], 0, TAP, i);
		frame_add_tcp(frame, lens[i]);
		driver_reclaim(a, 0);
		assert_int_equal(driver_send(a, 0, &tso, frame, lens[i], NULL), 0);
		driver_flush(a, DRIVER_TX(0));
		assert_int_equal(host_receive(&hdr, got, sizeof(got), WAIT_MS), lens[i]);
		assert_memory_equal(got, frame, lens[i]);
		assert_int_equal(hdr.gso_type, tso.gso_type);
		assert_int_equal(hdr.gso_size, tso.gso_size);
		assert_true(hdr.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM);
		if (lens[i] > HOST_LARGEST)
			continue;
		frame_make(frame, lens[i], TAP, 0, i);
		frame_add_tcp(frame, lens[i]);
		host_send(&tso, frame, lens[i]);
		assert_int_equal(driver_receive_wait(a, 0, got, sizeof(got), &f, WAIT_MS), 1);
		assert_int_equal(f.len, lens[i]);
		assert_memory_equal(got, frame, lens[i]);
		assert_int_equal(f.hdr.hdr.gso_type, tso.gso_type);
		assert_int_equal(f.hdr.hdr.gso_size, tso.gso_size);
		assert_int_equal(f.hdr.hdr.csum_start, tso.csum_start);
	}
	driver_close(a);
}

/* As to every tap: a device's MTU is what the kernel may send through it, not what it takes. */
static void more_than_the_mtu_reaches_the_host(void **state)
{
	static const uint32_t lens[] = { 1515, 1519, 3000, 9014, HOST_LARGEST };
	static uint8_t frame[FRAME_ROOM];
	struct driver_config c = { .tx_buffer = LARGEST + 12 };
	struct driver *a = rig_open(*state, 0, &c);

	for (uint32_t i = 0; i < ARRAY_SIZE(lens); i++) {
		frame_make(frame, lens[i], 0, TAP, i);
		assert_int_equal(driver_send(a, 0, NULL, frame, lens[i], NULL), 0);
		driver_flush(a, DRIVER_TX(0));
		assert_host_gets(lens[i], i);
	}
	rig_assert_dropped(*state, TAP, "too_big", 0);
	driver_close(a);
}

/* Does the kernel know UDP segmentation on taps (Linux 6.2)? */
static bool has_uso(struct rig *rig)
{
	struct error err;
	json_t *answer, *names, *name;
	bool found = false;
	size_t i;

	assert_int_equal(client_call(rig->control, "show.port", NULL, &answer, &err), 0);
	names = json_object_get(json_array_get(json_object_get(answer, "ports"), TAP), "features");
	json_array_foreach (names, i, name)
		found |= !strcmp(json_string_value(name), "guest_uso4");
	json_decref(answer);
	return found;
}

/* One datagram, cut by nobody, arrives as it was sent. */
static void assert_whole_both_ways(struct driver *a, const struct plain_frame *p,
				   const struct virtio_net_hdr *hdr)
{
	static uint8_t got[FRAME_ROOM], frame[FRAME_ROOM];
	struct virtio_net_hdr is;
	struct driver_frame f;

	memcpy(frame, p->bytes, p->len);
	frame_make(frame, 12, 0, TAP, 0);
	assert_int_equal(driver_send(a, 0, hdr, frame, p->len, NULL), 0);
	driver_flush(a, DRIVER_TX(0));
	assert_int_equal(host_receive(&is, got, sizeof(got), WAIT_MS), p->len);
	assert_memory_equal(got, frame, p->len);
	assert_int_equal(is.gso_type, VIRTIO_NET_HDR_GSO_UDP_L4);
	assert_int_equal(is.gso_size, hdr->gso_size);
	frame_make(frame, 12, TAP, 0, 0);
	host_send(hdr, frame, p->len);
	assert_int_equal(driver_receive_wait(a, 0, got, sizeof(got), &f, WAIT_MS), 1);
	assert_int_equal(f.len, p->len);
	assert_memory_equal(got, frame, p->len);
	assert_int_equal(f.hdr.hdr.gso_type, VIRTIO_NET_HDR_GSO_UDP_L4);
	assert_int_equal(f.hdr.hdr.gso_size, hdr->gso_size);
}

/* From the host to who has not agreed to have it whole. */
static void assert_cut(struct driver *b, const struct plain_frame *p,
		       const struct plain_shape *shape, const struct virtio_net_hdr *hdr)
{
	static uint8_t got[FRAME_ROOM], frame[FRAME_ROOM], expected[FRAME_ROOM];
	struct driver_frame f;

	memcpy(frame, p->bytes, p->len);
	frame_make(frame, 12, TAP, 1, 0);
	host_send(hdr, frame, p->len);
	for (uint32_t i = 0, at = 0; at < shape->payload; i++, at += hdr->gso_size) {
		uint32_t part = MIN(shape->payload - at, (uint32_t)hdr->gso_size);
		uint32_t len = plain_cut(p, shape, i, at, part, expected);
		uint32_t seed = plain_pseudo(p->src, p->dst, shape->v6, 17, len - p->l4);

		assert_int_equal(driver_receive_wait(b, 0, got, sizeof(got), &f, WAIT_MS), 1);
		assert_int_equal(f.len, len);
		assert_memory_equal(got + p->payload, expected + p->payload, part);
		assert_int_equal(f.hdr.hdr.flags | f.hdr.hdr.gso_type, 0);
		assert_int_equal(plain_sum(seed, got + p->l4, len - p->l4), 0xffff);
		driver_post(b, 0);
	}
}

static void large_datagrams_pass_whole_or_in_segments(void **state)
{
	struct driver_config c = { .features = driver_features_default() | OFFLOADS |
					       BIT(VIRTIO_NET_F_HOST_USO) |
					       BIT(VIRTIO_NET_F_GUEST_USO4) |
					       BIT(VIRTIO_NET_F_GUEST_USO6),
				   .tx_buffer = LARGEST + 12 };
	struct driver *a, *b;
	static struct plain_frame p;

	if (!has_uso(*state)) {
		print_message("this kernel's taps do not know UDP segmentation (Linux 6.2)\n");
		skip();
	}
	a = rig_open(*state, 0, &c);
	b = rig_open(*state, 1, NULL);
	/* The switch shall know where all are, or large frames would be flooded. */
	assert_passes(a, b);
	frame_make(p.bytes, 60, TAP, 0, 3);
	host_send(NULL, p.bytes, 60);
	assert_true(receive_one(a, TAP, 0, 60, 3, WAIT_MS));
	for (unsigned v6 = 0; v6 < 2; v6++) {
		struct plain_shape shape = { .protocol = 17, .payload = 30000, .v6 = v6 };
		struct virtio_net_hdr hdr = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
					      .gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
					      .gso_size = 1400,
					      .csum_offset = 6 };

		close(host);
		host = host_open(v6 ? 0x86dd : 0x0800);
		plain_make(&p, &shape);
		hdr.csum_start = (uint16_t)p.l4;
		hdr.hdr_len = (uint16_t)p.payload;
		driver_reclaim(a, 0);
		assert_whole_both_ways(a, &p, &hdr);
		assert_cut(b, &p, &shape, &hdr);
	}
	driver_close(a);
	driver_close(b);
}

/* Whatever the kernel and the guest have agreed to: who reads DHCP sums it up. */
static void dhcp_is_finished_both_ways(void **state)
{
	struct driver_config c = { .features = driver_features_default() | OFFLOADS };
	struct driver *a = rig_open(*state, 0, &c);
	static struct plain_frame p;
	static uint8_t got[FRAME_ROOM];
	struct plain_shape shape = { .protocol = 17, .payload = 300 };
	struct virtio_net_hdr hdr = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_offset = 6 };
	struct driver_frame f;

	close(host);
	host = host_open(0x0800);
	plain_make(&p, &shape);
	hdr.csum_start = (uint16_t)p.l4;
	plain_put16(p.bytes + p.l4 + 2, 67);
	frame_make(p.bytes, 12, 0, TAP, 0);
	assert_int_equal(driver_send(a, 0, &hdr, p.bytes, p.len, NULL), 0);
	driver_flush(a, DRIVER_TX(0));
	assert_int_equal(host_receive(&hdr, got, sizeof(got), WAIT_MS), p.len);
	assert_int_equal(hdr.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM, 0);
	assert_sum(&p, got);
	hdr = (struct virtio_net_hdr){ .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
				       .csum_start = (uint16_t)p.l4,
				       .csum_offset = 6 };
	plain_put16(p.bytes + p.l4 + 2, 68);
	frame_make(p.bytes, 12, TAP, 0, 0);
	host_send(&hdr, p.bytes, p.len);
	assert_int_equal(driver_receive_wait(a, 0, got, sizeof(got), &f, WAIT_MS), 1);
	assert_int_equal(f.len, p.len);
	assert_int_equal(f.hdr.hdr.flags, 0);
	assert_sum(&p, got);
	driver_close(a);
}

/* cloud-hypervisor 8401 and others: one frame that the tap refuses ended the whole queue. */
static void a_frame_that_the_host_refuses_costs_itself_alone(void **state)
{
	/* For the switch the checksum is inside the frame; for the kernel the TCP header is not. */
	const struct virtio_net_hdr bad = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
					    .gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
					    .gso_size = 100,
					    .csum_start = 20,
					    .csum_offset = 14 };
	struct driver_config c = { .features = driver_features_default() | OFFLOADS };
	struct driver *a = rig_open(*state, 0, &c);
	uint8_t frame[64];

	for (unsigned i = 0; i < 30; i++) {
		frame_make(frame, 60, 0, TAP, i);
		assert_int_equal(driver_send(a, 0, NULL, frame, 60, NULL), 0);
		assert_int_equal(driver_send(a, 0, &bad, frame, 36, NULL), 0);
	}
	driver_flush(a, DRIVER_TX(0));
	for (unsigned i = 0; i < 30; i++)
		assert_host_gets(60, i);
	assert_nothing_more();
	rig_assert_dropped(*state, TAP, "host_refused", 30);
	rig_assert_dropped(*state, TAP, "full", 0);
	driver_close(a);
}

/* The kernel takes 1024 pieces at once. */
static void more_pieces_than_the_kernel_takes(void **state)
{
	enum { PIECES = 1500 };
	struct driver_config c = { .extra = 65536 };
	struct driver *a = rig_open(*state, 0, &c);
	struct vring_desc *table = driver_memory_alloc(&a->mem, PIECES * sizeof(*table), 16);
	uint8_t *bytes = driver_memory_alloc(&a->mem, 12 + PIECES, 64);
	struct script_desc descs[PIECES], chain = { .flags = VRING_DESC_F_INDIRECT };
	struct driver_done done;

	assert_non_null(table);
	assert_non_null(bytes);
	frame_make(bytes + 12, PIECES - 12, 0, TAP, 1);
	for (unsigned n = 1000; n <= PIECES; n += 500) {
		for (unsigned i = 0; i < n; i++)
			descs[i] = (struct script_desc){ driver_memory_gpa(&a->mem, bytes + i), 1,
							 i + 1 < n ? VRING_DESC_F_NEXT : 0,
							 SCRIPT_NEXT };
		script_table(&a->ring[DRIVER_TX(0)], table, descs, n);
		chain.addr = driver_memory_gpa(&a->mem, table);
		chain.len = n * sizeof(*table);
		assert_true(script_chain(&a->ring[DRIVER_TX(0)], &chain, 1, 0, NULL, NULL) >= 0);
		driver_flush(a, DRIVER_TX(0));
		assert_true(script_wait_idle(&a->ring[DRIVER_TX(0)], WAIT_MS));
		assert_int_equal(ring_take(&a->ring[DRIVER_TX(0)], &done, 1), 1);
		if (n == 1000) {
			struct virtio_net_hdr hdr;
			uint8_t got[PIECES];

			assert_int_equal(host_receive(&hdr, got, sizeof(got), WAIT_MS), n - 12);
			assert_memory_equal(got, bytes + 12, n - 12);
		}
	}
	assert_nothing_more();
	rig_assert_dropped(*state, TAP, "host_refused", 1);
	send_one(a, 0, TAP, 60, 2);
	assert_host_gets(60, 2);
	driver_close(a);
}

/* The kernel finds the memory gone, not ringway: no signal, but EFAULT. */
static void memory_that_is_gone_costs_its_sender_alone(void **state)
{
	enum { PAGE = 4096 };
	struct driver_config c = { .extra = 3 * PAGE };
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, &c);
	uint8_t *bytes = driver_memory_alloc(&b->mem, 2 * PAGE, PAGE);
	struct script_desc desc = { driver_memory_gpa(&b->mem, bytes), PAGE + 500, 0, 0 };
	off_t end = bytes + PAGE - b->mem.base;
	uint8_t frame[60];

	assert_non_null(bytes);
	/* The switch shall know where the host is, or it would copy the frame for the others. */
	frame_make(frame, 60, TAP, 1, 3);
	host_send(NULL, frame, 60);
	assert_true(receive_one(b, TAP, 1, 60, 3, WAIT_MS));
	frame_make(bytes + 12, PAGE + 500 - 12, 1, TAP, 1);
	assert_int_equal(ftruncate(b->mem.region[0].fd, end), 0);
	assert_true(script_chain(&b->ring[DRIVER_TX(0)], &desc, 1, 0, NULL, NULL) >= 0);
	driver_flush(b, DRIVER_TX(0));
	rig_assert_dropped(*state, TAP, "sender_fault", 1);
	assert_nothing_more();
	send_one(a, 0, TAP, 60, 2);
	assert_host_gets(60, 2);
	driver_close(a);
	driver_close(b);
}

/* The worker finds the rings gone: neither the tap nor who has told of no memory is to blame. */
static void a_guest_whose_memory_goes_takes_no_other_port_along(void **state)
{
	struct rig *rig = *state;
	struct error err;
	int bare = channel_connect(rig->socket[0], WAIT_MS, &err);
	struct driver *b = rig_open(rig, 1, NULL);
	uint8_t frame[60];

	assert_true(bare >= 0);
	assert_int_equal(ftruncate(b->mem.region[0].fd, 0), 0);
	frame_make(frame, 60, TAP, 1, 3);
	host_send(NULL, frame, 60);
	assert_true(channel_closed(b->fe.sock, WAIT_MS));
	assert_false(channel_closed(bare, 0));
	close(bare);
	driver_close(b);
	b = rig_open(rig, 1, NULL);
	send_one(b, 0, TAP, 60, 2);
	assert_host_gets(60, 2);
	driver_close(b);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static double cpu_seconds(const struct rig *rig)
{
	struct timespec t;
	clockid_t id;

	assert_int_equal(clock_getcpuclockid(rig->child, &id), 0);
	assert_int_equal(clock_gettime(id, &t), 0);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What waits for a guest without buffers is tried again now and then, not all the time. */
static void no_busy_loop_when_the_guest_has_no_buffers(void **state)
{
	struct rig *rig = *state;
	struct driver_config none = { .quirks = DRIVER_NO_RX_BUFFERS };
	struct driver *d = rig_open(rig, 0, &none);
	uint8_t frame[60];
	double cpu;

	send_one(d, 0, TAP, 60, 1); /* so that it is known */
	assert_host_gets(60, 1);
	cpu = cpu_seconds(rig);
	for (unsigned i = 0; i < 2000; i++, usleep(1000)) {
		frame_make(frame, sizeof(frame), TAP, 0, i);
		host_send(NULL, frame, sizeof(frame));
	}
	cpu = cpu_seconds(rig) - cpu;
	print_message("# %.2f s of CPU time in 2 s and more\n", cpu);
	rig_assert_dropped(rig, 0, "full", 2000);
	assert_true(cpu < 0.8);
	driver_post(d, 0);
	host_send(NULL, frame, sizeof(frame));
	assert_true(receive_one(d, TAP, 0, sizeof(frame), 1999, WAIT_MS));
	driver_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(less_than_a_header_never_reaches_the_host),
		CASE(every_length_reaches_the_host),
		CASE(every_length_comes_from_the_host),
		CASE(bursts_stay_in_order),
		CASE(no_busy_loop_when_the_guest_has_no_buffers),
		CASE(large_frames_pass_with_their_header),
		CASE(more_than_the_mtu_reaches_the_host),
		CASE(large_datagrams_pass_whole_or_in_segments),
		CASE(dhcp_is_finished_both_ways),
		CASE(a_frame_that_the_host_refuses_costs_itself_alone),
		CASE(more_pieces_than_the_kernel_takes),
		CASE(memory_that_is_gone_costs_its_sender_alone),
		CASE(a_guest_whose_memory_goes_takes_no_other_port_along),
	};

	setenv("RINGWAY_TAPS_LATER", "1", 1);
	if (access("/dev/net/tun", R_OK | W_OK) || unshare(CLONE_NEWNET)) {
		printf("1..0 # SKIP no taps or network namespaces here: %s\n", strerror(errno));
		return 0;
	}
	no_ipv6();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
