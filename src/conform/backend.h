/* SPDX-License-Identifier: Apache-2.0 */
/* The back-end as a child process, if the kit was told how to start it. */
#ifndef RINGWAY_CONFORM_BACKEND_H
#define RINGWAY_CONFORM_BACKEND_H

#include <sys/types.h>

#include "conform/conform.h"

struct backend {
	pid_t child; /* leads a process group; 0: none */
	int stdin;   /* held open: some end when nobody is there to type */
};

int backend_start(struct backend *b, const struct conform_config *config, struct error *err);

/* True if it has ended by itself; how, in words, in `text`. */
bool backend_ended(struct backend *b, char *text, size_t size);

void backend_stop(struct backend *b);

#endif
