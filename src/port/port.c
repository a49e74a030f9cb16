// SPDX-License-Identifier: Apache-2.0
#include "port/port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

void port_init(struct port *port, const struct port_ops *ops, const struct port_env *env,
	       const char *name)
{
	port->ops = ops;
	port->env = env;
	snprintf(port->name, sizeof(port->name), "%s", name);
	port->log.name = port->name;
	port->log.max = LOG_MAX;
}

void port_end(struct port *port, void (*release)(struct rcu_item *item))
{
	log_end(&port->log);
	rcu_free_later(&port->rcu, release);
}

int port_option_log_max(const struct port_option *option, unsigned *ret, struct error *err)
{
	return port_option_number(option, 10, 0, LOG_MAX_END, ret, err);
}

void port_report_common(const struct port *port, struct port_report *ret)
{
	ret->limit[ret->limits++] = (struct port_limit){ "log-max", port->log.max };
	ret->refused[REFUSAL_LOG_MAX] = port->log.left_out;
	for (unsigned i = 0; i < DROP_COUNT; i++)
		ret->egress.dropped[i] += load_relaxed(&port->egress_dropped[i]);
}

int port_option_number(const struct port_option *option, int base, unsigned min, unsigned max,
		       unsigned *ret, struct error *err)
{
	char *end;
	unsigned long v;

	errno = 0;
	v = strtoul(option->value, &end, base);
	if (errno || option->value[0] < '0' || option->value[0] > '9' || *end || v < min || v > max)
		return error_set(err, EINVAL,
				 base == 8 ? "%s=%.40s: give %o to %o, in octal"
					   : "%s=%.40s: give %u to %u",
				 option->key, option->value, min, max);
	*ret = (unsigned)v;
	return 0;
}

bool port_name_valid(const char *name)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.:-";
	size_t len = strlen(name);

	return len && len <= PORT_NAME_MAX && name[0] != '-' && strspn(name, allowed) == len;
}
