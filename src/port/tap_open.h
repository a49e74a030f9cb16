/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tap devices as the kernel has them: opened, made, looked at. Control thread; errors name the
 * remedy.
 */
#ifndef RINGWAY_PORT_TAP_OPEN_H
#define RINGWAY_PORT_TAP_OPEN_H

#include "base/error.h"

#define TAP_QUEUES_MAX 256 /* the kernel's limit */

/* Is it a name that a network device can have? */
bool tap_name_valid(const char *name);

/*
 * Opens `queues` queues of the device, which is made and brought up if there is none; one that was
 * there is left as it is, up or down. Descriptors are O_NONBLOCK and the caller's; frames have a
 * virtio-net header of 12 bytes and all offloads that the switch knows; *ret_uso says whether UDP
 * segmentation is among them, in both directions (Linux 6.2). 0 or a negative errno with `err`
 * filled and nothing open.
 */
int tap_open(const char *name, unsigned queues, int *ret_fds, bool *ret_uso, struct error *err);

/* The same for a descriptor that somebody else has opened; not closed on error. */
int tap_adopt(int fd, bool *ret_uso, struct error *err);

enum tap_state {
	TAP_UP,
	TAP_DOWN, /* its link is */
	TAP_GONE, /* the device was deleted, perhaps with its network namespace */
};

/* Also of a device that was moved to another network namespace. */
enum tap_state tap_state(int fd);

/* What it is called now; untouched if that is not known. `ret_name` has room for IFNAMSIZ. */
void tap_name(int fd, char *ret_name);

/* -1: not known, because the device is in another network namespace, or gone. */
int tap_mtu(int fd);

#endif
