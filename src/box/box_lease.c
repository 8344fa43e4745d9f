/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's half of holding a box (box_lease.h): one question to its keeper. What has become of
 * a hold whose answer nobody waited for is unknown here, so it is taken back: requests of one
 * connection arrive in order.
 */
#include "box/box_lease.h"

#include <string.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/mem.h"
#include "base/thread_context.h"
#include "box/request.h"
#include "wire/wire.h"
#include "base/banned.h"

#define LEASE_PROTOCOL 3u /* the first that knows of it */
/* Beyond the wait: for a machine that is paused to go on, or a keeper to answer. */
#define ANSWER_MS 10000u

static struct wire_bytes bytes_of(const char *s)
{
	return (struct wire_bytes){(const uint8_t *)s, (uint32_t)strlen(s)};
}

/* A box that is over is one error, however that was noticed: the caller goes for another. */
static int explain(struct holt_box *b, struct session *s, const char *stage, holt_error *error,
	holt_error **reterr)
{
	const int code = holt_error_code(error);
	struct box_state now;

	box_look(b, &now);
	const bool over = s ? !session_alive(s) : now.phase == BOX_EXITED || now.phase == BOX_GONE;
	int r = 0;
	if (code == HOLT_ETIMEOUT && !s && now.phase == BOX_STARTING)
		r = err_make(reterr, HOLT_EBUSY, "the box is still being started");
	else if (over && code != HOLT_ECANCELLED && code != HOLT_ENO_MEMORY)
		r = err_make(
			reterr, HOLT_ECLOSED, "the box has ended: %s", holt_error_message(error));
	if (r == 0) {
		err_stage(&error, stage);
		return err_take(reterr, error);
	}
	err_stage(reterr, stage);
	err_object(reterr, b->rec.id);
	holt_error_free(error);
	return r;
}

static int check_protocol(struct session *s, holt_error **reterr)
{
	if (session_protocol(s) >= LEASE_PROTOCOL)
		return 0;
	(void)err_make(reterr, HOLT_EUNSUPPORTED,
		"the box's keeper speaks protocol %u, which knows no holds", session_protocol(s));
	err_object(reterr, session_box_id(s));
	err_hint(
		reterr, "an older version of holt has started the box: stop it and start it again");
	return -HOLT_EUNSUPPORTED;
}

static uint64_t later(uint64_t ms, uint64_t more_ms)
{
	return ms >= HOLT_FOREVER - more_ms ? HOLT_FOREVER : ms + more_ms;
}

static uint64_t left_of(uint64_t deadline_ms)
{
	const uint64_t now_ms = clock_mono_ms();

	if (deadline_ms == HOLT_FOREVER)
		return HOLT_FOREVER;
	return deadline_ms > now_ms ? deadline_ms - now_ms : 0;
}

static struct wire_msg hold_msg(const struct lease_wish *w, uint64_t wait_ms)
{
	return (struct wire_msg){.op = WIRE_OP_hold,
		.hold = {.wait_ms = wait_ms,
			.idle_ms = w->idle_ms,
			.pause_ms = w->pause_after_ms,
			.on_idle = w->stop_when_idle ? WIRE_IDLE_STOP : WIRE_IDLE_DESTROY,
			.holder = bytes_of(w->holder),
			.label = bytes_of(w->label),
			.trace = bytes_of(w->trace)}};
}

/* Ask, and leave nothing of it where the answer does not come. */
static int ask_hold(
	struct session *s, const struct wire_msg *msg, holt_cancel *cancel, holt_error **reterr)
{
	const int r = session_ask(
		s, msg, later(msg->hold.wait_ms, ANSWER_MS), cancel, NULL, reterr);

	if (r == -HOLT_ETIMEOUT || r == -HOLT_ECANCELLED)
		(void)session_tell(s, &(struct wire_msg){.op = WIRE_OP_unhold}, NULL);
	if (r == -HOLT_EBUSY)
		err_hint(reterr, "wait until it is released there, or allow more time");
	return r;
}

int box_hold(struct holt_box *b, const struct lease_wish *w, uint64_t wait_ms, holt_cancel *cancel,
	holt_error **reterr)
{
	const uint64_t deadline_ms = cond_deadline(wait_ms);
	const uint64_t reach_ms = wait_ms > DOOR_WAIT_MS ? wait_ms : DOOR_WAIT_MS;
	struct session *s = NULL;
	holt_error *error = NULL;
	int r = box_connect_within(b, reach_ms, cancel, &s, &error);

	if (r == 0)
		r = check_protocol(s, &error);
	if (r == 0) {
		const struct wire_msg msg = hold_msg(w, left_of(deadline_ms));

		r = ask_hold(s, &msg, cancel, &error);
	}
	return r < 0 ? explain(b, s, "hold", error, reterr) : 0;
}

/* Only a connection that there is can have a hold. */
int box_park(struct holt_box *b, holt_error **reterr)
{
	struct session *s = box_session(b);
	auto_error error = NULL;

	const struct wire_msg msg = {
		.op = WIRE_OP_unhold, .unhold = {.trace = bytes_of(context_trace())}};

	if (!s || session_protocol(s) < LEASE_PROTOCOL)
		return 0;
	const int r = session_ask(s, &msg, ANSWER_MS, NULL, NULL, &error);
	if (r == 0 || !session_alive(s))
		return 0;
	err_stage(&error, "park");
	return err_take(reterr, take_ptr(error));
}

int box_lease(struct holt_box *b, uint64_t lease_ms, uint64_t timeout_ms, holt_error **reterr)
{
	const uint64_t deadline_ms = cond_deadline(timeout_ms);
	struct session *s = NULL;
	holt_error *error = NULL;
	int r = box_connect_within(b, timeout_ms, NULL, &s, &error);

	if (r == 0)
		r = check_protocol(s, &error);
	if (r == 0)
		r = session_ask(s,
			&(struct wire_msg){.op = WIRE_OP_lease, .lease = {.lease_ms = lease_ms}},
			left_of(deadline_ms), NULL, NULL, &error);
	return r < 0 ? explain(b, s, "lease", error, reterr) : 0;
}
