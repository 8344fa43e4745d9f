/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/inside.h"

#include <stdio.h>
#include <string.h>

#include "sandbox/contract.h"
#include "base/banned.h"

/*
 * The two maps of a provider: what is active here, and the handles of what was parked here, so that
 * a thread that comes back needs no new connection. The second is no knowledge about the pool: who
 * takes a handle from it has to look, as with one that was found by name.
 *
 * Seats are let go outside of the lock.
 */

static void active_free(struct active *e)
{
	if (!e)
		return;
	scope_key_done(&e->key);
	mem_free(e);
}

enum active_found active_find(struct holt_provider *p, const char *id, const struct scope_key *key,
	struct seat **ret, char fingerprint[FINGERPRINT_SIZE], char *text)
{
	enum active_found found = ACTIVE_NONE;
	struct active *e = NULL;

	(void)pthread_mutex_lock(&p->lock);
	HASH_FIND_STR(p->active, id, e);
	if (e && scope_key_equal(&e->key, key)) {
		found = ACTIVE_SAME;
		*ret = seat_ref(e->seat);
		memcpy(fingerprint, e->fingerprint, FINGERPRINT_SIZE);
	} else if (e) {
		found = ACTIVE_OTHER;
		scope_key_text(&e->key, text, KEY_TEXT_SIZE);
	}
	(void)pthread_mutex_unlock(&p->lock);
	return found;
}

static struct active *active_new(
	const char *id, const struct scope_key *key, const char *fingerprint, holt_error **reterr)
{
	struct active *e = mem_zalloc(sizeof *e);

	if (!e || scope_key_copy(key, &e->key, NULL) < 0) {
		mem_free(e);
		(void)err_nomem(reterr);
		return NULL;
	}
	(void)snprintf(e->id, sizeof e->id, "%s", id);
	(void)snprintf(e->fingerprint, sizeof e->fingerprint, "%s", fingerprint);
	return e;
}

int active_add(struct holt_provider *p, const char *id, const struct scope_key *key,
	const char *fingerprint, struct seat *seat, holt_error **reterr)
{
	struct active *e = active_new(id, key, fingerprint, reterr);
	int r = 0;

	if (!e)
		return -HOLT_ENO_MEMORY;
	(void)pthread_mutex_lock(&p->lock);
	if (p->shut) {
		r = -HOLT_ECLOSED;
	} else {
		HASH_ADD_STR(p->active, id, e);
		r = e->hash_oom ? -HOLT_ENO_MEMORY : 0;
	}
	if (r == 0)
		e->seat = seat_ref(seat);
	(void)pthread_mutex_unlock(&p->lock);
	if (r == 0)
		return 0;
	active_free(e);
	return r == -HOLT_ECLOSED ? provider_refuse(p, reterr) : err_nomem(reterr);
}

static struct seat *active_out_locked(struct holt_provider *p, struct active *e)
{
	struct seat *seat = e->seat;

	HASH_DEL(p->active, e);
	active_free(e);
	return seat;
}

struct seat *active_take(struct holt_provider *p, const char *id, uint64_t generation)
{
	struct active *e = NULL;
	struct seat *seat = NULL;

	(void)pthread_mutex_lock(&p->lock);
	HASH_FIND_STR(p->active, id, e);
	if (e && (!generation || e->seat->generation == generation))
		seat = active_out_locked(p, e);
	(void)pthread_mutex_unlock(&p->lock);
	return seat;
}

struct seat *active_take_any(struct holt_provider *p, char id[SANDBOX_ID_MAX + 1])
{
	struct seat *seat = NULL;

	(void)pthread_mutex_lock(&p->lock);
	if (p->active) {
		memcpy(id, p->active->id, SANDBOX_ID_MAX + 1);
		seat = active_out_locked(p, p->active);
	}
	(void)pthread_mutex_unlock(&p->lock);
	return seat;
}

holt_sandbox *provider_get(struct holt_provider *p, const char *id)
{
	struct active *e = NULL;
	holt_sandbox *sandbox = NULL;

	(void)pthread_mutex_lock(&p->lock);
	HASH_FIND_STR(p->active, id, e);
	if (e)
		sandbox = contract_ref(e->seat->sandbox);
	(void)pthread_mutex_unlock(&p->lock);
	return sandbox;
}

static struct seat *parked_out_locked(struct holt_provider *p, struct parked *e)
{
	struct seat *seat = e->seat;

	HASH_DEL(p->parked, e);
	mem_free(e);
	return seat;
}

void parked_add(struct holt_provider *p, const char *id, struct seat *seat)
{
	struct parked *e = mem_zalloc(sizeof *e);
	struct parked *before = NULL;
	struct seat *out = NULL;
	struct seat *oldest = NULL;

	if (!e) {
		/* Without a handle the next one finds it by its name. */
		seat_unref(seat);
		return;
	}
	(void)snprintf(e->id, sizeof e->id, "%s", id);
	e->seat = seat;
	e->since_ms = p->now_ms();
	(void)pthread_mutex_lock(&p->lock);
	HASH_FIND_STR(p->parked, id, before);
	if (before)
		out = parked_out_locked(p, before);
	else if (HASH_COUNT(p->parked) >= PARKED_MAX)
		oldest = parked_out_locked(p, p->parked);
	HASH_ADD_STR(p->parked, id, e);
	const bool failed = e->hash_oom;
	(void)pthread_mutex_unlock(&p->lock);
	if (failed) {
		seat_unref(seat);
		mem_free(e);
	}
	seat_unref(out);
	seat_unref(oldest);
}

struct seat *parked_take(
	struct holt_provider *p, const char *id, uint64_t generation, int64_t *ret_since_ms)
{
	struct parked *e = NULL;
	struct seat *seat = NULL;

	(void)pthread_mutex_lock(&p->lock);
	HASH_FIND_STR(p->parked, id, e);
	if (e && (!generation || e->seat->generation == generation)) {
		*ret_since_ms = e->since_ms;
		seat = parked_out_locked(p, e);
	}
	(void)pthread_mutex_unlock(&p->lock);
	return seat;
}

static bool stock_has(const struct stock *s, const char *instance)
{
	for (size_t i = 0; i < s->n; i++) {
		if (strcmp(s->list[i].instance, instance) == 0)
			return true;
	}
	return false;
}

void parked_sweep(struct holt_provider *p, const struct stock *living)
{
	struct seat *out[PARKED_MAX];
	struct parked *e;
	struct parked *next;
	unsigned n = 0;

	(void)pthread_mutex_lock(&p->lock);
	HASH_ITER (hh, p->parked, e, next) {
		if (!living || !stock_has(living, e->seat->instance))
			out[n++] = parked_out_locked(p, e);
	}
	(void)pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < n; i++)
		seat_unref(out[i]);
}
