// SPDX-License-Identifier: Apache-2.0
/*
 * The whole measurement: a switch with one worker as a child process, two ports, and every load
 * several times, interleaved, so that a machine that drifts hurts all of them alike.
 *
 * What a frame costs is the worker's own count of busy cycles, asked for before and after each run.
 */
#include "bench/tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/child.h"
#include "bench/figures.h"
#include "bench/load.h"
#include "control/client.h"

#define SWITCH_BOUND 0.95 /* busy for so much of the time: it is the switch that ends the speed */

static const struct cell {
	unsigned size;
	bool data, packed;
} cells[] = {
	{ 64, false, false },  { 64, true, false },	    { 64, false, true },
	{ 256, false, false }, { 256, true, false },	    { 1518, false, false },
	{ 1518, true, false }, { 1518, false, true },	    { GUESTS_IMIX, false, false },
	{ 9000, true, false }, { GUESTS_TSO, true, false },
};
enum { CELLS = ARRAY_SIZE(cells) };

struct run {
	struct load_result load;
	double switch_cycles; /* busy, per frame */
	double burst;	      /* frames */
	double busy;	      /* share of its time */
};

struct bench {
	const struct tables_config *config;
	struct child child;
	struct run run[CELLS][TABLES_REPEAT_MAX];
};

/* What the cell is called where there is no table. */
static void explain(const struct bench *b, const struct guests_config *c, struct error *err)
{
	char size[GUESTS_SIZE_TEXT];

	guests_size_print(c->size, size);
	child_explain(&b->child, size, c->form.packed ? "packed" : "split", err);
}

static int run_cell(struct bench *b, unsigned cell, struct run *ret, struct error *err)
{
	struct load_config c = { .guests = guests_config_default(), .seconds = b->config->seconds };
	struct usage before, after;
	int rc = child_usage(&b->child, &before, err);

	if (rc)
		return rc;
	c.guests.socket[0] = b->child.socket[0];
	c.guests.socket[1] = b->child.socket[1];
	c.guests.size = cells[cell].size;
	c.guests.data = cells[cell].data;
	c.guests.form.packed = cells[cell].packed;
	c.watched = b->child.pid;
	rc = load_run(&c, &ret->load, err);
	if (rc)
		explain(b, &c.guests, err);
	else
		rc = child_usage(&b->child, &after, err);
	if (rc)
		return rc;
	ret->switch_cycles = (after.cycles - before.cycles) / (after.frames - before.frames);
	ret->burst = (after.frames - before.frames) / (after.bursts - before.bursts);
	ret->busy =
		ret->switch_cycles * ret->load.frames_per_s / ((double)clock_cycles_per_us() * 1e6);
	return 0;
}

static int run_all(struct bench *b, struct error *err)
{
	for (unsigned i = 0; i < b->config->repeat; i++) {
		for (unsigned cell = 0; cell < CELLS; cell++) {
			int rc = run_cell(b, cell, &b->run[cell][i], err);

			if (rc)
				return rc;
			if (child_interrupted())
				return error_set(err, EINTR, "interrupted");
		}
	}
	return 0;
}

/* The median of one figure of a cell's runs; `offset` is that of a double in struct run. */
static double median(const struct bench *b, unsigned cell, size_t offset)
{
	double v[TABLES_REPEAT_MAX];
	unsigned n = b->config->repeat;

	for (unsigned i = 0; i < n; i++)
		memcpy(&v[i], (const char *)&b->run[cell][i] + offset, sizeof(v[i]));
	return figures_median(v, n);
}

/* "X" or "S", or "XS" if the runs of the cell are not comparable. */
static const char *class_of(const struct bench *b, unsigned cell)
{
	const char *class = line_class(b->run[cell][0].load.line_round_trip_ns);

	for (unsigned i = 1; i < b->config->repeat; i++) {
		if (strcmp(class, line_class(b->run[cell][i].load.line_round_trip_ns)) != 0)
			return "XS";
	}
	return class;
}

static unsigned long long lost(const struct bench *b, unsigned cell)
{
	unsigned long long n = 0;

	for (unsigned i = 0; i < b->config->repeat; i++)
		n += b->run[cell][i].load.lost;
	return n;
}

#define MEDIAN(b, cell, field) median(b, cell, offsetof(struct run, field))

/* Whose speed the frames per second are. */
static const char *bound_of(const struct bench *b, unsigned cell)
{
	return MEDIAN(b, cell, busy) < SWITCH_BOUND ? "generator" : "switch";
}

static void print_table(const struct bench *b)
{
	printf("Two guests, one worker, up to 256 buffers under way in both directions; medians of "
	       "%u\nCycles are those of the time stamp counter, %.3f GHz. Class: X separate "
	       "cores,\n"
	       "S threads of one core; compare within one class only.\n\n"
	       "size  touched     ring    Mframes/s  bound by   switch cycles  generator cycles  "
	       "burst  lost  class\n",
	       b->config->repeat, (double)clock_cycles_per_us() / 1e3);
	for (unsigned cell = 0; cell < CELLS; cell++) {
		char size[GUESTS_SIZE_TEXT];

		guests_size_print(cells[cell].size, size);
		printf("%4s  %-10s  %-6s  %9.3f  %-9s  %13.1f  %16.1f  %5.1f  %4llu  %s\n", size,
		       cells[cell].data ? "every byte" : "first line",
		       cells[cell].packed ? "packed" : "split",
		       MEDIAN(b, cell, load.frames_per_s) / 1e6, bound_of(b, cell),
		       MEDIAN(b, cell, switch_cycles), MEDIAN(b, cell, load.cycles_per_frame),
		       MEDIAN(b, cell, burst), lost(b, cell), class_of(b, cell));
	}
}

static void print_json(const struct bench *b)
{
	json_t *rows = json_array();
	json_t *all =
		json_pack("{s:I, s:i, s:o}", "tsc_hz", (json_int_t)clock_cycles_per_us() * 1000000,
			  "repeat", (int)b->config->repeat, "cells", rows);

	for (unsigned cell = 0; cell < CELLS; cell++) {
		char size[GUESTS_SIZE_TEXT];

		guests_size_print(cells[cell].size, size);
		json_array_append_new(
			rows,
			json_pack("{s:s, s:s, s:b, s:f, s:s, s:f, s:f, s:f, s:I, s:s}", "size",
				  size, "ring", cells[cell].packed ? "packed" : "split", "data",
				  (int)cells[cell].data, "frames_per_s",
				  MEDIAN(b, cell, load.frames_per_s), "bound_by", bound_of(b, cell),
				  "cycles_per_frame", MEDIAN(b, cell, switch_cycles),
				  "cycles_per_frame_generator",
				  MEDIAN(b, cell, load.cycles_per_frame), "burst",
				  MEDIAN(b, cell, burst), "lost", (json_int_t)lost(b, cell),
				  "line_class", class_of(b, cell)));
	}
	json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	printf("\n");
	json_decref(all);
}

int costs_run(const struct tables_config *config, struct error *err)
{
	struct bench *b = calloc(1, sizeof(*b));
	int rc = b ? 0 : error_no_memory(err);

	if (rc)
		return rc;
	b->config = config;
	rc = child_start(&b->child, "adapt", err);
	if (!rc)
		rc = run_all(b, err);
	child_stop(&b->child);
	if (!rc)
		(config->json ? print_json : print_table)(b);
	free(b);
	return rc;
}
