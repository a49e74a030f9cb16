/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be done to a frame so that a receiver may have it. A pure function of the frame's
 * virtio-net header and what the receiver agreed to.
 */
#ifndef RINGWAY_NET_PLAN_H
#define RINGWAY_NET_PLAN_H

#include <linux/virtio_net.h>

#include "base/base.h"

enum plan {
	PLAN_PASS,	     /* as it is, with its header */
	PLAN_FINISH,	     /* with its checksum finished and a plain header */
	PLAN_SEGMENT,	     /* in segments whose checksums are left to the receiver */
	PLAN_SEGMENT_FINISH, /* in finished segments, each with a plain header */
};

/*
 * For a header that passed vnet_hdr_check() and a receiver that agreed to `features`. `fits`: the
 * receiver has room for the whole frame; only large frames, with a GSO type, can be cut if not. A
 * plan may still fail when it is carried out: a single segment too long, a frame that is not
 * what its header says.
 */
enum plan plan_frame(const struct virtio_net_hdr *hdr, uint64_t features, bool fits);

/*
 * Is this frame's checksum, which its sender has left to others, to be finished for everybody?
 * DHCP's is: clients and servers read it from raw sockets and sum it up themselves, whatever their
 * kernel has agreed to. `hdr` passed vnet_hdr_check(); the frame's first bytes are at `head`.
 */
bool plan_finish_for_all(const struct virtio_net_hdr *hdr, const uint8_t *head, uint32_t head_len);

#endif
