// SPDX-License-Identifier: Apache-2.0
#include "port/port.h"

#include <string.h>

#include "port/tap.h"
#include "port/vhost_user.h"

static const struct port_ops *const kinds[] = { &vhost_user_ops, &tap_ops };

const struct port_ops *port_kind(const char *kind)
{
	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (!strcmp(kinds[i]->kind, kind))
			return kinds[i];
	}
	return NULL;
}

const char *port_kinds(void)
{
	return "vhost-user, tap";
}

bool port_name_valid(const char *name)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.:-";
	size_t len = strlen(name);

	return len && len <= PORT_NAME_MAX && name[0] != '-' && strspn(name, allowed) == len;
}
