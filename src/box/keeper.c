/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper process: owner of one box's VM. Theory of operation.
 *
 * It is started by the library with everything it needs as descriptors (keeper.h) and stays when
 * its maker ends only as long as the owner pipe is open, or once a client has said detach. One uv
 * loop, one thread: QEMU's parent-death signal follows that thread.
 *
 *   BOOTING --hello, setup_done--> READY --asked, or program ended--> STOPPING --VM gone--> ENDING
 *      |  attempt 1 fails: the same again, loud           |  (grace, then flush)
 *      +------------------ whatever ends the VM at once --+-----------------------------> ENDING
 *
 * STOPPING: the program got its signal and may use its grace; then the guest kills everything,
 * flushes its disk and turns itself off, within FLUSH_MS, or its VM is killed. A box that is not
 * kept skips that: its disk goes anyway.
 *
 * ENDING: first the state file (or for a box that is not kept, the removal of its directory), then
 * the word to the clients, then their sockets: whoever sees their end-of-file finds everything in
 * place. A client that is still owed output of an ended program is waited for, without its VM.
 */
#include "box/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/box_dir.h"
#include "box/disk_origin.h"
#include "box/event_log.h"
#include "box/keeper_inside.h"
#include "base/banned.h"

#define FLUSH_STOP_MS    800u /* for the guest to flush when somebody waits for the stop */
#define FLUSH_PROGRAM_MS 8000u /* the same when nobody does */
#define FLUSH_ORPHAN_MS  1000u /* the same when the owner is gone */
#define KILL_MS          800u /* for a killed program to be reported */

void keeper_set_stage(struct keeper *k, const void *name, size_t len)
{
	(void)str_escape(k->stage, sizeof k->stage, name, len, false);
}

void keeper_record(struct keeper *k, enum box_phase phase)
{
	k->record.phase = phase;
	/* Without it the box looks lost after its end, and works. */
	(void)!box_state_write(KEEPER_FD_BOX, &k->record);
}

void keeper_tell(struct keeper *k, const char *action, json_t *more)
{
	if (k->spec.role == KEEPER_BOX)
		event_tell(KEEPER_FD_HOME, action, k->spec.id, k->spec.name, more);
	else
		json_decref(more);
}

/* ---- the end ---- */

static void send_ended(struct keeper_client *c)
{
	const struct keeper_ending *e = &c->k->ending;

	(void)!channel_send(&c->ch, &(struct wire_msg){.op = WIRE_OP_ended,
					    .ended = {.reason = (uint16_t)e->reason,
						    .code = e->code,
						    .flags = e->flags,
						    .errnum = (uint32_t)e->errnum,
						    .stage = bytes_of(c->k->stage),
						    .text = bytes_of(e->text),
						    .hint = bytes_of(e->hint)}});
	client_drop(c);
}

void keeper_settle(struct keeper *k)
{
	struct keeper_client *c, *next;

	if (k->state != KEEPER_ENDING)
		return;
	DL_FOREACH_SAFE (k->clients, c, next) {
		if (c->relay && !relay_owes(k->relay, c->relay))
			send_ended(c);
	}
}

/* What the box's end looks like from outside. */
static int exit_code_of(const struct keeper_ending *e)
{
	switch (e->reason) {
	case WIRE_END_STOPPED:
	case WIRE_END_PROGRAM:
	case WIRE_END_OOM:
	case WIRE_END_POWEROFF:
	case WIRE_END_FROZEN:
		return (int)e->code;
	case WIRE_END_KILLED:
		return e->code ? (int)e->code : 137;
	case WIRE_END_VM_CRASHED:
	case WIRE_END_OWNER_GONE:
		return 137;
	case WIRE_END_BOOT_FAILED:
	case WIRE_END_SETUP_FAILED:
	case WIRE_END_PROTOCOL:
	case WIRE_END_HOST:
		break;
	}
	return 125;
}

static void leave_record(struct keeper *k)
{
	struct keeper_ending *e = &k->ending;

	e->code = (uint32_t)exit_code_of(e);
	k->record.end = box_end_of_wire((uint16_t)e->reason);
	k->record.exit_code = (int)e->code;
	k->record.ended_ns = clock_wall_ns();
	k->record.vmm_pid = k->record.keeper_pid = 0;
	(void)str_escape(k->record.text, sizeof k->record.text, e->text, strlen(e->text), false);
	box_log_done(&k->log);
	if (k->spare.is && !spare_leave(k))
		return;
	/* One that goes now is not to be seen as one that has ended and stays. */
	if (k->spec.keep)
		keeper_record(k, BOX_EXITED);
	const char *reason = k->lease.idle_end ? "idle_timeout" : box_end_name(k->record.end);
	keeper_tell(k, "die",
		json_pack("{s:i, s:s}", "exit_code", k->record.exit_code, "reason", reason));
	if (k->spec.keep)
		return;
	/* What cannot be removed now is removed by the next process that opens the home. */
	auto_fd boxes = openat(KEEPER_FD_HOME, "boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (boxes >= 0)
		(void)!box_dir_remove(boxes, k->spec.id);
	keeper_tell(k, "destroy", k->lease.idle_end ? json_pack("{s:s}", "reason", reason) : NULL);
}

static void finish(struct keeper *k)
{
	k->state = KEEPER_ENDING;
	if (k->machine)
		(void)machine_end(k->machine);
	clients_unlisten(k);
	lease_done(k);
	leave_record(k);
	if (k->owner.data)
		uv_close((uv_handle_t *)&k->owner, NULL);
	uv_close((uv_handle_t *)&k->term, NULL);
	uv_close((uv_handle_t *)&k->watchdog, NULL);
	uv_close((uv_handle_t *)&k->stopper, NULL);
	uv_close((uv_handle_t *)&k->retry, NULL);
	/* Who was held up by the guest is heard again: it may have credit for what it is owed. */
	clients_resume(k, WIRE_CONTROL);
	clients_resume(k, WIRE_BULK);
	keeper_settle(k);
}

void keeper_end(struct keeper *k, enum wire_end_reason reason, int errnum, const char *hint,
	const char *fmt, ...)
{
	struct keeper_ending *e = &k->ending;
	va_list ap;

	if (k->state == KEEPER_ENDING)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(e->text, sizeof e->text, fmt, ap);
	va_end(ap);
	e->reason = reason;
	e->errnum = errnum;
	(void)snprintf(e->hint, sizeof e->hint, "%s", hint);
	finish(k);
}

/* The end of a stop, as it was asked for. */
static void end_stopped(struct keeper *k)
{
	struct keeper_ending *e = &k->ending;

	if (k->state == KEEPER_ENDING)
		return;
	if (!e->text[0])
		(void)snprintf(e->text, sizeof e->text, "the box was %s",
			e->reason == WIRE_END_KILLED       ? "killed"
			: e->reason == WIRE_END_OWNER_GONE ? "ended: its owner is gone"
							   : "stopped");
	(void)snprintf(
		e->hint, sizeof e->hint, "start it again with 'holt start', or make a new one");
	finish(k);
}

void keeper_vm_ended(struct keeper *k, int wait_status)
{
	if (k->state == KEEPER_STOPPING) {
		end_stopped(k);
	} else if (WIFSIGNALED(wait_status)) {
		keeper_end(k, WIRE_END_VM_CRASHED, WTERMSIG(wait_status),
			k->spec.keep ? "its disk is kept; start it again with 'holt start'"
				     : "its disk is gone with it; run the command again",
			"the VM was killed by signal %d (%s)", WTERMSIG(wait_status),
			sigdescr_np(WTERMSIG(wait_status)));
	} else if (WEXITSTATUS(wait_status) == 0) {
		keeper_end(k, WIRE_END_POWEROFF, 0, "start it again with 'holt start'",
			"the guest turned itself off");
	} else {
		keeper_end(k, WIRE_END_VM_CRASHED, 0, "look at 'holt doctor'",
			"the VM ended by itself with status %d", WEXITSTATUS(wait_status));
	}
}

/* ---- stopping ---- */

static int tell_shutdown(struct keeper *k, uint32_t grace_ms)
{
	return channel_send(&k->machine->guest,
		&(struct wire_msg){.op = WIRE_OP_shutdown, .shutdown = {.grace_ms = grace_ms}});
}

/* All programs die, the disk is flushed, the machine turns itself off. */
static void flush(struct keeper *k, uint32_t grace_ms, uint64_t wait_ms)
{
	if (!k->spec.keep || !k->machine || k->flushing) {
		if (relay_has_program(k->relay))
			k->ending.code = 137;
		end_stopped(k);
		return;
	}
	k->flushing = true;
	if (relay_has_program(k->relay))
		k->ending.code = 137;
	if (tell_shutdown(k, grace_ms) < 0)
		end_stopped(k);
	else
		(void)uv_timer_start(&k->stopper, k->stopper.timer_cb, wait_ms, 0);
}

static void on_stopper(uv_timer_t *timer)
{
	flush(timer->data, 0, FLUSH_STOP_MS);
}

/* It is on its way already; whoever is less patient than the first does not wait as long. */
static void hurry(struct keeper *k, uint64_t grace_ms)
{
	const uint64_t wait_ms = k->flushing ? grace_ms + FLUSH_STOP_MS : grace_ms;

	if (uv_timer_get_due_in(&k->stopper) <= wait_ms)
		return;
	if (k->flushing)
		(void)!tell_shutdown(k, (uint32_t)grace_ms);
	(void)uv_timer_start(&k->stopper, on_stopper, wait_ms, 0);
}

void keeper_stop(struct keeper *k, enum wire_end_reason reason, uint32_t signo, uint64_t grace_ms)
{
	if (k->state == KEEPER_ENDING)
		return;
	if (k->state == KEEPER_BOOTING) {
		keeper_end(k, reason, 0, "start it again, or make a new one",
			"the box was ended while it started");
		return;
	}
	pause_lift(k);
	if (k->state == KEEPER_READY) {
		k->ending.reason = reason;
		k->state = KEEPER_STOPPING;
		keeper_record(k, BOX_STOPPING);
		if (relay_has_program(k->relay) && grace_ms > 0) {
			(void)!relay_signal_program(k->relay, signo, WIRE_SIGNAL_LEADER);
			(void)uv_timer_start(&k->stopper, on_stopper, grace_ms, 0);
			return;
		}
		if (!relay_has_program(k->relay) && grace_ms > 0 && k->spec.keep) {
			flush(k, (uint32_t)grace_ms, grace_ms + FLUSH_STOP_MS);
			return;
		}
	} else if (k->flushing ? reason != WIRE_END_KILLED : grace_ms > 0) {
		hurry(k, grace_ms);
		return;
	}
	flush(k, 0, reason == WIRE_END_OWNER_GONE ? FLUSH_ORPHAN_MS : FLUSH_STOP_MS);
}

/* SIGKILL is the end of the box, whatever it does; other signals are the program's business. */
void keeper_kill(struct keeper *k, struct keeper_client *c, const struct wire_msg *msg)
{
	const bool program = relay_has_program(k->relay);

	if (msg->kill.signo == SIGKILL && k->state == KEEPER_ENDING)
		return; /* its end is the answer */
	if (msg->kill.signo != SIGKILL) {
		if (k->state != KEEPER_READY || !program)
			(void)!relay_refuse(c->relay, msg->stream, WIRE_FAIL_INVALID, ESRCH,
				"the box has no program to send a signal to");
		else if (k->waiting)
			(void)!relay_refuse(c->relay, msg->stream, WIRE_FAIL_NO_SPACE, ENOSPC,
				"the box waits for space on the host's disk");
		else if (k->paused)
			(void)!relay_refuse(c->relay, msg->stream, WIRE_FAIL_PAUSED, EAGAIN,
				"the box is paused");
		else if (relay_signal_program(k->relay, msg->kill.signo, WIRE_SIGNAL_LEADER) < 0)
			(void)!relay_refuse(c->relay, msg->stream, WIRE_FAIL_LIMIT, EAGAIN,
				"too much is waiting for the guest");
		else {
			(void)!relay_done(c->relay, msg->stream);
			keeper_tell(k, "kill", json_pack("{s:i}", "signal", (int)msg->kill.signo));
		}
		return;
	}
	keeper_tell(k, "kill", json_pack("{s:i}", "signal", SIGKILL));
	if (k->state != KEEPER_READY || !program || k->paused || k->waiting) {
		k->ending.reason = WIRE_END_KILLED;
		keeper_stop(k, WIRE_END_KILLED, SIGKILL, 0);
		return;
	}
	k->ending.reason = WIRE_END_KILLED;
	k->state = KEEPER_STOPPING;
	keeper_record(k, BOX_STOPPING);
	(void)!relay_signal_program(k->relay, SIGKILL, WIRE_SIGNAL_ALL);
	(void)uv_timer_start(&k->stopper, on_stopper, KILL_MS, 0);
}

/* ---- the program ---- */

static void program_output(void *user, enum wire_channel channel, const uint8_t *data, size_t len)
{
	struct keeper *k = user;

	box_log_write(&k->log, channel, data, len);
}

static uint32_t code_of_exit(const struct wire_exit *m)
{
	if (m->flags & WIRE_EXIT_TIMED_OUT)
		return 124;
	return m->kind == WIRE_SIGNALED ? 128 + m->code : m->code;
}

static void program_ended(void *user, const struct wire_msg *msg)
{
	struct keeper *k = user;
	struct keeper_ending *e = &k->ending;

	if (msg->op == WIRE_OP_exit) {
		e->code = code_of_exit(&msg->exit);
		e->flags = msg->exit.flags;
	} else {
		e->code = msg->fail.class_ == WIRE_FAIL_NOT_FOUND  ? 127
			  : msg->fail.class_ == WIRE_FAIL_NOT_EXEC ? 126
								   : 125;
		(void)str_escape(
			e->text, sizeof e->text, msg->fail.text.data, msg->fail.text.len, false);
	}
	if (k->state == KEEPER_READY) {
		k->state = KEEPER_STOPPING;
		e->reason = e->flags & WIRE_EXIT_OOM ? WIRE_END_OOM : WIRE_END_PROGRAM;
		if (!e->text[0])
			(void)snprintf(
				e->text, sizeof e->text, "its program ended with code %u", e->code);
		if (e->reason == WIRE_END_OOM)
			keeper_tell(k, "oom", NULL);
		keeper_record(k, BOX_STOPPING);
		flush(k, 0, FLUSH_PROGRAM_MS);
	} else if (k->state == KEEPER_STOPPING && !k->flushing) {
		flush(k, 0, FLUSH_STOP_MS);
	}
}

/* ---- events ---- */

static const char *origin_name(const struct keeper *k)
{
	if (k->spare.is)
		return "spare";
	if (k->origin != VM_CLONE)
		return "cold";
	return k->spec.bare ? "bare" : "template";
}

/* Nothing will be started any more. False: the box has ended. */
static bool give_up_privileges(struct keeper *k)
{
	/* The fake engine's machine is a process like this one. */
	const int r = k->record.jail.known ? jail_self(KEEPER_FD_HOME) : 0;

	if (r < 0)
		keeper_end(k, WIRE_END_HOST, -r, "run 'holt doctor'",
			"the keeper cannot give up its privileges: %s", strerrordesc_np(-r));
	return r == 0;
}

void keeper_ready(struct keeper *k, struct machine *m)
{
	if (!give_up_privileges(k))
		return;
	k->state = KEEPER_READY;
	keeper_set_stage(k, "running", 7);
	(void)uv_timer_stop(&k->watchdog);
	/* No further attempt: only QEMU keeps these now. */
	for (int fd = KEEPER_FD_KERNEL; fd <= KEEPER_FD_VM_LOCK; fd++)
		(void)fd_close(fd);
	for (int fd = KEEPER_FD_MEMORY; fd <= KEEPER_FD_STATE; fd++)
		(void)fd_close(fd);
	relay_set_guest(k->relay, &m->guest);
	k->record.hello_us = k->hello_us;
	k->record.ready_us = clock_mono_us() - k->started_us;
	k->record.vmm_pid = m->vm.proc.pid;
	k->record.attempts = k->attempts;
	(void)snprintf(k->record.origin, sizeof k->record.origin, "%s", origin_name(k));
	keeper_record(k, BOX_RUNNING);
	struct keeper_client *c;
	DL_FOREACH (k->clients, c)
		client_send_ready(c);
	keeper_tell(k, "start",
		k->record.jail.reduced ? json_pack("{s:s, s:s}", "jail", "reduced", "missing",
						 k->record.jail.missing)
				       : NULL);
}

/* An owner that lets its box go and still waits for its end leaves the flush its time; one that is
 * dead is not waited for. */
void keeper_orphan(struct keeper *k)
{
	if (!k->orphaned || k->detached || (k->flushing && k->maker))
		return;
	keeper_stop(k, WIRE_END_OWNER_GONE, SIGKILL, 0);
}

static void on_watchdog(uv_timer_t *timer)
{
	machine_lost_timeout(timer->data);
}

static void on_owner(uv_poll_t *poll, int status, int events)
{
	struct keeper *k = poll->data;

	(void)status;
	(void)events;
	(void)uv_poll_stop(poll);
	k->orphaned = true;
	keeper_orphan(k);
}

static void on_term(uv_signal_t *handle, int signum)
{
	struct keeper *k = handle->data;

	(void)signum;
	keeper_stop(k, WIRE_END_STOPPED, k->spec.stop_signal, k->spec.stop_grace_ms);
}

int keeper_watch_owner(struct keeper *k, int fd)
{
	if (uv_poll_init(&k->loop, &k->owner, fd) < 0)
		return -ENOMEM;
	k->owner.data = k;
	/* Nothing more is ever written there: readable means end-of-file. */
	return uv_poll_start(&k->owner, UV_READABLE | UV_DISCONNECT, on_owner) < 0 ? -EIO : 0;
}

static int init_handles(struct keeper *k)
{
	k->term.data = k->watchdog.data = k->stopper.data = k->retry.data = k;
	if (uv_signal_init(&k->loop, &k->term) < 0 || uv_timer_init(&k->loop, &k->watchdog) < 0 ||
		uv_timer_init(&k->loop, &k->stopper) < 0 || uv_timer_init(&k->loop, &k->retry) < 0)
		return -ENOMEM;
	k->watchdog.timer_cb = on_watchdog;
	k->stopper.timer_cb = on_stopper;
	if (uv_signal_start(&k->term, on_term, SIGTERM) < 0)
		return -EIO;
	/* A spare belongs to nobody until it is claimed. */
	return k->spec.role == KEEPER_SPARE ? 0 : keeper_watch_owner(k, KEEPER_FD_OWNER);
}

static int keeper_init(struct keeper *k)
{
	const struct relay_hooks hooks = {
		.program_output = program_output, .program_ended = program_ended, .user = k};

	if (uv_loop_init(&k->loop) < 0)
		return -ENOMEM;
	k->relay = relay_new(&hooks);
	if (!k->relay)
		return -ENOMEM;
	k->log = BOX_LOG_INIT(KEEPER_FD_BOX, k->spec.log_bytes);
	lease_init(k);
	k->record.keeper_pid = getpid();
	k->record.started_ns = clock_wall_ns();
	(void)snprintf(k->record.accel, sizeof k->record.accel, "%s", k->spec.kvm ? "kvm" : "tcg");
	keeper_record(k, BOX_STARTING);
	int r = client_add(k, KEEPER_FD_CONTROL, KEEPER_FD_BULK);
	k->maker = k->clients;
	if (r == 0)
		r = init_handles(k);
	return r == 0 && k->spec.role != KEEPER_SPARE ? clients_listen(k) : r;
}

/* What came from the caller's process and is none of a keeper's business: its directory, which must
 * not be in use for as long as a box lives, its mask, its limits. */
static void own_surroundings(void)
{
	struct rlimit size;

	(void)!chdir("/");
	(void)umask(077);
	if (getrlimit(RLIMIT_FSIZE, &size) == 0) {
		size.rlim_cur = size.rlim_max;
		(void)setrlimit(RLIMIT_FSIZE, &size);
	}
	/* A log that may not grow is an error like others. */
	(void)sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
}

/* Whatever the caller believes: a template with a mounted disk in its memory goes on only over the
 * very copy that it was frozen with, since over any other it destroys the file system. */
static void choose_origin(struct keeper *k)
{
	const struct keeper_spec *s = &k->spec;
	const bool fresh = disk_origin_take(KEEPER_FD_BOX, s->generation);

	(void)snprintf(k->record.note, sizeof k->record.note, "%s", s->note);
	if (s->role == KEEPER_SPARE) {
		k->detached = k->spare.is = true;
		(void)snprintf(k->spare.key, sizeof k->spare.key, "%s", s->key);
		(void)snprintf(k->spare.id, sizeof k->spare.id, "%s", s->id);
	}
	if (s->role == KEEPER_TEMPLATE) {
		k->origin = VM_FREEZE;
	} else if (s->clone && !s->bare && !fresh) {
		(void)snprintf(k->record.note, sizeof k->record.note,
			"no clone: the disk is not the one that the template was frozen with");
	} else if (s->clone) {
		k->origin = VM_CLONE;
	}
}

static void on_begin(uv_timer_t *timer)
{
	struct keeper *k = timer->data;

	if (k->spare.is && k->origin != VM_CLONE)
		spare_failed(k, k->record.note);
	else
		machine_start(k);
}

/* Not every role gets all descriptors. A number without one is taken, so that nothing else gets it:
 * the lowest that is free is always the next here. */
static int settle_fds(void)
{
	for (int fd = KEEPER_FD_OWNER; fd < KEEPER_FD_END; fd++) {
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 &&
			open("/dev/null", O_RDWR | O_CLOEXEC) != fd)
			return -errno;
	}
	return 0;
}

int keeper_main(const struct vm_engine *engine)
{
	struct keeper k = {.engine = engine, .state = KEEPER_BOOTING, .listen_fd = FD_NONE};
	auto_error error = NULL;

	own_surroundings();
	if (settle_fds() < 0)
		return 2;
	if (keeper_spec_read(KEEPER_FD_OWNER, &k.spec, &error) < 0)
		return 2;
	if (keeper_init(&k) < 0)
		return 1;
	choose_origin(&k);
	(void)uv_timer_start(&k.retry, on_begin, k.spec.delay_ms, 0);
	(void)uv_run(&k.loop, UV_RUN_DEFAULT);
	relay_free(k.relay);
	(void)uv_loop_close(&k.loop);
	keeper_spec_done(&k.spec);
	return 0;
}
