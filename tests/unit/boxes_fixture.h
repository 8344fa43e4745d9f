/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOXES_FIXTURE_H
#define BOXES_FIXTURE_H

/*
 * Boxes on the fake engine for tests: one home with one image for all tests of a program (main
 * makes and removes it), each test in a process of its own. After every test no box, process,
 * thread or descriptor may be left.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "holt.h"

#include "base/clock.h"
#include "base/fsutil.h"

#define TRACKED_MAX 64

static char home_dir[64];
static char home_path[80];
static holt_home *home;
static size_t fds_before, threads_before;
static int tracked[TRACKED_MAX];
static int n_tracked;

static inline void nap_ms(unsigned ms)
{
	const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	(void)nanosleep(&t, NULL);
}

static inline size_t count_dir(const char *path)
{
	DIR *d = opendir(path);
	size_t n = 0;

	ck_assert_ptr_nonnull(d);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static inline size_t boxes_left(void)
{
	char path[128];

	snprintf(path, sizeof path, "%s/boxes", home_path);
	return count_dir(path);
}

/* A call that must succeed. */
#define ok(call)                                                                            \
	do {                                                                                \
		holt_error *e_ = NULL;                                                      \
		const int r_ = (call);                                                      \
		ck_assert_msg(r_ == 0, "%s: %d %s [%s]", #call, r_, holt_error_message(e_), \
			holt_error_stage(e_));                                              \
	} while (0)
#define E &e_

/* A call that must fail with @code, a message and a stage. */
#define fails(code, call)                                                              \
	do {                                                                           \
		holt_error *e_ = NULL;                                                 \
		const int r_ = (call);                                                 \
		ck_assert_msg(r_ == -(code), "%s: %d, not %d: %s", #call, r_, -(code), \
			holt_error_message(e_));                                       \
		ck_assert_int_eq(holt_error_code(e_), (code));                         \
		ck_assert_str_ne(holt_error_message(e_), "");                          \
		holt_error_free(e_);                                                   \
	} while (0)

static inline holt_home *open_home(void)
{
	holt_home_options o = HOLT_HOME_OPTIONS_INIT;
	holt_home *h = NULL;

	o.path = home_path;
	ok(holt_home_open(&o, &h, E));
	return h;
}

/* A test that has failed may have left boxes to the next one. */
static inline void remove_all(void)
{
	holt_box **list = NULL;
	size_t n = 0;

	ok(holt_box_list(home, &list, &n, E));
	for (size_t i = 0; i < n; i++)
		ok(holt_box_remove(list[i], 1, E));
	holt_box_list_free(list, n);
}

static inline void setup(void)
{
	fds_before = count_dir("/proc/self/fd");
	threads_before = count_dir("/proc/self/task");
	home = open_home();
	remove_all();
}

static inline holt_box_info info_of(holt_box *b)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;

	ck_assert_int_eq(holt_box_get_info(b, &info), 0);
	return info;
}

/* Its processes must be gone at the end of the test. */
static inline holt_box_info track(holt_box *b)
{
	const holt_box_info info = info_of(b);

	ck_assert_int_le(n_tracked, TRACKED_MAX - 2);
	if (info.keeper_pid > 0)
		tracked[n_tracked++] = info.keeper_pid;
	if (info.vmm_pid > 0)
		tracked[n_tracked++] = info.vmm_pid;
	return info;
}

static inline bool lives(int pid)
{
	char path[32], state = 'X';

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	FILE *f = fopen(path, "re");
	if (f && fscanf(f, "%*d %*s %c", &state) != 1)
		state = 'X';
	if (f)
		(void)fclose(f);
	return state != 'X' && state != 'Z';
}

static inline void teardown(void)
{
	/* What closing a home leaves, opening it again must have removed. */
	holt_home_close(home);
	holt_home_close(open_home());
	ck_assert_uint_eq(boxes_left(), 0);
	for (int i = 0; i < n_tracked; i++) {
		const uint64_t until = clock_mono_ms() + 10000;
		while (lives(tracked[i]) && clock_mono_ms() < until)
			nap_ms(5);
		ck_assert_msg(!lives(tracked[i]), "process %d is left", tracked[i]);
	}
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	ck_assert_int_eq(errno, ECHILD);
	/* libuv keeps a pipe for as long as the process lives, ThreadSanitizer a thread. */
	ck_assert_uint_le(count_dir("/proc/self/fd"), fds_before + 2);
	ck_assert_uint_eq(count_dir("/proc/self/task"), threads_before);
}

/* ---- boxes ---- */

static inline holt_box *make_argv(
	const char *name, uint32_t flags, const char *const *argv, uint64_t timeout_ms)
{
	holt_box_options o = HOLT_BOX_OPTIONS_INIT;
	holt_exec_options p = HOLT_EXEC_OPTIONS_INIT;
	holt_box *b = NULL;

	o.name = name;
	o.flags = flags;
	p.argv = argv;
	p.timeout_ms = timeout_ms;
	o.program = argv ? &p : NULL;
	ok(holt_box_create(home, "t", &o, &b, E));
	return b;
}

static inline holt_box *make(const char *name, uint32_t flags, const char *script)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};

	return make_argv(name, flags, script ? argv : NULL, 0);
}

static inline void start_box(holt_box *b, uint32_t flags)
{
	holt_start_options o = HOLT_START_OPTIONS_INIT;

	o.flags = flags;
	ok(holt_box_start(b, &o, NULL, E));
	(void)track(b);
}

static inline holt_box *get(holt_home *h, const char *ref)
{
	holt_box *b = NULL;

	ok(holt_box_get(h, ref, &b, E));
	return b;
}

static inline void check_end(holt_box *b, int state, int reason, int code)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;

	ok(holt_box_wait(b, 20000, NULL, &info, E));
	ck_assert_str_eq(holt_box_state_name(info.state), holt_box_state_name(state));
	ck_assert_str_eq(holt_end_reason_name(info.end_reason), holt_end_reason_name(reason));
	ck_assert_int_eq(info.exit_code, code);
}

/* Remove it, whatever it does, and close the handle. */
static inline void drop(holt_box *b)
{
	ok(holt_box_remove(b, 1, E));
	ck_assert_int_eq(info_of(b).state, HOLT_BOX_GONE);
	holt_box_close(b);
}

/* ---- execs ---- */

static inline holt_exec *run(holt_box *b, const char *script, uint32_t flags)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};
	holt_exec_options o = HOLT_EXEC_OPTIONS_INIT;
	holt_exec *x = NULL;

	o.argv = argv;
	o.flags = flags;
	o.replay_bytes = 65536;
	ok(holt_exec_start(b, &o, &x, E));
	return x;
}

static inline int try_run(holt_box *b, holt_error **reterr)
{
	const char *const argv[] = {"true", NULL};
	holt_exec_options o = HOLT_EXEC_OPTIONS_INIT;
	holt_exec *x = NULL;

	o.argv = argv;
	const int r = holt_exec_start(b, &o, &x, reterr);
	holt_exec_free(x);
	return r;
}

/* All that is left of a stream, which is thrown away but for its beginning. */
static inline size_t read_all(holt_exec *x, char *text, size_t cap)
{
	static _Thread_local char chunk[65536];
	size_t n = 0, total = 0;

	do {
		ok(holt_exec_read(x, HOLT_STDOUT, chunk, sizeof chunk, 20000, &n, E));
		if (total < cap - 1)
			memcpy(text + total, chunk, n < cap - 1 - total ? n : cap - 1 - total);
		total += n;
	} while (n > 0);
	text[total < cap - 1 ? total : cap - 1] = 0;
	return total;
}

static inline int end_of(holt_exec *x)
{
	holt_exit result = HOLT_EXIT_INIT;

	ok(holt_exec_wait(x, 20000, &result, E));
	holt_exec_free(x);
	return result.code;
}

/* The box does what it is asked. */
static inline void check_works(holt_box *b)
{
	char text[16];
	holt_exec *x = run(b, "echo works", 0);

	ck_assert_uint_eq(read_all(x, text, sizeof text), 6);
	ck_assert_str_eq(text, "works\n");
	ck_assert_int_eq(end_of(x), 0);
}

/* Until the log of the box's program ends with a line. */
static inline void wait_line(holt_box *b, const char *line)
{
	const uint64_t until = clock_mono_ms() + 20000;

	for (;;) {
		holt_log_reader *log = NULL;
		const void *data = NULL;
		size_t len = 0;
		int stream = 0;

		ok(holt_box_open_log(b, 1, &log, E));
		ok(holt_log_next(log, 0, NULL, &data, &len, &stream, NULL, E));
		const bool there = len == strlen(line) && memcmp(data, line, len) == 0;
		holt_log_close(log);
		if (there)
			return;
		ck_assert_uint_lt(clock_mono_ms(), until);
		nap_ms(10);
	}
}

/* ---- all tests of a program ---- */

static inline void shell(const char *command)
{
	const pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid || status != 0)
		abort();
}

static inline void home_make(void)
{
	char command[512], tar[96];
	holt_image_import_options io = HOLT_IMAGE_IMPORT_OPTIONS_INIT;
	holt_home_options o = HOLT_HOME_OPTIONS_INIT;
	holt_home *h = NULL;

	setenv("HOLT_KEEPER", TEST_KEEPER, 1);
	setenv("HOLT_AGENT", TEST_AGENT, 1);
	strcpy(home_dir, "/tmp/holt-boxes-XXXXXX");
	if (!mkdtemp(home_dir))
		abort();
	snprintf(command, sizeof command,
		"mkdir -p %s/r/etc && echo x >%s/r/etc/x && tar -C %s/r -cf %s/r.tar .", home_dir,
		home_dir, home_dir, home_dir);
	shell(command);
	snprintf(home_path, sizeof home_path, "%s/home", home_dir);
	snprintf(tar, sizeof tar, "%s/r.tar", home_dir);
	o.path = home_path;
	io.name = "t";
	if (holt_home_open(&o, &h, NULL) < 0 || holt_image_import(h, tar, &io, NULL, NULL) < 0)
		abort();
	holt_home_close(h);
}

static inline int run_tests_in(
	const char *name, SFun before, SFun after, const TTest *const *tests, size_t n)
{
	Suite *s = suite_create(name);
	TCase *c = tcase_create(name);

	home_make();
	tcase_add_checked_fixture(c, before, after);
	tcase_set_timeout(c, 100);
	for (size_t i = 0; i < n; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	failed += fs_remove_tree(AT_FDCWD, home_dir) != 0;
	return failed != 0;
}

static inline int run_tests(const char *name, const TTest *const *tests, size_t n)
{
	return run_tests_in(name, setup, teardown, tests, n);
}

#endif
