/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/inside.h"

#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/banned.h"

/*
 * Waiting for an id without a thread. The serializer keeps the place in its queue and calls when it
 * is over; what it does not know is a deadline, and the caller's cancel token. That is what one
 * thread of the provider is for, however many wait: it sleeps until the nearest deadline, or until
 * one of the tokens fires, and then ends those waits itself, since all threads of the serializer
 * may be busy with other acquires. It also forgets the turns that are over, which cannot be done
 * from within their own callbacks.
 *
 *   WAITING --the serializer calls: body with the hold, or without--> BEGUN --> OVER --> freed
 *      '------deadline, token, given up: body without, on the thread --^
 */
enum turn_state { TURN_WAITING, TURN_BEGUN, TURN_OVER };

void turns_init(struct turns *ts)
{
	(void)pthread_mutex_init(&ts->lock, NULL);
	cond_init(&ts->change);
}

static void over(struct turn *t)
{
	struct turns *ts = &t->p->turns;

	/* The thread frees it as soon as it has the lock. */
	(void)pthread_mutex_lock(&ts->lock);
	t->state = TURN_OVER;
	(void)pthread_cond_broadcast(&ts->change);
	(void)pthread_mutex_unlock(&ts->lock);
}

static void called(struct holt_waiter *waiter, void *user)
{
	struct turn *t = user;
	struct turns *ts = &t->p->turns;
	struct holt_hold *hold = NULL;

	(void)pthread_mutex_lock(&ts->lock);
	const bool late = t->state != TURN_WAITING || t->given_up;
	if (!late)
		t->state = TURN_BEGUN;
	(void)pthread_mutex_unlock(&ts->lock);
	/* What is not taken goes back with the waiter. */
	if (late)
		return;
	const int why = waiter_take(waiter, 0, &hold, NULL);
	t->body(t, hold, why);
	over(t);
}

/* One whose wait has to be ended, for the reason in given_up. */
static struct turn *due_locked(struct turns *ts, uint64_t *ret_nearest_ms)
{
	const uint64_t now_ms = clock_mono_ms();
	struct turn *t;

	*ret_nearest_ms = HOLT_FOREVER;
	DL_FOREACH (ts->list, t) {
		if (t->state != TURN_WAITING)
			continue;
		if (!t->given_up && cancel_fired(t->cancel))
			t->given_up = HOLT_ECANCELLED;
		else if (!t->given_up && t->deadline_ms <= now_ms)
			t->given_up = HOLT_ETIMEOUT;
		if (t->given_up)
			return t;
		if (t->deadline_ms < *ret_nearest_ms)
			*ret_nearest_ms = t->deadline_ms;
	}
	return NULL;
}

static struct turn *take_over_locked(struct turns *ts)
{
	struct turn *t;

	DL_FOREACH (ts->list, t) {
		if (t->state == TURN_OVER) {
			DL_DELETE(ts->list, t);
			return t;
		}
	}
	return NULL;
}

static void turn_free(struct turn *t)
{
	cancel_leave(t->cancel, &t->link);
	waiter_free(t->waiter);
	t->freed(t);
}

/* The lock is held, but not while something is done. */
static void step_locked(struct turns *ts)
{
	uint64_t nearest_ms = HOLT_FOREVER;
	struct turn *gone = take_over_locked(ts);
	struct turn *due = gone ? NULL : due_locked(ts, &nearest_ms);

	if (!gone && !due) {
		(void)cond_wait(&ts->change, &ts->lock, nearest_ms);
		return;
	}
	if (due)
		due->state = TURN_BEGUN;
	(void)pthread_mutex_unlock(&ts->lock);
	if (due) {
		due->body(due, NULL, -due->given_up);
		over(due);
	} else {
		turn_free(gone);
	}
	(void)pthread_mutex_lock(&ts->lock);
	ts->n -= gone != NULL;
}

static void *turns_thread(void *arg)
{
	struct turns *ts = arg;

	(void)pthread_setname_np(pthread_self(), "holt-turns");
	(void)pthread_mutex_lock(&ts->lock);
	while (!ts->ending || ts->n > 0)
		step_locked(ts);
	(void)pthread_mutex_unlock(&ts->lock);
	return NULL;
}

static int need_thread_locked(struct turns *ts, holt_error **reterr)
{
	sigset_t all;
	sigset_t before;

	if (ts->started)
		return 0;
	/* The host program's signals are not for this thread. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	const int r = pthread_create(&ts->thread, NULL, turns_thread, ts);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	ts->started = r == 0;
	return r ? err_make(reterr, HOLT_ELIMIT, "cannot start a thread") : 0;
}

int turn_start(struct turn *t, struct holt_serializer *s, const char *id, holt_error **reterr)
{
	struct turns *ts = &t->p->turns;

	t->state = TURN_WAITING;
	t->link = (struct cancel_waiter){.lock = &ts->lock, .cond = &ts->change};
	cancel_enter(t->cancel, &t->link);
	(void)pthread_mutex_lock(&ts->lock);
	int r = need_thread_locked(ts, reterr);
	if (r == 0)
		r = serializer_hold_start(s, id, strlen(id), called, t, &t->waiter, reterr);
	if (r == 0) {
		DL_APPEND(ts->list, t);
		ts->n++;
		(void)pthread_cond_broadcast(&ts->change);
	}
	(void)pthread_mutex_unlock(&ts->lock);
	if (r < 0)
		cancel_leave(t->cancel, &t->link);
	return r;
}

void turn_give_up(struct turn *t, int code)
{
	struct turns *ts = &t->p->turns;

	(void)pthread_mutex_lock(&ts->lock);
	if (t->state == TURN_WAITING && !t->given_up)
		t->given_up = code;
	(void)pthread_cond_broadcast(&ts->change);
	(void)pthread_mutex_unlock(&ts->lock);
}

void turns_done(struct holt_provider *p)
{
	struct turns *ts = &p->turns;

	(void)pthread_mutex_lock(&ts->lock);
	ts->ending = true;
	(void)pthread_cond_broadcast(&ts->change);
	const bool started = ts->started;
	(void)pthread_mutex_unlock(&ts->lock);
	if (started)
		(void)pthread_join(ts->thread, NULL);
	(void)pthread_cond_destroy(&ts->change);
	(void)pthread_mutex_destroy(&ts->lock);
}
