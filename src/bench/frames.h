/* SPDX-License-Identifier: Apache-2.0 */
/* The frames that the guests of a benchmark send each other: UDP, or large TCP segments. */
#ifndef RINGWAY_BENCH_FRAMES_H
#define RINGWAY_BENCH_FRAMES_H

#include <linux/virtio_net.h>

#include "base/base.h"

#define FRAMES_MAGIC 0x1050 /* in memory 0x50, 0x10: a TCP header of 20 bytes with ACK set */
#define FRAMES_IPV4  0x0800

/*
 * What the first cache line of a frame holds. Beyond IP it means something both as UDP and as TCP.
 */
struct stamp {
	struct virtio_net_hdr_mrg_rxbuf vnet;
	uint8_t dst[6], src[6];
	uint16_t ethertype;
	uint8_t version, tos;
	uint16_t total_len, id, fragment;
	uint8_t ttl, protocol;
	uint16_t ip_csum;
	uint32_t ip_src, ip_dst;
	uint16_t src_port, dst_port;
	uint16_t udp_len, udp_csum; /* TCP: the sequence number */
	uint32_t number;	    /* UDP: data. TCP: the acknowledged number */
	uint16_t magic;		    /* UDP: data. TCP: header length and flags */
	uint16_t flow;		    /* UDP: data. TCP: the window */
	uint16_t tcp_csum;
} __attribute__((packed));

#define STAMP_LINE 64u
_Static_assert(sizeof(struct stamp) == STAMP_LINE, "the stamp is a cache line");

/*
 * Frames from guest 0 or 1 to the other, on queue pair `queue`. `len` counts the virtio-net header,
 * here and below. `segmented`: TCP that is yet to be cut into segments, without a checksum.
 */
void frames_make(struct stamp *s, unsigned guest, unsigned queue, uint32_t len, bool segmented);

/* Makes a UDP frame another length. */
void frames_set_length(struct stamp *s, uint32_t len);

#endif
