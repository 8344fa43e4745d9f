/* SPDX-License-Identifier: Apache-2.0 */
/* Commands through the contract: what the transport sees, shells, output, time, text. */
#include "contract_fixture.h"

#define N(array) (sizeof(array) / sizeof(array)[0])

static holt_command *run(const char *command, const holt_command_options *o)
{
	holt_command *c = NULL;
	holt_error *error = NULL;

	if (holt_sandbox_execute(sandbox, command, o, &c, &error) < 0)
		ck_abort_msg("%s", holt_error_message(error));
	return c;
}

static void check_text(const char *want)
{
	char *text = NULL;
	size_t len = 0;

	ck_assert_int_eq(holt_sandbox_execute_text(sandbox, "x", NULL, &text, &len, NULL), 0);
	ck_assert_str_eq(text, want);
	ck_assert_uint_eq(len, strlen(want));
	holt_free(text);
}

/* C-49, with bash where there is one */
START_TEST(what_the_transport_sees)
{
	holt_command_options o = HOLT_COMMAND_OPTIONS_INIT;

	o.timeout_ms = 5000;
	holt_command_free(run("echo ok", &o));
	ck_assert_str_eq(stub.argv[0], "bash");
	ck_assert_str_eq(stub.argv[1], "-lc");
	ck_assert_str_eq(stub.argv[2], "echo ok");
	ck_assert_int_eq(stub.n_env, -1);
	ck_assert_uint_gt(stub.timeout_ms, 4000);
	ck_assert_uint_le(stub.timeout_ms, 5000);
	/* The command's own time-out comes first, and the call still ends within a second of it. */
	ck_assert_uint_gt(stub.call.timeout_ms, stub.timeout_ms);
	ck_assert_uint_lt(stub.call.timeout_ms, 6000);
	ck_assert_int_eq(atomic_load(&stub.calls), 1);
	holt_command_free(run("", NULL));
	ck_assert_str_eq(stub.argv[2], "");
	ck_assert_uint_gt(stub.timeout_ms, 599000);
	ck_assert_uint_le(stub.timeout_ms, 600000);
	o.timeout_ms = HOLT_FOREVER;
	holt_command_free(run("x", &o));
	ck_assert(stub.timeout_ms == HOLT_FOREVER && stub.call.timeout_ms == HOLT_FOREVER);
}
END_TEST

START_TEST(sh_where_there_is_no_bash)
{
	stub.answers[0] = (struct answer){.code = HOLT_ENOT_FOUND, .message = "no bash"};
	stub.n_answers = 2;
	holt_command_free(run("x", NULL));
	ck_assert_str_eq(stub.argv[0], "sh");
	ck_assert_int_eq(atomic_load(&stub.calls), 2);
	/* Remembered. */
	holt_command_free(run("x", NULL));
	ck_assert_str_eq(stub.argv[0], "sh");
	ck_assert_int_eq(atomic_load(&stub.calls), 3);
	/* And forgotten when it is gone. */
	stub.at = 0;
	holt_command_free(run("x", NULL));
	ck_assert_str_eq(stub.argv[0], "bash");
	ck_assert_int_eq(atomic_load(&stub.calls), 5);
}
END_TEST

START_TEST(no_shell_at_all)
{
	holt_command *c = NULL;
	holt_error *error = NULL;

	answer_error(HOLT_ENOT_FOUND, "not there");
	int r = holt_sandbox_execute(sandbox, "x", NULL, &c, &error);
	ck_assert_int_eq(atomic_load(&stub.calls), 4);
	ck_assert_str_eq(stub.argv[0], "/bin/sh");
	ck_assert_ptr_null(c);
	ck_assert_str_ne(holt_error_hint(error), "");
	ck_assert_int_eq(holt_error_failure(error), HOLT_FAILURE_NONE);
	check_error(r, &error, HOLT_ENOT_FOUND, "the image has no shell");
	/* Forgotten, whatever there was before: the better one is asked for first again. */
	stub.answers[1] = (struct answer){.code = 0};
	stub.n_answers = 2;
	holt_command_free(run("x", NULL));
	ck_assert_str_eq(stub.argv[0], "sh");
	answer_error(HOLT_ENOT_FOUND, "not there");
	ck_assert_int_eq(holt_sandbox_execute(sandbox, "x", NULL, &c, NULL), -HOLT_ENOT_FOUND);
	ck_assert_str_eq(stub.argv[0], "/bin/sh");
	answer(&(struct answer){.code = 0});
	holt_command_free(run("x", NULL));
	ck_assert_str_eq(stub.argv[0], "bash");
	ck_assert_int_eq(atomic_load(&stub.calls), 11);
	/* Other failures ask for no second shell. */
	answer_error(HOLT_EDENIED, "not executable");
	r = holt_sandbox_execute(sandbox, "x", NULL, &c, &error);
	ck_assert_int_eq(atomic_load(&stub.calls), 12);
	check_error(r, &error, HOLT_EDENIED, "not executable");
}
END_TEST

/* C-47 */
START_TEST(names_of_variables_come_first)
{
	static const char *const bad[] = {"BAD KEY=1", "1A=1", "A-B=1", "=1", "A\n=1", "A"};
	holt_command_options o = HOLT_COMMAND_OPTIONS_INIT;

	holt_sandbox_close(sandbox);
	for (size_t i = 0; i < N(bad); i++) {
		const char *const env[] = {bad[i], NULL};
		holt_command *c = NULL;
		holt_error *error = NULL;
		char *text = NULL;

		o.env = env;
		int r = holt_sandbox_execute(sandbox, "x", &o, &c, &error);
		check_error(r, &error, HOLT_EINVALID, "POSIX");
		r = holt_sandbox_execute_text(sandbox, "x", &o, &text, NULL, &error);
		check_error(r, &error, HOLT_EINVALID, "POSIX");
	}
	ck_assert_int_eq(atomic_load(&stub.calls), 0);
}
END_TEST

/* C-48 */
START_TEST(variables_of_sandbox_and_call)
{
	static const char *const own[] = {"A=1", "B=1", NULL};
	static const char *const more[] = {"B=2", "C=", NULL};
	holt_sandbox_options so = HOLT_SANDBOX_OPTIONS_INIT;
	holt_command_options o = HOLT_COMMAND_OPTIONS_INIT;

	teardown();
	so.env = own;
	stub_open(&so);
	o.env = more;
	holt_command_free(run("x", &o));
	ck_assert_int_eq(stub.n_env, 3);
	ck_assert_str_eq(stub.env[0], "A=1");
	ck_assert_str_eq(stub.env[1], "B=2");
	ck_assert_str_eq(stub.env[2], "C=");
	holt_command_free(run("x", NULL));
	ck_assert_int_eq(stub.n_env, 2);
	ck_assert_str_eq(stub.env[1], "B=1");
}
END_TEST

START_TEST(no_variables_are_no_list)
{
	static const char *const none[] = {NULL};
	holt_command_options o = HOLT_COMMAND_OPTIONS_INIT;

	o.env = none;
	holt_command_free(run("x", &o));
	ck_assert_int_eq(stub.n_env, -1);
}
END_TEST

static const struct piece both[] = {{HOLT_STDOUT, "out ", 4, NULL}, {HOLT_STDERR, "e\0r", 3, NULL},
	{HOLT_STDOUT, "more", 4, NULL}, {HOLT_STDOUT, "", 0, NULL}};

START_TEST(output_and_end)
{
	holt_exit e = HOLT_EXIT_INIT;
	uint64_t total = 0;
	size_t len = 0;

	answer(&(struct answer){
		.exit = {.code = 137, .signal = 9, .flags = HOLT_EXIT_OOM, .duration_us = 5},
		.pieces = both,
		.n_pieces = N(both)});
	holt_command *c = run("x", NULL);
	ck_assert_int_eq(holt_command_exit(c, &e), 0);
	ck_assert_int_eq(e.code, 137);
	ck_assert_int_eq(e.signal, 9);
	ck_assert_uint_eq(e.flags, HOLT_EXIT_OOM);
	ck_assert_uint_eq(e.duration_us, 5);
	ck_assert_uint_eq(e.struct_size, sizeof e);
	ck_assert_str_eq(holt_command_output(c, HOLT_STDOUT, &len, &total), "out more");
	ck_assert(len == 8 && total == 8);
	ck_assert_int_eq(memcmp(holt_command_output(c, HOLT_STDERR, &len, NULL), "e\0r", 4), 0);
	ck_assert_uint_eq(len, 3);
	ck_assert_str_eq(holt_command_output(c, 3, &len, &total), "");
	ck_assert(len == 0 && total == 0);
	holt_command_free(c);
}
END_TEST

/* C-61, C-294 */
START_TEST(what_is_over_the_limit_is_counted_and_dropped)
{
	holt_command_options o = HOLT_COMMAND_OPTIONS_INIT;
	uint64_t total = 0;
	size_t len = 0;
	char *text = NULL;

	answer(&(struct answer){.pieces = both, .n_pieces = N(both)});
	o.capture_bytes = 5;
	holt_command *c = run("x", &o);
	ck_assert_str_eq(holt_command_output(c, HOLT_STDOUT, &len, &total), "out m");
	ck_assert(len == 5 && total == 8);
	ck_assert_int_eq(holt_command_text(c, &text, &len, NULL), 0);
	ck_assert_int_eq(memcmp(text,
				 "out m\n... [output truncated after 5 of 8 bytes; remaining "
				 "output discarded] ...\ne\0r",
				 len),
		0);
	holt_free(text);
	holt_command_free(c);
	o.capture_bytes = HOLT_CAPTURE_BYTES_MAX + 1;
	ck_assert_int_eq(holt_sandbox_execute(sandbox, "x", &o, &c, NULL), -HOLT_EINVALID);
}
END_TEST

static char seen[64];
static size_t seen_len;

static int see(int stream, const void *data, size_t len, void *user)
{
	ck_assert(stream == HOLT_STDOUT || stream == HOLT_STDERR);
	memcpy(seen + seen_len, data, len);
	seen_len += len;
	return user && seen_len >= 7;
}

START_TEST(output_as_it_comes)
{
	holt_command_options o = HOLT_COMMAND_OPTIONS_INIT;
	holt_command *c = NULL;
	holt_error *error = NULL;
	uint64_t total = 0;
	size_t len = 0;

	answer(&(struct answer){.pieces = both, .n_pieces = N(both)});
	o.output = see;
	seen_len = 0;
	c = run("x", &o);
	ck_assert_uint_eq(seen_len, 11);
	ck_assert_int_eq(memcmp(seen, "out e\0rmore", 11), 0);
	ck_assert_str_eq(holt_command_output(c, HOLT_STDOUT, &len, &total), "");
	ck_assert(len == 0 && total == 8);
	holt_command_free(c);
	/* It ends the call, also where the backend does not care, and is not called again. */
	for (int deaf = 0; deaf < 2; deaf++) {
		answer(&(struct answer){.pieces = both, .n_pieces = N(both), .deaf = deaf});
		o.user = &o;
		seen_len = 0;
		c = NULL;
		const int r = holt_sandbox_execute(sandbox, "x", &o, &c, &error);
		check_error(r, &error, HOLT_ECANCELLED, deaf ? "cancelled" : "");
		ck_assert_ptr_null(c);
		ck_assert_uint_eq(seen_len, 7);
	}
	char *text = NULL;
	ck_assert_int_eq(
		holt_sandbox_execute_text(sandbox, "x", &o, &text, NULL, NULL), -HOLT_EINVALID);
}
END_TEST

/* C-50 to C-55 through the whole contract */
START_TEST(texts)
{
	const struct piece pytest[] = {{HOLT_STDOUT, "5 passed, 1 error\n", 18, NULL}};

	check_text("(no output)");
	answer(&(struct answer){.exit = {.code = 1}, .pieces = pytest, .n_pieces = 1});
	check_text("5 passed, 1 error\n\nExit Code: 1");
	answer_error(HOLT_EGUEST_LOST, "vsock disconnected");
	check_text("Error: vsock disconnected");
	answer_error(HOLT_EIO, "user command failed");
	check_text("Error: user command failed");
	answer_error(HOLT_EUNAVAILABLE, "transport not ready, retry later");
	check_text("Error: transport not ready, retry later");
	answer_error(HOLT_EBUSY, "the box is paused");
	check_text("Error: the box is paused (retry later)");
	holt_sandbox_close(sandbox);
	check_text("Error: sandbox has been closed");
}
END_TEST

/* C-59, C-292 */
START_TEST(time_out_of_the_command)
{
	static const char want[] =
		"out e\nCommand timed out after 1.5 seconds and was terminated. ";
	const struct piece part[] = {{HOLT_STDOUT, "out e", 5, NULL}};
	holt_command_options o = HOLT_COMMAND_OPTIONS_INIT;
	holt_exit e = HOLT_EXIT_INIT;
	char *text = NULL;

	answer(&(struct answer){.exit = {.code = 124, .flags = HOLT_EXIT_TIMED_OUT},
		.pieces = part,
		.n_pieces = 1});
	o.timeout_ms = 1500;
	holt_command *c = run("x", &o);
	ck_assert_int_eq(holt_command_exit(c, &e), 0);
	ck_assert_int_eq(e.code, 124);
	ck_assert_uint_eq(e.flags, HOLT_EXIT_TIMED_OUT);
	ck_assert_int_eq(holt_command_text(c, &text, NULL, NULL), 0);
	ck_assert_int_eq(strncmp(text, want, strlen(want)), 0);
	holt_free(text);
	holt_command_free(c);
}
END_TEST

/* C-56, C-290 */
START_TEST(a_sandbox_that_does_not_answer)
{
	holt_command_options o = HOLT_COMMAND_OPTIONS_INIT;
	holt_command *c = NULL;
	holt_error *error = NULL;

	answer_error(HOLT_ETIMEOUT, "");
	o.timeout_ms = 2000;
	int r = holt_sandbox_execute(sandbox, "x", &o, &c, &error);
	ck_assert_int_eq(holt_error_failure(error), HOLT_FAILURE_NONE);
	check_error(r, &error, HOLT_ETIMEOUT, "timed out after 2 seconds");
	check_text("Error: timed out after 600 seconds");
	ck_assert_int_eq(atomic_load(&told), 0);
}
END_TEST

START_TEST(arguments)
{
	holt_command_options o = HOLT_COMMAND_OPTIONS_INIT;
	holt_command *c = NULL;
	holt_exit e = HOLT_EXIT_INIT;
	size_t len = 1;
	char *text = NULL;

	ck_assert_int_eq(holt_sandbox_execute(NULL, "x", NULL, &c, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_sandbox_execute(sandbox, NULL, NULL, &c, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_sandbox_execute(sandbox, "x", NULL, NULL, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(
		holt_sandbox_execute_text(sandbox, "x", NULL, NULL, NULL, NULL), -HOLT_EINVALID);
	o.struct_size = 4;
	ck_assert_int_eq(holt_sandbox_execute(sandbox, "x", &o, &c, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(atomic_load(&stub.calls), 0);
	ck_assert_int_eq(holt_command_exit(NULL, &e), -HOLT_EINVALID);
	ck_assert_int_eq(holt_command_text(NULL, &text, &len, NULL), -HOLT_EINVALID);
	ck_assert_str_eq(holt_command_output(NULL, HOLT_STDOUT, &len, NULL), "");
	ck_assert_uint_eq(len, 0);
	holt_command_free(NULL);
	c = run("x", NULL);
	e.struct_size = 4;
	ck_assert_int_eq(holt_command_exit(c, &e), -HOLT_EINVALID);
	holt_command_free(c);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
	static const char *const env[] = {"A=1", NULL};
	holt_command_options o = HOLT_COMMAND_OPTIONS_INIT;
	holt_command *c = NULL;
	char *text = NULL;
	unsigned long n = 0;

	answer(&(struct answer){.pieces = both, .n_pieces = N(both)});
	o.env = env;
	while (!c) {
		mem_fail_at(++n);
		const int r = holt_sandbox_execute(sandbox, "x", &o, &c, NULL);
		mem_fail_at(0);
		ck_assert_int_eq(r, c ? 0 : -HOLT_ENO_MEMORY);
	}
	ck_assert_uint_ge(n, 5);
	holt_command_free(c);
	for (n = 1; !text; n++) {
		mem_fail_at(n);
		const int r = holt_sandbox_execute_text(sandbox, "x", &o, &text, NULL, NULL);
		mem_fail_at(0);
		ck_assert_int_eq(r, text ? 0 : -HOLT_ENO_MEMORY);
	}
	holt_free(text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("contract_exec");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, what_the_transport_sees);
	tcase_add_test(t, sh_where_there_is_no_bash);
	tcase_add_test(t, no_shell_at_all);
	tcase_add_test(t, names_of_variables_come_first);
	tcase_add_test(t, variables_of_sandbox_and_call);
	tcase_add_test(t, no_variables_are_no_list);
	tcase_add_test(t, output_and_end);
	tcase_add_test(t, what_is_over_the_limit_is_counted_and_dropped);
	tcase_add_test(t, output_as_it_comes);
	tcase_add_test(t, texts);
	tcase_add_test(t, time_out_of_the_command);
	tcase_add_test(t, a_sandbox_that_does_not_answer);
	tcase_add_test(t, arguments);
	tcase_add_test(t, every_allocation_may_fail);
	suite_add_tcase(s, t);
	return run_suite(s);
}
