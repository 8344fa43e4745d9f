/* SPDX-License-Identifier: Apache-2.0 */
#include "base/deadline.h"

#include <signal.h>

#include "base/cond.h"
#include "base/banned.h"

static void *deadline_thread(void *arg)
{
	struct deadline *d = arg;

	(void)pthread_setname_np(pthread_self(), "holt-deadline");
	(void)pthread_mutex_lock(&d->lock);
	while (!d->over && cond_wait(&d->change, &d->lock, d->at_ms))
		;
	d->passed = !d->over;
	(void)pthread_mutex_unlock(&d->lock);
	/* Without the lock: whom it wakes is nobody's business here. */
	if (d->passed)
		cancel_trigger(&d->join.token);
	return NULL;
}

int deadline_begin(struct deadline *d, uint64_t timeout_ms, holt_cancel *cancel)
{
	sigset_t all, before;
	int r = 0;

	*d = (struct deadline){.at_ms = cond_deadline(timeout_ms)};
	cancel_join_begin(&d->join, cancel, NULL);
	if (d->at_ms == HOLT_FOREVER)
		return 0;
	(void)pthread_mutex_init(&d->lock, NULL);
	cond_init(&d->change);
	/* The host program's signals are not for this thread. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&d->thread, NULL, deadline_thread, d);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0) {
		d->at_ms = HOLT_FOREVER;
		(void)deadline_end(d);
		(void)pthread_cond_destroy(&d->change);
		(void)pthread_mutex_destroy(&d->lock);
	}
	return r;
}

bool deadline_end(struct deadline *d)
{
	if (d->at_ms != HOLT_FOREVER) {
		(void)pthread_mutex_lock(&d->lock);
		d->over = true;
		(void)pthread_cond_signal(&d->change);
		(void)pthread_mutex_unlock(&d->lock);
		(void)pthread_join(d->thread, NULL);
		(void)pthread_cond_destroy(&d->change);
		(void)pthread_mutex_destroy(&d->lock);
	}
	cancel_join_end(&d->join);
	return d->passed;
}
