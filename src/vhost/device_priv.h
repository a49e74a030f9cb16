/* SPDX-License-Identifier: Apache-2.0 */
/* What the device as a whole (device.c) asks of its rings (device_rings.c). Control thread. */
#ifndef RINGWAY_VHOST_DEVICE_PRIV_H
#define RINGWAY_VHOST_DEVICE_PRIV_H

#include "vhost/device.h"

/* Brings what the datapath does in line with what is known: features, memory, options, messages. */
void device_ring_update(struct vhost_device *dev, struct vhost_ring *ring);
/* Until the next SET_VRING_KICK; closes the kick descriptor. */
void device_ring_stop(struct vhost_device *dev, struct vhost_ring *ring);
/* As it was before the session. */
void device_ring_reset(struct vhost_device *dev, struct vhost_ring *ring);

#endif
