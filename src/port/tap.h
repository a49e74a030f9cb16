/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The port that the host is behind: a tap device, whose other end is the kernel's network.
 *
 * Options: one of dev=NAME, fd=N; queues= of a device; log-max=.
 */
#ifndef RINGWAY_PORT_TAP_H
#define RINGWAY_PORT_TAP_H

#include "port/port.h"

extern const struct port_ops tap_ops;

#endif
