// SPDX-License-Identifier: Apache-2.0
#include "control/methods.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/daemon.h"
#include "control/report.h"
#include "control/rpc.h"
#include "control/words.h"

/* What a request may say, borrowed from its parameters. */
struct params {
	const char *name, *kind; /* NULL: not said */
	unsigned n;
	struct port_option options[OPTIONS_MAX];
};

static int params_options(const json_t *object, struct params *p, struct error *err)
{
	const char *key;
	json_t *value;

	if (!json_is_object(object))
		return error_set(err, EINVAL, "'options' is an object of strings");
	json_object_foreach ((json_t *)object, key, value) {
		if (!json_is_string(value))
			return error_set(err, EINVAL,
					 "the option '%.40s' is a string, like \"1500\"", key);
		if (p->n == OPTIONS_MAX)
			return error_set(err, EINVAL, "more than %d options; use fewer",
					 OPTIONS_MAX);
		p->options[p->n++] = (struct port_option){ key, json_string_value(value) };
	}
	return options_check(p->options, p->n, err);
}

static int params_parse(const json_t *object, struct params *ret, struct error *err)
{
	const char *key;
	json_t *value;

	*ret = (struct params){ .n = 0 };
	json_object_foreach ((json_t *)object, key, value) {
		int r = 0;

		if (!strcmp(key, "name") && json_is_string(value))
			ret->name = json_string_value(value);
		else if (!strcmp(key, "kind") && json_is_string(value))
			ret->kind = json_string_value(value);
		else if (!strcmp(key, "options"))
			r = params_options(value, ret, err);
		else
			r = error_set(err, EINVAL,
				      "'%.40s' is no parameter; there are the strings 'name' and "
				      "'kind' and the object 'options'",
				      key);
		if (r < 0)
			return r;
	}
	return 0;
}

static int params_of_port(const json_t *object, struct params *ret, struct error *err)
{
	int r = params_parse(object, ret, err);

	if (r < 0)
		return r;
	if (!ret->name)
		return error_set(err, EINVAL, "'name' of the port is missing");
	if (!port_name_valid(ret->name))
		return error_set(err, EINVAL, "'%.40s' is no name for a port", ret->name);
	for (unsigned i = 0; i < ret->n; i++) {
		if (!strcmp(ret->options[i].key, "fd"))
			return error_set(err, EINVAL,
					 "fd= is for 'ringway run' alone, which inherits it; use "
					 "listen= or connect=, of a tap dev=");
	}
	return 0;
}

static int port_add(void *ctx, const json_t *params, json_t **ret_result, struct error *err)
{
	struct params p;
	int r = params_of_port(params, &p, err);

	if (!r && !p.kind)
		r = error_set(err, EINVAL, "'kind' is missing; say one of %s", port_kinds());
	if (!r)
		r = daemon_port_add(ctx, p.name, p.kind, p.options, p.n, err);
	if (!r)
		*ret_result = json_object();
	return r;
}

static int port_del(void *ctx, const json_t *params, json_t **ret_result, struct error *err)
{
	struct params p;
	int r = params_of_port(params, &p, err);

	if (!r)
		r = daemon_port_del(ctx, p.name, err);
	if (!r)
		*ret_result = json_object();
	return r;
}

static int port_set(void *ctx, const json_t *params, json_t **ret_result, struct error *err)
{
	struct params p;
	int r = params_of_port(params, &p, err);

	if (!r && !p.n)
		r = error_set(err, EINVAL, "'options' is missing; say what to set");
	if (!r)
		r = daemon_port_set(ctx, p.name, p.options, p.n, err);
	if (!r)
		*ret_result = report_pending(ctx, p.name);
	return r;
}

static int show(struct daemon *d, const json_t *params, json_t **ret_result, struct error *err,
		int (*report)(struct daemon *d, const char *name, json_t **ret_rows,
			      struct error *err),
		const char *key)
{
	json_t *rows = NULL;
	struct params p;
	int r = params_parse(params, &p, err);

	if (!r)
		r = report(d, p.name, &rows, err);
	if (!r)
		*ret_result = json_pack("{s:o}", key, rows);
	return r;
}

static int show_port(void *ctx, const json_t *params, json_t **ret_result, struct error *err)
{
	struct daemon *d = ctx;
	int r = show(ctx, params, ret_result, err, report_ports, "ports");

	if (!r) {
		json_object_set_new(*ret_result, "ports_max", json_integer(d->sw.ports_max));
		json_object_set_new(*ret_result, "ports_refused",
				    json_integer((json_int_t)d->ports_refused));
		json_object_set_new(*ret_result, "control_refused", report_control_refused(d));
	}
	return r;
}

static int show_queue(void *ctx, const json_t *params, json_t **ret_result, struct error *err)
{
	return show(ctx, params, ret_result, err, report_queues, "queues");
}

static int show_fdb(void *ctx, const json_t *params, json_t **ret_result, struct error *err)
{
	return show(ctx, params, ret_result, err, report_fdb, "fdb");
}

static int show_worker(void *ctx, const json_t *params, json_t **ret_result, struct error *err)
{
	return show(ctx, params, ret_result, err, report_workers, "workers");
}

static int show_feature(void *ctx, const json_t *params, json_t **ret_result, struct error *err)
{
	return show(ctx, params, ret_result, err, report_features, "features");
}

static int save(void *ctx, const json_t *params, json_t **ret_result, struct error *err)
{
	struct params p;
	char *text;
	int r = params_parse(params, &p, err);

	if (r < 0)
		return r;
	text = report_config(ctx);
	if (!text)
		return error_no_memory(err);
	*ret_result = json_pack("{s:o}", "config", rpc_string(text));
	free(text);
	return 0;
}

char *methods_answer(void *daemon, const char *line, size_t len)
{
	static const struct rpc_method methods[] = {
		{ "port.add", port_add },
		{ "port.del", port_del },
		{ "port.set", port_set },
		{ "show.port", show_port },
		{ "show.queue", show_queue },
		{ "show.fdb", show_fdb },
		{ "show.worker", show_worker },
		{ "show.feature", show_feature },
		{ "save", save },
	};
	struct daemon *d = daemon;

	return rpc_serve(methods, ARRAY_SIZE(methods), d, d->control_refused, line, len);
}
