/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_RELAY_STREAM_H
#define BOX_RELAY_STREAM_H

#include "base/hash.h"
#include "box/relay.h"
#include "box/ring.h"

/* What relay.c and relay_kept.c share. */

enum stream_state { STREAM_STARTING, STREAM_RUNNING, STREAM_ENDED };

/* One direction of a kept exec's output. */
struct kept_out {
	struct ring ring;
	uint64_t pos; /* the client has everything before it */
	uint64_t credit; /* what the client takes */
	bool eof_sent;
};

struct kept {
	uint32_t number;
	bool program;
	uint32_t pid;
	size_t keep; /* bytes that an attaching client may get */
	struct kept_out out[2];
	struct wire_msg end; /* exit, once it has ended */
	uint64_t end_order; /* which ended first */
};

struct stream {
	struct relay *relay;
	uint32_t guest_id;
	uint32_t client_id;
	struct relay_client *client; /* NULL: none, or the keeper itself */
	uint16_t request; /* op of a request, 0 for an exec */
	void (*answer)(void *user, const struct wire_msg *msg); /* of the keeper's own request */
	void *answer_user;
	enum stream_state state;
	bool tty;
	bool out_eof[3];
	bool in_eof;
	uint64_t out_credit[3]; /* what the guest may still send, per channel */
	uint64_t in_credit; /* what the client may still send */
	struct kept *kept; /* NULL for a plain exec */
	bool hash_oom;
	UT_hash_handle by_guest;
	UT_hash_handle by_client;
};

struct relay_client {
	struct channel *ch;
	bool got_exit; /* of a kept exec; it may still wait in the channel */
	struct stream *streams;
	bool broken;
};

struct relay {
	struct relay_hooks hooks;
	struct channel *guest;
	struct stream *streams;
	struct stream *program; /* NULL: there was none yet */
	bool paused;
	bool full;
	uint32_t next_id;
	uint32_t next_number;
	uint64_t ended; /* kept execs that ever ended */
	size_t ended_kept; /* of them still here */
};

/* relay.c */
int stream_to_guest(struct stream *s, const struct wire_msg *msg);
/* A frame that comes but once: a client that cannot take it is broken. */
int stream_to_client(struct stream *s, const struct wire_msg *msg);
/* The same where it is offered again later. */
int stream_offer(struct stream *s, const struct wire_msg *msg);
int stream_join(struct stream *s, struct relay_client *c, uint32_t client_id);
void stream_part(struct stream *s);
void stream_free(struct stream *s);

/* relay_kept.c; results as of relay_from_client. */
int kept_new(struct stream *s, struct wire_msg *exec);
void kept_free(struct stream *s);
int kept_attach(struct relay *r, struct relay_client *c, const struct wire_msg *msg);
int kept_started(struct stream *s, const struct wire_msg *msg);
int kept_client_credit(struct stream *s, enum wire_channel channel, uint32_t bytes);
int kept_data(struct stream *s, enum wire_channel channel, const struct wire_bytes *bytes);
int kept_eof(struct stream *s);
int kept_end(struct stream *s, const struct wire_msg *msg);
/* Send the client what it can take and the guest the credit that follows. */
int kept_pump(struct stream *s);
/* After its client has left: let the guest go on. */
void kept_alone(struct stream *s);
bool kept_owes(const struct stream *s);
/* Forget the oldest that have ended, where there are too many. It frees streams. */
void kept_trim(struct relay *r);

#endif
