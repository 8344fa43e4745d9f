/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting processes, theory of operation.
 *
 * The child is made by clone with a pidfd and without an exit signal: until it calls exec, the
 * host program's SIGCHLD handler and its waitpid(-1) do not see it. It is the old call, since
 * filters of containers, which cannot look into the argument of clone3, answer that it does not
 * exist. All signals are blocked around the clone, so that no handler of the host program runs in
 * the child, which then resets every action and the mask. The child reports on a close-on-exec
 * pipe: records of what happened, then end-of-file when exec has worked. Only async-signal-safe
 * calls are made there; child_*() functions run in the child.
 */
#define HOLT_ALLOW_FORK
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

#define PROC_FDS_MAX    32
#define PROC_OUTPUT_MAX 65536u
/* Descriptors are first moved above this, so that no target number is overwritten too early. */
#define PROC_FD_SAFE 32
#define PROC_NOFILE  1024 /* what a child may open, where the caller's hard limit allows it */

enum step {
	STEP_PID,
	STEP_FDS,
	STEP_DETACH,
	STEP_SIZE,
	STEP_PRIVS,
	STEP_ENTER,
	STEP_PARENT,
	STEP_EXEC
};

static const char *const step_names[] = {
	[STEP_PID] = "pid",
	[STEP_FDS] = "descriptors",
	[STEP_DETACH] = "detach",
	[STEP_SIZE] = "file size",
	[STEP_PRIVS] = "privileges",
	[STEP_ENTER] = "jail",
	[STEP_PARENT] = "parent",
	[STEP_EXEC] = "exec",
};

struct record {
	int step;
	int value; /* errno, or a pid */
	const char *text; /* of STEP_ENTER: a literal, which lies in both processes at one place */
};

struct child_args {
	const struct proc_spec *spec;
	int report;
	pid_t parent;
};

/* As the system call has it, not the function of the same name: the child goes on from here, on a
 * copy of this stack. */
static pid_t clone_child(uint64_t flags, int *ret_pidfd)
{
	return (pid_t)syscall(SYS_clone, flags | CLONE_PIDFD, NULL, ret_pidfd, NULL, 0L);
}

static void __attribute__((noreturn)) child_stand_before(pid_t pid)
{
	int status = 0;

	(void)syscall(SYS_close_range, 0u, ~0u, 0u);
	while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
		continue;
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void child_report(const struct child_args *a, enum step step, int value)
{
	const struct record rec = {.step = (int)step, .value = value};

	(void)!write(a->report, &rec, sizeof rec);
}

static void __attribute__((noreturn)) child_fail(const struct child_args *a, enum step step)
{
	child_report(a, step, errno);
	_exit(127);
}

static void child_signals(void)
{
	struct sigaction dfl;
	sigset_t none;

	memset(&dfl, 0, sizeof dfl);
	dfl.sa_handler = SIG_DFL;
	for (int sig = 1; sig < NSIG; sig++)
		(void)sigaction(sig, &dfl, NULL);
	(void)sigemptyset(&none);
	(void)pthread_sigmask(SIG_SETMASK, &none, NULL);
}

static void child_cloexec_all(void)
{
	if (syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
		return;
	struct rlimit lim = {.rlim_cur = 65536};
	(void)getrlimit(RLIMIT_NOFILE, &lim);
	for (int fd = 3; (rlim_t)fd < lim.rlim_cur; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* The caller's own limit may be a small one. */
static void child_allow_fds(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0 || lim.rlim_cur >= PROC_NOFILE)
		return;
	const struct rlimit more = {.rlim_cur = PROC_NOFILE,
		.rlim_max = lim.rlim_max > PROC_NOFILE ? lim.rlim_max : PROC_NOFILE};
	const struct rlimit most = {.rlim_cur = lim.rlim_max, .rlim_max = lim.rlim_max};
	if (setrlimit(RLIMIT_NOFILE, &more) < 0)
		(void)setrlimit(RLIMIT_NOFILE, &most);
}

static int child_safe_fd(struct child_args *a, int fd)
{
	const int safe = fcntl(fd, F_DUPFD_CLOEXEC, PROC_FD_SAFE);

	if (safe < 0) {
		if (errno == EINVAL)
			errno = EMFILE; /* the number is above the limit */
		child_fail(a, STEP_FDS);
	}
	return safe;
}

static void child_fds(struct child_args *a)
{
	int safe[PROC_FDS_MAX];

	child_allow_fds();
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		child_fail(a, STEP_FDS);
	a->report = child_safe_fd(a, a->report);
	for (size_t i = 0; i < a->spec->n_fds; i++)
		safe[i] = child_safe_fd(a, a->spec->fds[i].from);
	child_cloexec_all();
	for (int fd = 0; fd < 3; fd++) {
		if (fd == null ? fcntl(fd, F_SETFD, 0) < 0 : dup2(null, fd) < 0)
			child_fail(a, STEP_FDS);
	}
	for (size_t i = 0; i < a->spec->n_fds; i++) {
		if (dup2(safe[i], a->spec->fds[i].to) < 0)
			child_fail(a, STEP_FDS);
	}
}

static void child_limits(const struct child_args *a)
{
	const struct proc_spec *s = a->spec;
	const struct rlimit none = {0};
	const struct rlimit size = {.rlim_cur = s->max_file_bytes, .rlim_max = s->max_file_bytes};

	if ((s->flags & PROC_NOCORE) && setrlimit(RLIMIT_CORE, &none) < 0)
		child_fail(a, STEP_PRIVS);
	if (s->max_file_bytes && setrlimit(RLIMIT_FSIZE, &size) < 0) {
		errno = EFBIG;
		child_fail(a, STEP_SIZE);
	}
	if ((s->flags & PROC_NOPRIVS) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		child_fail(a, STEP_PRIVS);
}

static void child_enter(const struct child_args *a)
{
	const struct proc_spec *s = a->spec;
	const char *step = "";

	if (!s->enter)
		return;
	const int r = s->enter(s->enter_user, &step);
	if (r < 0) {
		const struct record rec = {.step = STEP_ENTER, .value = -r, .text = step};

		(void)!write(a->report, &rec, sizeof rec);
		_exit(127);
	}
}

/* In a pid namespace of its own a child has no parent that it could name; there the other end of
 * the pipe tells. */
static bool child_has_parent(const struct child_args *a)
{
	struct pollfd pfd = {.fd = a->report};

	if (!(a->spec->clone_flags & CLONE_NEWPID))
		return getppid() == a->parent;
	return poll(&pfd, 1, 0) == 0;
}

/* The kernel forgets the signal with each change of the user, so it comes after the jail. */
static void child_deathsig(const struct child_args *a)
{
	if (!(a->spec->flags & PROC_DEATHSIG))
		return;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		child_fail(a, STEP_PARENT);
	if (!child_has_parent(a)) {
		errno = ESRCH;
		child_fail(a, STEP_PARENT);
	}
}

static void __attribute__((noreturn)) child_main(struct child_args *a)
{
	static char *const no_env[] = {NULL};
	const struct proc_spec *s = a->spec;

	child_signals();
	if (s->flags & PROC_DETACH) {
		if (setsid() < 0)
			child_fail(a, STEP_DETACH);
		int unused = -1;
		const pid_t pid = clone_child(0, &unused);
		if (pid < 0)
			child_fail(a, STEP_DETACH);
		if (pid > 0)
			_exit(0);
		child_report(a, STEP_PID, getpid());
	} else {
		(void)setpgid(0, 0);
	}
	if (s->flags & PROC_HIDDEN) {
		int unused = -1;
		const pid_t pid = clone_child(0, &unused);

		if (pid < 0)
			child_fail(a, STEP_DETACH);
		if (pid > 0)
			child_stand_before(pid);
		a->parent = getppid();
	}
	child_fds(a);
	child_limits(a);
	child_enter(a);
	child_deathsig(a);
	/* exec takes pointers to non-const for historic reasons and changes nothing. */
	union {
		const char *const *in;
		char *const *out;
	} argv = {.in = s->argv}, env = {.in = s->env};
	(void)execve(s->path, argv.out, s->env ? env.out : no_env);
	child_fail(a, STEP_EXEC);
}

static int step_failed(const struct record *rec, const char *path, holt_error **reterr)
{
	const int code = err_errno(reterr, rec->value, "cannot start '%s' (%s)", path,
		rec->text ? rec->text : step_names[rec->step]);

	if (rec->step == STEP_SIZE)
		err_hint(reterr, "allow files as large as the disk (ulimit -f)");
	return code;
}

/* Read the child's records until exec closes the pipe. */
static int read_report(int fd, const char *path, struct proc *p, holt_error **reterr)
{
	struct record rec;
	int r = 0;

	while (fd_read_full(fd, &rec, sizeof rec) == (ssize_t)sizeof rec) {
		if (rec.step == STEP_PID)
			p->pid = rec.value;
		else if (r == 0)
			r = step_failed(&rec, path, reterr);
	}
	return r;
}

int proc_spawn(const struct proc_spec *spec, struct proc *ret, holt_error **reterr)
{
	struct proc p = {.pidfd = FD_NONE};
	int report[2];
	sigset_t all;
	sigset_t before;

	if (spec->n_fds > PROC_FDS_MAX)
		return err_make(reterr, HOLT_EINTERNAL, "too many descriptors for a child");
	for (size_t i = 0; i < spec->n_fds; i++) {
		if (spec->fds[i].to >= PROC_FD_SAFE)
			return err_make(
				reterr, HOLT_EINTERNAL, "a child's descriptor is too large");
	}
	int r = fd_pipe(report);
	if (r < 0)
		return err_errno(reterr, -r, "cannot make a pipe");
	auto_fd report_read = report[0];
	struct child_args args = {.spec = spec, .report = report[1], .parent = getpid()};
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	p.pid = clone_child(spec->clone_flags, &p.pidfd);
	if (p.pid == 0)
		child_main(&args);
	const int clone_errno = errno;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)fd_close(report[1]);
	if (p.pid < 0)
		return err_errno(reterr, clone_errno, "cannot start '%s'", spec->path);
	const pid_t first = p.pid;
	r = read_report(report_read, spec->path, &p, reterr);
	if (r < 0 || (spec->flags & PROC_DETACH)) {
		(void)proc_wait(first, NULL);
		p.pidfd = fd_close(p.pidfd);
	}
	if (r == 0)
		*ret = p;
	return r;
}

int proc_wait(pid_t pid, int *ret_status)
{
	int status = 0;

	while (waitpid(pid, &status, __WALL) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	if (ret_status)
		*ret_status = status;
	return 0;
}

/* Collect output until end-of-file or the deadline; returns 0 or -ETIMEDOUT or -errno. */
static int collect(int fd, uint64_t deadline_ms, struct buf *out)
{
	char chunk[4096];

	for (;;) {
		const uint64_t now = clock_mono_ms();
		struct pollfd pfd = {.fd = fd, .events = POLLIN};
		if (now >= deadline_ms)
			return -ETIMEDOUT;
		const int n = poll(&pfd, 1, (int)(deadline_ms - now));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n <= 0)
			continue;
		const ssize_t got = read(fd, chunk, sizeof chunk);
		if (got == 0)
			return 0;
		if (got > 0)
			(void)!buf_append(out, chunk, (size_t)got); /* over the limit: dropped */
	}
}

int proc_run(const char *path, const char *const *argv, unsigned timeout_ms, char **ret_output,
	holt_error **reterr)
{
	int out[2];
	int status = 0;
	auto_buf text = BUF_INIT(PROC_OUTPUT_MAX);
	int r = fd_pipe(out);

	if (r < 0)
		return err_errno(reterr, -r, "cannot make a pipe");
	auto_fd out_read = out[0];
	static const char *const env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL};
	const struct proc_fd fds[] = {{out[1], 1}, {out[1], 2}};
	const struct proc_spec spec = {.path = path,
		.argv = argv,
		.env = env,
		.fds = fds,
		.n_fds = 2,
		.flags = PROC_DEATHSIG | PROC_HIDDEN | PROC_NOPRIVS | PROC_NOCORE};
	struct proc p = {.pidfd = FD_NONE};
	r = proc_spawn(&spec, &p, reterr);
	(void)fd_close(out[1]);
	if (r < 0)
		return r;
	const int waited = collect(out_read, clock_mono_ms() + timeout_ms, &text);
	if (waited < 0)
		(void)syscall(SYS_pidfd_send_signal, p.pidfd, SIGKILL, NULL, 0);
	(void)proc_wait(p.pid, &status);
	(void)fd_close(p.pidfd);
	char *safe = mem_zalloc(4 * text.len + 1);
	if (!safe)
		return err_nomem(reterr);
	(void)str_escape(safe, 4 * text.len + 1, text.data, text.len, true);
	if (waited == -ETIMEDOUT)
		r = err_make(
			reterr, HOLT_ETIMEOUT, "'%s' did not end within %u ms", path, timeout_ms);
	else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		r = err_make(reterr, HOLT_EIO, "'%s' failed with status %d: %.512s", path,
			WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), safe);
	if (ret_output)
		*ret_output = safe;
	else
		mem_free(safe);
	return r;
}

/* The child of a trial: nothing is executed. */
static void __attribute__((noreturn)) child_trial(struct child_args *a)
{
	child_signals();
	child_limits(a);
	child_enter(a);
	_exit(0);
}

int proc_try(const struct proc_spec *spec, const char **ret_step)
{
	struct record rec = {0};
	int report[2];
	int unused = FD_NONE;
	sigset_t all;
	sigset_t before;
	const int piped = fd_pipe(report);

	*ret_step = "pipe";
	if (piped < 0)
		return piped;
	struct child_args args = {.spec = spec, .report = report[1], .parent = getpid()};
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	const pid_t pid = clone_child(spec->clone_flags, &unused);
	if (pid == 0)
		child_trial(&args);
	const int cloned = pid < 0 ? -errno : 0;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)fd_close(report[1]);
	(void)fd_close(unused);
	const bool told = pid > 0 &&
			  fd_read_full(report[0], &rec, sizeof rec) == (ssize_t)sizeof rec;
	(void)fd_close(report[0]);
	if (cloned < 0) {
		*ret_step = PROC_STEP_CLONE;
		return cloned;
	}
	int status = 0;
	const int waited = proc_wait(pid, &status);
	*ret_step = rec.text ? rec.text : step_names[told ? rec.step : STEP_ENTER];
	if (told)
		return -rec.value;
	/* Killed, which a filter may do. */
	return waited < 0 ? waited : status ? -ECHILD : 0;
}

int proc_try_clone(uint64_t flags)
{
	const struct proc_spec spec = {.clone_flags = flags};
	const char *step = "";

	return proc_try(&spec, &step);
}
