// SPDX-License-Identifier: Apache-2.0
/*
 * A vhost-user session, from its socket to the rings that it sets up, as a state machine: messages
 * of any content in any order with descriptors of any kind, what a worker does in between, and
 * what a front-end does to its memory. Answers are in step, and nothing is left afterwards: no
 * descriptor, no mapping, no handle.
 *
 * Input: operations, each a byte and what follows it:
 *   0x00-0x3f  a message of this request: flags (enum low), a kind for each descriptor, 16 bits of
 *              length, the payload
 *   0x40-0x7f  as many bytes, as they are
 *   0x80-0xbf  a worker's turn on all rings
 *   0xc0-0xdf  writes to the memory: 16 bits of offset, a length, the bytes
 *   0xe0-0xef  the owner's options change: 16 bits of MTU
 *   0xf0-0xff  a memory file becomes this many pages long
 */
#include <fcntl.h>
#include <linux/virtio_config.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "fuzz.h"
#include "guest/sigbus.h"
#include "vhost/messages.h"
#include "vhost/session.h"
#include "virtq/notify.h"

#define PAGES	  16
#define FILE_SIZE (PAGES * 4096u)
#define FDS	  16 /* that a message comes with at most */
#define SENT_MAX  1024
#define DRAIN_AT  256 /* sessions between two looks at what is left */

enum kind {
	MEMORY,
	OTHER_MEMORY,
	READ_ONLY_MEMORY,
	EVENT,
	FULL_EVENT,
	PIPE_READ,
	PIPE_WRITE,
	SOCKET,
	ZERO,
	NOTHING,
	FOLDER,
	CLOSED_PEER,
	KINDS
};

static int fds[KINDS];
static uint8_t *memory;
static uv_loop_t loop;
static struct vhost_device dev;
static struct batch batch;
static unsigned ended;

/* What was sent, for as long as its framing was right. */
static struct {
	uint32_t request[SENT_MAX];
	unsigned n, answered;
	bool in_step;
} sent;

static void on_ended(void *ctx, const char *reason)
{
	ended++;
}

static void open_descriptors(void)
{
	int pair[2];
	char path[64];

	fds[MEMORY] = memfd_create("fuzz", MFD_CLOEXEC);
	fds[OTHER_MEMORY] = memfd_create("fuzz", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[OTHER_MEMORY]);
	fds[READ_ONLY_MEMORY] = open(path, O_RDONLY | O_CLOEXEC);
	fds[EVENT] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	fds[FULL_EVENT] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	fuzz_check(!pipe2(pair, O_CLOEXEC));
	fds[PIPE_READ] = pair[0];
	fds[PIPE_WRITE] = pair[1];
	fuzz_check(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	fds[SOCKET] = pair[0];
	fuzz_check(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	fds[CLOSED_PEER] = pair[0];
	close(pair[1]);
	fds[ZERO] = open("/dev/zero", O_RDWR | O_CLOEXEC);
	fds[NOTHING] = open("/dev/null", O_RDWR | O_CLOEXEC);
	fds[FOLDER] = open("/", O_RDONLY | O_CLOEXEC);
	for (unsigned i = 0; i < KINDS; i++)
		fuzz_check(fds[i] >= 0);
}

static void once(void)
{
	log_set_level(LOG_ERROR);
	fuzz_check(sigbus_install() >= 0);
	fuzz_check(!rcu_start());
	rcu_register_thread();
	rcu_offline();
	open_descriptors();
	for (unsigned i = MEMORY; i <= OTHER_MEMORY; i++)
		fuzz_check(!ftruncate(fds[i], FILE_SIZE));
	memory = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[MEMORY], 0);
	fuzz_check(memory != MAP_FAILED);
	fuzz_check(!uv_loop_init(&loop));
}

static void turn(void)
{
	for (unsigned i = 0; i < 3; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

static void send_bytes(int sock, const void *bytes, size_t n, const int *with, unsigned n_with)
{
	char control[CMSG_SPACE(FDS * sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = (void *)bytes, .iov_len = n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_with) {
		struct cmsghdr *c = (struct cmsghdr *)control;

		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(n_with * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_with * sizeof(int));
		memcpy(CMSG_DATA(c), with, n_with * sizeof(int));
	}
	sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The rest of the input. */
struct source {
	const uint8_t *at;
	size_t left;
};

static size_t take(struct source *s, void *to, size_t n)
{
	n = MIN(n, s->left);
	memcpy(to, s->at, n);
	s->at += n;
	s->left -= n;
	return n;
}

static uint32_t number(struct source *s, unsigned bytes)
{
	uint32_t n = 0;

	take(s, &n, bytes);
	return n;
}

enum low { LOW_FLAGS = 0xf, LOW_FDS_SHIFT = 4 };

static void send_message(int sock, uint32_t request, struct source *s)
{
	uint8_t bytes[sizeof(struct vhost_user_header) + VHOST_USER_PAYLOAD_MAX];
	uint32_t low = number(s, 1), have;
	/* The version is right unless it is meant not to be. */
	struct vhost_user_header h = { .request = request,
				       .flags = (low & LOW_FLAGS) ^ VHOST_USER_VERSION };
	unsigned n = low >> LOW_FDS_SHIFT;
	int with[FDS];

	for (unsigned i = 0; i < n; i++)
		with[i] = fds[number(s, 1) % KINDS];
	h.size = number(s, 2);
	memcpy(bytes, &h, sizeof(h));
	have = (uint32_t)take(s, bytes + sizeof(h), MIN(h.size, (uint32_t)VHOST_USER_PAYLOAD_MAX));
	if (sent.n < SENT_MAX)
		sent.request[sent.n++] = request;
	sent.in_step &= have == h.size && sent.n < SENT_MAX;
	send_bytes(sock, bytes, sizeof(h) + have, with, n);
}

/* As a worker would: what the tx rings have goes to the rx rings. */
static void work(void)
{
	struct virtq_calls calls = { 0 };

	for (unsigned i = 0; i < dev.rings; i++) {
		if (!dev.ring[i] || !(i & 1))
			continue;
		for (unsigned n = 0; n < 8 && virtq_collect(&dev.ring[i]->vq, &batch); n++) {
			/* To another guest it would be: its own lock is not held twice. */
			virtq_complete(&dev.ring[i]->vq, &batch, &calls);
		}
		virtq_kicks_on(&dev.ring[i]->vq);
	}
	batch.n = batch.spans = 0;
	for (unsigned i = 0; i < 8; i++) {
		struct frame *f = &batch.frame[batch.n++];

		memset(f, 0, sizeof(*f));
		f->head = batch.snapshot[i] + VNET_HDR_LEN;
		f->len = f->head_len = 60;
		f->plain = true;
	}
	for (unsigned i = 0; i < dev.rings; i += 2) {
		if (dev.ring[i])
			virtq_deliver(&dev.ring[i]->vq, &batch, (1u << batch.n) - 1, &calls);
	}
	rcu_online();
	virtq_calls_look(&calls);
	rcu_quiescent();
	rcu_offline();
}

/* Where it may be short, a store of ours would be a SIGBUS of ours. */
static void write_memory(struct source *s)
{
	uint32_t offset = number(s, 2) % FILE_SIZE, n = number(s, 1);
	uint8_t bytes[256];

	n = (uint32_t)take(s, bytes, n);
	fuzz_check(pwrite(fds[MEMORY], bytes, MIN(n, FILE_SIZE - offset), offset) >= 0);
}

/* Each answer is to a message that was sent, in order, and is of the length that is its. */
static void read_answers(int sock)
{
	struct vhost_user_header h;
	uint8_t payload[VHOST_USER_PAYLOAD_MAX];

	while (recv(sock, &h, sizeof(h), MSG_DONTWAIT) == sizeof(h)) {
		uint8_t own = message_type(h.request)->reply;

		fuzz_check(h.flags == (VHOST_USER_VERSION | VHOST_USER_REPLY));
		fuzz_check(h.size == (own ? own : 8));
		fuzz_check(recv(sock, payload, h.size, MSG_DONTWAIT) == (ssize_t)h.size);
		if (!sent.in_step)
			continue;
		while (sent.answered < sent.n && sent.request[sent.answered] != h.request)
			sent.answered++;
		fuzz_check(sent.answered++ < sent.n);
	}
}

static void operate(int sock, struct source *s)
{
	uint8_t what = (uint8_t)number(s, 1), bytes[64];

	if (what < 0x40) {
		send_message(sock, what, s);
	} else if (what < 0x80) {
		send_bytes(sock, bytes, take(s, bytes, what - 0x40u), NULL, 0);
		sent.in_step = false;
	} else if (what < 0xc0) {
		work();
	} else if (what < 0xe0) {
		write_memory(s);
	} else if (what < 0xf0) {
		struct vhost_device_options options = dev.options;

		options.mtu = (uint16_t)number(s, 2);
		options.finish_csum = what & 1;
		device_set_options(&dev, &options);
	} else {
		fuzz_check(!ftruncate(fds[what & 1], (what & 0xf) * 4096));
		work();
		fuzz_check(!ftruncate(fds[what & 1], FILE_SIZE));
	}
}

/* Descriptors that are open, as a set. */
static uint64_t open_now(void)
{
	struct pollfd p[64];
	uint64_t set = 0;

	for (int i = 0; i < 64; i++)
		p[i] = (struct pollfd){ .fd = i };
	fuzz_check(poll(p, 64, 0) >= 0);
	for (unsigned i = 0; i < 64; i++)
		set |= p[i].revents & POLLNVAL ? 0 : 1ull << i;
	return set;
}

static unsigned mapped_now(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned n = 0;

	fuzz_check(maps);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, "/memfd:fuzz") || strstr(line, "/dev/zero");
	fclose(maps);
	return n;
}

static void check_nothing_is_left(void)
{
	static uint64_t before;
	static unsigned sessions;

	if (sessions++ % DRAIN_AT && before)
		return;
	rcu_drain();
	/* What is neither memory nor an eventfd is closed by a thread of its own. */
	for (unsigned i = 0; i < 5000 && before && open_now() != before; i++)
		usleep(1000);
	fuzz_check(!before || open_now() == before);
	before = open_now();
	fuzz_check(mapped_now() == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct log_source source = { .name = "fuzz" };
	struct source s = { data, size };
	struct session *session;
	struct error err;
	int pair[2];

	if (!memory)
		once();
	memset(memory, 0, FILE_SIZE);
	device_init(&dev, NULL);
	dev.options.messages_max = 0;
	memset(&sent, 0, sizeof(sent));
	sent.in_step = true;
	ended = 0;
	fuzz_check(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	fuzz_check(!session_start(&loop, pair[1], &dev, &source, on_ended, NULL, &session, &err));
	while (s.left && !ended) {
		operate(pair[0], &s);
		turn();
		read_answers(pair[0]);
		if (!ended && dev.mem && guest_memory_broken(dev.mem))
			session_end(session, REFUSAL_MEMORY_GONE, "its memory went away");
	}
	close(pair[0]);
	turn();
	fuzz_check(ended == 1 && !dev.mem);
	for (unsigned i = 0; i < dev.rings; i++)
		fuzz_check(!dev.ring[i] || (!dev.ring[i]->vq.mem && dev.ring[i]->kick < 0));
	device_destroy(&dev);
	fuzz_check(!uv_loop_alive(&loop));
	check_nothing_is_left();
	return 0;
}

/* Seeds: handshakes in orders that front-ends have, and some work. */

static uint8_t *put(uint8_t *at, const void *bytes, size_t n)
{
	if (n)
		memcpy(at, bytes, n);
	return at + n;
}

static uint8_t *put_message(uint8_t *at, uint8_t request, int kind, const void *payload,
			    uint16_t size)
{
	const uint8_t head[] = { request, (uint8_t)(VHOST_USER_NEED_REPLY | (kind >= 0) << 4),
				 (uint8_t)kind };

	at = put(at, head, kind >= 0 ? 3 : 2);
	at = put(at, &size, 2);
	return put(at, payload, size);
}

static uint8_t *put_u64(uint8_t *at, uint8_t request, int kind, uint64_t value)
{
	return put_message(at, request, kind, &value, 8);
}

static uint8_t *put_state(uint8_t *at, uint8_t request, uint32_t index, uint32_t num)
{
	struct vhost_user_vring_state s = { index, num };

	return put_message(at, request, -1, &s, sizeof(s));
}

static uint8_t *put_memory(uint8_t *at, bool slots)
{
	const struct vhost_user_region region = { 0, FILE_SIZE, 0x10000, 0 };
	struct vhost_user_memory_region one = { .region = region };
	struct vhost_user_memory table = { .regions = 1, .region = { region } };

	if (slots)
		return put_message(at, VHOST_USER_ADD_MEM_REG, MEMORY, &one, sizeof(one));
	return put_message(at, VHOST_USER_SET_MEM_TABLE, MEMORY, &table, 8 + sizeof(region));
}

static uint8_t *put_ring(uint8_t *at, uint32_t index, bool packed)
{
	uint64_t ring = 0x10000 + 0x1000 * index;
	struct vhost_user_vring_addr addr = {
		.index = index, .desc = ring, .avail = ring + 0x400, .used = ring + 0x800
	};

	at = put_state(at, VHOST_USER_SET_VRING_NUM, index, 16);
	at = put_state(at, VHOST_USER_SET_VRING_BASE, index, packed ? 0x80008000 : 0);
	at = put_message(at, VHOST_USER_SET_VRING_ADDR, -1, &addr, sizeof(addr));
	at = put_u64(at, VHOST_USER_SET_VRING_CALL, index & 2 ? FULL_EVENT : EVENT, index);
	at = put_u64(at, VHOST_USER_SET_VRING_KICK, EVENT, index);
	return put_state(at, VHOST_USER_SET_VRING_ENABLE, index, 1);
}

/* Two buffers in a ring. */
static uint8_t *put_buffers(uint8_t *at, uint32_t index, bool packed)
{
	const uint16_t ring = (uint16_t)(0x1000 * index), avail = ring + 0x400;
	const uint16_t flags = (uint16_t)((index & 1 ? 0 : VRING_DESC_F_WRITE) |
					  (packed ? 1u << VRING_PACKED_DESC_F_AVAIL : 0));
	struct vring_desc desc[2] = { { .addr = 0x8000, .len = 200 }, { 0x9000, 1000, 0, 0 } };
	const uint16_t entries[] = { 0, 2, 0, 1 };

	for (unsigned i = 0; i < 2; i++) {
		desc[i].flags = packed ? (uint16_t)i : flags;
		desc[i].next = packed ? flags : 0;
	}
	*at++ = 0xc0;
	at = put(at, &ring, 2);
	*at++ = sizeof(desc);
	at = put(at, desc, sizeof(desc));
	if (packed)
		return at;
	*at++ = 0xc0;
	at = put(at, &avail, 2);
	*at++ = sizeof(entries);
	return put(at, entries, sizeof(entries));
}

size_t fuzz_seed(unsigned i, uint8_t *data)
{
	const bool packed = i & 1, slots = i & 2, late = i & 4;
	const uint64_t features = BIT(VIRTIO_F_VERSION_1) | BIT(VHOST_USER_F_PROTOCOL_FEATURES) |
				  BIT(VIRTIO_NET_F_MRG_RXBUF) |
				  (packed ? BIT(VIRTIO_F_RING_PACKED) : 0);
	uint8_t *at = data;

	if (i >= 8)
		return 0;
	at = put_message(at, VHOST_USER_GET_FEATURES, -1, NULL, 0);
	at = put_message(at, VHOST_USER_GET_PROTOCOL_FEATURES, -1, NULL, 0);
	at = put_u64(at, VHOST_USER_SET_PROTOCOL_FEATURES, -1, VHOST_PROTOCOL_FEATURES_OFFERED);
	at = put_message(at, VHOST_USER_SET_OWNER, -1, NULL, 0);
	at = put_u64(at, VHOST_USER_SET_FEATURES, -1, features);
	if (!late)
		at = put_memory(at, slots);
	for (uint32_t ring = 0; ring < 3; ring++)
		at = put_ring(at, ring, packed);
	if (late)
		at = put_memory(at, slots);
	for (uint32_t ring = 0; ring < 3; ring++)
		at = put_buffers(at, ring, packed);
	*at++ = 0x80;
	at = put_u64(at, VHOST_USER_NET_SET_MTU, -1, 1500);
	at = put_u64(at, VHOST_USER_SET_STATUS, -1, 15);
	at = put_message(at, VHOST_USER_GET_STATUS, -1, NULL, 0);
	at = put_u64(at, VHOST_USER_SEND_RARP, -1, 2);
	*at++ = late ? 0xf1 : 0xe1;
	at = put_state(at, VHOST_USER_GET_VRING_BASE, 1, 0);
	at = put_message(at, VHOST_USER_GET_QUEUE_NUM, -1, NULL, 0);
	return (size_t)(at - data);
}
