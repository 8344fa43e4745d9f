/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_RELAY_H
#define BOX_RELAY_H

#include "box/channel.h"

/*
 * The streams of a box between its clients and its guest, in the keeper. Each client numbers its
 * streams for itself; the relay gives every one a number of its own towards the guest.
 *
 * A stream: STARTING (exec sent) -> RUNNING (started came) -> gone (exit or fail came).
 * The guest is hostile: a frame that the state of its stream does not allow, or data beyond the
 * credit, is an error of the guest and ends the box. A client's mistake ends that client.
 * When a client leaves, its streams are killed; what they still send is thrown away under fresh
 * credit until their exit comes.
 */
struct relay;
struct relay_client;

struct relay *relay_new(void) __attribute__((warn_unused_result));
void relay_free(struct relay *r);

/* The guest's channel; NULL when it is lost (streams then stay until relay_free). */
void relay_set_guest(struct relay *r, struct channel *guest);

struct relay_client *relay_client_add(struct relay *r, struct channel *ch)
	__attribute__((warn_unused_result));
/* Forget a client and kill its streams. */
void relay_client_remove(struct relay *r, struct relay_client *c);

/* A frame on a stream, from either side. Returns 0, or -EPROTO with *ret_what (static text) when
 * the sender broke the rules, or -ENOBUFS/-ENOMEM when the other side cannot take it. */
int relay_from_client(struct relay *r, struct relay_client *c, const struct wire_msg *msg,
	const char **ret_what) __attribute__((warn_unused_result));
int relay_from_guest(struct relay *r, const struct wire_msg *msg, const char **ret_what)
	__attribute__((warn_unused_result));

size_t relay_streams(const struct relay *r);

#endif
