/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_NAMES_STREAM_H
#define NET_NAMES_STREAM_H

#include "base/err.h"
#include "net/poll_set.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Questions of names by TCP (RFC 7766): the few states of TCP that a server of short messages on a
 * link without errors needs, made of the guest's frames. libslirp cannot end connections of one
 * guest here: what it hands to a function of ours has no connection in it.
 *
 *   SYN -> SYN ACK -> questions, one after another -> answers -> FIN of the guest -> FIN
 *
 * Segments out of order are dropped and come again; what is not acknowledged in time is sent again
 * from there on (go back n), STREAM_TRIES times. A connection without anything new for
 * STREAM_IDLE_MS ends.
 */
#define STREAM_MAX       64u /* connections; a SYN that finds none free is dropped */
#define STREAM_IDLE_MS   15000u
#define STREAM_RESEND_MS 400u /* doubled each time */
#define STREAM_TRIES     5u

struct names_streams;

struct names_streams_options {
	/* A whole question; the answer comes by names_streams_answer, perhaps at once. */
	void (*ask)(uint32_t id, const void *data, size_t len, void *user);
	void (*forget)(uint32_t id, void *user);
	void (*send)(const void *frame, size_t len, void *user);
	void *user;
};

enum names_stream_verdict {
	STREAM_FOREIGN, /* not TCP to a resolver's port 53 */
	STREAM_TAKEN,
	STREAM_REFUSE /* belongs to no connection: deserves a reset */
};

int names_streams_new(const struct names_streams_options *options, struct names_streams **ret,
	holt_error **reterr);
void names_streams_free(struct names_streams *t);

/* A frame of the guest that the filter passed. */
enum names_stream_verdict names_streams_frame(
	struct names_streams *t, const uint8_t *frame, size_t len, uint64_t now_ms);
/* @len 0: there is none, and the connection ends. */
void names_streams_answer(
	struct names_streams *t, uint32_t id, const void *data, size_t len, uint64_t now_ms);

void names_streams_wait(const struct names_streams *t, struct poll_set *set);
void names_streams_ready(struct names_streams *t, uint64_t now_ms);

size_t names_streams_open(const struct names_streams *t);

#endif
