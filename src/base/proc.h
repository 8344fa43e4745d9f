/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PROC_H
#define BASE_PROC_H

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

/*
 * The only place that starts processes. The child gets exactly the descriptors that are listed
 * (0, 1, 2 are /dev/null unless listed), an empty signal mask, default signal actions, and the
 * environment given. Between fork and exec only async-signal-safe calls are made; a failure there
 * comes back as an errno with the step that failed.
 */
struct proc_fd {
	int from; /* descriptor of the caller */
	int to; /* its number in the child */
};

enum proc_flags {
	PROC_DEATHSIG = 1 << 0, /* SIGKILL when the spawning *thread* ends */
	PROC_DETACH = 1 << 2, /* double fork and own session: the child is nobody's child */
	PROC_NOPRIVS = 1 << 3, /* no_new_privs */
	PROC_NOCORE = 1 << 4, /* no core file */
	PROC_HIDDEN = 1 << 5, /* behind a process of ours that never calls exec and passes the
				 status on as an exit code: the host program's SIGCHLD handler and
				 its waitpid(-1) do not see it (exec makes any child visible) */
};

struct proc_spec {
	const char *path; /* program, absolute; required */
	const char *const *argv; /* NULL-terminated; required */
	const char *const *env; /* NULL-terminated; NULL = empty environment */
	const struct proc_fd *fds;
	size_t n_fds;
	unsigned flags;
	uint64_t max_file_bytes; /* RLIMIT_FSIZE; 0 leaves it alone */
	uint64_t clone_flags; /* CLONE_NEW*: the child begins in such namespaces of its own */
	/* Called in the child as the last thing before exec, with all descriptors in place; makes
	 * async-signal-safe calls only. 0, or -errno with the step that failed in *ret_step (a
	 * literal), which fails proc_spawn. May be NULL. */
	int (*enter)(void *user, const char **ret_step);
	void *enter_user;
};

struct proc {
	pid_t pid;
	int pidfd; /* readable when the process has ended; FD_NONE with PROC_DETACH */
};

int proc_spawn(const struct proc_spec *spec, struct proc *ret, holt_error **reterr);

/* Reap a child that has ended or wait for it: 0 and the wait status, or -errno. */
int proc_wait(pid_t pid, int *ret_status);

/* Run a program to its end with a deadline, its stdout and stderr together captured into
 * @ret_output (at most 64 KiB kept, escaped, fresh memory; NULL allowed). Kills it at the deadline.
 * Returns 0 only for exit status 0. */
int proc_run(const char *path, const char *const *argv, unsigned timeout_ms, char **ret_output,
	holt_error **reterr);

/* Whether a child would come as far as its exec: it is made, calls @spec's enter and ends; its
 * descriptors stay the caller's. 0, or -errno with the step that failed, PROC_STEP_CLONE where
 * there was no child. */
#define PROC_STEP_CLONE "clone"
int proc_try(const struct proc_spec *spec, const char **ret_step);

/* Whether a child may be made with these CLONE_NEW* @flags: 0 or -errno. It ends at once. */
int proc_try_clone(uint64_t flags);

#endif
