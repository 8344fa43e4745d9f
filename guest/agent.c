/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include "boot.h"
#include "op_box.h"
#include "op_directories.h"
#include "op_exec.h"
#include "op_network.h"
#include "op_park.h"
#include "op_sys.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * The agent: PID 1 of the machine, or with --fake a plain process for tests.
 *
 * One thread, one loop. A turn: wait for events (they only set flags), reap, serve the control
 * lane, take input from the bulk lane, look at deadlines, then give every exec that has something
 * to do its turn. The work of one turn is bounded (REAP_BUDGET children, BULK_BUDGET frames out,
 * one buffer in), so the control lane never waits longer than that.
 *
 * Memory is bounded: the two lanes have fixed queues, and whoever would fill them waits instead
 * (no room for replies: the lanes are not read; no room for data: the pipes are not read). Input
 * for programs is bounded by the credit that was granted.
 *
 * A closed lane or a frame that breaks the protocol ends the agent, and with it the machine.
 */

#define CONTROL_IN  8192 /* grows for a large exec request, then shrinks again */
#define CONTROL_OUT (64 * 1024)
#define BULK_IN     (128 * 1024) /* two of the longest frames */
#define BULK_OUT    (512 * 1024)
#define REAP_BUDGET 64 /* children reaped in one turn: a whole fork bomb may die at once */
#define BULK_BUDGET 1 /* data frames sent in one turn, 0.3 ms each at worst */
#define NOFILE      16384 /* 1024 streams with up to 6 descriptors each, and room */

uint64_t agent_now_us(void)
{
	struct timespec ts = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

int agent_watch(struct agent *a, struct watch *w, int fd, uint32_t events)
{
	struct epoll_event ev = {.events = events | EPOLLET, .data.ptr = w};

	w->fd = fd;
	return epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

void agent_unwatch(struct agent *a, struct watch *w)
{
	/* Closing would not do: a child before its exec still holds the same open file. */
	if (w->fd >= 0)
		(void)epoll_ctl(a->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
	w->fd = -EBADF;
}

void agent_close(struct agent *a, struct watch *w)
{
	const int fd = w->fd;

	agent_unwatch(a, w);
	if (fd >= 0)
		(void)close(fd);
}

void agent_wake_at(struct agent *a, uint64_t when_us)
{
	if (!a->wake_us || when_us < a->wake_us)
		a->wake_us = when_us;
}

bool agent_can_reply(struct agent *a)
{
	return lane_room(&a->control) >= AGENT_REPLY_MAX;
}

struct wire_bytes agent_bytes(const char *s)
{
	return (struct wire_bytes){.data = (const uint8_t *)s, .len = (uint32_t)strlen(s)};
}

int agent_copy_str(char *dst, size_t cap, const struct wire_bytes *src)
{
	if (src->len >= cap || (src->len && memchr(src->data, 0, src->len)))
		return -EINVAL;
	if (src->len)
		memcpy(dst, src->data, src->len);
	dst[src->len] = 0;
	return 0;
}

int agent_fail_set(struct agent_fail *f, uint16_t class, int errnum, const char *stage,
	const char *object, const char *fmt, ...)
{
	va_list ap;

	*f = (struct agent_fail){.class = class, .errnum = errnum};
	(void)snprintf(f->stage, sizeof(f->stage), "%s", stage);
	(void)snprintf(f->object, sizeof(f->object), "%s", object);
	va_start(ap, fmt);
	(void)vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	const size_t len = strlen(f->text);
	if (errnum)
		(void)snprintf(f->text + len, sizeof(f->text) - len, ": %s", strerror(errnum));
	return errnum ? -errnum : -EINVAL;
}

static void send_control(struct agent *a, const struct wire_msg *msg)
{
	lane_send(&a->control, msg);
	if (lane_flush(&a->control) < 0)
		a->control.live = true; /* the next read tells */
}

void agent_fail_send(struct agent *a, uint32_t stream, const struct agent_fail *f)
{
	send_control(a, &(struct wire_msg){
				.op = WIRE_OP_fail,
				.stream = stream,
				.fail = {.class_ = f->class,
					.errnum = (uint32_t)f->errnum,
					.stage = agent_bytes(f->stage),
					.object = agent_bytes(f->object),
					.text = agent_bytes(f->text)},
			});
}

/* To the console. Level 3, because "quiet" on the kernel's command line hides all above. */
static void tell_console(struct agent *a, const char *text)
{
	char line[640];
	const int n = snprintf(
		line, sizeof(line), "%sholt-agent: %s\n", a->fake ? "" : "<3>", text);
	const size_t len = (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1;

	if (a->kmsg_fd >= 0)
		(void)!write(a->kmsg_fd, line, len);
}

void agent_log(struct agent *a, enum agent_log_level level, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	tell_console(a, text);
	if (a->state != AGENT_GREETING && agent_can_reply(a))
		send_control(a, &(struct wire_msg){
					.op = WIRE_OP_log,
					.log = {.level = (uint8_t)level, .text = agent_bytes(text)},
				});
}

void agent_stage(struct agent *a, const char *name)
{
	char text[64];

	/* The console is for those who get no frames: it costs a millisecond a line. */
	(void)snprintf(text, sizeof(text), "stage %s", name);
	if (a->state == AGENT_GREETING)
		tell_console(a, text);
	else
		send_control(
			a, &(struct wire_msg){.op = WIRE_OP_stage, .stage = {agent_bytes(name)}});
}

void agent_die(struct agent *a, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (a->state == AGENT_OVER)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	agent_log(a, AGENT_LOG_ERROR, "%s", text);
	a->state = AGENT_OVER;
	a->failed = true;
}

/* Frames. */

static void say_hello(struct agent *a)
{
	send_control(a, &(struct wire_msg){
				.op = WIRE_OP_hello,
				.hello = {.magic = WIRE_MAGIC,
					.version = WIRE_VERSION,
					.oldest = WIRE_OLDEST,
					.features = WIRE_FEATURE_NETWORK,
					.build = agent_bytes(AGENT_BUILD)},
			});
}

static void take_hello(struct agent *a, const struct wire_hello *h)
{
	struct agent_fail f;

	/* Perhaps this is a clone now, and a new host. */
	if (a->state == AGENT_PARKED) {
		say_hello(a);
	} else if (a->state != AGENT_GREETING) {
		agent_die(a, "second hello from the host");
		return;
	}
	if (h->magic != WIRE_MAGIC) {
		agent_die(a, "the host speaks another protocol (magic %08x)", h->magic);
	} else if (h->version < WIRE_OLDEST || h->oldest > WIRE_VERSION) {
		(void)agent_fail_set(&f, WIRE_FAIL_INVALID, 0, "hello", AGENT_BUILD,
			"no common protocol version: agent speaks %d to %d, host %u to %u",
			WIRE_OLDEST, WIRE_VERSION, h->oldest, h->version);
		agent_fail_send(a, 0, &f);
		agent_die(a, "%s", f.text);
	} else {
		a->state = AGENT_FRESH;
		agent_stage(a, "hello");
	}
}

static void dispatch(struct agent *a, const struct wire_msg *msg)
{
	if (a->state == AGENT_GREETING && msg->op != WIRE_OP_hello) {
		agent_die(a, "%s before hello", wire_op_name(msg->op));
		return;
	}
	if (a->state == AGENT_PARKED && msg->op != WIRE_OP_hello) {
		agent_die(a, "%s while parked", wire_op_name(msg->op));
		return;
	}
	switch (msg->op) {
	case WIRE_OP_hello:
		take_hello(a, &msg->hello);
		break;
	case WIRE_OP_setup:
		sys_setup(a, &msg->setup);
		break;
	case WIRE_OP_ping:
		sys_ping(a, msg);
		break;
	case WIRE_OP_shutdown:
		sys_shutdown(a, &msg->shutdown);
		break;
	case WIRE_OP_freeze:
		box_freeze(a, msg);
		break;
	case WIRE_OP_park:
		park_machine(a, msg->stream);
		break;
	case WIRE_OP_directories:
		directories_make(a, msg);
		break;
	case WIRE_OP_network:
		network_set(a, msg);
		break;
	case WIRE_OP_stats:
		box_stats(a, msg->stream);
		break;
	case WIRE_OP_exec:
		exec_request(a, msg);
		break;
	case WIRE_OP_signal:
		exec_signal(a, msg);
		break;
	case WIRE_OP_resize:
		exec_resize(a, msg);
		break;
	case WIRE_OP_credit:
		exec_credit(a, msg);
		break;
	case WIRE_OP_data:
		exec_data(a, msg);
		break;
	case WIRE_OP_eof:
		exec_eof(a, msg);
		break;
	default:
		agent_die(a, "operation %u is not handled", msg->op);
	}
}

/* Take at most one buffer of input. Returns true if more may be waiting. */
static bool serve_lane(struct agent *a, struct lane *l, const char *name)
{
	struct wire_msg msg;
	const int rc = lane_fill(l);

	/* What came before the end still counts. */
	while (a->state != AGENT_OVER && agent_can_reply(a)) {
		const enum wire_status st = lane_next(l, &msg);
		if (st == WIRE_OK) {
			dispatch(a, &msg);
			continue;
		}
		if (st == WIRE_MORE && rc < 0)
			agent_die(a, "%s lane: %s", name, rc == -EPIPE ? "closed" : strerror(-rc));
		else if (st != WIRE_MORE)
			agent_die(a, "%s lane: %s", name, wire_status_name(st));
		else if (a->state == AGENT_PARKED && l->kind == WIRE_BULK && lane_has_input(l))
			agent_die(a, "%s lane: bytes while parked", name);
		return l->readable;
	}
	return false;
}

/* The loop. */

static void on_control(struct watch *w, uint32_t events)
{
	struct agent *a = (struct agent *)((char *)w - offsetof(struct agent, control_watch));

	a->control.readable |= !!(events & (EPOLLIN | EPOLLHUP | EPOLLERR));
	a->control.writable |= !!(events & (EPOLLOUT | EPOLLHUP | EPOLLERR));
}

static void on_bulk(struct watch *w, uint32_t events)
{
	struct agent *a = (struct agent *)((char *)w - offsetof(struct agent, bulk_watch));

	a->bulk.readable |= !!(events & (EPOLLIN | EPOLLHUP | EPOLLERR));
	a->bulk.writable |= !!(events & (EPOLLOUT | EPOLLHUP | EPOLLERR));
}

static void on_child(struct watch *w, uint32_t events)
{
	struct agent *a = (struct agent *)((char *)w - offsetof(struct agent, child_watch));
	struct signalfd_siginfo info[8];

	(void)events;
	while (read(w->fd, info, sizeof(info)) > 0)
		;
	a->dead_waiting = true;
}

static void reap(struct agent *a)
{
	int status = 0;
	pid_t pid = 0;

	for (int i = 0; i < REAP_BUDGET; i++) {
		pid = waitpid(-1, &status, WNOHANG);
		if (pid <= 0) {
			a->dead_waiting = false;
			a->childless = pid < 0 && errno == ECHILD;
			return;
		}
		if (pid == a->late_pid)
			a->late_pid = 0;
		exec_reaped(a, pid, status);
	}
}

/* Modules wait, and nothing runs that they would disturb. */
static bool late_due(const struct agent *a)
{
	return a->state == AGENT_READY && a->n_late > 0 && !a->execs;
}

/* Until the next deadline; -1 = there is none. */
static int64_t timeout_us(struct agent *a, bool busy)
{
	uint64_t at = a->wake_us;

	if (busy)
		return 0;
	if (a->state == AGENT_LEAVING && (!at || a->leave_us < at))
		at = a->leave_us;
	if (a->freezing.until_us && (!at || a->freezing.until_us < at))
		at = a->freezing.until_us;
	if (late_due(a) && (!at || a->late_us < at))
		at = a->late_us;
	if (!at)
		return -1;
	const uint64_t now = agent_now_us();
	return at <= now ? 0 : (int64_t)(at - now);
}

/* The rests of exec_pump.c are shorter than the milliseconds of epoll_wait. */
static int wait_events(struct agent *a, struct epoll_event *ev, int max, int64_t us)
{
	const struct timespec ts = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
	int n = epoll_pwait2(a->epoll_fd, ev, max, us < 0 ? NULL : &ts, NULL);

	if (n < 0 && errno == ENOSYS) /* before Linux 5.11 */
		n = epoll_wait(a->epoll_fd, ev, max, us < 0 ? -1 : (int)((us + 999) / 1000));
	return n;
}

/* Nothing runs, and the host has all that there was. */
static bool all_told(const struct agent *a)
{
	return a->childless && !a->execs && a->bulk.out_head == a->bulk.out_tail;
}

static void turn(struct agent *a, bool *busy)
{
	struct epoll_event ev[16];
	const int n = wait_events(a, ev, 16, timeout_us(a, *busy));
	int rc = 0;

	for (int i = 0; i < n; i++) {
		struct watch *w = ev[i].data.ptr;
		w->fn(w, ev[i].events);
	}
	if (a->dead_waiting)
		reap(a);
	*busy = serve_lane(a, &a->control, "control");
	*busy |= serve_lane(a, &a->bulk, "bulk");

	const uint64_t now = agent_now_us();
	if (a->wake_us && a->wake_us <= now)
		exec_timers(a, now);
	if (a->freezing.until_us)
		box_freeze_turn(a, now);
	exec_run_queue(a, BULK_BUDGET);
	if ((rc = lane_flush(&a->control)) < 0 || (rc = lane_flush(&a->bulk)) < 0)
		agent_die(a, "cannot write to the host: %s", strerror(-rc));
	if (late_due(a) && a->late_us <= now)
		sys_load_late(a);
	*busy |= a->queue && a->control.writable && a->bulk.writable;
	*busy |= a->dead_waiting;
	if (a->orphan_reaped)
		exec_sweep(a);
	if (a->state == AGENT_LEAVING && (a->leave_us <= now || all_told(a)))
		a->state = AGENT_OVER;
}

static int prepare_loop(struct agent *a, int control_fd, int bulk_fd)
{
	sigset_t set;
	int rc = 0;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);

	if ((rc = lane_init(&a->control, WIRE_CONTROL, control_fd, CONTROL_IN, CONTROL_OUT)) < 0 ||
		(rc = lane_init(&a->bulk, WIRE_BULK, bulk_fd, BULK_IN, BULK_OUT)) < 0)
		return rc;
	a->control.live = a->bulk.live = a->fake; /* sockets are open from the start */
	a->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	const int sig_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (a->epoll_fd < 0 || sig_fd < 0)
		return -errno;
	a->child_watch.fn = on_child;
	a->control_watch.fn = on_control;
	a->bulk_watch.fn = on_bulk;
	if ((rc = agent_watch(a, &a->child_watch, sig_fd, EPOLLIN)) < 0 ||
		(rc = agent_watch(a, &a->control_watch, control_fd, EPOLLIN | EPOLLOUT)) < 0 ||
		(rc = agent_watch(a, &a->bulk_watch, bulk_fd, EPOLLIN | EPOLLOUT)) < 0)
		return rc;
	return 0;
}

/* The lanes come as descriptors 3 and 4 or the like from the process that started us. */
static int take_fd(const char *arg)
{
	char *end = NULL;
	const long fd = strtol(arg, &end, 10);

	if (*end || fd < 3 || fd > 1024 || fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
		return -EBADF;
	(void)fcntl((int)fd, F_SETFL, fcntl((int)fd, F_GETFL) | O_NONBLOCK);
	return (int)fd;
}

int main(int argc, char **argv)
{
	static struct agent agent = {.epoll_fd = -EBADF,
		.kmsg_fd = -EBADF,
		.disk_fd = -EBADF,
		.cgroup_fd = -EBADF,
		.card_fd = -EBADF};
	struct agent *a = &agent;
	int control_fd = -EBADF;
	int bulk_fd = -EBADF;
	bool busy = true;
	int rc = 0;

	a->queue_end = &a->queue;
	a->freezing.watch.fd = -EBADF;
	a->fake = argc == 4 && strcmp(argv[1], "--fake") == 0;
	a->bare = park_is_bare();
	if (a->fake) {
		a->kmsg_fd = 2;
		control_fd = take_fd(argv[2]);
		bulk_fd = take_fd(argv[3]);
		(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
		if (control_fd < 0 || bulk_fd < 0)
			rc = -EBADF;
	} else if (getpid() == 1) {
		(void)setrlimit(RLIMIT_NOFILE, &(struct rlimit){NOFILE, NOFILE});
		(void)setpriority(PRIO_PROCESS, 0, -20);
		rc = boot_machine(a, &control_fd, &bulk_fd);
	} else {
		static const char usage[] = "usage: holt-agent --fake CONTROL_FD BULK_FD\n";
		(void)!write(2, usage, sizeof(usage) - 1);
		return 2;
	}
	if (rc == 0)
		rc = prepare_loop(a, control_fd, bulk_fd);
	if (rc < 0) {
		a->state = AGENT_GREETING;
		agent_die(a, "cannot start: %s", strerror(-rc));
		sys_end(a);
	}
	say_hello(a);
	/* While the host reads that and answers, the mounts can begin. */
	turn(a, &busy);
	sys_prepare(a);
	while (a->state != AGENT_OVER)
		turn(a, &busy);
	sys_end(a);
}
