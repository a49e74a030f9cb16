// SPDX-License-Identifier: Apache-2.0
/*
 * The table is read inside a signal handler on any thread while control changes it, so a slot is a
 * few words that are valid from the release of `base` until it is zeroed again. Only mappings that
 * are watched are touched by workers, and one is unwatched only when no worker can reach it: the
 * slot of the address stays what it is, but those that are looked at on the way to it may not.
 *
 * The handler calls mmap() and write(), which are bare system calls and safe there.
 */
#include "guest/sigbus.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomic.h"

#define SIGBUS_SLOTS 32768 /* half of the mappings that a process may have by default */

struct sigbus_slot {
	uintptr_t base; /* 0: free */
	size_t len, page;
	uint32_t turn; /* how often it was taken */
	uint32_t broken;
};

static struct sigbus_slot slots[SIGBUS_SLOTS];
static unsigned slots_end; /* one more than the highest that was ever used */
static int wake_fd = -1;

static struct sigbus_slot *sigbus_find(uintptr_t addr)
{
	unsigned end = load_acquire(&slots_end);

	for (unsigned i = 0; i < end; i++) {
		uint32_t turn = load_acquire(&slots[i].turn);
		uintptr_t base = load_acquire(&slots[i].base);
		size_t len = load_acquire(&slots[i].len);

		/* Base and length of one mapping, unless the slot has become another's between. */
		if (base && addr >= base && addr - base < len &&
		    load_relaxed(&slots[i].turn) == turn)
			return &slots[i];
	}
	return NULL;
}

/* MAP_NORESERVE: the zeros must not fail for want of memory; nobody reads them for long. */
static bool map_zeros(uintptr_t at, size_t len)
{
	return mmap((void *)at, len, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

/*
 * All of it at once, or each of its pages would fault, and each page be a mapping of its own, of
 * which a process may have some 65000. But where the kernel promises no more than it has
 * (vm.overcommit_memory=2, which ignores MAP_NORESERVE) there may be room for a page only.
 */
static bool replace(const struct sigbus_slot *slot, uintptr_t addr)
{
	return map_zeros(slot->base, slot->len) ||
	       map_zeros(addr & ~(uintptr_t)(slot->page - 1), slot->page);
}

static void sigbus_handle(int sig, siginfo_t *info, void *context)
{
	uintptr_t addr = (uintptr_t)info->si_addr;
	struct sigbus_slot *slot = sigbus_find(addr);
	int saved = errno;
	uint64_t one = 1;

	if (!slot || !replace(slot, addr)) {
		/* Not ours: the same access faults again, with the default action. */
		signal(sig, SIG_DFL);
		return;
	}
	store_release(&slot->broken, 1u); /* partner: sigbus_broken() */
	if (write(wake_fd, &one, sizeof(one)) < 0)
		(void)0; /* saturated: control is awake already */
	errno = saved;
}

int sigbus_install(void)
{
	struct sigaction action = { .sa_sigaction = sigbus_handle, .sa_flags = SA_SIGINFO };

	if (wake_fd < 0)
		wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (wake_fd < 0)
		return -errno;
	sigaction(SIGBUS, &action, NULL);
	return wake_fd;
}

struct sigbus_slot *sigbus_watch(uintptr_t base, size_t len, size_t page)
{
	for (unsigned i = 0; i < SIGBUS_SLOTS; i++) {
		if (slots[i].base)
			continue;
		/* Partner: sigbus_find(), which sees a base of 0 before it sees these. */
		store_release(&slots[i].turn, slots[i].turn + 1);
		store_release(&slots[i].len, len);
		slots[i].page = page;
		store_relaxed(&slots[i].broken, 0u);
		store_release(&slots[i].base, base); /* partner: sigbus_find() */
		if (i >= slots_end)
			store_release(&slots_end, i + 1);
		return &slots[i];
	}
	return NULL;
}

void sigbus_unwatch(struct sigbus_slot *slot)
{
	store_release(&slot->base, (uintptr_t)0);
}

bool sigbus_broken(const struct sigbus_slot *slot)
{
	return load_acquire(&slot->broken);
}
