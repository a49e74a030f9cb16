// SPDX-License-Identifier: Apache-2.0
#include "control/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/rpc.h"
#include "control/words.h"
#include "switch/hold.h"
#include "vhost/features.h"

/* Those that are not 0, by name. */
static json_t *counts(const struct reason *reasons, unsigned n, const uint64_t *count)
{
	json_t *object = json_object();

	for (unsigned i = 1; i < n; i++) {
		if (count[i])
			json_object_set_new(object, reasons[i].name,
					    json_integer((json_int_t)count[i]));
	}
	return object;
}

static json_t *counters(const struct frame_counters *c)
{
	return json_pack("{s:I, s:I, s:o}", "frames", (json_int_t)c->frames, "bytes",
			 (json_int_t)c->bytes, "dropped",
			 counts(drop_reasons, DROP_COUNT, c->dropped));
}

static json_t *limits(const struct port_report *report)
{
	json_t *object = json_object();

	for (unsigned i = 0; i < report->limits; i++)
		json_object_set_new(object, report->limit[i].option,
				    json_integer((json_int_t)report->limit[i].value));
	return object;
}

static json_t *feature_names(uint64_t features)
{
	json_t *names = json_array();
	char name[32];

	for (unsigned bit = 0; bit < 64; bit++) {
		if (!(features & BIT(bit)))
			continue;
		features_text(BIT(bit), name, sizeof(name));
		json_array_append_new(names, json_string(name));
	}
	return names;
}

static json_t *port_row(struct port *port)
{
	struct port_report report;

	port->ops->report(port, &report);
	return json_pack(
		"{s:s, s:s, s:o, s:s, s:o, s:o, s:i, s:o, s:I, s:o, s:s, s:o, s:o, s:o, s:o}",
		"name", port->name, "kind", port->ops->kind, "options",
		rpc_string(port->options ? port->options : ""), "state", report.state, "reason",
		rpc_string(report.reason), "features", feature_names(report.features),
		"queue_pairs", (int)report.queue_pairs, "mtu",
		report.mtu < 0 ? json_null() : json_integer(report.mtu), "memory",
		(json_int_t)report.memory, "last_error", rpc_string(report.last_error), "pending",
		report.pending, "ingress", counters(&report.ingress), "egress",
		counters(&report.egress), "limits", limits(&report), "refused",
		counts(refusal_reasons, REFUSAL_COUNT, report.refused));
}

/* Is there such a port, if one is named at all? */
static int check_name(struct daemon *d, const char *name, struct error *err)
{
	if (name && !switch_find(&d->sw, name))
		return error_set(err, ENOENT, "there is no port '%.40s'; see 'ringway show port'",
				 name);
	return 0;
}

json_t *report_pending(struct daemon *d, const char *name)
{
	struct port *port = switch_find(&d->sw, name);
	struct port_report report;

	memset(&report, 0, sizeof(report));
	if (port)
		port->ops->report(port, &report);
	return json_pack("{s:s}", "pending", report.pending);
}

static bool wanted(const char *name, const char *port)
{
	return !name || !strcmp(name, port);
}

static json_t *queue_row(struct daemon *d, const struct port *port, const struct queue_report *q)
{
	int worker = q->ingress ? pool_owner(d->pool, q->ingress) : -1;
	unsigned held = q->ingress ? hold_frames(q->ingress) : 0;
	const struct queue_load idle = { 0 }, *load = q->ingress ? &q->ingress->load : &idle;
	uint64_t gap = worker < 0 ? 0 : load_relaxed(&q->ingress->poll.gap);

	return json_pack("{s:s, s:i, s:s, s:s, s:s?, s:i, s:I, s:I, s:I, s:i, s:I, s:I, s:o, s:f, "
			 "s:i, s:o, s:o}",
			 "port", port->name, "queue", (int)q->queue, "direction",
			 q->tx ? "tx" : "rx", "state", q->state, "format", q->format, "size",
			 (int)q->size, "frames", (json_int_t)q->frames, "bytes",
			 (json_int_t)q->bytes, "segments", (json_int_t)q->segments, "held",
			 (int)held, "kicks", (json_int_t)q->kicks, "calls", (json_int_t)q->calls,
			 "worker", worker < 0 ? json_null() : json_integer(worker), "load",
			 load->load / 1000.0, "moves", (int)load->moves, "armed",
			 worker < 0 ? json_null() : json_boolean(load_relaxed(&q->ingress->armed)),
			 "gap_ns",
			 gap ? json_integer((json_int_t)(gap * 1000 / clock_cycles_per_us()))
			     : json_null());
}

static int append_port(struct daemon *d, struct port *port, json_t *rows)
{
	return json_array_append_new(rows, port_row(port)) ? -ENOMEM : 0;
}

static int append_queues(struct daemon *d, struct port *port, json_t *rows)
{
	unsigned n = port->ops->report_queues(port, NULL, 0);
	struct queue_report *queues = calloc(n ? n : 1, sizeof(*queues));

	if (!queues)
		return -ENOMEM;
	n = MIN(port->ops->report_queues(port, queues, n), n);
	for (unsigned i = 0; i < n; i++)
		json_array_append_new(rows, queue_row(d, port, &queues[i]));
	free(queues);
	return 0;
}

/* The rows of one port, or of all. */
static int each_port(struct daemon *d, const char *name,
		     int (*append)(struct daemon *d, struct port *port, json_t *rows),
		     json_t **ret_rows, struct error *err)
{
	struct port *port;
	json_t *rows;
	int r = check_name(d, name, err);

	if (r < 0)
		return r;
	rows = json_array();
	for (unsigned at = 0; !r && (port = daemon_next_port(d, &at));) {
		if (wanted(name, port->name))
			r = append(d, port, rows);
	}
	if (r < 0) {
		json_decref(rows);
		return error_no_memory(err);
	}
	*ret_rows = rows;
	return 0;
}

int report_ports(struct daemon *d, const char *name, json_t **ret_rows, struct error *err)
{
	return each_port(d, name, append_port, ret_rows, err);
}

int report_queues(struct daemon *d, const char *name, json_t **ret_rows, struct error *err)
{
	return each_port(d, name, append_queues, ret_rows, err);
}

static json_t *fdb_row(struct daemon *d, const struct mac_entry *entry, const char *name)
{
	const struct port *port = entry->port < PORTS_MAX ? d->sw.ports[entry->port] : NULL;
	char mac[18];

	if (!port || !wanted(name, port->name))
		return NULL;
	snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x",
		 (unsigned)(entry->mac >> 40 & 255), (unsigned)(entry->mac >> 32 & 255),
		 (unsigned)(entry->mac >> 24 & 255), (unsigned)(entry->mac >> 16 & 255),
		 (unsigned)(entry->mac >> 8 & 255), (unsigned)(entry->mac & 255));
	return json_pack("{s:s, s:s, s:I}", "mac", mac, "port", port->name, "age",
			 (json_int_t)entry->age);
}

int report_fdb(struct daemon *d, const char *name, json_t **ret_rows, struct error *err)
{
	struct mac_entry *entries;
	unsigned n;
	json_t *rows;
	int r = check_name(d, name, err);

	if (r < 0)
		return r;
	entries = calloc(MAC_ENTRIES_MAX, sizeof(*entries));
	if (!entries)
		return error_no_memory(err);
	n = mac_list(d->sw.macs, entries, MAC_ENTRIES_MAX, load_relaxed(&d->sw.now));
	n = MIN(n, (unsigned)MAC_ENTRIES_MAX);
	rows = json_array();
	for (unsigned i = 0; i < n; i++) {
		json_t *row = fdb_row(d, &entries[i], name);

		if (row)
			json_array_append_new(rows, row);
	}
	free(entries);
	*ret_rows = rows;
	return 0;
}

static json_t *worker_row(struct daemon *d, unsigned worker)
{
	struct worker_report w;

	memset(&w, 0, sizeof(w));
	pool_report(d->pool, worker, &w);
	return json_pack("{s:i, s:o, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:f, s:I}", "worker",
			 (int)w.worker, "cpu", w.cpu < 0 ? json_null() : json_integer(w.cpu),
			 "cpu_ns", (json_int_t)w.cpu_ns, "busy_cycles", (json_int_t)w.busy_cycles,
			 "frames", (json_int_t)w.frames, "bursts", (json_int_t)w.bursts, "sleeps",
			 (json_int_t)w.sleeps, "queues", (int)w.queues, "armed", (int)w.armed,
			 "load", w.load / 1000.0, "wakeup_ns", (json_int_t)w.wakeup_ns);
}

int report_workers(struct daemon *d, const char *name, json_t **ret_rows, struct error *err)
{
	unsigned n = pool_workers(d->pool);
	json_t *rows = json_array();

	for (unsigned i = 0; i < n; i++) {
		char number[12];

		snprintf(number, sizeof(number), "%u", i);
		if (wanted(name, number))
			json_array_append_new(rows, worker_row(d, i));
	}
	if (name && rows && !json_array_size(rows)) {
		json_decref(rows);
		return error_set(err, ENOENT,
				 n == 1 ? "there is no worker '%.40s'; the only one is %u"
					: "there is no worker '%.40s'; they are 0 to %u",
				 name, n - 1);
	}
	*ret_rows = rows;
	return 0;
}

int report_features(struct daemon *d, const char *name, json_t **ret_rows, struct error *err)
{
	json_t *rows = json_array();

	for (unsigned i = 0; i < virtio_features_count; i++) {
		const struct virtio_feature *f = &virtio_features[i];
		const char *group = feature_group(f->bit);

		if (wanted(name, f->name) || (group && wanted(name, group)))
			json_array_append_new(rows, json_pack("{s:i, s:s, s:b, s:s?, s:s}", "bit",
							      (int)f->bit, "name", f->name,
							      "offered", (int)f->offered, "option",
							      group, "text", f->text));
	}
	if (name && rows && !json_array_size(rows)) {
		json_decref(rows);
		return error_set(err, ENOENT,
				 "there is no feature '%.40s'; see 'ringway show feature'", name);
	}
	*ret_rows = rows;
	return 0;
}

json_t *report_control_refused(struct daemon *d)
{
	return counts(control_refusal_reasons, CONTROL_REFUSAL_COUNT, d->control_refused);
}

static void write_run(FILE *out, const struct run_settings *said)
{
	if (!said->workers && !said->n_cpus && !said->poll && !said->ports_max)
		return;
	fputs("run", out);
	if (said->workers)
		fprintf(out, " --workers %u", said->workers);
	if (said->n_cpus)
		fprintf(out, " --cpus %s", said->cpus_text);
	if (said->poll)
		fprintf(out, " --poll %s", said->poll == POLL_ALWAYS ? "always" : "adapt");
	if (said->ports_max)
		fprintf(out, " --ports-max %u", said->ports_max);
	fputc('\n', out);
}

static bool is_inherited(const struct port *port)
{
	struct port_option options[OPTIONS_MAX];
	bool inherited = false;
	struct error ignored;
	struct words words;
	unsigned n;

	if (!port->options || options_split(port->options, &words, options, &n, &ignored))
		return false;
	for (unsigned i = 0; i < n; i++)
		inherited |= !strcmp(options[i].key, "fd");
	words_free(&words);
	return inherited;
}

static void write_port(FILE *out, const struct port *port)
{
	if (is_inherited(port))
		fputs("# its descriptor is inherited, so this goes with --port: ", out);
	fprintf(out, "port add %s %s %s\n", port->name, port->ops->kind,
		port->options ? port->options : "");
}

static int compare_serials(const void *a, const void *b)
{
	const struct port *const *left = a, *const *right = b;

	return (*left)->serial < (*right)->serial ? -1 : 1;
}

char *report_config(struct daemon *d)
{
	struct port *ports[PORTS_MAX], *port;
	char *text = NULL;
	unsigned n = 0;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	fputs("# ringway " RINGWAY_VERSION ", saved from a running switch\n", out);
	write_run(out, &d->said);
	for (unsigned at = 0; (port = daemon_next_port(d, &at));)
		ports[n++] = port;
	qsort(ports, n, sizeof(*ports), compare_serials); /* as they were added */
	for (unsigned i = 0; i < n; i++)
		write_port(out, ports[i]);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}
