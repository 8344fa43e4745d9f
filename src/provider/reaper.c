/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/inside.h"

#include <signal.h>
#include <string.h>

#include "base/cond.h"
#include "base/log.h"
#include "base/banned.h"

/*
 * The reaper: a thread that looks at the pool now and then, and ends what was warm for too long,
 * and the disks of what was stopped for too long. A pool whose boxes have keepers ends warm ones by
 * itself, also where no process of ours lives; this is for stopped ones, and for other pools.
 *
 * Only warm and stopped ones are ever ended, each with its id's hold if nobody has that, and what
 * is warm is held first: what somebody takes at the same moment is his.
 */
struct reaping {
	uint64_t idle_ms; /* read once */
	uint64_t keep_disk_ms; /* 0: no disk is kept */
};

static struct reaping reaping_of(const struct holt_provider *p)
{
	return (struct reaping){.idle_ms = p->config.idle_ms,
		.keep_disk_ms = p->config.idle_stop ? p->config.keep_disk_ms : 0};
}

static bool is_over(const struct reaping *r, int state, int64_t since_ms, int64_t now_ms)
{
	const uint64_t limit_ms = state == HOLT_POOL_WARM ? r->idle_ms : r->keep_disk_ms;

	if (state == HOLT_POOL_STOPPED && limit_ms == 0)
		return true;
	if ((state != HOLT_POOL_WARM && state != HOLT_POOL_STOPPED) || limit_ms == HOLT_FOREVER)
		return false;
	return now_ms > since_ms && (uint64_t)(now_ms - since_ms) > limit_ms;
}

/* It is the one that was listed, its time is over still, and it is ours to end. */
static bool take(struct holt_provider *p, const struct reaping *r, const struct stock_entry *was,
	struct seat *seat)
{
	holt_pool_entry e;

	if (seat_look(seat, &e, NULL) < 0 || strcmp(e.instance, was->instance) != 0 ||
		e.state != was->state || !is_over(r, e.state, e.since_ms, p->now_ms()))
		return false;
	return e.state == HOLT_POOL_STOPPED || seat_take(seat, false, NULL) >= 0;
}

/* Nobody holds what is stopped: who starts it at the same moment has it. */
static int end_of(struct seat *seat, const struct stock_entry *e, const char *id, struct notices *n)
{
	return e->state == HOLT_POOL_STOPPED ? seat_discard(seat, id, "idle_timeout", n, NULL)
					     : seat_destroy(seat, id, "idle_timeout", n, NULL);
}

static void reap(struct holt_provider *p, const struct reaping *r, const struct stock_entry *e,
	struct notices *n)
{
	const char *id = stock_id(p, e->name);
	struct holt_hold *hold = NULL;
	auto_seat seat = NULL;

	if (serializer_hold(p->serializer, id, strlen(id), 0, NULL, &hold, NULL) == -HOLT_ETIMEOUT)
		return;
	if (seat_find(p, e->name, &seat, NULL) == 0 && take(p, r, e, seat) &&
		end_of(seat, e, id, n) == 0)
		count_up(p->counts.expired);
	hold_release(hold);
}

static void pass(struct holt_provider *p, const struct reaping *r)
{
	struct stock stock = {0};
	auto_error error = NULL;

	if (stock_take(p, &stock, &error) < 0) {
		log_warn("provider", "the pool cannot be looked at: %s", holt_error_message(error));
		return;
	}
	for (size_t i = 0; i < stock.n; i++) {
		const struct stock_entry *e = &stock.list[i];
		struct notices n = {.p = p};

		if (is_over(r, e->state, e->since_ms, p->now_ms()))
			reap(p, r, e, &n);
		notices_send(&n);
	}
	parked_sweep(p, &stock);
	stock_done(&stock);
}

void reaper_pass(struct holt_provider *p)
{
	const struct reaping r = reaping_of(p);

	pass(p, &r);
}

static void *reaper_thread(void *arg)
{
	struct holt_provider *p = arg;
	const struct reaping r = reaping_of(p);

	(void)pthread_setname_np(pthread_self(), "holt-reaper");
	(void)pthread_mutex_lock(&p->lock);
	while (!p->reaper.stop) {
		const uint64_t next_ms = cond_deadline(p->reaper.interval_ms);

		while (!p->reaper.stop && cond_wait(&p->change, &p->lock, next_ms))
			continue;
		if (p->reaper.stop)
			break;
		(void)pthread_mutex_unlock(&p->lock);
		pass(p, &r);
		(void)pthread_mutex_lock(&p->lock);
	}
	p->reaper.ended = true;
	(void)pthread_cond_broadcast(&p->change);
	(void)pthread_mutex_unlock(&p->lock);
	return NULL;
}

int reaper_start(struct holt_provider *p, holt_error **reterr)
{
	const struct reaping what = reaping_of(p);
	sigset_t all;
	sigset_t before;

	if (what.idle_ms == HOLT_FOREVER &&
		(what.keep_disk_ms == 0 || what.keep_disk_ms == HOLT_FOREVER))
		return 0;
	/* The host program's signals are not for this thread. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	const int r = pthread_create(&p->reaper.thread, NULL, reaper_thread, p);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	p->reaper.started = r == 0;
	return r ? err_make(reterr, HOLT_ELIMIT, "cannot start a thread") : 0;
}

int reaper_stop(struct holt_provider *p, uint64_t timeout_ms, holt_error **reterr)
{
	const uint64_t deadline_ms = cond_deadline(timeout_ms);

	(void)pthread_mutex_lock(&p->lock);
	const bool started = p->reaper.started;
	p->reaper.stop = true;
	(void)pthread_cond_broadcast(&p->change);
	while (started && !p->reaper.ended && cond_wait(&p->change, &p->lock, deadline_ms))
		continue;
	const bool ended = !started || p->reaper.ended;
	if (ended)
		p->reaper.started = false;
	else
		p->reaper.stop = false;
	(void)pthread_mutex_unlock(&p->lock);
	if (!ended)
		return err_make(reterr, HOLT_ETIMEOUT,
			"the reaper is still at work: nothing was shut down");
	if (started)
		(void)pthread_join(p->reaper.thread, NULL);
	return 0;
}
