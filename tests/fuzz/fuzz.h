/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzz target is LLVMFuzzerTestOneInput() and seeds that it makes itself.
 *
 * With clang it is a libFuzzer program; with any compiler, replay.c runs it over the seeds and
 * some mutations of them, so that it is built and passes with the tests.
 */
#ifndef RINGWAY_TESTS_FUZZ_H
#define RINGWAY_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FUZZ_INPUT_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes seed `i` to `data`, which has room for FUZZ_INPUT_MAX. Returns its size; 0: no more. */
size_t fuzz_seed(unsigned i, uint8_t *data);

/* What must hold of every input. */
#define fuzz_check(condition)                                                           \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

#endif
