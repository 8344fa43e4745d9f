/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERIALIZER_FIXTURE_H
#define SERIALIZER_FIXTURE_H

/* A serializer with four threads, those who ask it for keys, and those who count them. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "holt/context.h"
#include "holt/serializer.h"

#define LATE_MS 20000u

static holt_serializer *s;
static atomic_int inside, most, told, ran;

static inline void setup(void)
{
	holt_serializer_options o = HOLT_SERIALIZER_OPTIONS_INIT;

	o.max_threads = 4;
	atomic_store(&inside, 0);
	atomic_store(&most, 0);
	atomic_store(&told, 0);
	atomic_store(&ran, 0);
	ck_assert_int_eq(holt_serializer_new(&o, &s, NULL), 0);
}

static inline void teardown(void)
{
	ck_assert_uint_eq(holt_serializer_count(s), 0);
	holt_serializer_free(s);
}

static inline void nap_ms(long ms)
{
	const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	(void)nanosleep(&t, NULL);
}

/* What has to come soon, on whatever thread. */
static inline void await(atomic_int *n, int value)
{
	const uint64_t start_ms = clock_mono_ms();

	while (atomic_load(n) != value && clock_mono_ms() - start_ms < LATE_MS)
		nap_ms(1);
	ck_assert_int_eq(atomic_load(n), value);
}

static inline holt_hold *hold(const char *key)
{
	holt_hold *h = NULL;

	ck_assert_int_eq(holt_serializer_hold(s, key, strlen(key), LATE_MS, NULL, &h, NULL), 0);
	ck_assert_ptr_nonnull(h);
	return h;
}

static inline void on_done(holt_waiter *waiter, void *user)
{
	(void)waiter;
	(void)user;
	atomic_fetch_add(&told, 1);
}

static inline holt_waiter *ask(const char *key, void (*done)(holt_waiter *, void *), void *user)
{
	holt_waiter *w = NULL;

	ck_assert_int_eq(holt_serializer_hold_start(s, key, strlen(key), done, user, &w, NULL), 0);
	ck_assert_ptr_nonnull(w);
	return w;
}

static inline int take(holt_waiter *w, uint64_t timeout_ms, holt_hold **ret)
{
	return holt_waiter_take(w, timeout_ms, ret, NULL);
}

static inline void check_code(int r, holt_error *e, int code, const char *message)
{
	ck_assert_int_eq(r, -code);
	ck_assert_int_eq(holt_error_code(e), code);
	ck_assert_str_eq(holt_error_message(e), message);
	ck_assert_str_eq(holt_error_stage(e), "serializer");
	holt_error_free(e);
}

static inline void check_free(const char *key)
{
	holt_hold *h = NULL;

	ck_assert_int_eq(holt_serializer_hold(s, key, strlen(key), 0, NULL, &h, NULL), 0);
	holt_hold_release(h);
}

static inline void enter(void)
{
	const int now = atomic_fetch_add(&inside, 1) + 1;
	int before = atomic_load(&most);

	while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
		continue;
}

struct blocking {
	holt_cancel *cancel;
	uint64_t timeout_ms;
	int result;
};

static inline void *hold_blocking(void *arg)
{
	struct blocking *b = arg;
	holt_hold *h = NULL;

	atomic_fetch_add(&ran, 1);
	b->result = holt_serializer_hold(s, "k", 1, b->timeout_ms, b->cancel, &h, NULL);
	holt_hold_release(h);
	return NULL;
}

static inline pthread_t start_blocking(struct blocking *b)
{
	pthread_t t;

	ck_assert_int_eq(cancel_new(&b->cancel, NULL), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, hold_blocking, b), 0);
	await(&ran, 1);
	nap_ms(20);
	return t;
}

static inline int quick(holt_cancel *cancel, void *user, holt_error **reterr)
{
	(void)cancel;
	(void)user;
	(void)reterr;
	atomic_fetch_add(&ran, 1);
	return 0;
}

static inline int until_cancelled(holt_cancel *cancel, void *user, holt_error **reterr)
{
	(void)user;
	atomic_fetch_add(&ran, 1);
	while (!cancel_fired(cancel))
		nap_ms(1);
	return err_make(reterr, HOLT_ECANCELLED, "as you wish");
}

static inline void job_done(holt_job *job, void *user)
{
	(void)job;
	(void)user;
	atomic_fetch_add(&told, 1);
}

static inline holt_job *run(int (*fn)(holt_cancel *, void *, holt_error **), void *user)
{
	holt_job_options o = HOLT_JOB_OPTIONS_INIT;
	holt_job *j = NULL;

	o.run = fn;
	o.done = job_done;
	o.user = user;
	ck_assert_int_eq(holt_serializer_run(s, &o, &j, NULL), 0);
	return j;
}

static inline int result_of(holt_job *j)
{
	int r = 1;

	ck_assert_int_eq(holt_job_wait(j, LATE_MS, &r, NULL), 0);
	holt_job_free(j);
	return r;
}

static inline unsigned count_threads(void)
{
	char line[256];
	unsigned n = 0;
	FILE *f = fopen("/proc/self/status", "re");

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof line, f)) {
		if (strncmp(line, "Threads:", 8) == 0)
			n = (unsigned)strtoul(line + 8, NULL, 10);
	}
	(void)fclose(f);
	return n;
}

static inline int run_suite(const char *name, const TTest *const *tests, size_t n)
{
	Suite *suite = suite_create(name);
	TCase *c = tcase_create(name);

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 60);
	for (size_t i = 0; i < n; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(suite, c);
	SRunner *r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}

#endif
