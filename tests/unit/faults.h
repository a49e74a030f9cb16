/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes what never fails fail: memory, descriptors, threads, and calls whose errors say that the
 * kernel is not as it was. The linker puts a function of ours in front of each (meson.build), which
 * fails when it is the turn of its call; the calls of a scenario have their turns one after the
 * other, a run of it for each.
 */
#ifndef RINGWAY_TEST_FAULTS_H
#define RINGWAY_TEST_FAULTS_H

#include <errno.h>
#include <stdbool.h>

/* Of the thread that tests; what workers and liburcu do is not counted. */
static _Thread_local bool faults_on;
static unsigned faults_calls, faults_turn; /* calls so far, and the one that fails */
static const char *faults_name;		   /* NULL: none did yet */

/* Turns faults on and off again within a scenario, whose own calls shall not fail. */
#define WITH_FAULTS(what)                    \
	({                                   \
		faults_on = true;            \
		__auto_type result = (what); \
		faults_on = false;           \
		result;                      \
	})

static inline bool faults_hit(const char *name, int code)
{
	if (!faults_on || faults_calls++ != faults_turn)
		return false;
	faults_name = name;
	errno = code;
	return true;
}

#define FAULTY(type, name, params, args, failure, code)                        \
	type __real_##name params;                                             \
	type __wrap_##name params;                                             \
	type __wrap_##name params                                              \
	{                                                                      \
		return faults_hit(#name, code) ? failure : __real_##name args; \
	}

#endif
