/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/inside.h"

#include <stdio.h>
#include <string.h>

#include "base/cond.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/banned.h"

/*
 * Acquiring. Everything happens with the id's hold, so within a provider there is one acquire,
 * release or destruction of an id at a time. Other processes do what they like meanwhile: what was
 * seen of a box may be wrong a moment later. So each step either succeeds, or fails for good, or
 * says that the box is another one now, and then everything is looked at again.
 *
 *   the id's box is         same key, same        same key, other       other key
 *                           fingerprint           fingerprint
 *   absent                  made                  made                  made
 *   warm                    held, proved; if      destroyed, made       collision
 *                           dead: destroyed, made
 *   active in this one      the same              BUSY                  collision
 *   active elsewhere        waited for, then BUSY BUSY                  collision
 *   being made elsewhere    as active elsewhere   BUSY                  collision
 *   stopped                 started; with         destroyed, made       collision
 *                           on_idle destroy:
 *                           destroyed, made
 *   nobody's (unknown)      destroyed, made       the same              the same
 *
 * Only a hold makes sure of a box, and it is the pool's word that counts: that a box looks warm
 * only decides whether it is tried.
 */
#define AGAIN        1 /* the box is another one now */
#define NAP          2 /* somebody is at it */
#define NONE         3 /* there is none */
#define NAP_MS       20u
#define LOST_MAX     2u /* boxes that end while they start: the third failure is told */
#define NEVER_PARKED INT64_MIN

uint64_t acquire_deadline(const struct holt_provider *p, uint64_t timeout_ms)
{
	return cond_deadline(timeout_ms ? timeout_ms : p->config.acquire_timeout_ms);
}

uint64_t acquire_left(const struct acquiring *a)
{
	const uint64_t now_ms = clock_mono_ms();

	if (a->deadline_ms == HOLT_FOREVER)
		return HOLT_FOREVER;
	return a->deadline_ms > now_ms ? a->deadline_ms - now_ms : 0;
}

static holt_call call_of(struct acquiring *a)
{
	return (holt_call){.timeout_ms = acquire_left(a), .cancel = &a->stop.token};
}

static int cancelled(const struct acquiring *a, holt_error **reterr)
{
	if (cancel_fired(a->p->closing))
		return provider_refuse(a->p, reterr);
	return err_make(reterr, HOLT_ECANCELLED, "cancelled");
}

/* What the failure of an operation on a box means. */
static int verdict(const struct acquiring *a, int r, holt_error *error, holt_error **reterr)
{
	if (r == -HOLT_ECLOSED || (r == -HOLT_ECANCELLED && cancel_fired(a->p->closing))) {
		holt_error_free(error);
		return r == -HOLT_ECLOSED ? AGAIN : cancelled(a, reterr);
	}
	if (!error)
		return err_make(reterr, -r, "the pool fails and does not say why");
	return err_take(reterr, error);
}

static int collision(struct acquiring *a, const char *stored, holt_error **reterr)
{
	char wanted[KEY_TEXT_SIZE];

	scope_key_text(a->key, wanted, sizeof wanted);
	count_up(a->p->counts.collisions);
	(void)err_make(reterr, HOLT_EEXISTS,
		"sandbox id collision for '%s': it belongs to %s, not to %s", a->id, stored,
		wanted);
	err_hint(reterr, "two users and threads have the same id: give the thread another name");
	return -HOLT_EEXISTS;
}

static int busy(struct acquiring *a, const char *label, const char *how, holt_error **reterr)
{
	(void)err_make(reterr, HOLT_EBUSY, "sandbox '%s' is %s%s%s", a->id, how,
		label[0] ? " in " : "", label);
	if (label[0])
		err_object(reterr, label);
	err_hint(reterr, "try again when it has been released");
	return -HOLT_EBUSY;
}

static int know_fingerprint(struct acquiring *a, holt_error **reterr)
{
	const holt_pool_shape shape = provider_shape(a->p);

	if (a->fingerprint[0])
		return 0;
	if (!shape.image) {
		(void)err_make(reterr, HOLT_EINVALID, "no image is configured");
		err_hint(reterr, "set 'image' in the section 'sandbox' of the configuration, or "
				 "give --image");
		return -HOLT_EINVALID;
	}
	return a->p->pool->fingerprint(a->p->self, &shape, a->fingerprint, reterr);
}

static bool may_fetch(const struct acquiring *a)
{
	return a->p->pool->fetch && a->p->config.pull != HOLT_PULL_NEVER;
}

/* The image, from its registry; nothing but the id is held meanwhile. */
static int fetch(struct acquiring *a, holt_error **reterr)
{
	const holt_pool_shape shape = provider_shape(a->p);
	const holt_call call = call_of(a);
	auto_error error = NULL;
	const int r = a->p->pool->fetch(
		a->p->self, &shape, (int32_t)a->p->config.pull, &call, &error);

	a->fetched = r == 0;
	if (r == -HOLT_ECANCELLED && cancel_fired(&a->stop.token))
		return cancelled(a, reterr);
	if (r < 0 && !error)
		return err_make(reterr, -r, "the pool cannot get the image and does not say why");
	return r < 0 ? err_take(reterr, take_ptr(error)) : 0;
}

/* The same where an image that is not there may be pulled. */
static int have_fingerprint(struct acquiring *a, holt_error **reterr)
{
	auto_error error = NULL;
	int r = know_fingerprint(a, &error);

	if (r != -HOLT_ENOT_FOUND || a->fetched || !may_fetch(a))
		return r < 0 ? err_take(reterr, take_ptr(error)) : r;
	r = fetch(a, reterr);
	return r == 0 ? know_fingerprint(a, reterr) : r;
}

/* A new box may have to be made of what the registry has now. */
static int fetch_anew(struct acquiring *a, holt_error **reterr)
{
	if (a->p->config.pull != HOLT_PULL_ALWAYS || a->fetched || !may_fetch(a))
		return 0;
	const int r = fetch(a, reterr);
	a->fingerprint[0] = 0;
	return r == 0 ? know_fingerprint(a, reterr) : r;
}

static int set_lease(struct acquiring *a, struct seat *seat, holt_error **reterr)
{
	const holt_call call = call_of(a);

	if (!a->lease_ms)
		return 0;
	return a->p->pool->lease(a->p->self, seat->box, a->lease_ms, &call, reterr);
}

/* What is active here: 0, AGAIN, NONE, or an error. */
static int reuse(struct acquiring *a, holt_error **reterr)
{
	char fingerprint[FINGERPRINT_SIZE];
	char stored[KEY_TEXT_SIZE];
	auto_seat seat = NULL;
	holt_error *error = NULL;
	const enum active_found found = active_find(
		a->p, a->id, a->key, &seat, fingerprint, stored);

	if (found == ACTIVE_NONE)
		return NONE;
	if (found == ACTIVE_OTHER)
		return collision(a, stored, reterr);
	int r = know_fingerprint(a, &error);
	/* An image that was removed is no other configuration. */
	if (r == -HOLT_ENOT_FOUND) {
		holt_error_free(take_ptr(error));
		r = 0;
	} else if (r == 0 && strcmp(fingerprint, a->fingerprint) != 0) {
		return busy(a, a->p->label, "active with another configuration", reterr);
	}
	if (r == 0)
		r = set_lease(a, seat, &error);
	if (r < 0) {
		if (r == -HOLT_ECLOSED)
			provider_invalidate(a->p, a->id, seat->generation);
		return verdict(a, r, error, reterr);
	}
	count_up(a->p->counts.reused);
	return 0;
}

static int destroy_and_again(
	struct acquiring *a, struct seat *seat, const char *reason, holt_error **reterr)
{
	const int r = seat_destroy(seat, a->id, reason, &a->notices, reterr);

	return r < 0 ? r : AGAIN;
}

/* What is stopped is held by nobody, so somebody else may just be starting it. */
static int discard_and_again(
	struct acquiring *a, struct seat *seat, const char *reason, holt_error **reterr)
{
	holt_error *error = NULL;
	const int r = seat_discard(seat, a->id, reason, &a->notices, &error);

	if (r == -HOLT_EBUSY)
		holt_error_free(error);
	else if (r < 0)
		return err_take(reterr, error);
	return r == -HOLT_EBUSY ? NAP : AGAIN;
}

/* What is held, and fit to be used, becomes active. */
static int settle(struct acquiring *a, struct seat *seat, int kind, holt_error **reterr)
{
	holt_error *error = NULL;
	int r = set_lease(a, seat, &error);

	if (r < 0) {
		(void)seat_park(seat, a->id);
		return verdict(a, r, error, reterr);
	}
	r = active_add(a->p, a->id, a->key, a->fingerprint, seat, reterr);
	if (r == -HOLT_ECLOSED && !a->p->config.shutdown_keep)
		(void)seat_destroy(seat, a->id, "shutdown", &a->notices, NULL);
	else if (r < 0)
		(void)seat_park(seat, a->id);
	if (r < 0)
		return r;
	if (kind == HOLT_PROVIDER_CREATED)
		count_up(a->p->counts.created);
	else
		count_up(a->p->counts.reclaimed);
	notice_add(&a->notices, kind, a->id, "");
	return 0;
}

/* Only what was parked here, by a release and not long ago, and was nobody else's since. */
static bool may_skip(const struct acquiring *a, const holt_pool_entry *e, int64_t parked_ms)
{
	const struct holt_provider *p = a->p;

	if (!p->config.health_skip_ms || parked_ms == NEVER_PARKED ||
		strcmp(e->holder, p->instance) != 0)
		return false;
	const int64_t age_ms = p->now_ms() - parked_ms;
	return age_ms >= 0 && (uint64_t)age_ms < p->config.health_skip_ms;
}

static int unhealthy(struct acquiring *a, struct seat *seat, holt_error **reterr)
{
	count_up(a->p->counts.unhealthy);
	return destroy_and_again(a, seat, "health_check_failed", reterr);
}

static int prove(struct acquiring *a, struct seat *seat, bool skip, holt_error **reterr)
{
	holt_error *error = NULL;
	/* A sandbox that its user has closed tells nothing. */
	const bool fresh = !seat_is_open(seat);
	int r = seat_open(seat, a->id, &error);

	if (r == 0 && (fresh || !skip))
		r = health_check(a, seat, &error);
	if (r == 1)
		return unhealthy(a, seat, reterr);
	if (r < 0) {
		(void)seat_park(seat, a->id);
		return verdict(a, r, error, reterr);
	}
	return 0;
}

/* What is free is had at once, or is hung; all else is waited for. */
static int take(struct acquiring *a, struct seat *seat, bool free, holt_error **reterr)
{
	struct holt_provider *p = a->p;
	const holt_pool_holder holder = provider_holder(p);
	const holt_call call = call_of(a);

	if (free) {
		auto_error error = NULL;
		const int r = seat_take(seat, true, &error);

		if (r != -HOLT_EBUSY)
			return r < 0 ? err_take(reterr, take_ptr(error)) : r;
	}
	return p->pool->hold(p->self, seat->box, &holder, &call, reterr);
}

static int reclaim(struct acquiring *a, struct seat *seat, bool free, bool skip, const char *label,
	holt_error **reterr)
{
	auto_error error = NULL;
	int r = take(a, seat, free, &error);

	if (r == 1)
		return unhealthy(a, seat, reterr);
	if (r == -HOLT_EBUSY) {
		const char *who = holt_error_object(error);

		return busy(a, who[0] ? who : label, "active", reterr);
	}
	if (r < 0)
		return verdict(a, r, take_ptr(error), reterr);
	r = prove(a, seat, skip, reterr);
	return r ? r : settle(a, seat, HOLT_PROVIDER_RECLAIMED, reterr);
}

static int start_call(struct acquiring *a, struct seat *seat, holt_error **reterr)
{
	holt_pool_holder holder = provider_holder(a->p);
	/* What has begun is finished, whatever its caller thinks of it meanwhile. */
	const holt_call call = {.timeout_ms = HOLT_FOREVER, .cancel = a->p->closing};
	holt_pool_entry e;

	/* Nobody would come back for its disk. */
	if (!a->key->thread)
		holder.on_idle = HOLT_POOL_IDLE_DESTROY;
	int r = a->p->pool->start(a->p->self, seat->box, &holder, &call, reterr);
	if (r == 0)
		r = seat_look(seat, &e, reterr);
	return r == 0 ? seat_open(seat, a->id, reterr) : r;
}

/* A failure to start of which others, or a shutdown, are the reason; NONE for any other. */
static int not_ours(struct acquiring *a, int r, holt_error **reterr)
{
	if (r == -HOLT_EBUSY)
		return NAP;
	if (r == -HOLT_ECLOSED && ++a->lost <= LOST_MAX)
		return AGAIN;
	return r == -HOLT_ECANCELLED ? cancelled(a, reterr) : NONE;
}

/* A box that is made and not started: nothing of it stays if that fails. */
static int start_new(struct acquiring *a, struct seat *seat, holt_error **reterr)
{
	auto_error error = NULL;
	const int r = start_call(a, seat, &error);

	if (r == 0)
		return settle(a, seat, HOLT_PROVIDER_CREATED, reterr);
	const int other = not_ours(a, r, reterr);
	if (other == AGAIN || other == NAP)
		return other;
	(void)seat_destroy(seat, a->id, "create_failed", &a->notices, NULL);
	if (other < 0)
		return other;
	return error ? err_take(reterr, take_ptr(error))
		     : err_make(reterr, -r, "the pool cannot start it and does not say why");
}

/* One that was stopped: its disk is the thread's, and stays whatever happens. */
static int start_stopped(struct acquiring *a, struct seat *seat, holt_error **reterr)
{
	auto_error error = NULL;
	int r = capacity_make(a, NULL, NULL, &error);

	if (r == 0)
		r = start_call(a, seat, &error);
	if (r == 0)
		return settle(a, seat, HOLT_PROVIDER_RECLAIMED, reterr);
	/* A machine that dies while it starts was killed, or the host is short of memory: that says
	 * nothing about the disk. */
	if (r == -HOLT_EGUEST_LOST || r == -HOLT_EPROTOCOL) {
		if (++a->lost <= LOST_MAX)
			return AGAIN;
		err_hint(&error, "its files are kept; 'holt rm %s' gives them up", a->name);
	}
	const int other = not_ours(a, r, reterr);
	return other != NONE ? other : verdict(a, r, take_ptr(error), reterr);
}

static int make_new(struct acquiring *a, holt_error **reterr)
{
	const holt_pool_shape shape = provider_shape(a->p);
	const holt_pool_wish wish = {.shape = &shape,
		.user = a->key->user,
		.user_len = a->key->user_len,
		.thread = a->key->thread,
		.thread_len = a->key->thread_len,
		.fingerprint = a->fingerprint,
		.directories = (const char *const *)a->p->directories,
		.owner = a->p->sandbox.user,
		.keep = a->p->config.idle_stop && a->key->thread};
	holt_error *error = NULL;
	auto_seat seat = NULL;
	void *box = NULL;
	int r = fetch_anew(a, reterr);

	if (r < 0)
		return r;
	r = capacity_make(a, &wish, &box, &error);
	if (r == -HOLT_EEXISTS) {
		holt_error_free(error);
		return AGAIN;
	}
	if (r == 0)
		r = seat_new(a->p, box, &seat, &error);
	if (r < 0)
		return verdict(a, r, error, reterr);
	return start_new(a, seat, reterr);
}

static void entry_text(const holt_pool_entry *e, char *ret)
{
	const struct scope_part user = {e->user, e->user_len};
	const struct scope_part thread = {e->thread, e->thread_len};

	scope_parts_text(user, thread, ret, KEY_TEXT_SIZE);
}

static bool entry_is_of(const holt_pool_entry *e, const struct scope_key *key)
{
	return scope_part_equal((struct scope_part){e->user, e->user_len},
		       (struct scope_part){key->user, key->user_len}) &&
	       scope_part_equal((struct scope_part){e->thread, e->thread_len},
		       (struct scope_part){key->thread, key->thread_len});
}

/* The process that left a lease is gone, mostly: waiting for it would be no advice. */
static int leased(struct acquiring *a, const char *label, holt_error **reterr)
{
	(void)err_make(reterr, HOLT_EBUSY,
		"sandbox '%s' is active with another configuration, by a lease%s%s", a->id,
		label[0] ? " of " : "", label);
	if (label[0])
		err_object(reterr, label);
	err_hint(reterr, "try again when that is over; 'holt sandbox release --pool %s %s' ends it",
		a->p->config.pool, a->id);
	return -HOLT_EBUSY;
}

/* Of the same thread, but made of something else. */
static int replace(
	struct acquiring *a, struct seat *seat, const holt_pool_entry *e, holt_error **reterr)
{
	static const char how[] = "active with another configuration";
	struct holt_provider *p = a->p;
	char label[PROVIDER_LABEL_MAX];
	holt_error *error = NULL;
	holt_pool_entry held;

	(void)snprintf(label, sizeof label, "%s", e->holder_label);
	if (e->lease_until_ms > p->now_ms())
		return leased(a, label, reterr);
	if (e->state == HOLT_POOL_MAKING)
		return busy(a, label, how, reterr);
	if (e->state == HOLT_POOL_STOPPED)
		return discard_and_again(a, seat, "other_fingerprint", reterr);
	int r = seat_take(seat, true, &error);
	if (r == 1)
		return destroy_and_again(a, seat, "other_fingerprint", reterr);
	if (r == 0)
		r = seat_look(seat, &held, &error);
	if (r == 0 && held.lease_until_ms > p->now_ms()) {
		(void)seat_park(seat, a->id);
		return leased(a, label, reterr);
	}
	if (r == 0)
		return destroy_and_again(a, seat, "other_fingerprint", reterr);
	if (r != -HOLT_EBUSY)
		return verdict(a, r, error, reterr);
	holt_error_free(error);
	return busy(a, label, how, reterr);
}

/* Whoever makes it has it then, and lets it go some time; or dies, or fails: then it is another. */
static int await_made(
	struct acquiring *a, struct seat *seat, const char *label, holt_error **reterr)
{
	auto_error error = NULL;
	const int r = reclaim(a, seat, false, false, label, &error);

	if (r == -HOLT_EUNAVAILABLE || r == -HOLT_EGUEST_LOST || r == -HOLT_EPROTOCOL)
		return AGAIN;
	return r < 0 ? err_take(reterr, take_ptr(error)) : r;
}

static int meet_state(struct acquiring *a, struct seat *seat, const holt_pool_entry *e,
	int64_t parked_ms, holt_error **reterr)
{
	const bool skip = may_skip(a, e, parked_ms);
	/* Were it active here, it would not have come to this. */
	const bool is_free = e->state == HOLT_POOL_WARM || strcmp(e->holder, a->p->instance) == 0;
	char label[PROVIDER_LABEL_MAX];

	(void)snprintf(label, sizeof label, "%s", e->holder_label);
	switch (e->state) {
	case HOLT_POOL_ACTIVE:
	case HOLT_POOL_WARM:
		return reclaim(a, seat, is_free, skip, label, reterr);
	case HOLT_POOL_STOPPED:
		if (!a->p->config.idle_stop)
			return discard_and_again(a, seat, "idle_timeout", reterr);
		return start_stopped(a, seat, reterr);
	default:
		return await_made(a, seat, label, reterr);
	}
}

static int meet(struct acquiring *a, struct seat *seat, int64_t parked_ms, holt_error **reterr)
{
	holt_error *error = NULL;
	holt_pool_entry e;
	const int r = seat_look(seat, &e, &error);

	if (r < 0)
		return verdict(a, r, error, reterr);
	a->same = strcmp(a->met, e.instance) == 0;
	(void)snprintf(a->met, sizeof a->met, "%s", e.instance);
	if (!e.known)
		return destroy_and_again(a, seat, "unknown", reterr);
	if (!entry_is_of(&e, a->key)) {
		char stored[KEY_TEXT_SIZE];

		entry_text(&e, stored);
		return collision(a, stored, reterr);
	}
	if (strcmp(e.fingerprint, a->fingerprint) != 0)
		return replace(a, seat, &e, reterr);
	return meet_state(a, seat, &e, parked_ms, reterr);
}

static int attempt(struct acquiring *a, holt_error **reterr)
{
	int64_t parked_ms = NEVER_PARKED;
	holt_error *error = NULL;
	auto_seat seat = NULL;
	int r = cancel_fired(&a->stop.token) ? cancelled(a, reterr) : reuse(a, reterr);

	if (r != NONE)
		return r;
	r = have_fingerprint(a, reterr);
	if (r < 0)
		return r;
	seat = parked_take(a->p, a->id, 0, &parked_ms);
	if (!seat)
		r = seat_find(a->p, a->name, &seat, &error);
	if (r == -HOLT_ENOT_FOUND) {
		holt_error_free(error);
		return make_new(a, reterr);
	}
	return r < 0 ? verdict(a, r, error, reterr) : meet(a, seat, parked_ms, reterr);
}

/* Somebody else makes the box, or ends it: whether that is done cannot be waited for otherwise. */
static int nap(struct acquiring *a, const char *how, holt_error **reterr)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond;
	struct cancel_waiter w = {.lock = &lock, .cond = &cond};
	uint64_t until_ms = cond_deadline(NAP_MS);

	if (acquire_left(a) == 0)
		return busy(a, "", how, reterr);
	if (until_ms > a->deadline_ms)
		until_ms = a->deadline_ms;
	cond_init(&cond);
	cancel_enter(&a->stop.token, &w);
	(void)pthread_mutex_lock(&lock);
	while (!cancel_fired(&a->stop.token) && cond_wait(&cond, &lock, until_ms))
		;
	(void)pthread_mutex_unlock(&lock);
	cancel_leave(&a->stop.token, &w);
	(void)pthread_cond_destroy(&cond);
	return 0;
}

static int look_until_done(struct acquiring *a, holt_error **reterr)
{
	unsigned round = 0;

	while (round < ACQUIRE_ROUNDS) {
		a->same = false;
		int r = attempt(a, reterr);

		/* One that is gone for its holders and still there is on its way: flushing takes
		 * seconds. */
		if (r == NAP)
			r = nap(a, "being made by another process", reterr);
		else if (r == AGAIN && a->same)
			r = nap(a, "ending", reterr);
		else if (r == AGAIN)
			round++;
		else
			return r;
		if (r < 0)
			return r;
	}
	(void)err_make(reterr, HOLT_EUNAVAILABLE, "its box is another one each time");
	err_hint(reterr, "try again");
	return -HOLT_EUNAVAILABLE;
}

/* A sandbox for one use, under an id that nobody derives. */
static int make_nameless(struct acquiring *a, holt_error **reterr)
{
	int r = have_fingerprint(a, reterr);

	for (unsigned i = 0; r == 0 && i < ACQUIRE_ROUNDS; i++) {
		if (cancel_fired(&a->stop.token))
			return cancelled(a, reterr);
		r = scope_random_id(a->id, reterr);
		if (r < 0)
			return r;
		scope_box_name(a->p->config.pool, a->id, a->name);
		r = make_new(a, reterr);
		if (r != AGAIN && r != NAP)
			return r;
		r = 0;
	}
	return r < 0 ? r : err_make(reterr, HOLT_EUNAVAILABLE, "every id is taken");
}

void acquiring_begin(struct acquiring *a, struct holt_provider *p, const struct scope_key *key,
	const char *id, uint64_t deadline_ms, holt_cancel *cancel, uint64_t lease_ms)
{
	*a = (struct acquiring){.p = p,
		.key = key,
		.deadline_ms = deadline_ms,
		.lease_ms = lease_ms,
		.notices = {.p = p}};
	(void)snprintf(a->id, sizeof a->id, "%s", id);
	scope_box_name(p->config.pool, id, a->name);
	cancel_join_begin(&a->stop, cancel, p->closing);
}

int acquiring_run(struct acquiring *a, holt_error **reterr)
{
	return a->key->thread ? look_until_done(a, reterr) : make_nameless(a, reterr);
}

int acquiring_end(struct acquiring *a, int r, holt_error **reterr)
{
	cancel_join_end(&a->stop);
	if (r < 0) {
		err_stage(reterr, "acquire");
		err_object(reterr, a->id);
		log_debug("provider", "sandbox=%s cannot be acquired: %s", a->id,
			holt_error_message(*reterr));
	}
	notices_send(&a->notices);
	provider_leave(a->p);
	return r;
}

static int run_in_turn(struct acquiring *a, holt_error **reterr)
{
	struct holt_hold *hold = NULL;
	auto_error error = NULL;
	int r = 0;

	if (a->key->thread)
		r = serializer_hold(a->p->serializer, a->id, strlen(a->id), acquire_left(a),
			&a->stop.token, &hold, &error);
	if (r == -HOLT_ECANCELLED)
		return cancelled(a, reterr);
	if (r < 0)
		return err_take(reterr, take_ptr(error));
	r = acquiring_run(a, reterr);
	hold_release(hold);
	return r;
}

int acquire_quietly(struct holt_provider *p, const struct acquire_wish *w, struct notices *told,
	char ret[SANDBOX_ID_MAX + 1], holt_error **reterr)
{
	const struct scope_key *key = w->key;
	char id[SCOPE_TOKEN_LEN + 1];
	auto_error error = NULL;
	struct acquiring a;
	int r = scope_token(key->user, key->user_len, key->thread, key->thread_len, id, reterr);

	if (r == 0)
		r = provider_enter(p, key->thread != NULL, reterr);
	if (r < 0)
		return r;
	acquiring_begin(&a, p, key, id, acquire_deadline(p, w->timeout_ms), w->cancel, w->lease_ms);
	r = run_in_turn(&a, &error);
	if (told)
		*told = a.notices;
	a.notices.n = told ? 0 : a.notices.n;
	r = acquiring_end(&a, r, &error);
	if (r < 0)
		return err_take(reterr, take_ptr(error));
	memcpy(ret, a.id, sizeof a.id);
	return 0;
}

int provider_acquire(struct holt_provider *p, const struct acquire_wish *w,
	char ret[SANDBOX_ID_MAX + 1], holt_error **reterr)
{
	return acquire_quietly(p, w, NULL, ret, reterr);
}
