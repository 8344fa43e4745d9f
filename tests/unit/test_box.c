/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's own half of a box, from holt.h down to the keeper, with the agent as a plain
 * process (keeper_fake.c): milliseconds, and every sanitizer sees all of it. The same behaviour on
 * real machines is tested in tests/vm.
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
#include <unistd.h>

#include "holt.h"

#include "base/clock.h"
#include "base/fsutil.h"

#define THREADS 8
#define ROUNDS  12

static char home_dir[64];
static holt_home *home;
static holt_box *box;

static void shell(const char *command)
{
	const pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

static void show(holt_error *e)
{
	if (e)
		fprintf(stderr, "error: %s [%s]\n", holt_error_message(e), holt_error_stage(e));
}

static void setup(void)
{
	char command[256];
	holt_home_options o = HOLT_HOME_OPTIONS_INIT;
	holt_image_import_options io = HOLT_IMAGE_IMPORT_OPTIONS_INIT;
	holt_error *e = NULL;

	strcpy(home_dir, "/tmp/holt-box-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(home_dir));
	snprintf(command, sizeof command,
		"mkdir -p %s/r/etc && echo x >%s/r/etc/x && tar -C %s/r -cf %s/r.tar .", home_dir,
		home_dir, home_dir, home_dir);
	shell(command);
	char path[128];
	snprintf(path, sizeof path, "%s/home", home_dir);
	o.path = path;
	ck_assert_int_eq(holt_home_open(&o, &home, &e), 0);
	snprintf(path, sizeof path, "%s/r.tar", home_dir);
	io.name = "t";
	ck_assert_int_eq(holt_image_import(home, path, &io, NULL, &e), 0);
	int r = holt_box_create(home, "t", NULL, &box, &e);
	if (r == 0)
		r = holt_box_start(box, NULL, NULL, &e);
	show(e);
	ck_assert_int_eq(r, 0);
}

static size_t boxes_left(void)
{
	char path[128];
	size_t n = 0;

	snprintf(path, sizeof path, "%s/home/boxes", home_dir);
	DIR *d = opendir(path);
	ck_assert_ptr_nonnull(d);
	for (struct dirent *entry; (entry = readdir(d));)
		n += entry->d_name[0] != '.';
	closedir(d);
	return n;
}

static void teardown(void)
{
	holt_box_close(box);
	ck_assert_uint_eq(boxes_left(), 0);
	holt_home_close(home);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, home_dir), 0);
}

static holt_exec *start(const char *script, uint32_t flags, uint64_t timeout_ms)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};
	holt_exec_options o = HOLT_EXEC_OPTIONS_INIT;
	holt_exec *x = NULL;
	holt_error *e = NULL;

	o.argv = argv;
	o.flags = flags;
	o.timeout_ms = timeout_ms;
	const int r = holt_exec_start(box, &o, &x, &e);
	show(e);
	ck_assert_int_eq(r, 0);
	return x;
}

static int wait_code(holt_exec *x)
{
	holt_exit result = HOLT_EXIT_INIT;
	holt_error *e = NULL;
	const int r = holt_exec_wait(x, 20000, &result, &e);

	show(e);
	ck_assert_int_eq(r, 0);
	return result.code;
}

/* All of a stream, as text. */
static char *all(holt_exec *x, int stream)
{
	static _Thread_local char text[65536];
	size_t len = 0, n = 0;

	do {
		ck_assert_int_eq(holt_exec_read(x, stream, text + len, sizeof text - 1 - len, 20000,
					 &n, NULL),
			0);
		len += n;
	} while (n > 0);
	text[len] = 0;
	return text;
}

START_TEST(streams_and_code)
{
	holt_exec *x = start("echo out; echo err >&2; exit 7", 0, 0);

	ck_assert_str_eq(all(x, HOLT_STDOUT), "out\n");
	ck_assert_str_eq(all(x, HOLT_STDERR), "err\n");
	ck_assert_int_eq(wait_code(x), 7);
	/* The end stays readable. */
	ck_assert_int_eq(wait_code(x), 7);
	ck_assert_str_eq(all(x, HOLT_STDOUT), "");
	holt_exec_free(x);
}
END_TEST

START_TEST(stdin_goes_round)
{
	holt_exec *x = start("cat", HOLT_EXEC_STDIN, 0);
	char data[3000];
	size_t n = 0;

	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (char)(i % 251);
	ck_assert_int_eq(holt_exec_write(x, data, sizeof data, 5000, &n, NULL), 0);
	ck_assert_uint_eq(n, sizeof data);
	ck_assert_int_eq(holt_exec_close_stdin(x), 0);
	ck_assert_int_eq(holt_exec_close_stdin(x), 0);
	char back[4000];
	size_t len = 0;
	do {
		ck_assert_int_eq(holt_exec_read(x, HOLT_STDOUT, back + len, sizeof back - len, 5000,
					 &n, NULL),
			0);
		len += n;
	} while (n);
	ck_assert_uint_eq(len, sizeof data);
	ck_assert_mem_eq(back, data, len);
	ck_assert_int_eq(wait_code(x), 0);
	holt_error *e = NULL;
	ck_assert_int_eq(holt_exec_write(x, data, 1, 100, NULL, &e), -HOLT_ECLOSED);
	holt_error_free(e);
	holt_exec_free(x);
}
END_TEST

START_TEST(unread_output_holds_the_program)
{
	holt_exec *x = start("head -c 3000000 /dev/zero; echo end >&2", 0, 0);
	holt_exit result = HOLT_EXIT_INIT;
	char chunk[65536];
	size_t n = 0, total = 0;

	/* 3 MB do not fit into the window: nothing is over until somebody reads. */
	ck_assert_int_eq(holt_exec_wait(x, 300, &result, NULL), -HOLT_ETIMEOUT);
	ck_assert_int_eq(
		holt_exec_read(x, HOLT_STDERR, chunk, sizeof chunk, 0, &n, NULL), -HOLT_ETIMEOUT);
	do {
		ck_assert_int_eq(
			holt_exec_read(x, HOLT_STDOUT, chunk, sizeof chunk, 20000, &n, NULL), 0);
		total += n;
	} while (n);
	ck_assert_uint_eq(total, 3000000);
	ck_assert_str_eq(all(x, HOLT_STDERR), "end\n");
	ck_assert_int_eq(wait_code(x), 0);
	holt_exec_free(x);
}
END_TEST

START_TEST(timeout_is_124_and_the_box_goes_on)
{
	const uint64_t before = clock_mono_ms();
	holt_exec *x = start("echo part; sleep 100 & sleep 100", 0, 300);
	holt_exit result = HOLT_EXIT_INIT;

	ck_assert_int_eq(holt_exec_wait(x, HOLT_FOREVER, &result, NULL), 0);
	ck_assert_int_eq(result.code, 124);
	ck_assert_uint_ne(result.flags & HOLT_EXIT_TIMED_OUT, 0);
	ck_assert_uint_lt(clock_mono_ms() - before, 1300);
	ck_assert_str_eq(all(x, HOLT_STDOUT), "part\n");
	holt_exec_free(x);
	x = start("exit 3", 0, 0);
	ck_assert_int_eq(wait_code(x), 3);
	holt_exec_free(x);
}
END_TEST

START_TEST(signals_arrive)
{
	holt_exec *x = start(
		"trap 'echo got; exit 5' TERM; echo up; while :; do sleep 0.05; done", 0, 0);
	char text[16] = "";
	size_t n = 0;

	ck_assert_int_eq(holt_exec_read(x, HOLT_STDOUT, text, 3, 5000, &n, NULL), 0);
	ck_assert_int_eq(holt_exec_signal(x, SIGTERM), 0);
	ck_assert_int_eq(wait_code(x), 5);
	holt_exec_free(x);
	x = start("sleep 100", 0, 0);
	ck_assert_int_eq(holt_exec_signal(x, SIGKILL), 0);
	ck_assert_int_eq(wait_code(x), 137);
	ck_assert_int_eq(holt_exec_signal(x, 0), -HOLT_EINVALID);
	ck_assert_int_eq(holt_exec_signal(x, 65), -HOLT_EINVALID);
	ck_assert_int_eq(holt_exec_signal(x, SIGKILL), 0);
	holt_exec_free(x);
}
END_TEST

START_TEST(failing_starts_are_typed)
{
	static const struct {
		const char *path;
		int code, exit_code;
	} t[] = {{"/no/such/program", HOLT_ENOT_FOUND, 127}, {"nosuch", HOLT_ENOT_FOUND, 127},
		{"/etc", HOLT_EDENIED, 126}, {"/etc/passwd", HOLT_EDENIED, 126}};

	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
		const char *const argv[] = {t[i].path, NULL};
		holt_exec_options o = HOLT_EXEC_OPTIONS_INIT;
		holt_exec *x = NULL;
		holt_error *e = NULL;

		o.argv = argv;
		ck_assert_int_eq(holt_exec_start(box, &o, &x, &e), -t[i].code);
		ck_assert_ptr_null(x);
		ck_assert_int_eq(holt_error_exit_code(e), t[i].exit_code);
		ck_assert_str_eq(holt_error_stage(e), "exec");
		ck_assert_ptr_nonnull(strstr(holt_error_message(e), t[i].path));
		ck_assert_str_ne(holt_error_hint(e), "");
		holt_error_free(e);
	}
	holt_exec *x = start("exit 0", 0, 0);
	ck_assert_int_eq(wait_code(x), 0);
	holt_exec_free(x);
}
END_TEST

START_TEST(bad_arguments_are_refused)
{
	const char *const argv[] = {"true", NULL};
	holt_exec_options o = HOLT_EXEC_OPTIONS_INIT;
	holt_box_options bo = HOLT_BOX_OPTIONS_INIT;
	holt_box *b = NULL;
	holt_exec *x = NULL;
	struct {
		holt_exec_options o;
		char more[8];
	} longer = {.o = HOLT_EXEC_OPTIONS_INIT};

	o.argv = argv;
	ck_assert_int_eq(holt_exec_start(NULL, &o, &x, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_exec_start(box, NULL, &x, NULL), -HOLT_EINVALID);
	o.flags = 1u << 20;
	ck_assert_int_eq(holt_exec_start(box, &o, &x, NULL), -HOLT_EINVALID);
	o.flags = 0;
	o.struct_size = 3;
	ck_assert_int_eq(holt_exec_start(box, &o, &x, NULL), -HOLT_EINVALID);
	longer.o.argv = argv;
	longer.o.struct_size = sizeof longer;
	longer.more[0] = 1;
	ck_assert_int_eq(holt_exec_start(box, &longer.o, &x, NULL), -HOLT_EUNSUPPORTED);
	longer.more[0] = 0;
	ck_assert_int_eq(holt_exec_start(box, &longer.o, &x, NULL), 0);
	holt_exec_free(x);
	bo.memory_mib = 5;
	ck_assert_int_eq(holt_box_create(home, "t", &bo, &b, NULL), -HOLT_EINVALID);
	bo.memory_mib = 0;
	bo.hostname = "a/b";
	ck_assert_int_eq(holt_box_create(home, "t", &bo, &b, NULL), -HOLT_EINVALID);
	bo.hostname = NULL;
	bo.name = "-x";
	ck_assert_int_eq(holt_box_create(home, "t", &bo, &b, NULL), -HOLT_EINVALID);
	bo.name = NULL;
	ck_assert_int_eq(holt_box_create(home, "none", NULL, &b, NULL), -HOLT_ENOT_FOUND);
	ck_assert_ptr_null(b);
	holt_start_options so = HOLT_START_OPTIONS_INIT;
	so.accel = "warp";
	ck_assert_int_eq(holt_box_create(home, "t", NULL, &b, NULL), 0);
	ck_assert_int_eq(holt_box_start(b, &so, NULL, NULL), -HOLT_EINVALID);
	holt_box_close(b);
}
END_TEST

START_TEST(info_is_filled)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;

	ck_assert_int_eq(holt_box_get_info(box, &info), 0);
	ck_assert_uint_eq(info.attempts, 1);
	ck_assert_uint_gt(info.ready_us, 0);
	ck_assert_uint_ge(info.ready_us, info.hello_us);
	ck_assert_int_eq(kill(info.vmm_pid, 0), 0);
	ck_assert_uint_eq(strlen(holt_box_id(box)), 16);
	info.struct_size = 1;
	ck_assert_int_eq(holt_box_get_info(box, &info), -HOLT_EINVALID);
}
END_TEST

/* A thread that runs programs one after the other and checks each one's own output. */
static void *worker(void *arg)
{
	const long id = (long)arg;

	for (int i = 0; i < ROUNDS; i++) {
		char script[96], want[96];

		snprintf(script, sizeof script, "echo %ld-%d; cat; exit %d", id, i,
			(int)(id + i) % 100);
		snprintf(want, sizeof want, "%ld-%d\nin", id, i);
		holt_exec *x = start(script, HOLT_EXEC_STDIN, 0);
		ck_assert_int_eq(holt_exec_write(x, "in", 2, 5000, NULL, NULL), 0);
		ck_assert_int_eq(holt_exec_close_stdin(x), 0);
		ck_assert_str_eq(all(x, HOLT_STDOUT), want);
		ck_assert_int_eq(wait_code(x), (int)(id + i) % 100);
		holt_exec_free(x);
	}
	return NULL;
}

START_TEST(threads_share_a_box)
{
	pthread_t threads[THREADS];

	for (long i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, worker, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}
END_TEST

static void *trigger_later(void *arg)
{
	const struct timespec pause = {.tv_nsec = 150000000};

	nanosleep(&pause, NULL);
	holt_cancel_trigger(arg);
	return NULL;
}

START_TEST(cancel_wakes_every_wait)
{
	const char *const argv[] = {"sleep", "100", NULL};
	holt_exec_options o = HOLT_EXEC_OPTIONS_INIT;
	holt_cancel *cancel = NULL;
	holt_exec *x = NULL;
	holt_exit result = HOLT_EXIT_INIT;
	holt_error *e = NULL;
	pthread_t t;

	ck_assert_int_eq(holt_cancel_new(&cancel, NULL), 0);
	o.argv = argv;
	o.cancel = cancel;
	ck_assert_int_eq(holt_exec_start(box, &o, &x, NULL), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, trigger_later, cancel), 0);
	/* Waits in this thread and in the pump's two. */
	const uint64_t before = clock_mono_ms();
	ck_assert_int_eq(holt_exec_pump(x, -1, -1, -1, &result, &e), -HOLT_ECANCELLED);
	ck_assert_uint_lt(clock_mono_ms() - before, 2000);
	pthread_join(t, NULL);
	holt_error_free(e);
	holt_exec_free(x);
	/* A token that has fired cancels a start too, and leaves nothing. */
	holt_start_options so = HOLT_START_OPTIONS_INIT;
	holt_box *b = NULL;
	so.cancel = cancel;
	ck_assert_int_eq(holt_box_create(home, "t", NULL, &b, NULL), 0);
	ck_assert_int_eq(holt_box_start(b, &so, NULL, NULL), -HOLT_ECANCELLED);
	holt_box_close(b);
	ck_assert_uint_eq(boxes_left(), 1);
	holt_cancel_free(cancel);
}
END_TEST

START_TEST(dead_machine_is_typed)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;
	holt_exec *x = start("sleep 100", HOLT_EXEC_STDIN, 0);
	holt_exit result = HOLT_EXIT_INIT;
	holt_error *e = NULL;
	char c;
	size_t n = 0;

	ck_assert_int_eq(holt_box_get_info(box, &info), 0);
	const uint64_t before = clock_mono_ms();
	ck_assert_int_eq(kill(info.vmm_pid, SIGKILL), 0);
	ck_assert_int_eq(holt_exec_wait(x, 5000, &result, &e), -HOLT_EGUEST_LOST);
	ck_assert_uint_lt(clock_mono_ms() - before, 1000);
	ck_assert_ptr_nonnull(strstr(holt_error_message(e), "signal 9"));
	ck_assert_str_eq(holt_error_object(e), holt_box_id(box));
	holt_error_free(e);
	ck_assert_int_eq(holt_exec_read(x, HOLT_STDOUT, &c, 1, 100, &n, NULL), -HOLT_EGUEST_LOST);
	ck_assert_int_eq(holt_exec_write(x, "x", 1, 100, NULL, NULL), -HOLT_EGUEST_LOST);
	holt_exec_free(x);
	const char *const argv[] = {"true", NULL};
	holt_exec_options o = HOLT_EXEC_OPTIONS_INIT;
	o.argv = argv;
	ck_assert_int_eq(holt_exec_start(box, &o, &x, NULL), -HOLT_EGUEST_LOST);
}
END_TEST

START_TEST(pump_moves_files)
{
	int in[2], out[2];
	holt_exit result = HOLT_EXIT_INIT;
	char text[64] = "";

	ck_assert_int_eq(pipe(in), 0);
	ck_assert_int_eq(pipe(out), 0);
	ck_assert_int_eq(write(in[1], "abc", 3), 3);
	close(in[1]);
	holt_exec *x = start("tr a-z A-Z; echo lost >&2", HOLT_EXEC_STDIN, 0);
	ck_assert_int_eq(holt_exec_pump(x, in[0], out[1], -1, &result, NULL), 0);
	close(out[1]);
	ck_assert_int_eq(read(out[0], text, sizeof text - 1), 3);
	ck_assert_str_eq(text, "ABC");
	holt_exec_free(x);
	close(in[0]);
	close(out[0]);
}
END_TEST

START_TEST(pump_ends_with_its_reader)
{
	int out[2];
	holt_exit result = HOLT_EXIT_INIT;
	holt_error *e = NULL;

	signal(SIGPIPE, SIG_IGN);
	ck_assert_int_eq(pipe(out), 0);
	close(out[0]);
	holt_exec *x = start("yes", 0, 0);
	ck_assert_int_eq(holt_exec_pump(x, -1, out[1], -1, &result, &e), -HOLT_EIO);
	ck_assert_int_eq(holt_error_errno(e), EPIPE);
	ck_assert_str_eq(holt_error_stage(e), "output");
	holt_error_free(e);
	holt_exec_free(x);
	close(out[1]);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {streams_and_code, stdin_goes_round,
		unread_output_holds_the_program, timeout_is_124_and_the_box_goes_on, signals_arrive,
		failing_starts_are_typed, bad_arguments_are_refused, info_is_filled,
		threads_share_a_box, cancel_wakes_every_wait, dead_machine_is_typed,
		pump_moves_files, pump_ends_with_its_reader};
	Suite *s = suite_create("box");
	TCase *c = tcase_create("box");

	setenv("HOLT_KEEPER", TEST_KEEPER, 1);
	setenv("HOLT_AGENT", TEST_AGENT, 1);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 60);
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
