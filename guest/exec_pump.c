/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_stream.h"

#include "cgroup.h"
#include "exec_tty.h"
#include "op_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * From pipes to frames and back. Every exec that has something to do is in the queue; a round gives
 * each of them one step, which sends at most one data frame for each output. A step that lacks room
 * on a lane puts its exec back into the queue; the loop comes round again when the lane took some.
 *
 * The agent has a high priority, so it would wake for each small write of a busy program and send
 * a frame for each. Therefore an output that gave less than REST_BELOW is not looked at for REST_US
 * after that, and its pipe is made larger to take what comes meanwhile. What comes first after a
 * pause goes out at once, and so does the end.
 *
 * A program that writes as fast as it can is better left alone for a while, too: to switch between
 * it and the agent costs under TCG as much as to copy 50 KiB. So an output that gave much and is
 * empty rests for REST_RICH_US, about the time in which the larger pipe fills.
 *
 * Input goes from the frame straight into the pipe; only what that does not take is kept.
 */

#define DATA_FRAME   (WIRE_DATA_PREFIX + WIRE_DATA_MAX)
#define REST_BELOW   16384
#define REST_TTY     1024 /* the same for a terminal, which gives no more than 4 KiB at once */
#define REST_US      1000
#define REST_RICH_US 300
#define WIDE_PIPE    (256 * 1024)
#define STEP_ROOM    (2 * DATA_FRAME + 256) /* all that one step may put on the bulk lane */

void exec_on_report(struct watch *w, uint32_t events)
{
	(void)events;
	exec_queue(owner_of(w, struct exec, report));
}

void exec_on_in(struct watch *w, uint32_t events)
{
	struct exec_in *in = owner_of(w, struct exec_in, watch);

	(void)events;
	in->ready = true;
	exec_queue(in->exec);
}

void exec_on_out(struct watch *w, uint32_t events)
{
	struct exec_out *o = owner_of(w, struct exec_out, watch);

	o->ready = true;
	o->hup |= !!(events & (EPOLLHUP | EPOLLERR));
	exec_queue(o->exec);
}

static void out_arm(struct exec_out *o, uint32_t events)
{
	struct epoll_event ev = {.events = events | EPOLLET, .data.ptr = &o->watch};

	(void)epoll_ctl(o->exec->agent->epoll_fd, EPOLL_CTL_MOD, o->watch.fd, &ev);
}

void exec_out_watch(struct exec_out *o)
{
	o->rest_us = 0;
	out_arm(o, EPOLLIN); /* an event comes at once if there is something */
}

static void out_rest(struct exec_out *o, uint64_t us)
{
	o->ready = false;
	o->rest_us = agent_now_us() + us;
	agent_wake_at(o->exec->agent, o->rest_us);
	out_arm(o, 0);
	if (!o->wide)
		(void)fcntl(o->watch.fd, F_SETPIPE_SZ, WIDE_PIPE);
	o->wide = true;
}

/* Read the report. Returns false if the stream is over. */
static bool step_start(struct exec *e)
{
	struct agent *a = e->agent;
	struct agent_fail f;
	const ssize_t n = read(e->report.fd, &f, sizeof(f));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n == (ssize_t)sizeof(f)) {
		agent_fail_send(a, e->stream, &f);
		if (!e->end_us)
			(void)waitpid(e->pid, NULL, 0); /* it is on its last instructions */
		if (e->cgroup_fd >= 0)
			(void)cgroup_remove(a->cgroup_fd, e->serial);
		exec_free(e);
		return false;
	}
	agent_close(a, &e->report);
	e->started = true;
	/* One that is over already counts from the fork. */
	if (!e->end_us)
		e->start_us = agent_now_us();
	if (e->timeout_us && !e->end_us) {
		e->deadline_us = e->start_us + e->timeout_us;
		agent_wake_at(a, e->deadline_us);
	}
	lane_send(&a->control,
		&(struct wire_msg){.op = WIRE_OP_started,
			.stream = e->stream,
			.started = {.pid = (uint32_t)e->pid, .in_credit = e->in.credit}});
	return true;
}

/* The pipe takes no more. The first time it is made larger: the program reads slower than we write,
 * and one large helping costs fewer switches between the two than many small ones. */
static void in_full(struct exec_in *in)
{
	in->ready = !in->wide && fcntl(in->watch.fd, F_SETPIPE_SZ, WIDE_PIPE) > 0;
	in->wide = true;
}

static uint32_t in_give(struct exec_in *in, const uint8_t *data, uint32_t len)
{
	uint32_t done = 0;

	while (in->watch.fd >= 0 && in->ready && done < len) {
		const ssize_t n = write(in->watch.fd, data + done, len - done);
		if (n > 0)
			done += (uint32_t)n;
		else if (n < 0 && errno == EAGAIN)
			in_full(in);
		else if (n < 0 && errno != EINTR)
			agent_close(in->exec->agent, &in->watch); /* nobody reads any more */
	}
	if (in->watch.fd < 0)
		done = len;
	in->spent += done;
	return done;
}

uint32_t exec_in_pass(struct exec_in *in, const uint8_t *data, uint32_t len)
{
	return in->head == in->tail ? in_give(in, data, len) : 0;
}

static void in_write(struct exec_in *in)
{
	/* Without stdin there is no buffer either. */
	if (in->head < in->tail)
		in->head += in_give(in, in->buf + in->head, in->tail - in->head);
	if (in->head == in->tail)
		in->head = in->tail = 0;
}

static void step_in(struct exec *e)
{
	struct exec_in *in = &e->in;

	in_write(in);
	if (in->ended && in->head == in->tail)
		agent_close(e->agent, &in->watch);
	/* A grant costs a frame, so they are large; the host still has the other half. */
	if (in->ended || in->spent < in->window / 2)
		return;
	lane_send(
		&e->agent->control, &(struct wire_msg){.op = WIRE_OP_credit,
					    .stream = e->stream,
					    .credit = {.channel = WIRE_STDIN, .bytes = in->spent}});
	in->credit += in->spent;
	in->spent = 0;
}

static void out_end(struct exec_out *o)
{
	lane_send(&o->exec->agent->bulk, &(struct wire_msg){.op = WIRE_OP_eof,
						 .stream = o->exec->stream,
						 .eof = {.channel = o->channel}});
	o->done = true;
}

/* Nobody can write any more, and nothing is left to read. */
static bool out_is_over(const struct exec_out *o)
{
	int n = 1;

	if (!o->hup)
		return false;
	if (o->exec->tty)
		return o->exec->end_us && exec_tty_is_dry(o->watch.fd);
	return ioctl(o->watch.fd, FIONREAD, &n) == 0 && n == 0;
}

/* Nothing may be read: it can still be over. */
static void out_try_end(struct exec_out *o, bool late)
{
	if (out_is_over(o)) {
		agent_close(o->exec->agent, &o->watch);
		out_end(o);
	} else if (late && o->owed == 0) {
		o->exec->exit_flags |= WIRE_EXIT_LEFT; /* the descriptor stays, see exec_leave */
		out_end(o);
	}
}

/* A read failed; what does it mean? */
static void out_stopped(struct exec_out *o, int errnum)
{
	const struct exec *e = o->exec;

	if (errnum == EAGAIN) {
		o->ready = false;
		o->owed = 0;
		if (o->rich && !o->hup && !e->end_us)
			out_rest(o, REST_RICH_US);
		o->rich = false;
	} else if (errnum == EIO && e->tty && !e->end_us) {
		o->ready = false; /* the leader may open it again */
	} else if (errnum != EINTR) {
		agent_close(e->agent, &o->watch);
		out_end(o);
	}
}

/* @late: the leader ended too long ago to wait for anything more than what it left behind. */
static void step_out(struct exec_out *o, bool late)
{
	struct exec *e = o->exec;
	struct lane *bulk = &e->agent->bulk;
	uint32_t want = o->credit < WIRE_DATA_MAX ? o->credit : WIRE_DATA_MAX;

	if (o->watch.fd < 0) {
		out_end(o); /* a terminal has no stderr, and none after a hang-up */
		return;
	}
	if (late && want > o->owed)
		want = o->owed;
	if (want == 0) {
		out_try_end(o, late);
		return;
	}
	uint8_t *place = lane_data_place(bulk);
	const ssize_t n = read(o->watch.fd, place, want);
	if (n > 0) {
		const uint32_t len = (uint32_t)n;
		o->credit -= len;
		o->owed -= len < o->owed ? len : o->owed;
		o->rich = len >= REST_BELOW;
		lane_send(bulk, &(struct wire_msg){.op = WIRE_OP_data,
					.stream = e->stream,
					.data = {.channel = o->channel, .bytes = {place, len}}});
		if (o->credit == 0)
			out_try_end(o, late);
		else if (len < (e->tty ? REST_TTY : REST_BELOW) && !o->hup && !e->end_us)
			out_rest(o, REST_US);
	} else {
		out_stopped(o, n < 0 ? errno : 0);
	}
}

/* Could another step do something for this output at once? */
static bool out_can_go(const struct exec_out *o, bool late)
{
	if (o->done)
		return false;
	return (late && o->owed == 0) || (o->ready && o->credit > 0);
}

static void exec_finish(struct exec *e)
{
	struct agent *a = e->agent;
	const bool by_signal = WIFSIGNALED(e->wait_status);
	const int code = by_signal ? WTERMSIG(e->wait_status) : WEXITSTATUS(e->wait_status);
	bool has_cgroup = e->cgroup_fd >= 0;

	lane_send(&a->bulk, &(struct wire_msg){.op = WIRE_OP_exit,
				    .stream = e->stream,
				    .exit = {.kind = by_signal ? WIRE_SIGNALED : WIRE_EXITED,
					    .code = (uint32_t)code,
					    .flags = e->exit_flags,
					    .duration_us = e->end_us - e->start_us}});
	if (has_cgroup && cgroup_remove(a->cgroup_fd, e->serial))
		has_cgroup = false;
	if (has_cgroup || ((e->exit_flags & WIRE_EXIT_LEFT) && !e->tty))
		exec_leave(e, has_cgroup);
	exec_free(e);
}

static void step(struct exec *e, unsigned *budget)
{
	struct agent *a = e->agent;
	const bool late = e->end_us && agent_now_us() >= e->drain_us;
	bool again = false;

	if (!agent_can_reply(a)) {
		exec_queue(e);
		return;
	}
	if (!e->started && (!step_start(e) || !e->started))
		return;
	step_in(e);
	if (*budget == 0 || lane_room(&a->bulk) < STEP_ROOM) {
		exec_queue(e);
		return;
	}
	for (int i = 0; i < 2; i++) {
		struct exec_out *o = &e->out[i];
		if (!o->done && (o->ready || o->hup || late)) {
			step_out(o, late);
			*budget -= *budget > 0;
		}
		again |= out_can_go(o, late);
	}
	if (e->end_us && e->out[0].done && e->out[1].done)
		exec_finish(e);
	else if (again)
		exec_queue(e);
}

void exec_run_queue(struct agent *a, unsigned budget)
{
	struct exec *e = a->queue;

	a->queue = NULL;
	a->queue_end = &a->queue;
	while (e) {
		struct exec *next = e->queue_next;
		e->queued = false;
		step(e, &budget);
		e = next;
	}
}
