/* SPDX-License-Identifier: Apache-2.0 */
#include "op_exec.h"

#include "cgroup.h"
#include "exec_child.h"
#include "exec_stream.h"
#include "exec_tty.h"
#include "guest_mem.h"
#include "guest_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * Requests and events of execs; see exec_stream.h for the life of one, exec_pump.c for its data.
 *
 * Input that the host may have under way is bounded by the window of each exec: IN_WINDOW, or
 * IN_WINDOW_LOW for those that come when IN_MANY already run, so at most 24 MiB in all.
 */

#define IN_WINDOW     (512u * 1024) /* what comes in 3 ms at full speed */
#define IN_WINDOW_LOW (16u * 1024)
#define IN_MANY       16
#define PIDS_MAX      4096 /* processes and threads of an exec that names no limit */

struct exec *exec_find(struct agent *a, uint32_t stream)
{
	struct exec *e = a->execs;

	while (e && e->stream != stream)
		e = e->next;
	return e;
}

void exec_queue(struct exec *e)
{
	struct agent *a = e->agent;

	if (e->queued)
		return;
	e->queued = true;
	e->queue_next = NULL;
	*a->queue_end = e;
	a->queue_end = &e->queue_next;
}

static void exec_kill_leader(struct exec *e, int signo)
{
	if (!e->end_us && e->pid > 0)
		(void)kill(e->pid, signo);
}

void exec_kill_group(struct exec *e, int signo)
{
	/* Once the leader is reaped its number may belong to someone else. */
	if (e->end_us || e->pid <= 0)
		return;
	/* It may not have reached setsid yet. */
	if (kill(-e->pid, signo) < 0 && !e->started)
		(void)kill(e->pid, signo);
}

void exec_kill_all(struct exec *e, int signo)
{
	e->killed |= signo == SIGKILL;
	if (e->cgroup_fd >= 0)
		cgroup_signal(e->cgroup_fd, signo);
	else
		exec_kill_group(e, signo);
}

void exec_free(struct exec *e)
{
	struct agent *a = e->agent;

	*e->link = e->next;
	if (e->next)
		e->next->link = e->link;
	a->n_execs--;
	agent_close(a, &e->report);
	agent_close(a, &e->in.watch);
	agent_close(a, &e->out[0].watch);
	agent_close(a, &e->out[1].watch);
	if (e->cgroup_fd >= 0)
		(void)close(e->cgroup_fd);
	gmem_free(e->in.buf);
	gmem_free(e);
}

static struct exec *exec_new(struct agent *a, uint32_t stream)
{
	struct exec *e = gmem_zalloc(sizeof(*e));

	if (!e)
		return NULL;
	e->agent = a;
	e->stream = stream;
	e->serial = ++a->serial;
	e->cgroup_fd = -EBADF;
	e->report = (struct watch){.fn = exec_on_report, .fd = -EBADF};
	e->in.watch = (struct watch){.fn = exec_on_in, .fd = -EBADF};
	e->in.exec = e;
	e->in.last = '\n';
	for (uint8_t i = 0; i < 2; i++) {
		e->out[i].watch = (struct watch){.fn = exec_on_out, .fd = -EBADF};
		e->out[i].exec = e;
		e->out[i].channel = (uint8_t)(WIRE_STDOUT + i);
	}
	e->next = a->execs;
	e->link = &a->execs;
	if (e->next)
		e->next->link = &e->next;
	a->execs = e;
	a->n_execs++;
	return e;
}

/* A pipe; our end (0 reads, 1 writes) is non-blocking and watched by @w, theirs is not. */
static int pipe_open(struct agent *a, struct watch *w, int ours, uint32_t events, int *ret_theirs)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	*ret_theirs = p[!ours];
	(void)fcntl(p[ours], F_SETFL, O_NONBLOCK);
	return agent_watch(a, w, p[ours], events);
}

static int open_pipes(struct exec *e, bool with_stdin, int theirs[4])
{
	struct agent *a = e->agent;
	int rc = 0;

	if (with_stdin) {
		rc = pipe_open(a, &e->in.watch, 1, EPOLLOUT, &theirs[0]);
	} else {
		theirs[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		rc = theirs[0] < 0 ? -errno : 0;
	}
	if (rc == 0)
		rc = pipe_open(a, &e->out[0].watch, 0, EPOLLIN, &theirs[1]);
	if (rc == 0)
		rc = pipe_open(a, &e->out[1].watch, 0, EPOLLIN, &theirs[2]);
	if (rc == 0)
		rc = pipe_open(a, &e->report, 0, EPOLLIN, &theirs[3]);
	return rc;
}

static int open_terminal(struct exec *e, const struct wire_exec *req, int theirs[4])
{
	const int rc = exec_tty_open(e, req, &theirs[0]);

	return rc < 0 ? rc : pipe_open(e->agent, &e->report, 0, EPOLLIN, &theirs[3]);
}

/* *ret_what tells what failed. */
static int exec_fork(struct exec *e, const struct wire_exec *req, const char **ret_what)
{
	struct agent *a = e->agent;
	const bool tty = req->flags & WIRE_EXEC_TTY;
	int theirs[4] = {-EBADF, -EBADF, -EBADF, -EBADF};
	bool placed = false;
	int rc = 0;

	*ret_what = "cannot start a process";
	if (a->cgroup_fd >= 0) {
		e->cgroup_fd = cgroup_make(
			a->cgroup_fd, e->serial, req->pids_max ? req->pids_max : PIDS_MAX);
		if (e->cgroup_fd < 0)
			return e->cgroup_fd;
	}
	rc = tty ? open_terminal(e, req, theirs)
		 : open_pipes(e, req->flags & WIRE_EXEC_STDIN, theirs);
	if (rc < 0 && tty)
		*ret_what = "cannot open a terminal";
	if (rc == 0) {
		rc = gproc_fork(e->cgroup_fd, &placed);
		if (rc == 0)
			exec_child_run(&(struct exec_child){
				.req = req,
				.fake = a->fake,
				.cgroup_fd = placed ? -EBADF : e->cgroup_fd,
				.std_fds = {theirs[0], theirs[tty ? 0 : 1], theirs[tty ? 0 : 2]},
				.report_fd = theirs[3],
			});
		e->pid = rc;
		e->start_us = agent_now_us();
	}
	for (int i = 0; i < 4; i++)
		if (theirs[i] >= 0)
			(void)close(theirs[i]);
	return rc < 0 ? rc : 0;
}

static void exec_refuse(
	struct agent *a, const struct wire_msg *msg, uint16_t class, int errnum, const char *text)
{
	struct agent_fail f;
	uint32_t pos = 0;
	const char *argv0 = wire_strs_next(&msg->exec.argv, &pos);

	(void)agent_fail_set(&f, class, errnum, "exec", argv0 ? argv0 : "", "%s", text);
	agent_fail_send(a, msg->stream, &f);
}

/* NULL if the request is good. */
static const char *request_fault(const struct agent *a, const struct wire_exec *req)
{
	if (a->state == AGENT_FRESH)
		return "the machine is not set up yet";
	if (a->state != AGENT_READY)
		return "the machine is shutting down";
	if (a->frozen)
		return "the machine is frozen";
	if (req->argv.count == 0)
		return "the command is empty";
	if (req->flags & ~(uint32_t)WIRE_EXEC_FLAGS_ALL)
		return "the request has flags that this agent does not know";
	return NULL;
}

void exec_prepare(struct agent *a)
{
	if (a->cgroup_fd >= 0)
		cgroup_make_ahead(a->cgroup_fd, a->serial + 1);
}

void exec_request(struct agent *a, const struct wire_msg *msg)
{
	const struct wire_exec *req = &msg->exec;
	const char *fault = request_fault(a, req);
	const char *what = NULL;

	if (exec_find(a, msg->stream)) {
		agent_die(a, "exec on stream %u, which is in use", msg->stream);
		return;
	}
	if (fault) {
		exec_refuse(a, msg, WIRE_FAIL_INVALID, 0, fault);
		return;
	}
	struct exec *e = a->n_execs < WIRE_STREAMS_MAX ? exec_new(a, msg->stream) : NULL;
	if (!e) {
		exec_refuse(a, msg, WIRE_FAIL_LIMIT, 0, "too many programs run in this machine");
		return;
	}
	/* More than 292 years is as good as no limit. */
	e->timeout_us = req->timeout_ms < INT64_MAX / 1000000 ? req->timeout_ms * 1000 : 0;
	e->out[0].credit = e->out[1].credit = req->out_credit;
	e->in.window = a->n_execs > IN_MANY ? IN_WINDOW_LOW : IN_WINDOW;
	e->in.credit = req->flags & WIRE_EXEC_STDIN ? e->in.window : 0;
	const int rc = exec_fork(e, req, &what);
	if (rc < 0) {
		exec_refuse(a, msg, WIRE_FAIL_LIMIT, -rc, what);
		if (e->cgroup_fd >= 0)
			(void)cgroup_remove(a->cgroup_fd, e->serial);
		exec_free(e);
	}
}

void exec_reaped(struct agent *a, pid_t pid, int wait_status)
{
	struct exec *e = a->execs;

	while (e && (e->pid != pid || e->end_us))
		e = e->next;
	if (!e) {
		a->orphan_reaped = true;
		return;
	}
	e->wait_status = wait_status;
	e->end_us = agent_now_us();
	e->deadline_us = 0;
	if (e->cgroup_fd >= 0 && cgroup_oom(e->cgroup_fd)) {
		e->exit_flags |= WIRE_EXIT_OOM;
		e->killed = true; /* see memory.oom.group */
	}
	e->drain_us = e->end_us + (e->killed ? EXEC_DEATH_US : EXEC_DRAIN_US);
	agent_wake_at(a, e->drain_us);
	for (int i = 0; i < 2; i++) {
		int n = 0;
		if (e->out[i].watch.fd >= 0 && e->tty)
			e->out[i].owed = exec_tty_owed(e->out[i].watch.fd);
		else if (e->out[i].watch.fd >= 0 && ioctl(e->out[i].watch.fd, FIONREAD, &n) == 0)
			e->out[i].owed = (uint32_t)n;
		e->out[i].ready = true;
	}
	exec_queue(e);
}

static void exec_timer(struct exec *e, uint64_t now_us)
{
	struct agent *a = e->agent;

	for (int i = 0; i < 2; i++)
		if (e->out[i].rest_us > now_us)
			agent_wake_at(a, e->out[i].rest_us);
		else if (e->out[i].rest_us)
			exec_out_watch(&e->out[i]);
	if (e->hangup_us > now_us) {
		agent_wake_at(a, e->hangup_us);
	} else if (e->hangup_us) {
		e->hangup_us = 0;
		exec_kill_all(e, SIGKILL);
	}
	if (e->end_us && e->drain_us > now_us) {
		agent_wake_at(a, e->drain_us);
	} else if (e->end_us) {
		exec_queue(e);
	} else if (e->deadline_us > now_us) {
		agent_wake_at(a, e->deadline_us);
	} else if (e->deadline_us) {
		e->deadline_us = 0;
		e->exit_flags |= WIRE_EXIT_TIMED_OUT;
		exec_kill_all(e, SIGKILL);
	}
}

void exec_timers(struct agent *a, uint64_t now_us)
{
	a->wake_us = 0;
	for (struct exec *e = a->execs; e; e = e->next)
		exec_timer(e, now_us);
	exec_leave_timers(a, now_us);
}

/* Frames for a stream that is over are no fault: they crossed its exit on the way. */

/* The client is gone. A program that lives on gets its time to notice. */
static void exec_hangup(struct exec *e, int signo)
{
	if (e->hangup_us)
		return;
	e->hangup_us = agent_now_us() + EXEC_HANGUP_US;
	agent_wake_at(e->agent, e->hangup_us);
	if (!e->tty)
		exec_kill_group(e, signo);
	else if (e->started)
		exec_tty_hangup(e);
	else
		exec_kill_group(e, SIGHUP); /* it may not have its terminal yet */
}

void exec_signal(struct agent *a, const struct wire_msg *msg)
{
	struct exec *e = exec_find(a, msg->stream);
	const uint32_t signo = msg->signal.signo;

	if (signo < 1 || signo >= (uint32_t)_NSIG)
		agent_log(
			a, AGENT_LOG_WARN, "ignoring signal %u for stream %u", signo, msg->stream);
	else if (e && (msg->signal.flags & WIRE_SIGNAL_HANGUP))
		exec_hangup(e, (int)signo);
	else if (e && (msg->signal.flags & WIRE_SIGNAL_ALL))
		exec_kill_all(e, (int)signo);
	else if (e && (msg->signal.flags & WIRE_SIGNAL_LEADER))
		exec_kill_leader(e, (int)signo);
	else if (e)
		exec_kill_group(e, (int)signo);
}

void exec_resize(struct agent *a, const struct wire_msg *msg)
{
	struct exec *e = exec_find(a, msg->stream);

	if (e && e->tty)
		exec_tty_resize(e, msg->resize.rows, msg->resize.cols);
}

void exec_signal_all(struct agent *a, int signo)
{
	for (struct exec *e = a->execs; e; e = e->next)
		exec_kill_group(e, signo);
}

void exec_credit(struct agent *a, const struct wire_msg *msg)
{
	struct exec *e = exec_find(a, msg->stream);

	if (!e)
		return;
	struct exec_out *o = &e->out[msg->credit.channel - WIRE_STDOUT];
	if (msg->credit.bytes > WIRE_CREDIT_MAX - o->credit) {
		agent_die(a, "too much credit on stream %u", msg->stream);
		return;
	}
	o->credit += msg->credit.bytes;
	exec_queue(e);
}

static void in_append(struct exec_in *in, const uint8_t *data, uint32_t len)
{
	const uint32_t cap = in->window + EXEC_TTY_EOF_MAX;

	if (!in->buf)
		in->buf = gmem_array(cap, 1);
	if (!in->buf) {
		agent_log(in->exec->agent, AGENT_LOG_ERROR, "no memory for the input of stream %u",
			in->exec->stream);
		exec_kill_all(in->exec, SIGKILL);
		return;
	}
	if (cap - in->tail < len) {
		memmove(in->buf, in->buf + in->head, in->tail - in->head);
		in->tail -= in->head;
		in->head = 0;
	}
	memcpy(in->buf + in->tail, data, len);
	in->tail += len;
}

void exec_data(struct agent *a, const struct wire_msg *msg)
{
	struct exec *e = exec_find(a, msg->stream);
	const struct wire_bytes b = msg->data.bytes;

	if (!e)
		return;
	if (b.len > e->in.credit || e->in.ended) {
		agent_die(a, "data without credit on stream %u", msg->stream);
		return;
	}
	e->in.credit -= b.len;
	e->in.last = b.data[b.len - 1];
	const uint32_t passed = exec_in_pass(&e->in, b.data, b.len);
	if (passed < b.len)
		in_append(&e->in, b.data + passed, b.len - passed);
	exec_queue(e);
}

void exec_eof(struct agent *a, const struct wire_msg *msg)
{
	struct exec *e = exec_find(a, msg->stream);

	if (!e)
		return;
	if (e->tty && !e->in.ended && e->in.watch.fd >= 0) {
		uint8_t chars[EXEC_TTY_EOF_MAX];
		const uint32_t n = exec_tty_eof(e, chars);
		if (n > 0)
			in_append(&e->in, chars, n);
	}
	e->in.ended = true;
	exec_queue(e);
}
