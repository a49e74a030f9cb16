/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the service manager, if there is one ($NOTIFY_SOCKET), how the switch is doing. */
#ifndef RINGWAY_CONTROL_NOTIFY_H
#define RINGWAY_CONTROL_NOTIFY_H

/*
 * Connects to it: before the process is confined, for the socket may be an abstract one. 0, also if
 * nobody asked, or a negative errno.
 */
int notify_open(void);
/* `state` is e.g. "READY=1". */
void notify_send(const char *state);

#endif
