/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox of a box, from the public functions to the agent, over the fake engine: that the parts
 * fit. The agent works on this host's files here, so all paths lie in a directory of the test's.
 * What each part does is in the tests of the contract, of the backend and of the agent.
 */
#include "boxes_fixture.h"

static char work[96];
static holt_box *box;
static holt_sandbox *sandbox;

static void begin(void)
{
	holt_sandbox_options o = HOLT_SANDBOX_OPTIONS_INIT;
	char own[112];
	const char *const env[] = {own, NULL};

	setup();
	snprintf(work, sizeof work, "%s/work", home_dir);
	/* A login shell would read what this host's user has in its home. */
	snprintf(own, sizeof own, "HOME=%s", work);
	o.env = env;
	ck_assert_int_eq(mkdir(work, 0755), 0);
	box = make(NULL, 0, NULL);
	start_box(box, 0);
	o.cwd = work;
	o.user_data = work;
	ok(holt_sandbox_open(box, &o, &sandbox, E));
}

static void end(void)
{
	holt_sandbox_free(sandbox);
	holt_box_close(box);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, work), 0);
	teardown();
}

static void check_text(const char *command, const char *want)
{
	char *text = NULL;

	ok(holt_sandbox_execute_text(sandbox, command, NULL, &text, NULL, E));
	ck_assert_str_eq(text, want);
	holt_free(text);
}

START_TEST(opening)
{
	holt_sandbox_options o = HOLT_SANDBOX_OPTIONS_INIT;
	holt_sandbox *s = NULL;

	ck_assert_str_eq(holt_sandbox_id(sandbox), holt_box_id(box));
	fails(HOLT_EINVALID, holt_sandbox_open(NULL, NULL, &s, E));
	fails(HOLT_EINVALID, holt_sandbox_open(box, NULL, NULL, E));
	o.id = "";
	fails(HOLT_EINVALID, holt_sandbox_open(box, &o, &s, E));
	o.id = "own";
	ok(holt_sandbox_open(box, &o, &s, E));
	ck_assert_str_eq(holt_sandbox_id(s), "own");
	holt_sandbox_free(s);
}
END_TEST

/* C-45, C-50 to C-53 */
START_TEST(commands)
{
	check_text("echo ok", "ok\n");
	check_text("echo a; echo b >&2; exit 3", "a\n\nb\n\nExit Code: 3");
	check_text("exit 3", "Command exited with code 3");
	check_text("", "(no output)");
	check_text("cat", "(no output)");
	check_text("pwd >p; cd /; X=1; f() { :; }", "(no output)");
	check_text("echo \"$(pwd)$X\" | cmp - p; type f >/dev/null 2>&1 || echo none", "none\n");
}
END_TEST

/* C-290 */
START_TEST(a_time_out_leaves_the_sandbox_usable)
{
	holt_command_options o = HOLT_COMMAND_OPTIONS_INIT;
	holt_exit e = HOLT_EXIT_INIT;
	holt_command *c = NULL;
	size_t len = 0;
	const uint64_t start = clock_mono_ms();

	o.timeout_ms = 500;
	ok(holt_sandbox_execute(sandbox, "echo part; sleep 60", &o, &c, E));
	ck_assert_uint_lt(clock_mono_ms() - start, 1500);
	ck_assert_int_eq(holt_command_exit(c, &e), 0);
	ck_assert_int_eq(e.code, 124);
	ck_assert_uint_eq(e.flags & HOLT_EXIT_TIMED_OUT, HOLT_EXIT_TIMED_OUT);
	ck_assert_str_eq(holt_command_output(c, HOLT_STDOUT, &len, NULL), "part\n");
	holt_command_free(c);
	check_text("echo ok", "ok\n");
}
END_TEST

static int count(const holt_entry *e, void *user)
{
	ck_assert_int_eq(strncmp(e->path, work, strlen(work)), 0);
	++*(int *)user;
	return 0;
}

static int hit(const holt_match *m, void *user)
{
	char want[160];

	snprintf(want, sizeof want, "%s/d/f", work);
	ck_assert_str_eq(m->path, want);
	ck_assert_uint_eq(m->line_number, 2);
	ck_assert_int_eq(strncmp(m->line, "two", m->line_len), 0);
	++*(int *)user;
	return 0;
}

static void check_read(const char *path, const holt_read_options *o, const char *want)
{
	char *data = NULL;
	size_t len = 0;

	ok(holt_sandbox_read(sandbox, path, o, &data, &len, E));
	ck_assert_uint_eq(len, strlen(want));
	ck_assert_str_eq(data, want);
	holt_free(data);
}

START_TEST(files_and_searches)
{
	holt_read_options o = HOLT_READ_OPTIONS_INIT;
	holt_file_info info = HOLT_FILE_INFO_INIT;
	char *data = NULL;
	size_t len = 0;
	char path[160];
	int n = 0;

	ok(holt_sandbox_write(sandbox, "d/f", "one\r\ntwo\n", 9, NULL, E));
	ok(holt_sandbox_append(sandbox, "d/f", "three", 5, NULL, E));
	check_read("d/f", NULL, "one\r\ntwo\nthree");
	o.flags = HOLT_READ_LINES;
	o.last_line = 2;
	check_read("d/f", &o, "one\ntwo");
	o.first_line = 9;
	check_read("d/f", &o, "");
	fails(HOLT_ENOT_FOUND, holt_sandbox_read(sandbox, "d/none", &o, &data, &len, E));
	fails(HOLT_EINVALID, holt_sandbox_read(sandbox, "d", &o, &data, &len, E));
	snprintf(path, sizeof path, "%s/d/f", work);
	ok(holt_sandbox_download(sandbox, path, NULL, &data, &len, E));
	ck_assert_uint_eq(len, 14);
	holt_free(data);
	ok(holt_sandbox_list(sandbox, work, NULL, count, &n, NULL, E));
	ck_assert_int_eq(n, 3);
	n = 0;
	ok(holt_sandbox_glob(sandbox, work, "d/*", NULL, count, &n, NULL, E));
	ck_assert_int_eq(n, 1);
	n = 0;
	ok(holt_sandbox_grep(sandbox, work, "TWO", NULL, hit, &n, NULL, E));
	ck_assert_int_eq(n, 1);
	ok(holt_sandbox_move(sandbox, "d/f", "d/g", NULL, E));
	ok(holt_sandbox_stat(sandbox, "d/g", NULL, &info, E));
	ck_assert_uint_eq(info.size_bytes, 14);
	ok(holt_sandbox_remove(sandbox, "d/g", NULL, E));
	fails(HOLT_ENOT_FOUND, holt_sandbox_stat(sandbox, "d/g", NULL, &info, E));
}
END_TEST

static void *sleep_long(void *user)
{
	holt_command *c = NULL;

	*(int *)user = holt_sandbox_execute(sandbox, "sleep 60", NULL, &c, NULL);
	return NULL;
}

START_TEST(closing_ends_a_command)
{
	pthread_t thread;
	int result = 0;

	ck_assert_int_eq(pthread_create(&thread, NULL, sleep_long, &result), 0);
	nap_ms(300);
	const uint64_t start = clock_mono_ms();
	holt_sandbox_close(sandbox);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(result, -HOLT_ECLOSED);
	ck_assert_uint_lt(clock_mono_ms() - start, 2000);
	/* The box is left alone. */
	ok(holt_box_ping(box, 5000, NULL, E));
}
END_TEST

static void on_terminal(const char *id, const holt_error *error, void *user)
{
	ck_assert_str_eq(id, "gone");
	ck_assert_int_eq(holt_error_failure(error), HOLT_FAILURE_TERMINAL);
	++*(int *)user;
}

START_TEST(a_box_that_has_ended_is_terminal)
{
	holt_sandbox_options o = HOLT_SANDBOX_OPTIONS_INIT;
	holt_sandbox *s = NULL;
	char *text = NULL;
	int told = 0;

	o.id = "gone";
	o.terminal = on_terminal;
	o.terminal_user = &told;
	ok(holt_sandbox_open(box, &o, &s, E));
	ok(holt_box_kill(box, SIGKILL, E));
	for (int i = 0; i < 2; i++) {
		ok(holt_sandbox_execute_text(s, "echo", NULL, &text, NULL, E));
		ck_assert_ptr_nonnull(strstr(text, "vsock disconnected"));
		holt_free(text);
	}
	ck_assert_int_eq(told, 1);
	holt_sandbox_free(s);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {opening, commands, a_time_out_leaves_the_sandbox_usable,
		files_and_searches, closing_ends_a_command, a_box_that_has_ended_is_terminal};

	return run_tests_in("sandbox", begin, end, tests, sizeof tests / sizeof tests[0]);
}
