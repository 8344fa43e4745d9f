/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: order, limits, cancellation in every state, callbacks and descriptors, threads that end. */
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/executor.h"

#include "base/clock.h"

#define MANY    200
#define THREADS 16
#define QUEUE   4096

static const struct executor_options options = {
	.max_threads = THREADS, .max_jobs = QUEUE, .thread_name = "holt-test"};
static struct executor *x;
static atomic_int running, most, ran, told;

static void setup(void)
{
	atomic_store(&running, 0);
	atomic_store(&most, 0);
	atomic_store(&ran, 0);
	atomic_store(&told, 0);
	x = executor_new(&options);
	ck_assert_ptr_nonnull(x);
}

static void teardown(void)
{
	executor_free(x);
}

static void nap_ms(long ms)
{
	const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	(void)nanosleep(&t, NULL);
}

static int work(holt_cancel *cancel, void *user, holt_error **reterr)
{
	const int now = atomic_fetch_add(&running, 1) + 1;
	int before = atomic_load(&most);

	(void)cancel;
	(void)reterr;
	while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
		continue;
	nap_ms(5);
	atomic_fetch_sub(&running, 1);
	atomic_fetch_add(&ran, 1);
	return (int)(long)user;
}

static int until_cancelled(holt_cancel *cancel, void *user, holt_error **reterr)
{
	(void)user;
	atomic_fetch_add(&ran, 1);
	while (!cancel_fired(cancel))
		nap_ms(1);
	return err_make(reterr, HOLT_ECANCELLED, "as you wish");
}

static void done(struct holt_job *j, void *user)
{
	(void)j;
	(void)user;
	atomic_fetch_add(&told, 1);
}

static struct holt_job *start(int (*run)(holt_cancel *, void *, holt_error **),
	void (*fn)(struct holt_job *, void *), long user)
{
	const struct job_work w = {.run = run, .done = fn, .user = (void *)user};
	struct holt_job *j = NULL;

	ck_assert_int_eq(job_start(x, &w, &j, NULL), 0);
	ck_assert_ptr_nonnull(j);
	return j;
}

START_TEST(many_jobs_on_few_threads)
{
	static struct holt_job *jobs[MANY];

	for (long i = 0; i < MANY; i++)
		jobs[i] = start(work, done, i);
	for (int i = 0; i < MANY; i++) {
		int result = -1;

		ck_assert_int_eq(job_wait(jobs[i], 20000, &result, NULL), 0);
		ck_assert_int_eq(result, i);
		job_free(jobs[i]);
	}
	ck_assert_int_eq(atomic_load(&ran), MANY);
	ck_assert_int_eq(atomic_load(&told), MANY);
	ck_assert_int_gt(atomic_load(&most), 1);
	ck_assert_int_le(atomic_load(&most), THREADS);
}
END_TEST

START_TEST(descriptor_tells_the_end)
{
	struct holt_job *j = start(until_cancelled, NULL, 0);
	struct pollfd p = {.events = POLLIN};
	holt_error *e = NULL;
	int result = 0;

	ck_assert_int_eq(job_event_fd(j, &p.fd, NULL), 0);
	ck_assert_int_eq(poll(&p, 1, 50), 0);
	ck_assert_int_eq(job_wait(j, 0, &result, NULL), -HOLT_ETIMEOUT);
	job_cancel(j);
	ck_assert_int_eq(poll(&p, 1, 5000), 1);
	ck_assert_int_eq(job_wait(j, 0, &result, &e), 0);
	ck_assert_int_eq(result, -HOLT_ECANCELLED);
	ck_assert_str_eq(holt_error_message(e), "as you wish");
	holt_error_free(e);
	/* One asked for after the end is readable at once; the result stays, the error is taken. */
	ck_assert_int_eq(poll(&p, 1, 0), 1);
	e = NULL;
	ck_assert_int_eq(job_wait(j, 0, &result, &e), 0);
	ck_assert_int_eq(result, -HOLT_ECANCELLED);
	ck_assert_ptr_null(e);
	job_free(j);
	j = start(work, NULL, 7);
	ck_assert_int_eq(job_wait(j, 5000, &result, NULL), 0);
	ck_assert_int_eq(job_event_fd(j, &p.fd, NULL), 0);
	ck_assert_int_eq(poll(&p, 1, 0), 1);
	job_free(j);
}
END_TEST

/* C-32 */
START_TEST(cancelled_before_its_turn_never_runs)
{
	struct holt_job *busy[THREADS];
	int result = 0;

	for (int i = 0; i < THREADS; i++)
		busy[i] = start(until_cancelled, NULL, 0);
	while (atomic_load(&ran) < THREADS)
		nap_ms(1);
	struct holt_job *first = start(work, done, 1);
	struct holt_job *second = start(work, done, 2);
	job_cancel(second);
	/* At once, although each thread is busy; but that gives nobody else a turn. */
	ck_assert_int_eq(job_wait(second, 20000, &result, NULL), 0);
	ck_assert_int_eq(result, -HOLT_ECANCELLED);
	ck_assert_int_eq(job_wait(first, 50, &result, NULL), -HOLT_ETIMEOUT);
	job_cancel(busy[0]);
	ck_assert_int_eq(job_wait(first, 5000, &result, NULL), 0);
	ck_assert_int_eq(result, 1);
	/* Both were told of, one ran. */
	ck_assert_int_eq(atomic_load(&told), 2);
	ck_assert_int_eq(atomic_load(&ran), THREADS + 1);
	job_free(first);
	job_free(second);
	for (int i = 0; i < THREADS; i++)
		job_free(busy[i]);
}
END_TEST

START_TEST(free_waits_for_what_runs)
{
	struct holt_job *j = start(until_cancelled, done, 0);

	while (atomic_load(&ran) == 0)
		nap_ms(1);
	job_free(j);
	ck_assert_int_eq(atomic_load(&told), 1);
}
END_TEST

START_TEST(queue_has_an_end)
{
	static struct holt_job *jobs[QUEUE + THREADS + 1];
	const struct job_work w = {.run = until_cancelled};
	holt_error *e = NULL;
	size_t n = 0;

	while (n < sizeof jobs / sizeof jobs[0] && job_start(x, &w, &jobs[n], &e) == 0)
		n++;
	ck_assert_uint_ge(n, QUEUE);
	ck_assert_uint_lt(n, sizeof jobs / sizeof jobs[0]);
	ck_assert_int_eq(holt_error_code(e), HOLT_ELIMIT);
	holt_error_free(e);
	for (size_t i = 0; i < n; i++)
		job_cancel(jobs[i]);
	for (size_t i = 0; i < n; i++)
		job_free(jobs[i]);
}
END_TEST

/* C-34, C-36: also those who have something to tell do not wait for those who are busy. */
START_TEST(close_ends_what_waits_and_nothing_else)
{
	struct holt_job *busy[THREADS];
	struct holt_job *late = NULL;
	const struct job_work w = {.run = work};
	holt_error *e = NULL;
	int result = 0;

	for (int i = 0; i < THREADS; i++)
		busy[i] = start(until_cancelled, NULL, 0);
	while (atomic_load(&ran) < THREADS)
		nap_ms(1);
	struct holt_job *waits = start(work, done, 1);
	struct holt_job *cancelled = start(work, done, 2);
	job_cancel(cancelled);
	executor_close(x);
	ck_assert_int_eq(job_wait(waits, 20000, &result, &e), 0);
	ck_assert_int_eq(result, -HOLT_ECLOSED);
	ck_assert_str_eq(holt_error_message(e), "closed before its turn");
	holt_error_free(e);
	ck_assert_int_eq(job_wait(cancelled, 20000, &result, NULL), 0);
	ck_assert_int_eq(result, -HOLT_ECANCELLED);
	ck_assert_int_eq(atomic_load(&told), 2);
	ck_assert_int_eq(atomic_load(&ran), THREADS);
	ck_assert_int_eq(job_start(x, &w, &late, NULL), -HOLT_ECLOSED);
	ck_assert_ptr_null(late);
	ck_assert_int_eq(job_wait(busy[0], 0, &result, NULL), -HOLT_ETIMEOUT);
	job_free(waits);
	job_free(cancelled);
	for (int i = 0; i < THREADS; i++)
		job_free(busy[i]);
}
END_TEST

static void count_task(struct executor_task *t)
{
	(void)t;
	nap_ms(5);
	atomic_fetch_add(&told, 1);
}

START_TEST(tasks_that_are_withdrawn_do_not_run)
{
	struct executor_task tasks[100] = {{.run = NULL}};
	int before = 0;

	ck_assert_int_eq(executor_reserve(x, NULL), 0);
	for (int i = 0; i < 100; i++) {
		tasks[i].run = count_task;
		executor_put(x, &tasks[i]);
	}
	for (int i = 99; i >= 0; i--)
		executor_withdraw(x, &tasks[i]);
	before = atomic_load(&told);
	ck_assert_int_lt(before, 100);
	nap_ms(30);
	ck_assert_int_eq(atomic_load(&told), before);
	executor_release(x);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("executor");
	TCase *c = tcase_create("executor");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 60);
	tcase_add_test(c, many_jobs_on_few_threads);
	tcase_add_test(c, descriptor_tells_the_end);
	tcase_add_test(c, cancelled_before_its_turn_never_runs);
	tcase_add_test(c, free_waits_for_what_runs);
	tcase_add_test(c, queue_has_an_end);
	tcase_add_test(c, close_ends_what_waits_and_nothing_else);
	tcase_add_test(c, tasks_that_are_withdrawn_do_not_run);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
