/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serializers, from outside: at most one holder per key, waits that are given up at every moment,
 * closing, and who is told of it where. Each test of the list in docs/contract.md (C-43) has its
 * twin here under the same name.
 */
#include <poll.h>

#include "serializer_fixture.h"
#include "tick_fixture.h"

static void *hold_once(void *key)
{
	holt_hold *h = hold(key);

	enter();
	nap_ms(5);
	atomic_fetch_sub(&inside, 1);
	atomic_fetch_add(&ran, 1);
	holt_hold_release(h);
	return NULL;
}

/* C-25, C-26 */
START_TEST(same_key_never_overlaps)
{
	char key[] = "k";
	pthread_t t[8];

	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, hold_once, key), 0);
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(pthread_join(t[i], NULL), 0);
	ck_assert_int_eq(atomic_load(&most), 1);
	ck_assert_int_eq(atomic_load(&ran), 8);
}
END_TEST

static void *meet(void *key)
{
	holt_hold *h = hold(key);

	atomic_fetch_add(&inside, 1);
	await(&inside, 2);
	holt_hold_release(h);
	return NULL;
}

/* C-26 */
START_TEST(different_keys_proceed_concurrently)
{
	char keys[2][2] = {"a", "b"};
	pthread_t t[2];

	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, meet, keys[i]), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_join(t[i], NULL), 0);
}
END_TEST

/* C-24, C-25, C-41 */
START_TEST(lock_table_reclaims_entries)
{
	holt_hold *h[50];

	for (int i = 0; i < 50; i++) {
		char key[] = {'k', '\0', (char)i};

		ck_assert_int_eq(holt_serializer_hold(s, key, sizeof key, 0, NULL, &h[i], NULL), 0);
		ck_assert_uint_eq(holt_serializer_count(s), (size_t)i + 1);
	}
	for (int i = 0; i < 50; i++)
		holt_hold_release(h[i]);
	ck_assert_uint_eq(holt_serializer_count(s), 0);
	/* Bytes are all that counts: none at all are a key, too. */
	holt_hold *none = NULL;
	holt_hold *zero = NULL;
	ck_assert_int_eq(holt_serializer_hold(s, NULL, 0, 0, NULL, &none, NULL), 0);
	ck_assert_int_eq(holt_serializer_hold(s, "", 1, 0, NULL, &zero, NULL), 0);
	ck_assert_int_eq(holt_serializer_hold(s, "", 0, 0, NULL, &h[0], NULL), -HOLT_ETIMEOUT);
	holt_hold_release(none);
	holt_hold_release(zero);
}
END_TEST

/* C-30, C-33: given up while somebody else holds the key. */
START_TEST(cancellation_before_acquire_leaks_nothing)
{
	holt_hold *h = hold("k");
	holt_waiter *w = ask("k", on_done, NULL);
	holt_hold *mine = NULL;
	holt_error *e = NULL;

	ck_assert_int_eq(take(w, 0, &mine), -HOLT_ETIMEOUT);
	holt_waiter_cancel(w);
	/* At once, although the key is still held; and told of, once. */
	const int r = holt_waiter_take(w, 0, &mine, &e);
	check_code(r, e, HOLT_ECANCELLED, "the wait for the key was cancelled");
	await(&told, 1);
	holt_waiter_cancel(w);
	holt_hold_release(h);
	ck_assert_uint_eq(holt_serializer_count(s), 0);
	check_free("k");
	holt_waiter_free(w);
	ck_assert_int_eq(atomic_load(&told), 1);
}
END_TEST

/* C-30, C-33: the blocking form. */
START_TEST(cancellation_of_a_blocking_wait)
{
	struct blocking b = {.timeout_ms = HOLT_FOREVER};
	holt_hold *h = hold("k");
	holt_error *e = NULL;
	holt_hold *mine = NULL;
	const pthread_t t = start_blocking(&b);

	cancel_trigger(b.cancel);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert_int_eq(b.result, -HOLT_ECANCELLED);
	holt_hold_release(h);
	ck_assert_uint_eq(holt_serializer_count(s), 0);
	/* One that fired before gets nothing either, although the key is free. */
	const int r = holt_serializer_hold(s, "k", 1, 0, b.cancel, &mine, &e);
	check_code(r, e, HOLT_ECANCELLED, "the wait for the key was cancelled");
	ck_assert_ptr_null(mine);
	ck_assert_uint_eq(holt_serializer_count(s), 0);
	cancel_free(b.cancel);
}
END_TEST

/* C-30: nobody is left who could take the hold or be told of it. */
START_TEST(cancelled_wait_releases_without_event_loop_callback)
{
	holt_hold *h = hold("k");
	holt_waiter *w = ask("k", on_done, NULL);
	holt_waiter *silent = ask("k", NULL, NULL);

	holt_waiter_free(silent);
	holt_waiter_free(w);
	ck_assert_uint_eq(holt_serializer_count(s), 1);
	holt_hold_release(h);
	ck_assert_uint_eq(holt_serializer_count(s), 0);
	check_free("k");
	h = hold("k");
	for (int i = 0; i < 5000; i++)
		holt_waiter_free(ask("k", on_done, NULL));
	holt_hold_release(h);
	nap_ms(20);
	ck_assert_int_eq(atomic_load(&told), 0);
}
END_TEST

/* C-31, C-33: the key was handed over, and nobody has taken it yet. */
START_TEST(cancellation_after_acquire_releases)
{
	holt_hold *h = hold("k");
	holt_waiter *first = ask("k", on_done, NULL);
	holt_waiter *second = ask("k", NULL, NULL);
	holt_hold *mine = NULL;

	holt_hold_release(h);
	await(&told, 1);
	holt_waiter_cancel(first);
	ck_assert_int_eq(take(second, 0, &mine), 0);
	ck_assert_int_eq(take(first, 0, &h), -HOLT_ECANCELLED);
	holt_waiter_cancel(first);
	/* Once it is taken, a cancel comes too late, and so does another take. */
	holt_waiter_cancel(second);
	ck_assert_int_eq(take(second, 0, &h), -HOLT_EINVALID);
	ck_assert_uint_eq(holt_serializer_count(s), 1);
	ck_assert_int_eq(holt_serializer_hold(s, "k", 1, 0, NULL, &h, NULL), -HOLT_ETIMEOUT);
	holt_waiter_free(first);
	holt_waiter_free(second);
	ck_assert_uint_eq(holt_serializer_count(s), 1);
	holt_hold_release(mine);
	check_free("k");
	/* So does a waiter that is forgotten with its hold in it. */
	holt_waiter_free(ask("k", NULL, NULL));
	check_free("k");
	ck_assert_int_eq(atomic_load(&told), 1);
}
END_TEST

/* C-29: a loop of poll that ticks each millisecond while a hundred waits are open in it. No thread
 * waits for them, and the threads of the serializer are free for others. */
START_TEST(async_wait_keeps_loop_alive_and_off_default_executor)
{
	holt_hold *h = hold("k");
	holt_waiter *w[100];
	struct pollfd fds[100] = {{0}};
	struct idle_ticker idle;
	struct ticks ticks = {0};
	holt_hold *mine = NULL;

	for (int i = 0; i < 100; i++) {
		w[i] = ask("k", NULL, NULL);
		ck_assert_int_eq(holt_waiter_event_fd(w[i], &fds[i].fd, NULL), 0);
		fds[i].events = POLLIN;
	}
	ck_assert_uint_le(count_threads(), 2); /* with that of a sanitizer */
	idle_ticker_start(&idle);
	for (int i = 0; i < 200; i++) {
		const uint64_t begun_us = clock_mono_us();

		ck_assert_int_eq(poll(fds, 100, TICK_MS), 0);
		ck_assert_int_eq(take(w[i % 100], 0, &mine), -HOLT_ETIMEOUT);
		tick_count(&ticks, begun_us);
	}
	ck_assert_int_eq(result_of(run(quick, NULL)), 0);
	check_ticks(&idle, &ticks);
	holt_hold_release(h);
	for (int i = 0; i < 100; i++) {
		ck_assert_int_eq(poll(&fds[i], 1, LATE_MS), 1);
		ck_assert_int_eq(i < 99 ? poll(&fds[i + 1], 1, 0) : 0, 0);
		ck_assert_int_eq(take(w[i], 0, &mine), 0);
		holt_hold_release(mine);
		holt_waiter_free(w[i]);
	}
}
END_TEST

static void take_and_release(holt_waiter *waiter, void *user)
{
	holt_hold *h = NULL;

	(void)user;
	ck_assert_int_eq(holt_waiter_take(waiter, 0, &h, NULL), 0);
	enter();
	nap_ms(3);
	atomic_fetch_sub(&inside, 1);
	holt_hold_release(h);
	atomic_fetch_add(&told, 1);
}

/* C-29 */
START_TEST(concurrent_async_waiters_serialize)
{
	holt_waiter *w[8];

	for (int i = 0; i < 8; i++)
		w[i] = ask("k", take_and_release, NULL);
	await(&told, 8);
	ck_assert_int_eq(atomic_load(&most), 1);
	for (int i = 0; i < 8; i++)
		holt_waiter_free(w[i]);
	ck_assert_int_eq(atomic_load(&told), 8);
}
END_TEST

static char traces[4][32];

static int note_trace(holt_cancel *cancel, void *user, holt_error **reterr)
{
	(void)cancel;
	(void)reterr;
	snprintf(user, sizeof traces[0], "%s", holt_context_trace());
	return 0;
}

static void note_trace_done(holt_waiter *waiter, void *user)
{
	(void)waiter;
	snprintf(user, sizeof traces[0], "%s", holt_context_trace());
	atomic_fetch_add(&told, 1);
}

/* C-39 */
START_TEST(run_on_executor_preserves_request_trace_context)
{
	holt_hold *h = hold("k");

	ck_assert_int_eq(holt_context_set_trace("req-1"), 0);
	holt_job *j = run(note_trace, traces[0]);
	holt_waiter *w = ask("k", note_trace_done, traces[1]);
	ck_assert_int_eq(holt_context_set_trace("req-2"), 0);
	ck_assert_int_eq(result_of(j), 0);
	ck_assert_int_eq(atomic_exchange(&told, 0), 1);
	holt_hold_release(h);
	await(&told, 1);
	holt_waiter_free(w);
	ck_assert_str_eq(traces[0], "req-1");
	ck_assert_str_eq(traces[1], "req-1");
	ck_assert_int_eq(holt_context_set_trace(NULL), 0);
	ck_assert_int_eq(result_of(run(note_trace, traces[0])), 0);
	ck_assert_str_eq(traces[0], "");
}
END_TEST

/* C-34, C-42 */
START_TEST(close_rejects_new_holders_and_is_idempotent)
{
	holt_job_options o = HOLT_JOB_OPTIONS_INIT;
	holt_hold *h = NULL;
	holt_waiter *w = NULL;
	holt_job *j = NULL;
	holt_error *e = NULL;

	o.run = quick;
	holt_serializer_close(NULL);
	holt_serializer_close(s);
	holt_serializer_close(s);
	int r = holt_serializer_hold(s, "k", 1, LATE_MS, NULL, &h, &e);
	check_code(r, e, HOLT_ECLOSED, "the serializer is closed");
	e = NULL;
	r = holt_serializer_hold_start(s, "k", 1, on_done, NULL, &w, &e);
	check_code(r, e, HOLT_ECLOSED, "the serializer is closed");
	ck_assert_ptr_null(w);
	ck_assert_int_eq(holt_serializer_run(s, &o, &j, NULL), -HOLT_ECLOSED);
	ck_assert_int_eq(atomic_load(&ran), 0);
	ck_assert_int_eq(atomic_load(&told), 0);
}
END_TEST

/* C-35, also where the serializer itself is gone meanwhile. */
START_TEST(close_does_not_invalidate_active_critical_section)
{
	holt_serializer *mine = NULL;
	holt_hold *h = hold("k");
	holt_waiter *w = ask("other", NULL, NULL);
	holt_hold *taken = NULL;

	holt_serializer_close(s);
	ck_assert_uint_eq(holt_serializer_count(s), 2);
	/* One that was handed over and not taken counts as a holder. */
	ck_assert_int_eq(take(w, 0, &taken), 0);
	holt_hold_release(taken);
	holt_hold_release(h);
	ck_assert_uint_eq(holt_serializer_count(s), 0);
	holt_waiter_free(w);
	ck_assert_int_eq(holt_serializer_new(NULL, &mine, NULL), 0);
	ck_assert_int_eq(holt_serializer_hold(mine, "k", 1, 0, NULL, &h, NULL), 0);
	holt_serializer_free(mine);
	holt_hold_release(h);
}
END_TEST

static void *close_it(void *arg)
{
	(void)arg;
	nap_ms(2);
	holt_serializer_close(s);
	return NULL;
}

/* C-32, C-37: a serializer that is closed while others ask. */
START_TEST(executor_shutdown_between_checkout_and_schedule_reclaims_entry)
{
	holt_job_options o = HOLT_JOB_OPTIONS_INIT;
	pthread_t t;
	int r = 0;

	o.run = quick;
	ck_assert_int_eq(pthread_create(&t, NULL, close_it, NULL), 0);
	while (r == 0) {
		holt_waiter *w = NULL;
		holt_job *j = NULL;

		r = holt_serializer_hold_start(s, "k", 1, on_done, NULL, &w, NULL);
		holt_waiter_free(w);
		if (r == 0) {
			r = holt_serializer_run(s, &o, &j, NULL);
			holt_job_free(j);
		}
	}
	ck_assert_int_eq(r, -HOLT_ECLOSED);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
}
END_TEST

/* C-36, and C-34: functions that wait for their turn are told at once, although all threads are
 * busy. */
START_TEST(close_reports_closed_to_queued_waiter)
{
	struct blocking b = {.timeout_ms = HOLT_FOREVER};
	holt_hold *h = hold("k");
	holt_waiter *w = ask("k", on_done, NULL);
	const pthread_t t = start_blocking(&b);
	holt_job *busy[4];
	holt_hold *mine = NULL;
	holt_error *e = NULL;

	for (int i = 0; i < 4; i++)
		busy[i] = run(until_cancelled, NULL);
	await(&ran, 5);
	holt_job *late = run(quick, NULL);
	holt_serializer_close(s);
	ck_assert_int_eq(result_of(late), -HOLT_ECLOSED);
	await(&told, 2);
	int r = holt_waiter_take(w, 0, &mine, &e);
	check_code(r, e, HOLT_ECLOSED, "the serializer is closed");
	/* It was closed first; what comes later changes nothing. */
	holt_waiter_cancel(w);
	ck_assert_int_eq(take(w, LATE_MS, &mine), -HOLT_ECLOSED);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert_int_eq(b.result, -HOLT_ECLOSED);
	ck_assert_int_eq(atomic_load(&ran), 5);
	for (int i = 0; i < 4; i++) {
		holt_job_cancel(busy[i]);
		ck_assert_int_eq(result_of(busy[i]), -HOLT_ECANCELLED);
	}
	holt_waiter_free(w);
	cancel_free(b.cancel);
	holt_hold_release(h);
}
END_TEST

/* C-36: who was cancelled before stays cancelled. */
START_TEST(close_reclaims_caller_cancelled_queued_waiter)
{
	holt_hold *h = hold("k");
	holt_waiter *w = ask("k", on_done, NULL);
	holt_hold *mine = NULL;

	holt_waiter_cancel(w);
	holt_serializer_close(s);
	ck_assert_int_eq(take(w, 0, &mine), -HOLT_ECANCELLED);
	await(&told, 1);
	holt_hold_release(h);
	ck_assert_uint_eq(holt_serializer_count(s), 0);
	holt_waiter_free(w);
	ck_assert_int_eq(atomic_load(&told), 1);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {same_key_never_overlaps, different_keys_proceed_concurrently,
		lock_table_reclaims_entries, cancellation_before_acquire_leaks_nothing,
		cancellation_of_a_blocking_wait,
		cancelled_wait_releases_without_event_loop_callback,
		cancellation_after_acquire_releases,
		async_wait_keeps_loop_alive_and_off_default_executor,
		concurrent_async_waiters_serialize, run_on_executor_preserves_request_trace_context,
		close_rejects_new_holders_and_is_idempotent,
		close_does_not_invalidate_active_critical_section,
		executor_shutdown_between_checkout_and_schedule_reclaims_entry,
		close_reports_closed_to_queued_waiter,
		close_reclaims_caller_cancelled_queued_waiter};

	return run_suite("serializer", tests, sizeof tests / sizeof tests[0]);
}
