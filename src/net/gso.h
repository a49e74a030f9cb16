/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of large frames (virtio 1.3, 5.1.6.2): who may send and who may have them, and what
 * they are.
 */
#ifndef RINGWAY_NET_GSO_H
#define RINGWAY_NET_GSO_H

#include <linux/virtio_net.h>

#include "base/base.h"

/* UDP in segments; kernel headers have it since Linux 6.2. */
#ifndef VIRTIO_NET_F_GUEST_USO4
#define VIRTIO_NET_F_GUEST_USO4 54
#define VIRTIO_NET_F_GUEST_USO6 55
#define VIRTIO_NET_F_HOST_USO	56
#endif
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

struct gso {
	uint64_t sender;   /* features that its driver must have agreed to */
	uint64_t receiver; /* and that of who gets it whole */
	bool ipv4, ipv6;   /* what it may be */
	uint8_t protocol;  /* IPPROTO_TCP or _UDP */
	uint16_t csum_offset;
};

/* NULL: the type is not known, or is one that nobody is offered (UFO). */
const struct gso *gso_find(uint8_t gso_type);

#endif
