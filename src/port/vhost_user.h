/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The port that a virtual machine is behind: a vhost-user device and the socket that its sessions
 * come from.
 *
 * Options: one of listen=PATH, connect=PATH, fd=N; mode= and group= of a listening socket; and,
 * to be changed at any time, mtu=, features=, queue-size-max=, finish-csum=, memory-max=,
 * messages-max= and log-max=.
 */
#ifndef RINGWAY_PORT_VHOST_USER_H
#define RINGWAY_PORT_VHOST_USER_H

#include "port/port.h"

extern const struct port_ops vhost_user_ops;

#endif
