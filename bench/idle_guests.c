// SPDX-License-Identifier: Apache-2.0
/*
 * Guests at the sockets named on the command line: each sends one frame, is answered by none, and
 * then they do nothing until standard input ends. For bench/scale.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/driver.h"

/* To itself: learned and dropped. */
static void say_one(struct driver *d, unsigned guest)
{
	uint8_t frame[60] = { 2, 0, 0, 0, (uint8_t)(guest >> 8), (uint8_t)guest };

	memcpy(frame + 6, frame, 6);
	driver_send(d, 0, NULL, frame, sizeof(frame), NULL);
	driver_flush(d, DRIVER_TX(0));
}

int main(int argc, char **argv)
{
	struct driver **driver = calloc((size_t)argc, sizeof(*driver));
	struct error err = { "out of memory" };
	int status = driver ? 0 : 1;
	char byte;

	for (int i = 1; i < argc && !status; i++) {
		struct driver_config config = { .connect = argv[i] };

		status = driver_open(&config, &driver[i], &err) ? 1 : 0;
		if (!status)
			say_one(driver[i], (unsigned)i);
	}
	if (status)
		fprintf(stderr, "%s\n", err.text);
	else
		puts("ready");
	fflush(stdout);
	while (!status && read(STDIN_FILENO, &byte, 1) > 0)
		;
	for (int i = 1; i < argc && driver; i++)
		driver_close(driver[i]);
	free(driver);
	return status;
}
