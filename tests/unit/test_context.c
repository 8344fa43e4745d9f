/* SPDX-License-Identifier: Apache-2.0 */
/* The trace id of a thread: what is one, where it goes along, and the log lines that carry it. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/executor.h"
#include "base/log.h"
#include "base/thread_context.h"

#define LONGEST                                                            \
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" \
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char lines[8][4096];
static int n_lines;

static void on_log(int level, const char *component, const char *message, void *user)
{
	(void)level;
	(void)component;
	(void)user;
	if (n_lines < 8)
		snprintf(lines[n_lines++], sizeof lines[0], "%s", message);
}

START_TEST(trace_ids_are_printable)
{
	static const char *const bad[] = {"", "a b", "a\n", "\x7f", "\xc3\xa4", LONGEST "x"};

	ck_assert_str_eq(context_trace(), "");
	ck_assert_int_eq(context_set_trace("req-1"), 0);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ck_assert_int_eq(context_set_trace(bad[i]), -EINVAL);
	ck_assert_str_eq(context_trace(), "req-1");
	ck_assert_int_eq(context_set_trace(LONGEST), 0);
	ck_assert_str_eq(context_trace(), LONGEST);
	ck_assert_int_eq(context_set_trace(NULL), 0);
	ck_assert_str_eq(context_trace(), "");
}
END_TEST

static void *other_thread(void *arg)
{
	(void)arg;
	ck_assert_str_eq(context_trace(), "");
	ck_assert_int_eq(context_set_trace("other"), 0);
	return NULL;
}

START_TEST(each_thread_has_its_own)
{
	pthread_t t;

	ck_assert_int_eq(context_set_trace("mine"), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, other_thread, NULL), 0);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert_str_eq(context_trace(), "mine");
}
END_TEST

START_TEST(log_lines_end_with_the_trace)
{
	char text[3000];

	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	n_lines = 0;
	holt_log_set(HOLT_LOG_WARN, on_log, NULL);
	log_warn("c", "key=1");
	ck_assert_int_eq(context_set_trace(LONGEST), 0);
	log_warn("c", "key=2");
	log_warn("c", "%s", text);
	holt_log_set(0, NULL, NULL);
	ck_assert_str_eq(lines[0], "key=1");
	ck_assert_str_eq(lines[1], "key=2 trace=" LONGEST);
	/* A line that is cut keeps it. */
	ck_assert_int_gt((int)strlen(lines[2]), 2000);
	ck_assert_str_eq(strchr(lines[2], ' '), " trace=" LONGEST);
}
END_TEST

static int work(holt_cancel *cancel, void *user, holt_error **reterr)
{
	(void)cancel;
	(void)reterr;
	log_warn("c", "run=%s", (const char *)user);
	/* What a function sets is gone with it. */
	return context_set_trace("left-behind");
}

static void done(struct holt_job *job, void *user)
{
	(void)job;
	log_warn("c", "done=%s", (const char *)user);
}

static void run_one(struct executor *x, const char *name)
{
	const struct job_work w = {.run = work, .done = done, .user = strdup(name)};
	struct holt_job *j = NULL;
	int result = -1;

	ck_assert_int_eq(job_start(x, &w, &j, NULL), 0);
	ck_assert_int_eq(job_wait(j, 20000, &result, NULL), 0);
	ck_assert_int_eq(result, 0);
	job_free(j);
	free(w.user);
}

/* C-39 */
START_TEST(jobs_have_the_context_of_who_started_them)
{
	const struct executor_options options = {
		.max_threads = 1, .max_jobs = 8, .thread_name = "holt-test"};
	struct executor *x = executor_new(&options);

	n_lines = 0;
	holt_log_set(HOLT_LOG_WARN, on_log, NULL);
	run_one(x, "a");
	ck_assert_int_eq(context_set_trace("req-7"), 0);
	run_one(x, "b");
	ck_assert_int_eq(context_set_trace(NULL), 0);
	run_one(x, "c");
	executor_free(x);
	holt_log_set(0, NULL, NULL);
	ck_assert_int_eq(n_lines, 6);
	ck_assert_str_eq(lines[0], "run=a");
	ck_assert_str_eq(lines[1], "done=a");
	ck_assert_str_eq(lines[2], "run=b trace=req-7");
	ck_assert_str_eq(lines[3], "done=b trace=req-7");
	ck_assert_str_eq(lines[4], "run=c");
	ck_assert_str_eq(context_trace(), "");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("context");
	TCase *c = tcase_create("context");

	tcase_add_test(c, trace_ids_are_printable);
	tcase_add_test(c, each_thread_has_its_own);
	tcase_add_test(c, log_lines_end_with_the_trace);
	tcase_add_test(c, jobs_have_the_context_of_who_started_them);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
