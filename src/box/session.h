/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_SESSION_H
#define BOX_SESSION_H

#include "base/err.h"
#include "base/hash.h"
#include "base/cancel.h"
#include "base/cond.h"
#include "box/channel.h"
#include "box/loop.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A client's connection to one keeper. The loop's thread receives; any thread sends and waits.
 * One lock per session guards it and its execs; each exec has a condition of its own.
 *
 *   STARTING --ready--> READY --ended--> ENDED        sockets closed by the keeper: `gone` besides
 */
enum session_state { SESSION_STARTING, SESSION_READY, SESSION_ENDED };

struct session_ready {
	uint64_t vmm_us;
	uint64_t hello_us;
	uint64_t ready_us;
	uint32_t vmm_pid;
	uint32_t attempts;
	char accel[8];
	char origin[12];
	char note[256];
};

/* One stream's receiver (box_exec.c). All is called on the loop's thread with the lock held. */
struct session_stream {
	uint32_t id; /* chosen by session_stream_add */
	void (*on_frame)(struct session_stream *s, const struct wire_msg *msg);
	/* The session has ended: nothing will come any more. */
	void (*on_ended)(struct session_stream *s);
	bool hash_oom;
	bool listed;
	UT_hash_handle hh;
};

struct session;

/* Take over the two sockets (also on failure). @box_id is for error objects. */
int session_open(struct loop *loop, int control_fd, int bulk_fd, const char *box_id,
	struct session **ret, holt_error **reterr);
/* Close the connection and free it; no stream may be left. */
void session_close(struct session *s);

/* How a box ended, as its keeper told; @told is false where it only closed its sockets. */
struct session_end {
	bool told;
	uint16_t reason; /* WIRE_END_ */
	uint32_t code;
	uint32_t flags;
};

/* Wait until commands can run, or until the keeper has closed the sockets. */
int session_wait_ready(struct session *s, uint64_t timeout_ms, holt_cancel *cancel,
	struct session_ready *ret, holt_error **reterr);
int session_wait_gone(struct session *s, uint64_t timeout_ms, holt_error **reterr);
/* Wait for the word that the box is over (or the closed sockets): 0, HOLT_ETIMEOUT,
 * HOLT_ECANCELLED. */
int session_wait_end(struct session *s, uint64_t timeout_ms, holt_cancel *cancel,
	struct session_end *ret, holt_error **reterr);
bool session_alive(struct session *s);
/* As session_end_error, without the lock. */
int session_why(struct session *s, holt_error **reterr);

const char *session_box_id(const struct session *s);
/* The protocol of the keeper: this program's own, unless a knock has told another. */
unsigned session_protocol(const struct session *s);
/* Before anybody else has the session. */
void session_set_protocol(struct session *s, unsigned protocol);
void session_lock(struct session *s);
void session_unlock(struct session *s);
pthread_mutex_t *session_mutex(struct session *s);

/* The following are called with the lock held. */
int session_stream_add(struct session *s, struct session_stream *stream)
	__attribute__((warn_unused_result));
void session_stream_remove(struct session *s, struct session_stream *stream);
/* Queue a frame: 0, -ENOMEM, -ENOBUFS (64 MiB wait already), -EMSGSIZE, -EPIPE (ended). */
int session_send(struct session *s, const struct wire_msg *msg) __attribute__((warn_unused_result));
/* Set @reterr to why the session has ended. Returns the negative code. */
int session_end_error(struct session *s, holt_error **reterr);

/* Wait on @cond until woken: 0, -HOLT_ETIMEOUT at @deadline_ms (clock_mono_ms, or HOLT_FOREVER),
 * -HOLT_ECANCELLED. Lock held. */
int session_cond_wait(
	struct session *s, pthread_cond_t *cond, uint64_t deadline_ms, const holt_cancel *cancel);

#endif
