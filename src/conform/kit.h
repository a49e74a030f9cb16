/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cases are made of. All that a case opens belongs to the kit, which closes it afterwards, so
 * a case may return at any point. Functions that return an int give an enum conform_verdict, 0
 * being "passed"; what was wrong is noted where it is found.
 */
#ifndef RINGWAY_CONFORM_KIT_H
#define RINGWAY_CONFORM_KIT_H

#include "conform/conform.h"
#include "driver/driver.h"
#include "driver/script.h"

#define KIT_DRIVERS_MAX 4
#define KIT_FDS_MAX	80
#define KIT_QUIET_MS	100 /* in which what must not happen would have happened */
#define KIT_FRAME_MIN	22  /* Ethernet header, number, length */
#define KIT_FRAME_ROOM	65600

struct kit {
	const struct conform_config *config;
	int listener[CONFORM_PORTS_MAX];
	uint64_t offered, protocol, pairs; /* by port 0 */
	int pid;			   /* who answers there; 0: unknown */
	/* Of the case that runs. */
	bool packed;
	struct driver *driver[KIT_DRIVERS_MAX];
	int fd[KIT_FDS_MAX];
	unsigned drivers, fds;
	uint32_t frame; /* number of the last one sent */
	const char *doing;
	char text[CONFORM_TEXT_MAX];
};

/* Notes what is wrong, unless something was before, and gives the verdict. */
#define kit_fail(k, ...) (kit_note(k, __VA_ARGS__), CONFORM_FAILED)
#define kit_lack(k, ...) (kit_note(k, __VA_ARGS__), CONFORM_NOT_OFFERED)
void kit_note(struct kit *k, const char *fmt, ...) printf_like(2, 3);

/* A descriptor that the kit closes after the case; returns it. */
int kit_keep(struct kit *k, int fd);

/* Closes all that the case has opened, and gives the back-end time to notice. */
void kit_hang_up(struct kit *k);

/* A new connection to a port, or -errno. Nothing has been said on it. */
int kit_dial(struct kit *k, unsigned port, struct error *err);
/* One to port 0 for a case, kept; the second has agreed to what kit_agree() does. */
int kit_connect(struct kit *k, int *ret_sock);
int kit_connect_agreed(struct kit *k, int *ret_sock);

/* A driver at a port; `config` NULL: defaults. Asks for packed rings if the case runs on them. */
int kit_open(struct kit *k, unsigned port, const struct driver_config *config, struct driver **ret);
/* One at port 0, whose first tx ring is at work: a frame from there was taken. */
int kit_open_running(struct kit *k, const struct driver_config *config, struct driver **ret);

/* Sends a request and takes its answer, which must be one; or a number of 8 bytes. */
int kit_ask(struct kit *k, int sock, uint32_t request, uint32_t flags, const void *payload,
	    uint32_t size, struct channel_message *ret);
int kit_ask_u64(struct kit *k, int sock, uint32_t request, uint32_t flags, uint64_t *ret);

/* Are answers in step with requests? */
int kit_in_step(struct kit *k, int sock);

/* Agrees to REPLY_ACK and whatever else of the protocol is offered. */
int kit_agree(struct kit *k, int sock);

/* Makes the next frame between the ports, of `len` bytes. */
void kit_frame(struct kit *k, uint8_t *frame, uint32_t len, unsigned from, unsigned to);

/* Sends `count` frames from a pair of a driver, which must all be given back. */
int kit_pump(struct kit *k, struct driver *d, unsigned pair, unsigned count);
/* The same when they are already in the ring. */
int kit_drain(struct kit *k, struct driver *d, unsigned index);

/* Frames from one driver to another, one at a time. Zeroes are sensible defaults. */
struct kit_traffic {
	struct driver *from, *to;
	unsigned from_port, to_port; /* both 0: 0 and 1 */
	unsigned count;		     /* 0: 50 */
	uint32_t len_min, len_max;   /* 0: 60 to 1514 */
	const struct driver_shape *shape;
	bool by_call;			      /* the receiver waits for calls */
	unsigned buffers;		      /* that the frames took, summed up */
	struct virtio_net_hdr_mrg_rxbuf last; /* header of the last one */
};

/* Every frame must arrive as it was sent, at the first or a later try. */
int kit_traffic(struct kit *k, struct kit_traffic *t);

/*
 * One frame of the traffic: 1 (something of ours in `got`), 0 (nothing within the time), or a
 * verdict's negative.
 */
int kit_receive(struct kit *k, struct kit_traffic *t, uint8_t *got, struct driver_frame *f,
		int timeout_ms);

/* Two drivers, at ports 0 and 1, between which frames already pass. */
int kit_open_both(struct kit *k, const struct driver_config *from, const struct driver_config *to,
		  struct kit_traffic *ret);

/* Does the back-end serve a new connection, to the point of giving a frame's buffer back? */
bool kit_alive(struct kit *k, struct error *err);

#endif
