/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/inside.h"

#include <stdio.h>
#include <string.h>

#include "base/banned.h"

/*
 * What there is in the pool: a copy of one listing, since nothing may be done to a box from within
 * it. The names of one pool can begin like those of another ("a" and "a-b"), so what counts is that
 * the rest of a name is an id.
 */
#define STOCK_MAX 65536u

const char *stock_id(const struct holt_provider *p, const char *name)
{
	const char *id = scope_box_id(p->config.pool, name);

	return id && scope_is_id(id, strlen(id)) ? id : NULL;
}

static struct stock_entry *stock_grow(struct stock *s)
{
	if (s->n == s->cap) {
		const size_t cap = s->cap ? 2 * s->cap : 16;
		void *list = cap > STOCK_MAX ? NULL : mem_resize(s->list, cap, sizeof *s->list);

		if (!list)
			return NULL;
		s->list = list;
		s->cap = cap;
	}
	return &s->list[s->n++];
}

static int stock_add(const holt_pool_entry *e, void *user)
{
	struct stock *s = user;

	if (!stock_id(s->p, e->name))
		return 0;
	struct stock_entry *c = stock_grow(s);
	if (!c) {
		s->failed = true;
		return 1;
	}
	*c = (struct stock_entry){.state = e->state,
		.known = e->known,
		.leased = e->lease_until_ms > 0,
		.since_ms = e->since_ms};
	(void)snprintf(c->name, sizeof c->name, "%s", e->name);
	(void)snprintf(c->instance, sizeof c->instance, "%s", e->instance);
	(void)snprintf(c->holder, sizeof c->holder, "%s", e->holder);
	s->living += e->state != HOLT_POOL_STOPPED;
	return 0;
}

int stock_take(struct holt_provider *p, struct stock *ret, holt_error **reterr)
{
	auto_error error = NULL;

	*ret = (struct stock){.p = p};
	int r = p->pool->list(p->self, p->prefix, stock_add, ret, &error);
	if (ret->failed)
		r = err_nomem(reterr);
	else if (r < 0)
		r = err_take(reterr, take_ptr(error));
	if (r < 0)
		stock_done(ret);
	return r;
}

void stock_done(struct stock *s)
{
	mem_free(s->list);
	*s = (struct stock){0};
}

/* Entries of other pools are left out. */
struct relay_entries {
	const struct holt_provider *p;
	holt_pool_entry_fn entry;
	void *user;
};

static int list_one(const holt_pool_entry *e, void *user)
{
	const struct relay_entries *to = user;

	return stock_id(to->p, e->name) ? to->entry(e, to->user) : 0;
}

int provider_list(
	struct holt_provider *p, holt_pool_entry_fn entry, void *user, holt_error **reterr)
{
	struct relay_entries to = {p, entry, user};

	return p->pool->list(p->self, p->prefix, list_one, &to, reterr);
}

static void count_calls(struct holt_provider *p, holt_provider_stats *s)
{
	(void)pthread_mutex_lock(&p->lock);
	s->replicas = p->config.replicas;
	s->active_here = HASH_COUNT(p->active);
	s->acquiring = p->n_acquiring;
	(void)pthread_mutex_unlock(&p->lock);
	s->created = __atomic_load_n(&p->counts.created, __ATOMIC_RELAXED);
	s->reclaimed = __atomic_load_n(&p->counts.reclaimed, __ATOMIC_RELAXED);
	s->reused = __atomic_load_n(&p->counts.reused, __ATOMIC_RELAXED);
	s->released = __atomic_load_n(&p->counts.released, __ATOMIC_RELAXED);
	s->evicted = __atomic_load_n(&p->counts.evicted, __ATOMIC_RELAXED);
	s->expired = __atomic_load_n(&p->counts.expired, __ATOMIC_RELAXED);
	s->unhealthy = __atomic_load_n(&p->counts.unhealthy, __ATOMIC_RELAXED);
	s->invalidated = __atomic_load_n(&p->counts.invalidated, __ATOMIC_RELAXED);
	s->collisions = __atomic_load_n(&p->counts.collisions, __ATOMIC_RELAXED);
	s->overshot = __atomic_load_n(&p->counts.overshot, __ATOMIC_RELAXED);
}

int provider_get_stats(struct holt_provider *p, holt_provider_stats *ret, holt_error **reterr)
{
	holt_provider_stats s = {.struct_size = sizeof s};
	struct stock stock = {0};
	const int r = stock_take(p, &stock, reterr);

	if (r < 0)
		return r;
	for (size_t i = 0; i < stock.n; i++) {
		uint32_t *const of[] = {[HOLT_POOL_MAKING] = &s.making,
			[HOLT_POOL_ACTIVE] = &s.active,
			[HOLT_POOL_WARM] = &s.warm,
			[HOLT_POOL_STOPPED] = &s.stopped};

		if (stock.list[i].state >= 0 && stock.list[i].state <= HOLT_POOL_STOPPED)
			++*of[stock.list[i].state];
	}
	stock_done(&stock);
	count_calls(p, &s);
	*ret = s;
	return 0;
}
