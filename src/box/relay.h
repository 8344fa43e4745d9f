/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_RELAY_H
#define BOX_RELAY_H

#include "box/channel.h"

/*
 * The streams of a box between its clients and its guest, in the keeper. Each client numbers its
 * streams for itself; the relay gives every one a number of its own towards the guest.
 *
 * A stream is an exec or a request (ping, stats), which its answer ends.
 *   plain exec   belongs to one client and is passed through; killed when the client leaves.
 *   kept exec    belongs to the box: its output goes through rings (relay_kept.c), a client may
 *                leave it and another attach. One kept exec may be the program of the box.
 *
 * STARTING (exec sent) -> RUNNING (started came) -> gone, or for a kept one ENDED (exit came).
 * The guest is hostile: a frame that the state of its stream does not allow, or data beyond the
 * credit, is an error of the guest and ends the box. A client's mistake ends that client.
 */
struct relay;
struct relay_client;

struct relay_hooks {
	/* Output of the box's program, before any client sees it. */
	void (*program_output)(
		void *user, enum wire_channel channel, const uint8_t *data, size_t len);
	/* It ended (exit) or did not start (fail). */
	void (*program_ended)(void *user, const struct wire_msg *msg);
	void *user;
};

struct relay *relay_new(const struct relay_hooks *hooks) __attribute__((warn_unused_result));
void relay_free(struct relay *r);

/* The guest's channel; NULL when it is lost (streams then stay until relay_free). */
void relay_set_guest(struct relay *r, struct channel *guest);
/* While paused, clients' new execs and requests are refused. */
void relay_set_paused(struct relay *r, bool paused);
/* The same while the host's disk is full. */
void relay_set_full(struct relay *r, bool full);

struct relay_client *relay_client_add(struct relay *r, struct channel *ch)
	__attribute__((warn_unused_result));
/* Forget a client: its plain execs are killed, kept ones go on. */
void relay_client_remove(struct relay *r, struct relay_client *c);
/* Whether frames for it got lost, since it does not read: nothing that it gets can be trusted any
 * more, and the keeper has to drop it. */
bool relay_client_broken(const struct relay_client *c);
/* The client's channel has room again. Returns as relay_from_client. */
int relay_client_drained(struct relay *r, struct relay_client *c)
	__attribute__((warn_unused_result));

/* A frame on a stream, from either side. Returns 0, or -EPROTO with *ret_what (static text) when
 * the sender broke the rules, or -ENOBUFS/-ENOMEM when the other side cannot take it. */
int relay_from_client(struct relay *r, struct relay_client *c, const struct wire_msg *msg,
	const char **ret_what) __attribute__((warn_unused_result));
int relay_from_guest(struct relay *r, const struct wire_msg *msg, const char **ret_what)
	__attribute__((warn_unused_result));

/* A request of the keeper's own: @answer gets done or fail, or NULL when the relay goes. */
int relay_ask(struct relay *r, const struct wire_msg *msg,
	void (*answer)(void *user, const struct wire_msg *msg), void *user)
	__attribute__((warn_unused_result));

/* Whether the box has a program that runs; a signal for it. */
bool relay_has_program(const struct relay *r);
int relay_signal_program(struct relay *r, uint32_t signo, uint32_t flags)
	__attribute__((warn_unused_result));

/* Tell a client that its request on @stream failed in the keeper, or is done. */
int relay_refuse(struct relay_client *c, uint32_t stream, enum wire_fail_class class, int errnum,
	const char *text) __attribute__((warn_unused_result));
int relay_done(struct relay_client *c, uint32_t stream) __attribute__((warn_unused_result));

/* Whether the client has not yet got all output and the exit of an ended exec. */
bool relay_owes(const struct relay *r, const struct relay_client *c);
size_t relay_streams(const struct relay *r);

#endif
