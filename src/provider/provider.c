/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/random.h"
#include "base/str.h"
#include "base/thread_context.h"
#include "sandbox/paths.h"
#include "base/banned.h"

/*
 * A provider's life.
 *
 *   OPEN --reset--> no acquire with a thread --shutdown--> SHUT --free-->
 *     '---------------shutdown----------------------------^
 *
 * It knows what is active here, and nothing else: everything about the pool is asked for when it is
 * needed, since other processes change it. What it does:
 *
 *   acquire.c        a scope's sandbox: the active one, a warm one, a new one
 *   acquire_async.c  the same without waiting; turns.c
 *   release.c        parked, or found to be dead
 *   capacity.c       how many there may be
 *   health.c         whether one that waited still lives
 *   reaper.c         what waited for too long
 *   lease.c          several owners of one sandbox
 *   seat.c           a box and its sandbox, shared by whoever works with them; active.c the maps
 *   stock.c          what there is in the pool; notice.c what is told
 *
 * Destroying is always preceded by a hold, of the pool or of the id, except of what nobody can use:
 * boxes without an owner's name.
 */
#define END_THREADS 4u /* that end boxes at a shutdown: each takes seconds at worst */

holt_pool_holder provider_holder(const struct holt_provider *p)
{
	return (holt_pool_holder){.instance = p->instance,
		.label = p->label,
		.trace = context_trace(),
		.idle_ms = p->config.idle_ms,
		.on_idle = p->config.idle_stop ? HOLT_POOL_IDLE_STOP : HOLT_POOL_IDLE_DESTROY,
		.pause_after_ms = p->config.pause_after_ms};
}

holt_pool_shape provider_shape(const struct holt_provider *p)
{
	return (holt_pool_shape){.pool = p->config.pool,
		.image = p->config.image,
		.memory_mib = p->config.memory_mib,
		.cpus = p->config.cpus,
		.disk_bytes = p->config.disk_bytes,
		.network = p->config.network,
		.allow = (const char *const *)p->config.network_allow,
		.accel = p->config.accel};
}

int provider_refuse(const struct holt_provider *p, holt_error **reterr)
{
	(void)err_make(reterr, HOLT_ECLOSED, "the provider is %s; it cannot acquire a sandbox",
		cancel_fired(p->closing) ? "shut down" : "closed");
	err_hint(reterr, "open another one");
	return -HOLT_ECLOSED;
}

int provider_enter(struct holt_provider *p, bool has_thread, holt_error **reterr)
{
	(void)pthread_mutex_lock(&p->lock);
	const bool refused = p->shut || (p->reset && has_thread);
	p->n_acquiring += !refused;
	(void)pthread_mutex_unlock(&p->lock);
	return refused ? provider_refuse(p, reterr) : 0;
}

void provider_leave(struct holt_provider *p)
{
	(void)pthread_mutex_lock(&p->lock);
	p->n_acquiring--;
	(void)pthread_cond_broadcast(&p->change);
	(void)pthread_mutex_unlock(&p->lock);
}

static int64_t wall_ms(void)
{
	return (int64_t)(clock_wall_ns() / 1000000);
}

/* Boxes of which nobody knows whose they are are nobody's: no acquire would take one. */
static void sweep_unknown(struct holt_provider *p)
{
	struct notices n = {.p = p};
	struct stock stock = {0};
	auto_error error = NULL;

	if (stock_take(p, &stock, &error) < 0) {
		log_warn("provider", "the pool cannot be looked at: %s", holt_error_message(error));
		return;
	}
	for (size_t i = 0; i < stock.n; i++) {
		const struct stock_entry *e = &stock.list[i];
		auto_seat seat = NULL;

		if (e->known || e->state == HOLT_POOL_MAKING ||
			seat_find(p, e->name, &seat, NULL) < 0)
			continue;
		holt_pool_entry now;
		if (seat_look(seat, &now, NULL) == 0 && !now.known)
			(void)seat_destroy(seat, stock_id(p, e->name), "unknown", &n, NULL);
		notices_send(&n);
	}
	stock_done(&stock);
}

static int prepare(holt_cancel *cancel, void *user, holt_error **reterr)
{
	struct holt_provider *p = user;
	const holt_pool_shape shape = provider_shape(p);
	const holt_pool_wish wish = {.shape = &shape,
		.directories = (const char *const *)p->directories,
		.owner = p->sandbox.user};
	const holt_call call = {.timeout_ms = HOLT_FOREVER, .cancel = cancel};
	auto_error error = NULL;
	int r = 0;

	(void)reterr;
	if (p->pool->fetch && p->config.pull != HOLT_PULL_NEVER)
		r = p->pool->fetch(p->self, &shape, (int32_t)p->config.pull, &call, &error);
	if (r == 0)
		r = p->pool->prepare(p->self, &wish, p->config.spares, &call, &error);
	if (r < 0)
		log_warn("provider", "no spares are made: %s", holt_error_message(error));
	return 0;
}

static void prepare_start(struct holt_provider *p)
{
	const struct job_work work = {.run = prepare, .user = p};
	auto_error error = NULL;

	if (p->config.spares == 0 || !p->config.image)
		return;
	if (serializer_run(p->serializer, &work, &p->preparing, &error) < 0)
		log_warn("provider", "no spares are made: %s", holt_error_message(error));
}

static int copy_text(const char *from, char **ret)
{
	*ret = from ? str_dup(from) : NULL;
	return from && !*ret ? -HOLT_ENO_MEMORY : 0;
}

static int copy_sandbox(struct holt_provider *p, const holt_sandbox_options *o)
{
	static const char *const beneath[] = {"workspace", "uploads", "outputs"};
	const char *user_data = o && o->user_data ? o->user_data : HOLT_USER_DATA_DEFAULT;

	for (size_t i = 0; i < sizeof beneath / sizeof *beneath; i++)
		p->directories[i] = str_printf("%s/%s", user_data, beneath[i]);
	p->directories[3] = str_dup("/mnt/skills");
	if (!p->directories[0] || !p->directories[1] || !p->directories[2] || !p->directories[3])
		return -HOLT_ENO_MEMORY;
	if (!o)
		return 0;
	p->sandbox.flags = o->flags;
	return copy_text(o->user, &p->sandbox.user) < 0 || copy_text(o->cwd, &p->sandbox.cwd) < 0 ||
			       copy_text(o->user_data, &p->sandbox.user_data) < 0
		       ? -HOLT_ENO_MEMORY
		       : 0;
}

static int open_parts(struct holt_provider *p, const struct provider_wish *w, holt_error **reterr)
{
	int r = provider_config_copy(w->config, &p->config, reterr);

	if (r < 0)
		return r;
	if (w->sandbox && w->sandbox->user_data)
		r = path_check_user_data(w->sandbox->user_data, reterr);
	if (r < 0)
		return r;
	if (copy_sandbox(p, w->sandbox) < 0)
		return err_nomem(reterr);
	scope_box_name(p->config.pool, "", p->prefix);
	r = random_hex(p->instance, sizeof p->instance - 1);
	if (r < 0)
		return err_errno(reterr, -r, "no random bytes for a provider");
	(void)snprintf(p->label, sizeof p->label, "process %ld (%.32s)", (long)getpid(),
		program_invocation_short_name);
	r = serializer_new(0, NULL, &p->serializer, reterr);
	if (r == 0)
		r = serializer_new(0, NULL, &p->alone, reterr);
	if (r == 0)
		r = serializer_new(0, NULL, &p->lease_turns, reterr);
	if (r == 0)
		r = cancel_new(&p->closing, reterr);
	return r == 0 ? bell_new(p, &p->bell, reterr) : r;
}

/* Of one that nobody uses any more; what is active is let go, and warm then. */
static void close_parts(struct holt_provider *p)
{
	char id[SANDBOX_ID_MAX + 1];
	struct seat *seat;

	bell_mute(p->bell);
	turns_done(p);
	job_free(p->preparing);
	while ((seat = active_take_any(p, id)))
		seat_unref(seat);
	parked_sweep(p, NULL);
	leases_done(p);
	serializer_free(p->lease_turns);
	serializer_free(p->alone);
	serializer_free(p->serializer);
	cancel_free(p->closing);
	provider_config_done(&p->config);
	for (size_t i = 0; i < sizeof p->directories / sizeof *p->directories; i++)
		mem_free(p->directories[i]);
	mem_free(p->sandbox.user);
	mem_free(p->sandbox.cwd);
	mem_free(p->sandbox.user_data);
	(void)pthread_cond_destroy(&p->change);
	(void)pthread_mutex_destroy(&p->lock);
	mem_free(p);
}

int provider_open(const struct provider_wish *w, struct holt_provider **ret, holt_error **reterr)
{
	struct holt_provider *p = mem_zalloc(sizeof *p);

	if (!p)
		return err_nomem(reterr);
	p->pool = w->pool;
	p->self = w->self;
	p->event = w->event;
	p->user = w->user;
	p->now_ms = w->now_ms ? w->now_ms : wall_ms;
	p->reaper.interval_ms = w->check_interval_ms ? w->check_interval_ms : REAPER_INTERVAL_MS;
	(void)pthread_mutex_init(&p->lock, NULL);
	cond_init(&p->change);
	turns_init(&p->turns);
	int r = open_parts(p, w, reterr);
	if (r == 0)
		sweep_unknown(p);
	if (r == 0)
		r = reaper_start(p, reterr);
	if (r < 0) {
		close_parts(p);
		return r;
	}
	prepare_start(p);
	*ret = p;
	return 0;
}

void provider_reset(struct holt_provider *p)
{
	struct notices n = {.p = p};
	char id[SANDBOX_ID_MAX + 1];
	struct seat *seat;

	(void)pthread_mutex_lock(&p->lock);
	p->reset = true;
	(void)pthread_mutex_unlock(&p->lock);
	serializer_close(p->serializer);
	serializer_close(p->lease_turns);
	/* No handle is kept: what is warm by a reset is as good as another process's. */
	while ((seat = active_take_any(p, id))) {
		if (seat_park(seat, id)) {
			count_up(p->counts.released);
			notice_add(&n, HOLT_PROVIDER_RELEASED, id, "");
		}
		seat_unref(seat);
		notices_send(&n);
	}
	parked_sweep(p, NULL);
	leases_done(p);
}

/* What a shutdown ends, by several threads. */
struct ending {
	struct holt_provider *p;
	struct stock stock; /* the warm ones of this provider */
	size_t next; /* atomic */
};

static void end_active(struct ending *e)
{
	struct holt_provider *p = e->p;
	struct notices n = {.p = p};
	char id[SANDBOX_ID_MAX + 1];
	struct seat *seat;

	while ((seat = active_take_any(p, id))) {
		if (!p->config.shutdown_keep) {
			(void)seat_destroy(seat, id, "shutdown", &n, NULL);
		} else if (seat_park(seat, id)) {
			count_up(p->counts.released);
			notice_add(&n, HOLT_PROVIDER_RELEASED, id, "");
		}
		seat_unref(seat);
		notices_send(&n);
	}
}

/* Nothing is active here any more: what looks so is what could not be parked. */
static bool is_left_of(const struct holt_provider *p, const struct stock_entry *s)
{
	return strcmp(s->holder, p->instance) == 0 &&
	       (s->state == HOLT_POOL_WARM || (s->state == HOLT_POOL_ACTIVE && !s->leased));
}

static void end_warm(struct ending *e)
{
	struct holt_provider *p = e->p;
	struct notices n = {.p = p};
	size_t i;

	while ((i = __atomic_fetch_add(&e->next, 1, __ATOMIC_RELAXED)) < e->stock.n) {
		const struct stock_entry *s = &e->stock.list[i];
		auto_seat seat = NULL;

		if (!is_left_of(p, s))
			continue;
		if (seat_find(p, s->name, &seat, NULL) == 0 && seat_take(seat, true, NULL) >= 0)
			(void)seat_destroy(seat, stock_id(p, s->name), "shutdown", &n, NULL);
		notices_send(&n);
	}
}

static void *end_active_thread(void *arg)
{
	end_active(arg);
	return NULL;
}

static void *end_warm_thread(void *arg)
{
	end_warm(arg);
	return NULL;
}

/* @n pieces of work, of which each call does all that it finds. */
static void end_all(struct ending *e, size_t n, void *(*thread)(void *))
{
	pthread_t threads[END_THREADS];
	unsigned started = 0;

	while (started < END_THREADS && started + 1 < n &&
		pthread_create(&threads[started], NULL, thread, e) == 0)
		started++;
	(void)thread(e);
	for (unsigned i = 0; i < started; i++)
		(void)pthread_join(threads[i], NULL);
}

static void end_boxes(struct holt_provider *p)
{
	struct ending e = {.p = p};
	auto_error error = NULL;

	(void)pthread_mutex_lock(&p->lock);
	const size_t n = HASH_COUNT(p->active);
	(void)pthread_mutex_unlock(&p->lock);
	end_all(&e, n, end_active_thread);
	parked_sweep(p, NULL);
	if (p->config.shutdown_keep)
		return;
	if (stock_take(p, &e.stock, &error) < 0)
		log_warn("provider", "warm sandboxes are left: %s", holt_error_message(error));
	else
		end_all(&e, e.stock.n, end_warm_thread);
	stock_done(&e.stock);
}

static void refuse_and_wait(struct holt_provider *p)
{
	(void)pthread_mutex_lock(&p->lock);
	p->shut = true;
	(void)pthread_mutex_unlock(&p->lock);
	serializer_close(p->serializer);
	serializer_close(p->alone);
	serializer_close(p->lease_turns);
	cancel_trigger(p->closing);
	job_free(take_ptr(p->preparing));
	(void)pthread_mutex_lock(&p->lock);
	while (p->n_acquiring > 0 || p->n_releasing > 0)
		(void)pthread_cond_wait(&p->change, &p->lock);
	(void)pthread_mutex_unlock(&p->lock);
}

/* Whether this thread is the one to do it; waits for one that does. */
static bool shutdown_is_mine(struct holt_provider *p)
{
	(void)pthread_mutex_lock(&p->lock);
	while (p->shutting)
		(void)pthread_cond_wait(&p->change, &p->lock);
	p->shutting = !p->shut_done;
	const bool mine = p->shutting;
	(void)pthread_mutex_unlock(&p->lock);
	return mine;
}

int provider_shutdown(struct holt_provider *p, holt_error **reterr)
{
	if (!shutdown_is_mine(p))
		return 0;
	const int r = reaper_stop(p, REAPER_STOP_MS, reterr);
	if (r == 0) {
		refuse_and_wait(p);
		end_boxes(p);
		leases_done(p);
	}
	(void)pthread_mutex_lock(&p->lock);
	p->shutting = false;
	p->shut_done = r == 0;
	(void)pthread_cond_broadcast(&p->change);
	(void)pthread_mutex_unlock(&p->lock);
	return r;
}

int provider_end_lease(struct holt_provider *p, const char *id, holt_error **reterr)
{
	const holt_call call = {.timeout_ms = 5000};
	char name[BOX_NAME_MAX];
	auto_seat seat = NULL;
	auto_error error = NULL;
	int r = -HOLT_ENOT_FOUND;

	if (scope_is_id(id, strlen(id))) {
		scope_box_name(p->config.pool, id, name);
		r = seat_find(p, name, &seat, &error);
	}
	if (r == 0)
		r = p->pool->lease(p->self, seat->box, 0, &call, &error);
	if (r == -HOLT_ENOT_FOUND || r == -HOLT_ECLOSED) {
		r = err_make(reterr, HOLT_ENOT_FOUND, "the pool has no sandbox '%.64s'", id);
		err_object(reterr, id);
		err_hint(reterr, "'holt sandbox ps' lists the pool's sandboxes");
		return r;
	}
	return r < 0 ? err_take(reterr, take_ptr(error)) : 0;
}

void provider_free(struct holt_provider *p)
{
	if (!p)
		return;
	(void)reaper_stop(p, HOLT_FOREVER, NULL);
	job_free(take_ptr(p->preparing));
	(void)pthread_mutex_lock(&p->lock);
	while (p->n_acquiring > 0 || p->n_releasing > 0)
		(void)pthread_cond_wait(&p->change, &p->lock);
	(void)pthread_mutex_unlock(&p->lock);
	const holt_pool *pool = p->pool;
	void *self = p->self;
	close_parts(p);
	if (pool->close)
		pool->close(self);
}
