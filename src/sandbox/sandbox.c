// SPDX-License-Identifier: Apache-2.0
#include "sandbox/sandbox.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/layers.h"

/*
 * What is permitted is all that counts: nothing is ever executed again, so what a program would be
 * given then (inheritable, ambient, bounding) is without meaning.
 */
static int drop_capabilities(bool keep_net_admin, struct error *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	uint32_t keep = keep_net_admin ? BIT(CAP_NET_ADMIN) : 0;

	if (syscall(SYS_capget, &header, data) < 0)
		return error_set(err, errno, "cannot read capabilities: %s", strerror(errno));
	for (unsigned i = 0; i < ARRAY_SIZE(data); i++) {
		data[i].effective &= i ? 0 : keep;
		data[i].permitted &= i ? 0 : keep;
		data[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &header, data) < 0)
		return error_set(err, errno, "cannot drop capabilities: %s", strerror(errno));
	return 0;
}

int sandbox_enter(const struct sandbox *sandbox, struct error *err)
{
	int r = drop_capabilities(sandbox->taps_later, err);

	if (!r && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		r = error_set(err, errno, "cannot set no_new_privs: %s", strerror(errno));
	if (!r)
		r = landlock_enter(sandbox, err);
	if (!r)
		r = seccomp_enter(sandbox, err);
	return r;
}
