/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every access to some memory, one after the other, before it happens: what a program does to
 * memory that it shares, and in which order, as its instructions have it. What the processor may
 * still do to that order is the business of the barriers between them.
 *
 * All of the memory is without access, so each instruction that touches it faults; the page is
 * opened, that instruction alone is executed, and the page is closed again. For x86-64, which says
 * whether a fault was a write and can execute one instruction; elsewhere steps_begin() says no.
 */
#ifndef RINGWAY_TEST_STEPS_H
#define RINGWAY_TEST_STEPS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/base.h"

#define STEPS_MAX  4096u
#define STEPS_PAGE 4096u

struct step_seen {
	uint32_t at; /* from the memory's beginning */
	bool write;
};

static struct steps {
	uint8_t *base;
	size_t size;
	/* Told of each, in a signal's handler. */
	void (*look)(struct step_seen step);
	unsigned n;
	struct step_seen seen[STEPS_MAX];
	struct sigaction was_segv, was_trap;
} steps;

#if defined(__x86_64__)
#define STEPS_WRITE 2u /* in a page fault's error code */
#define STEPS_TRAP  0x100

static inline void steps_fault(int signal, siginfo_t *info, void *context)
{
	ucontext_t *c = context;
	size_t at = (size_t)((uint8_t *)info->si_addr - steps.base);
	struct step_seen step = { (uint32_t)at, c->uc_mcontext.gregs[REG_ERR] & STEPS_WRITE };

	if (at >= steps.size) {
		sigaction(SIGSEGV, &steps.was_segv, NULL); /* not ours: it happens again */
		return;
	}
	if (steps.n < STEPS_MAX)
		steps.seen[steps.n++] = step;
	if (steps.look)
		steps.look(step);
	mprotect(steps.base + at / STEPS_PAGE * STEPS_PAGE, STEPS_PAGE, PROT_READ | PROT_WRITE);
	c->uc_mcontext.gregs[REG_EFL] |= STEPS_TRAP;
}

static inline void steps_trap(int signal, siginfo_t *info, void *context)
{
	ucontext_t *c = context;

	mprotect(steps.base, steps.size, PROT_NONE);
	c->uc_mcontext.gregs[REG_EFL] &= ~STEPS_TRAP;
}

/* From now on, of `size` bytes at `base`, both multiples of a page. False: not on this machine. */
static inline bool steps_begin(void *base, size_t size, void (*look)(struct step_seen))
{
	struct sigaction segv = { .sa_sigaction = steps_fault, .sa_flags = SA_SIGINFO },
			 trap = { .sa_sigaction = steps_trap, .sa_flags = SA_SIGINFO };

	steps.base = base;
	steps.size = size;
	steps.look = look;
	steps.n = 0;
	sigaction(SIGSEGV, &segv, &steps.was_segv);
	sigaction(SIGTRAP, &trap, &steps.was_trap);
	return !mprotect(base, size, PROT_NONE);
}

static inline void steps_end(void)
{
	mprotect(steps.base, steps.size, PROT_READ | PROT_WRITE);
	sigaction(SIGSEGV, &steps.was_segv, NULL);
	sigaction(SIGTRAP, &steps.was_trap, NULL);
}

#else

static inline bool steps_begin(void *base, size_t size, void (*look)(struct step_seen))
{
	return false;
}

static inline void steps_end(void)
{
}

#endif

/* How many of those seen began between `from` and `to`; reads or writes. */
static inline unsigned steps_within(uint32_t from, uint32_t to, bool write)
{
	unsigned n = 0;

	for (unsigned i = 0; i < steps.n; i++)
		n += steps.seen[i].at >= from && steps.seen[i].at < to &&
		     steps.seen[i].write == write;
	return n;
}

#endif
