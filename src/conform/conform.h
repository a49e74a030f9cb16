/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A conformance kit: the driver and its scripts (src/driver) against any vhost-user net back-end.
 *
 * Nothing here knows ringway's own switch. A case is a row of one table (cases.c): the clause that
 * it is about, what it needs of the back-end, and a function. Each runs on connections of its own,
 * and after each the back-end must serve a new one. With one socket the cases are those of the
 * handshake, of rings and of robustness; with a second one, to whose port the back-end forwards,
 * frames go from one to the other and are looked at.
 */
#ifndef RINGWAY_CONFORM_CONFORM_H
#define RINGWAY_CONFORM_CONFORM_H

#include "base/base.h"
#include "base/error.h"

#define CONFORM_PORTS_MAX 2
#define CONFORM_TEXT_MAX  200

enum conform_verdict {
	CONFORM_PASSED,
	CONFORM_FAILED,
	CONFORM_NOT_OFFERED, /* the back-end lacks a feature, or there is no second socket */
	CONFORM_CRASHED,     /* the back-end has ended, or serves no new connection */
	CONFORM_NOT_RUN,     /* since it did not come back after a crash */
	CONFORM_VERDICTS,
};

struct kit;

struct conform_case {
	const char *name, *clause, *what;
	int (*run)(struct kit *k); /* an enum conform_verdict; kit.h */
	unsigned ports;		   /* sockets needed */
	unsigned formats;	   /* CONFORM_SPLIT | CONFORM_PACKED: run on each; 0: no rings */
	uint64_t features, protocol;
};

#define CONFORM_SPLIT  1u
#define CONFORM_PACKED 2u
#define CONFORM_BOTH   (CONFORM_SPLIT | CONFORM_PACKED)

extern const struct conform_case conform_cases[];
extern const unsigned conform_cases_count;

struct conform_config {
	const char *path[CONFORM_PORTS_MAX];
	unsigned ports;
	bool listen;	      /* the back-end connects to us */
	const char *only;     /* the name of one case; NULL: all */
	char *const *command; /* the back-end, to be started, and again after a crash; NULL */
	const char *log;      /* where its output goes; NULL: nowhere */
	int timeout_ms;	      /* for anything that must happen */
};

struct conform_result {
	const struct conform_case *c;
	const char *format; /* "split", "packed" or "-" */
	enum conform_verdict verdict;
	char text[CONFORM_TEXT_MAX]; /* what was wrong or missing; "" */
	double seconds;
};

const char *conform_verdict_name(enum conform_verdict verdict);

/*
 * Runs the cases and reports each when it is done. 0, or -errno with `err` filled if the back-end
 * cannot be reached at all.
 */
int conform_run(const struct conform_config *config,
		void (*report)(const struct conform_result *result, void *arg), void *arg,
		struct error *err);

#endif
