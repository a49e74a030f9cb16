/* SPDX-License-Identifier: Apache-2.0 */
/* IP, UDP and TCP headers as far as their sizes go, and numbers as they lie in them. */
#ifndef RINGWAY_NET_IP_H
#define RINGWAY_NET_IP_H

#include <stdint.h>

#define IPV4_HEADER_MIN 20
#define IPV4_FRAGMENT	0x3fff /* at byte 6: more fragments, or an offset */
#define IPV6_HEADER_LEN 40
#define TCP_HEADER_MIN	20
#define TCP_HEADER_MAX	60
#define UDP_HEADER_LEN	8u

static inline uint32_t load16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

#endif
