/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_child.h"

#include "builtin.h"
#include "cgroup.h"
#include "exec_user.h"
#include "guest_mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <limits.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * The forked child on its way to the program. The agent has no threads and no locks, so the child
 * may allocate and read files: looking up the user and making the working directory happen here,
 * where only this exec waits if a file system hangs. What goes wrong is reported as one record on
 * the report pipe.
 *
 * Which errors mean "not found" (127) and which "cannot be executed" (126) follows the shells, with
 * one refinement: a file that exists, but whose interpreter does not, was found.
 */

#define REPORT_FD    3
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define NOFILE_SOFT  1024 /* what select() can take; a program that wants more raises it */
#define NOFILE_HARD  524288

static void fail(const struct agent_fail *f) __attribute__((noreturn));
static void fail(const struct agent_fail *f)
{
	(void)!write(REPORT_FD, f, sizeof(*f));
	_exit(127);
}

static void take_descriptors(const struct exec_child *c)
{
	for (int i = 0; i < 3; i++)
		(void)dup2(c->std_fds[i], i);
	if (c->report_fd == REPORT_FD)
		return;
	(void)dup3(c->report_fd, REPORT_FD, O_CLOEXEC);
}

static void reset_signals(void)
{
	sigset_t none;

	/* No other was ever changed. */
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

void exec_child_settle(bool fake)
{
	(void)setsid();
	(void)umask(0022);
	reset_signals();
	if (fake) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	} else {
		(void)setpriority(PRIO_PROCESS, 0, 0);
		(void)setrlimit(RLIMIT_NOFILE, &(struct rlimit){NOFILE_SOFT, NOFILE_HARD});
	}
}

static int make_directories(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		const int rc = mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
		*slash = '/';
		if (rc < 0)
			return rc;
	}
	return mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

/* The request's working directory as a string; "/" where it names none. */
static void copy_cwd(const struct wire_exec *req, char path[PATH_MAX])
{
	struct agent_fail f;

	if (agent_copy_str(path, PATH_MAX, &req->cwd) < 0) {
		(void)agent_fail_set(&f, WIRE_FAIL_CWD, ENAMETOOLONG, "cwd", "",
			"cannot use the working directory");
		fail(&f);
	}
	if (!*path)
		memcpy(path, "/", 2);
	if (*path != '/') {
		(void)agent_fail_set(&f, WIRE_FAIL_CWD, EINVAL, "cwd", path,
			"the working directory '%s' is not an absolute path", path);
		fail(&f);
	}
}

static void fail_cwd(const char *path, int errnum) __attribute__((noreturn));
static void fail_cwd(const char *path, int errnum)
{
	struct agent_fail f;

	(void)agent_fail_set(
		&f, WIRE_FAIL_CWD, errnum, "cwd", path, "cannot enter the directory '%s'", path);
	fail(&f);
}

/* As root first and then as the user: one of them may see a directory that the other may not. */
static void enter(const struct wire_exec *req, const struct exec_user *user, bool change_user)
{
	char path[PATH_MAX];
	int errnum = 0;
	struct agent_fail f;

	copy_cwd(req, path);
	if (req->flags & WIRE_EXEC_MKCWD)
		errnum = -make_directories(path);
	if (errnum == 0 && chdir(path) < 0)
		errnum = errno;
	if (errnum && errnum != EACCES && errnum != EPERM)
		fail_cwd(path, errnum);
	if (change_user && (setgroups(user->n_groups, user->groups) < 0 ||
				   setresgid(user->gid, user->gid, user->gid) < 0 ||
				   setresuid(user->uid, user->uid, user->uid) < 0)) {
		(void)agent_fail_set(&f, WIRE_FAIL_USER, errno, "user", "",
			"cannot become user %u, group %u", user->uid, user->gid);
		fail(&f);
	}
	if (errnum && chdir(path) < 0)
		fail_cwd(path, errnum);
}

/* The value of @key in @env, or NULL. */
static const char *env_get(char *const *env, const char *key)
{
	const size_t len = strlen(key);

	for (; *env; env++)
		if (strncmp(*env, key, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

static char **copy_list(const struct wire_strs *strs, size_t spare)
{
	char **list = gmem_array((size_t)strs->count + spare + 1, sizeof(*list));
	uint32_t pos = 0;
	struct agent_fail f;

	if (!list) {
		(void)agent_fail_set(&f, WIRE_FAIL_LIMIT, ENOMEM, "exec", "", "cannot start");
		fail(&f);
	}
	for (uint32_t i = 0; i < strs->count; i++) {
		/* execve wants char *; it changes nothing. */
		union {
			const char *in;
			char *out;
		} s = {.in = wire_strs_next(strs, &pos)};
		list[i] = s.out;
	}
	return list;
}

static char **make_env(const struct wire_exec *req, const struct exec_user *user)
{
	static char home[sizeof(user->home) + 8];
	static char path[] = "PATH=" DEFAULT_PATH;
	static char term[] = "TERM=xterm";
	char **env = copy_list(&req->env, 3);
	size_t n = req->env.count;
	struct agent_fail f;

	for (char **e = env; *e; e++)
		if (**e == '=' || !strchr(*e, '=')) {
			(void)agent_fail_set(&f, WIRE_FAIL_INVALID, 0, "exec", *e,
				"an environment entry is not of the form KEY=VALUE");
			fail(&f);
		}
	if (!env_get(env, "PATH"))
		env[n++] = path;
	if ((req->flags & WIRE_EXEC_TTY) && !env_get(env, "TERM"))
		env[n++] = term;
	if (!env_get(env, "HOME")) {
		(void)snprintf(home, sizeof(home), "HOME=%s", user->home);
		env[n++] = home;
	}
	return env;
}

/* Try one file. Returns false if there is none; else @f tells why it cannot be executed, and
 * *ret_errnum is the errno. */
static bool try_exec(const char *path, char *const *argv, char *const *env, struct agent_fail *f,
	int *ret_errnum)
{
	struct stat st;
	uint16_t class = WIRE_FAIL_NOT_EXEC;

	(void)execve(path, argv, env);
	int errnum = errno;
	const bool there = stat(path, &st) == 0;

	if (!there && errnum != EACCES)
		return false;
	if (errnum == ENOENT || errnum == ENOTDIR) {
		(void)agent_fail_set(f, class, errnum, "exec", path,
			"cannot execute '%s', its interpreter is missing", path);
		*ret_errnum = errnum;
		return true;
	}
	if (errnum == ENOMEM || errnum == EAGAIN)
		class = WIRE_FAIL_LIMIT;
	if (errnum == EACCES && there && S_ISDIR(st.st_mode))
		errnum = EISDIR;
	(void)agent_fail_set(f, class, errnum, "exec", path, "cannot execute '%s'", path);
	*ret_errnum = errnum;
	return true;
}

/* Walk PATH; the first file that was found decides how the failure is told. */
static void search_exec(char *const *argv, char *const *env, struct agent_fail *f)
{
	char path[PATH_MAX];
	const char *dir = env_get(env, "PATH");
	bool found = false;
	int errnum = 0;
	struct agent_fail this;

	while (dir) {
		const int len = (int)strcspn(dir, ":");
		const int n = len ? snprintf(path, sizeof(path), "%.*s/%s", len, dir, argv[0])
				  : snprintf(path, sizeof(path), "./%s", argv[0]);
		if (n < (int)sizeof(path) && try_exec(path, argv, env, &this, &errnum)) {
			if (!found)
				*f = this;
			found = true;
			if (errnum != EACCES && errnum != EISDIR)
				break;
		}
		dir = dir[len] ? dir + len + 1 : NULL;
	}
	if (!found)
		(void)agent_fail_set(f, WIRE_FAIL_NOT_FOUND, ENOENT, "exec", argv[0],
			"'%s' is not in the PATH of the program", argv[0]);
}

static void run(char *const *argv, char *const *env)
{
	struct agent_fail f;
	int errnum = 0;

	if (!*argv[0])
		(void)agent_fail_set(&f, WIRE_FAIL_NOT_FOUND, ENOENT, "exec", "",
			"the name of the program is empty");
	else if (!strchr(argv[0], '/'))
		search_exec(argv, env, &f);
	else if (!try_exec(argv[0], argv, env, &f, &errnum))
		(void)agent_fail_set(&f, WIRE_FAIL_NOT_FOUND, ENOENT, "exec", argv[0],
			"cannot execute '%s'", argv[0]);
	fail(&f);
}

static void run_builtin(const struct wire_exec *req, char *const *argv)
{
	const struct builtin *b = builtin_find(argv[0]);
	struct agent_fail f;

	if (!b) {
		(void)agent_fail_set(&f, WIRE_FAIL_NOT_FOUND, ENOENT, "exec", argv[0],
			"this agent has no function '%s'", argv[0]);
		fail(&f);
	}
	(void)close(REPORT_FD); /* as a successful execve does */
	_exit(b->run((int)req->argv.count, argv));
}

/* Programs that reopen /dev/stdout need the pipe to be theirs; a terminal keeps its group. */
static void give_pipes(const struct exec_user *user, bool tty)
{
	struct stat st;

	if (tty) {
		(void)!fchown(0, user->uid, (gid_t)-1);
		return;
	}
	for (int fd = 0; fd < 3; fd++)
		if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode))
			(void)!fchown(fd, user->uid, user->gid);
}

void exec_child_run(const struct exec_child *c)
{
	/* Not on the stack: it is large. */
	static struct exec_user user;
	struct agent_fail f;
	const bool change_user = !c->fake || c->req->user.len > 0;
	const bool tty = c->req->flags & WIRE_EXEC_TTY;

	if (c->cgroup_fd >= 0)
		(void)cgroup_enter(c->cgroup_fd);
	take_descriptors(c);
	(void)syscall(SYS_close_range, REPORT_FD + 1, ~0u, 0);
	exec_child_settle(c->fake);
	if (tty)
		(void)ioctl(0, TIOCSCTTY, 0);

	if (exec_user_find(&c->req->user, &user, &f) < 0)
		fail(&f);
	char **argv = copy_list(&c->req->argv, 0);
	char **env = make_env(c->req, &user);
	if (change_user)
		give_pipes(&user, tty);
	enter(c->req, &user, change_user);
	if (c->req->flags & WIRE_EXEC_BUILTIN)
		run_builtin(c->req, argv);
	run(argv, env);
	_exit(127);
}
