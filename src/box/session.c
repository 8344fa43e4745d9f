/* SPDX-License-Identifier: Apache-2.0 */
#include "box/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/keeper.h"
#include "base/banned.h"

/* Bytes that may wait for the keeper. */
#define SESSION_QUEUE_MAX (64u << 20)
#define SESSION_TEXT_MAX  8192

struct session {
	struct loop *loop;
	struct loop_kick kick;
	char box_id[40];
	int fds[2]; /* the channel's; open until after the state is ENDED */
	int init_result;
	unsigned protocol;
	struct channel ch;

	pthread_mutex_t lock; /* of everything below */
	pthread_cond_t cond;
	enum session_state state;
	bool gone; /* the keeper has closed its sockets, or never was there */
	bool closed; /* the channel's memory may go */
	struct session_ready ready;
	struct session_end end; /* told: by an `ended` frame, not just by a closed socket */
	uint32_t end_errnum;
	char end_stage[64];
	char end_text[SESSION_TEXT_MAX];
	char end_hint[256];
	struct session_stream *streams;
	uint32_t next_id;
	struct buf out[2];
	bool busy[2]; /* the channel has not written all it was given */
};

/* ---- loop thread ---- */

static void ended_locked(struct session *s)
{
	struct session_stream *stream, *next;

	if (s->state == SESSION_ENDED)
		return;
	s->state = SESSION_ENDED;
	HASH_ITER (hh, s->streams, stream, next)
		stream->on_ended(stream);
	(void)pthread_cond_broadcast(&s->cond);
}

static void take_text(char *dst, size_t cap, struct wire_bytes b)
{
	(void)str_escape(dst, cap, b.data, b.len, true);
}

static void on_ready(struct session *s, const struct wire_ready *m)
{
	s->ready = (struct session_ready){.vmm_us = m->vmm_us,
		.hello_us = m->hello_us,
		.ready_us = m->ready_us,
		.vmm_pid = m->vmm_pid,
		.attempts = m->attempts};
	take_text(s->ready.accel, sizeof s->ready.accel, m->accel);
	take_text(s->ready.origin, sizeof s->ready.origin, m->origin);
	take_text(s->ready.note, sizeof s->ready.note, m->note);
	if (s->state == SESSION_STARTING)
		s->state = SESSION_READY;
	(void)pthread_cond_broadcast(&s->cond);
}

static void on_ended(struct session *s, const struct wire_ended *m)
{
	s->end = (struct session_end){
		.told = true, .reason = m->reason, .code = m->code, .flags = m->flags};
	s->end_errnum = m->errnum;
	take_text(s->end_stage, sizeof s->end_stage, m->stage);
	take_text(s->end_text, sizeof s->end_text, m->text);
	take_text(s->end_hint, sizeof s->end_hint, m->hint);
	/* The last output and an exit may still be on their way on the other lane: it is over when
	 * the keeper closes the sockets, which it does now. */
}

static void on_frame(struct channel *ch, enum wire_lane lane, const struct wire_msg *msg)
{
	struct session *s = ch->user;
	struct session_stream *stream = NULL;

	(void)lane;
	session_lock(s);
	if (msg->op == WIRE_OP_ready) {
		on_ready(s, &msg->ready);
	} else if (msg->op == WIRE_OP_ended) {
		on_ended(s, &msg->ended);
	} else {
		HASH_FIND(hh, s->streams, &msg->stream, sizeof msg->stream, stream);
		if (stream)
			stream->on_frame(stream, msg);
	}
	session_unlock(s);
}

static void on_lost(struct channel *ch, int errnum, const char *what)
{
	struct session *s = ch->user;

	session_lock(s);
	if (!s->end.told)
		(void)snprintf(s->end_text, sizeof s->end_text,
			"the box's keeper ended without a word (%s)",
			errnum ? strerrordesc_np(errnum) : what);
	s->gone = true;
	ended_locked(s);
	(void)pthread_cond_broadcast(&s->cond);
	session_unlock(s);
}

static void on_closed(struct channel *ch)
{
	struct session *s = ch->user;

	session_lock(s);
	s->closed = true;
	(void)pthread_cond_broadcast(&s->cond);
	session_unlock(s);
}

/* Move what threads have queued to the channel. */
static void flush(void *arg)
{
	struct session *s = arg;

	session_lock(s);
	for (int lane = WIRE_CONTROL; lane <= WIRE_BULK; lane++) {
		struct buf *out = &s->out[lane];

		if (out->len == 0 ||
			channel_send_raw(&s->ch, (enum wire_lane)lane, out->data, out->len) < 0)
			continue;
		out->len = 0;
		s->busy[lane] = channel_queued(&s->ch, (enum wire_lane)lane) > 0;
	}
	session_unlock(s);
}

/* What did not fit before goes on now. */
static void on_drain(struct channel *ch, enum wire_lane lane)
{
	struct session *s = ch->user;

	session_lock(s);
	s->busy[lane] = false;
	session_unlock(s);
	flush(s);
}

static void do_init(void *arg)
{
	struct session *s = arg;
	static const struct channel_ops ops = {.on_frame = on_frame,
		.on_lost = on_lost,
		.on_drain = on_drain,
		.on_closed = on_closed};

	s->init_result = channel_init(&s->ch, loop_uv(s->loop), WIRE_AS_CLIENT, s->fds[0],
		s->fds[1], SESSION_QUEUE_MAX, &ops, s);
}

static void do_close(void *arg)
{
	struct session *s = arg;

	loop_unkick(&s->kick);
	channel_close(&s->ch);
}

/* ---- any thread ---- */

int session_open(struct loop *loop, int control_fd, int bulk_fd, const char *box_id,
	struct session **ret, holt_error **reterr)
{
	struct session *s = mem_zalloc(sizeof *s);

	if (!s) {
		(void)fd_close(control_fd);
		(void)fd_close(bulk_fd);
		return err_nomem(reterr);
	}
	s->loop = loop;
	s->protocol = KEEPER_PROTOCOL;
	s->kick = (struct loop_kick){.loop = loop, .fn = flush, .arg = s};
	s->fds[0] = control_fd;
	s->fds[1] = bulk_fd;
	s->next_id = 1;
	s->out[0] = s->out[1] = BUF_INIT(SESSION_QUEUE_MAX);
	(void)snprintf(s->box_id, sizeof s->box_id, "%s", box_id);
	(void)pthread_mutex_init(&s->lock, NULL);
	cond_init(&s->cond);
	loop_call(loop, do_init, s);
	if (s->init_result < 0) {
		const int r = s->init_result;

		session_close(s);
		return err_errno(reterr, -r, "cannot connect to the box's keeper");
	}
	*ret = s;
	return 0;
}

void session_close(struct session *s)
{
	if (!s)
		return;
	loop_call(s->loop, do_close, s);
	session_lock(s);
	while (!s->closed)
		(void)pthread_cond_wait(&s->cond, &s->lock);
	session_unlock(s);
	buf_done(&s->out[0]);
	buf_done(&s->out[1]);
	(void)pthread_cond_destroy(&s->cond);
	(void)pthread_mutex_destroy(&s->lock);
	mem_free(s);
}

const char *session_box_id(const struct session *s)
{
	return s->box_id;
}

unsigned session_protocol(const struct session *s)
{
	return s->protocol;
}

void session_set_protocol(struct session *s, unsigned protocol)
{
	s->protocol = protocol;
}

void session_lock(struct session *s)
{
	(void)pthread_mutex_lock(&s->lock);
}

void session_unlock(struct session *s)
{
	(void)pthread_mutex_unlock(&s->lock);
}

pthread_mutex_t *session_mutex(struct session *s)
{
	return &s->lock;
}

int session_cond_wait(
	struct session *s, pthread_cond_t *cond, uint64_t deadline_ms, const holt_cancel *cancel)
{
	if (cancel_fired(cancel))
		return -HOLT_ECANCELLED;
	return cond_wait(cond, &s->lock, deadline_ms) ? 0 : -HOLT_ETIMEOUT;
}

int session_stream_add(struct session *s, struct session_stream *stream)
{
	if (s->state == SESSION_ENDED)
		return -EPIPE;
	stream->id = s->next_id++;
	HASH_ADD(hh, s->streams, id, sizeof stream->id, stream);
	if (stream->hash_oom)
		return -ENOMEM;
	stream->listed = true;
	return 0;
}

void session_stream_remove(struct session *s, struct session_stream *stream)
{
	if (stream->listed)
		HASH_DELETE(hh, s->streams, stream);
	stream->listed = false;
}

/* What nothing is queued before may go out at once, without waking the loop's thread, as far as the
 * socket takes it. Returns how much that was. */
static size_t send_at_once(struct session *s, int lane, const uint8_t *data, size_t len)
{
	const ssize_t n = s->busy[lane]
				  ? 0
				  : send(s->fds[lane], data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

	return n > 0 ? (size_t)n : 0;
}

int session_send(struct session *s, const struct wire_msg *msg)
{
	const int lane = wire_lane_of(msg->op);
	const size_t size = wire_size(msg);
	size_t len = 0;

	if (s->state == SESSION_ENDED)
		return -EPIPE;
	if (lane < 0 || size == 0)
		return -EMSGSIZE;
	struct buf *out = &s->out[lane];
	if (out->len + size > out->max)
		return -ENOBUFS;
	uint8_t *to = buf_reserve(out, size);
	if (!to)
		return -ENOMEM;
	if (wire_encode(msg, to, size, &len) != WIRE_OK)
		return -EMSGSIZE;
	const size_t sent = out->len == 0 ? send_at_once(s, lane, to, len) : 0;
	out->len += len;
	buf_consume(out, sent);
	if (out->len > 0)
		loop_kick(&s->kick);
	return 0;
}

/* What the caller can do about a network that cannot be had. */
static int network_code(int errnum)
{
	switch (errnum) {
	case EADDRINUSE:
		return HOLT_EBUSY;
	case EACCES:
	case EPERM:
		return HOLT_EDENIED;
	case EADDRNOTAVAIL:
	case EINVAL:
		return HOLT_EINVALID;
	default:
		return HOLT_EUNAVAILABLE;
	}
}

int session_end_error(struct session *s, holt_error **reterr)
{
	static const int codes[] = {
		[WIRE_END_STOPPED] = HOLT_EGUEST_LOST,
		[WIRE_END_BOOT_FAILED] = HOLT_ETIMEOUT,
		[WIRE_END_VM_CRASHED] = HOLT_EGUEST_LOST,
		[WIRE_END_PROTOCOL] = HOLT_EPROTOCOL,
		[WIRE_END_OWNER_GONE] = HOLT_EGUEST_LOST,
		[WIRE_END_SETUP_FAILED] = HOLT_EGUEST_LOST,
		[WIRE_END_HOST] = HOLT_EUNAVAILABLE,
		[WIRE_END_PROGRAM] = HOLT_EGUEST_LOST,
		[WIRE_END_KILLED] = HOLT_EGUEST_LOST,
		[WIRE_END_OOM] = HOLT_EGUEST_LOST,
		[WIRE_END_POWEROFF] = HOLT_EGUEST_LOST,
	};
	int code = HOLT_EGUEST_LOST;

	if (s->end.told && s->end.reason < sizeof codes / sizeof codes[0])
		code = codes[s->end.reason];
	if (code == HOLT_EUNAVAILABLE && strcmp(s->end_stage, "network") == 0)
		code = network_code((int)s->end_errnum);
	/* The host cannot, however often one tries. */
	if (s->end.told && s->end.reason == WIRE_END_HOST && s->end_errnum == EOPNOTSUPP)
		code = HOLT_EUNSUPPORTED;
	(void)err_make(reterr, code, "%s", s->end_text);
	err_stage(reterr, s->end_stage[0] ? s->end_stage : "keeper");
	err_object(reterr, s->box_id);
	if (s->end_hint[0])
		err_hint(reterr, "%s", s->end_hint);
	if (s->end.told && s->end.reason != WIRE_END_VM_CRASHED)
		err_set_errno(reterr, (int)s->end_errnum);
	return -code;
}

int session_wait_ready(struct session *s, uint64_t timeout_ms, holt_cancel *cancel,
	struct session_ready *ret, holt_error **reterr)
{
	struct cancel_waiter waiter = {.lock = &s->lock, .cond = &s->cond};
	const uint64_t deadline_ms = cond_deadline(timeout_ms);
	int r = 0;

	cancel_enter(cancel, &waiter);
	session_lock(s);
	while (s->state == SESSION_STARTING && r == 0)
		r = session_cond_wait(s, &s->cond, deadline_ms, cancel);
	if (s->state == SESSION_READY) {
		*ret = s->ready;
		r = 0;
	} else if (s->state == SESSION_ENDED) {
		r = session_end_error(s, reterr);
	} else {
		r = err_make(reterr, -r,
			r == -HOLT_ECANCELLED ? "the start was cancelled"
					      : "the box's keeper did not answer");
		err_stage(reterr, "boot");
		err_object(reterr, s->box_id);
	}
	session_unlock(s);
	cancel_leave(cancel, &waiter);
	return r;
}

int session_why(struct session *s, holt_error **reterr)
{
	session_lock(s);
	const int r = session_end_error(s, reterr);
	session_unlock(s);
	return r;
}

bool session_alive(struct session *s)
{
	session_lock(s);
	const bool alive = s->state != SESSION_ENDED;
	session_unlock(s);
	return alive;
}

int session_wait_end(struct session *s, uint64_t timeout_ms, holt_cancel *cancel,
	struct session_end *ret, holt_error **reterr)
{
	struct cancel_waiter waiter = {.lock = &s->lock, .cond = &s->cond};
	const uint64_t deadline_ms = cond_deadline(timeout_ms);
	int r = 0;

	cancel_enter(cancel, &waiter);
	session_lock(s);
	while (s->state != SESSION_ENDED && r == 0)
		r = session_cond_wait(s, &s->cond, deadline_ms, cancel);
	if (s->state == SESSION_ENDED) {
		*ret = s->end;
		r = 0;
	}
	session_unlock(s);
	cancel_leave(cancel, &waiter);
	if (r < 0)
		(void)err_make(reterr, -r,
			r == -HOLT_ECANCELLED ? "waiting for the box's end was cancelled"
					      : "the box did not end in time");
	return r;
}

int session_wait_gone(struct session *s, uint64_t timeout_ms, holt_error **reterr)
{
	const uint64_t deadline_ms = cond_deadline(timeout_ms);
	int r = 0;

	session_lock(s);
	while (!s->gone && r == 0)
		r = session_cond_wait(s, &s->cond, deadline_ms, NULL);
	session_unlock(s);
	if (r < 0)
		return err_make(reterr, -r, "the box's keeper does not end");
	return 0;
}
