/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/inside.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/banned.h"

/*
 * Owners: executions that work in one sandbox at the same time. A sandbox that is acquired for
 * owners is released when the last of them leaves, if one of them wanted that.
 *
 *   owner -> {scope, id} -> group of the id: how many, and whether one that left wanted parking
 *
 * Coming and going of one scope's owners is serialised by a serializer of their own, which is taken
 * before an id's hold. An owner whose sandbox has died is out, without a release: what is active
 * under the id then is not what it had.
 */
struct lease_group {
	char id[SANDBOX_ID_MAX + 1];
	uint64_t generation; /* of the seat */
	unsigned n;
	bool park;
	bool orphan; /* the id has another seat now, and another group */
	bool hash_oom;
	UT_hash_handle hh;
};

struct lease_owner {
	char name[LEASE_OWNER_MAX + 1];
	struct scope_key key;
	struct lease_group *group;
	bool park;
	bool hash_oom;
	UT_hash_handle hh;
};

static void owner_free(struct lease_owner *o)
{
	if (!o)
		return;
	scope_key_done(&o->key);
	mem_free(o);
}

/* One that cannot be another's: lengths are told. */
static char *turn_key(const struct scope_key *k, size_t *ret_len)
{
	const size_t head = 1 + sizeof k->user_len;
	char *key = mem_zalloc(head + k->user_len + k->thread_len);

	if (!key)
		return NULL;
	key[0] = k->user != NULL;
	memcpy(key + 1, &k->user_len, sizeof k->user_len);
	if (k->user)
		memcpy(key + head, k->user, k->user_len);
	if (k->thread)
		memcpy(key + head + k->user_len, k->thread, k->thread_len);
	*ret_len = head + k->user_len + k->thread_len;
	return key;
}

static int turn_take(struct holt_provider *p, const struct scope_key *k, uint64_t timeout_ms,
	holt_cancel *cancel, struct holt_hold **ret, holt_error **reterr)
{
	size_t len = 0;
	auto_free char *key = turn_key(k, &len);

	if (!key)
		return err_nomem(reterr);
	return serializer_hold(p->lease_turns, key, len, timeout_ms, cancel, ret, reterr);
}

/* Leaves its group, and says whether that was the last one and the sandbox is to be parked. */
static bool unbind_locked(struct holt_provider *p, struct lease_owner *o, bool wants)
{
	struct lease_group *g = o->group;

	g->park |= wants && o->park;
	const bool last = --g->n == 0;
	const bool park = last && g->park && !g->orphan;
	if (last) {
		if (!g->orphan)
			HASH_DEL(p->groups, g);
		mem_free(g);
	}
	HASH_DEL(p->owners, o);
	owner_free(o);
	return park;
}

static int moves(const char *owner, holt_error **reterr)
{
	(void)err_make(reterr, HOLT_EINVALID,
		"owner '%s' has the sandbox of another thread, and cannot move", owner);
	err_hint(reterr, "release it first, or name another owner");
	return -HOLT_EINVALID;
}

static uint64_t generation_locked(struct holt_provider *p, const char *id)
{
	struct active *e = NULL;

	HASH_FIND_STR(p->active, id, e);
	return e ? e->seat->generation : 0;
}

/* 1: it has what it asks for already. 0: it has nothing (any more). */
static int owner_has(struct holt_provider *p, const char *owner, bool park,
	const struct scope_key *key, char ret[SANDBOX_ID_MAX + 1], holt_error **reterr)
{
	struct lease_owner *o = NULL;
	int r = 0;

	(void)pthread_mutex_lock(&p->lock);
	HASH_FIND_STR(p->owners, owner, o);
	if (o && !scope_key_equal(&o->key, key)) {
		r = -HOLT_EINVALID;
	} else if (o && generation_locked(p, o->group->id) == o->group->generation) {
		o->park |= park;
		memcpy(ret, o->group->id, SANDBOX_ID_MAX + 1);
		r = 1;
	} else if (o) {
		(void)unbind_locked(p, o, false);
	}
	(void)pthread_mutex_unlock(&p->lock);
	return r < 0 ? moves(owner, reterr) : r;
}

static struct lease_group *group_locked(struct holt_provider *p, const char *id)
{
	const uint64_t generation = generation_locked(p, id);
	struct lease_group *old = NULL;

	HASH_FIND_STR(p->groups, id, old);
	if (old && old->generation == generation)
		return old;
	struct lease_group *g = mem_zalloc(sizeof *g);
	if (!g)
		return NULL;
	if (old) {
		HASH_DEL(p->groups, old);
		old->orphan = true;
	}
	g->generation = generation;
	(void)snprintf(g->id, sizeof g->id, "%s", id);
	HASH_ADD_STR(p->groups, id, g);
	if (!g->hash_oom)
		return g;
	mem_free(g);
	return NULL;
}

static int bind_locked(struct holt_provider *p, struct lease_owner *o, const char *id)
{
	struct lease_owner *other = NULL;

	HASH_FIND_STR(p->owners, o->name, other);
	if (other)
		return -HOLT_EINVALID;
	o->group = group_locked(p, id);
	if (!o->group)
		return -HOLT_ENO_MEMORY;
	HASH_ADD_STR(p->owners, name, o);
	if (!o->hash_oom) {
		o->group->n++;
		return 0;
	}
	if (o->group->n == 0) {
		HASH_DEL(p->groups, o->group);
		mem_free(o->group);
	}
	return -HOLT_ENO_MEMORY;
}

static int owner_new(const char *owner, bool park, const struct scope_key *key,
	struct lease_owner **ret, holt_error **reterr)
{
	struct lease_owner *o = mem_zalloc(sizeof *o);

	if (!o)
		return err_nomem(reterr);
	const int r = scope_key_copy(key, &o->key, reterr);
	if (r < 0) {
		mem_free(o);
		return r;
	}
	(void)snprintf(o->name, sizeof o->name, "%s", owner);
	o->park = park;
	*ret = o;
	return 0;
}

/* The sandbox that was acquired is the owner's; where that fails, and nobody has it, it goes back.
 */
static int bind(struct holt_provider *p, struct lease_owner *o, const char *id, struct notices *n,
	holt_error **reterr)
{
	struct lease_group *g = NULL;

	(void)pthread_mutex_lock(&p->lock);
	const int r = bind_locked(p, o, id);
	HASH_FIND_STR(p->groups, id, g);
	(void)pthread_mutex_unlock(&p->lock);
	if (r == 0)
		return 0;
	if (!g)
		(void)release_quietly(p, id, n, NULL);
	(void)(r == -HOLT_EINVALID ? moves(o->name, reterr) : err_nomem(reterr));
	owner_free(o);
	return r;
}

static int acquire_and_bind(struct holt_provider *p, const char *owner, bool park,
	const struct acquire_wish *w, struct notices *told, char ret[SANDBOX_ID_MAX + 1],
	holt_error **reterr)
{
	struct lease_owner *o = NULL;
	int r = owner_new(owner, park, w->key, &o, reterr);

	if (r < 0)
		return r;
	r = acquire_quietly(p, w, told, ret, reterr);
	if (r < 0) {
		owner_free(o);
		return r;
	}
	return bind(p, o, ret, told, reterr);
}

int lease_acquire(struct holt_provider *p, const char *owner, bool park,
	const struct acquire_wish *w, char ret[SANDBOX_ID_MAX + 1], holt_error **reterr)
{
	const uint64_t deadline_ms = acquire_deadline(p, w->timeout_ms);
	struct acquire_wish rest = *w;
	struct notices told = {.p = p};
	char id[SANDBOX_ID_MAX + 1];
	struct holt_hold *hold = NULL;
	int r = turn_take(p, w->key, w->timeout_ms ? w->timeout_ms : p->config.acquire_timeout_ms,
		w->cancel, &hold, reterr);

	if (r < 0)
		return r;
	r = owner_has(p, owner, park, w->key, id, reterr);
	if (r == 0 && deadline_ms != HOLT_FOREVER) {
		const uint64_t now_ms = clock_mono_ms();

		/* Not 0, which is the default. */
		rest.timeout_ms = deadline_ms > now_ms ? deadline_ms - now_ms : 1;
	}
	if (r == 0)
		r = acquire_and_bind(p, owner, park, &rest, &told, id, reterr);
	hold_release(hold);
	notices_send(&told);
	if (r < 0)
		return r;
	memcpy(ret, id, sizeof id);
	return 0;
}

static int owner_key(struct holt_provider *p, const char *owner, struct scope_key *ret)
{
	struct lease_owner *o = NULL;
	int r = 0;

	(void)pthread_mutex_lock(&p->lock);
	HASH_FIND_STR(p->owners, owner, o);
	if (o)
		r = scope_key_copy(&o->key, ret, NULL) < 0 ? -HOLT_ENO_MEMORY : 1;
	(void)pthread_mutex_unlock(&p->lock);
	return r;
}

static int leave(struct holt_provider *p, const char *owner, struct notices *n, holt_error **reterr)
{
	char id[SANDBOX_ID_MAX + 1];
	struct lease_owner *o = NULL;
	bool park = false;

	(void)pthread_mutex_lock(&p->lock);
	HASH_FIND_STR(p->owners, owner, o);
	if (o) {
		const bool alive = generation_locked(p, o->group->id) == o->group->generation;

		memcpy(id, o->group->id, sizeof id);
		park = unbind_locked(p, o, alive);
	}
	(void)pthread_mutex_unlock(&p->lock);
	return park ? release_quietly(p, id, n, reterr) : 0;
}

int lease_release(struct holt_provider *p, const char *owner, holt_error **reterr)
{
	struct notices n = {.p = p};
	struct scope_key key = {0};
	struct holt_hold *hold = NULL;
	auto_error error = NULL;
	int r = owner_key(p, owner, &key);

	if (r <= 0)
		return r < 0 ? err_nomem(reterr) : 0;
	r = turn_take(p, &key, HOLT_FOREVER, NULL, &hold, &error);
	scope_key_done(&key);
	/* After a reset nobody comes: there is nothing to wait for. */
	if (r < 0 && r != -HOLT_ECLOSED)
		return err_take(reterr, take_ptr(error));
	r = leave(p, owner, &n, reterr);
	hold_release(hold);
	notices_send(&n);
	return r;
}

void leases_done(struct holt_provider *p)
{
	struct lease_owner *o;
	struct lease_owner *next;

	(void)pthread_mutex_lock(&p->lock);
	HASH_ITER (hh, p->owners, o, next)
		(void)unbind_locked(p, o, false);
	(void)pthread_mutex_unlock(&p->lock);
}
