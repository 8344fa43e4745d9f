/* SPDX-License-Identifier: Apache-2.0 */
#include "box/request.h"

#include <errno.h>

#include "box/guest_error.h"
#include "base/banned.h"

struct request {
	struct session_stream stream;
	pthread_cond_t cond;
	bool over;
	bool lost;
	struct wire_msg answer;
	holt_error *failure;
};

static struct request *request_of(struct session_stream *stream)
{
	return (struct request *)((char *)stream - offsetof(struct request, stream));
}

static void on_frame(struct session_stream *stream, const struct wire_msg *msg)
{
	struct request *r = request_of(stream);

	if (r->over)
		return;
	r->over = true;
	r->answer = *msg;
	if (msg->op == WIRE_OP_fail)
		(void)guest_error(&msg->fail, &r->failure);
	(void)pthread_cond_broadcast(&r->cond);
}

static void on_ended(struct session_stream *stream)
{
	struct request *r = request_of(stream);

	r->lost = true;
	(void)pthread_cond_broadcast(&r->cond);
}

static int ask_locked(struct session *s, struct request *r, const struct wire_msg *msg,
	uint64_t timeout_ms, holt_cancel *cancel, holt_error **reterr)
{
	const uint64_t deadline_ms = cond_deadline(timeout_ms);
	struct wire_msg copy = *msg;
	int rc = session_stream_add(s, &r->stream);

	if (rc == 0) {
		copy.stream = r->stream.id;
		rc = session_send(s, &copy);
	}
	if (rc == -EPIPE)
		return session_end_error(s, reterr);
	if (rc < 0)
		return rc == -ENOMEM ? err_nomem(reterr)
				     : err_make(reterr, HOLT_ELIMIT,
					       "too much is waiting for the box already");
	while (!r->over && !r->lost && rc == 0)
		rc = session_cond_wait(s, &r->cond, deadline_ms, cancel);
	if (r->failure) {
		if (!*holt_error_object(r->failure))
			err_object(&r->failure, session_box_id(s));
		return err_take(reterr, r->failure);
	}
	if (r->over)
		return 0;
	if (r->lost)
		return session_end_error(s, reterr);
	(void)err_make(reterr, -rc,
		rc == -HOLT_ECANCELLED ? "waiting for the box was cancelled"
				       : "the box did not answer within %llu ms",
		(unsigned long long)timeout_ms);
	err_stage(reterr, wire_op_name(msg->op));
	err_object(reterr, session_box_id(s));
	if (rc == -HOLT_ETIMEOUT)
		err_hint(reterr, "it may be overloaded; 'holt kill' ends it");
	return rc;
}

int session_ask(struct session *s, const struct wire_msg *msg, uint64_t timeout_ms,
	holt_cancel *cancel, struct wire_msg *ret, holt_error **reterr)
{
	struct request r = {.stream = {.on_frame = on_frame, .on_ended = on_ended}};
	struct cancel_waiter waiter = {.lock = session_mutex(s), .cond = &r.cond};

	cond_init(&r.cond);
	cancel_enter(cancel, &waiter);
	session_lock(s);
	const int rc = ask_locked(s, &r, msg, timeout_ms, cancel, reterr);
	session_stream_remove(s, &r.stream);
	session_unlock(s);
	cancel_leave(cancel, &waiter);
	(void)pthread_cond_destroy(&r.cond);
	if (rc == 0 && ret)
		*ret = r.answer;
	return rc;
}

int session_tell(struct session *s, const struct wire_msg *msg, holt_error **reterr)
{
	struct request r = {.stream = {.on_frame = on_frame, .on_ended = on_ended}};
	struct wire_msg copy = *msg;

	cond_init(&r.cond);
	session_lock(s);
	/* Only for its number: what comes to it later concerns nobody. */
	int rc = session_stream_add(s, &r.stream);
	copy.stream = r.stream.id;
	if (rc == 0)
		rc = session_send(s, &copy);
	session_stream_remove(s, &r.stream);
	session_unlock(s);
	(void)pthread_cond_destroy(&r.cond);
	holt_error_free(r.failure);
	/* One that has ended already needs no word. */
	if (rc == 0 || rc == -EPIPE)
		return 0;
	return rc == -ENOMEM ? err_nomem(reterr)
			     : err_make(reterr, HOLT_ELIMIT, "too much is waiting for the box");
}
