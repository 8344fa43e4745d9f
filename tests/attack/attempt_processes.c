/* SPDX-License-Identifier: Apache-2.0 */
/* What an intruder tries with processes: to make some, to look into others, to signal them. */
#include "attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vmm/qemu_argv.h"

static long victim(void)
{
	return prey_number("victim");
}

/* The keeper made the socket; 0 where it cannot be seen. */
static long keeper(void)
{
	struct ucred peer = {0};
	socklen_t len = sizeof peer;

	(void)CALL(SYS_getsockopt, (long)QEMU_FD_QMP, (long)SOL_SOCKET, (long)SO_PEERCRED,
		word(&peer), word(&len));
	return peer.pid;
}

static long look(long pid)
{
	return pid > 0 ? pid : -ESRCH;
}

/* ---- others ---- */

static long signal_to(long pid)
{
	return look(pid) < 0 ? look(pid) : CALL(SYS_kill, pid, 0L);
}

static long signal_victim(void)
{
	return signal_to(victim());
}

static long signal_keeper(void)
{
	return signal_to(keeper());
}

/* Whoever it may, but init. */
static long signal_all(void)
{
	return CALL(SYS_kill, -1L, 0L);
}

static long signal_thread(void)
{
	return CALL(SYS_tgkill, victim(), victim(), 0L);
}

static long signal_thread_only(void)
{
	return CALL(SYS_tkill, victim(), 0L);
}

static long queue_signal(void)
{
	siginfo_t info = {.si_code = SI_QUEUE};

	return CALL(SYS_rt_sigqueueinfo, victim(), 0L, word(&info));
}

static long signal_by_descriptor(void)
{
	const long fd = CALL(SYS_pidfd_open, victim(), 0L);
	const long r = fd < 0 ? fd : CALL(SYS_pidfd_send_signal, fd, 0L, 0L, 0L);

	if (fd >= 0)
		(void)CALL(SYS_close, fd);
	return r;
}

static long steal_descriptor(void)
{
	const long fd = CALL(SYS_pidfd_open, victim(), 0L);
	const long r = fd < 0 ? fd : CALL(SYS_pidfd_getfd, fd, 1L, 0L);

	if (fd >= 0)
		(void)CALL(SYS_close, fd);
	return r;
}

static long trace(long pid)
{
	return look(pid) < 0 ? look(pid) : CALL(SYS_ptrace, (long)PTRACE_SEIZE, pid, 0L, 0L);
}

static long trace_victim(void)
{
	return trace(victim());
}

static long trace_keeper(void)
{
	return trace(keeper());
}

static long read_memory(long pid)
{
	char mine[16];
	const struct iovec to = {mine, sizeof mine};
	/* Where it lies there is known to the test alone. */
	char *theirs = (char *)(uintptr_t)(unsigned long)prey_number("victim-memory");
	const struct iovec from = {theirs, sizeof mine};

	return look(pid) < 0 ? look(pid)
			     : CALL(SYS_process_vm_readv, pid, word(&to), 1L, word(&from), 1L, 0L);
}

static long read_victim_memory(void)
{
	return read_memory(victim());
}

static long limit_victim(void)
{
	struct rlimit now;
	const long r = CALL(SYS_prlimit64, victim(), (long)RLIMIT_CORE, 0L, word(&now));

	return r < 0 ? r : CALL(SYS_prlimit64, victim(), (long)RLIMIT_CORE, word(&now), 0L);
}

/* ---- new ones ---- */

static void end_child(void)
{
	for (;;)
		(void)CALL(SYS_exit_group, 0L);
}

static long end_of(long pid)
{
	if (pid == 0)
		end_child();
	if (pid > 0)
		(void)CALL(SYS_wait4, pid, 0L, (long)__WALL, 0L);
	return pid;
}

static long make_process(void)
{
	return end_of(CALL(SYS_fork));
}

static long make_process_by_clone(void)
{
	return end_of(CALL(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L));
}

static long make_process_by_clone3(void)
{
	const struct clone_args args = {.exit_signal = SIGCHLD};

	return end_of(CALL(SYS_clone3, word(&args), (long)sizeof args));
}

/* The way to every privilege there is, within. */
static long make_namespaces(void)
{
	return end_of(
		CALL(SYS_clone, (long)(CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD), 0L, 0L, 0L, 0L));
}

/* The program writes "execute DONE" to the descriptor whose number it is given. */
static long run(const char *name, int dirfd, const char *path, int flags)
{
	char number[16];
	char *argv[] = {(char *)(uintptr_t) "intruder", (char *)(uintptr_t)name, number, NULL};
	char *env[] = {NULL};

	/* Not to be closed, and to write at its end. */
	(void)CALL(SYS_lseek, (long)held_disk, 0L, (long)SEEK_END);
	const long fd = CALL(SYS_dup, (long)held_disk);
	(void)snprintf(number, sizeof number, "%ld", fd);
	const long r = CALL(
		SYS_execveat, (long)dirfd, word(path), word(argv), word(env), (long)flags);
	(void)CALL(SYS_close, fd);
	return r;
}

/* The last ones: where they succeed, the intruder is gone, with the program in its place. */
static long execute(void)
{
	return run("execute", AT_FDCWD, prey("program"), 0);
}

static long execute_made(void)
{
	const long fd = CALL(SYS_memfd_create, word("intruder"), 0L);

	if (fd < 0)
		return fd;
	/* A script is a program, too; its interpreter is the one that the test knows. */
	char text[1024];
	const int n = snprintf(text, sizeof text, "#!%s execute-made\n", prey("program"));
	(void)CALL(SYS_write, fd, word(text), (long)n);
	const long r = run("execute-made", (int)fd, "", AT_EMPTY_PATH);
	(void)CALL(SYS_close, fd);
	return r;
}

const struct attempt process_attempts[] = {
	{"signal-victim", signal_victim},
	{"signal-keeper", signal_keeper},
	{"signal-all", signal_all},
	{"signal-thread", signal_thread},
	{"signal-thread-only", signal_thread_only},
	{"queue-signal", queue_signal},
	{"signal-by-descriptor", signal_by_descriptor},
	{"steal-descriptor", steal_descriptor},
	{"trace-victim", trace_victim},
	{"trace-keeper", trace_keeper},
	{"read-victim-memory", read_victim_memory},
	{"limit-victim", limit_victim},
	{"make-process", make_process},
	{"make-process-by-clone", make_process_by_clone},
	{"make-process-by-clone3", make_process_by_clone3},
	{"make-namespaces", make_namespaces},
	{"execute", execute},
	{"execute-made", execute_made},
	{NULL, NULL},
};
