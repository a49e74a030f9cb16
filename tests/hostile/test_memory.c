// SPDX-License-Identifier: Apache-2.0
/*
 * Guests and front-ends that change what they share while it is used: rings, buffers, memory files,
 * descriptors. The attacker is at port 2; ports 0 and 1 must not notice.
 */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"

#define ATTACK_MS  1500
#define CALLS	   100000u
#define CALLS_LATE 1100u  /* that wait to be closed at most, and what comes with a message */
#define MARGIN_MS  3000	  /* for the watchdog and a slow machine */
#define WATCHES	   16000u /* of one call, which then takes over a millisecond */

struct attack {
	struct driver *d;
	uint64_t end;
	uint32_t seed;
};

/* Attackers that race with themselves: the thread sanitizer need not look. */
#define NOT_RACING __attribute__((no_sanitize("thread")))

static uint32_t dice(struct attack *a)
{
	a->seed = a->seed * 1664525u + 1013904223u;
	return a->seed >> 8;
}

/* One field of one descriptor, to something that might hurt. */
NOT_RACING static void twist_descriptor(struct attack *a, struct vring_desc *desc)
{
	static const uint32_t lens[] = { 0,  1,	   11,	  12,	      25,	 26,
					 60, 1500, 65536, 0x7fffffff, 0xffffffff };
	static const uint16_t flags[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	volatile struct vring_desc *d = desc;

	switch (dice(a) % 4) {
	case 0:
		d->len = lens[dice(a) % ARRAY_SIZE(lens)];
		break;
	case 1:
		d->flags = flags[dice(a) % ARRAY_SIZE(flags)];
		break;
	case 2:
		d->next = (uint16_t)dice(a);
		break;
	default:
		d->addr = dice(a) % 8 ? a->d->mem.gpa + dice(a) % a->d->mem.size
				      : (uint64_t)dice(a) << 40;
	}
}

/* The same of a packed ring, which has no `next` but an id, and whose turn it is in its flags. */
NOT_RACING static void twist_packed(struct attack *a, struct vring_packed_desc *desc)
{
	static const uint16_t turns[] = { 0, 1u << VRING_PACKED_DESC_F_AVAIL,
					  1u << VRING_PACKED_DESC_F_USED };
	volatile struct vring_packed_desc *d = desc;
	struct vring_desc like = { 0 };

	twist_descriptor(a, &like);
	switch (dice(a) % 4) {
	case 0:
		d->len = like.len;
		break;
	case 1: /* chains that end soon: one that does not breaks its ring for good */
		d->flags = (like.flags & ~(dice(a) % 8 ? VRING_DESC_F_NEXT : 0)) |
			   turns[dice(a) % ARRAY_SIZE(turns)];
		break;
	case 2:
		d->id = like.next;
		break;
	default:
		d->addr = like.addr;
	}
}

NOT_RACING static void *twist_all(void *arg)
{
	struct attack *a = arg;

	while (clock_ns() < a->end) {
		struct driver_ring *r = &a->d->ring[dice(a) % 2];
		volatile uint8_t *buffer = a->d->mem.base + dice(a) % a->d->mem.size;

		for (unsigned i = 0; i < 8; i++)
			r->packed ? twist_packed(a, &r->packed_desc[dice(a) & r->mask])
				  : twist_descriptor(a, &r->desc[dice(a) & r->mask]);
		if (r->tables)
			twist_descriptor(a, &r->tables[dice(a) % 512]);
		*buffer = (uint8_t)dice(a);
	}
	return NULL;
}

/* Keeps the rings going although nothing in them can be trusted. */
static void churn(struct driver *d)
{
	for (unsigned i = 0; i < 2; i++)
		script_avail_all(&d->ring[i], i == DRIVER_RX(0));
}

/* DPDK 134228ca39 and others: lengths, flags and headers read twice while the guest changes them.
 */
static void everything_changes_while_it_is_read(void **state)
{
	struct driver_config hostile = { .features = driver_features_default() |
						     BIT(VIRTIO_NET_F_CSUM) |
						     BIT(VIRTIO_NET_F_GUEST_CSUM) |
						     BIT(VIRTIO_NET_F_HOST_TSO4) |
						     BIT(VIRTIO_NET_F_GUEST_TSO4) };
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	struct attack attack = { .d = rig_open(*state, 2, &hostile), .seed = 1 };
	unsigned n = 0;
	pthread_t thread;

	attack.end = clock_ns() + ATTACK_MS * 1000000ull;
	assert_int_equal(pthread_create(&thread, NULL, twist_all, &attack), 0);
	while (clock_ns() < attack.end) {
		churn(attack.d);
		swallow(a);
		swallow(b);
		driver_reclaim(a, 0);
		if (ring_room(&a->ring[DRIVER_TX(0)])) /* to the attacker's rx ring */
			send_one(a, 0, n % 2 ? 2 : 7, 60 + n % 1400, n);
		n++;
	}
	pthread_join(thread, NULL);
	rig_assert_alive(*state);
	driver_close(attack.d);
	rig_wait_state(*state, 2, "waiting");
	/* By chance it sent from their addresses, too; who sends all the time is learned anew after
	 * a second. */
	sleep(2);
	send_one(a, 0, 9, 60, 0);
	send_one(b, 1, 9, 60, 0);
	settle(a, b);
	pass_and_close(a, b);
}

/* firecracker#3149: an index that jumps made the device walk the same chains for ever. */
static void available_index_jumps(void **state)
{
	const int jumps[] = { 257, 1000, 32768, 65535, 65279 };
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	struct stream good = { .from = a, .to = b };

	for (unsigned i = 0; i < 2 * ARRAY_SIZE(jumps); i++) {
		struct driver *c = rig_open(*state, 2, NULL);
		struct driver_ring *r = &c->ring[i % 2];
		struct error err;
		uint32_t base;

		/* Seen, or one that goes back would never have been forward. */
		send_one(c, 2, 2, 60, 0);
		assert_true(script_wait_idle(&c->ring[DRIVER_TX(0)], 1000));
		script_avail_index(r, (uint16_t)(r->published + jumps[i / 2]));
		send_one(a, 0, 2, 60, 0);
		usleep(20000);
		settle(a, b);
		stream_both(&good);
		if (i % 2) /* an rx ring's is read when its known buffers are used up */
			rig_wait_state(*state, 2, "broken");
		/* The ring is put right and started anew, and works. */
		assert_int_equal(driver_ring_stop(c, i % 2, &base, &err), 0);
		r->avail->idx = r->published;
		assert_int_equal(driver_ring_start(c, i % 2, r->used->idx, &err), 0);
		driver_reclaim(c, 0);
		settle(c, a);
		send_one(c, 2, 0, 60, 4);
		assert_true(receive_one(a, 2, 0, 60, 4, 1000));
		send_one(a, 0, 2, 60, 5);
		assert_true(receive_one(c, 0, 2, 60, 5, 1000));
		driver_close(c);
		settle(a, b);
	}
	assert_true(rig_refused(*state, 2, "ring_broken") >= ARRAY_SIZE(jumps));
	driver_close(a);
	driver_close(b);
}

static void used_index_is_overwritten(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	struct driver *c = rig_open(*state, 2, NULL);

	for (unsigned i = 0; i < 2000; i++) {
		store_release(&c->ring[i % 2].used->idx, (uint16_t)(i * 997));
		churn(c);
		driver_reclaim(a, 0);
		if (ring_room(&a->ring[DRIVER_TX(0)]))
			send_one(a, 0, 2, 60, i);
		swallow(a);
		swallow(b);
	}
	rig_assert_alive(*state);
	driver_close(c);
	rig_wait_state(*state, 2, "waiting");
	settle(a, b);
	pass_and_close(a, b);
}

/* Makes much of a ring available whose parts lie wherever they lie, and has frames sent to it. */
static void use_ring(struct driver *c, struct driver_ring *ring, struct driver *a, struct driver *b)
{
	for (unsigned i = 0; i < 50; i++) {
		if (ring->packed) {
			script_avail_all(ring, i % 2);
		} else {
			store_release(&ring->avail->idx,
				      (uint16_t)(load_acquire(&ring->used->idx) + 200));
			ring_kick(ring);
		}
		driver_reclaim(a, 0);
		if (ring_room(&a->ring[DRIVER_TX(0)]))
			send_one(a, 0, 2, 60 + i * 20, i);
		swallow(a);
		swallow(b);
	}
}

/* Nothing forbids it, and nothing that a guest writes is believed anyway. */
static void rings_lie_on_each_other(void **state)
{
	struct driver_config later = { .quirks = DRIVER_RINGS_LATER };
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);

	for (unsigned way = 0; way < 10; way++) {
		struct driver *c = rig_open(*state, 2, &later);
		struct driver_ring ring = c->ring[way % 2], *other = &c->ring[!(way % 2)];
		void *at = ring.desc;
		struct error err;

		if (way / 2 == 0 || way / 2 == 3)
			ring.avail = at;
		if (way / 2 == 1 || way / 2 == 3)
			ring.used = at;
		if (way / 2 == 2)
			ring.used = (void *)((uintptr_t)ring.avail & ~(uintptr_t)3);
		if (way / 2 == 4) { /* both rings of the pair are one */
			ring.desc = other->desc;
			ring.packed_desc = other->packed_desc;
			ring.avail = other->avail;
			ring.used = other->used;
			assert_int_equal(driver_ring_start(c, !(way % 2), ring_base(other), &err),
					 0);
			assert_int_equal(driver_ring_enable(c, !(way % 2), true, &err), 0);
		}
		assert_int_equal(frontend_set_ring(&c->fe, way % 2, &ring, ring_base(&ring), &err),
				 0);
		assert_int_equal(frontend_set_fd(&c->fe, VHOST_USER_SET_VRING_KICK, way % 2,
						 ring.kick, &err),
				 0);
		assert_int_equal(frontend_enable(&c->fe, way % 2, true, &err), 0);
		use_ring(c, &ring, a, b);
		rig_assert_alive(*state);
		driver_close(c);
		rig_wait_state(*state, 2, "waiting");
	}
	settle(a, b);
	pass_and_close(a, b);
}

/* What is delivered overwrites the ring by which it is delivered: each of its parts by itself. */
static void buffers_lie_on_their_ring(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);

	for (unsigned round = 0; round < 30; round++) {
		struct driver *c = rig_open(*state, 2, NULL);
		struct driver_ring *rx = &c->ring[DRIVER_RX(0)];
		void *const parts[] = { rx->desc, rx->avail, rx->used };
		uint64_t at = driver_memory_gpa(&c->mem, parts[round % 3]);

		send_one(c, 2, 0, 60, 1);
		for (unsigned i = 0; i < rx->size; i++) {
			rx->desc[i].addr = at + round; /* the same in either format */
			if (!rx->packed)
				rx->desc[i] = (struct vring_desc){ at + round, 2048,
								   VRING_DESC_F_WRITE, 0 };
		}
		use_ring(c, rx, a, b);
		rig_assert_alive(*state);
		driver_close(c);
		rig_wait_state(*state, 2, "waiting");
	}
	settle(a, b);
	pass_and_close(a, b);
}

/* The memory of the attacker's rings and buffers ends at `size` bytes, all of a sudden. */
static void truncate_under_load(struct rig *rig, struct driver *a, struct driver *b, off_t size)
{
	struct driver_config config = { .regions = 2, .ring_size = 1024 };
	struct driver *c = rig_open(rig, 2, &config);
	uint8_t frame[1000];

	frame_make(frame, sizeof(frame), 2, 0, 1);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(driver_send(c, 0, NULL, frame, sizeof(frame), NULL), 0);
	driver_flush(c, DRIVER_TX(0));
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(ftruncate(c->mem.region[i].fd, size), 0);
	for (unsigned i = 0; i < 100; i++) {
		driver_reclaim(a, 0);
		send_one(a, 0, 2, 1000, i);
		send_one(a, 0, 9, 1000, i); /* flooded */
		assert_true(script_wait_idle(&a->ring[DRIVER_TX(0)], 2000));
		swallow(a);
		swallow(b);
	}
	assert_true(channel_closed(c->fe.sock, MARGIN_MS));
	driver_close(c);
	rig_wait_state(rig, 2, "waiting");
}

/* Clauses: memory-c */
static void memory_file_is_truncated(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	struct stream good = { .from = a, .to = b };

	for (unsigned i = 0; i < 5; i++) {
		truncate_under_load(*state, a, b, i % 2 ? 65536 : 0);
		settle(a, b);
		stream_both(&good);
	}
	assert_int_equal(rig_refused(*state, 2, "memory_gone"), 5);
	good.to = rig_open(*state, 2, NULL); /* and the port takes the next front-end */
	good.to_port = 2;
	stream_both(&good);
	driver_close(good.to);
	driver_close(a);
	driver_close(b);
}

/* Clauses: memory-c */
static void holes_are_punched(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	struct driver *c = rig_open(*state, 2, NULL);

	for (unsigned i = 0; i < 200; i++) {
		churn(c);
		assert_int_equal(fallocate(c->mem.region[0].fd,
					   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
					   (off_t)c->mem.region[0].size),
				 0);
		driver_reclaim(a, 0);
		send_one(a, 0, 2, 1000, i);
		swallow(a);
		swallow(b);
	}
	rig_assert_alive(*state);
	driver_close(c);
	rig_wait_state(*state, 2, "waiting");
	settle(a, b);
	pass_and_close(a, b);
}

/* Fills the call's counter, whatever the device has written to it before. */
static void saturate(const struct driver_ring *r)
{
	uint64_t full = UINT64_MAX - 1, n;

	while (write(r->call, &full, sizeof(full)) < 0) {
		assert_int_equal(errno, EAGAIN);
		assert_true(read(r->call, &n, sizeof(n)) == sizeof(n) || errno == EAGAIN);
	}
}

/* The file description is shared: the front-end can make the device's write block, of any ring. */
static void calls_that_block_harm_their_own_session_only(void **state)
{
	struct driver_config many = { .pairs = 16 };
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);
	struct driver *c = rig_open(*state, 2, &many);
	struct stream good = { .from = a, .to = b };
	uint8_t frame[60];
	uint64_t start;

	for (unsigned i = 0; i < 2 * many.pairs; i++) {
		saturate(&c->ring[i]);
		assert_int_equal(fcntl(c->ring[i].call, F_SETFL, 0), 0);
		ring_calls_on(&c->ring[i]);
	}
	start = clock_ns();
	frame_make(frame, sizeof(frame), 2, 2, 0);
	for (unsigned i = 0; i < many.pairs; i++) {
		assert_int_equal(driver_send(c, i, NULL, frame, sizeof(frame), NULL), 0);
		driver_flush(c, DRIVER_TX(i));
	}
	send_one(a, 0, 2, 60, 0);
	usleep(1000);
	settle(a, b);
	stream_both(&good);
	assert_in_range((clock_ns() - start) / 1000000, 0, MARGIN_MS);
	assert_true(channel_closed(c->fe.sock, MARGIN_MS));
	assert_int_equal(rig_refused(*state, 2, "call_blocked"), 1);
	driver_close(c);
	rig_wait_state(*state, 2, "waiting");
	settle(a, b);
	pass_and_close(a, b);
}

/* Saturated and not blocking: the driver has a call that it has not read. */
/* Waits for a call so often that it lasts: each is woken by it. How often; at most WATCHES. */
static unsigned watch_call(int epoll, int call, int *fds)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	struct rlimit limit;
	unsigned n = 0;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	while (n < WATCHES && (fds[n] = dup(call)) >= 0 &&
	       !epoll_ctl(epoll, EPOLL_CTL_ADD, fds[n], &event))
		n++;
	return n;
}

static void calls_that_last_end_their_session(void **state)
{
	static int fds[WATCHES];
	struct driver *a = rig_open(*state, 0, NULL), *c = rig_open(*state, 2, NULL);
	struct driver_ring *rx = &c->ring[DRIVER_RX(0)];
	uint64_t end = clock_ns() + 10 * MARGIN_MS * 1000000ull;
	int epoll = epoll_create1(0);
	unsigned n = watch_call(epoll, rx->call, fds);
	bool over = n < WATCHES;

	for (unsigned i = 0; !over && clock_ns() < end; i++) {
		swallow(c);
		ring_calls_on(rx);
		driver_reclaim(a, 0);
		if (ring_room(&a->ring[DRIVER_TX(0)]))
			send_one(a, 0, 2, 60, i);
		over = channel_closed(c->fe.sock, 1);
	}
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	close(epoll);
	driver_close(a);
	driver_close(c);
	if (n < WATCHES)
		skip(); /* it may not have so many descriptors */
	assert_true(over);
	assert_int_equal(rig_refused(*state, 2, "call_blocked"), 1);
}

static void call_that_is_full_counts_as_called(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);

	for (unsigned i = 0; i < 2; i++)
		saturate(&b->ring[i]);
	ring_calls_on(&b->ring[DRIVER_RX(0)]);
	pass_and_close(a, b);
}

/* The worker hangs in calling it, until the watchdog notices. */
static void block_worker(struct driver *c)
{
	saturate(&c->ring[DRIVER_TX(0)]);
	assert_int_equal(fcntl(c->ring[DRIVER_TX(0)].call, F_SETFL, 0), 0);
	ring_calls_on(&c->ring[DRIVER_TX(0)]);
	send_one(c, 2, 2, 60, 0);
	usleep(5000);
}

/* One that is replaced is closed late, for a worker may be about to write to it: here, it is. */
static void calls_replaced_without_end_do_not_pile_up(void **state)
{
	struct driver_config quiet = { .protocol = BIT(VHOST_USER_PROTOCOL_F_MQ) }; /* no answers */
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, &quiet);
	struct driver *c = rig_open(*state, 2, NULL);
	unsigned fds = rig_open_fds(*state), most = 0;
	struct error err;

	block_worker(c);
	for (unsigned i = 0; i < CALLS; i++) {
		assert_int_equal(frontend_set_fd(&b->fe, VHOST_USER_SET_VRING_CALL, i % 2,
						 b->ring[i % 2].call, &err),
				 0);
		if (i % 512 == 0)
			most = MAX(most, rig_open_fds(*state));
	}
	assert_int_equal(frontend_sync(&b->fe, &err), 0);
	print_message("# %u descriptors open in the switch, then up to %u\n", fds, most);
	assert_in_range(most, 0, fds + CALLS_LATE);
	driver_close(c);
	rig_wait_state(*state, 2, "waiting");
	for (unsigned i = 0; i < 200 && rig_open_fds(*state) > fds; i++)
		usleep(10000);
	assert_in_range(rig_open_fds(*state), 0, fds);
	pass_and_close(a, b);
}

/* A kick that stays readable, and one that would block a reader, cost no more than kicks. */
static void kicks_are_never_read(void **state)
{
	struct driver *a = rig_open(*state, 0, NULL), *b = rig_open(*state, 1, NULL);

	for (unsigned i = 0; i < 2; i++) {
		uint64_t n = i ? 1ull << 60 : 1;

		assert_int_equal(fcntl(a->ring[i].kick, F_SETFL, 0), 0);
		assert_int_equal(write(a->ring[i].kick, &n, sizeof(n)), sizeof(n));
		assert_int_equal(fcntl(a->ring[i].kick, F_SETFL, O_NONBLOCK), 0);
	}
	pass_and_close(a, b);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		CASE(memory_file_is_truncated),
		CASE(calls_that_block_harm_their_own_session_only),
		CASE(calls_that_last_end_their_session),
		CASE(call_that_is_full_counts_as_called),
		CASE(calls_replaced_without_end_do_not_pile_up),
		CASE(kicks_are_never_read),
		CASE(everything_changes_while_it_is_read),
		CASE(holes_are_punched),
		CASE(rings_lie_on_each_other),
		CASE(buffers_lie_on_their_ring),
		CASE(available_index_jumps),
		CASE(used_index_is_overwritten),
	};

	setenv("RINGWAY_TEST_MESSAGES_MAX", "0", 1);
	return rig_run("memory", tests, ARRAY_SIZE(tests), 2);
}
