// SPDX-License-Identifier: Apache-2.0
/*
 * The table of messages. A row is all there is to know about one: session.c frames, answers and
 * closes descriptors by the table alone, so that no handler can forget to.
 *
 * Ring indexes are 32 bits wide in some messages and 8 in others; they are handed on as they came,
 * never narrowed, and checked where they are used (CVE-2020-10723).
 */
#include "vhost/messages.h"

#include <errno.h>
#include <stddef.h>

#define HANDLER(name) \
	static int name(struct vhost_device *dev, struct message *m, struct error *err)

HANDLER(get_features)
{
	m->payload.u64 = device_offer(dev);
	return 0;
}

HANDLER(set_features)
{
	return device_set_features(dev, m->payload.u64, err);
}

HANDLER(get_protocol_features)
{
	m->payload.u64 = VHOST_PROTOCOL_FEATURES_OFFERED;
	return 0;
}

HANDLER(set_protocol_features)
{
	return device_set_protocol_features(dev, m->payload.u64, err);
}

/* SET_OWNER begins a session, which has begun; RESET_OWNER is best ignored, says the document. */
HANDLER(nothing_to_do)
{
	return 0;
}

HANDLER(get_queue_num)
{
	m->payload.u64 = VHOST_PAIRS_MAX;
	return 0;
}

HANDLER(get_max_mem_slots)
{
	m->payload.u64 = GUEST_REGIONS_MAX;
	return 0;
}

HANDLER(get_status)
{
	m->payload.u64 = device_status(dev);
	return 0;
}

HANDLER(set_status)
{
	return device_set_status(dev, m->payload.u64, err);
}

HANDLER(net_set_mtu)
{
	return device_set_front_mtu(dev, m->payload.u64, err);
}

static struct guest_region_desc region_desc(const struct vhost_user_region *r)
{
	return (struct guest_region_desc){
		.gpa = r->guest_phys_addr,
		.size = r->memory_size,
		.uva = r->userspace_addr,
		.offset = r->mmap_offset,
	};
}

/* Some front-ends send all eight regions, whatever their number. */
HANDLER(set_mem_table)
{
	const struct vhost_user_memory *table = &m->payload.memory;
	struct guest_mapping *mappings[VHOST_USER_MEM_TABLE_MAX] = { NULL };
	unsigned n = table->regions, mapped = 0;
	int r = 0;

	if (n > VHOST_USER_MEM_TABLE_MAX || m->fds != n)
		return error_set(err, EPROTO, "%u memory region%s with %u descriptor%s", n,
				 plural_s(n), m->fds, plural_s(m->fds));
	if (m->header.size !=
		    offsetof(struct vhost_user_memory, region) + n * sizeof(table->region[0]) &&
	    m->header.size != sizeof(*table))
		return error_set(err, EPROTO, "%u bytes are no table of %u memory region%s",
				 m->header.size, n, plural_s(n));
	while (mapped < n && !r) {
		struct guest_region_desc desc = region_desc(&table->region[mapped]);

		r = guest_mapping_create(m->fd[mapped], &desc, &mappings[mapped], err);
		if (!r)
			mapped++;
	}
	if (!r)
		r = device_set_memory(dev, mappings, n, err);
	while (mapped)
		guest_mapping_put(mappings[--mapped]);
	return r;
}

HANDLER(add_mem_reg)
{
	struct guest_region_desc desc = region_desc(&m->payload.region.region);
	struct guest_mapping *mapping;
	int r = guest_mapping_create(m->fd[0], &desc, &mapping, err);

	if (r)
		return r;
	r = device_add_region(dev, mapping, err);
	guest_mapping_put(mapping);
	return r;
}

/* The descriptor that QEMU sends along is not looked at. */
HANDLER(rem_mem_reg)
{
	struct guest_region_desc desc = region_desc(&m->payload.region.region);

	return device_del_region(dev, &desc, err);
}

HANDLER(set_vring_num)
{
	return device_set_size(dev, m->payload.state.index, m->payload.state.num, err);
}

HANDLER(set_vring_base)
{
	return device_set_base(dev, m->payload.state.index, m->payload.state.num, err);
}

HANDLER(get_vring_base)
{
	int r = device_get_base(dev, m->payload.state.index, &m->payload.state.num, err);

	if (r)
		m->payload.state.num = UINT32_MAX; /* no base: those have 16 bits */
	return r;
}

HANDLER(set_vring_addr)
{
	const struct vhost_user_vring_addr *a = &m->payload.addr;
	struct vhost_ring_addr addr = { .desc = a->desc, .avail = a->avail, .used = a->used };

	/* VHOST_VRING_F_LOG goes with features that are not offered. */
	if (a->flags)
		return error_set(err, EINVAL, "ring %u: flags %#x", a->index, a->flags);
	return device_set_addr(dev, a->index, &addr, err);
}

HANDLER(set_vring_enable)
{
	const struct vhost_user_vring_state *s = &m->payload.state;

	if (s->num > 1)
		return error_set(err, EINVAL, "ring %u: neither enabled nor disabled: %u", s->index,
				 s->num);
	return device_set_enabled(dev, s->index, s->num, err);
}

typedef int (*set_vring_fd)(struct vhost_device *dev, unsigned index, int fd, struct error *err);

static int set_vring(struct vhost_device *dev, struct message *m, set_vring_fd set,
		     struct error *err)
{
	const uint64_t known = VHOST_USER_VRING_INDEX_MASK | VHOST_USER_VRING_NOFD;
	unsigned index = m->payload.u64 & VHOST_USER_VRING_INDEX_MASK;
	int r;

	if (m->payload.u64 & ~known)
		return error_set(err, EINVAL, "no ring: %#llx", (unsigned long long)m->payload.u64);
	r = set(dev, index, m->fds ? m->fd[0] : -1, err);
	if (!r && m->fds)
		m->fd[0] = -1;
	return r;
}

HANDLER(set_vring_kick)
{
	return set_vring(dev, m, device_set_kick, err);
}

HANDLER(set_vring_call)
{
	return set_vring(dev, m, device_set_call, err);
}

HANDLER(set_vring_err)
{
	return set_vring(dev, m, device_set_err, err);
}

HANDLER(refuse)
{
	return error_set(err, EOPNOTSUPP, "not offered");
}

#define U64    sizeof(uint64_t)
#define STATE  sizeof(struct vhost_user_vring_state)
#define ADDR   sizeof(struct vhost_user_vring_addr)
#define REGION sizeof(struct vhost_user_memory_region)
#define TABLE  sizeof(struct vhost_user_memory)
#define ANY    VHOST_USER_PAYLOAD_MAX

#define NOFD  MESSAGE_NOFD
#define FATAL MESSAGE_FATAL

#define F(name) (1u << VHOST_USER_PROTOCOL_F_##name)

#define ROW(NAME, SIZE_MIN, SIZE_MAX, FDS_MIN, FDS_MAX, REPLY, NEEDS, FLAGS, HANDLE) \
	[VHOST_USER_##NAME] = { #NAME, SIZE_MIN, SIZE_MAX, FDS_MIN, FDS_MAX,         \
				REPLY, FLAGS,	 NEEDS,	   HANDLE },
#define NOT_OFFERED(NAME) ROW(NAME, 0, ANY, 0, VHOST_USER_FDS_MAX, 0, 0, 0, refuse)

static const struct message_type types[] = {
	/* clang-format off */
	/*  request		   payload	fds    reply  needs	flags		   handler */
	ROW(GET_FEATURES,	   0, 0,	0, 0,  U64,   0,	0,		   get_features)
	ROW(SET_FEATURES,	   U64, U64,	0, 0,  0,     0,	0,		   set_features)
	ROW(SET_OWNER,		   0, 0,	0, 0,  0,     0,	0,		   nothing_to_do)
	ROW(RESET_OWNER,	   0, 0,	0, 0,  0,     0,	0,		   nothing_to_do)
	ROW(SET_MEM_TABLE,	   8, TABLE,	0, 8,  0,     0,	FATAL,		   set_mem_table)
	ROW(SET_VRING_NUM,	   STATE, STATE, 0, 0, 0,     0,	0,		   set_vring_num)
	ROW(SET_VRING_ADDR,	   ADDR, ADDR,	0, 0,  0,     0,	0,		   set_vring_addr)
	ROW(SET_VRING_BASE,	   STATE, STATE, 0, 0, 0,     0,	0,		   set_vring_base)
	ROW(GET_VRING_BASE,	   STATE, STATE, 0, 0, STATE, 0,	0,		   get_vring_base)
	ROW(SET_VRING_KICK,	   U64, U64,	0, 1,  0,     0,	NOFD,		   set_vring_kick)
	ROW(SET_VRING_CALL,	   U64, U64,	0, 1,  0,     0,	NOFD,		   set_vring_call)
	ROW(SET_VRING_ERR,	   U64, U64,	0, 1,  0,     0,	NOFD,		   set_vring_err)
	ROW(GET_PROTOCOL_FEATURES, 0, 0,	0, 0,  U64,   0,	0,		   get_protocol_features)
	ROW(SET_PROTOCOL_FEATURES, U64, U64,	0, 0,  0,     0,	0,		   set_protocol_features)
	/* Front-ends ask for this one when MQ was offered, agreed to or not. */
	ROW(GET_QUEUE_NUM,	   0, 0,	0, 0,  U64,   0,	0,		   get_queue_num)
	/* QEMU sends it before SET_FEATURES, so that no feature can be asked for. */
	ROW(SET_VRING_ENABLE,	   STATE, STATE, 0, 0, 0,     0,	0,		   set_vring_enable)
	ROW(NET_SET_MTU,	   U64, U64,	0, 0,  0,     F(NET_MTU), 0,	   net_set_mtu)
	ROW(GET_MAX_MEM_SLOTS,	   0, 0,	0, 0,  U64,   F(CONFIGURE_MEM_SLOTS), 0,   get_max_mem_slots)
	ROW(ADD_MEM_REG,	   REGION, REGION, 1, 1, 0,   F(CONFIGURE_MEM_SLOTS), FATAL,   add_mem_reg)
	ROW(REM_MEM_REG,	   REGION, REGION, 0, 1, 0,   F(CONFIGURE_MEM_SLOTS), 0,	   rem_mem_reg)
	ROW(SET_STATUS,		   U64, U64,	0, 0,  0,     F(STATUS), 0,		   set_status)
	ROW(GET_STATUS,		   0, 0,	0, 0,  U64,   F(STATUS), 0,		   get_status)
	NOT_OFFERED(SET_LOG_BASE)
	NOT_OFFERED(SET_LOG_FD)
	NOT_OFFERED(SEND_RARP)
	NOT_OFFERED(SET_BACKEND_REQ_FD)
	NOT_OFFERED(IOTLB_MSG)
	NOT_OFFERED(SET_VRING_ENDIAN)
	NOT_OFFERED(GET_CONFIG)
	NOT_OFFERED(SET_CONFIG)
	NOT_OFFERED(POSTCOPY_ADVISE)
	NOT_OFFERED(POSTCOPY_LISTEN)
	NOT_OFFERED(POSTCOPY_END)
	NOT_OFFERED(GET_INFLIGHT_FD)
	NOT_OFFERED(SET_INFLIGHT_FD)
	NOT_OFFERED(GPU_SET_SOCKET)
	NOT_OFFERED(RESET_DEVICE)
	/* clang-format on */
};

const struct message_type *message_type(uint32_t request)
{
	static const struct message_type unknown = {
		.name = "unknown request",
		.size_max = ANY,
		.fds_max = VHOST_USER_FDS_MAX,
		.handle = refuse,
	};

	return request < ARRAY_SIZE(types) && types[request].name ? &types[request] : &unknown;
}

int message_check_header(const struct vhost_user_header *h, struct error *err)
{
	const struct message_type *type = message_type(h->request);

	if ((h->flags & VHOST_USER_VERSION_MASK) != VHOST_USER_VERSION)
		return error_set(err, EPROTO, "%s (%u): protocol version %u instead of %u",
				 type->name, h->request, h->flags & VHOST_USER_VERSION_MASK,
				 VHOST_USER_VERSION);
	if (h->flags & VHOST_USER_REPLY)
		return error_set(err, EPROTO,
				 "%s (%u): a reply instead of a request; is the other "
				 "side a front-end?",
				 type->name, h->request);
	if (h->size < type->size_min || h->size > type->size_max)
		return error_set(err, EPROTO, "%s (%u): payload of %u byte%s", type->name,
				 h->request, h->size, plural_s(h->size));
	return 0;
}

int message_check(const struct message *m, struct error *err)
{
	const struct message_type *type = message_type(m->header.request);
	unsigned min = type->fds_min, max = type->fds_max;

	if (type->flags & MESSAGE_NOFD)
		min = max = !(m->payload.u64 & VHOST_USER_VRING_NOFD);
	if (m->fds < min || m->fds > max)
		return error_set(err, EPROTO, "%s (%u): %u descriptor%s", type->name,
				 m->header.request, m->fds, plural_s(m->fds));
	return 0;
}

int message_handle(struct vhost_device *dev, struct message *m, uint32_t *ret_reply,
		   struct error *err)
{
	const struct message_type *type = message_type(m->header.request);

	*ret_reply = 0;
	if (type->needs & ~dev->protocol_features)
		return error_set(err, EOPNOTSUPP, "its protocol feature was not agreed to");
	*ret_reply = type->reply;
	return type->handle(dev, m, err);
}
