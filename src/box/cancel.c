/* SPDX-License-Identifier: Apache-2.0 */
#include "box/cancel.h"

#include "base/hash.h"
#include "base/banned.h"

struct holt_cancel {
	pthread_mutex_t lock;
	volatile int fired;
	struct cancel_waiter *waiters;
};

int cancel_new(holt_cancel **ret, holt_error **reterr)
{
	holt_cancel *c = mem_zalloc(sizeof *c);

	if (!c)
		return err_nomem(reterr);
	(void)pthread_mutex_init(&c->lock, NULL);
	*ret = c;
	return 0;
}

void cancel_trigger(holt_cancel *c)
{
	struct cancel_waiter *w;

	if (!c)
		return;
	(void)pthread_mutex_lock(&c->lock);
	__atomic_store_n(&c->fired, 1, __ATOMIC_SEQ_CST);
	LL_FOREACH (c->waiters, w) {
		(void)pthread_mutex_lock(w->lock);
		(void)pthread_cond_broadcast(w->cond);
		(void)pthread_mutex_unlock(w->lock);
	}
	(void)pthread_mutex_unlock(&c->lock);
}

void cancel_free(holt_cancel *c)
{
	if (!c)
		return;
	(void)pthread_mutex_destroy(&c->lock);
	mem_free(c);
}

bool cancel_fired(const holt_cancel *c)
{
	return c && __atomic_load_n(&c->fired, __ATOMIC_SEQ_CST);
}

void cancel_enter(holt_cancel *c, struct cancel_waiter *w)
{
	if (!c)
		return;
	(void)pthread_mutex_lock(&c->lock);
	LL_PREPEND(c->waiters, w);
	(void)pthread_mutex_unlock(&c->lock);
}

void cancel_leave(holt_cancel *c, struct cancel_waiter *w)
{
	if (!c)
		return;
	(void)pthread_mutex_lock(&c->lock);
	LL_DELETE(c->waiters, w);
	(void)pthread_mutex_unlock(&c->lock);
}

const volatile int *cancel_flag(const holt_cancel *c)
{
	return c ? &c->fired : NULL;
}
