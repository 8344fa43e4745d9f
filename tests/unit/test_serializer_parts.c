/* SPDX-License-Identifier: Apache-2.0 */
/* Serializers: their threads, their limits, what is checked, and what is left without memory. */
#include "serializer_fixture.h"

#include <errno.h>
#include <sys/resource.h>

#include "base/mem.h"

/* C-28: who holds a key and asks again waits for itself. */
START_TEST(one_thread_waits_for_itself)
{
	holt_hold *h = hold("k");
	holt_hold *again = NULL;
	holt_error *e = NULL;
	const uint64_t start_ms = clock_mono_ms();
	const int r = holt_serializer_hold(s, "k", 1, 50, NULL, &again, &e);

	check_code(r, e, HOLT_ETIMEOUT, "somebody else holds the key");
	ck_assert_uint_ge(clock_mono_ms() - start_ms, 50);
	ck_assert_ptr_null(again);
	ck_assert_uint_eq(holt_serializer_count(s), 1);
	holt_hold_release(h);
}
END_TEST

static int hold_inside(holt_cancel *cancel, void *user, holt_error **reterr)
{
	holt_hold *h = NULL;

	(void)cancel;
	(void)user;
	const int r = holt_serializer_hold(s, "k", 1, HOLT_FOREVER, NULL, &h, reterr);
	holt_hold_release(h);
	return r;
}

static void take_only(holt_waiter *waiter, void *user)
{
	ck_assert_int_eq(holt_waiter_take(waiter, 0, user, NULL), 0);
	atomic_fetch_add(&told, 1);
}

/* Functions that wait for a key on all threads do not keep its holder from being told. */
START_TEST(callbacks_have_threads_of_their_own)
{
	holt_hold *h = hold("k");
	holt_hold *mine = NULL;
	holt_waiter *w = ask("k", take_only, &mine);
	holt_job *j[6];

	for (int i = 0; i < 6; i++)
		j[i] = run(hold_inside, NULL);
	nap_ms(20);
	holt_hold_release(h);
	await(&told, 1);
	holt_waiter_free(w);
	holt_hold_release(mine);
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(result_of(j[i]), 0);
}
END_TEST

/* C-32: one that waits for a thread is gone at once, although all of them wait for the key. */
START_TEST(a_function_that_is_cancelled_before_its_turn)
{
	holt_hold *h = hold("k");
	holt_job *j[4];

	for (int i = 0; i < 4; i++)
		j[i] = run(hold_inside, NULL);
	holt_job *late = run(quick, NULL);
	holt_job_cancel(late);
	ck_assert_int_eq(result_of(late), -HOLT_ECANCELLED);
	ck_assert_int_eq(atomic_load(&told), 1);
	ck_assert_int_eq(atomic_load(&ran), 0);
	ck_assert_uint_eq(holt_serializer_count(s), 1);
	holt_hold_release(h);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(result_of(j[i]), 0);
}
END_TEST

static int fail_inside(holt_cancel *cancel, void *user, holt_error **reterr)
{
	holt_hold *h = NULL;

	(void)user;
	const int r = holt_serializer_hold(s, "k", 1, HOLT_FOREVER, cancel, &h, reterr);
	if (r < 0)
		return r;
	holt_hold_release(h);
	return err_make(reterr, HOLT_EIO, "no luck");
}

/* C-27: a failure comes out as it is, and neither the key nor its entry stays behind. */
START_TEST(a_function_that_fails)
{
	holt_error *e = NULL;
	holt_job *j = run(fail_inside, NULL);
	int result = 0;

	ck_assert_int_eq(holt_job_wait(j, LATE_MS, &result, &e), 0);
	ck_assert_int_eq(result, -HOLT_EIO);
	ck_assert_str_eq(holt_error_message(e), "no luck");
	holt_error_free(e);
	holt_job_free(j);
	ck_assert_uint_eq(holt_serializer_count(s), 0);
	check_free("k");
}
END_TEST

static void slow_done(holt_waiter *waiter, void *user)
{
	(void)waiter;
	(void)user;
	atomic_fetch_add(&ran, 1);
	nap_ms(50);
	atomic_fetch_add(&told, 1);
}

START_TEST(free_waits_for_a_callback_that_runs)
{
	holt_waiter *w = ask("k", slow_done, NULL);

	await(&ran, 1);
	holt_waiter_free(w);
	ck_assert_int_eq(atomic_load(&told), 1);
}
END_TEST

/* The only thread of a callback outlives idle ones: EXECUTOR_IDLE_MS is five seconds. */
START_TEST(a_callback_comes_after_a_long_wait)
{
	holt_hold *h = hold("k");
	holt_waiter *w = ask("k", on_done, NULL);

	const unsigned n = count_threads();
	nap_ms(6000);
	ck_assert_uint_eq(count_threads(), n);
	holt_hold_release(h);
	await(&told, 1);
	holt_waiter_free(w);
}
END_TEST

/* C-33: the Nth allocation fails, and nothing is left of the attempt. */
START_TEST(without_memory_nothing_is_left)
{
	holt_hold *h = hold("k");
	holt_hold *mine = NULL;
	unsigned failed = 0;
	int r = -1;

	for (unsigned long n = 1; r < 0; n++) {
		holt_waiter *w = NULL;

		mem_fail_at(n);
		r = holt_serializer_hold_start(
			s, n % 2 ? "k" : "new", n % 2 ? 1 : 3, on_done, NULL, &w, NULL);
		mem_fail_at(0);
		ck_assert(r == 0 || r == -HOLT_ENO_MEMORY);
		failed += r < 0;
		holt_waiter_free(w);
		ck_assert_uint_eq(holt_serializer_count(s), 1);
	}
	ck_assert_uint_ge(failed, 2);
	holt_hold_release(h);
	failed = 0;
	r = -1;
	for (unsigned long n = 1; r < 0; n++) {
		mem_fail_at(n);
		r = holt_serializer_hold(s, "k", 1, 0, NULL, &mine, NULL);
		mem_fail_at(0);
		ck_assert(r == 0 || r == -HOLT_ENO_MEMORY);
		failed += r < 0;
		ck_assert_uint_eq(holt_serializer_count(s), r == 0);
	}
	/* The hold, the entry, and twice the table behind it. */
	ck_assert_uint_eq(failed, 4);
	/* With a waiter behind it and no memory at all, a release, a cancel and a take succeed. */
	holt_waiter *first = ask("k", on_done, NULL);
	holt_waiter *second = ask("k", on_done, NULL);
	mem_fail_at(1);
	holt_hold_release(mine);
	holt_waiter_cancel(first);
	r = take(second, 0, &mine);
	holt_hold_release(mine);
	await(&told, 2);
	ck_assert_uint_eq(holt_serializer_count(s), 0);
	mem_fail_at(0);
	ck_assert_int_eq(r, 0);
	holt_waiter_free(first);
	holt_waiter_free(second);
}
END_TEST

#ifndef HOLT_SANITIZED /* which needs address space of its own */
static void limit_space(uint64_t more)
{
	unsigned long pages = 0;
	struct rlimit limit;
	FILE *f = fopen("/proc/self/statm", "re");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%lu", &pages), 1);
	(void)fclose(f);
	ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
	limit.rlim_cur = more == HOLT_FOREVER ? limit.rlim_max : pages * 4096 + more;
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
}

/* Where no thread can be started (no room for its stack), who wants to be called is refused, and
 * nothing is left of it. Whoever was not refused is called in spite of that. */
START_TEST(without_threads_nothing_is_left)
{
	holt_job_options o = HOLT_JOB_OPTIONS_INIT;
	holt_hold *h = hold("k");
	holt_waiter *w = NULL;
	holt_job *j = NULL;
	holt_error *e = NULL;

	o.run = quick;
	limit_space(2 << 20);
	int r = holt_serializer_hold_start(s, "new", 3, on_done, NULL, &w, &e);
	ck_assert_int_eq(r, -HOLT_ELIMIT);
	ck_assert_int_eq(holt_error_errno(e), EAGAIN);
	ck_assert_ptr_nonnull(strstr(holt_error_message(e), "cannot start a thread: "));
	holt_error_free(e);
	ck_assert_int_eq(holt_serializer_run(s, &o, &j, NULL), -HOLT_ELIMIT);
	ck_assert_uint_eq(holt_serializer_count(s), 1);
	limit_space(HOLT_FOREVER);
	w = ask("k", on_done, NULL);
	limit_space(2 << 20);
	holt_waiter *second = ask("k", on_done, NULL);
	holt_hold_release(h);
	await(&told, 1);
	holt_waiter_free(w);
	await(&told, 2);
	holt_waiter_free(second);
	limit_space(HOLT_FOREVER);
}
END_TEST
#endif

START_TEST(a_new_one_without_memory)
{
	holt_serializer *mine = NULL;
	unsigned failed = 0;
	int r = -1;

	for (unsigned long n = 1; r < 0; n++) {
		mem_fail_at(n);
		r = holt_serializer_new(NULL, &mine, NULL);
		mem_fail_at(0);
		ck_assert(r == 0 || r == -HOLT_ENO_MEMORY);
		failed += r < 0;
	}
	ck_assert_uint_eq(failed, 3);
	holt_serializer_free(mine);
	holt_serializer_free(NULL);
}
END_TEST

/* C-24 */
START_TEST(arguments_are_checked)
{
	holt_serializer_options o = HOLT_SERIALIZER_OPTIONS_INIT;
	static char key[HOLT_SERIALIZER_KEY_MAX + 1];
	holt_serializer *mine = NULL;
	holt_hold *h = NULL;
	holt_waiter *w = NULL;
	int fd = -1;

	ck_assert_int_eq(holt_serializer_new(NULL, NULL, NULL), -HOLT_EINVALID);
	o.max_threads = HOLT_SERIALIZER_THREADS_MAX + 1;
	ck_assert_int_eq(holt_serializer_new(&o, &mine, NULL), -HOLT_EINVALID);
	o.max_threads = HOLT_SERIALIZER_THREADS_MAX;
	o.thread_name = "";
	ck_assert_int_eq(holt_serializer_new(&o, &mine, NULL), -HOLT_EINVALID);
	o.thread_name = "0123456789abcdef";
	ck_assert_int_eq(holt_serializer_new(&o, &mine, NULL), -HOLT_EINVALID);
	o.thread_name = "0123456789abcde";
	ck_assert_int_eq(holt_serializer_new(&o, &mine, NULL), 0);
	holt_serializer_free(mine);
	ck_assert_int_eq(holt_serializer_hold(NULL, "k", 1, 0, NULL, &h, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_serializer_hold(s, NULL, 1, 0, NULL, &h, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_serializer_hold(s, "k", 1, 0, NULL, NULL, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(
		holt_serializer_hold(s, key, sizeof key, 0, NULL, &h, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_serializer_hold(s, key, sizeof key - 1, 0, NULL, &h, NULL), 0);
	holt_hold_release(h);
	holt_hold_release(NULL);
	ck_assert_int_eq(
		holt_serializer_hold_start(s, NULL, 1, NULL, NULL, &w, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_waiter_event_fd(NULL, &fd, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_waiter_take(NULL, 0, &h, NULL), -HOLT_EINVALID);
	holt_waiter_cancel(NULL);
	holt_waiter_free(NULL);
	ck_assert_uint_eq(holt_serializer_count(NULL), 0);
}
END_TEST

static char names[2][16];

static void note_name(holt_waiter *waiter, void *user)
{
	(void)waiter;
	(void)pthread_getname_np(pthread_self(), user, 16);
	atomic_fetch_add(&told, 1);
}

static int note_name_run(holt_cancel *cancel, void *user, holt_error **reterr)
{
	(void)cancel;
	(void)reterr;
	return pthread_getname_np(pthread_self(), user, 16);
}

/* C-24 */
START_TEST(threads_have_the_name)
{
	holt_waiter *w = ask("k", note_name, names[0]);

	await(&told, 1);
	holt_waiter_free(w);
	ck_assert_int_eq(result_of(run(note_name_run, names[1])), 0);
	ck_assert_str_eq(names[0], "sandbox-acquire");
	ck_assert_str_eq(names[1], "sandbox-acquire");
}
END_TEST

/* C-40: who gives up waiting for a function does not end it; the next one waits for the key. */
START_TEST(a_retry_waits_behind_a_function_that_nobody_waits_for)
{
	struct blocking b = {.timeout_ms = HOLT_FOREVER};
	holt_hold *h = hold("k");
	holt_job *first = run(hold_inside, NULL);
	int result = 0;

	nap_ms(20);
	ck_assert_int_eq(holt_job_wait(first, 0, &result, NULL), -HOLT_ETIMEOUT);
	const pthread_t t = start_blocking(&b);
	holt_hold_release(h);
	ck_assert_int_eq(result_of(first), 0);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert_int_eq(b.result, 0);
	cancel_free(b.cancel);
}
END_TEST

START_TEST(waiters_have_a_maximum)
{
	static holt_waiter *w[HOLT_SERIALIZER_WAITERS_MAX];
	holt_waiter *more = NULL;
	holt_error *e = NULL;
	size_t n = 0;

	while (n < HOLT_SERIALIZER_WAITERS_MAX &&
		holt_serializer_hold_start(s, "k", 1, NULL, NULL, &w[n], NULL) == 0)
		n++;
	ck_assert_uint_eq(n, HOLT_SERIALIZER_WAITERS_MAX);
	const int r = holt_serializer_hold_start(s, "k", 1, NULL, NULL, &more, &e);
	check_code(r, e, HOLT_ELIMIT, "65536 wait already");
	holt_waiter_free(w[0]);
	ck_assert_int_eq(holt_serializer_hold_start(s, "k", 1, NULL, NULL, &w[0], NULL), 0);
	for (size_t i = 0; i < n; i++)
		holt_waiter_free(w[i]);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {one_thread_waits_for_itself,
		callbacks_have_threads_of_their_own, a_function_that_is_cancelled_before_its_turn,
		a_function_that_fails, free_waits_for_a_callback_that_runs,
		a_callback_comes_after_a_long_wait, without_memory_nothing_is_left,
		a_new_one_without_memory, arguments_are_checked, threads_have_the_name,
		a_retry_waits_behind_a_function_that_nobody_waits_for, waiters_have_a_maximum,
#ifndef HOLT_SANITIZED
		without_threads_nothing_is_left
#endif
	};

	return run_suite("serializer_parts", tests, sizeof tests / sizeof tests[0]);
}
