/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has a box of a pool (box_lease.h): the keeper sees at once when the process that holds the
 * box is gone, and it lives while no process of ours does, so nobody else has to remember anything.
 *
 *   NONE --hold--> HELD --parked, or the holder's connection is gone--> WARM --hold--> HELD ...
 *                   '-- somebody waits: HELD by the first of them        |-- pause_ms: paused
 *                   '-- a lease lasts: HELD by nobody                    '-- idle_ms: the box ends
 *
 * The holder is a client, and the keeper serves one event after another: there is never a second.
 * Each client has at most one hold that is not answered yet, so there are never more than clients.
 * A hold is answered when the machine runs; nobody else comes in between meanwhile.
 *
 * Times count from the moment of parking on CLOCK_BOOTTIME, which goes on while the host sleeps.
 * One timer stands for whatever is due first. A box that nobody ever held is left alone.
 */
#include "box/keeper_inside.h"

#include <errno.h>
#include <stdio.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/banned.h"

#define NEVER      UINT64_MAX
#define NS_PER_MS  UINT64_C(1000000)
#define HOLDER_MAX (sizeof((struct keeper_hold *)0)->holder - 1)
#define LABEL_MAX  (sizeof((struct keeper_hold *)0)->label - 1)
#define TRACE_MAX  (sizeof((struct keeper_hold *)0)->trace - 1)

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* @ms from @from_ns on, at most @max: what is further away never comes. */
static uint64_t after(uint64_t from_ns, uint64_t ms, uint64_t max)
{
	return from_ns >= max || ms >= (max - from_ns) / NS_PER_MS ? max : from_ns + ms * NS_PER_MS;
}

/* ---- the timer ---- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* While the machine is just being stopped or let go on, a pause that is due waits for the end of
 * that. */
static uint64_t next_due(const struct keeper *k)
{
	const struct keeper_lease *l = &k->lease;
	const struct keeper_client *c;
	uint64_t due = earlier(l->until_ns, l->idle_at_ns);

	if (!k->pausing.busy)
		due = earlier(due, l->pause_at_ns);
	DL_FOREACH (k->clients, c) {
		if (c->hold.state == HOLD_WAITS)
			due = earlier(due, c->hold.until_ns);
	}
	return due;
}

static void arm(struct keeper *k)
{
	const uint64_t due = k->state == KEEPER_ENDING ? NEVER : next_due(k);
	struct itimerspec when = {0};

	if (!k->lease.timer_open)
		return;
	/* No time at all would disarm it; in the past it is due at once. */
	if (due != NEVER) {
		when.it_value.tv_sec = (time_t)(due / 1000000000u);
		when.it_value.tv_nsec = (long)(due % 1000000000u) | 1;
	}
	(void)timerfd_settime(k->lease.timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void on_timer(uv_poll_t *poll, int status, int events);

void lease_init(struct keeper *k)
{
	k->lease = (struct keeper_lease){.timer_fd = FD_NONE,
		.until_ns = NEVER,
		.idle_ms = NEVER,
		.pause_ms = NEVER,
		.idle_at_ns = NEVER,
		.pause_at_ns = NEVER};
}

/* Only a box of a pool has it. */
static int open_timer(struct keeper *k)
{
	struct keeper_lease *l = &k->lease;

	if (l->timer_open)
		return 0;
	l->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (l->timer_fd < 0)
		return -errno;
	l->timer.data = k;
	if (uv_poll_init(&k->loop, &l->timer, l->timer_fd) < 0) {
		l->timer_fd = fd_close(l->timer_fd);
		return -ENOMEM;
	}
	l->timer_open = true;
	return uv_poll_start(&l->timer, UV_READABLE, on_timer) < 0 ? -EIO : 0;
}

void lease_done(struct keeper *k)
{
	struct keeper_lease *l = &k->lease;

	box_state_unlease(&k->record);
	if (!l->timer_open)
		return;
	l->timer_open = false;
	(void)uv_poll_stop(&l->timer);
	uv_close((uv_handle_t *)&l->timer, NULL);
	l->timer_fd = fd_close(l->timer_fd);
}

/* ---- what is told ---- */

static void record_lease(struct keeper *k, enum box_lease lease)
{
	if (k->record.lease != lease)
		k->record.lease_ns = clock_wall_ns();
	k->record.lease = lease;
	keeper_record(k, k->record.phase);
}

static void tell(struct keeper *k, const char *action, const char *trace, const char *why)
{
	json_t *more = json_pack("{s:s, s:s, s:s}", "holder", k->record.holder, "label",
		k->record.holder_label, "trace", trace);

	if (more && why)
		(void)json_object_set_new(more, "reason", json_string(why));
	keeper_tell(k, action, more);
}

/* The answer to what waits. */
static void refuse(
	struct keeper_client *c, enum wire_fail_class class, int errnum, const char *text)
{
	const char *label = class == WIRE_FAIL_BUSY ? c->k->record.holder_label : "";

	c->hold.state = HOLD_NONE;
	if (!c->relay)
		return;
	(void)!channel_send(&c->ch, &(struct wire_msg){.op = WIRE_OP_fail,
					    .stream = c->hold.stream,
					    .fail = {.class_ = (uint16_t) class,
						    .errnum = (uint32_t)errnum,
						    .stage = bytes_of("hold"),
						    .object = bytes_of(label),
						    .text = bytes_of(text)}});
}

static void refuse_busy(struct keeper_client *c)
{
	char text[160];

	(void)snprintf(text, sizeof text, "the box is held by '%s'", c->k->record.holder_label);
	if (c->k->state == KEEPER_READY)
		refuse(c, WIRE_FAIL_BUSY, EBUSY, text);
	else
		refuse(c, WIRE_FAIL_ENDING, ESHUTDOWN, "the box is ending");
}

/* ---- who has it ---- */

/* The first of those who wait. */
static struct keeper_client *next_waiter(const struct keeper *k)
{
	struct keeper_client *first = NULL;
	struct keeper_client *c;

	DL_FOREACH (k->clients, c) {
		if (c->hold.state == HOLD_WAITS && (!first || c->hold.turn < first->hold.turn))
			first = c;
	}
	return first;
}

/* The holder's answer, once the machine runs: lease_pause_over comes again until then. */
static void answer_holder(struct keeper *k)
{
	struct keeper_client *c = k->lease.holder;

	if (!c || c->hold.state != HOLD_GRANTED || k->pausing.busy)
		return;
	if (k->state != KEEPER_READY || !k->machine) {
		refuse(c, WIRE_FAIL_ENDING, ESHUTDOWN, "the box is ending");
	} else if (k->paused) {
		pause_begin(k, false);
	} else {
		c->hold.state = HOLD_NONE;
		(void)!relay_done(c->relay, c->hold.stream);
	}
}

static void grant(struct keeper *k, struct keeper_client *c)
{
	struct keeper_lease *l = &k->lease;
	struct keeper_hold *h = &c->hold;
	const bool renewed = l->holder == c;

	h->state = HOLD_GRANTED;
	l->holder = c;
	l->idle_ms = h->idle_ms;
	l->pause_ms = h->pause_ms;
	l->stop_when_idle = h->stop_when_idle;
	l->idle_at_ns = l->pause_at_ns = NEVER;
	(void)snprintf(l->trace, sizeof l->trace, "%s", h->trace);
	(void)snprintf(k->record.holder, sizeof k->record.holder, "%s", h->holder);
	(void)snprintf(k->record.holder_label, sizeof k->record.holder_label, "%s", h->label);
	record_lease(k, BOX_LEASE_HELD);
	answer_holder(k);
	if (!renewed)
		tell(k, "acquire", l->trace, NULL);
}

static void set_warm(struct keeper *k)
{
	struct keeper_lease *l = &k->lease;
	const uint64_t now = now_ns();

	l->idle_at_ns = after(now, l->idle_ms, NEVER);
	l->pause_at_ns = after(now, l->pause_ms, NEVER);
	record_lease(k, BOX_LEASE_WARM);
}

/* Nobody holds it any more: whose is it? */
static void pass_on(struct keeper *k)
{
	struct keeper_client *next = next_waiter(k);

	if (k->state != KEEPER_READY)
		return;
	if (next)
		grant(k, next);
	else if (!k->lease.lasts)
		set_warm(k);
}

static void release(struct keeper *k, const char *trace, const char *why)
{
	k->lease.holder = NULL;
	tell(k, "release", *trace ? trace : k->lease.trace, why);
	pass_on(k);
}

/* ---- requests ---- */

/* Foreign text; the second time for a character that was cut in two. */
static void take_text(char *dst, size_t cap, struct wire_bytes b)
{
	char text[TRACE_MAX + 1];

	(void)str_escape(text, cap < sizeof text ? cap : sizeof text, b.data, b.len, false);
	(void)str_escape(dst, cap, text, strlen(text), false);
}

static const char *why_not(const struct keeper *k, const struct wire_hold *m)
{
	if (k->spec.role != KEEPER_BOX || k->state == KEEPER_BOOTING)
		return "the box is not running yet";
	if (m->holder.len == 0 || m->holder.len > HOLDER_MAX || m->label.len > LABEL_MAX ||
		m->trace.len > TRACE_MAX)
		return "a hold with a name that is too long, or without one";
	return NULL;
}

static void take_wish(struct keeper_client *c, const struct wire_hold *m)
{
	struct keeper_hold *h = &c->hold;

	h->idle_ms = m->idle_ms;
	h->pause_ms = m->pause_ms;
	h->stop_when_idle = m->on_idle == WIRE_IDLE_STOP;
	h->until_ns = after(now_ns(), m->wait_ms, NEVER);
	h->turn = c->k->lease.next_turn++;
	take_text(h->holder, sizeof h->holder, m->holder);
	take_text(h->label, sizeof h->label, m->label.len ? m->label : m->holder);
	take_text(h->trace, sizeof h->trace, m->trace);
}

int lease_hold(struct keeper *k, struct keeper_client *c, const struct wire_msg *msg)
{
	const char *why = why_not(k, &msg->hold);

	if (k->state == KEEPER_STOPPING || k->state == KEEPER_ENDING)
		return relay_refuse(
			c->relay, msg->stream, WIRE_FAIL_ENDING, ESHUTDOWN, "the box is ending");
	if (!why && c->hold.state != HOLD_NONE)
		why = "this client waits for the box already";
	if (why)
		return relay_refuse(c->relay, msg->stream, WIRE_FAIL_INVALID, EINVAL, why);
	if (open_timer(k) < 0)
		return relay_refuse(c->relay, msg->stream, WIRE_FAIL_LIMIT, ENFILE,
			"the box's keeper has no descriptor for a timer");
	c->hold.stream = msg->stream;
	take_wish(c, &msg->hold);
	if (!k->lease.holder || k->lease.holder == c)
		grant(k, c);
	else if (msg->hold.wait_ms == 0)
		refuse_busy(c);
	else
		c->hold.state = HOLD_WAITS;
	arm(k);
	return 0;
}

/* A client lets go of whatever it has here. */
static void let_go(struct keeper_client *c, const char *trace, const char *why)
{
	struct keeper *k = c->k;

	if (c->hold.state != HOLD_NONE)
		refuse(c, WIRE_FAIL_BUSY, ECANCELED, "the wait for the box was given up");
	if (k->lease.holder == c)
		release(k, trace, why);
	arm(k);
}

int lease_unhold(struct keeper *k, struct keeper_client *c, const struct wire_msg *msg)
{
	char trace[TRACE_MAX + 1];

	(void)k;
	if (msg->unhold.trace.len > TRACE_MAX)
		return relay_refuse(c->relay, msg->stream, WIRE_FAIL_INVALID, EINVAL,
			"the name of the request is too long");
	take_text(trace, sizeof trace, msg->unhold.trace);
	let_go(c, trace, NULL);
	return relay_done(c->relay, msg->stream);
}

void lease_client_gone(struct keeper_client *c)
{
	if (c->k->state == KEEPER_ENDING) {
		c->hold.state = HOLD_NONE;
		if (c->k->lease.holder == c)
			c->k->lease.holder = NULL;
		return;
	}
	let_go(c, "", "holder gone");
}

/* ---- a hold that needs no process ---- */

static void end_lease(struct keeper *k)
{
	k->lease.lasts = false;
	k->lease.until_ns = NEVER;
	k->record.lease_until_ns = 0;
	if (!k->lease.holder && k->record.lease == BOX_LEASE_HELD)
		pass_on(k);
	else
		keeper_record(k, k->record.phase);
}

static void begin_lease(struct keeper *k, uint64_t ms)
{
	struct keeper_lease *l = &k->lease;

	l->lasts = true;
	l->until_ns = after(now_ns(), ms, NEVER);
	l->idle_at_ns = l->pause_at_ns = NEVER;
	k->record.lease_until_ns = after(clock_wall_ns(), ms, INT64_MAX);
	record_lease(k, BOX_LEASE_HELD);
}

int lease_ask(struct keeper *k, struct keeper_client *c, const struct wire_msg *msg)
{
	const uint64_t ms = msg->lease.lease_ms;

	if (k->state != KEEPER_READY || k->spec.role != KEEPER_BOX)
		return relay_refuse(c->relay, msg->stream, WIRE_FAIL_ENDING, ESHUTDOWN,
			"the box is not running");
	if (open_timer(k) < 0)
		return relay_refuse(c->relay, msg->stream, WIRE_FAIL_LIMIT, ENFILE,
			"the box's keeper has no descriptor for a timer");
	if (ms > 0)
		begin_lease(k, ms);
	else if (k->lease.lasts)
		end_lease(k);
	arm(k);
	return relay_done(c->relay, msg->stream);
}

/* ---- what is due ---- */

/* With a disk that is kept the box can go on later; else all of it goes. */
static void end_idle(struct keeper *k)
{
	const bool stays = k->lease.stop_when_idle && k->spec.keep;

	k->lease.idle_end = true;
	k->lease.idle_at_ns = k->lease.pause_at_ns = NEVER;
	(void)snprintf(k->ending.text, sizeof k->ending.text, "nobody has used the box for %llu ms",
		(unsigned long long)k->lease.idle_ms);
	if (!stays)
		k->spec.keep = false;
	keeper_stop(k, WIRE_END_STOPPED, k->spec.stop_signal, stays ? k->spec.stop_grace_ms : 0);
}

static void expire_waiters(struct keeper *k, uint64_t now)
{
	struct keeper_client *c;

	DL_FOREACH (k->clients, c) {
		if (c->hold.state == HOLD_WAITS && c->hold.until_ns <= now)
			refuse_busy(c);
	}
}

static void on_timer(uv_poll_t *poll, int status, int events)
{
	struct keeper *k = poll->data;
	struct keeper_lease *l = &k->lease;
	const uint64_t now = now_ns();
	uint64_t unused;

	(void)status;
	(void)events;
	(void)!read(l->timer_fd, &unused, sizeof unused);
	expire_waiters(k, now);
	if (l->lasts && l->until_ns <= now)
		end_lease(k);
	if (k->state != KEEPER_READY) {
		l->idle_at_ns = l->pause_at_ns = NEVER;
	} else if (l->idle_at_ns <= now) {
		end_idle(k);
	} else if (l->pause_at_ns <= now && !k->pausing.busy) {
		l->pause_at_ns = NEVER;
		/* One that waits for the host's disk stands still as it is. */
		if (!k->paused && !k->waiting && k->machine)
			pause_begin(k, true);
	}
	arm(k);
}

void lease_pause_over(struct keeper *k, const char *failure)
{
	struct keeper_client *c = k->lease.holder;

	if (k->state == KEEPER_ENDING)
		return;
	if (failure && k->paused && c && c->hold.state == HOLD_GRANTED) {
		refuse(c, WIRE_FAIL_INTERNAL, EIO, failure);
		release(k, "", "not resumed");
	} else {
		answer_holder(k);
	}
	arm(k);
}
