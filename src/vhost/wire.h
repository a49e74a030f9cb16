/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of the vhost-user protocol, as QEMU's document "Vhost-user Protocol" defines them:
 * shared by the device side (src/vhost) and by the driver (src/driver), which share no other code.
 */
#ifndef RINGWAY_VHOST_WIRE_H
#define RINGWAY_VHOST_WIRE_H

#include <stdint.h>

enum vhost_user_request {
	VHOST_USER_GET_FEATURES = 1,
	VHOST_USER_SET_FEATURES = 2,
	VHOST_USER_SET_OWNER = 3,
	VHOST_USER_RESET_OWNER = 4,
	VHOST_USER_SET_MEM_TABLE = 5,
	VHOST_USER_SET_LOG_BASE = 6,
	VHOST_USER_SET_LOG_FD = 7,
	VHOST_USER_SET_VRING_NUM = 8,
	VHOST_USER_SET_VRING_ADDR = 9,
	VHOST_USER_SET_VRING_BASE = 10,
	VHOST_USER_GET_VRING_BASE = 11,
	VHOST_USER_SET_VRING_KICK = 12,
	VHOST_USER_SET_VRING_CALL = 13,
	VHOST_USER_SET_VRING_ERR = 14,
	VHOST_USER_GET_PROTOCOL_FEATURES = 15,
	VHOST_USER_SET_PROTOCOL_FEATURES = 16,
	VHOST_USER_GET_QUEUE_NUM = 17,
	VHOST_USER_SET_VRING_ENABLE = 18,
	VHOST_USER_SEND_RARP = 19,
	VHOST_USER_NET_SET_MTU = 20,
	VHOST_USER_SET_BACKEND_REQ_FD = 21,
	VHOST_USER_IOTLB_MSG = 22,
	VHOST_USER_SET_VRING_ENDIAN = 23,
	VHOST_USER_GET_CONFIG = 24,
	VHOST_USER_SET_CONFIG = 25,
	VHOST_USER_POSTCOPY_ADVISE = 28,
	VHOST_USER_POSTCOPY_LISTEN = 29,
	VHOST_USER_POSTCOPY_END = 30,
	VHOST_USER_GET_INFLIGHT_FD = 31,
	VHOST_USER_SET_INFLIGHT_FD = 32,
	VHOST_USER_GPU_SET_SOCKET = 33,
	VHOST_USER_RESET_DEVICE = 34,
	VHOST_USER_GET_MAX_MEM_SLOTS = 36,
	VHOST_USER_ADD_MEM_REG = 37,
	VHOST_USER_REM_MEM_REG = 38,
	VHOST_USER_SET_STATUS = 39,
	VHOST_USER_GET_STATUS = 40,
};

enum vhost_user_protocol_feature {
	VHOST_USER_PROTOCOL_F_MQ = 0,
	VHOST_USER_PROTOCOL_F_LOG_SHMFD = 1,
	VHOST_USER_PROTOCOL_F_RARP = 2,
	VHOST_USER_PROTOCOL_F_REPLY_ACK = 3,
	VHOST_USER_PROTOCOL_F_NET_MTU = 4,
	VHOST_USER_PROTOCOL_F_BACKEND_REQ = 5,
	VHOST_USER_PROTOCOL_F_INFLIGHT_SHMFD = 12,
	VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS = 15,
	VHOST_USER_PROTOCOL_F_STATUS = 16,
};

/* In the device's feature bits; whether SET_PROTOCOL_FEATURES and SET_VRING_ENABLE exist. */
#define VHOST_USER_F_PROTOCOL_FEATURES 30

#define VHOST_USER_VERSION	0x1u
#define VHOST_USER_VERSION_MASK 0x3u
#define VHOST_USER_REPLY	0x4u
#define VHOST_USER_NEED_REPLY	0x8u

/* In the u64 of SET_VRING_KICK, _CALL and _ERR: the ring's index, and "no descriptor comes". */
#define VHOST_USER_VRING_INDEX_MASK 0xffu
#define VHOST_USER_VRING_NOFD	    0x100u

#define VHOST_USER_MEM_TABLE_MAX 8 /* regions in SET_MEM_TABLE */
#define VHOST_USER_FDS_MAX	 8 /* descriptors with one message */
#define VHOST_USER_PAYLOAD_MAX	 4096

struct vhost_user_header {
	uint32_t request;
	uint32_t flags;
	uint32_t size; /* of the payload that follows */
} __attribute__((packed));

struct vhost_user_vring_state {
	uint32_t index;
	uint32_t num;
};

struct vhost_user_vring_addr {
	uint32_t index;
	uint32_t flags;
	uint64_t desc;
	uint64_t used;
	uint64_t avail;
	uint64_t log;
};

struct vhost_user_region {
	uint64_t guest_phys_addr;
	uint64_t memory_size;
	uint64_t userspace_addr;
	uint64_t mmap_offset;
};

struct vhost_user_memory {
	uint32_t regions;
	uint32_t padding;
	struct vhost_user_region region[VHOST_USER_MEM_TABLE_MAX];
};

struct vhost_user_memory_region {
	uint64_t padding;
	struct vhost_user_region region;
};

union vhost_user_payload {
	uint64_t u64;
	struct vhost_user_vring_state state;
	struct vhost_user_vring_addr addr;
	struct vhost_user_memory memory;
	struct vhost_user_memory_region region;
	uint8_t bytes[VHOST_USER_PAYLOAD_MAX];
};

#endif
