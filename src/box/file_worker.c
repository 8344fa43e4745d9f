/* SPDX-License-Identifier: Apache-2.0 */
#include "box/file_worker.h"

#include <errno.h>

#include "base/buf.h"
#include "base/mem.h"
#include "box/box_builtin.h"
#include "base/banned.h"

/*
 * A file worker as the host sees it: an exec whose stdin and stdout carry frames of the FILES lane.
 *
 * Memory: one frame of input, since what the exec's window holds stays there until it is asked for;
 * output goes out under the exec's credit. So a worker takes 128 KiB, and while it is busy at most
 * the exec's window besides, however large the file is.
 *
 * Errors of the exec are about streams and programs. Here HOLT_ECLOSED stands for "the worker has
 * ended", whose reason only file_worker_death tells: a memory limit and a kill show as an end of
 * its output first. A session that has ended tells its own reason.
 */

/* One read; more than fits into a frame waits in the exec's window. */
#define READ_CHUNK 65536u
/* Between the end of its output and its exit, or from that to the end of its box. */
#define DEATH_MS 5000u
/* Of what a worker says on stderr. */
#define LINE_MAX_BYTES 2048u

struct file_worker {
	struct holt_box *box;
	struct session *session;
	struct holt_exec *exec;
	struct buf in;
	size_t off; /* bytes of in that were handed over */
};

/* ---- life ---- */

static int old_agent(holt_error **reterr)
{
	(void)err_make(reterr, HOLT_EUNSUPPORTED,
		"the box was started by another version of holt, whose files are not done this "
		"way");
	err_stage(reterr, "agent");
	err_hint(reterr, "restart the box");
	return -HOLT_EUNSUPPORTED;
}

static int start_error(holt_error *error, holt_error **reterr)
{
	if (holt_error_code(error) != HOLT_ENOT_FOUND)
		return err_take(reterr, error);
	holt_error_free(error);
	return old_agent(reterr);
}

int file_worker_start(struct holt_box *box, const char *user, const char *cwd, bool make_cwd,
	const struct call_bounds *bounds, struct file_worker **ret, holt_error **reterr)
{
	const char *const argv[] = {WIRE_FILES_BUILTIN, WIRE_FILES_VERSION, NULL};
	struct file_worker *w = mem_zalloc(sizeof *w);
	holt_error *error = NULL;

	if (!w)
		return err_nomem(reterr);
	w->box = box;
	w->in = BUF_INIT(wire_frame_max(WIRE_AS_HOST, WIRE_FILES));
	int r = box_connect_within(
		box, call_bounds_left(bounds), bounds->cancel, &w->session, reterr);
	if (r == 0) {
		const struct box_builtin how = {.argv = argv,
			.user = user,
			.cwd = cwd,
			.flags = WIRE_EXEC_STDIN | (make_cwd ? WIRE_EXEC_MKCWD : 0),
			.start_ms = call_bounds_left(bounds)};

		r = box_builtin_start_as(w->session, &how, bounds->cancel, &w->exec, &error);
		if (r < 0)
			r = start_error(error, reterr);
	}
	if (r < 0) {
		mem_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

void file_worker_free(struct file_worker *w)
{
	if (!w)
		return;
	exec_free(w->exec);
	buf_done(&w->in);
	mem_free(w);
}

void file_worker_own(struct file_worker *w, holt_cancel *cancel)
{
	exec_set_cancel(w->exec, cancel);
}

bool file_worker_stirs(struct file_worker *w)
{
	unsigned ready = 0;

	return file_worker_unread(w) ||
	       exec_poll(w->exec, EXEC_READY(WIRE_STDOUT), 0, &ready, NULL) < 0 || ready != 0;
}

bool file_worker_unread(const struct file_worker *w)
{
	return w->in.len > w->off;
}

bool file_worker_over(struct file_worker *w)
{
	return !exec_runs(w->exec);
}

/* ---- frames ---- */

int file_worker_send_raw(struct file_worker *w, const void *data, size_t len,
	const struct call_bounds *bounds, holt_error **reterr)
{
	const int r = call_bounds_check(bounds, reterr);

	return r < 0 ? r : exec_write(w->exec, data, len, call_bounds_left(bounds), NULL, reterr);
}

int file_worker_send(struct file_worker *w, const struct wire_msg *m,
	const struct call_bounds *bounds, holt_error **reterr)
{
	const size_t size = wire_size(m);
	auto_free uint8_t *frame = mem_zalloc(size);
	size_t len = 0;

	if (!frame)
		return err_nomem(reterr);
	const enum wire_status status = wire_encode(m, frame, size, &len);
	if (status != WIRE_OK)
		return err_make(reterr, HOLT_EINVALID, "this cannot be asked of a box: %s",
			wire_status_name(status));
	return file_worker_send_raw(w, frame, len, bounds, reterr);
}

static int untrusted(holt_error **reterr)
{
	err_hint(reterr, "the box cannot be trusted any more: make another one");
	return -HOLT_EPROTOCOL;
}

static int nonsense(enum wire_status status, holt_error **reterr)
{
	(void)err_make(reterr, HOLT_EPROTOCOL, "the box's file worker broke the protocol: %s",
		wire_status_name(status));
	return untrusted(reterr);
}

/* Until the buffer holds @need bytes from the front on, or whatever more one read brings. */
static int fill(
	struct file_worker *w, size_t need, const struct call_bounds *bounds, holt_error **reterr)
{
	struct buf *in = &w->in;
	size_t n = 0;

	if (w->off > 0)
		buf_consume(in, w->off);
	w->off = 0;
	size_t want = need - in->len < READ_CHUNK ? READ_CHUNK : need - in->len;
	if (want > in->max - in->len)
		want = in->max - in->len;
	uint8_t *to = buf_reserve(in, want);
	if (!to)
		return err_nomem(reterr);
	int r = call_bounds_check(bounds, reterr);
	if (r == 0)
		r = exec_read(w->exec, WIRE_STDOUT, to, want, call_bounds_left(bounds), &n, reterr);
	if (r < 0)
		return r;
	in->len += n;
	return n > 0 ? 0 : err_make(reterr, HOLT_ECLOSED, "the box's file worker has ended");
}

int file_worker_next(struct file_worker *w, const struct call_bounds *bounds, struct wire_msg *ret,
	holt_error **reterr)
{
	for (;;) {
		size_t used = 0;
		const uint8_t *at = w->in.len > 0 ? w->in.data + w->off : NULL;
		const enum wire_status status = wire_decode(
			WIRE_AS_HOST, WIRE_FILES, at, w->in.len - w->off, ret, &used);

		if (status == WIRE_OK) {
			w->off += used;
			return 0;
		}
		if (status != WIRE_MORE)
			return nonsense(status, reterr);
		const int r = fill(w, used, bounds, reterr);
		if (r < 0)
			return r;
	}
}

/* ---- its end ---- */

static int no_memory(holt_error **reterr)
{
	(void)err_make(reterr, HOLT_ELIMIT, "the box has no memory left for this");
	err_hint(reterr, "end something in the box, or make a box with more memory");
	return -HOLT_ELIMIT;
}

/* A box that ends kills what runs in it first. Whoever hears of that hears of the end, too, and
 * soon. */
static bool box_ends(struct file_worker *w, uint64_t wait_ms)
{
	struct box_state state;
	struct session_end unused;

	box_look(w->box, &state);
	if (state.phase == BOX_STOPPING || state.phase == BOX_EXITED)
		(void)session_wait_end(w->session, wait_ms, NULL, &unused, NULL);
	return !session_alive(w->session);
}

static int killed(struct file_worker *w, const struct exec_result *result, uint64_t wait_ms,
	holt_error **reterr)
{
	if (box_ends(w, wait_ms))
		return session_why(w->session, reterr);
	(void)err_make(
		reterr, HOLT_EIO, "the box's file worker was killed by signal %u", result->code);
	err_hint(reterr, "try again");
	return -HOLT_EIO;
}

/* It went by itself, which it does where it cannot go on: @line is what it said of that. */
static int gave_up(
	const struct exec_result *result, const char *line, size_t len, holt_error **reterr)
{
	auto_error said = NULL;

	(void)box_builtin_failure(result, line, len, &said);
	switch (len > 0 ? holt_error_errno(said) : 0) {
	case EPROTONOSUPPORT:
		return old_agent(reterr);
	case ENOMEM:
		return no_memory(reterr);
	case 0:
		(void)err_make(reterr, HOLT_EPROTOCOL,
			"the box's file worker ended unasked with code %u", result->code);
		break;
	default:
		(void)err_make(reterr, HOLT_EPROTOCOL, "the box's file worker gave up: %s",
			holt_error_message(said));
	}
	return untrusted(reterr);
}

int file_worker_death(struct file_worker *w, const struct call_bounds *bounds, holt_error **reterr)
{
	const uint64_t left = call_bounds_left(bounds);
	const uint64_t wait_ms = left < DEATH_MS ? left : DEATH_MS;
	struct exec_result result = {0};
	char line[LINE_MAX_BYTES];
	unsigned ready = 0;
	size_t n = 0;
	int r = exec_wait(w->exec, wait_ms, &result, reterr);

	if (r < 0)
		return r;
	if (result.flags & WIRE_EXIT_OOM)
		return no_memory(reterr);
	if (result.signaled)
		return killed(w, &result, wait_ms, reterr);
	/* The exit comes behind all output. */
	r = exec_poll(w->exec, EXEC_READY(WIRE_STDERR), 0, &ready, NULL);
	if (r == 0 && ready)
		(void)exec_read(w->exec, WIRE_STDERR, line, sizeof line, 0, &n, NULL);
	return gave_up(&result, line, n, reterr);
}
