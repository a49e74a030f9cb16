// SPDX-License-Identifier: Apache-2.0
#include "driver/frontend.h"

#include <errno.h>
#include <linux/virtio_config.h>
#include <string.h>

/* Waits for the answer to `request`. */
static int answer(struct frontend *fe, uint32_t request, struct channel_message *ret,
		  struct error *err)
{
	int rc = channel_receive(fe->sock, ret, fe->timeout_ms);

	if (rc)
		return error_set(err, -rc, "request %u: no answer: %s%s", request, strerror(-rc),
				 rc == -ETIMEDOUT ? "; if another front-end is connected there, "
						    "end that one first"
						  : "");
	if (ret->hdr.request != request || !(ret->hdr.flags & VHOST_USER_REPLY))
		return error_set(err, EPROTO, "request %u: answered with request %u, flags %#x",
				 request, ret->hdr.request, ret->hdr.flags);
	return 0;
}

static int answer_u64(struct frontend *fe, uint32_t request, uint64_t *ret, struct error *err)
{
	struct channel_message m;
	int rc = answer(fe, request, &m, err);

	if (rc)
		return rc;
	if (m.hdr.size != sizeof(*ret))
		return error_set(err, EPROTO, "request %u: an answer of %u bytes", request,
				 m.hdr.size);
	*ret = m.payload.u64;
	return 0;
}

static int send_request(struct frontend *fe, uint32_t request, uint32_t flags, const void *payload,
			uint32_t size, const int *fds, unsigned nfds, struct error *err)
{
	int rc = channel_send(fe->sock, request, VHOST_USER_VERSION | flags, payload, size, fds,
			      nfds);

	return rc ? error_set(err, -rc, "request %u: %s", request, strerror(-rc)) : 0;
}

int frontend_get(struct frontend *fe, uint32_t request, uint64_t *ret, struct error *err)
{
	int rc = send_request(fe, request, 0, NULL, 0, NULL, 0, err);

	return rc ? rc : answer_u64(fe, request, ret, err);
}

int frontend_set(struct frontend *fe, uint32_t request, const void *payload, uint32_t size,
		 const int *fds, unsigned nfds, struct error *err)
{
	bool ack = frontend_has_protocol(fe, VHOST_USER_PROTOCOL_F_REPLY_ACK);
	uint64_t result = 0;
	int rc = send_request(fe, request, ack ? VHOST_USER_NEED_REPLY : 0, payload, size, fds,
			      nfds, err);

	if (rc || !ack)
		return rc;
	rc = answer_u64(fe, request, &result, err);
	if (rc)
		return rc;
	return result ? error_set(err, EREMOTEIO, "request %u: refused", request) : 0;
}

int frontend_set_u64(struct frontend *fe, uint32_t request, uint64_t value, struct error *err)
{
	return frontend_set(fe, request, &value, sizeof(value), NULL, 0, err);
}

static int greet_protocol(struct frontend *fe, uint64_t protocol, struct error *err)
{
	int rc = frontend_get(fe, VHOST_USER_GET_PROTOCOL_FEATURES, &fe->protocol_offered, err);
	uint64_t agreed = fe->protocol_offered & protocol;

	if (rc)
		return rc;
	/* Not yet agreed to, so no answer is asked for. */
	rc = frontend_set_u64(fe, VHOST_USER_SET_PROTOCOL_FEATURES, agreed, err);
	if (rc)
		return rc;
	fe->protocol_agreed = agreed;
	if (frontend_has_protocol(fe, VHOST_USER_PROTOCOL_F_MQ))
		return frontend_get(fe, VHOST_USER_GET_QUEUE_NUM, &fe->pairs_max, err);
	return 0;
}

int frontend_greet(struct frontend *fe, uint64_t features, uint64_t protocol, struct error *err)
{
	int rc = frontend_get(fe, VHOST_USER_GET_FEATURES, &fe->offered, err);

	if (rc)
		return rc;
	fe->pairs_max = 1;
	fe->features = fe->offered & features;
	if (frontend_has(fe, VHOST_USER_F_PROTOCOL_FEATURES)) {
		rc = greet_protocol(fe, protocol, err);
		if (rc)
			return rc;
	}
	return frontend_set(fe, VHOST_USER_SET_OWNER, NULL, 0, NULL, 0, err);
}

int frontend_set_features(struct frontend *fe, struct error *err)
{
	return frontend_set_u64(fe, VHOST_USER_SET_FEATURES, fe->features, err);
}

int frontend_sync(struct frontend *fe, struct error *err)
{
	uint64_t features;

	/* Requests are served in order, and this one is answered always. */
	return frontend_get(fe, VHOST_USER_GET_FEATURES, &features, err);
}

static struct vhost_user_region describe(const struct driver_region *r)
{
	return (struct vhost_user_region){ .guest_phys_addr = r->gpa,
					   .memory_size = r->size,
					   .userspace_addr = r->uva,
					   .mmap_offset = r->offset };
}

int frontend_set_memory(struct frontend *fe, const struct driver_memory *mem, bool slots,
			struct error *err)
{
	struct vhost_user_memory table = { .regions = mem->n };
	int fds[VHOST_USER_MEM_TABLE_MAX], rc;

	if (!slots && mem->n > VHOST_USER_MEM_TABLE_MAX)
		return error_set(err, EINVAL, "%u regions do not fit one table", mem->n);
	for (unsigned i = 0; i < mem->n; i++) {
		struct vhost_user_memory_region one = { .region = describe(&mem->region[i]) };

		if (slots) {
			rc = frontend_set(fe, VHOST_USER_ADD_MEM_REG, &one, sizeof(one),
					  &mem->region[i].fd, 1, err);
			if (rc)
				return rc;
		} else {
			table.region[i] = one.region;
			fds[i] = mem->region[i].fd;
		}
	}
	if (slots)
		return 0;
	return frontend_set(fe, VHOST_USER_SET_MEM_TABLE, &table,
			    (uint32_t)(offsetof(struct vhost_user_memory, region) +
				       mem->n * sizeof(table.region[0])),
			    fds, mem->n, err);
}

int frontend_set_ring(struct frontend *fe, unsigned index, const struct driver_ring *ring,
		      uint32_t base, struct error *err)
{
	struct vhost_user_vring_state num = { index, ring->size }, from = { index, base };
	/* User addresses are our own: region by region they are what the table says. */
	struct vhost_user_vring_addr addr = { .index = index,
					      .desc = (uintptr_t)ring->desc,
					      .avail = (uintptr_t)ring->avail,
					      .used = (uintptr_t)ring->used };
	int rc = frontend_set(fe, VHOST_USER_SET_VRING_NUM, &num, sizeof(num), NULL, 0, err);

	if (!rc)
		rc = frontend_set(fe, VHOST_USER_SET_VRING_BASE, &from, sizeof(from), NULL, 0, err);
	if (!rc)
		rc = frontend_set(fe, VHOST_USER_SET_VRING_ADDR, &addr, sizeof(addr), NULL, 0, err);
	return rc;
}

int frontend_set_fd(struct frontend *fe, uint32_t request, unsigned index, int fd,
		    struct error *err)
{
	uint64_t value = index | (fd < 0 ? VHOST_USER_VRING_NOFD : 0);

	return frontend_set(fe, request, &value, sizeof(value), &fd, fd >= 0, err);
}

int frontend_enable(struct frontend *fe, unsigned index, bool on, struct error *err)
{
	struct vhost_user_vring_state state = { index, on };

	if (!frontend_has(fe, VHOST_USER_F_PROTOCOL_FEATURES))
		return 0;
	return frontend_set(fe, VHOST_USER_SET_VRING_ENABLE, &state, sizeof(state), NULL, 0, err);
}

int frontend_get_base(struct frontend *fe, unsigned index, uint32_t *ret_base, struct error *err)
{
	struct vhost_user_vring_state state = { index, 0 };
	struct channel_message m;
	int rc =
		send_request(fe, VHOST_USER_GET_VRING_BASE, 0, &state, sizeof(state), NULL, 0, err);

	if (!rc)
		rc = answer(fe, VHOST_USER_GET_VRING_BASE, &m, err);
	if (rc)
		return rc;
	if (m.hdr.size != sizeof(state) || m.payload.state.index != index ||
	    (m.payload.state.num > UINT16_MAX && !frontend_has(fe, VIRTIO_F_RING_PACKED)))
		return error_set(err, EPROTO, "a nonsensical answer to GET_VRING_BASE");
	*ret_base = m.payload.state.num;
	return 0;
}

int frontend_add_status(struct frontend *fe, uint8_t bits, struct error *err)
{
	uint64_t status;
	int rc;

	if (!frontend_has_protocol(fe, VHOST_USER_PROTOCOL_F_STATUS))
		return 0;
	rc = frontend_get(fe, VHOST_USER_GET_STATUS, &status, err);
	return rc ? rc : frontend_set_u64(fe, VHOST_USER_SET_STATUS, status | bits, err);
}
