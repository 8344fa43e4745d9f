/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The serializer: handoff.c under one mutex, and whoever is told of its steps.
 *
 * A blocking wait is a waiter on the caller's stack, whose thread sleeps on the waiter's condition.
 * An asynchronous one lies in memory and nobody sleeps for it: the thread that ends its wait (by a
 * release, a cancel or a close) makes its descriptor readable and queues its callback, without
 * allocating anything. A hold is allocated when it is asked for and belongs to the waiter until it
 * is taken.
 *
 * There are two executors, since functions may wait for keys whose holders are told by a callback.
 * The one for callbacks has a thread as long as there is a waiter with a callback.
 *
 * Locks: token of a caller -> serializer -> executor. No function of a caller runs under one.
 */
#include "provider/serialize.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cond.h"
#include "base/fd.h"
#include "base/mem.h"
#include "provider/handoff.h"
#include "base/banned.h"

#define QUEUED_MAX   4096u /* functions that wait for a thread, as in holt/job.h */
#define THREADS_MORE 4u
#define THREADS_MANY 32u

struct holt_serializer {
	pthread_mutex_t lock; /* of all that follows, and of holds and waiters */
	struct handoff handoff;
	size_t n_waiters; /* asynchronous ones */
	size_t refs; /* the owner's, and one for each hold that was taken */
	struct executor *functions;
	struct executor *callbacks;
};

struct holt_hold {
	struct handoff_ask ask;
	struct holt_serializer *s;
	struct holt_waiter *waiter; /* NULL once it is taken */
};

struct holt_waiter {
	struct holt_serializer *s;
	struct holt_hold *hold; /* NULL once it is taken */
	pthread_cond_t cond; /* the wait is over */
	bool over;
	bool forgotten; /* its owner does not want to know */
	int event_fd;
	void (*done)(struct holt_waiter *waiter, void *user);
	void *user;
	struct executor_task task; /* calls done */
};

/* ---- the serializer itself ---- */

/* A wait is over. */
static void tell_locked(struct holt_waiter *w)
{
	const uint64_t one = 1;

	w->over = true;
	(void)pthread_cond_broadcast(&w->cond);
	if (w->event_fd >= 0)
		(void)!write(w->event_fd, &one, sizeof one);
	if (w->done && !w->forgotten)
		executor_put(w->s->callbacks, &w->task);
}

static void on_over(struct handoff_ask *ask, void *user)
{
	(void)user;
	tell_locked(((struct holt_hold *)ask)->waiter); /* its first member */
}

static void destroy(struct holt_serializer *s)
{
	executor_free(s->functions);
	executor_free(s->callbacks);
	(void)pthread_mutex_destroy(&s->lock);
	mem_free(s);
}

static unsigned default_threads(void)
{
	const long n = sysconf(_SC_NPROCESSORS_ONLN);
	const unsigned threads = (n < 1 ? 1 : (unsigned)n) + THREADS_MORE;

	return threads < THREADS_MANY ? threads : THREADS_MANY;
}

int serializer_new(unsigned max_threads, const char *thread_name, struct holt_serializer **ret,
	holt_error **reterr)
{
	const struct executor_options options = {
		.max_threads = max_threads ? max_threads : default_threads(),
		.max_jobs = QUEUED_MAX,
		.thread_name = thread_name ? thread_name : SERIALIZER_THREAD_NAME};
	struct holt_serializer *s = mem_zalloc(sizeof *s);

	if (!s)
		return err_nomem(reterr);
	(void)pthread_mutex_init(&s->lock, NULL);
	s->refs = 1;
	s->handoff.over = on_over;
	s->functions = executor_new(&options);
	s->callbacks = executor_new(&options);
	if (!s->functions || !s->callbacks) {
		destroy(s);
		return err_nomem(reterr);
	}
	*ret = s;
	return 0;
}

void serializer_close(struct holt_serializer *s)
{
	if (!s)
		return;
	(void)pthread_mutex_lock(&s->lock);
	handoff_close(&s->handoff);
	(void)pthread_mutex_unlock(&s->lock);
	executor_close(s->functions);
}

/* Unlocks. Who lets the last reference go takes the serializer along. */
static void unref_unlock(struct holt_serializer *s)
{
	const bool last = --s->refs == 0;

	(void)pthread_mutex_unlock(&s->lock);
	if (last)
		destroy(s);
}

void serializer_free(struct holt_serializer *s)
{
	if (!s)
		return;
	serializer_close(s);
	/* Not left to whoever releases the last hold, which must not wait. */
	executor_free(take_ptr(s->functions));
	executor_free(take_ptr(s->callbacks));
	(void)pthread_mutex_lock(&s->lock);
	unref_unlock(s);
}

size_t serializer_count(struct holt_serializer *s)
{
	(void)pthread_mutex_lock(&s->lock);
	const size_t n = handoff_count(&s->handoff);
	(void)pthread_mutex_unlock(&s->lock);
	return n;
}

int serializer_run(struct holt_serializer *s, const struct job_work *work, struct holt_job **ret,
	holt_error **reterr)
{
	return job_start(s->functions, work, ret, reterr);
}

/* ---- waiting ---- */

static struct holt_hold *hold_new(struct holt_waiter *w)
{
	struct holt_hold *hold = mem_zalloc(sizeof *hold);

	if (!hold)
		return NULL;
	hold->s = w->s;
	hold->waiter = w;
	w->hold = hold;
	return hold;
}

static int take_locked(struct holt_waiter *w, struct holt_hold **ret, holt_error **reterr)
{
	struct holt_serializer *s = w->s;

	if (!w->hold)
		return err_make(reterr, HOLT_EINVALID, "the hold was taken already");
	const int r = handoff_take(&s->handoff, &w->hold->ask, reterr);
	if (r < 0)
		return r;
	s->refs++;
	w->hold->waiter = NULL;
	*ret = take_ptr(w->hold);
	return 0;
}

/* Until the wait is over, the deadline has come or the token has fired. */
static void wait_locked(struct holt_waiter *w, uint64_t deadline_ms, const holt_cancel *cancel)
{
	while (!w->over && !cancel_fired(cancel) && cond_wait(&w->cond, &w->s->lock, deadline_ms))
		continue;
}

static int hold_locked(struct holt_waiter *w, const void *key, size_t key_len, uint64_t deadline_ms,
	const holt_cancel *cancel, struct holt_hold **ret, holt_error **reterr)
{
	struct handoff *h = &w->s->handoff;
	struct handoff_ask *ask = &w->hold->ask;
	int r = handoff_ask(h, key, key_len, ask, reterr);

	if (r < 0)
		return r;
	w->over = ask->state == HANDOFF_GRANTED;
	wait_locked(w, deadline_ms, cancel);
	/* Who was cancelled does not get what came at the same moment. */
	if (cancel_fired(cancel))
		handoff_cancel(h, ask);
	r = take_locked(w, ret, reterr);
	if (r == -HOLT_ETIMEOUT) {
		handoff_cancel(h, ask);
		(void)err_make(reterr, HOLT_ETIMEOUT, "somebody else holds the key");
	}
	return r;
}

int serializer_hold(struct holt_serializer *s, const void *key, size_t key_len, uint64_t timeout_ms,
	holt_cancel *cancel, struct holt_hold **ret, holt_error **reterr)
{
	const uint64_t deadline_ms = cond_deadline(timeout_ms);
	struct holt_waiter w = {.s = s, .event_fd = FD_NONE};
	struct cancel_waiter woken = {.lock = &s->lock, .cond = &w.cond};

	if (!hold_new(&w))
		return err_nomem(reterr);
	cond_init(&w.cond);
	cancel_enter(cancel, &woken);
	(void)pthread_mutex_lock(&s->lock);
	const int r = hold_locked(&w, key, key_len, deadline_ms, cancel, ret, reterr);
	(void)pthread_mutex_unlock(&s->lock);
	cancel_leave(cancel, &woken);
	(void)pthread_cond_destroy(&w.cond);
	mem_free(w.hold);
	if (r < 0)
		err_stage(reterr, "serializer");
	return r;
}

/* ---- asynchronous waiting ---- */

static void run_done(struct executor_task *t)
{
	struct holt_waiter *w = (struct holt_waiter *)(void *)((char *)t -
							       offsetof(struct holt_waiter, task));

	w->done(w, w->user);
}

static int start_locked(struct holt_waiter *w, const void *key, size_t key_len,
	struct holt_waiter **ret, holt_error **reterr)
{
	struct holt_serializer *s = w->s;

	if (s->n_waiters >= SERIALIZER_WAITERS_MAX)
		return err_make(reterr, HOLT_ELIMIT, "%u wait already", SERIALIZER_WAITERS_MAX);
	const int r = handoff_ask(&s->handoff, key, key_len, &w->hold->ask, reterr);
	if (r < 0)
		return r;
	s->n_waiters++;
	*ret = w; /* before done can look for it */
	if (w->hold->ask.state == HANDOFF_GRANTED)
		tell_locked(w);
	return 0;
}

static int start(struct holt_waiter *w, const void *key, size_t key_len, struct holt_waiter **ret,
	holt_error **reterr)
{
	int r = w->done ? executor_reserve(w->s->callbacks, reterr) : 0;

	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&w->s->lock);
	r = start_locked(w, key, key_len, ret, reterr);
	(void)pthread_mutex_unlock(&w->s->lock);
	if (r < 0 && w->done)
		executor_release(w->s->callbacks);
	return r;
}

static void forget(struct holt_waiter *w)
{
	(void)fd_close(w->event_fd);
	(void)pthread_cond_destroy(&w->cond);
	mem_free(w->hold);
	mem_free(w);
}

int serializer_hold_start(struct holt_serializer *s, const void *key, size_t key_len,
	void (*done)(struct holt_waiter *waiter, void *user), void *user, struct holt_waiter **ret,
	holt_error **reterr)
{
	struct holt_waiter *w = mem_zalloc(sizeof *w);

	if (!w)
		return err_nomem(reterr);
	w->s = s;
	w->event_fd = FD_NONE;
	w->done = done;
	w->user = user;
	w->task.run = run_done;
	context_get(&w->task.context);
	cond_init(&w->cond);
	const int r = hold_new(w) ? start(w, key, key_len, ret, reterr) : err_nomem(reterr);
	if (r < 0) {
		err_stage(reterr, "serializer");
		forget(w);
	}
	return r;
}

int waiter_event_fd(struct holt_waiter *w, int *ret_fd, holt_error **reterr)
{
	int r = 0;

	(void)pthread_mutex_lock(&w->s->lock);
	if (w->event_fd < 0) {
		w->event_fd = eventfd(w->over, EFD_CLOEXEC | EFD_NONBLOCK);
		r = w->event_fd < 0 ? -errno : 0;
	}
	if (r == 0)
		*ret_fd = w->event_fd;
	(void)pthread_mutex_unlock(&w->s->lock);
	return r < 0 ? err_errno(reterr, -r, "cannot make an eventfd") : 0;
}

int waiter_take(
	struct holt_waiter *w, uint64_t timeout_ms, struct holt_hold **ret, holt_error **reterr)
{
	const uint64_t deadline_ms = cond_deadline(timeout_ms);

	(void)pthread_mutex_lock(&w->s->lock);
	wait_locked(w, deadline_ms, NULL);
	const int r = take_locked(w, ret, reterr);
	(void)pthread_mutex_unlock(&w->s->lock);
	err_stage(reterr, "serializer");
	return r;
}

static void cancel_locked(struct holt_waiter *w)
{
	if (w->hold)
		handoff_cancel(&w->s->handoff, &w->hold->ask);
}

void waiter_cancel(struct holt_waiter *w)
{
	if (!w)
		return;
	(void)pthread_mutex_lock(&w->s->lock);
	cancel_locked(w);
	(void)pthread_mutex_unlock(&w->s->lock);
}

void waiter_free(struct holt_waiter *w)
{
	if (!w)
		return;
	struct holt_serializer *s = w->s;
	(void)pthread_mutex_lock(&s->lock);
	w->forgotten = true;
	cancel_locked(w);
	s->n_waiters--;
	(void)pthread_mutex_unlock(&s->lock);
	if (w->done) {
		executor_withdraw(s->callbacks, &w->task);
		executor_release(s->callbacks);
	}
	forget(w);
}

void hold_release(struct holt_hold *hold)
{
	if (!hold)
		return;
	struct holt_serializer *s = hold->s;
	(void)pthread_mutex_lock(&s->lock);
	(void)handoff_release(&s->handoff, &hold->ask, NULL);
	mem_free(hold);
	unref_unlock(s);
}
