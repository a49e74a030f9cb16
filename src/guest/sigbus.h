/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens when a guest's memory goes away under a copy: the front-end truncates the file or
 * punches a hole, or a hugetlb pool is empty. The kernel sends SIGBUS to the thread that touched
 * it.
 *
 * The handler maps zero pages over the mapping, marks it broken, wakes the control thread and
 * returns: the worker finishes its burst on zeros, and control ends the session. An address that
 * is in no registered mapping is somebody else's fault and keeps its default action.
 */
#ifndef RINGWAY_GUEST_SIGBUS_H
#define RINGWAY_GUEST_SIGBUS_H

#include "base/base.h"

/*
 * Installs the handler; once, before any mapping. Returns an eventfd, owned by this module, that
 * becomes readable when a mapping has broken, or a negative errno.
 */
int sigbus_install(void);

struct sigbus_slot;

/*
 * Watches [base, base + len), which must be what mmap() gave, in whole pages of the file's size
 * `page`. Control thread. NULL if all slots are taken (SIGBUS_SLOTS).
 */
struct sigbus_slot *sigbus_watch(uintptr_t base, size_t len, size_t page);
void sigbus_unwatch(struct sigbus_slot *slot); /* before munmap() */
bool sigbus_broken(const struct sigbus_slot *slot);

#endif
