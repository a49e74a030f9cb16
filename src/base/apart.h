/* SPDX-License-Identifier: Apache-2.0 */
/* Work that may last, and that nobody waits for. */
#ifndef RINGWAY_BASE_APART_H
#define RINGWAY_BASE_APART_H

/* Does it in a thread of its own, which gets no signals; at once if there is none to be had. */
void apart_do(void *(*work)(void *arg), void *arg);

#endif
