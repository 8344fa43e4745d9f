/* SPDX-License-Identifier: Apache-2.0 */
#include "image/loader.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/cancel.h"
#include "base/cond.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/banned.h"

/*
 * A blob of the list:  waiting -> (its file is found or begun) -> loading <-> retry -> loaded
 *                                                             '-> kept
 * A thread that holds the lock of a blob waits for the registry only, so loaders of several
 * processes never wait for each other in a circle.
 */

#define BACKOFF_MS     200u /* doubled with each try, half of it random */
#define BACKOFF_MAX_MS 5000u

struct load {
	struct loader *loader;
	const struct descriptor *d;
	struct load *same; /* the one that loads this blob, or itself */
	struct blob *blob; /* set once, with the loader's lock */
	enum pull_phase phase;
	bool old; /* some of it was there before */
};

struct loader {
	struct image_store *store;
	struct registry *registry;
	struct load *loads;
	size_t n;
	pthread_t threads[PULL_PARALLEL];
	unsigned n_threads;
	volatile int stop;
	pthread_mutex_t lock; /* of what follows, and of blob and phase of a load */
	pthread_cond_t changed;
	size_t next; /* loads below it are waiting */
	unsigned working;
	int code; /* of the first failure */
	holt_error *error;
};

static void set_phase(struct load *ld, enum pull_phase phase)
{
	struct loader *l = ld->loader;

	(void)pthread_mutex_lock(&l->lock);
	ld->phase = phase;
	(void)pthread_cond_broadcast(&l->changed);
	(void)pthread_mutex_unlock(&l->lock);
}

/* ---- one blob ---- */

static int load_write(void *user, uint64_t at, const void *data, size_t len, holt_error **reterr)
{
	struct load *ld = user;

	if (cancel_flag_set(&ld->loader->stop))
		return err_make(reterr, HOLT_ECANCELLED, "the pull was cancelled");
	return blob_write(ld->blob, at, data, len, reterr);
}

/* Before the try that follows @failed ones in a row; ends early when all end. */
static void back_off(struct load *ld, unsigned failed)
{
	struct loader *l = ld->loader;
	uint32_t dice = 0;
	unsigned ms = BACKOFF_MS << failed;

	ms = ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
	if (random_bytes(&dice, sizeof dice) == 0)
		ms -= dice % (ms / 2);
	const uint64_t deadline_ms = cond_deadline(ms);
	(void)pthread_mutex_lock(&l->lock);
	while (!cancel_flag_set(&l->stop) && cond_wait(&l->changed, &l->lock, deadline_ms))
		;
	(void)pthread_mutex_unlock(&l->lock);
}

/* All of it, over as many connections as it takes while each of them brings something. */
static int load_bytes(struct load *ld, struct registry_link *link, holt_error **reterr)
{
	for (unsigned failed = 0, tries = 1;; tries++) {
		auto_error e = NULL;
		const uint64_t from = blob_have(ld->blob);
		int code = 0;

		if (from < ld->d->size || ld->d->size == 0)
			code = registry_blob(link, ld->d, from, load_write, ld, &e);
		if (code == 0 && blob_have(ld->blob) < ld->d->size)
			code = err_make(&e, HOLT_EUNAVAILABLE, "the registry stopped early");
		if (code == 0)
			return 0;
		failed = blob_have(ld->blob) > from ? 0 : failed + 1;
		if (code != -HOLT_EUNAVAILABLE || failed == PULL_TRIES ||
			tries == PULL_CONNECTIONS_MAX || cancel_flag_set(&ld->loader->stop))
			return err_take(reterr, take_ptr(e));
		set_phase(ld, PULL_RETRY);
		back_off(ld, failed);
		set_phase(ld, PULL_LOADING);
	}
}

static int load_blob(struct load *ld, struct registry_link *link, holt_error **reterr)
{
	set_phase(ld, PULL_LOADING);
	int code = load_bytes(ld, link, reterr);
	if (code < 0)
		return code;
	auto_error error = NULL;
	code = blob_commit(ld->blob, &error);
	/* What an earlier pull left was wrong, or what a mirror has. */
	if (code == -HOLT_EINVALID && (registry_leave_mirrors(ld->loader->registry) || ld->old)) {
		code = load_bytes(ld, link, reterr);
		if (code == 0)
			code = blob_commit(ld->blob, reterr);
	} else if (code < 0) {
		(void)err_take(reterr, take_ptr(error));
	}
	if (code == 0)
		set_phase(ld, PULL_LOADED);
	return code;
}

static int load_one(struct load *ld, struct registry_link *link, holt_error **reterr)
{
	struct loader *l = ld->loader;
	struct blob *b = NULL;
	int code = blob_open(l->store, ld->d, &l->stop, &b, reterr);

	if (code < 0)
		return code;
	const bool whole = blob_is_whole(b);
	(void)pthread_mutex_lock(&l->lock);
	ld->blob = b;
	ld->old = blob_have(b) > 0;
	if (whole)
		ld->phase = PULL_KEPT;
	(void)pthread_cond_broadcast(&l->changed);
	(void)pthread_mutex_unlock(&l->lock);
	return whole ? 0 : load_blob(ld, link, reterr);
}

/* ---- threads ---- */

/* The next one to load, or NULL when there is none or all shall end. */
static struct load *take(struct loader *l)
{
	struct load *ld = NULL;

	(void)pthread_mutex_lock(&l->lock);
	while (!ld && l->next > 0 && !cancel_flag_set(&l->stop)) {
		struct load *next = &l->loads[--l->next];
		if (next->same == next)
			ld = next;
	}
	(void)pthread_mutex_unlock(&l->lock);
	return ld;
}

static void stop_locked(struct loader *l)
{
	__atomic_store_n(&l->stop, 1, __ATOMIC_RELAXED);
	(void)pthread_cond_broadcast(&l->changed);
}

/* Whoever waits for bytes is told, too. */
static void fail_all(struct loader *l, struct load *ld, int code, holt_error *error)
{
	(void)pthread_mutex_lock(&l->lock);
	if (l->code == 0) {
		l->code = code;
		l->error = error;
		error = NULL;
		for (size_t i = 0; i < l->n; i++) {
			if (l->loads[i].blob &&
				(ld == &l->loads[i] || !blob_is_whole(l->loads[i].blob)))
				blob_fail(l->loads[i].blob, code, "another layer failed");
		}
	}
	stop_locked(l);
	(void)pthread_mutex_unlock(&l->lock);
	holt_error_free(error);
}

static void *loader_thread(void *arg)
{
	struct loader *l = arg;
	struct registry_link *link = NULL;
	holt_error *error = NULL;
	struct load *ld = NULL;

	(void)pthread_setname_np(pthread_self(), "holt-pull");
	int code = registry_link_open(l->registry, &l->stop, &link, &error);
	while (code == 0 && (ld = take(l)))
		code = load_one(ld, link, &error);
	if (code < 0)
		fail_all(l, ld, code, error);
	registry_link_close(link);
	(void)pthread_mutex_lock(&l->lock);
	l->working--;
	(void)pthread_cond_broadcast(&l->changed);
	(void)pthread_mutex_unlock(&l->lock);
	return NULL;
}

static int start_threads(struct loader *l, holt_error **reterr)
{
	sigset_t all;
	sigset_t before;
	int r = 0;

	/* The host program's signals are not for these threads. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	(void)pthread_mutex_lock(&l->lock);
	while (r == 0 && l->n_threads < PULL_PARALLEL && l->n_threads < l->n) {
		r = pthread_create(&l->threads[l->n_threads], NULL, loader_thread, l);
		l->n_threads += r == 0;
	}
	l->working = l->n_threads;
	(void)pthread_mutex_unlock(&l->lock);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	/* Fewer of them do it, too. */
	return l->n_threads || l->n == 0
		       ? 0
		       : err_errno(reterr, r, "cannot start a thread for the pull");
}

/* Layers that are there twice are loaded once, when the later one is. */
static void find_same(struct loader *l)
{
	for (size_t i = l->n; i-- > 0;) {
		struct load *ld = &l->loads[i];
		ld->same = ld;
		for (size_t j = i + 1; j < l->n && ld->same == ld; j++) {
			if (strcmp(ld->d->digest, l->loads[j].d->digest) == 0)
				ld->same = l->loads[j].same;
		}
	}
}

int loader_new(struct image_store *s, struct registry *r, const struct descriptor *wanted, size_t n,
	struct loader **ret, holt_error **reterr)
{
	struct loader *l = mem_zalloc(sizeof *l);

	if (!l)
		return err_nomem(reterr);
	*l = (struct loader){.store = s, .registry = r, .n = n, .next = n};
	(void)pthread_mutex_init(&l->lock, NULL);
	cond_init(&l->changed);
	l->loads = mem_array(n, sizeof *l->loads);
	int code = l->loads ? 0 : err_nomem(reterr);
	if (code == 0) {
		for (size_t i = 0; i < n; i++)
			l->loads[i] = (struct load){
				.loader = l, .d = &wanted[i], .phase = PULL_WAITING};
		find_same(l);
		code = start_threads(l, reterr);
	}
	if (code < 0) {
		loader_free(l);
		return code;
	}
	*ret = l;
	return 0;
}

static void end_threads(struct loader *l)
{
	(void)pthread_mutex_lock(&l->lock);
	stop_locked(l);
	(void)pthread_mutex_unlock(&l->lock);
	while (l->n_threads > 0)
		(void)pthread_join(l->threads[--l->n_threads], NULL);
}

void loader_free(struct loader *l)
{
	if (!l)
		return;
	end_threads(l);
	for (size_t i = 0; l->loads && i < l->n; i++)
		blob_close(l->loads[i].blob);
	mem_free(l->loads);
	holt_error_free(l->error);
	(void)pthread_cond_destroy(&l->changed);
	(void)pthread_mutex_destroy(&l->lock);
	mem_free(l);
}

/* ---- the caller's side ---- */

/* The error goes to the first who asks; the code to all. */
static int failure_locked(struct loader *l, holt_error **reterr)
{
	if (l->code == 0)
		return 0;
	if (!l->error)
		return err_make(reterr, -l->code, "the pull has failed");
	holt_error *e = l->error;
	l->error = NULL;
	return err_take(reterr, e);
}

int loader_blob(
	struct loader *l, size_t at, unsigned timeout_ms, struct blob **ret, holt_error **reterr)
{
	struct load *ld = l->loads[at].same;
	const uint64_t deadline_ms = cond_deadline(timeout_ms);

	(void)pthread_mutex_lock(&l->lock);
	while (!ld->blob && l->code == 0 && cond_wait(&l->changed, &l->lock, deadline_ms))
		;
	const int code = failure_locked(l, reterr);
	if (code == 0)
		*ret = ld->blob;
	(void)pthread_mutex_unlock(&l->lock);
	return code;
}

void loader_state(struct loader *l, size_t at, struct load_state *ret)
{
	struct load *ld = l->loads[at].same;

	(void)pthread_mutex_lock(&l->lock);
	*ret = (struct load_state){.phase = ld->phase};
	if (ld->blob)
		ret->have_bytes = blob_have(ld->blob);
	(void)pthread_mutex_unlock(&l->lock);
}

int loader_done(struct loader *l, unsigned timeout_ms, holt_error **reterr)
{
	const uint64_t deadline_ms = cond_deadline(timeout_ms);

	(void)pthread_mutex_lock(&l->lock);
	while (l->working > 0 && l->code == 0 && cond_wait(&l->changed, &l->lock, deadline_ms))
		;
	const int code = failure_locked(l, reterr);
	const bool done = l->working == 0;
	(void)pthread_mutex_unlock(&l->lock);
	return code < 0 ? code : done;
}

size_t loader_discard_old(struct loader *l)
{
	size_t n = 0;

	end_threads(l);
	for (size_t i = 0; i < l->n; i++) {
		if (!l->loads[i].old)
			continue;
		blob_discard(take_ptr(l->loads[i].blob));
		n++;
	}
	return n;
}
