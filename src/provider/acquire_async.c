/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/thread_context.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/banned.h"

/*
 * Acquires that nobody waits for: a turn, whose body is the acquire, on a thread of the serializer.
 * What has begun is finished, also when its caller has gone: the sandbox is active then, and who
 * acquires it again gets it.
 *
 *   WAITING --its turn, deadline, cancelled, given up--> RUNNING --> OVER
 *
 * One share belongs to the caller, one to the turn.
 */
struct holt_acquire {
	struct turn turn;
	struct scope_key key;
	char id[SANDBOX_ID_MAX + 1];
	uint64_t lease_ms;
	struct context context;
	void (*done)(struct holt_acquire *acquire, void *user);
	void *user;
	unsigned refs; /* atomic */
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t change;
	bool over;
	bool telling; /* done is being called */
	bool left; /* by its caller */
	int result;
	holt_error *error;
	int event_fd;
	/* The caller's token ends with its share: from then on only own is looked at. */
	holt_cancel *callers; /* or NULL */
	struct cancel_waiter link;
	holt_cancel *own; /* triggered with it */
};

static void acquire_unref(struct holt_acquire *a)
{
	if (__atomic_sub_fetch(&a->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	scope_key_done(&a->key);
	holt_error_free(a->error);
	cancel_free(a->own);
	(void)fd_close(a->event_fd);
	(void)pthread_cond_destroy(&a->change);
	(void)pthread_mutex_destroy(&a->lock);
	mem_free(a);
}

static void acquire_freed(struct turn *t)
{
	acquire_unref((struct holt_acquire *)t);
}

static void finish(struct holt_acquire *a, int r, holt_error *error)
{
	const uint64_t one = 1;

	(void)pthread_mutex_lock(&a->lock);
	a->over = true;
	a->result = r;
	a->error = error;
	a->telling = a->done && !a->left;
	const bool tell = a->telling;
	if (a->event_fd >= 0)
		(void)!write(a->event_fd, &one, sizeof one);
	(void)pthread_cond_broadcast(&a->change);
	(void)pthread_mutex_unlock(&a->lock);
	if (!tell)
		return;
	a->done(a, a->user);
	(void)pthread_mutex_lock(&a->lock);
	a->telling = false;
	(void)pthread_cond_broadcast(&a->change);
	(void)pthread_mutex_unlock(&a->lock);
}

static int no_turn(const struct holt_provider *p, int why, holt_error **reterr)
{
	if (why == -HOLT_ECLOSED)
		return provider_refuse(p, reterr);
	return err_make(reterr, -why, "%s",
		why == -HOLT_ETIMEOUT ? "its turn did not come in time" : "cancelled");
}

static void acquire_body(struct turn *t, struct holt_hold *hold, int why)
{
	struct holt_acquire *a = (struct holt_acquire *)t;
	struct context before;
	struct acquiring run;
	holt_error *error = NULL;

	context_get(&before);
	context_set(&a->context);
	acquiring_begin(&run, t->p, &a->key, a->id, t->deadline_ms, t->cancel, a->lease_ms);
	int r = why < 0 ? no_turn(t->p, why, &error) : acquiring_run(&run, &error);
	hold_release(hold);
	r = acquiring_end(&run, r, &error);
	if (r == 0)
		memcpy(a->id, run.id, sizeof a->id);
	finish(a, r, error);
	context_set(&before);
}

static void follow(struct holt_acquire *a, holt_cancel *callers)
{
	a->callers = callers;
	a->link = (struct cancel_waiter){.joined = a->own};
	cancel_enter(callers, &a->link);
	/* One that was triggered before told nobody. */
	if (cancel_fired(callers))
		cancel_trigger(a->own);
}

static int acquire_new(struct holt_provider *p, const struct acquire_wish *w,
	struct holt_acquire **ret, holt_error **reterr)
{
	struct holt_acquire *a = mem_zalloc(sizeof *a);

	if (!a)
		return err_nomem(reterr);
	int r = cancel_new(&a->own, reterr);
	if (r == 0)
		r = scope_key_copy(w->key, &a->key, reterr);
	if (r < 0) {
		cancel_free(a->own);
		mem_free(a);
		return r;
	}
	(void)pthread_mutex_init(&a->lock, NULL);
	cond_init(&a->change);
	a->event_fd = FD_NONE;
	a->refs = 2;
	a->lease_ms = w->lease_ms;
	context_get(&a->context);
	a->turn = (struct turn){.p = p,
		.deadline_ms = acquire_deadline(p, w->timeout_ms),
		.cancel = a->own,
		.body = acquire_body,
		.freed = acquire_freed};
	follow(a, w->cancel);
	*ret = a;
	return 0;
}

static int enter_one_more(struct holt_provider *p, bool has_thread, holt_error **reterr)
{
	(void)pthread_mutex_lock(&p->turns.lock);
	const bool many = p->turns.n >= ACQUIRES_MAX;
	(void)pthread_mutex_unlock(&p->turns.lock);
	if (!many)
		return provider_enter(p, has_thread, reterr);
	(void)err_make(reterr, HOLT_ELIMIT, "%u acquires are under way", ACQUIRES_MAX);
	err_hint(reterr, "wait for some of them first");
	return -HOLT_ELIMIT;
}

int provider_acquire_start(struct holt_provider *p, const struct acquire_wish *w,
	void (*done)(struct holt_acquire *acquire, void *user), void *user,
	struct holt_acquire **ret, holt_error **reterr)
{
	const struct scope_key *key = w->key;
	struct holt_acquire *a = NULL;
	char id[SCOPE_TOKEN_LEN + 1];
	int r = scope_token(key->user, key->user_len, key->thread, key->thread_len, id, reterr);

	/* Nobody else has this one: a turn that comes at once. */
	if (r == 0 && !key->thread)
		r = scope_random_id(id, reterr);
	if (r == 0)
		r = acquire_new(p, w, &a, reterr);
	if (r < 0 || !a)
		return r;
	a->done = done;
	a->user = user;
	(void)snprintf(a->id, sizeof a->id, "%s", id);
	r = enter_one_more(p, key->thread != NULL, reterr);
	if (r == 0) {
		/* Before it can end: its done may look at it. */
		*ret = a;
		r = turn_start(&a->turn, key->thread ? p->serializer : p->alone, id, reterr);
		if (r < 0) {
			*ret = NULL;
			provider_leave(p);
		}
	}
	if (r < 0) {
		cancel_leave(a->callers, &a->link);
		acquire_unref(a);
		acquire_unref(a);
	}
	return r;
}

int acquire_event_fd(struct holt_acquire *a, int *ret_fd, holt_error **reterr)
{
	int r = 0;

	(void)pthread_mutex_lock(&a->lock);
	if (a->event_fd < 0) {
		a->event_fd = eventfd(a->over, EFD_CLOEXEC | EFD_NONBLOCK);
		r = a->event_fd < 0 ? -errno : 0;
	}
	*ret_fd = a->event_fd;
	(void)pthread_mutex_unlock(&a->lock);
	return r < 0 ? err_errno(reterr, -r, "cannot make an eventfd") : 0;
}

int acquire_wait(struct holt_acquire *a, uint64_t timeout_ms, char ret[SANDBOX_ID_MAX + 1],
	holt_error **reterr)
{
	const uint64_t deadline_ms = cond_deadline(timeout_ms);
	int r = -HOLT_EUNAVAILABLE;

	(void)pthread_mutex_lock(&a->lock);
	while (!a->over && cond_wait(&a->change, &a->lock, deadline_ms))
		;
	if (a->over) {
		r = a->result;
		if (r == 0)
			memcpy(ret, a->id, sizeof a->id);
		else if (a->error)
			(void)err_take(reterr, take_ptr(a->error));
	}
	(void)pthread_mutex_unlock(&a->lock);
	return r;
}

void acquire_free(struct holt_acquire *a)
{
	if (!a)
		return;
	cancel_leave(a->callers, &a->link);
	(void)pthread_mutex_lock(&a->lock);
	a->left = true;
	while (a->telling)
		(void)pthread_cond_wait(&a->change, &a->lock);
	const bool over = a->over;
	(void)pthread_mutex_unlock(&a->lock);
	/* What is over may be the last that its provider knew of. */
	if (!over)
		turn_give_up(&a->turn, HOLT_ECANCELLED);
	acquire_unref(a);
}
