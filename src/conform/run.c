// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "conform/backend.h"
#include "conform/kit.h"
#include "vhost/features.h"

#define START_MS 30000

struct run {
	struct kit kit;
	struct backend backend;
	bool gone; /* it crashed and did not come back */
	void (*report)(const struct conform_result *result, void *arg);
	void *arg;
};

const char *conform_verdict_name(enum conform_verdict verdict)
{
	static const char *const names[CONFORM_VERDICTS] = { "passed", "failed", "not offered",
							     "crashed", "not run" };

	return names[verdict];
}

/* The process at the other end; another one than before means that it was restarted. */
static int peer_pid(int sock)
{
	struct ucred cred = { .pid = 0 };
	socklen_t size = sizeof(cred);

	getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &size);
	return cred.pid;
}

/* What the back-end offers at port 0, and who it is. */
static int probe(struct kit *k, struct error *err)
{
	int sock = kit_dial(k, 0, err), rc;

	if (sock < 0)
		return sock;
	kit_keep(k, sock);
	k->pid = peer_pid(sock);
	k->pairs = 1;
	k->text[0] = '\0';
	rc = kit_ask_u64(k, sock, VHOST_USER_GET_FEATURES, 0, &k->offered);
	if (!rc && k->offered & BIT(VHOST_USER_F_PROTOCOL_FEATURES))
		rc = kit_ask_u64(k, sock, VHOST_USER_GET_PROTOCOL_FEATURES, 0, &k->protocol);
	if (!rc && k->protocol & BIT(VHOST_USER_PROTOCOL_F_MQ))
		rc = kit_agree(k, sock);
	if (!rc && k->protocol & BIT(VHOST_USER_PROTOCOL_F_MQ))
		rc = kit_ask_u64(k, sock, VHOST_USER_GET_QUEUE_NUM, 0, &k->pairs);
	kit_hang_up(k);
	return rc ? error_set(err, EPROTO, "port 0: %s", k->text) : 0;
}

/* Alive and the same as before? What happened instead goes to `text`. */
static bool still_there(struct run *run, char *text, size_t size)
{
	struct kit *k = &run->kit;
	int before = k->pid;
	struct error err;

	if (backend_ended(&run->backend, text, size))
		return false;
	if (kit_alive(k, &err) && !probe(k, &err)) {
		if (k->pid != before)
			snprintf(text, size, "it was restarted");
		return k->pid == before;
	}
	/* Ending takes its time, if it leaves a core. */
	for (unsigned i = 0; i < 200 && run->backend.child; i++) {
		if (backend_ended(&run->backend, text, size))
			return false;
		usleep(10000);
	}
	snprintf(text, size, "a new connection is not served: %.120s", err.text);
	return false;
}

/* Probes until it answers: one that we have started ourselves needs a while. */
static int await(struct run *run, struct error *err)
{
	int ms = MAX(START_MS, run->kit.config->timeout_ms);
	uint64_t end = clock_ns() + (run->backend.child ? (uint64_t)ms * 1000000 : 0);
	char text[CONFORM_TEXT_MAX];
	struct error last;
	int rc;

	do {
		rc = probe(&run->kit, &last);
		if (rc && backend_ended(&run->backend, text, sizeof(text)))
			return error_set(err, ECHILD, "%s %s: see its output (--log FILE)",
					 run->kit.config->command[0], text);
	} while (rc && clock_ns() < end);
	if (rc && run->backend.child)
		return error_set(err, -rc,
				 "%s does not serve %s within %d s: see its output (--log FILE), "
				 "or wait longer with --timeout",
				 run->kit.config->command[0], run->kit.config->path[0], ms / 1000);
	if (rc)
		*err = last;
	return rc;
}

/* Starts it again if we may, and waits until it serves; else there is nothing left to test. */
static void bring_back(struct run *run)
{
	struct kit *k = &run->kit;
	struct error err;

	if (k->config->command) {
		backend_stop(&run->backend);
		if (backend_start(&run->backend, k->config, &err)) {
			run->gone = true;
			return;
		}
	}
	run->gone = await(run, &err) || !kit_alive(k, &err);
}

/* Why a case cannot be run, or 0. */
static int lacking(struct kit *k, const struct conform_case *c)
{
	uint64_t features = c->features & ~k->offered, protocol = c->protocol & ~k->protocol;
	char names[160];

	if (k->config->ports < c->ports)
		return kit_lack(k, "needs a second socket");
	if (k->packed && !(k->offered & BIT(VIRTIO_F_RING_PACKED)))
		return kit_lack(k, "packed virtqueues");
	if (features) {
		features_text(features, names, sizeof(names));
		return kit_lack(k, "%s", names);
	}
	if (protocol) {
		protocol_features_text(protocol, names, sizeof(names));
		return kit_lack(k, "protocol feature %s", names);
	}
	return CONFORM_PASSED;
}

static void run_case(struct run *run, const struct conform_case *c, unsigned format)
{
	struct conform_result r = { .c = c };
	char after[CONFORM_TEXT_MAX] = "";
	struct kit *k = &run->kit;
	uint64_t start = clock_ns();

	r.format = format == CONFORM_PACKED ? "packed" : format == CONFORM_SPLIT ? "split" : "-";
	k->packed = format == CONFORM_PACKED;
	k->doing = NULL;
	k->text[0] = '\0';
	r.verdict = run->gone ? CONFORM_NOT_RUN : (enum conform_verdict)lacking(k, c);
	if (r.verdict == CONFORM_PASSED) {
		r.verdict = (enum conform_verdict)c->run(k);
		if (k->doing && r.verdict != CONFORM_PASSED)
			snprintf(r.text, sizeof(r.text), "%s: %.150s", k->doing, k->text);
		else
			snprintf(r.text, sizeof(r.text), "%s", k->text);
		kit_hang_up(k);
		if (!still_there(run, after, sizeof(after))) {
			r.verdict = CONFORM_CRASHED;
			/* Its end may have been noticed only by the next attack. */
			snprintf(r.text, sizeof(r.text), "%s%s%.120s", k->doing ? k->doing : "",
				 k->doing ? ", or what came before it: " : "", after);
			bring_back(run);
		}
	} else {
		snprintf(r.text, sizeof(r.text), "%s", k->text);
	}
	r.seconds = (double)(clock_ns() - start) / 1e9;
	run->report(&r, run->arg);
}

static int begin(struct run *run, struct error *err)
{
	struct kit *k = &run->kit;
	const struct conform_config *config = k->config;
	int rc = 0;

	for (unsigned i = 0; i < config->ports && config->listen && !rc; i++) {
		k->listener[i] = channel_listen(config->path[i], err);
		rc = MIN(k->listener[i], 0);
	}
	if (!rc && config->command)
		rc = backend_start(&run->backend, config, err);
	return rc ? rc : await(run, err);
}

static void end(struct run *run)
{
	const struct conform_config *config = run->kit.config;

	kit_hang_up(&run->kit);
	backend_stop(&run->backend);
	for (unsigned i = 0; i < config->ports && config->listen; i++) {
		if (run->kit.listener[i] < 0)
			continue;
		close(run->kit.listener[i]);
		unlink(config->path[i]);
	}
}

int conform_run(const struct conform_config *config,
		void (*report)(const struct conform_result *result, void *arg), void *arg,
		struct error *err)
{
	struct run run = { .kit = { .config = config, .listener = { -1, -1 } },
			   .report = report,
			   .arg = arg };
	int rc = begin(&run, err);

	for (unsigned i = 0; i < conform_cases_count && !rc; i++) {
		const struct conform_case *c = &conform_cases[i];

		if (config->only && strcmp(config->only, c->name) != 0)
			continue;
		if (!c->formats)
			run_case(&run, c, 0);
		for (unsigned format = CONFORM_SPLIT; format <= CONFORM_PACKED; format <<= 1) {
			if (c->formats & format)
				run_case(&run, c, format);
		}
	}
	end(&run);
	return rc;
}
