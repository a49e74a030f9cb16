// SPDX-License-Identifier: Apache-2.0
/* The guests' beginning and end: connecting, buffers, and the way to each other. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "bench/guests.h"
#include "vhost/features.h"

#define SMALL_BUFFER 2048u
#define LARGE_BUFFER 4096u /* a page, as Linux has them */
#define IMIX_LONGEST 1518u
#define PATH_TRIES   500
#define PATH_TRY_US  10000
#define HEADER	     (uint32_t)sizeof(struct virtio_net_hdr_mrg_rxbuf)
#define SEGMENTED_BITS                                                                         \
	(BIT(VIRTIO_NET_F_CSUM) | BIT(VIRTIO_NET_F_GUEST_CSUM) | BIT(VIRTIO_NET_F_HOST_TSO4) | \
	 BIT(VIRTIO_NET_F_GUEST_TSO4))

static const struct form_word {
	const char *name;
	unsigned feature;
	size_t field; /* a bool of struct ring_form */
} form_words[] = {
	{ "packed", VIRTIO_F_RING_PACKED, offsetof(struct ring_form, packed) },
	{ "in_order", VIRTIO_F_IN_ORDER, offsetof(struct ring_form, in_order) },
	{ "event_idx", VIRTIO_RING_F_EVENT_IDX, offsetof(struct ring_form, event_idx) },
	{ "mergeable", VIRTIO_NET_F_MRG_RXBUF, offsetof(struct ring_form, mergeable) },
	{ "indirect", VIRTIO_RING_F_INDIRECT_DESC, offsetof(struct ring_form, indirect) },
};

static const struct ring_form usual_form = { .mergeable = true, .event_idx = true };

static bool has_word(const struct ring_form *form, const struct form_word *word)
{
	return *(const bool *)((const char *)form + word->field);
}

int ring_form_parse(const char *text, struct ring_form *ret, struct error *err)
{
	struct ring_form form = usual_form;
	bool split = false;

	while (*text) {
		size_t len = strcspn(text, ","), off = *text == '-';
		const struct form_word *word = NULL;

		for (unsigned i = 0; i < ARRAY_SIZE(form_words); i++) {
			if (len - off == strlen(form_words[i].name) &&
			    !strncmp(text + off, form_words[i].name, len - off))
				word = &form_words[i];
		}
		if (word)
			*(bool *)((char *)&form + word->field) = !off;
		else if (len == 5 && !strncmp(text, "split", len))
			split = true;
		else
			return error_set(
				err, EINVAL,
				"'%.*s' is no form of a ring: split, packed, in_order, "
				"indirect, -mergeable and -event_idx are, with commas between",
				(int)len, text);
		text += len + (text[len] == ',');
	}
	if (split && form.packed)
		return error_set(err, EINVAL, "a ring is split or packed; say one of them");
	*ret = form;
	return 0;
}

void ring_form_print(const struct ring_form *form, char *text)
{
	strcpy(text, form->packed ? "packed" : "split");
	for (unsigned i = 1; i < ARRAY_SIZE(form_words); i++) {
		const struct form_word *word = &form_words[i];

		if (has_word(form, word) != has_word(&usual_form, word)) {
			strcat(text, has_word(form, word) ? "," : ",-");
			strcat(text, word->name);
		}
	}
}

struct guests_config guests_config_default(void)
{
	return (struct guests_config){
		.form = usual_form, .entries = 256, .size = 64, .queues = 1, .macs = 1
	};
}

void guests_size_print(unsigned size, char *text)
{
	if (size == GUESTS_IMIX || size == GUESTS_TSO)
		strcpy(text, size == GUESTS_IMIX ? "imix" : "tso");
	else
		snprintf(text, GUESTS_SIZE_TEXT, "%u", size);
}

double guests_size_mean(unsigned size)
{
	return size == GUESTS_IMIX ? (7 * 64 + 4 * 570 + 1518) / 12.0 : size;
}

static uint64_t features_of(const struct guests_config *c)
{
	uint64_t features = BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_NET_F_MQ) |
			    BIT(VHOST_USER_F_PROTOCOL_FEATURES);

	for (unsigned i = 0; i < ARRAY_SIZE(form_words); i++) {
		if (has_word(&c->form, &form_words[i]))
			features |= BIT(form_words[i].feature);
	}
	return features | (c->size == GUESTS_TSO ? SEGMENTED_BITS : 0);
}

static int check_features(const struct guests *g, const struct frontend *fe, const char *socket,
			  struct error *err)
{
	uint64_t missing = features_of(g->config) & ~fe->features & ~BIT(VIRTIO_NET_F_MQ);
	char names[160];

	if (!missing)
		return 0;
	for (unsigned i = 0; i < ARRAY_SIZE(form_words); i++) {
		if (missing & BIT(form_words[i].feature))
			return error_set(err, ENOTSUP, "%s offers no %s rings; see --ring", socket,
					 form_words[i].name);
	}
	features_text(missing, names, sizeof(names));
	return error_set(err, ENOTSUP, "%s does not offer what is needed: %s", socket, names);
}

/* What size and form mean for buffers and chains. */
static void choose_buffers(struct guests *g)
{
	const struct guests_config *c = g->config;
	unsigned pieces;

	g->frame = HEADER + (c->size == GUESTS_IMIX ? IMIX_LONGEST : c->size);
	g->buffer = g->piece = g->frame <= SMALL_BUFFER ? SMALL_BUFFER : LARGE_BUFFER;
	pieces = guests_buffers(g);
	if (!c->form.mergeable)
		g->buffer = pieces * g->piece;
	g->plain = pieces == 1 && !c->form.indirect;
	g->slots = c->form.indirect ? 1 : pieces;
}

static int make_lane(struct guests *g, unsigned index)
{
	unsigned queues = g->config->queues, pair = index % queues;
	struct driver *d = g->driver[index / queues];
	struct driver_pool *rx = &d->pool[DRIVER_RX(pair)], *tx = &d->pool[DRIVER_TX(pair)];
	struct lane *lane = &g->lane[index];

	lane->guest = index / queues;
	lane->rx = &d->ring[DRIVER_RX(pair)];
	lane->tx = &d->ring[DRIVER_TX(pair)];
	lane->flow = &g->flow[index];
	frames_make(&lane->flow->stamp, lane->guest, pair, g->frame, g->config->size == GUESTS_TSO);
	lane->flow->stamp.flow = (uint16_t)index;
	if (g->times) {
		lane->flow->kept = calloc(SENT_KEPT, sizeof(*lane->flow->kept));
		if (!lane->flow->kept)
			return -ENOMEM;
	}
	lane->spare = calloc(rx->n + tx->n, sizeof(*lane->spare));
	lane->chains = calloc(tx->n, sizeof(*lane->chains));
	if (!lane->spare || !lane->chains)
		return -ENOMEM;
	for (unsigned i = 0; i < tx->n; i++) {
		lane->chains[i].next = lane->free;
		lane->free = &lane->chains[i];
	}
	memcpy(lane->spare, tx->free, tx->n * sizeof(*tx->free));
	memcpy(lane->spare + tx->n, rx->free, rx->n * sizeof(*rx->free));
	lane->spares = rx->n + tx->n;
	for (unsigned i = 0; i < lane->spares; i++)
		memset(lane->spare[i], 0, g->buffer); /* the pages exist before it counts */
	ring_calls_off(lane->rx);
	ring_calls_off(lane->tx);
	guests_post(g, lane);
	return 0;
}

static int connect_guests(struct guests *g, struct error *err)
{
	const struct guests_config *c = g->config;
	struct driver_config guest = { .features = features_of(c),
				       .pairs = c->queues,
				       .ring_size = c->entries,
				       .rx_buffer = g->buffer,
				       .tx_buffer = g->buffer,
				       .quirks = DRIVER_NO_RX_BUFFERS };

	for (unsigned i = 0; i < 2; i++) {
		int rc;

		guest.connect = c->socket[i];
		rc = driver_open(&guest, &g->driver[i], err);
		if (!rc)
			rc = check_features(g, &g->driver[i]->fe, c->socket[i], err);
		if (rc)
			return rc;
	}
	return 0;
}

static int make_lanes(struct guests *g, struct error *err)
{
	g->lanes = 2 * g->config->queues;
	g->lane = calloc(g->lanes, sizeof(*g->lane));
	g->flow = aligned_alloc(CACHE_LINE, g->lanes * sizeof(*g->flow));
	if (g->flow)
		memset(g->flow, 0, g->lanes * sizeof(*g->flow));
	g->scratch = calloc(1, MAX(g->buffer, g->frame));
	if (g->config->timed)
		g->times = calloc(1, sizeof(*g->times));
	if (!g->lane || !g->flow || !g->scratch || (g->config->timed && !g->times))
		return error_no_memory(err);
	for (unsigned i = 0; i < g->lanes; i++) {
		if (make_lane(g, i))
			return error_no_memory(err);
	}
	return 0;
}

/* Announces until both guests hear each other. */
static int find_path(struct guests *g, struct error *err)
{
	unsigned heard = 0;

	for (unsigned i = 0; i < PATH_TRIES; i++) {
		for (unsigned k = 0; k < g->lanes; k++)
			guests_announce(g, &g->lane[k]);
		usleep(PATH_TRY_US);
		for (unsigned k = 0; k < g->lanes; k++) {
			if (guests_turn(g, &g->lane[k]))
				heard |= 1u << g->lane[k].guest;
		}
		if (heard == 3)
			return guests_check(g, err);
	}
	return error_set(err, ENOLINK, "no frames arrive from %s at %s",
			 g->config->socket[heard & 2 ? 1 : 0],
			 g->config->socket[heard & 2 ? 0 : 1]);
}

int guests_open(struct guests *g, const struct guests_config *config, struct error *err)
{
	int rc = cpu_pin_self(config->cpu);

	memset(g, 0, sizeof(*g));
	g->config = config;
	if (rc)
		return error_set(err, -rc,
				 "CPU %u cannot be used; give --cpu one of taskset -cp $$",
				 config->cpu);
	choose_buffers(g);
	if (g->slots > config->entries)
		return error_set(err, EINVAL,
				 "a frame of %u bytes needs %u descriptors: --entries "
				 "is too small",
				 g->frame, g->slots);
	rc = connect_guests(g, err);
	if (!rc)
		rc = make_lanes(g, err);
	return rc ? rc : find_path(g, err);
}

void guests_close(struct guests *g)
{
	for (unsigned i = 0; i < g->lanes && g->lane; i++) {
		free(g->lane[i].spare);
		free(g->lane[i].chains);
	}
	for (unsigned i = 0; i < g->lanes && g->flow; i++)
		free(g->flow[i].kept);
	free(g->lane);
	free(g->flow);
	free(g->scratch);
	free(g->times);
	driver_close(g->driver[0]);
	driver_close(g->driver[1]);
}

unsigned guests_buffers(const struct guests *g)
{
	return (g->frame + g->piece - 1) / g->piece;
}

uint64_t guests_kicks(const struct guests *g)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < g->lanes; i++)
		n += g->lane[i].rx->kicked + g->lane[i].tx->kicked;
	return n;
}

uint64_t guests_calls(struct guests *g)
{
	for (unsigned i = 0; i < g->lanes; i++) {
		struct lane *lane = &g->lane[i];
		uint64_t n;

		if (read(lane->tx->call, &n, sizeof(n)) == sizeof(n))
			g->calls += n;
		if (read(lane->rx->call, &n, sizeof(n)) != sizeof(n))
			continue;
		g->calls += n;
		lane->awake = true;
		ring_calls_off(lane->rx);
	}
	return g->calls;
}
