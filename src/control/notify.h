/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the service manager, if there is one ($NOTIFY_SOCKET), how the switch is doing. */
#ifndef RINGWAY_CONTROL_NOTIFY_H
#define RINGWAY_CONTROL_NOTIFY_H

/* `state` is e.g. "READY=1". 0, also if nobody asked, or a negative errno. */
int notify_send(const char *state);

#endif
