/* SPDX-License-Identifier: Apache-2.0 */
/* The jail: what is enough, what a process inside can still do, on this host and without layers. */
#include "vmm/jail_inside.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/proc.h"

#define FIRST_OWN_UID 0x78000000u

static const char *weak = "nothing";

/* In the place of the one that ships. */
const char *jail_weakness(void)
{
	return weak;
}

static void setup(void)
{
	weak = "nothing";
}

static struct jail lacking(enum jail_kind kind)
{
	struct jail j = {.kind = kind, .landlock_fd = FD_NONE, .preload_fd = FD_NONE};

	return j;
}

static void lack(struct jail *j, enum jail_layer layer, const char *why)
{
	j->lacks[layer] = true;
	(void)snprintf(j->reasons[layer], sizeof j->reasons[layer], "%s", why);
}

/* ---- what is required ---- */

START_TEST(either_of_two_layers_is_enough)
{
	struct jail j = lacking(JAIL_OF_VMM);
	auto_error e = NULL;

	lack(&j, JAIL_USER_NS, "limit");
	lack(&j, JAIL_MOUNT_NS, "needs a user namespace");
	ck_assert_int_eq(jail_judge(&j, false, &e), 0);
	ck_assert(!j.reduced);
	lack(&j, JAIL_LANDLOCK, "no such call");
	ck_assert_int_eq(jail_judge(&j, false, &e), -HOLT_EUNSUPPORTED);
	ck_assert_str_eq(holt_error_message(e), "this host offers no sufficient jail: no user "
						"namespace (limit), no landlock (no such "
						"call)");
	ck_assert_str_eq(holt_error_stage(e), "jail");
	ck_assert_str_eq(holt_error_object(e), "user namespace, landlock");
	ck_assert_ptr_nonnull(strstr(holt_error_hint(e), "max_user_namespaces"));
	ck_assert_ptr_nonnull(strstr(holt_error_hint(e), "HOLT_JAIL=reduced"));
	/* A keeper's answer has room for so much. */
	ck_assert_uint_lt(strlen(holt_error_hint(e)), 256);
	ck_assert_int_eq(jail_judge(&j, true, NULL), 0);
	ck_assert(j.reduced);
	j.lacks[JAIL_USER_NS] = false;
	ck_assert_int_eq(jail_judge(&j, false, NULL), 0);
	ck_assert(!j.reduced);
}
END_TEST

START_TEST(filters_are_required_of_qemu_only)
{
	struct jail vmm = lacking(JAIL_OF_VMM);
	struct jail net = lacking(JAIL_OF_NET);
	auto_error e = NULL;

	lack(&vmm, JAIL_SECCOMP, "none");
	lack(&net, JAIL_SECCOMP, "none");
	ck_assert_int_eq(jail_judge(&vmm, false, &e), -HOLT_EUNSUPPORTED);
	ck_assert_str_eq(
		holt_error_message(e), "this host offers no sufficient jail: no seccomp (none)");
	ck_assert_str_eq(holt_error_object(e), "seccomp");
	ck_assert_int_eq(jail_judge(&net, false, NULL), 0);
}
END_TEST

START_TEST(helper_of_root_has_its_own_user_and_root_directory_instead)
{
	struct jail j = lacking(JAIL_OF_NET);

	lack(&j, JAIL_USER_NS, "low ports");
	lack(&j, JAIL_LANDLOCK, "no such call");
	ck_assert_int_eq(jail_judge(&j, false, NULL), -HOLT_EUNSUPPORTED);
	j.own_user = true;
	ck_assert_int_eq(jail_judge(&j, false, NULL), 0);
	ck_assert(!j.reduced);
	lack(&j, JAIL_MOUNT_NS, "none");
	ck_assert_int_eq(jail_judge(&j, false, NULL), -HOLT_EUNSUPPORTED);
	j.kind = JAIL_OF_VMM;
	j.lacks[JAIL_MOUNT_NS] = false;
	ck_assert_int_eq(jail_judge(&j, false, NULL), -HOLT_EUNSUPPORTED);
}
END_TEST

START_TEST(wish_is_one_of_two_words)
{
	auto_error e = NULL;
	bool reduced = true;

	ck_assert_int_eq(unsetenv("HOLT_JAIL"), 0);
	ck_assert_int_eq(jail_wish(&reduced, NULL), 0);
	ck_assert(!reduced);
	ck_assert_int_eq(setenv("HOLT_JAIL", "reduced", 1), 0);
	ck_assert_int_eq(jail_wish(&reduced, NULL), 0);
	ck_assert(reduced);
	ck_assert_int_eq(setenv("HOLT_JAIL", "full", 1), 0);
	ck_assert_int_eq(jail_wish(&reduced, NULL), 0);
	ck_assert(!reduced);
	ck_assert_int_eq(setenv("HOLT_JAIL", "Reduced\n", 1), 0);
	ck_assert_int_eq(jail_wish(&reduced, &e), -HOLT_EINVALID);
	ck_assert_str_eq(holt_error_message(e), "unknown jail 'Reduced\\x0a' (HOLT_JAIL)");
	ck_assert_str_eq(holt_error_object(e), "HOLT_JAIL");
}
END_TEST

START_TEST(weaknesses_are_whole_words)
{
	weak = "userns, mountns\n";
	ck_assert(jail_is_weak("userns"));
	ck_assert(jail_is_weak("mountns"));
	ck_assert(!jail_is_weak("user"));
	ck_assert(!jail_is_weak("filter"));
	ck_assert(!jail_is_weak("mount"));
}
END_TEST

/* ---- a child inside ---- */

static struct jail *prepared(enum jail_kind kind, const char *id)
{
	const struct jail_spec spec = {.kind = kind,
		.program = "/bin/true",
		.box_id = id,
		.reduced = true,
		.preload_fd = FD_NONE};
	struct jail *j = NULL;
	auto_error e = NULL;

	ck_assert_msg(jail_prepare(&spec, &j, &e) == 0, "%s", holt_error_message(e));
	return j;
}

struct inside {
	struct jail *jail;
	int (*look)(const char **ret_step);
};

static int enter_and_look(void *user, const char **ret_step)
{
	const struct inside *in = user;
	const int r = jail_enter(in->jail, ret_step);

	return r < 0 ? r : in->look(ret_step);
}

/* What @look finds in the jail @j, which is freed. */
static void inside(struct jail *j, int (*look)(const char **ret_step))
{
	struct inside in = {.jail = j, .look = look};
	struct proc_spec spec = {0};
	const char *step = "";

	jail_apply(j, &spec);
	spec.enter = enter_and_look;
	spec.enter_user = &in;
	const int r = proc_try(&spec, &step);
	ck_assert_msg(r == 0, "%s: %s", step, strerrordesc_np(-r));
	jail_free(j);
}

/* @call must fail with @errnum. */
#define MUST_FAIL(call, errnum)                            \
	do {                                               \
		errno = 0;                                 \
		if ((call) >= 0 || errno != (errnum)) {    \
			*ret_step = #call;                 \
			return errno ? -errno : -EALREADY; \
		}                                          \
	} while (0)

#define MUST_WORK(call)                                    \
	do {                                               \
		if ((call) < 0) {                          \
			*ret_step = #call;                 \
			return errno ? -errno : -EALREADY; \
		}                                          \
	} while (0)

static int calls_of_vmm(const char **ret_step)
{
	const pid_t own = (pid_t)syscall(SYS_getpid);

	MUST_FAIL(socket(AF_INET, SOCK_STREAM, 0), EPERM);
	MUST_FAIL(socket(AF_UNIX, SOCK_STREAM, 0), EPERM);
	MUST_FAIL(connect(0, NULL, 0), EPERM);
	MUST_FAIL(bind(0, NULL, 0), EPERM);
	MUST_FAIL(listen(0, 1), EPERM);
	MUST_FAIL(ptrace(PTRACE_TRACEME, 0, NULL, NULL), EPERM);
	MUST_FAIL(mount("none", "/", "tmpfs", 0, NULL), EPERM);
	MUST_FAIL(syscall(SYS_unshare, CLONE_NEWUSER), EPERM);
	MUST_FAIL(syscall(SYS_clone, (long)CLONE_NEWUSER, NULL, NULL, NULL, 0L), EPERM);
	MUST_FAIL(syscall(SYS_clone, (long)(CLONE_NEWNS | SIGCHLD), NULL, NULL, NULL, 0L), EPERM);
	MUST_FAIL(syscall(SYS_clone3, NULL, 0L), ENOSYS);
	MUST_FAIL(syscall(SYS_bpf, 0, NULL, 0), EPERM);
	MUST_FAIL(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0), EPERM);
	MUST_FAIL(syscall(SYS_keyctl, 0, 0), EPERM);
	MUST_FAIL(syscall(SYS_io_uring_setup, 1, NULL), EPERM);
	MUST_FAIL(syscall(SYS_userfaultfd, 0), EPERM);
	MUST_FAIL(syscall(SYS_open_by_handle_at, 0, NULL, 0), EPERM);
	MUST_FAIL(syscall(SYS_finit_module, 0, NULL, 0), EPERM);
	MUST_FAIL(syscall(SYS_pidfd_open, own, 0), EPERM);
	MUST_FAIL(syscall(SYS_prlimit64, own + 1, 7, NULL, NULL), EPERM);
	MUST_FAIL(kill(own + 1, 0), EPERM);
	MUST_FAIL(kill(0, 0), EPERM);
	MUST_FAIL(kill(-1, 0), EPERM);
	MUST_FAIL(syscall(SYS_tgkill, own + 1, own + 1, 0), EPERM);
	MUST_FAIL(syscall(SYS_tkill, own, 0), EPERM);
	MUST_WORK(kill(own, 0));
	MUST_WORK(syscall(SYS_tgkill, own, own, 0));
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
		*ret_step = "no_new_privs";
		return -EALREADY;
	}
	return 0;
}

START_TEST(system_calls_of_qemu)
{
	inside(prepared(JAIL_OF_VMM, "a"), calls_of_vmm);
	/* Where it is not the first process of a pid namespace either. */
	weak = "pidns";
	inside(prepared(JAIL_OF_VMM, "a"), calls_of_vmm);
}
END_TEST

static int files(const char **ret_step, int hidden)
{
	int fd;

	MUST_FAIL(open("/etc/passwd", O_RDONLY), hidden);
	MUST_FAIL(open("/root", O_RDONLY), hidden);
	MUST_FAIL(open("/tmp/x", O_WRONLY | O_CREAT, 0600), hidden == ENOENT ? ENOENT : EACCES);
	MUST_WORK(fd = open("/usr/lib", O_RDONLY | O_DIRECTORY));
	MUST_WORK(access("/bin/true", X_OK));
	(void)close(fd);
	return 0;
}

static int files_of_new_root(const char **ret_step)
{
	struct stat st;

	MUST_FAIL(stat("/proc/self/status", &st), ENOENT);
	MUST_FAIL(mkdir("/x", 0700), EROFS);
	MUST_FAIL(open("/usr/x", O_WRONLY | O_CREAT, 0600), EROFS);
	return files(ret_step, ENOENT);
}

static int files_of_landlock(const char **ret_step)
{
	return files(ret_step, EACCES);
}

static bool offers(enum jail_layer layer)
{
	struct jail_report r;

	jail_probe(&r);
	return r.layers[layer].available;
}

START_TEST(files_are_those_that_are_loaded)
{
	/* Each layer by itself. */
	if (offers(JAIL_MOUNT_NS)) {
		weak = "landlock";
		inside(prepared(JAIL_OF_VMM, "a"), files_of_new_root);
	}
	weak = "nothing";
	if (offers(JAIL_LANDLOCK)) {
		weak = "mountns";
		inside(prepared(JAIL_OF_VMM, "a"), files_of_landlock);
#ifndef HOLT_SANITIZED /* where the helper's files are open to the sanitizer */
		weak = "mountns";
		inside(prepared(JAIL_OF_NET, "a"), files_of_landlock);
#endif
	}
}
END_TEST

static int host_network(const char **ret_step)
{
	int fd;

	MUST_WORK(fd = socket(AF_INET, SOCK_STREAM, 0));
	MUST_WORK(listen(fd, 1));
	(void)close(fd);
	return 0;
}

START_TEST(helper_has_the_hosts_network_only)
{
	struct jail_state state;
	struct jail *j = prepared(JAIL_OF_NET, "a");

	ck_assert(!(j->clone_flags & CLONE_NEWNET) && !(j->late_flags & CLONE_NEWNET));
	jail_state_get(j, &state);
	ck_assert(!(state.on & 1u << JAIL_NET_NS));
	ck_assert(state.on & 1u << JAIL_SECCOMP);
	ck_assert_ptr_null(j->filter);
	/* Low ports are the host's own. */
	ck_assert_int_eq(!!(state.on & 1u << JAIL_USER_NS), j->map);
#ifdef HOLT_SANITIZED
	ck_assert_ptr_null(jail_empty_dir(j));
#else
	if (j->own_user && j->direct)
		ck_assert(!j->map && strstr(state.missing, "ports below 1024"));
	ck_assert_int_eq(jail_empty_dir(j) != NULL, !!(state.on & 1u << JAIL_MOUNT_NS));
#endif
	inside(j, host_network);
}
END_TEST

/* ---- users, failures ---- */

START_TEST(users_are_of_one_box)
{
	struct jail *a = prepared(JAIL_OF_VMM, "0123456789abcdef");
	struct jail *b = prepared(JAIL_OF_VMM, "0123456789abcdee");
	struct jail *again = prepared(JAIL_OF_VMM, "0123456789abcdef");
	struct jail_state state;

	jail_state_get(a, &state);
	if (a->own_user) {
		ck_assert_uint_eq(geteuid(), 0);
		ck_assert_uint_eq(a->uid & 0xff000000u, FIRST_OWN_UID);
		ck_assert_uint_ne(a->uid, b->uid);
		ck_assert_uint_eq(a->uid, again->uid);
		ck_assert_uint_eq(state.uid, a->uid);
	} else {
		ck_assert_uint_eq(state.uid, geteuid());
	}
	jail_free(a);
	jail_free(b);
	jail_free(again);
}
END_TEST

/* What worked when it was tried and fails at the start is the end of the start, by name. */
START_TEST(failing_layers_fail_the_start)
{
	const char *const argv[] = {"true", NULL};
	struct proc_spec spec = {.argv = argv};
	struct proc p = {0};
	auto_error e = NULL;
	struct jail *j = prepared(JAIL_OF_VMM, "a");

	if (j->landlock_fd >= 0) {
		const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		ck_assert_int_ge(dup3(null, j->landlock_fd, O_CLOEXEC), 0);
		(void)fd_close(null);
		jail_apply(j, &spec);
		ck_assert_int_lt(proc_spawn(&spec, &p, &e), 0);
		ck_assert_ptr_nonnull(strstr(holt_error_message(e), "(landlock)"));
	}
	jail_free(j);
	auto_error f = NULL;
	j = prepared(JAIL_OF_VMM, "a");
	if (j->filter) {
		j->n_filter = 0;
		jail_apply(j, &spec);
		ck_assert_int_lt(proc_spawn(&spec, &p, &f), 0);
		ck_assert_ptr_nonnull(strstr(holt_error_message(f), "(seccomp)"));
	}
	jail_free(j);
}
END_TEST

START_TEST(a_program_runs_in_it)
{
	const char *const argv[] = {"true", NULL};
	struct proc_spec spec = {.argv = argv, .flags = PROC_DEATHSIG};
	struct proc p = {0};
	auto_error e = NULL;
	struct jail *j = prepared(JAIL_OF_VMM, "a");
	int status = -1;

	jail_apply(j, &spec);
	ck_assert_msg(proc_spawn(&spec, &p, &e) == 0, "%s", holt_error_message(e));
	ck_assert_int_eq(proc_wait(p.pid, &status), 0);
	ck_assert_int_eq(status, 0);
	(void)fd_close(p.pidfd);
	jail_free(j);
}
END_TEST

static int keeper_gives_up(void *user, const char **ret_step)
{
	const int *home = user;
	int fd;

	const int r = jail_self(*home);
	if (r < 0) {
		*ret_step = "jail_self";
		return r;
	}
	MUST_FAIL(syscall(SYS_execve, "/bin/true", NULL, NULL), EPERM);
	MUST_FAIL(ptrace(PTRACE_TRACEME, 0, NULL, NULL), EPERM);
	MUST_FAIL(mount("none", "/", "tmpfs", 0, NULL), EPERM);
	MUST_FAIL(socket(AF_INET, SOCK_STREAM, 0), EPERM);
	MUST_FAIL(syscall(SYS_unshare, CLONE_NEWUSER), EPERM);
	MUST_WORK(fd = openat(*home, "file", O_WRONLY | O_CREAT, 0600));
	MUST_WORK(renameat(*home, "file", *home, "other"));
	MUST_WORK(unlinkat(*home, "other", 0));
	(void)close(fd);
	return 0;
}

START_TEST(keeper_keeps_its_home)
{
	char path[] = "/tmp/jail-home.XXXXXX";
	struct proc_spec spec = {.enter = keeper_gives_up};
	const char *step = "";

	ck_assert_ptr_nonnull(mkdtemp(path));
	int home = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	spec.enter_user = &home;
	const int r = proc_try(&spec, &step);
	(void)close(home);
	ck_assert_int_eq(rmdir(path), 0);
	ck_assert_msg(r == 0, "%s: %s", step, strerrordesc_np(-r));
}
END_TEST

#ifndef HOLT_SANITIZED /* where the keeper keeps what its reports need */
/* ---- a keeper that was taken over ---- */

static char attack_file[64]; /* of another box */
static char attack_new[64];
static bool has_landlock;

/* What it would try; each is refused by one layer alone, so that both are seen to be there. */
static int takes_files(int want, const char **ret_step)
{
	static const char *const names[] = {"/usr/lib", "/root", "/home", "/bin/true"};
	int fd;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		*ret_step = names[i];
		fd = open(names[i], O_RDONLY | O_CLOEXEC);
		/* Without the layer some may be closed to this user, or not there. */
		if (want && (fd >= 0 || errno != want))
			return -EALREADY;
		if (i == 0 && !want && fd < 0)
			return -errno;
		(void)close(fd);
	}
	*ret_step = "a file of another box";
	fd = open(attack_file, O_RDWR | O_CLOEXEC);
	if ((fd >= 0) == (want != 0) || (want && errno != want))
		return -EALREADY;
	(void)close(fd);
	*ret_step = "a new file";
	fd = openat(AT_FDCWD, attack_new, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if ((fd >= 0) == (want != 0))
		return -EALREADY;
	(void)close(fd);
	(void)unlink(attack_new);
	return 0;
}

static int makes_calls(int want, const char **ret_step)
{
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	*ret_step = "a socket of the internet";
	if ((fd >= 0) == (want != 0) || (want && errno != want))
		return -EALREADY;
	(void)close(fd);
	/* Where the call is let through, its arguments are what is wrong with it. */
	MUST_FAIL(syscall(SYS_execve, NULL, NULL, NULL), want ? want : EFAULT);
	if (!want)
		return 0; /* the host may refuse the others by itself */
	MUST_FAIL(syscall(SYS_bpf, -1, NULL, 0), want);
	MUST_FAIL(syscall(SYS_keyctl, -1, 0), want);
	MUST_FAIL(syscall(SYS_unshare, CLONE_NEWUSER | 1), want);
	return 0;
}

/* As root it had every capability before. */
static int uses_privileges(const char **ret_step)
{
	MUST_FAIL(mount("none", "/", "tmpfs", 0, NULL), EPERM);
	MUST_FAIL(chroot("/"), EPERM);
	MUST_FAIL(syscall(SYS_setuid, 12345), EPERM);
	MUST_FAIL(sethostname("x", 1), EPERM);
	return 0;
}

static int is_taken_over(void *user, const char **ret_step)
{
	const int *home = user;
	const bool may_chroot = jail_permitted_caps() & 1ull << CAP_SYS_CHROOT;

	/* What it gives up was there before. */
	if (may_chroot)
		MUST_WORK(chroot("/"));
	*ret_step = "jail_self";
	int r = jail_self(*home);
	if (r == 0)
		r = takes_files(has_landlock && !jail_is_weak("landlock") ? EACCES : 0, ret_step);
	if (r == 0)
		r = makes_calls(jail_is_weak("filter") ? 0 : EPERM, ret_step);
	return r == 0 ? uses_privileges(ret_step) : r;
}

/* With all layers, and with each taken away: then what it stops goes through. */
START_TEST(keeper_that_was_taken_over_gets_nothing)
{
	static const char *const weaknesses[] = {"nothing", "landlock", "filter"};
	char own[] = "/tmp/jail-home.XXXXXX";
	char other[] = "/tmp/jail-other.XXXXXX";
	struct proc_spec spec = {.enter = is_taken_over};

	has_landlock = offers(JAIL_LANDLOCK);
	ck_assert_ptr_nonnull(mkdtemp(own));
	ck_assert_ptr_nonnull(mkdtemp(other));
	int home = open(own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)snprintf(attack_file, sizeof attack_file, "%s/disk", other);
	(void)snprintf(attack_new, sizeof attack_new, "%s/new", other);
	(void)close(open(attack_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	spec.enter_user = &home;
	for (size_t i = 0; i < 3; i++) {
		const char *step = "";
		weak = weaknesses[i];
		const int r = proc_try(&spec, &step);
		ck_assert_msg(r == 0, "%s: %s: %s", weak, step, strerrordesc_np(-r));
	}
	(void)close(home);
	ck_assert_int_eq(unlink(attack_file), 0);
	ck_assert_int_eq(rmdir(other), 0);
	ck_assert_int_eq(rmdir(own), 0);
}
END_TEST
#endif

int main(void)
{
	const TTest *const tests[] = {either_of_two_layers_is_enough,
		filters_are_required_of_qemu_only, wish_is_one_of_two_words,
		weaknesses_are_whole_words,
		helper_of_root_has_its_own_user_and_root_directory_instead, system_calls_of_qemu,
		files_are_those_that_are_loaded, helper_has_the_hosts_network_only,
		users_are_of_one_box, failing_layers_fail_the_start, a_program_runs_in_it,
#ifndef HOLT_SANITIZED
		keeper_that_was_taken_over_gets_nothing,
#endif
		keeper_keeps_its_home};
	Suite *s = suite_create("jail");
	TCase *c = tcase_create("jail");

	tcase_add_checked_fixture(c, setup, NULL);
	tcase_set_timeout(c, 60);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
