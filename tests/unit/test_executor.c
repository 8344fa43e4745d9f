/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: order, limits, cancellation in every state, callbacks and descriptors, threads that end. */
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "box/executor.h"

#include "base/clock.h"

#define MANY 200

static struct executor *x;
static atomic_int running, most, ran, told;

static void setup(void)
{
	atomic_store(&running, 0);
	atomic_store(&most, 0);
	atomic_store(&ran, 0);
	atomic_store(&told, 0);
	x = executor_new();
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
	ck_assert_int_le(atomic_load(&most), (int)EXECUTOR_THREADS);
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

START_TEST(cancelled_before_its_turn_never_runs)
{
	struct holt_job *busy[EXECUTOR_THREADS];
	int result = 0;

	for (unsigned i = 0; i < EXECUTOR_THREADS; i++)
		busy[i] = start(until_cancelled, NULL, 0);
	while (atomic_load(&ran) < (int)EXECUTOR_THREADS)
		nap_ms(1);
	struct holt_job *first = start(work, done, 1);
	struct holt_job *second = start(work, done, 2);
	job_cancel(second);
	ck_assert_int_eq(job_wait(second, 50, &result, NULL), -HOLT_ETIMEOUT);
	job_cancel(busy[0]);
	ck_assert_int_eq(job_wait(second, 5000, &result, NULL), 0);
	ck_assert_int_eq(result, -HOLT_ECANCELLED);
	ck_assert_int_eq(job_wait(first, 5000, &result, NULL), 0);
	ck_assert_int_eq(result, 1);
	/* Both were told of, one ran. */
	ck_assert_int_eq(atomic_load(&told), 2);
	ck_assert_int_eq(atomic_load(&ran), (int)EXECUTOR_THREADS + 1);
	job_free(first);
	job_free(second);
	for (unsigned i = 0; i < EXECUTOR_THREADS; i++)
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
	static struct holt_job *jobs[EXECUTOR_QUEUE + EXECUTOR_THREADS + 1];
	const struct job_work w = {.run = until_cancelled};
	holt_error *e = NULL;
	size_t n = 0;

	while (n < sizeof jobs / sizeof jobs[0] && job_start(x, &w, &jobs[n], &e) == 0)
		n++;
	ck_assert_uint_ge(n, EXECUTOR_QUEUE);
	ck_assert_uint_lt(n, sizeof jobs / sizeof jobs[0]);
	ck_assert_int_eq(holt_error_code(e), HOLT_ELIMIT);
	holt_error_free(e);
	for (size_t i = 0; i < n; i++)
		job_cancel(jobs[i]);
	for (size_t i = 0; i < n; i++)
		job_free(jobs[i]);
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
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
