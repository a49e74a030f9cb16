/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A frame's flow, as a symmetric hash: both directions of a connection have the same one.
 *
 * Reads IPv4 and IPv6 addresses and TCP, UDP and SCTP ports behind up to two VLAN tags; fragments
 * and everything else hash by addresses alone, other protocols by MAC addresses, so that one
 * flow never has two hashes. Never reads past `len`. Pure.
 */
#ifndef RINGWAY_NET_FLOW_H
#define RINGWAY_NET_FLOW_H

#include <stdint.h>

uint32_t flow_hash(const uint8_t *frame, uint32_t len);

#endif
