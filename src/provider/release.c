/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/inside.h"

#include <string.h>

#include "base/log.h"
#include "base/banned.h"

/*
 * The ways out of the active map: released, that is parked; or invalidated, because a call found
 * out that the box is dead. Both end a seat's time and no other's: a release has the id's hold, so
 * that no acquire is handed what is being parked, and a failure names the seat that it is about.
 */

/* What the pool answered when it was to end a box. */
static int ended(struct seat *s, const char *id, const char *reason, struct notices *n, int r,
	holt_error *error, holt_error **reterr)
{
	int64_t unused = 0;

	if (r < 0 && r != -HOLT_ECLOSED) {
		if (r != -HOLT_EBUSY)
			log_warn("provider", "sandbox=%s cannot be destroyed (%s): %s", id, reason,
				holt_error_message(error));
		return err_take(reterr, error);
	}
	holt_error_free(error);
	seat_unref(parked_take(s->p, id, 0, &unused));
	notice_add(n, HOLT_PROVIDER_DESTROYED, id, reason);
	return 0;
}

int seat_destroy(
	struct seat *s, const char *id, const char *reason, struct notices *n, holt_error **reterr)
{
	holt_error *error = NULL;

	seat_close(s);
	const int r = s->p->pool->destroy(s->p->self, s->box, reason, &error);
	return ended(s, id, reason, n, r, error, reterr);
}

int seat_discard(
	struct seat *s, const char *id, const char *reason, struct notices *n, holt_error **reterr)
{
	holt_error *error = NULL;
	const int r = s->p->pool->discard(s->p->self, s->box, reason, &error);

	return ended(s, id, reason, n, r, error, reterr);
}

bool seat_park(struct seat *s, const char *id)
{
	auto_error error = NULL;
	const int r = s->p->pool->park(s->p->self, s->box, &error);

	if (r == 0)
		return true;
	/* Letting the handle go parks it, too, if there is anything to park. */
	if (r == -HOLT_ECLOSED)
		log_debug("provider", "sandbox=%s is gone", id);
	else
		log_warn("provider", "sandbox=%s cannot be parked: %s", id,
			holt_error_message(error));
	seat_close(s);
	return false;
}

/* Takes over the share of @seat. */
static void release_seat(
	struct holt_provider *p, const char *id, struct seat *seat, struct notices *n)
{
	(void)pthread_mutex_lock(&p->lock);
	const bool end = p->shut && !p->config.shutdown_keep;
	(void)pthread_mutex_unlock(&p->lock);
	if (end) {
		(void)seat_destroy(seat, id, "shutdown", n, NULL);
	} else if (seat_park(seat, id)) {
		count_up(p->counts.released);
		notice_add(n, HOLT_PROVIDER_RELEASED, id, "");
		if (scope_is_token(id, strlen(id))) {
			parked_add(p, id, seat);
			return;
		}
	}
	seat_unref(seat);
}

static int release_held(
	struct holt_provider *p, const char *id, struct notices *n, holt_error **reterr)
{
	struct holt_hold *hold = NULL;
	const int r = serializer_hold(
		p->serializer, id, strlen(id), HOLT_FOREVER, NULL, &hold, NULL);

	/* After a reset nobody acquires: there is nothing to wait for. */
	if (r < 0 && r != -HOLT_ECLOSED)
		return err_nomem(reterr);
	struct seat *seat = active_take(p, id, 0);
	if (seat)
		release_seat(p, id, seat, n);
	hold_release(hold);
	return 0;
}

int release_quietly(struct holt_provider *p, const char *id, struct notices *n, holt_error **reterr)
{
	(void)pthread_mutex_lock(&p->lock);
	p->n_releasing++;
	(void)pthread_mutex_unlock(&p->lock);
	const int r = release_held(p, id, n, reterr);
	(void)pthread_mutex_lock(&p->lock);
	p->n_releasing--;
	(void)pthread_cond_broadcast(&p->change);
	(void)pthread_mutex_unlock(&p->lock);
	return r;
}

int provider_release(struct holt_provider *p, const char *id, holt_error **reterr)
{
	struct notices n = {.p = p};
	const int r = release_quietly(p, id, &n, reterr);

	notices_send(&n);
	return r;
}

/* A dead box that still has to be taken away, when nobody acquires its id. */
struct burial {
	struct turn turn;
	struct seat *seat;
	char id[SANDBOX_ID_MAX + 1];
	bool parked; /* somebody else may have it, who can tell for himself */
};

static void bury(struct burial *b, struct notices *n)
{
	struct holt_provider *p = b->seat->p;
	const holt_pool_holder holder = provider_holder(p);
	const holt_call now = {0};

	if (b->parked && p->pool->hold(p->self, b->seat->box, &holder, &now, NULL) == -HOLT_EBUSY)
		return;
	(void)seat_destroy(b->seat, b->id, "invalidated", n, NULL);
}

static void burial_body(struct turn *t, struct holt_hold *hold, int why)
{
	struct burial *b = (struct burial *)t;
	struct notices n = {.p = t->p};

	/* Also without the hold, which there is none of after a reset. */
	(void)why;
	bury(b, &n);
	seat_unref(take_ptr(b->seat));
	hold_release(hold);
	notices_send(&n);
}

static void burial_freed(struct turn *t)
{
	struct burial *b = (struct burial *)t;

	seat_unref(b->seat);
	mem_free(b);
}

static void bury_here(struct seat *seat, const char *id, bool parked)
{
	struct burial b = {.seat = seat, .parked = parked};
	struct notices n = {.p = seat->p};

	memcpy(b.id, id, strlen(id) + 1);
	bury(&b, &n);
	seat_unref(seat);
	notices_send(&n);
}

void provider_invalidate(struct holt_provider *p, const char *id, uint64_t generation)
{
	int64_t unused = 0;
	struct seat *seat = active_take(p, id, generation);
	const bool parked = !seat;

	if (!seat)
		seat = parked_take(p, id, generation, &unused);
	if (!seat) {
		log_warn("provider", "sandbox=%s is dead, and was no longer active here", id);
		return;
	}
	seat_close(seat);
	count_up(p->counts.invalidated);
	log_debug("provider", "sandbox=%s is dead", id);
	struct burial *b = mem_zalloc(sizeof *b);
	if (!b) {
		bury_here(seat, id, parked);
		return;
	}
	memcpy(b->id, id, strlen(id) + 1);
	b->seat = seat;
	b->parked = parked;
	b->turn = (struct turn){
		.p = p, .deadline_ms = HOLT_FOREVER, .body = burial_body, .freed = burial_freed};
	if (turn_start(&b->turn, p->serializer, id, NULL) < 0) {
		b->seat = NULL;
		burial_freed(&b->turn);
		bury_here(seat, id, parked);
	}
}
