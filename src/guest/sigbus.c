// SPDX-License-Identifier: Apache-2.0
/*
 * The table is read inside a signal handler on any thread while control changes it, so a slot is a
 * few words that are valid from the release of `base` until it is zeroed again. Only mappings that
 * are watched are touched by workers, and one is unwatched only when no worker can reach it.
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

#define SIGBUS_SLOTS 4096

struct sigbus_slot {
	uintptr_t base; /* 0: free; partner of the acquire in sigbus_find() */
	size_t len;
	uint32_t broken;
};

static struct sigbus_slot slots[SIGBUS_SLOTS];
static unsigned slots_end; /* one more than the highest that was ever used */
static int wake_fd = -1;

static struct sigbus_slot *sigbus_find(uintptr_t addr)
{
	unsigned end = load_acquire(&slots_end);

	for (unsigned i = 0; i < end; i++) {
		uintptr_t base = load_acquire(&slots[i].base);

		if (base && addr >= base && addr - base < slots[i].len)
			return &slots[i];
	}
	return NULL;
}

static void sigbus_handle(int sig, siginfo_t *info, void *context)
{
	struct sigbus_slot *slot = sigbus_find((uintptr_t)info->si_addr);
	int saved = errno;
	uint64_t one = 1;

	/* MAP_NORESERVE: the zeros must not fail for want of memory; nobody reads them for long. */
	if (!slot ||
	    mmap((void *)slot->base, slot->len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED) {
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
	if (wake_fd < 0 || sigaction(SIGBUS, &action, NULL))
		return -errno;
	return wake_fd;
}

struct sigbus_slot *sigbus_watch(uintptr_t base, size_t len)
{
	for (unsigned i = 0; i < SIGBUS_SLOTS; i++) {
		if (slots[i].base)
			continue;
		slots[i].len = len;
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
