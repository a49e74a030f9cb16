// SPDX-License-Identifier: Apache-2.0
/*
 * Loads at a pace: frames one way at random times, and one request at a time.
 *
 * Each is run with a switch that adapts and with one that always polls, in turn (A B, B A), and
 * each run has a new switch: one that always polls would take its CPU from the other even when it
 * has nothing to do. Latencies of the two are compared pair by pair, because a machine whose CPUs
 * others use as well drifts by more than the two differ.
 */
#include "bench/tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/child.h"
#include "bench/figures.h"
#include "bench/load.h"
#include "control/client.h"

enum { ADAPT, ALWAYS, KINDS };
static const char *const kinds[KINDS] = { "adapt", "always" };

static const struct row {
	const char *name;
	double rate; /* 0: one request at a time */
	bool calls;
} rows[] = {
	{ "10 k/s one way", 1e4, false },     { "100 k/s one way", 1e5, false },
	{ "1 M/s one way", 1e6, false },      { "1 M/s one way, calls", 1e6, true },
	{ "request and response", 0, false }, { "the same with calls", 0, true },
};
enum { ROWS = ARRAY_SIZE(rows) };

/* All of a kind's runs of a row; times in us. */
struct runs {
	double p50[TABLES_REPEAT_MAX], p99[TABLES_REPEAT_MAX], p999[TABLES_REPEAT_MAX];
	double max[TABLES_REPEAT_MAX], wakeups[TABLES_REPEAT_MAX], cpu[TABLES_REPEAT_MAX];
	double kicks[TABLES_REPEAT_MAX], calls[TABLES_REPEAT_MAX], frames[TABLES_REPEAT_MAX];
};

static void note(struct runs *r, unsigned i, const struct load_result *load, bool requests)
{
	const struct load_times *t = requests ? &load->round_trip : &load->one_way;

	r->p50[i] = (double)t->p50 / 1e3;
	r->p99[i] = (double)t->p99 / 1e3;
	r->p999[i] = (double)t->p999 / 1e3;
	r->max[i] = (double)t->max / 1e3;
	r->wakeups[i] = load->wake_up_ns > 0 ? (double)t->p50 / load->wake_up_ns : 0;
	r->cpu[i] = load->watched_cpu;
	r->kicks[i] = load->kicks_per_frame;
	r->calls[i] = load->calls_per_frame;
	r->frames[i] = load->frames_per_s;
}

static int run_one(const struct tables_config *config, const struct row *row, unsigned kind,
		   struct load_result *ret, struct error *err)
{
	struct load_config c = {
		.guests = guests_config_default(),
		.seconds = config->seconds,
		.window = row->rate ? 0 : 1,
		.rate = row->rate,
		.seed = 1,
		.oneway = row->rate > 0,
		.calls = row->calls,
	};
	struct child child;
	int rc = child_start(&child, kinds[kind], err);

	c.guests.socket[0] = child.socket[0];
	c.guests.socket[1] = child.socket[1];
	c.guests.timed = true;
	c.watched = child.pid;
	if (!rc) {
		rc = load_run(&c, ret, err);
		if (rc)
			child_explain(&child, row->name, kinds[kind], err);
	}
	if (!rc && child_interrupted())
		rc = error_set(err, EINTR, "interrupted");
	child_stop(&child);
	return rc;
}

static int run_all(const struct tables_config *config, struct runs (*all)[KINDS], struct error *err)
{
	for (unsigned n = 0; n < config->repeat * ROWS * KINDS; n++) {
		unsigned i = n / (ROWS * KINDS), row = n / KINDS % ROWS;
		unsigned kind = (n + i) % KINDS;
		struct load_result load;
		int rc = run_one(config, &rows[row], kind, &load, err);

		if (rc)
			return rc;
		note(&all[row][kind], i, &load, !rows[row].rate);
	}
	return 0;
}

static json_t *row_json(const struct row *row, unsigned kind, struct runs *r, struct ratio ratio,
			unsigned n)
{
	return json_pack("{s:s, s:f, s:b, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
			 "s:f, s:f}",
			 "load", row->name, "rate", row->rate, "calls", (int)row->calls, "poll",
			 kinds[kind], "p50_us", figures_median(r->p50, n), "p99_us",
			 figures_median(r->p99, n), "p999_us", figures_median(r->p999, n), "max_us",
			 figures_median(r->max, n), "p50_wakeups", figures_median(r->wakeups, n),
			 "p50_to_always", ratio.median, "p50_to_always_least", ratio.least,
			 "p50_to_always_most", ratio.most, "cpu", figures_median(r->cpu, n),
			 "kicks_per_frame", figures_median(r->kicks, n), "calls_per_frame",
			 figures_median(r->calls, n), "frames_per_s", figures_median(r->frames, n));
}

static json_t *all_json(struct runs (*all)[KINDS], unsigned n)
{
	json_t *list = json_array();

	for (unsigned row = 0; row < ROWS; row++) {
		/* Before medians sort them. */
		struct ratio ratio = figures_ratio(all[row][ADAPT].p50, all[row][ALWAYS].p50, n);

		for (unsigned kind = 0; kind < KINDS; kind++)
			json_array_append_new(list,
					      row_json(&rows[row], kind, &all[row][kind],
						       kind == ADAPT ? ratio
								     : (struct ratio){ 1, 1, 1 },
						       n));
	}
	return list;
}

static double real(const json_t *row, const char *key)
{
	return json_real_value(json_object_get(row, key));
}

static void print_table(const json_t *list, unsigned repeat)
{
	const json_t *row;
	size_t i;

	printf("One worker; medians of %u, times in us, there and back for requests. Ratio: of the "
	       "p50\nto that of a worker that always polls, run by run, and its least and most. "
	       "CPU: "
	       "the switch's;\nif one that always polls has less than all of a CPU, others were on "
	       "it, and times are theirs.\n\n"
	       "load                  worker      p50      p99    p99.9      max  wake-ups  ratio "
	       "to always   CPU  kicks/frame  calls/frame  frames/s\n",
	       repeat);
	json_array_foreach (list, i, row) {
		printf("%-20s  %-6s  %7.2f  %7.1f  %7.1f  %7.0f  %8.2f  %4.2f (%.2f-%.2f)  "
		       "%4.0f%%  %11.4f  %11.4f  %8.0f\n",
		       json_string_value(json_object_get(row, "load")),
		       json_string_value(json_object_get(row, "poll")), real(row, "p50_us"),
		       real(row, "p99_us"), real(row, "p999_us"), real(row, "max_us"),
		       real(row, "p50_wakeups"), real(row, "p50_to_always"),
		       real(row, "p50_to_always_least"), real(row, "p50_to_always_most"),
		       real(row, "cpu") * 100, real(row, "kicks_per_frame"),
		       real(row, "calls_per_frame"), real(row, "frames_per_s"));
	}
}

int paced_run(const struct tables_config *config, struct error *err)
{
	struct runs(*all)[KINDS] = calloc(ROWS, sizeof(*all));
	json_t *list;
	int rc = all ? run_all(config, all, err) : error_no_memory(err);

	if (!rc) {
		list = all_json(all, config->repeat);
		if (config->json) {
			json_dumpf(list, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
			putchar('\n');
		} else {
			print_table(list, config->repeat);
		}
		json_decref(list);
	}
	free(all);
	return rc;
}
