/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cancel.h"

#include "base/hash.h"
#include "base/banned.h"

int cancel_new(holt_cancel **ret, holt_error **reterr)
{
	holt_cancel *c = mem_zalloc(sizeof *c);

	if (!c)
		return err_nomem(reterr);
	(void)pthread_mutex_init(&c->lock, NULL);
	*ret = c;
	return 0;
}

/* As deep as sandboxes are made of sandboxes, which is a matter of the caller's code. */
void cancel_trigger(holt_cancel *c) /* NOLINT(misc-no-recursion) */
{
	struct cancel_waiter *w;

	if (!c)
		return;
	(void)pthread_mutex_lock(&c->lock);
	__atomic_store_n(&c->fired, 1, __ATOMIC_SEQ_CST);
	LL_FOREACH (c->waiters, w) {
		if (w->joined) {
			cancel_trigger(w->joined);
			continue;
		}
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

void cancel_join_begin(struct cancel_join *j, holt_cancel *a, holt_cancel *b)
{
	*j = (struct cancel_join){.of = {a, b}};
	(void)pthread_mutex_init(&j->token.lock, NULL);
	for (int i = 0; i < 2; i++) {
		j->links[i].joined = &j->token;
		cancel_enter(j->of[i], &j->links[i]);
	}
	/* One that was triggered before told nobody. */
	if (cancel_fired(a) || cancel_fired(b))
		cancel_trigger(&j->token);
}

void cancel_join_end(struct cancel_join *j)
{
	for (int i = 0; i < 2; i++)
		cancel_leave(j->of[i], &j->links[i]);
	(void)pthread_mutex_destroy(&j->token.lock);
}
