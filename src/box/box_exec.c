/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exec, theory of operation: STARTING -> RUNNING -> ENDED, or LOST with the box. `output` holds
 * what has arrived and nobody has read, never more than EXEC_WINDOW bytes per channel, since that
 * is all the credit the guest has; reading gives credit back in halves. `in_credit` is what stdin
 * may still take. Everything is guarded by the session's lock.
 */
#include "box/box_exec.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "box/guest_error.h"
#include "base/banned.h"

/* What a program writes in 4 ms at full speed: longer than the way of a credit to it takes. */
#define EXEC_WINDOW 524288u
/* How long after its own time-out an exec may take to report it. */
#define EXEC_TIMEOUT_GRACE_MS 900
/* For the guest to say that a program runs, or why not. */
#define EXEC_START_MS 30000

enum exec_state { EXEC_STARTING, EXEC_RUNNING, EXEC_ENDED, EXEC_LOST };

struct output {
	struct buf data;
	size_t off; /* bytes of data that are read */
	uint32_t owed; /* credit to give back */
	uint64_t gap; /* bytes that were lost before the first */
	bool eof;
};

struct holt_exec {
	struct session *session;
	struct session_stream stream;
	holt_cancel *cancel;
	pthread_cond_t cond;
	enum exec_state state;
	struct output out[2];
	uint64_t in_credit;
	bool in_closed;
	uint64_t timeout_ms;
	uint64_t deadline_ms; /* backstop for a guest that does not report its time-out */
	struct exec_result result;
	holt_error *failure; /* why it did not start */
	bool keep; /* goes on without us */
	bool attached; /* others were and will be its clients */
	uint32_t number; /* in the box; 0 until it has started */
	int event_fd; /* FD_NONE: nobody asked for it */
};

static struct holt_exec *exec_of(struct session_stream *stream)
{
	return (struct holt_exec *)((char *)stream - offsetof(struct holt_exec, stream));
}

static void wake(struct holt_exec *e)
{
	const uint64_t one = 1;

	(void)pthread_cond_broadcast(&e->cond);
	if (e->event_fd >= 0)
		(void)!write(e->event_fd, &one, sizeof one);
}

/* ---- frames, on the loop's thread with the lock held ---- */

static void on_fail(struct holt_exec *e, const struct wire_fail *m)
{
	(void)guest_error(m, &e->failure);
	e->state = EXEC_ENDED;
}

static void on_data(struct holt_exec *e, const struct wire_data *m)
{
	if (m->channel != WIRE_STDOUT && m->channel != WIRE_STDERR)
		return;
	struct output *o = &e->out[m->channel - 1];

	if (o->off > 0 && o->data.len + m->bytes.len > EXEC_WINDOW) {
		buf_consume(&o->data, o->off);
		o->off = 0;
	}
	/* Without memory, or beyond the window, the stream is broken and must not look whole. */
	if (buf_append(&o->data, m->bytes.data, m->bytes.len) < 0)
		e->state = EXEC_LOST;
}

static void on_exit_frame(struct holt_exec *e, const struct wire_exit *m)
{
	e->result = (struct exec_result){.signaled = m->kind == WIRE_SIGNALED,
		.code = m->code,
		.flags = m->flags,
		.duration_us = m->duration_us};
	e->out[0].eof = e->out[1].eof = true;
	e->state = EXEC_ENDED;
}

static void on_frame(struct session_stream *stream, const struct wire_msg *msg)
{
	struct holt_exec *e = exec_of(stream);

	if (e->state == EXEC_ENDED || e->state == EXEC_LOST)
		return;
	switch (msg->op) {
	case WIRE_OP_started:
		e->in_credit = msg->started.in_credit;
		e->number = msg->started.number;
		e->state = EXEC_RUNNING;
		if (e->timeout_ms)
			e->deadline_ms = cond_deadline(e->timeout_ms + EXEC_TIMEOUT_GRACE_MS);
		break;
	case WIRE_OP_fail:
		on_fail(e, &msg->fail);
		break;
	case WIRE_OP_credit:
		e->in_credit += msg->credit.bytes;
		break;
	case WIRE_OP_data:
		on_data(e, &msg->data);
		break;
	case WIRE_OP_gap:
		e->out[msg->gap.channel - 1].gap += msg->gap.bytes;
		break;
	case WIRE_OP_eof:
		if (msg->eof.channel == WIRE_STDOUT || msg->eof.channel == WIRE_STDERR)
			e->out[msg->eof.channel - 1].eof = true;
		break;
	case WIRE_OP_exit:
		on_exit_frame(e, &msg->exit);
		break;
	default:
		break;
	}
	wake(e);
}

static void on_ended(struct session_stream *stream)
{
	struct holt_exec *e = exec_of(stream);

	if (e->state != EXEC_ENDED)
		e->state = EXEC_LOST;
	wake(e);
}

/* ---- callers' threads ---- */

static int send_error(int r, holt_error **reterr)
{
	switch (r) {
	case -ENOMEM:
		return err_nomem(reterr);
	case -EPIPE:
		return err_make(reterr, HOLT_ECLOSED, "the box has ended");
	case -ENOBUFS:
		return err_make(reterr, HOLT_ELIMIT, "too much is waiting for the box already");
	default:
		return err_make(reterr, HOLT_ELIMIT, "the request does not fit into a frame");
	}
}

static int lost_error(struct holt_exec *e, holt_error **reterr)
{
	return session_end_error(e->session, reterr);
}

/* Wait for a change; turns a passed deadline or a cancellation into an error. */
static int wait_change(
	struct holt_exec *e, uint64_t deadline_ms, const char *what, holt_error **reterr)
{
	const bool own = e->deadline_ms && e->deadline_ms < deadline_ms;
	const int r = session_cond_wait(
		e->session, &e->cond, own ? e->deadline_ms : deadline_ms, e->cancel);

	if (r == 0)
		return 0;
	(void)err_make(reterr, -r, "%s %s", what,
		r == -HOLT_ECANCELLED ? "was cancelled"
		: own                 ? "did not end although its time is over"
				      : "did not happen in time");
	err_stage(reterr, "exec");
	err_object(reterr, session_box_id(e->session));
	if (own)
		err_hint(reterr, "the guest does not answer any more; close the box");
	return r;
}

/* The same while the guest owes the answer to a start. */
static int wait_start(
	struct holt_exec *e, uint64_t deadline_ms, uint64_t start_ms, holt_error **reterr)
{
	const int r = session_cond_wait(e->session, &e->cond, deadline_ms, e->cancel);

	if (r == 0)
		return 0;
	if (r == -HOLT_ECANCELLED)
		(void)err_make(reterr, -r, "starting the program was cancelled");
	else if (start_ms < EXEC_START_MS)
		(void)err_make(reterr, -r, "the box had not begun by then");
	else
		(void)err_make(reterr, -r, "the guest did not answer within %d ms", EXEC_START_MS);
	err_stage(reterr, "agent");
	err_object(reterr, session_box_id(e->session));
	if (r == -HOLT_ETIMEOUT && start_ms == EXEC_START_MS)
		err_hint(reterr,
			"the guest is overloaded or its agent was taken over; close the box");
	return r;
}

static void enter(struct holt_exec *e, struct cancel_waiter *w)
{
	*w = (struct cancel_waiter){.lock = session_mutex(e->session), .cond = &e->cond};
	cancel_enter(e->cancel, w);
	session_lock(e->session);
}

static void leave(struct holt_exec *e, struct cancel_waiter *w)
{
	session_unlock(e->session);
	cancel_leave(e->cancel, w);
}

/* Strings one after the other, each with its NUL, as the wire packs them. */
static int pack(char *const *list, struct buf *out, struct wire_strs *ret)
{
	uint32_t n = 0;

	for (; list[n]; n++) {
		if (buf_append(out, list[n], strlen(list[n]) + 1) < 0)
			return -ENOMEM;
	}
	*ret = (struct wire_strs){.data = out->data, .len = (uint32_t)out->len, .count = n};
	return 0;
}

static int send_exec(struct holt_exec *e, const struct process *p, holt_error **reterr)
{
	auto_buf argv = BUF_INIT(4u << 20);
	auto_buf env = BUF_INIT(4u << 20);
	struct wire_msg msg = {.op = WIRE_OP_exec,
		.stream = e->stream.id,
		.exec = {.flags = p->flags,
			.timeout_ms = e->timeout_ms,
			.out_credit = EXEC_WINDOW,
			.rows = p->rows,
			.cols = p->cols,
			.pids_max = p->pids_max,
			.replay = p->replay,
			.user = {(const uint8_t *)p->user, (uint32_t)strlen(p->user)},
			.cwd = {(const uint8_t *)p->cwd, (uint32_t)strlen(p->cwd)}}};

	if (pack(p->argv, &argv, &msg.exec.argv) < 0 || pack(p->env, &env, &msg.exec.env) < 0)
		return err_nomem(reterr);
	const int r = session_send(e->session, &msg);
	if (r == -EPIPE)
		return lost_error(e, reterr);
	return r < 0 ? send_error(r, reterr) : 0;
}

static int send_attach(struct holt_exec *e, uint32_t number, holt_error **reterr)
{
	const struct wire_msg msg = {.op = WIRE_OP_attach,
		.stream = e->stream.id,
		.attach = {.number = number, .out_credit = EXEC_WINDOW}};
	const int r = session_send(e->session, &msg);

	if (r == -EPIPE)
		return lost_error(e, reterr);
	return r < 0 ? send_error(r, reterr) : 0;
}

/* A new program, or without one the kept exec of that @number. */
static int start_locked(struct holt_exec *e, const struct process *p, uint32_t number,
	uint64_t start_ms, holt_error **reterr)
{
	int r = session_stream_add(e->session, &e->stream);

	if (r == -EPIPE)
		return lost_error(e, reterr);
	if (r < 0)
		return err_nomem(reterr);
	const uint64_t deadline_ms = cond_deadline(start_ms);
	r = p ? send_exec(e, p, reterr) : send_attach(e, number, reterr);
	while (r == 0 && e->state == EXEC_STARTING)
		r = wait_start(e, deadline_ms, start_ms, reterr);
	if (r < 0)
		return r;
	if (e->failure)
		return err_take(reterr, take_ptr(e->failure));
	return e->state == EXEC_LOST ? lost_error(e, reterr) : 0;
}

static int open_exec(struct session *s, const struct process *p, uint32_t number, uint64_t start_ms,
	holt_cancel *cancel, struct holt_exec **ret, holt_error **reterr)
{
	struct holt_exec *e = mem_zalloc(sizeof *e);
	struct cancel_waiter waiter;

	if (!e)
		return err_nomem(reterr);
	e->session = s;
	e->cancel = cancel;
	e->event_fd = FD_NONE;
	e->timeout_ms = p ? p->timeout_ms : 0;
	e->attached = !p;
	e->keep = !p || (p->flags & (WIRE_EXEC_KEEP | WIRE_EXEC_MAIN));
	e->in_closed = p && !(p->flags & WIRE_EXEC_STDIN);
	e->stream.on_frame = on_frame;
	e->stream.on_ended = on_ended;
	e->out[0].data = e->out[1].data = BUF_INIT(EXEC_WINDOW);
	cond_init(&e->cond);
	enter(e, &waiter);
	const int r = start_locked(e, p, number, start_ms, reterr);
	leave(e, &waiter);
	if (r < 0) {
		err_stage(reterr, "exec");
		err_object(reterr, session_box_id(s));
		/* Whoever does not learn of its start cannot want it to go on. */
		e->keep = !p;
		exec_free(e);
		return r;
	}
	*ret = e;
	return 0;
}

int exec_start(struct session *s, const struct process *p, holt_cancel *cancel,
	struct holt_exec **ret, holt_error **reterr)
{
	return open_exec(s, p, 0, EXEC_START_MS, cancel, ret, reterr);
}

int exec_start_within(struct session *s, const struct process *p, uint64_t timeout_ms,
	holt_cancel *cancel, struct holt_exec **ret, holt_error **reterr)
{
	const uint64_t start_ms = timeout_ms < EXEC_START_MS ? timeout_ms : EXEC_START_MS;

	return open_exec(s, p, 0, start_ms, cancel, ret, reterr);
}

int exec_attach(struct session *s, uint32_t number, holt_cancel *cancel, struct holt_exec **ret,
	holt_error **reterr)
{
	return open_exec(s, NULL, number, EXEC_START_MS, cancel, ret, reterr);
}

uint32_t exec_number(const struct holt_exec *e)
{
	return e->number;
}

bool exec_attached(const struct holt_exec *e)
{
	return e->attached;
}

bool exec_runs(struct holt_exec *e)
{
	session_lock(e->session);
	const bool runs = e->state == EXEC_STARTING || e->state == EXEC_RUNNING;
	session_unlock(e->session);
	return runs;
}

void exec_set_cancel(struct holt_exec *e, holt_cancel *cancel)
{
	session_lock(e->session);
	e->cancel = cancel;
	session_unlock(e->session);
}

uint64_t exec_gap(struct holt_exec *e, enum wire_channel channel)
{
	session_lock(e->session);
	const uint64_t gap = e->out[channel - 1].gap;
	session_unlock(e->session);
	return gap;
}

int exec_event_fd(struct holt_exec *e, int *ret_fd, holt_error **reterr)
{
	int r = 0;

	session_lock(e->session);
	if (e->event_fd < 0) {
		/* What has come before counts as an event too. */
		e->event_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
		r = e->event_fd < 0 ? -errno : 0;
	}
	*ret_fd = e->event_fd;
	session_unlock(e->session);
	return r < 0 ? err_errno(reterr, -r, "cannot make an eventfd") : 0;
}

static void give_credit(struct holt_exec *e, enum wire_channel channel, size_t bytes)
{
	struct output *o = &e->out[channel - 1];

	o->owed += (uint32_t)bytes;
	if (o->owed < EXEC_WINDOW / 2 || o->eof)
		return;
	const struct wire_msg msg = {.op = WIRE_OP_credit,
		.stream = e->stream.id,
		.credit = {.channel = (uint8_t)channel, .bytes = o->owed}};
	if (session_send(e->session, &msg) == 0)
		o->owed = 0;
}

static int read_locked(struct holt_exec *e, enum wire_channel channel, void *data, size_t size,
	uint64_t deadline_ms, size_t *ret_len, holt_error **reterr)
{
	struct output *o = &e->out[channel - 1];

	while (o->data.len == o->off && !o->eof) {
		if (e->state == EXEC_LOST)
			return lost_error(e, reterr);
		const int r = wait_change(e, deadline_ms, "reading output", reterr);
		if (r < 0)
			return r;
	}
	const size_t have = o->data.len - o->off;
	const size_t n = have < size ? have : size;
	if (n > 0)
		memcpy(data, o->data.data + o->off, n);
	o->off += n;
	if (o->off == o->data.len)
		o->off = o->data.len = 0;
	give_credit(e, channel, n);
	*ret_len = n;
	return 0;
}

int exec_read(struct holt_exec *e, enum wire_channel channel, void *data, size_t size,
	uint64_t timeout_ms, size_t *ret_len, holt_error **reterr)
{
	const uint64_t deadline_ms = cond_deadline(timeout_ms);
	struct cancel_waiter waiter;

	enter(e, &waiter);
	const int r = read_locked(e, channel, data, size, deadline_ms, ret_len, reterr);
	leave(e, &waiter);
	return r;
}

static unsigned ready_locked(const struct holt_exec *e, unsigned channels)
{
	unsigned ready = 0;

	if (e->state == EXEC_LOST)
		return channels;
	if (e->in_credit > 0 || e->in_closed || e->state == EXEC_ENDED)
		ready |= EXEC_READY(WIRE_STDIN);
	for (unsigned i = WIRE_STDOUT; i <= WIRE_STDERR; i++) {
		const struct output *o = &e->out[i - 1];

		if (o->data.len > o->off || o->eof)
			ready |= EXEC_READY(i);
	}
	return ready & channels;
}

int exec_poll(struct holt_exec *e, unsigned channels, uint64_t timeout_ms, unsigned *ret_ready,
	holt_error **reterr)
{
	const uint64_t deadline_ms = cond_deadline(timeout_ms);
	struct cancel_waiter waiter;
	int r = 0;

	enter(e, &waiter);
	unsigned ready = ready_locked(e, channels);
	while (!ready && r == 0 && timeout_ms > 0) {
		r = wait_change(e, deadline_ms, "waiting for the program", reterr);
		ready = ready_locked(e, channels);
	}
	leave(e, &waiter);
	if (r == 0)
		*ret_ready = ready;
	return r;
}

/* Wait for credit and send one piece. Returns its length or a negative code. */
static int64_t write_piece(struct holt_exec *e, const uint8_t *data, size_t size,
	uint64_t deadline_ms, holt_error **reterr)
{
	while (e->in_credit == 0 || e->in_closed || e->state != EXEC_RUNNING) {
		if (e->state == EXEC_LOST)
			return lost_error(e, reterr);
		if (e->in_closed || e->state == EXEC_ENDED)
			return err_make(reterr, HOLT_ECLOSED, "%s",
				e->in_closed ? "stdin is closed" : "the program has ended");
		const int r = wait_change(e, deadline_ms, "writing to stdin", reterr);
		if (r < 0)
			return r;
	}
	size_t n = size < WIRE_DATA_MAX ? size : WIRE_DATA_MAX;
	if (n > e->in_credit)
		n = (size_t)e->in_credit;
	const struct wire_msg msg = {.op = WIRE_OP_data,
		.stream = e->stream.id,
		.data = {.channel = WIRE_STDIN, .bytes = {data, (uint32_t)n}}};
	const int r = session_send(e->session, &msg);
	if (r < 0)
		return send_error(r, reterr);
	e->in_credit -= n;
	return (int64_t)n;
}

int exec_write(struct holt_exec *e, const void *data, size_t size, uint64_t timeout_ms,
	size_t *ret_len, holt_error **reterr)
{
	const uint64_t deadline_ms = cond_deadline(timeout_ms);
	struct cancel_waiter waiter;
	size_t done = 0;
	int r = 0;

	enter(e, &waiter);
	while (done < size && r == 0) {
		const int64_t n = write_piece(
			e, (const uint8_t *)data + done, size - done, deadline_ms, reterr);
		if (n < 0)
			r = (int)n;
		else
			done += (size_t)n;
	}
	leave(e, &waiter);
	if (ret_len)
		*ret_len = done;
	return r;
}

int exec_close_stdin(struct holt_exec *e)
{
	const struct wire_msg msg = {
		.op = WIRE_OP_eof, .stream = e->stream.id, .eof = {.channel = WIRE_STDIN}};
	int r = 0;

	session_lock(e->session);
	if (!e->in_closed && e->state == EXEC_RUNNING)
		r = session_send(e->session, &msg);
	if (r == 0)
		e->in_closed = true;
	session_unlock(e->session);
	return r < 0 && r != -EPIPE ? send_error(r, NULL) : 0;
}

/* Something for a running program; one that is over needs nothing. */
static int tell(struct holt_exec *e, const struct wire_msg *msg)
{
	int r = 0;

	session_lock(e->session);
	if (e->state == EXEC_RUNNING || e->state == EXEC_STARTING)
		r = session_send(e->session, msg);
	session_unlock(e->session);
	return r < 0 && r != -EPIPE ? send_error(r, NULL) : 0;
}

int exec_signal(struct holt_exec *e, uint32_t signo)
{
	return tell(e, &(struct wire_msg){.op = WIRE_OP_signal,
			       .stream = e->stream.id,
			       .signal = {.signo = signo,
				       .flags = signo == SIGKILL ? WIRE_SIGNAL_ALL : 0}});
}

int exec_resize(struct holt_exec *e, uint16_t rows, uint16_t cols)
{
	return tell(e, &(struct wire_msg){.op = WIRE_OP_resize,
			       .stream = e->stream.id,
			       .resize = {.rows = rows, .cols = cols}});
}

static int wait_locked(
	struct holt_exec *e, uint64_t deadline_ms, struct exec_result *ret, holt_error **reterr)
{
	while (e->state == EXEC_RUNNING || e->state == EXEC_STARTING) {
		const int r = wait_change(e, deadline_ms, "the program", reterr);
		if (r < 0)
			return r;
	}
	if (e->state == EXEC_LOST)
		return lost_error(e, reterr);
	*ret = e->result;
	return 0;
}

int exec_wait(
	struct holt_exec *e, uint64_t timeout_ms, struct exec_result *ret, holt_error **reterr)
{
	const uint64_t deadline_ms = cond_deadline(timeout_ms);
	struct cancel_waiter waiter;

	enter(e, &waiter);
	const int r = wait_locked(e, deadline_ms, ret, reterr);
	leave(e, &waiter);
	return r;
}

void exec_tell_exit(const struct exec_result *result, holt_exit *ret)
{
	*ret = (holt_exit){.struct_size = sizeof *ret, .duration_us = result->duration_us};
	ret->signal = result->signaled ? (int32_t)result->code : 0;
	ret->code = result->signaled ? 128 + ret->signal : (int32_t)(result->code & 255);
	if (result->flags & WIRE_EXIT_TIMED_OUT) {
		ret->code = EXEC_CODE_TIMEOUT;
		ret->flags |= HOLT_EXIT_TIMED_OUT;
	}
	if (result->flags & WIRE_EXIT_OOM)
		ret->flags |= HOLT_EXIT_OOM;
	if (result->flags & WIRE_EXIT_LEFT)
		ret->flags |= HOLT_EXIT_OUTPUT_LEFT;
}

void exec_leave(struct holt_exec *e)
{
	(void)tell(e, &(struct wire_msg){.op = WIRE_OP_leave, .stream = e->stream.id});
	session_lock(e->session);
	if (e->state == EXEC_RUNNING)
		e->state = EXEC_LOST;
	wake(e);
	session_unlock(e->session);
}

void exec_free(struct holt_exec *e)
{
	if (!e)
		return;
	if (!e->keep)
		(void)exec_signal(e, SIGKILL);
	/* Without it, what nobody reads would hold up a dead program's end for ever. */
	(void)tell(e, &(struct wire_msg){.op = WIRE_OP_leave, .stream = e->stream.id});
	session_lock(e->session);
	session_stream_remove(e->session, &e->stream);
	session_unlock(e->session);
	buf_done(&e->out[0].data);
	buf_done(&e->out[1].data);
	(void)fd_close(e->event_fd);
	(void)pthread_cond_destroy(&e->cond);
	holt_error_free(e->failure);
	mem_free(e);
}
