/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of the sandbox, for sandbox.c. Each is 0 or a negative errno with `err` filled. */
#ifndef RINGWAY_SANDBOX_LAYERS_H
#define RINGWAY_SANDBOX_LAYERS_H

#include "sandbox/sandbox.h"

/*
 * Sanitizers read their process's files in /proc and, at its end, stop its threads as a debugger
 * would. Code that counts its coverage writes its counters then, into the folder SANDBOX_COVERAGE,
 * which meson.build sets.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANDBOX_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANDBOX_SANITIZED 1
#endif
#endif
#ifndef SANDBOX_SANITIZED
#define SANDBOX_SANITIZED 0
#endif

/* Both want no_new_privs. */
int landlock_enter(const struct sandbox *sandbox, struct error *err);
int seccomp_enter(const struct sandbox *sandbox, struct error *err);

#endif
