/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/banned.h"

/*
 * How many sandboxes there may be. Whoever makes one counts first, under the pool's lock, and has
 * its own entry in the pool before it lets the lock go: so that two who make one at the same time
 * count each other, in whichever processes they are.
 *
 * The limit is soft: if there are enough, the one that has been warm for the longest time has to
 * go, one for each new one; if all are active, one too many is made. The victim is held under the
 * lock, so nobody else can get it, and destroyed after it.
 */
struct victim {
	struct seat *seat;
	struct holt_hold *hold; /* of its id; NULL after a reset */
	char id[SANDBOX_ID_MAX + 1];
};

/* Nobody of ours has business with the id: 0, also where the serializer is closed and cannot tell.
 */
static int id_try_hold(struct holt_provider *p, const char *id, struct holt_hold **ret)
{
	const int r = serializer_hold(p->serializer, id, strlen(id), 0, NULL, ret, NULL);

	return r == -HOLT_ECLOSED ? 0 : r;
}

static void victim_free(struct victim *v)
{
	seat_unref(v->seat);
	hold_release(v->hold);
	*v = (struct victim){0};
}

static bool victim_try(struct acquiring *a, const struct stock_entry *e, struct victim *v)
{
	struct holt_provider *p = a->p;

	memcpy(v->id, stock_id(p, e->name), strlen(stock_id(p, e->name)) + 1);
	if (strcmp(v->id, a->id) == 0 || id_try_hold(p, v->id, &v->hold) < 0)
		return false;
	/* One that is hung is as good as any: it would be in everybody's way again. */
	if (seat_find(p, e->name, &v->seat, NULL) == 0 && seat_take(v->seat, false, NULL) >= 0)
		return true;
	victim_free(v);
	return false;
}

static int older(const void *a, const void *b)
{
	const struct stock_entry *x = a;
	const struct stock_entry *y = b;

	return (x->since_ms > y->since_ms) - (x->since_ms < y->since_ms);
}

static bool victim_pick(struct acquiring *a, struct stock *s, struct victim *v)
{
	if (s->n > 1)
		qsort(s->list, s->n, sizeof *s->list, older);
	for (size_t i = 0; i < s->n; i++) {
		if (s->list[i].state == HOLT_POOL_WARM && victim_try(a, &s->list[i], v))
			return true;
	}
	return false;
}

/* Under the pool's lock. *ret_over: there are too many, and nobody to go. */
static int make_locked(struct acquiring *a, const holt_pool_wish *wish, struct victim *v,
	bool *ret_over, void **ret_box, holt_error **reterr)
{
	struct holt_provider *p = a->p;
	struct stock stock = {0};
	int r = stock_take(p, &stock, reterr);

	if (r == 0 && wish)
		r = p->pool->create(p->self, a->name, wish, ret_box, reterr);
	if (r == 0)
		*ret_over = stock.living >= p->config.replicas && !victim_pick(a, &stock, v);
	stock_done(&stock);
	return r;
}

static void tell_overshot(struct acquiring *a)
{
	log_warn("provider",
		"sandbox=%s all %u replicas are active, one more is made: raise 'replicas'", a->id,
		a->p->config.replicas);
	count_up(a->p->counts.overshot);
	notice_add(&a->notices, HOLT_PROVIDER_OVERSHOT, a->id, "");
}

int capacity_make(
	struct acquiring *a, const holt_pool_wish *wish, void **ret_box, holt_error **reterr)
{
	struct holt_provider *p = a->p;
	const holt_call call = {.timeout_ms = acquire_left(a), .cancel = &a->stop.token};
	struct victim v = {0};
	bool over = false;
	void *lock = NULL;
	int r = p->pool->lock(p->self, p->config.pool, &call, &lock, reterr);

	if (r < 0)
		return r;
	r = make_locked(a, wish, &v, &over, ret_box, reterr);
	p->pool->unlock(p->self, lock);
	if (r == 0 && over)
		tell_overshot(a);
	if (r == 0 && v.seat) {
		count_up(p->counts.evicted);
		(void)seat_destroy(v.seat, v.id, "replica_enforcement", &a->notices, NULL);
	}
	victim_free(&v);
	return r;
}
