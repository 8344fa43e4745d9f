/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box_files.h"

#include <errno.h>
#include <pthread.h>

#include "base/mem.h"
#include "base/str.h"
#include "box/file_worker.h"
#include "box/guest_error.h"
#include "base/banned.h"

/*
 * File requests, theory of operation.
 *
 *   worker:  started -> BUSY -> IDLE -> BUSY ... -> freed, which kills it
 *
 * A BUSY worker belongs to the call that has taken it, and nobody else knows it; an IDLE one
 * belongs to the list of this object, under the lock. A call takes the worker that was used last,
 * or starts one, has exactly one conversation with it, and gives it back. Given back is only a
 * worker whose answer is complete: with a time-out, a cancellation, a caller who wants no more or a
 * word out of order the worker is freed, since what it still has to say belongs to nobody.
 *
 * At most FILES_BUSY_MAX calls have a worker, the others wait for their turn, their deadline or
 * their cancellation; at most FILES_IDLE_MAX workers are kept. The lock is held for the list and
 * the count only: starting, talking, killing happen without it, and no other lock is taken under
 * it.
 *
 * An idle worker can be dead (its box ended or was restarted, somebody killed it), which is looked
 * at when it is taken and can still happen right after; one that says something unasked is dropped
 * the same way. So a call whose kept worker dies without a word is made once more with a fresh one,
 * if the request never went out or does no harm when done twice. A box that is paused would let an
 * idle worker wait for ever, so none is used then: the keeper tells why it starts no other.
 *
 * Content is written while it is looked for an early failure between the pieces, so that a full
 * disk ends a large write early. Once the content has ended, or was aborted, there is exactly one
 * answer. Memory: one frame each way for each call.
 */

struct box_files {
	struct holt_box *box;
	char *user;
	char *cwd;
	bool make_cwd;
	pthread_mutex_t lock; /* of everything below */
	pthread_cond_t freed;
	struct file_worker *idle[FILES_IDLE_MAX]; /* the last was used last */
	unsigned n_idle;
	unsigned n_busy;
};

/* One call: what was asked, and how far it is. */
struct talk {
	const struct files_request *request;
	struct call_bounds bounds;
	struct file_worker *worker;
	bool kept; /* it was idle before */
	bool sent; /* the request went out whole */
	bool drawn; /* content was taken from its source */
	bool aborted; /* the content was: only a failure can answer that */
	bool heard; /* something came back */
	bool complete; /* the answer is: the worker is fit for another call */
};

int box_files_new(struct holt_box *box, const char *user, const char *cwd, bool make_cwd,
	struct box_files **ret, holt_error **reterr)
{
	struct box_files *f = mem_zalloc(sizeof *f);

	if (!f)
		return err_nomem(reterr);
	f->box = box;
	f->make_cwd = make_cwd;
	f->user = str_dup(user);
	f->cwd = str_dup(cwd);
	(void)pthread_mutex_init(&f->lock, NULL);
	cond_init(&f->freed);
	if (!f->user || !f->cwd) {
		box_files_free(f);
		return err_nomem(reterr);
	}
	*ret = f;
	return 0;
}

void box_files_free(struct box_files *f)
{
	if (!f)
		return;
	for (unsigned i = 0; i < f->n_idle; i++)
		file_worker_free(f->idle[i]);
	(void)pthread_cond_destroy(&f->freed);
	(void)pthread_mutex_destroy(&f->lock);
	mem_free(f->user);
	mem_free(f->cwd);
	mem_free(f);
}

/* ---- the pool ---- */

/* Until @deadline_ms. Lock held. */
static int wait_freed(struct box_files *f, const struct call_bounds *b)
{
	if (cancel_fired(b->cancel))
		return -HOLT_ECANCELLED;
	return cond_wait(&f->freed, &f->lock, b->deadline_ms) ? 0 : -HOLT_ETIMEOUT;
}

/* Get a turn, and the idle worker that was used last, if there is one. */
static int enter(struct box_files *f, const struct call_bounds *b, struct file_worker **ret,
	holt_error **reterr)
{
	struct cancel_waiter waiter = {.lock = &f->lock, .cond = &f->freed};
	int r = 0;

	cancel_enter(b->cancel, &waiter);
	(void)pthread_mutex_lock(&f->lock);
	while (f->n_busy >= FILES_BUSY_MAX && r == 0)
		r = wait_freed(f, b);
	if (r == 0) {
		f->n_busy++;
		*ret = f->n_idle > 0 ? f->idle[--f->n_idle] : NULL;
	}
	(void)pthread_mutex_unlock(&f->lock);
	cancel_leave(b->cancel, &waiter);
	if (r < 0)
		return err_make(
			reterr, -r, "there was no turn among %d other calls", FILES_BUSY_MAX);
	return 0;
}

static struct file_worker *next_idle(struct box_files *f)
{
	(void)pthread_mutex_lock(&f->lock);
	struct file_worker *w = f->n_idle > 0 ? f->idle[--f->n_idle] : NULL;
	(void)pthread_mutex_unlock(&f->lock);
	return w;
}

/* Returns what the list has no room for. */
static struct file_worker *put_idle(struct box_files *f, struct file_worker *w)
{
	(void)pthread_mutex_lock(&f->lock);
	if (w && f->n_idle < FILES_IDLE_MAX)
		f->idle[f->n_idle++] = take_ptr(w);
	(void)pthread_mutex_unlock(&f->lock);
	return w;
}

static void leave(struct box_files *f)
{
	(void)pthread_mutex_lock(&f->lock);
	f->n_busy--;
	(void)pthread_cond_signal(&f->freed);
	(void)pthread_mutex_unlock(&f->lock);
}

static bool paused(struct box_files *f)
{
	struct box_state state;

	box_look(f->box, &state);
	return state.phase == BOX_PAUSED;
}

/* @w is idle, or NULL. */
static struct file_worker *living(struct box_files *f, struct file_worker *w)
{
	while (w && file_worker_stirs(w)) {
		file_worker_free(w);
		w = next_idle(f);
	}
	if (w && paused(f)) {
		file_worker_free(put_idle(f, w));
		w = NULL;
	}
	return w;
}

/* A worker for the call: @w if it is fit, else a fresh one. */
static int find_worker(
	struct box_files *f, struct talk *t, struct file_worker *w, holt_error **reterr)
{
	t->worker = living(f, w);
	t->kept = t->worker != NULL;
	t->sent = t->aborted = t->heard = t->complete = false;
	if (!t->kept)
		return file_worker_start(
			f->box, f->user, f->cwd, f->make_cwd, &t->bounds, &t->worker, reterr);
	file_worker_own(t->worker, t->bounds.cancel);
	return 0;
}

static void let_go(struct box_files *f, struct talk *t)
{
	struct file_worker *w = take_ptr(t->worker);

	if (w && t->complete) {
		file_worker_own(w, NULL);
		w = put_idle(f, w);
	}
	file_worker_free(w);
}

/* ---- one conversation ---- */

static int disorder(const struct wire_msg *m, holt_error **reterr)
{
	(void)err_make(reterr, HOLT_EPROTOCOL,
		"the box's file worker broke the protocol with an unasked %s", wire_op_name(m->op));
	err_hint(reterr, "the box cannot be trusted any more: make another one");
	return -HOLT_EPROTOCOL;
}

/* The last frame of the answer. What comes behind it in the same breath was not asked for. */
static int end_answer(struct talk *t, const struct wire_msg *m, holt_error **reterr)
{
	if (file_worker_unread(t->worker) || (m->op == WIRE_OP_file_done && t->aborted))
		return disorder(m, reterr);
	t->complete = true;
	return 0;
}

static int hear_failure(struct talk *t, const struct wire_msg *m, holt_error **reterr)
{
	const int r = end_answer(t, m, reterr);

	return r < 0 ? r : guest_file_error(&m->file_fail, t->request->msg->op, reterr);
}

/* Until the answer is complete. */
static int hear(struct talk *t, holt_error **reterr)
{
	const struct files_request *q = t->request;
	struct wire_msg m = {0};

	while (m.op != WIRE_OP_file_done) {
		const int r = file_worker_next(t->worker, &t->bounds, &m, reterr);

		if (r < 0)
			return r;
		t->heard = true;
		if (m.op == WIRE_OP_file_fail)
			return hear_failure(t, &m, reterr);
		switch (q->take(q->user, &m)) {
		case FILES_FINE:
			break;
		case FILES_ENOUGH:
			return err_make(reterr, HOLT_ECANCELLED, "the caller wants no more");
		case FILES_DISORDER:
			return disorder(&m, reterr);
		}
	}
	return end_answer(t, &m, reterr);
}

/* ---- content ---- */

/* Before the bytes in a file_data frame. */
#define CONTENT_PREFIX (WIRE_HEADER_SIZE + 4)

/* The next piece of the content, *ret_len is 0 at its end. */
static int draw(struct talk *t, uint8_t *to, size_t *ret_len, holt_error **reterr)
{
	const struct files_request *q = t->request;

	t->drawn = true;
	if (q->source(to, WIRE_DATA_MAX, ret_len, q->source_user) != 0)
		return err_make(reterr, HOLT_ECANCELLED, "the source of the content gave up");
	if (*ret_len > WIRE_DATA_MAX)
		return err_make(reterr, HOLT_EINVALID,
			"the source of the content gave %zu bytes where %d were asked for",
			*ret_len, WIRE_DATA_MAX);
	return 0;
}

static int send_piece(struct talk *t, uint8_t *frame, size_t n, holt_error **reterr)
{
	const struct wire_msg m = {.op = WIRE_OP_file_data,
		.file_data = {.bytes = {frame + CONTENT_PREFIX, (uint32_t)n}}};
	size_t len = 0;

	if (wire_encode(&m, frame, CONTENT_PREFIX + n, &len) != WIRE_OK)
		return err_make(reterr, HOLT_EINTERNAL, "content does not fit into its frame");
	return file_worker_send_raw(t->worker, frame, len, &t->bounds, reterr);
}

/* All pieces, or until something else happens: the worker answers early or ends (aborted), or the
 * source fails (*ret_why). */
static int send_pieces(struct talk *t, holt_error **ret_why, holt_error **reterr)
{
	auto_free uint8_t *frame = mem_zalloc(CONTENT_PREFIX + WIRE_DATA_MAX);

	if (!frame)
		return err_nomem(reterr);
	for (;;) {
		size_t n = 0;

		t->aborted = file_worker_stirs(t->worker) ||
			     draw(t, frame + CONTENT_PREFIX, &n, ret_why) < 0;
		if (t->aborted || n == 0)
			return 0;
		const int r = send_piece(t, frame, n, reterr);
		if (r < 0)
			return r;
	}
}

static int send_content(struct talk *t, holt_error **reterr)
{
	struct wire_msg end = {.op = WIRE_OP_file_end};
	auto_error why = NULL;
	auto_error answer = NULL;
	int r = send_pieces(t, &why, reterr);

	if (r < 0)
		return r;
	end.file_end.abort_ = t->aborted;
	r = file_worker_send(t->worker, &end, &t->bounds, reterr);
	if (r < 0 || !why)
		return r < 0 ? r : hear(t, reterr);
	(void)hear(t, &answer);
	return err_take(reterr, t->complete ? take_ptr(why) : take_ptr(answer));
}

/* ---- the whole call ---- */

static int converse(struct talk *t, holt_error **reterr)
{
	const struct files_request *q = t->request;
	const int r = file_worker_send(t->worker, q->msg, &t->bounds, reterr);

	if (r < 0)
		return r;
	t->sent = true;
	return q->source ? send_content(t, reterr) : hear(t, reterr);
}

/* Nothing of it was done, or doing it twice does no harm. */
static bool repeatable(const struct talk *t)
{
	switch (t->request->msg->op) {
	case WIRE_OP_file_read:
	case WIRE_OP_file_stat:
	case WIRE_OP_file_list:
	case WIRE_OP_file_glob:
	case WIRE_OP_file_grep:
		return true;
	case WIRE_OP_file_write:
		return !t->drawn;
	default:
		return !t->sent;
	}
}

int files_check_path(const char *path, holt_error **reterr)
{
	const bool empty = !*path;

	if (!empty && strlen(path) <= WIRE_PATH_MAX)
		return 0;
	(void)err_make(reterr, HOLT_EINVALID, "the path is %s",
		empty ? "empty" : "longer than any in a box");
	err_set_errno(reterr, empty ? ENOENT : ENAMETOOLONG);
	return -HOLT_EINVALID;
}

/* What an error is about, where it does not know better. */
static void name_call(const struct files_request *q, holt_error **error)
{
	auto_free char *path = guest_text(files_bytes(q->path));

	err_stage(error, wire_op_name(q->msg->op) + sizeof "file_" - 1);
	err_object(error, path);
}

/* Errors of an exec, in words of a file call. */
static int call_error(struct talk *t, int r, holt_error *error, holt_error **reterr)
{
	const bool late = r == -HOLT_ETIMEOUT && !t->complete;
	const bool cancelled = r == -HOLT_ECANCELLED && cancel_fired(t->bounds.cancel);

	if (r == -HOLT_ECLOSED || late || cancelled) {
		holt_error_free(error);
		error = NULL;
		if (r == -HOLT_ECLOSED)
			(void)file_worker_death(t->worker, &t->bounds, &error);
		else
			(void)err_make(&error, -r, "%s",
				late ? "the time of the call is over" : "the call was cancelled");
	}
	name_call(t->request, &error);
	return err_take(reterr, error);
}

static int talk_once(
	struct box_files *f, struct talk *t, struct file_worker *idle, holt_error **reterr)
{
	holt_error *error = NULL;
	int r = find_worker(f, t, idle, reterr);

	if (r == 0)
		r = converse(t, &error);
	if (error)
		r = call_error(t, r, error, reterr);
	return r;
}

int box_files_call(struct box_files *f, const struct files_request *q, const holt_call *call,
	holt_error **reterr)
{
	struct talk t = {.request = q, .bounds = call_bounds_of(call)};
	struct file_worker *idle = NULL;
	holt_error *error = NULL;
	int r = files_check_path(q->path, reterr);

	if (r == 0)
		r = enter(f, &t.bounds, &idle, reterr);
	if (r < 0) {
		name_call(q, reterr);
		return r;
	}
	r = talk_once(f, &t, idle, &error);
	if (r < 0 && t.kept && !t.heard && file_worker_over(t.worker) && repeatable(&t)) {
		holt_error_free(error);
		error = NULL;
		let_go(f, &t);
		r = talk_once(f, &t, NULL, &error);
	}
	let_go(f, &t);
	leave(f);
	return r < 0 ? err_take(reterr, error) : 0;
}
