/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a box, and reaching one that runs. A start takes, in this order: both locks,
 * accelerator, kernel and initramfs, rootfs and disk, a keeper with all of it as descriptors. From
 * the keeper's start on the locks are the keeper's and QEMU's.
 *
 * Every box begins attached to its starter, so that nothing is left of a start that is cut short;
 * one that shall live on is detached when its program runs.
 */
#include "box/lifecycle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/home_memory.h"
#include "box/origin.h"
#include "box/request.h"
#include "vmm/disk.h"
#include "vmm/jail.h"
#include "base/banned.h"

/* What the keeper may take beyond its two boot attempts: a clone that fails, and some. */
#define START_MARGIN_MS 20000
/* For a keeper or VM of the run before to be gone. */
#define LOCK_WAIT_MS 2000
/* The keeper's own word. */
#define DETACH_TIMEOUT_MS 5000
/* For a box that somebody else is just starting. */
#define CONNECT_TIMEOUT_MS 30000

static int open_file(
	const struct box_dir *d, const char *name, int flags, int *ret_fd, holt_error **reterr)
{
	*ret_fd = openat(d->fd, name, flags | O_CLOEXEC | O_NOFOLLOW);
	if (*ret_fd >= 0)
		return 0;
	const int r = err_errno(reterr, errno, "cannot open the box's file '%s'", name);
	err_hint(reterr, "the box is damaged: remove it with 'holt rm'");
	return r;
}

static void fill_spec(
	const struct holt_box *b, const struct start_wish *w, struct keeper_spec *spec)
{
	const struct box_record *r = &b->rec;

	(void)snprintf(spec->id, sizeof spec->id, "%s", r->id);
	(void)snprintf(spec->name, sizeof spec->name, "%s", r->name ? r->name : "");
	(void)snprintf(spec->hostname, sizeof spec->hostname, "%s", r->hostname);
	memcpy(spec->mac, r->mac, sizeof spec->mac);
	spec->keep = r->keep;
	spec->memory_mib = r->memory_mib;
	spec->cpus = r->cpus;
	spec->disk_bytes = r->disk_bytes;
	spec->log_bytes = r->log_bytes;
	spec->stop_signal = r->stop_signal;
	spec->stop_grace_ms = r->stop_grace_ms;
	spec->boot_timeout_ms = w->boot_timeout_ms;
	spec->network = r->network; /* lent */
}

static int take_locks(struct holt_box *b, holt_error **reterr)
{
	if (b->dir.fd >= 0)
		return 0; /* since it was made */
	const int r = box_dir_lock(b->home->boxes_fd, b->rec.id, LOCK_WAIT_MS, &b->dir);
	if (r == -ENOENT)
		return err_make(reterr, HOLT_ENOT_FOUND, "the box is removed");
	if (r == -EBUSY) {
		(void)err_make(reterr, HOLT_EBUSY, "the box runs already");
		err_hint(reterr, "stop it first with 'holt stop %s'", b->rec.id);
		return -HOLT_EBUSY;
	}
	return r < 0 ? err_errno(reterr, -r, "cannot lock the box") : 0;
}

static int check_cancel(const struct start_wish *w, holt_error **reterr)
{
	if (!cancel_fired(w->cancel))
		return 0;
	return err_make(reterr, HOLT_ECANCELLED, "the start was cancelled");
}

/* The keeper and its machine have the locks now, and the box belongs to who has @owner_fd. */
static void set_started(struct holt_box *b, int owner_fd)
{
	box_dir_close(&b->dir);
	box_set_unstarted(b);
	(void)fd_close(b->owner_fd); /* of the run before */
	b->owner_fd = owner_fd;
	b->ours = true;
}

/* The disk of a box that never had a machine, where no template has given one. */
static int make_disk(const struct holt_box *b, holt_error **reterr)
{
	if (faccessat(b->dir.fd, "disk.raw", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
		faccessat(b->dir.fd, BOX_STATE_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	return disk_create(b->home->cache_dir, b->dir.fd, "disk.raw", b->rec.disk_bytes, reterr);
}

static int start_machine(struct holt_box *b, struct keeper_parts *p, const struct start_wish *w,
	const struct keeper_spec *spec, struct session **ret, holt_error **reterr)
{
	int r = make_disk(b, reterr);

	if (r < 0 || (r = open_file(&b->dir, "disk.raw", O_RDWR, &p->disk_fd, reterr)) < 0 ||
		(r = check_cancel(w, reterr)) < 0 ||
		(r = keeper_start(b->home, &b->dir, p, spec, reterr)) < 0)
		return r;
	set_started(b, take_fd(p->owner[1]));
	return session_open(
		b->home->loop, take_fd(p->control[0]), take_fd(p->bulk[0]), b->rec.id, ret, reterr);
}

static int start_parts(struct holt_box *b, struct keeper_parts *p, const struct start_wish *w,
	struct session **ret, holt_error **reterr)
{
	struct keeper_spec spec = {0};
	struct origin origin;
	int owner_fd = FD_NONE;
	int r = keeper_choose_accel(b->home, w->accel, &spec, reterr);

	if (r < 0 || (r = jail_wish(&spec.jail_reduced, reterr)) < 0 ||
		(r = take_locks(b, reterr)) < 0 ||
		(r = keeper_open_kernel(b->home, p, reterr)) < 0 ||
		(r = open_file(&b->dir, "rootfs", O_RDONLY, &p->rootfs_fd, reterr)) < 0 ||
		(r = loop_start(b->home->loop, reterr)) < 0)
		return r;
	fill_spec(b, w, &spec);
	origin_look(b, w, p, &spec, &origin);
	if (origin_claim(b, &origin, &spec, ret, &owner_fd) == 0) {
		set_started(b, owner_fd);
	} else {
		r = memory_make_room(b->home, reterr);
		if (r < 0)
			return r;
		origin_clone(b, &origin, p, &spec);
		r = start_machine(b, p, w, &spec, ret, reterr);
	}
	b->furnished = origin.want.directories.n > 0;
	if (r == 0)
		origin_refill(b, &origin, p);
	return r;
}

void box_await_refill(struct holt_box *b)
{
	if (!b->refill)
		return;
	int unused = 0;
	(void)job_wait(b->refill, HOLT_FOREVER, &unused, NULL);
	job_free(b->refill);
	b->refill = NULL;
}

static int start_program(const struct holt_box *b, struct session *s, const struct start_wish *w,
	struct holt_exec **ret, holt_error **reterr)
{
	struct process program = b->rec.program;

	program.flags |= WIRE_EXEC_MAIN;
	return b->rec.has_program ? exec_start(s, &program, w->cancel, ret, reterr) : 0;
}

/* The keeper's word comes first: until then the box goes with its owner. */
static int detach(struct holt_box *b, struct session *s, holt_cancel *cancel, holt_error **reterr)
{
	const int r = session_ask(s, &(struct wire_msg){.op = WIRE_OP_detach}, DETACH_TIMEOUT_MS,
		cancel, NULL, reterr);

	if (r < 0)
		return r;
	b->owner_fd = fd_close(b->owner_fd);
	b->ours = false;
	return 0;
}

/* Let a session go that may still have execs. */
static int retire_session_locked(struct holt_box *b, holt_error **reterr)
{
	struct session_list *old = b->session ? mem_zalloc(sizeof *old) : NULL;

	if (!b->session)
		return 0;
	if (!old)
		return err_nomem(reterr);
	old->session = b->session;
	LL_PREPEND(b->ended, old);
	b->session = NULL;
	return 0;
}

/* A new session takes the place of the old one. */
static int change_session(struct holt_box *b, struct session *s, holt_error **reterr)
{
	(void)pthread_mutex_lock(&b->lock);
	const int r = retire_session_locked(b, reterr);
	if (r == 0)
		b->session = s;
	(void)pthread_mutex_unlock(&b->lock);
	return r;
}

/* The box shall not run on when its start has failed. The session stays: somebody may wait on it,
 * and it knows why the box ended. */
static void give_up(struct holt_box *b, struct session *s)
{
	b->owner_fd = fd_close(b->owner_fd);
	if (s)
		(void)session_wait_gone(s, START_MARGIN_MS, NULL);
	if (b->rec.keep)
		box_dir_close(&b->dir);
	box_set_unstarted(b);
}

static int start_session(
	struct holt_box *b, const struct start_wish *w, struct session **ret, holt_error **reterr)
{
	struct keeper_parts p = KEEPER_PARTS_INIT;
	struct session *s = NULL;
	int r = start_parts(b, &p, w, &s, reterr);

	keeper_parts_done(&p);
	if (r == 0)
		r = change_session(b, s, reterr);
	if (r == 0)
		*ret = s;
	else
		session_close(s);
	return r;
}

/* A box that could not begin as a clone is fine, only late: whoever waited for it may ask why. */
static void tell_note(const struct holt_box *b, const struct session_ready *ready)
{
	if (*ready->note)
		log_warn("box", "box %s booted without a template: %s",
			b->rec.name ? b->rec.name : b->rec.id, ready->note);
}

/* Less than what is required is what its user has asked for; each start says so. */
static void tell_jail(const struct holt_box *b)
{
	struct box_state state;
	bool reduced = false;

	if (jail_wish(&reduced, NULL) < 0 || !reduced)
		return;
	box_state_look(b->home->boxes_fd, b->rec.id, &state);
	if (state.jail.reduced)
		log_warn("box", "box %s runs in a reduced jail (HOLT_JAIL); missing: %s",
			b->rec.name ? b->rec.name : b->rec.id, state.jail.missing);
}

int box_start(struct holt_box *b, const struct start_wish *w, struct holt_exec **ret_program,
	holt_error **reterr)
{
	struct holt_exec *program = NULL;
	struct session *s = NULL;
	struct session_ready ready;
	const uint64_t boots_ms = 2 * w->boot_timeout_ms + START_MARGIN_MS;
	int r = start_session(b, w, &s, reterr);

	if (r == 0)
		r = session_wait_ready(s,
			w->ready_ms && w->ready_ms < boots_ms ? w->ready_ms : boots_ms, w->cancel,
			&ready, reterr);
	if (r == 0) {
		tell_note(b, &ready);
		b->furnished = b->furnished && strcmp(ready.origin, "cold") != 0;
		tell_jail(b);
		r = start_program(b, s, w, &program, reterr);
	}
	if (r == 0 && w->detached)
		r = detach(b, s, w->cancel, reterr);
	if (r < 0) {
		err_stage(reterr, "start");
		err_object(reterr, b->rec.id);
		exec_free(program);
		give_up(b, s);
		return r;
	}
	if (ret_program)
		*ret_program = program;
	else
		exec_free(program);
	return 0;
}

/* ---- reaching one that runs ---- */

/* The session that there is; NULL in *ret where a new one is needed. */
static int present_session(struct holt_box *b, struct session **ret, holt_error **reterr)
{
	int r = 0;

	(void)pthread_mutex_lock(&b->lock);
	if (b->session && !session_alive(b->session))
		r = retire_session_locked(b, reterr);
	*ret = b->session;
	(void)pthread_mutex_unlock(&b->lock);
	return r;
}

/* Knocking waits for the keeper, so it is done without the lock; of two that knock at once one
 * session is enough. */
static int new_session(
	struct holt_box *b, uint64_t timeout_ms, struct session **ret, holt_error **reterr)
{
	struct session *fresh = NULL;
	int r = loop_start(b->home->loop, reterr);

	if (r == 0)
		r = door_knock(
			b->home->boxes_fd, b->rec.id, timeout_ms, b->home->loop, &fresh, reterr);
	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&b->lock);
	if (!b->session) {
		b->session = fresh;
		fresh = NULL;
	}
	*ret = b->session;
	(void)pthread_mutex_unlock(&b->lock);
	session_close(fresh);
	return 0;
}

struct session *box_session(struct holt_box *b)
{
	(void)pthread_mutex_lock(&b->lock);
	struct session *s = b->session && session_alive(b->session) ? b->session : NULL;
	(void)pthread_mutex_unlock(&b->lock);
	return s;
}

int box_reach(struct holt_box *b, uint64_t timeout_ms, struct session **ret, holt_error **reterr)
{
	struct session *s = NULL;
	int r = present_session(b, &s, reterr);

	if (r == 0 && !s)
		r = new_session(b, timeout_ms, &s, reterr);
	if (r == 0) {
		*ret = s;
		return 0;
	}
	err_stage(reterr, "connect");
	err_object(reterr, b->rec.id);
	if (r == -HOLT_ECLOSED)
		err_hint(reterr, "start it with 'holt start %s'", b->rec.id);
	return r;
}

/* What this handle saw of the box's end says more than that nobody is there. */
static int why_closed(struct holt_box *b, holt_error *closed, holt_error **reterr)
{
	(void)pthread_mutex_lock(&b->lock);
	struct session *last = b->ended ? b->ended->session : NULL;
	(void)pthread_mutex_unlock(&b->lock);
	if (!last)
		return err_take(reterr, closed);
	holt_error_free(closed);
	return session_why(last, reterr);
}

/* @reach_ms for the keeper, @ready_ms for the box. */
static int connect_within(struct holt_box *b, uint64_t reach_ms, uint64_t ready_ms,
	holt_cancel *cancel, struct session **ret, holt_error **reterr)
{
	struct session *s = NULL;
	struct session_ready unused;
	auto_error error = NULL;
	int r = box_reach(b, reach_ms, &s, &error);

	if (r < 0)
		return r == -HOLT_ECLOSED ? why_closed(b, take_ptr(error), reterr)
					  : err_take(reterr, take_ptr(error));
	r = session_wait_ready(s, ready_ms, cancel, &unused, reterr);
	if (r == 0)
		*ret = s;
	return r;
}

int box_connect(struct holt_box *b, uint64_t timeout_ms, struct session **ret, holt_error **reterr)
{
	return connect_within(b, timeout_ms, CONNECT_TIMEOUT_MS, NULL, ret, reterr);
}

int box_connect_within(struct holt_box *b, uint64_t timeout_ms, holt_cancel *cancel,
	struct session **ret, holt_error **reterr)
{
	const uint64_t ready_ms = timeout_ms < CONNECT_TIMEOUT_MS ? timeout_ms : CONNECT_TIMEOUT_MS;
	holt_error *error = NULL;
	struct box_state now;
	const int r = connect_within(b, timeout_ms, ready_ms, cancel, ret, &error);

	if (r != -HOLT_ECLOSED)
		return r < 0 ? err_take(reterr, error) : 0;
	box_look(b, &now);
	if (now.phase != BOX_CREATED)
		return err_take(reterr, error);
	/* It has not ended: it has not begun. */
	holt_error_free(error);
	(void)err_make(reterr, HOLT_EUNAVAILABLE, "the box has not been started yet");
	err_hint(reterr, "start it with 'holt start'");
	return -HOLT_EUNAVAILABLE;
}

int box_detach(struct holt_box *b, holt_error **reterr)
{
	struct session *s = NULL;

	if (!b->ours)
		return 0;
	int r = box_connect(b, DOOR_WAIT_MS, &s, reterr);
	if (r == 0)
		r = detach(b, s, NULL, reterr);
	if (r < 0) {
		err_stage(reterr, "detach");
		err_object(reterr, b->rec.id);
	}
	return r;
}
