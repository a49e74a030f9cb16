/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of feature bits: what is offered, what `ringway show feature` prints, and the names
 * that people write and read.
 *
 * X(bit, name, offered, what it means here)
 */
#ifndef RINGWAY_VHOST_FEATURES_H
#define RINGWAY_VHOST_FEATURES_H

#include <linux/virtio_config.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>

#include "base/base.h"
#include "base/error.h"
#include "net/gso.h"
#include "vhost/wire.h"

#define VIRTIO_FEATURES(X)                                                                         \
	X(VIRTIO_NET_F_CSUM, csum, 1, "the guest may send unfinished checksums")                   \
	X(VIRTIO_NET_F_GUEST_CSUM, guest_csum, 1, "the guest takes unfinished checksums")          \
	X(VIRTIO_NET_F_MTU, mtu, 1, "the front-end tells the guest its MTU")                       \
	X(VIRTIO_NET_F_GUEST_TSO4, guest_tso4, 1, "the guest takes large TCP/IPv4 frames")         \
	X(VIRTIO_NET_F_GUEST_TSO6, guest_tso6, 1, "the guest takes large TCP/IPv6 frames")         \
	X(VIRTIO_NET_F_GUEST_ECN, guest_ecn, 1, "the guest takes large frames with CWR set")       \
	X(VIRTIO_NET_F_GUEST_UFO, guest_ufo, 0, "obsolete")                                        \
	X(VIRTIO_NET_F_HOST_TSO4, host_tso4, 1, "the guest may send large TCP/IPv4 frames")        \
	X(VIRTIO_NET_F_HOST_TSO6, host_tso6, 1, "the guest may send large TCP/IPv6 frames")        \
	X(VIRTIO_NET_F_HOST_ECN, host_ecn, 1, "the guest may send large frames with CWR set")      \
	X(VIRTIO_NET_F_HOST_UFO, host_ufo, 0, "obsolete")                                          \
	X(VIRTIO_NET_F_MRG_RXBUF, mrg_rxbuf, 1, "a received frame may take several buffers")       \
	X(VIRTIO_NET_F_STATUS, status, 1, "the front-end tells the guest its carrier")             \
	X(VIRTIO_NET_F_CTRL_VQ, ctrl_vq, 1, "a control queue, served by the front-end")            \
	X(VIRTIO_NET_F_CTRL_RX, ctrl_rx, 1, "receive modes, kept by the front-end")                \
	X(VIRTIO_NET_F_MQ, mq, 1, "several queue pairs")                                           \
	X(VIRTIO_F_ANY_LAYOUT, any_layout, 1, "header and data in descriptors as the guest likes") \
	X(VIRTIO_RING_F_INDIRECT_DESC, indirect_desc, 1, "descriptor tables outside the ring")     \
	X(VIRTIO_RING_F_EVENT_IDX, event_idx, 1, "notifications by index")                         \
	X(VHOST_USER_F_PROTOCOL_FEATURES, protocol_features, 1, "vhost-user protocol features")    \
	X(VIRTIO_F_VERSION_1, version_1, 1, "not a legacy device")                                 \
	X(VIRTIO_F_ACCESS_PLATFORM, access_platform, 0, "an IOMMU in front of the device")         \
	X(VIRTIO_F_RING_PACKED, ring_packed, 1, "packed virtqueues")                               \
	X(VIRTIO_F_IN_ORDER, in_order, 1,                                                          \
	  "buffers are used in the order they were made available")                                \
	X(VIRTIO_NET_F_GUEST_USO4, guest_uso4, 1, "the guest takes large UDP/IPv4 frames")         \
	X(VIRTIO_NET_F_GUEST_USO6, guest_uso6, 1, "the guest takes large UDP/IPv6 frames")         \
	X(VIRTIO_NET_F_HOST_USO, host_uso, 1, "the guest may send large UDP frames")

/*
 * What an operator can take out of the offer: X(name, bits). Each makes sense by itself, and a
 * guest without it still works.
 */
#define VIRTIO_FEATURE_GROUPS(X)                                                  \
	X(csum, BIT(VIRTIO_NET_F_CSUM))                                           \
	X(guest_csum, BIT(VIRTIO_NET_F_GUEST_CSUM))                               \
	X(tso, BIT(VIRTIO_NET_F_HOST_TSO4) | BIT(VIRTIO_NET_F_HOST_TSO6))         \
	X(guest_tso, BIT(VIRTIO_NET_F_GUEST_TSO4) | BIT(VIRTIO_NET_F_GUEST_TSO6)) \
	X(uso, BIT(VIRTIO_NET_F_HOST_USO))                                        \
	X(guest_uso, BIT(VIRTIO_NET_F_GUEST_USO4) | BIT(VIRTIO_NET_F_GUEST_USO6)) \
	X(mrg_rxbuf, BIT(VIRTIO_NET_F_MRG_RXBUF))                                 \
	X(mq, BIT(VIRTIO_NET_F_MQ))                                               \
	X(indirect_desc, BIT(VIRTIO_RING_F_INDIRECT_DESC))                        \
	X(event_idx, BIT(VIRTIO_RING_F_EVENT_IDX))                                \
	X(ring_packed, BIT(VIRTIO_F_RING_PACKED))                                 \
	X(in_order, BIT(VIRTIO_F_IN_ORDER))

struct virtio_feature {
	unsigned bit;
	const char *name;
	bool offered;
	const char *text;
};

/* The group of which the bit is, or NULL. */
const char *feature_group(unsigned bit);

extern const struct virtio_feature virtio_features[];
extern const unsigned virtio_features_count;

/* All bits that are offered by default. */
uint64_t features_offered(void);

/*
 * What is offered less the groups in `text`, "-csum,-mq", and less what cannot be without them
 * (virtio 1.3, 5.1.3.1). "" or "all": everything. 0, or -EINVAL with `err` filled.
 */
int features_parse(const char *text, uint64_t *ret_offered, struct error *err);

/* Writes "csum,mrg_rxbuf,..." into `text`, known bits by name and others as bitN. */
void features_text(uint64_t features, char *text, size_t size);
/* The same of the protocol's features. */
void protocol_features_text(uint64_t features, char *text, size_t size);

#define VHOST_PROTOCOL_FEATURES_OFFERED                                                        \
	(BIT(VHOST_USER_PROTOCOL_F_MQ) | BIT(VHOST_USER_PROTOCOL_F_REPLY_ACK) |                \
	 BIT(VHOST_USER_PROTOCOL_F_NET_MTU) | BIT(VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS) | \
	 BIT(VHOST_USER_PROTOCOL_F_STATUS))

#endif
