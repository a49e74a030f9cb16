// SPDX-License-Identifier: Apache-2.0
/*
 * Front-ends at port 2 that get the protocol wrong in a million ways (in a sample of them unless
 * RINGWAY_TEST_FULL is set): sequences of messages that set a device up, with something missing,
 * twice, in another order or changed, and with up to 16 descriptors of any kind; memory that is
 * truncated and punched meanwhile. Traffic between ports 0 and 1 loses nothing and waits for
 * nothing, and in the end there is as much open and mapped in the switch as before.
 */
#include "slow_file.h"
#include "watch.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "vhost/features.h"

#define SEQUENCES 1000000u
#define SAMPLE_MS 8000
#define FDS_MAX	  16
#define FILE_SIZE 0x10000u
#define UVA	  0x10000u
#define WAIT_MS	  5000
#define STEPS	  64

enum kind {
	MEMORY,
	SHORT_MEMORY,
	READ_ONLY_MEMORY,
	EVENT,
	FULL_EVENT,
	PIPE_READ,
	PIPE_WRITE,
	SOCKET,
	CLOSED_SOCKET,
	ZERO,
	NOTHING,
	FOLDER,
	KINDS
};

struct step {
	uint32_t request, size;
	union vhost_user_payload *payload;
	unsigned fds;
	uint8_t kind[FDS_MAX];
};

struct attack {
	struct rig *rig;
	int fd[KINDS];
	uint64_t seed;
	struct effort effort;
	uint64_t sequences, messages, sessions;
	bool deaf;     /* it reads no answers in this session */
	uint32_t over; /* atomic */
	union vhost_user_payload payload[STEPS];
	struct step step[2 * STEPS];
	unsigned n;
};

static uint32_t dice(struct attack *a, uint32_t sides)
{
	a->seed ^= a->seed << 13;
	a->seed ^= a->seed >> 7;
	a->seed ^= a->seed << 17;
	return (uint32_t)((a->seed >> 32) % sides);
}

static void open_descriptors(struct attack *a)
{
	char path[64];
	int pair[2];

	a->fd[MEMORY] = memfd_create("ringway-test", MFD_CLOEXEC);
	a->fd[SHORT_MEMORY] = memfd_create("ringway-test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(a->fd[MEMORY], FILE_SIZE), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", a->fd[MEMORY]);
	a->fd[READ_ONLY_MEMORY] = open(path, O_RDONLY | O_CLOEXEC);
	a->fd[EVENT] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	a->fd[FULL_EVENT] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	assert_int_equal(eventfd_write(a->fd[FULL_EVENT], UINT64_MAX - 1), 0);
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	a->fd[PIPE_READ] = pair[0];
	a->fd[PIPE_WRITE] = pair[1];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	a->fd[SOCKET] = pair[0];
	a->fd[CLOSED_SOCKET] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	close(pair[1]);
	a->fd[ZERO] = open("/dev/zero", O_RDWR | O_CLOEXEC);
	a->fd[NOTHING] = open("/dev/null", O_RDWR | O_CLOEXEC);
	a->fd[FOLDER] = open("/", O_RDONLY | O_CLOEXEC);
	for (unsigned i = 0; i < KINDS; i++)
		assert_true(a->fd[i] >= 0);
}

static void close_descriptors(struct attack *a)
{
	for (unsigned i = 0; i < KINDS; i++)
		close(a->fd[i]);
}

/* What is right */

static union vhost_user_payload *add(struct attack *a, uint32_t request, uint32_t size, int kind)
{
	union vhost_user_payload *payload = &a->payload[a->n];

	memset(payload, 0, 264);
	a->step[a->n] = (struct step){ request, size, payload, kind >= 0, { (uint8_t)kind } };
	a->n++;
	return payload;
}

static void add_ring(struct attack *a, uint32_t index, bool packed)
{
	uint64_t at = UVA + 0x1000 * index;

	add(a, VHOST_USER_SET_VRING_NUM, 8, -1)->state =
		(struct vhost_user_vring_state){ index, 1u << dice(a, 5) };
	add(a, VHOST_USER_SET_VRING_BASE, 8, -1)->state =
		(struct vhost_user_vring_state){ index, packed ? 0x80008000 : 0 };
	add(a, VHOST_USER_SET_VRING_ADDR, 40, -1)->addr = (struct vhost_user_vring_addr){
		.index = index, .desc = at, .avail = at + 0x400, .used = at + 0x800
	};
	add(a, VHOST_USER_SET_VRING_CALL, 8, dice(a, 2) ? EVENT : FULL_EVENT)->u64 = index;
	add(a, VHOST_USER_SET_VRING_KICK, 8, EVENT)->u64 = index;
	add(a, VHOST_USER_SET_VRING_ENABLE, 8, -1)->state =
		(struct vhost_user_vring_state){ index, 1 };
}

static void add_memory(struct attack *a)
{
	const struct vhost_user_region region = { 0, FILE_SIZE, UVA, 0 };
	struct vhost_user_memory *table;

	if (dice(a, 2)) {
		add(a, VHOST_USER_ADD_MEM_REG, 40, MEMORY)->region.region = region;
		return;
	}
	table = &add(a, VHOST_USER_SET_MEM_TABLE, 40, MEMORY)->memory;
	table->regions = 1;
	table->region[0] = region;
}

static void make_sequence(struct attack *a)
{
	static const uint32_t more[] = { VHOST_USER_GET_QUEUE_NUM, VHOST_USER_GET_MAX_MEM_SLOTS,
					 VHOST_USER_RESET_OWNER,   VHOST_USER_GET_STATUS,
					 VHOST_USER_SET_OWNER,	   VHOST_USER_GET_FEATURES };
	bool packed = dice(a, 2);

	a->n = 0;
	add(a, VHOST_USER_GET_FEATURES, 0, -1);
	if (dice(a, 8)) {
		add(a, VHOST_USER_GET_PROTOCOL_FEATURES, 0, -1);
		add(a, VHOST_USER_SET_PROTOCOL_FEATURES, 8, -1)->u64 =
			VHOST_PROTOCOL_FEATURES_OFFERED;
	}
	add(a, VHOST_USER_SET_FEATURES, 8, -1)->u64 = BIT(VIRTIO_F_VERSION_1) |
						      BIT(VHOST_USER_F_PROTOCOL_FEATURES) |
						      (packed ? BIT(VIRTIO_F_RING_PACKED) : 0);
	add_memory(a);
	for (uint32_t ring = 0; ring < 4; ring++)
		add_ring(a, ring, packed);
	add(a, more[dice(a, ARRAY_SIZE(more))], 0, -1);
	add(a, VHOST_USER_SET_STATUS, 8, -1)->u64 = dice(a, 2) ? 15 : 0;
	add(a, VHOST_USER_GET_VRING_BASE, 8, -1)->state.index = dice(a, 4);
}

/* What is made wrong */

static void change_payload(struct attack *a, struct step *s)
{
	static const uint64_t values[] = { 0,	      1,	  0xff,	      0x100,
					   0xfff,     0x10000,	  0xffffffff, 1ull << 32,
					   1u << 31,  1ull << 47, 1ull << 62, UINT64_MAX - 0xfff,
					   UINT64_MAX };
	uint32_t at = s->size ? dice(a, s->size) & ~3u : 0;

	switch (dice(a, 3)) {
	case 0:
		s->payload->bytes[at] ^= (uint8_t)(1u << dice(a, 8));
		break;
	case 1:
		memcpy(s->payload->bytes + (at & ~7u), &values[dice(a, ARRAY_SIZE(values))], 8);
		break;
	default:
		for (unsigned i = 0; i < 4; i++)
			s->payload->bytes[at + i] = (uint8_t)dice(a, 256);
	}
}

/* Regions that overlap, run on into each other, or are many. */
static void more_regions(struct attack *a, struct step *s)
{
	struct vhost_user_memory *table = &s->payload->memory;

	s->request = VHOST_USER_SET_MEM_TABLE;
	table->regions = 2 + dice(a, 7);
	s->size = 8 + 32 * table->regions;
	s->fds = dice(a, 4) ? table->regions : dice(a, FDS_MAX + 1);
	for (unsigned i = 0; i < VHOST_USER_MEM_TABLE_MAX; i++) {
		uint64_t at = dice(a, 4) ? i * 0x1000 : dice(a, FILE_SIZE);

		table->region[i] = (struct vhost_user_region){ at, 0x1000u << dice(a, 2), UVA + at,
							       at % 0xf000 };
		s->kind[i] = (uint8_t)(dice(a, 8) ? MEMORY : dice(a, KINDS));
	}
}

static void change_step(struct attack *a)
{
	unsigned at = dice(a, a->n), other = dice(a, a->n);
	struct step *s = &a->step[at], kept = *s;

	switch (dice(a, 10)) {
	case 0: /* left out */
		memmove(s, s + 1, (--a->n - at) * sizeof(*s));
		break;
	case 1: /* said twice */
		a->step[a->n++] = kept;
		break;
	case 2: /* at another time */
		*s = a->step[other];
		a->step[other] = kept;
		break;
	case 3:
		s->request = dice(a, dice(a, 8) ? 50 : UINT32_MAX);
		break;
	case 4:
		s->size = dice(a, 4) ? dice(a, 64) : dice(a, VHOST_USER_PAYLOAD_MAX + 1);
		break;
	case 5:
	case 6:
		s->fds = dice(a, 2) ? dice(a, 3) : dice(a, FDS_MAX + 1);
		for (unsigned i = 0; i < FDS_MAX; i++)
			s->kind[i] = (uint8_t)dice(a, KINDS);
		break;
	case 7:
		more_regions(a, s);
		break;
	default:
		change_payload(a, s);
	}
}

/* A change of memory while it is in use. */
static void change_memory(struct attack *a)
{
	off_t at = dice(a, FILE_SIZE);

	switch (dice(a, 40)) {
	case 0: /* this ends its session */
		if (ftruncate(a->fd[MEMORY], at) || ftruncate(a->fd[MEMORY], FILE_SIZE))
			abort();
		break;
	case 1:
	case 2:
		fallocate(a->fd[MEMORY], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, 0x3000);
		break;
	case 3:
	case 4:
	case 5: {
		uint64_t words[16];

		for (unsigned i = 0; i < 16; i++)
			words[i] = dice(a, 3) ? dice(a, 0x10000) : a->seed;
		if (pwrite(a->fd[MEMORY], words, sizeof(words), at & ~15) < 0)
			abort();
		break;
	}
	default:
		break;
	}
}

/* False: the session is over. */
static bool send_step(struct attack *a, int sock, const struct step *s)
{
	uint32_t flags = VHOST_USER_VERSION | (dice(a, 4) ? 0 : VHOST_USER_NEED_REPLY);
	uint8_t swallowed[4096];
	int fds[FDS_MAX];

	if (!dice(a, 100)) {
		flags = dice(a, 16);
	} else if (!dice(a, 200)) { /* something that is no message at all */
		return send(sock, s->payload, dice(a, 100), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
	}
	for (unsigned i = 0; i < s->fds; i++)
		fds[i] = a->fd[s->kind[i]];
	a->messages++;
	while (!a->deaf && recv(sock, swallowed, sizeof(swallowed), MSG_DONTWAIT) > 0)
		;
	return !channel_send(sock, s->request, flags, s->payload, s->size, fds, s->fds);
}

static void *attack(void *arg)
{
	struct attack *a = arg;
	int sock = -1;

	while (effort_goes_on(&a->effort)) {
		struct error err;

		if (sock < 0) {
			sock = channel_connect(a->rig->socket[2], WAIT_MS, &err);
			a->deaf = !dice(a, 8);
			a->sessions++;
		}
		make_sequence(a);
		for (unsigned i = dice(a, 6); i && a->n > 4; i--)
			change_step(a);
		for (unsigned i = 0; i < a->n && sock >= 0; i++) {
			change_memory(a);
			if (!send_step(a, sock, &a->step[i]) || !dice(a, 400)) {
				close(sock);
				sock = -1;
			}
		}
		a->sequences++;
		a->effort.left--;
	}
	if (sock >= 0)
		close(sock);
	store_release(&a->over, 1u);
	return NULL;
}

/* As many descriptors are open in the switch as before. */
static void assert_settles(struct rig *rig, unsigned fds)
{
	rig_wait_state(rig, 2, "waiting");
	for (unsigned i = 0; i < 500 && rig_open_fds(rig) > fds; i++)
		usleep(10000);
	assert_in_range(rig_open_fds(rig), 0, fds);
	assert_int_equal(rig_mappings(rig, "/memfd:ringway-test"), 0);
	assert_int_equal(rig_mappings(rig, "/dev/zero"), 0);
}

static unsigned settled_fds(struct rig *rig)
{
	unsigned fds = 0;

	driver_close(rig_open(rig, 2, NULL)); /* what is made once only is made */
	rig_wait_state(rig, 2, "waiting");
	for (unsigned same = 0; same < 10; same++, usleep(10000)) {
		unsigned now = rig_open_fds(rig);

		same = now == fds ? same : 0;
		fds = now;
	}
	return fds;
}

static void a_million_wrong_sequences_cost_their_session_alone(void **state)
{
	struct attack *a = calloc(1, sizeof(*a));
	pthread_t thread;
	struct watch w;
	unsigned fds;

	watch_begin(&w, *state, NULL);
	fds = settled_fds(*state);
	a->rig = *state;
	a->seed = 1;
	open_descriptors(a);
	a->effort = effort_of(SEQUENCES, SAMPLE_MS);
	assert_int_equal(pthread_create(&thread, NULL, attack, a), 0);
	while (!load_acquire(&a->over))
		watch_turn(&w);
	pthread_join(thread, NULL);
	print_message("# %llu sequences of %llu messages, in %llu sessions\n",
		      (unsigned long long)a->sequences, (unsigned long long)a->messages,
		      (unsigned long long)a->sessions);
	close_descriptors(a);
	assert_settles(*state, fds);
	watch_settle(&w);
	driver_close(rig_open(*state, 2, NULL)); /* the next one is served */
	watch_end(&w);
	free(a);
}

/* Neither what it is nor its end can be asked for without waiting for its server. */
static void files_that_never_answer_hold_up_nobody(void **state)
{
	struct vhost_user_memory table = { .regions = 1, .region = { { 0, FILE_SIZE, UVA, 0 } } };
	struct slow_file file;
	struct watch w;
	unsigned fds, threads;

	if (!slow_file_open(&file))
		skip();
	watch_begin(&w, *state, NULL);
	fds = settled_fds(*state);
	threads = rig_threads(*state);
	for (unsigned i = 0; !rig_refused(*state, 2, "stuck"); i++) {
		struct channel_message m;
		struct error err;
		int sock = channel_connect(w.rig->socket[2], WAIT_MS, &err);
		uint64_t zero = 0;

		assert_true(sock >= 0);
		if (i % 2)
			script_call(sock, VHOST_USER_SET_MEM_TABLE, VHOST_USER_VERSION, &table, 40,
				    &file.fd, 1, &m, WAIT_MS);
		else
			channel_send(sock, VHOST_USER_SET_VRING_KICK, VHOST_USER_VERSION, &zero, 8,
				     &file.fd, 1);
		close(sock);
		assert_in_range(i, 0, 40);
		watch_turn(&w);
		rig_assert_alive(*state);
	}
	rig_wait_state(*state, 2, "waiting");
	/* Some are being closed all that time, but no more than are bearable. */
	assert_in_range(rig_threads(*state), threads + 1, threads + 20);
	slow_file_close(&file);
	while (rig_threads(*state) > threads)
		usleep(10000);
	assert_settles(*state, fds);
	driver_close(rig_open(*state, 2, NULL));
	watch_end(&w);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_million_wrong_sequences_cost_their_session_alone),
		CASE(files_that_never_answer_hold_up_nobody),
	};

	setenv("RINGWAY_TEST_MESSAGES_MAX", "0", 1);
	return cmocka_run_group_tests_name("fronts", tests, NULL, NULL);
}
