/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An error for a person: one line that says what is wrong and what to do about it.
 *
 * Functions that a person's input can make fail return 0 or a negative errno and fill the error;
 * they never log it themselves. Whoever holds the request reports it.
 */
#ifndef RINGWAY_BASE_ERROR_H
#define RINGWAY_BASE_ERROR_H

#include "base/base.h"

struct error {
	char text[256];
};

/*
 * Writes the text and is -code, so that it can end a function: `return error_set(...)`. A macro, so
 * that compilers and analysers see that it is not 0.
 */
#define error_set(err, code, ...)                \
	({                                       \
		int error_code = (code);         \
		error_write((err), __VA_ARGS__); \
		-error_code;                     \
	})

/* The one wording for want of memory; -ENOMEM. */
#define error_no_memory(err) error_set((err), ENOMEM, "out of memory")

void error_write(struct error *err, const char *fmt, ...) printf_like(2, 3);

/* strerror(), but a lack of descriptors comes with its remedy. */
const char *error_reason(int code);

#endif
