/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be done with one box of a pool, on any thread.
 *
 *   create --start--> held by us, with its directories, detached
 *     '-- a failure on the way: it is ended, and removed if it was just made
 *   find ---hold----> held by us; waits for who makes it, and then for who has it
 *
 * Until the last step of a start the box is attached: it ends with this process, and with the first
 * step that fails. What is held ends with the handle's connection, so a process that dies leaves
 * nothing that somebody has to repair.
 *
 * Starts and destructions of one handle exclude each other; a destruction cuts a start short.
 * Everything else needs nothing but the handle.
 */
#include "box/pool_box.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/mem.h"
#include "box/box_backend.h"
#include "box/box_lease.h"
#include "box/call_bounds.h"
#include "box/event_log.h"
#include "box/pool_directories.h"
#include "box/pool_entry.h"
#include "box/request.h"
#include "sandbox/contract.h"
#include "base/banned.h"

#define MAKING_POLL_NS 5000000 /* between looks at a box that somebody else is making */

/* ---- life of a handle ---- */

static void unref(void *user)
{
	struct pool_box *p = user;

	if (__atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	box_close(p->box);
	cancel_free(p->doomed);
	(void)pthread_mutex_destroy(&p->life);
	(void)pthread_mutex_destroy(&p->look_lock);
	mem_free(p);
}

int pool_box_new(struct holt_box *b, bool fresh, struct pool_box **ret, holt_error **reterr)
{
	struct pool_box *p = mem_zalloc(sizeof *p);
	int r = p ? cancel_new(&p->doomed, reterr) : err_nomem(reterr);

	if (!p || r < 0) {
		mem_free(p);
		if (fresh)
			(void)box_remove(b, true, NULL);
		box_close(b);
		return r;
	}
	p->box = b;
	p->refs = 1;
	p->fresh = fresh;
	(void)pthread_mutex_init(&p->life, NULL);
	(void)pthread_mutex_init(&p->look_lock, NULL);
	*ret = p;
	return 0;
}

static void undo_making(struct pool_box *p)
{
	if (p->fresh)
		(void)box_remove(p->box, true, NULL);
	p->fresh = false;
}

void pool_box_drop(void *self, void *box)
{
	struct pool_box *p = box;

	(void)self;
	if (!p)
		return;
	/* A sandbox may keep the connection open, which is what holds. */
	if (!__atomic_load_n(&p->mute, __ATOMIC_RELAXED))
		(void)box_park(p->box, NULL);
	undo_making(p);
	unref(p);
}

/* ---- looking ---- */

static bool stopped(const struct box_state *s)
{
	return s->phase == BOX_CREATED || s->phase == BOX_EXITED || s->phase == BOX_GONE;
}

static int gone(const struct pool_box *p, holt_error **reterr)
{
	const int r = err_make(reterr, HOLT_ECLOSED, "the box is gone");

	err_object(reterr, p->box->rec.id);
	return r;
}

int pool_box_look(void *self, void *box, holt_pool_entry *ret, holt_error **reterr)
{
	struct pool_box *p = box;
	const struct box_record *rec = &p->box->rec;
	const struct pool_facts facts = {.id = rec->id,
		.name = rec->name,
		.created_ns = rec->created_ns,
		.pool = rec->pooled ? &rec->pool : NULL};

	struct box_state now;

	(void)self;
	box_state_look(p->box->home->boxes_fd, rec->id, &now);
	if (now.phase == BOX_GONE)
		return gone(p, reterr);
	(void)pthread_mutex_lock(&p->look_lock);
	p->state = now;
	pool_entry_fill(&p->state, &facts, ret);
	(void)pthread_mutex_unlock(&p->look_lock);
	return 0;
}

/* The same error, with the code that says that the box is gone. */
static int close_error(const struct pool_box *p, holt_error *error, holt_error **reterr)
{
	(void)err_make(reterr, HOLT_ECLOSED, "%s", holt_error_message(error));
	err_stage(reterr, holt_error_stage(error));
	err_object(reterr, p->box->rec.id);
	holt_error_free(error);
	return -HOLT_ECLOSED;
}

/* What failed on a box that does not live any more failed for that: who asked shall know it from
 * the code alone. */
static int explain(const struct pool_box *p, int r, holt_error *error, holt_error **reterr)
{
	struct box_state now;

	if (r == 0)
		return 0;
	box_state_look(p->box->home->boxes_fd, p->box->rec.id, &now);
	if (r == -HOLT_ECLOSED || r == -HOLT_ECANCELLED || !stopped(&now))
		return err_take(reterr, error);
	return close_error(p, error, reterr);
}

/* ---- starting ---- */

static struct lease_wish lease_of(const holt_pool_holder *h)
{
	return (struct lease_wish){.holder = h->instance,
		.label = h->label,
		.trace = h->trace ? h->trace : "",
		.idle_ms = h->idle_ms,
		.pause_after_ms = h->pause_after_ms,
		.stop_when_idle = h->on_idle == HOLT_POOL_IDLE_STOP};
}

/* Where somebody else has started it, before any lock is waited for. */
static int check_stopped(const struct pool_box *p, holt_error **reterr)
{
	struct box_state now;

	if (p->fresh)
		return 0;
	box_state_look(p->box->home->boxes_fd, p->box->rec.id, &now);
	if (now.phase == BOX_GONE)
		return gone(p, reterr);
	if (stopped(&now) || now.phase == BOX_STOPPING ||
		(now.phase == BOX_STARTING && now.keeper_pid == 0))
		return 0;
	const int r = err_make(reterr, HOLT_EBUSY, "the box is %s", box_phase_name(now.phase));
	err_object(reterr, now.holder_label);
	return r;
}

/* It runs, and is not to stay. */
static void end_started(struct pool_box *p)
{
	if (!p->fresh && box_stop(p->box, 0, NULL) < 0)
		(void)box_kill(p->box, 9, NULL);
	undo_making(p);
}

/* From a box that runs to one that lives on. */
static int settle(struct pool_box *p, const holt_pool_holder *holder,
	const struct call_bounds *bounds, holt_error **reterr)
{
	const struct lease_wish lease = lease_of(holder);
	int r = box_hold(p->box, &lease, call_bounds_left(bounds), bounds->cancel, reterr);

	if (r == 0)
		r = pool_directories_make(p->box, bounds, reterr);
	if (r == 0)
		r = call_bounds_check(bounds, reterr);
	return r == 0 ? box_detach(p->box, reterr) : r;
}

static int start_locked(struct pool_box *p, const holt_pool_holder *holder,
	const struct call_bounds *bounds, holt_error **reterr)
{
	const uint64_t left_ms = call_bounds_left(bounds);
	const struct start_wish w = {.boot_timeout_ms = left_ms < HOLT_BOOT_TIMEOUT_MS_DEFAULT
								? left_ms
								: HOLT_BOOT_TIMEOUT_MS_DEFAULT,
		.ready_ms = left_ms,
		.accel = p->box->rec.pool.accel,
		.cancel = bounds->cancel};
	int r = call_bounds_check(bounds, reterr);

	if (r == 0)
		r = check_stopped(p, reterr);
	if (r == 0)
		r = box_start(p->box, &w, NULL, reterr);
	if (r < 0) {
		undo_making(p);
		return r;
	}
	r = settle(p, holder, bounds, reterr);
	if (r < 0)
		end_started(p);
	else
		p->fresh = false;
	return r;
}

int pool_box_start(void *self, void *box, const holt_pool_holder *holder, const holt_call *call,
	holt_error **reterr)
{
	struct pool_box *p = box;
	struct cancel_join both;
	struct box_state now;

	(void)self;
	(void)pthread_mutex_lock(&p->life);
	cancel_join_begin(&both, call->cancel, p->doomed);
	const struct call_bounds bounds = {
		.deadline_ms = cond_deadline(call->timeout_ms), .cancel = &both.token};
	const bool fresh = p->fresh;
	holt_error *error = NULL;
	int r = start_locked(p, holder, &bounds, &error);
	cancel_join_end(&both);
	(void)pthread_mutex_unlock(&p->life);
	if (r == 0)
		return 0;
	err_stage(&error, "start");
	err_object(&error, p->box->rec.id);
	box_state_look(p->box->home->boxes_fd, p->box->rec.id, &now);
	return cancel_fired(p->doomed) || (!fresh && now.phase == BOX_GONE)
		       ? close_error(p, error, reterr)
		       : err_take(reterr, error);
}

/* ---- who has it ---- */

/* A box that is being made is its maker's, who has not asked for it yet. */
static int await_made(
	const struct pool_box *p, const struct call_bounds *bounds, holt_error **reterr)
{
	const struct timespec pause = {.tv_nsec = MAKING_POLL_NS};
	struct box_state now;

	for (;;) {
		box_state_look(p->box->home->boxes_fd, p->box->rec.id, &now);
		if (pool_state_of(&now, p->box->rec.pooled) != HOLT_POOL_MAKING)
			return 0;
		if (cancel_fired(bounds->cancel))
			return err_make(reterr, HOLT_ECANCELLED, "waiting was cancelled");
		if (call_bounds_left(bounds) == 0)
			return err_make(
				reterr, HOLT_EBUSY, "somebody else is just starting the box");
		(void)nanosleep(&pause, NULL);
	}
}

int pool_box_hold(void *self, void *box, const holt_pool_holder *holder, const holt_call *call,
	holt_error **reterr)
{
	struct pool_box *p = box;
	const struct call_bounds bounds = call_bounds_of(call);
	const struct lease_wish lease = lease_of(holder);
	holt_error *error = NULL;
	int r = await_made(p, &bounds, &error);

	(void)self;
	if (r == 0)
		r = box_hold(p->box, &lease, call_bounds_left(&bounds), bounds.cancel, &error);
	return explain(p, r, error, reterr);
}

int pool_box_park(void *self, void *box, holt_error **reterr)
{
	struct pool_box *p = box;
	holt_error *error = NULL;
	const int r = box_park(p->box, &error);

	(void)self;
	/* It will find that in its socket, should it ever look again. */
	__atomic_store_n(&p->mute, r == -HOLT_ETIMEOUT, __ATOMIC_RELAXED);
	return explain(p, r, error, reterr);
}

int pool_box_lease(
	void *self, void *box, uint64_t lease_ms, const holt_call *call, holt_error **reterr)
{
	struct pool_box *p = box;
	holt_error *error = NULL;
	const int r = box_lease(p->box, lease_ms, call->timeout_ms, &error);

	(void)self;
	return explain(p, r, error, reterr);
}

/* A box that has lost its network lives, and is not what it was made for. */
static int prove_network(const struct pool_box *p, holt_error **reterr)
{
	struct box_state now;

	box_state_look(p->box->home->boxes_fd, p->box->rec.id, &now);
	if (now.net != BOX_NET_LOST)
		return 0;
	const int r = err_make(
		reterr, HOLT_EGUEST_LOST, "the box has lost its network: %s", now.net_text);
	err_object(reterr, p->box->rec.id);
	return r;
}

int pool_box_prove(void *self, void *box, uint64_t timeout_ms, holt_error **reterr)
{
	const struct wire_msg msg = {.op = WIRE_OP_ping, .ping = {.token = clock_mono_us()}};
	const struct call_bounds bounds = {.deadline_ms = cond_deadline(timeout_ms)};
	struct pool_box *p = box;
	struct session *s = NULL;
	holt_error *error = NULL;
	int r = box_connect_within(p->box, timeout_ms, NULL, &s, &error);

	(void)self;
	if (r == 0)
		r = session_ask(s, &msg, call_bounds_left(&bounds), NULL, NULL, &error);
	if (r == 0)
		r = prove_network(p, &error);
	return explain(p, r, error, reterr);
}

/* ---- using it ---- */

int pool_box_open(void *self, void *box, const holt_sandbox_options *options, holt_sandbox **ret,
	holt_error **reterr)
{
	const holt_sandbox_options none = HOLT_SANDBOX_OPTIONS_INIT;
	const holt_sandbox_options *o = options ? options : &none;
	struct pool_box *p = box;
	const struct contract_wish wish = {.id = o->id ? o->id : p->box->rec.id,
		.env = o->env,
		.user_data = o->user_data ? o->user_data : HOLT_USER_DATA_DEFAULT,
		.text = o->flags & HOLT_SANDBOX_TEXT,
		.terminal = o->terminal,
		.terminal_user = o->terminal_user};
	void *backend = NULL;
	int r = box_backend_new(p->box, o->user, o->cwd, &backend, reterr);

	(void)self;
	if (r < 0)
		return r;
	(void)__atomic_add_fetch(&p->refs, 1, __ATOMIC_RELAXED);
	box_backend_on_close(backend, unref, p);
	r = contract_open(&box_backend, backend, &wish, ret, reterr);
	if (r < 0)
		box_backend.close(backend);
	return r;
}

/* ---- ending it ---- */

static void tell_discard(const struct holt_box *b, const char *reason)
{
	event_tell(b->home->fd, "discard", b->rec.id, b->rec.name,
		json_pack("{s:s}", "reason", reason ? reason : ""));
}

/* By force, whatever it does, or only what does not run. */
static int destroy_locked(struct pool_box *p, const char *reason, bool force, holt_error **reterr)
{
	struct holt_box *b = p->box;
	struct box_state now;
	auto_error error = NULL;

	box_look(b, &now);
	if (now.phase == BOX_GONE) {
		(void)box_free_name(b->home, b->rec.id);
		return 0;
	}
	if (force)
		tell_discard(b, reason);
	const int r = box_remove(b, force, &error);
	if (r < 0 && r != -HOLT_ENOT_FOUND)
		return err_take(reterr, take_ptr(error));
	if (!force)
		tell_discard(b, reason);
	p->fresh = false;
	return 0;
}

int pool_box_destroy(void *self, void *box, const char *reason, holt_error **reterr)
{
	struct pool_box *p = box;

	(void)self;
	cancel_trigger(p->doomed);
	(void)pthread_mutex_lock(&p->life);
	const int r = destroy_locked(p, reason, true, reterr);
	(void)pthread_mutex_unlock(&p->life);
	return r;
}

int pool_box_discard(void *self, void *box, const char *reason, holt_error **reterr)
{
	struct pool_box *p = box;

	(void)self;
	(void)pthread_mutex_lock(&p->life);
	const int r = destroy_locked(p, reason, false, reterr);
	(void)pthread_mutex_unlock(&p->life);
	return r;
}
