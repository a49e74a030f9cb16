/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file on FUSE whose server answers until it is open, and then nothing any more: whoever asks the
 * file system about it waits for ever, or until the server is ended.
 */
#ifndef RINGWAY_TESTS_HOSTILE_SLOW_FILE_H
#define RINGWAY_TESTS_HOSTILE_SLOW_FILE_H

#include <pthread.h>
#include <stdbool.h>

struct slow_file {
	int fd; /* of the file */
	int dev;
	char folder[40];
	pthread_t server;
};

/* False with a message on stderr if there is no FUSE, or it may not be mounted here. */
bool slow_file_open(struct slow_file *f);
/* Ends the server: who waited goes on with an error. */
void slow_file_close(struct slow_file *f);

#endif
