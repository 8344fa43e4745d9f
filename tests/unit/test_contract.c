/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox itself: opening, closing while calls run, what failures mean, who is told. */
#include "contract_fixture.h"

#define N(array) (sizeof(array) / sizeof(array)[0])

#define THREADS 8

static void nap_ms(long ms)
{
	const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	(void)nanosleep(&t, NULL);
}

START_TEST(opening)
{
	holt_sandbox_options o = HOLT_SANDBOX_OPTIONS_INIT;
	holt_backend b = stub_backend;
	holt_sandbox *s = NULL;
	holt_error *error = NULL;

	ck_assert_str_eq(holt_sandbox_id(sandbox), "box-id");
	ck_assert_str_eq(holt_sandbox_id(NULL), "");
	int r = holt_sandbox_open_backend(&b, NULL, &o, &s, &error);
	check_error(r, &error, HOLT_EINVALID, "id must not be NULL");
	o.id = "";
	r = holt_sandbox_open_backend(&b, NULL, &o, &s, &error);
	check_error(r, &error, HOLT_EINVALID, "1 to 255 bytes");
	o.id = "x";
	o.user = "root";
	r = holt_sandbox_open_backend(&b, NULL, &o, &s, &error);
	check_error(r, &error, HOLT_EINVALID, "user and cwd");
	o.user = NULL;
	o.user_data = "rel";
	r = holt_sandbox_open_backend(&b, NULL, &o, &s, &error);
	check_error(r, &error, HOLT_EINVALID, "'rel' is not an absolute path");
	o.user_data = NULL;
	o.flags = 2;
	r = holt_sandbox_open_backend(&b, NULL, &o, &s, &error);
	check_error(r, &error, HOLT_EINVALID, "unknown flags 0x2");
	o.flags = 0;
	o.env = (const char *const[]){"A-B=1", NULL};
	r = holt_sandbox_open_backend(&b, NULL, &o, &s, &error);
	check_error(r, &error, HOLT_EINVALID, "POSIX");
	o.env = NULL;
	b.grep = NULL;
	r = holt_sandbox_open_backend(&b, NULL, &o, &s, &error);
	check_error(r, &error, HOLT_EINVALID, "backend 'stub'");
	b.grep = stub_grep;
	b.struct_size = 8;
	r = holt_sandbox_open_backend(&b, NULL, &o, &s, &error);
	check_error(r, &error, HOLT_EINVALID, "struct_size of holt_backend");
	/* Without close, and the table may go. */
	b = stub_backend;
	b.close = NULL;
	ck_assert_int_eq(holt_sandbox_open_backend(&b, NULL, &o, &s, NULL), 0);
	holt_sandbox_free(s);
	ck_assert_ptr_null(error);
	ck_assert_int_eq(holt_sandbox_open_backend(&b, NULL, NULL, &s, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_sandbox_open_backend(NULL, NULL, &o, &s, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_sandbox_open_backend(&b, NULL, &o, NULL, NULL), -HOLT_EINVALID);
	holt_sandbox_free(NULL);
	holt_sandbox_close(NULL);
	ck_assert_int_eq(atomic_load(&stub.closed), 0);
}
END_TEST

START_TEST(opening_without_memory)
{
	static const char *const env[] = {"A=1", NULL};
	holt_sandbox_options o = HOLT_SANDBOX_OPTIONS_INIT;
	holt_sandbox *s = NULL;
	unsigned long n = 0;

	o.id = "x";
	o.env = env;
	while (!s) {
		mem_fail_at(++n);
		const int r = holt_sandbox_open_backend(&stub_backend, &stub, &o, &s, NULL);
		mem_fail_at(0);
		ck_assert_int_eq(r, s ? 0 : -HOLT_ENO_MEMORY);
		ck_assert_int_eq(atomic_load(&stub.closed), 0);
	}
	ck_assert_uint_ge(n, 6);
	holt_sandbox_free(s);
	ck_assert_int_eq(atomic_load(&stub.closed), 1);
	atomic_store(&stub.closed, 0);
}
END_TEST

static int read_file(holt_error **reterr)
{
	char *data = NULL;
	size_t len = 0;
	const int r = holt_sandbox_read(sandbox, "/f", NULL, &data, &len, reterr);

	holt_free(data);
	return r;
}

static atomic_int error_lines;

static void on_log(int level, const char *component, const char *message, void *user)
{
	(void)component;
	(void)message;
	(void)user;
	if (level == HOLT_LOG_ERROR)
		atomic_fetch_add(&error_lines, 1);
}

/* C-55, C-68 */
START_TEST(a_closed_sandbox_refuses_everything)
{
	holt_file_info info = HOLT_FILE_INFO_INIT;
	holt_error *error = NULL;
	holt_command *c = NULL;
	char *text = NULL;

	holt_log_set(HOLT_LOG_DEBUG, on_log, NULL);
	holt_sandbox_close(sandbox);
	holt_sandbox_close(sandbox);
	int r = holt_sandbox_execute(sandbox, "x", NULL, &c, &error);
	ck_assert_str_eq(holt_error_message(error), "sandbox has been closed");
	ck_assert_str_eq(holt_error_object(error), "box-id");
	ck_assert_int_eq(holt_error_failure(error), HOLT_FAILURE_NONE);
	ck_assert_int_eq(holt_error_text(error, &text, NULL), 0);
	ck_assert_str_eq(text, "Error: sandbox has been closed");
	holt_free(text);
	check_error(r, &error, HOLT_ECLOSED, "sandbox has been closed");
	ck_assert_int_eq(read_file(NULL), -HOLT_ECLOSED);
	ck_assert_int_eq(holt_sandbox_write(sandbox, "/f", "x", 1, NULL, NULL), -HOLT_ECLOSED);
	ck_assert_int_eq(holt_sandbox_stat(sandbox, "/f", NULL, &info, NULL), -HOLT_ECLOSED);
	/* What is wrong anyway is still said. */
	ck_assert_int_eq(holt_sandbox_remove(sandbox, "/..", NULL, NULL), -HOLT_EDENIED);
	ck_assert_int_eq(atomic_load(&stub.calls), 0);
	ck_assert_int_eq(atomic_load(&told), 0);
	ck_assert_int_eq(atomic_load(&error_lines), 0);
	holt_log_set(0, NULL, NULL);
}
END_TEST

/* C-65, C-66 */
START_TEST(what_codes_mean)
{
	static const struct {
		int code, want, failure, told;
		const char *text;
	} rows[] = {
		{HOLT_EIO, HOLT_EIO, HOLT_FAILURE_NONE, 0, "Error: broken pipe"},
		{HOLT_EUNAVAILABLE, HOLT_EUNAVAILABLE, HOLT_FAILURE_RETRYABLE, 0,
			"Error: broken pipe (retry later)"},
		{HOLT_EBUSY, HOLT_EBUSY, HOLT_FAILURE_RETRYABLE, 0,
			"Error: broken pipe (retry later)"},
		{HOLT_ELIMIT, HOLT_ELIMIT, HOLT_FAILURE_NONE, 0, "Error: broken pipe"},
		{HOLT_EGUEST_LOST, HOLT_EGUEST_LOST, HOLT_FAILURE_TERMINAL, 1,
			"Error: broken pipe (vsock disconnected)"},
		{HOLT_EPROTOCOL, HOLT_EPROTOCOL, HOLT_FAILURE_TERMINAL, 1,
			"Error: broken pipe (vsock disconnected)"},
		{HOLT_ECLOSED, HOLT_EGUEST_LOST, HOLT_FAILURE_TERMINAL, 1,
			"Error: broken pipe (vsock disconnected)"},
		{HOLT_ECANCELLED, HOLT_ECANCELLED, HOLT_FAILURE_NONE, 0, "Error: broken pipe"},
		{HOLT_EINTERNAL, HOLT_EINTERNAL, HOLT_FAILURE_NONE, 0, "Error: broken pipe"},
	};

	for (size_t i = 0; i < N(rows); i++) {
		holt_error *error = NULL;
		char *text = NULL;

		teardown();
		setup();
		answer(&(struct answer){.code = rows[i].code,
			.errnum = EPIPE,
			.message = "broken pipe",
			.stage = "there",
			.object = "thing"});
		const int r = read_file(&error);
		ck_assert_int_eq(holt_error_failure(error), rows[i].failure);
		ck_assert_int_eq(holt_error_errno(error), EPIPE);
		ck_assert_str_eq(holt_error_stage(error), "there");
		ck_assert_str_eq(holt_error_object(error), "thing");
		ck_assert_int_eq(holt_error_text(error, &text, NULL), 0);
		ck_assert_str_eq(text, rows[i].text);
		holt_free(text);
		check_error(r, &error, rows[i].want, "broken pipe");
		ck_assert_int_eq(atomic_load(&told), rows[i].told);
		ck_assert_str_eq(told_message, rows[i].told ? "broken pipe" : "");
		ck_assert_int_eq(read_file(NULL), -rows[i].want);
		ck_assert_int_eq(atomic_load(&told), rows[i].told);
	}
}
END_TEST

/* C-69, C-70 */
START_TEST(only_failures_count_and_those_of_every_call)
{
	const struct piece p[] = {{HOLT_STDERR, "vsock disconnected: broken pipe\n", 32, NULL}};
	holt_search_result r = HOLT_SEARCH_RESULT_INIT;
	holt_command *c = NULL;

	answer(&(struct answer){.exit = {.code = 1}, .pieces = p, .n_pieces = 1});
	ck_assert_int_eq(holt_sandbox_execute(sandbox, "x", NULL, &c, NULL), 0);
	holt_command_free(c);
	ck_assert_int_eq(atomic_load(&told), 0);
	answer_error(HOLT_EGUEST_LOST, "gone");
	ck_assert_int_eq(holt_sandbox_list(sandbox, "/w", NULL, (holt_entry_fn)1, NULL, &r, NULL),
		-HOLT_EGUEST_LOST);
	ck_assert_int_eq(atomic_load(&told), 1);
	/* What works again can end again. */
	answer(&(struct answer){.code = 0});
	ck_assert_int_eq(read_file(NULL), 0);
	answer_error(HOLT_EGUEST_LOST, "gone");
	ck_assert_int_eq(read_file(NULL), -HOLT_EGUEST_LOST);
	ck_assert_int_eq(read_file(NULL), -HOLT_EGUEST_LOST);
	ck_assert_int_eq(atomic_load(&told), 2);
}
END_TEST

/* C-56: no bare time-outs. */
START_TEST(time_outs_name_the_time)
{
	holt_call_options o = HOLT_CALL_OPTIONS_INIT;
	holt_error *error = NULL;

	answer(&(struct answer){
		.code = HOLT_ETIMEOUT, .message = "no answer", .errnum = ETIMEDOUT});
	o.timeout_ms = 1500;
	int r = holt_sandbox_remove(sandbox, "/f", &o, &error);
	ck_assert_str_eq(holt_error_object(error), "/f");
	ck_assert_int_eq(holt_error_errno(error), ETIMEDOUT);
	ck_assert_str_ne(holt_error_hint(error), "");
	ck_assert_int_eq(holt_error_failure(error), HOLT_FAILURE_NONE);
	check_error(r, &error, HOLT_ETIMEOUT, "timed out after 1.5 seconds: no answer");
}
END_TEST

START_TEST(backends_that_break_the_rules)
{
	holt_error *error = NULL;

	answer(&(struct answer){.code = HOLT_EGUEST_LOST, .mute = true});
	int r = read_file(&error);
	check_error(r, &error, HOLT_EGUEST_LOST, "'stub' failed and does not say why");
	answer(&(struct answer){.code = 99, .mute = true});
	r = read_file(&error);
	check_error(r, &error, HOLT_EINTERNAL, "'stub' failed and does not say why");
	answer(&(struct answer){.code = -3, .mute = true});
	r = read_file(&error);
	check_error(r, &error, HOLT_EINTERNAL, "'stub' failed and does not say why");
}
END_TEST

struct call {
	pthread_t thread;
	holt_cancel *cancel;
	int result;
	int failure;
	char message[128];
};

static void *run_call(void *user)
{
	holt_command_options o = HOLT_COMMAND_OPTIONS_INIT;
	struct call *call = user;
	holt_command *c = NULL;
	holt_error *error = NULL;

	o.cancel = call->cancel;
	call->result = holt_sandbox_execute(sandbox, "x", &o, &c, &error);
	call->failure = holt_error_failure(error);
	(void)snprintf(call->message, sizeof call->message, "%s", holt_error_message(error));
	holt_error_free(error);
	holt_command_free(c);
	return NULL;
}

static void start_calls(struct call *calls, size_t n)
{
	atomic_store(&stub.block, true);
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(pthread_create(&calls[i].thread, NULL, run_call, &calls[i]), 0);
	while (atomic_load(&stub.blocked) < (int)n)
		nap_ms(1);
}

START_TEST(closing_ends_8_running_calls)
{
	struct call calls[THREADS] = {0};
	const uint64_t begin = clock_mono_ms();

	start_calls(calls, THREADS);
	holt_sandbox_close(sandbox);
	for (size_t i = 0; i < THREADS; i++) {
		ck_assert_int_eq(pthread_join(calls[i].thread, NULL), 0);
		ck_assert_int_eq(calls[i].result, -HOLT_ECLOSED);
		ck_assert_int_eq(calls[i].failure, HOLT_FAILURE_NONE);
		ck_assert_str_eq(calls[i].message, "sandbox has been closed");
	}
	ck_assert_uint_lt(clock_mono_ms() - begin, 10000);
	ck_assert_int_eq(atomic_load(&told), 0);
}
END_TEST

START_TEST(a_token_ends_its_own_call_only)
{
	struct call calls[2] = {0};

	ck_assert_int_eq(cancel_new(&calls[0].cancel, NULL), 0);
	start_calls(calls, 2);
	cancel_trigger(calls[0].cancel);
	ck_assert_int_eq(pthread_join(calls[0].thread, NULL), 0);
	ck_assert_int_eq(calls[0].result, -HOLT_ECANCELLED);
	nap_ms(20);
	ck_assert_int_eq(atomic_load(&stub.blocked), 1);
	holt_sandbox_close(sandbox);
	ck_assert_int_eq(pthread_join(calls[1].thread, NULL), 0);
	ck_assert_int_eq(calls[1].result, -HOLT_ECLOSED);
	cancel_free(calls[0].cancel);
}
END_TEST

START_TEST(a_token_that_was_triggered_before)
{
	holt_call_options o = HOLT_CALL_OPTIONS_INIT;
	holt_error *error = NULL;

	ck_assert_int_eq(cancel_new(&o.cancel, NULL), 0);
	cancel_trigger(o.cancel);
	const int r = holt_sandbox_remove(sandbox, "/f", &o, &error);
	check_error(r, &error, HOLT_ECANCELLED, "cancelled before it began");
	ck_assert_int_eq(atomic_load(&stub.calls), 0);
	cancel_free(o.cancel);
}
END_TEST

/* A failure that the closing explains is no news, however the backend calls it. */
static int gone_while_closing(
	void *self, const char *path, uint32_t flags, const holt_call *call, holt_error **reterr)
{
	const int *code = self;

	(void)path;
	(void)flags;
	ck_assert(!cancel_fired(call->cancel));
	holt_sandbox_close(sandbox);
	ck_assert(cancel_fired(call->cancel));
	return holt_error_set(reterr, *code, 0, NULL, NULL, "gone");
}

START_TEST(a_failure_while_closing_is_not_terminal)
{
	static const int codes[][2] = {{HOLT_EGUEST_LOST, HOLT_ECLOSED},
		{HOLT_EPROTOCOL, HOLT_ECLOSED}, {HOLT_ECLOSED, HOLT_ECLOSED},
		{HOLT_ECANCELLED, HOLT_ECLOSED}, {HOLT_EIO, HOLT_EIO}};
	holt_sandbox_options o = HOLT_SANDBOX_OPTIONS_INIT;
	holt_backend b = stub_backend;

	b.close = NULL;
	b.remove = gone_while_closing;
	o.id = "box-id";
	o.terminal = on_terminal;
	o.terminal_user = &told;
	teardown();
	for (size_t i = 0; i < N(codes); i++) {
		int code = codes[i][0];

		ck_assert_int_eq(holt_sandbox_open_backend(&b, &code, &o, &sandbox, NULL), 0);
		ck_assert_int_eq(holt_sandbox_remove(sandbox, "/f", NULL, NULL), -codes[i][1]);
		holt_sandbox_free(sandbox);
	}
	ck_assert_int_eq(atomic_load(&told), 0);
	setup();
}
END_TEST

static int lost(
	void *self, const char *path, uint32_t flags, const holt_call *call, holt_error **reterr)
{
	(void)path;
	(void)flags;
	(void)call;
	(void)pthread_barrier_wait(self);
	return holt_error_set(reterr, HOLT_EGUEST_LOST, 0, NULL, NULL, "gone");
}

static void *remove_in_thread(void *user)
{
	struct call *call = user;

	call->result = holt_sandbox_remove(sandbox, "/f", NULL, NULL);
	return NULL;
}

/* C-66 */
START_TEST(of_8_calls_that_find_out_one_tells)
{
	struct call calls[THREADS] = {0};
	holt_sandbox_options o = HOLT_SANDBOX_OPTIONS_INIT;
	holt_backend b = stub_backend;
	pthread_barrier_t barrier;

	teardown();
	b.close = NULL;
	b.remove = lost;
	o.id = "box-id";
	o.terminal = on_terminal;
	o.terminal_user = &told;
	(void)pthread_barrier_init(&barrier, NULL, THREADS);
	for (int round = 0; round < 20; round++) {
		atomic_store(&told, 0);
		ck_assert_int_eq(holt_sandbox_open_backend(&b, &barrier, &o, &sandbox, NULL), 0);
		for (size_t i = 0; i < THREADS; i++)
			ck_assert_int_eq(
				pthread_create(&calls[i].thread, NULL, remove_in_thread, &calls[i]),
				0);
		for (size_t i = 0; i < THREADS; i++) {
			ck_assert_int_eq(pthread_join(calls[i].thread, NULL), 0);
			ck_assert_int_eq(calls[i].result, -HOLT_EGUEST_LOST);
		}
		ck_assert_int_eq(atomic_load(&told), 1);
		holt_sandbox_free(sandbox);
	}
	(void)pthread_barrier_destroy(&barrier);
	setup();
}
END_TEST

static pthread_t teller;

static void close_when_told(const char *id, const holt_error *error, void *user)
{
	(void)id;
	(void)user;
	ck_assert(pthread_equal(pthread_self(), teller));
	ck_assert_int_eq(holt_error_code(error), HOLT_EGUEST_LOST);
	/* Nothing is held that closing or another call would need. */
	ck_assert_int_eq(holt_sandbox_remove(sandbox, "/f", NULL, NULL), -HOLT_EGUEST_LOST);
	holt_sandbox_close(sandbox);
	ck_assert_int_eq(holt_sandbox_remove(sandbox, "/f", NULL, NULL), -HOLT_ECLOSED);
}

START_TEST(who_is_told_may_use_the_sandbox)
{
	holt_sandbox_options o = HOLT_SANDBOX_OPTIONS_INIT;

	teardown();
	memset(&stub, 0, sizeof stub);
	o.id = "x";
	o.terminal = close_when_told;
	ck_assert_int_eq(holt_sandbox_open_backend(&stub_backend, &stub, &o, &sandbox, NULL), 0);
	answer_error(HOLT_EGUEST_LOST, "gone");
	teller = pthread_self();
	ck_assert_int_eq(holt_sandbox_remove(sandbox, "/f", NULL, NULL), -HOLT_EGUEST_LOST);
}
END_TEST

START_TEST(errors_and_texts)
{
	holt_error *error = NULL;
	char *text = NULL;

	ck_assert_int_eq(
		holt_error_set(&error, HOLT_EDENIED, EACCES, "s", "o", "m\x1b"), -HOLT_EDENIED);
	ck_assert_int_eq(holt_error_code(error), HOLT_EDENIED);
	ck_assert_int_eq(holt_error_errno(error), EACCES);
	ck_assert_str_eq(holt_error_stage(error), "s");
	ck_assert_str_eq(holt_error_object(error), "o");
	ck_assert_str_eq(holt_error_message(error), "m\\x1b");
	holt_error_free(error);
	error = NULL;
	ck_assert_int_eq(holt_error_set(&error, 0, 0, NULL, NULL, NULL), -HOLT_EINTERNAL);
	ck_assert_str_eq(holt_error_message(error), "");
	holt_error_free(error);
	ck_assert_int_eq(holt_error_set(NULL, 17, 0, NULL, NULL, "x"), -HOLT_EINTERNAL);
	ck_assert_int_eq(holt_error_set(NULL, HOLT_EBUSY, 0, NULL, NULL, "x"), -HOLT_EBUSY);
	ck_assert_int_eq(holt_error_failure(NULL), HOLT_FAILURE_NONE);
	ck_assert_int_eq(holt_error_text(NULL, &text, NULL), 0);
	ck_assert_str_eq(text, "Error: ");
	holt_free(text);
	holt_free(NULL);
	ck_assert_int_eq(holt_error_text(NULL, NULL, NULL), -HOLT_EINVALID);
}
END_TEST

/* Tokens of tokens, as where a sandbox is the backend of another one. */
START_TEST(joined_tokens)
{
	holt_cancel *a = NULL;
	holt_cancel *b = NULL;
	struct cancel_join inner;
	struct cancel_join outer;

	ck_assert_int_eq(cancel_new(&a, NULL), 0);
	ck_assert_int_eq(cancel_new(&b, NULL), 0);
	cancel_join_begin(&outer, NULL, a);
	cancel_join_begin(&inner, &outer.token, b);
	ck_assert(!cancel_fired(&inner.token) && !cancel_fired(&outer.token));
	cancel_trigger(b);
	ck_assert(cancel_fired(&inner.token) && !cancel_fired(&outer.token) && !cancel_fired(a));
	cancel_join_end(&inner);
	cancel_trigger(a);
	ck_assert(cancel_fired(&outer.token));
	cancel_join_end(&outer);
	cancel_join_begin(&inner, a, a);
	ck_assert(cancel_fired(&inner.token));
	cancel_join_end(&inner);
	cancel_free(a);
	cancel_free(b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("contract");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, opening);
	tcase_add_test(t, opening_without_memory);
	tcase_add_test(t, a_closed_sandbox_refuses_everything);
	tcase_add_test(t, what_codes_mean);
	tcase_add_test(t, only_failures_count_and_those_of_every_call);
	tcase_add_test(t, time_outs_name_the_time);
	tcase_add_test(t, backends_that_break_the_rules);
	tcase_add_test(t, closing_ends_8_running_calls);
	tcase_add_test(t, a_token_ends_its_own_call_only);
	tcase_add_test(t, a_token_that_was_triggered_before);
	tcase_add_test(t, a_failure_while_closing_is_not_terminal);
	tcase_add_test(t, of_8_calls_that_find_out_one_tells);
	tcase_add_test(t, who_is_told_may_use_the_sandbox);
	tcase_add_test(t, errors_and_texts);
	tcase_add_test(t, joined_tokens);
	suite_add_tcase(s, t);
	return run_suite(s);
}
