/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acquires that nobody waits for: a loop that polls goes on ticking, deadlines and tokens end a
 * wait while it is queued, and what has begun is finished.
 */
#include <poll.h>

#include "base/thread_context.h"
#include "tick_fixture.h"
#include "provider_fixture.h"

static void before(void)
{
	fake_reset();
}

static struct holt_acquire *start_with(struct holt_provider *p, const char *thread,
	uint64_t timeout_ms, holt_cancel *cancel, void (*done)(struct holt_acquire *, void *),
	void *user)
{
	const struct scope_key key = key_of("u", thread);
	const struct acquire_wish w = {.key = &key, .timeout_ms = timeout_ms, .cancel = cancel};
	struct holt_acquire *a = NULL;
	holt_error *error = NULL;

	ck_assert_msg(provider_acquire_start(p, &w, done, user, &a, &error) == 0, "%s",
		holt_error_message(error));
	return a;
}

static int wait_for(struct holt_acquire *a, char id[ID_SIZE])
{
	return acquire_wait(a, HOLT_FOREVER, id, NULL);
}

START_TEST(result_by_wait_descriptor_and_callback)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_acquire *a = start_with(p, "t", 0, NULL, NULL, NULL);
	struct pollfd fd = {.events = POLLIN};
	char id[ID_SIZE];

	ck_assert_int_eq(acquire_event_fd(a, &fd.fd, NULL), 0);
	ck_assert_int_eq(poll(&fd, 1, 5000), 1);
	ck_assert_int_eq(acquire_wait(a, 0, id, NULL), 0);
	ck_assert(is_active(p, id));
	ck_assert_int_eq(acquire_wait(a, 0, id, NULL), 0);
	/* Asked for later it is readable at once. */
	int again = -1;
	ck_assert_int_eq(acquire_event_fd(a, &again, NULL), 0);
	ck_assert_int_eq(again, fd.fd);
	acquire_free(a);
	shut(p);
	world_is_clean();
}
END_TEST

START_TEST(error_is_told_once)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	holt_error *error = NULL;
	char id[ID_SIZE];

	fake_fail(FAKE_START, HOLT_ELIMIT, 1);
	struct holt_acquire *a = start_with(p, "t", 0, NULL, NULL, NULL);
	ck_assert_int_eq(acquire_wait(a, HOLT_FOREVER, id, &error), -HOLT_ELIMIT);
	ck_assert_int_eq(holt_error_code(error), HOLT_ELIMIT);
	holt_error_free(error);
	error = NULL;
	ck_assert_int_eq(acquire_wait(a, 0, id, &error), -HOLT_ELIMIT);
	ck_assert_ptr_null(error);
	acquire_free(a);
	ck_assert_uint_eq(fake_boxes(), 0);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-29, C-202: while an acquire of a contended id waits, the loop ticks, and get asks nobody */
START_TEST(loop_ticks_while_an_acquire_waits)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_provider *q = PROVIDER(fake_process("two"));
	struct idle_ticker idle;
	struct ticks ticks = {0};
	char id[ID_SIZE];
	char other[ID_SIZE];

	acquire(q, "u", "t", id); /* another process has it */
	acquire(p, "u", "mine", other);
	struct holt_acquire *a = start_with(p, "t", 10000, NULL, NULL, NULL);
	struct holt_acquire *b = start_with(p, "t", 10000, NULL, NULL, NULL);
	struct pollfd fds[2] = {{.events = POLLIN}, {.events = POLLIN}};
	ck_assert_int_eq(acquire_event_fd(a, &fds[0].fd, NULL), 0);
	ck_assert_int_eq(acquire_event_fd(b, &fds[1].fd, NULL), 0);
	UNTIL(fake_calls(FAKE_HOLD) == 1);
	const unsigned finds = fake_calls(FAKE_FIND) + fake_calls(FAKE_LOOK);
	idle_ticker_start(&idle);
	for (const uint64_t until_ms = clock_mono_ms() + 300; clock_mono_ms() < until_ms;) {
		const uint64_t begun_us = clock_mono_us();

		ck_assert_int_eq(poll(fds, 2, TICK_MS), 0);
		ck_assert_int_eq(acquire_wait(a, 0, other, NULL), -HOLT_EUNAVAILABLE);
		ck_assert_ptr_null(provider_get(p, id));
		tick_count(&ticks, begun_us);
	}
	ck_assert_uint_eq(fake_calls(FAKE_FIND) + fake_calls(FAKE_LOOK), finds);
	check_ticks(&idle, &ticks);
	release(q, id);
	ck_assert_int_eq(wait_for(a, id), 0);
	ck_assert_int_eq(wait_for(b, id), 0);
	acquire_free(a);
	acquire_free(b);
	shut(q);
	shut(p);
	world_is_clean();
}
END_TEST

/* One more than there may be is told; those that are there are not disturbed. */
START_TEST(so_many_and_no_more)
{
	static struct holt_acquire *all[ACQUIRES_MAX];
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_provider *q = PROVIDER(fake_process("two"));
	const struct scope_key key = key_of("u", "t");
	const struct acquire_wish w = {.key = &key, .timeout_ms = HOLT_FOREVER};
	struct holt_acquire *more = NULL;
	holt_error *error = NULL;
	char id[ID_SIZE];

	acquire(q, "u", "t", id);
	for (unsigned i = 0; i < ACQUIRES_MAX; i++)
		all[i] = start_with(p, "t", HOLT_FOREVER, NULL, NULL, NULL);
	ck_assert_int_eq(provider_acquire_start(p, &w, NULL, NULL, &more, &error), -HOLT_ELIMIT);
	ck_assert_ptr_null(more);
	ck_assert_str_ne(holt_error_hint(error), "");
	holt_error_free(error);
	release(q, id);
	for (unsigned i = 0; i < ACQUIRES_MAX; i++) {
		ck_assert_int_eq(wait_for(all[i], id), 0);
		acquire_free(all[i]);
	}
	ck_assert_uint_eq(fake_boxes(), 1);
	shut(q);
	shut(p);
	world_is_clean();
}
END_TEST

struct told {
	atomic_int n;
	int result;
	char trace[64];
	pthread_t thread;
};

static void on_done(struct holt_acquire *a, void *user)
{
	struct told *t = user;
	char id[ID_SIZE];

	t->result = acquire_wait(a, 0, id, NULL);
	(void)snprintf(t->trace, sizeof t->trace, "%s", context_trace());
	t->thread = pthread_self();
	atomic_fetch_add(&t->n, 1);
}

/* C-39: the caller's context is that of the acquire, as far as the box */
START_TEST(context_is_carried)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct told told = {0};
	char id[ID_SIZE];

	ck_assert_int_eq(context_set_trace("request-7"), 0);
	struct holt_acquire *a = start_with(p, "t", 0, NULL, on_done, &told);
	ck_assert_int_eq(context_set_trace(NULL), 0);
	ck_assert_int_eq(wait_for(a, id), 0);
	UNTIL(atomic_load(&told.n) == 1);
	ck_assert_int_eq(told.result, 0);
	ck_assert(!pthread_equal(told.thread, pthread_self()));
	ck_assert_str_eq(told.trace, "request-7");
	ck_assert_str_eq(fake_box(id).trace, "request-7");
	acquire_free(a);
	shut(p);
	world_is_clean();
}
END_TEST

/* A deadline ends a wait also while it is queued, and while all threads are busy. */
START_TEST(deadline_while_queued)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "replicas: 100");
	struct holt_acquire *busy[40];
	struct told told = {0};
	char id[ID_SIZE];
	char thread[8];

	fake_gate(FAKE_START, true);
	struct holt_acquire *first = start_with(p, "t", 60000, NULL, NULL, NULL);
	fake_wait_for(FAKE_START, 1);
	for (int i = 0; i < 40; i++) {
		(void)snprintf(thread, sizeof thread, "x%d", i);
		busy[i] = start_with(p, thread, 60000, NULL, NULL, NULL);
	}
	ck_assert_int_eq(context_set_trace("request-8"), 0);
	struct holt_acquire *a = start_with(p, "t", 100, NULL, on_done, &told);
	ck_assert_int_eq(context_set_trace(NULL), 0);
	const uint64_t begun_ms = clock_mono_ms();
	ck_assert_int_eq(wait_for(a, id), -HOLT_ETIMEOUT);
	ck_assert_uint_le(clock_mono_ms() - begun_ms, 1500);
	UNTIL(atomic_load(&told.n) == 1);
	ck_assert_int_eq(told.result, -HOLT_ETIMEOUT);
	/* Also where no thread of the serializer was free to tell it (C-39). */
	ck_assert_str_eq(told.trace, "request-8");
	acquire_free(a);
	fake_gate(FAKE_START, false);
	ck_assert_int_eq(wait_for(first, id), 0);
	acquire_free(first);
	for (int i = 0; i < 40; i++) {
		ck_assert_int_eq(wait_for(busy[i], id), 0);
		acquire_free(busy[i]);
	}
	ck_assert_uint_eq(serializer_count(p->serializer), 0);
	shut(p);
	world_is_clean();
}
END_TEST

START_TEST(token_while_queued)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	holt_cancel *cancel = NULL;
	char id[ID_SIZE];

	ck_assert_int_eq(cancel_new(&cancel, NULL), 0);
	fake_gate(FAKE_START, true);
	struct holt_acquire *first = start_with(p, "t", 60000, NULL, NULL, NULL);
	fake_wait_for(FAKE_START, 1);
	struct holt_acquire *a = start_with(p, "t", HOLT_FOREVER, cancel, NULL, NULL);
	ck_assert_int_eq(acquire_wait(a, 30, id, NULL), -HOLT_EUNAVAILABLE);
	cancel_trigger(cancel);
	ck_assert_int_eq(wait_for(a, id), -HOLT_ECANCELLED);
	acquire_free(a);
	/* Triggered before. */
	a = start_with(p, "t", HOLT_FOREVER, cancel, NULL, NULL);
	ck_assert_int_eq(wait_for(a, id), -HOLT_ECANCELLED);
	acquire_free(a);
	fake_gate(FAKE_START, false);
	ck_assert_int_eq(wait_for(first, id), 0);
	acquire_free(first);
	UNTIL(serializer_count(p->serializer) == 0);
	shut(p);
	cancel_free(cancel);
	world_is_clean();
}
END_TEST

/* C-40: what has begun is finished and active, so that who comes again gets it; one create */
START_TEST(abandoned_while_it_makes)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct told told = {0};
	char id[ID_SIZE];

	fake_gate(FAKE_START, true);
	struct holt_acquire *a = start_with(p, "t", 60000, NULL, on_done, &told);
	fake_wait_for(FAKE_START, 1);
	const uint64_t begun_ms = clock_mono_ms();
	acquire_free(a);
	ck_assert_uint_le(clock_mono_ms() - begun_ms, 1000);
	struct holt_acquire *b = start_with(p, "t", 60000, NULL, NULL, NULL);
	nap_ms(20);
	fake_gate(FAKE_START, false);
	ck_assert_int_eq(wait_for(b, id), 0);
	ck_assert_uint_eq(fake_calls(FAKE_CREATE), 1);
	ck_assert(is_active(p, id));
	ck_assert_int_eq(atomic_load(&told.n), 0);
	acquire_free(b);
	shut(p);
	world_is_clean();
}
END_TEST

/* The token is the caller's, and may go with the acquire, whatever that is at. */
START_TEST(token_goes_with_the_acquire)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	fake_gate(FAKE_START, true);
	for (int i = 0; i < 3; i++) {
		holt_cancel *cancel = NULL;

		ck_assert_int_eq(cancel_new(&cancel, NULL), 0);
		struct holt_acquire *a = start_with(p, "t", 60000, cancel, NULL, NULL);
		fake_wait_for(FAKE_START, 1);
		acquire_free(a);
		/* It is not listened to any more. */
		cancel_trigger(cancel);
		ck_assert_ptr_null(cancel->waiters);
		cancel_free(cancel);
	}
	fake_gate(FAKE_START, false);
	UNTIL(stats_of(p).acquiring == 0);
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_calls(FAKE_CREATE), 1);
	shut(p);
	world_is_clean();
}
END_TEST

/* One that waits for its turn is given up, and leaves nothing. */
START_TEST(abandoned_while_it_waits)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct told told = {0};
	char id[ID_SIZE];

	fake_gate(FAKE_START, true);
	struct holt_acquire *first = start_with(p, "t", 60000, NULL, NULL, NULL);
	fake_wait_for(FAKE_START, 1);
	for (int i = 0; i < 20; i++)
		acquire_free(start_with(p, "t", 60000, NULL, on_done, &told));
	fake_gate(FAKE_START, false);
	ck_assert_int_eq(wait_for(first, id), 0);
	acquire_free(first);
	UNTIL(stats_of(p).acquiring == 0);
	UNTIL(serializer_count(p->serializer) == 0);
	ck_assert_int_eq(atomic_load(&told.n), 0);
	ck_assert_uint_eq(stats_of(p).reused, 0);
	shut(p);
	world_is_clean();
}
END_TEST

/* A provider is freed while abandoned ones are at work. */
START_TEST(free_waits_for_the_abandoned)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));

	fake_delay(FAKE_START, 50);
	acquire_free(start_with(p, "t", 60000, NULL, NULL, NULL));
	acquire_free(start_with(p, "t2", 60000, NULL, NULL, NULL));
	provider_free(p);
	ck_assert_uint_eq(fake_handles(), 0);
	ck_assert_uint_le(fake_boxes(), 2);
	world_is_clean();
}
END_TEST

/* C-42, C-179, C-181 */
START_TEST(shutdown_ends_those_that_wait)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_acquire *a[8];
	struct holt_acquire *none = NULL;
	const struct scope_key key = key_of("u", "t");
	const struct acquire_wish w = {.key = &key};
	char id[ID_SIZE];

	fake_delay(FAKE_START, 100);
	for (int i = 0; i < 8; i++)
		a[i] = start_with(p, "t", HOLT_FOREVER, NULL, NULL, NULL);
	UNTIL(fake_calls(FAKE_START) == 1);
	ck_assert_int_eq(provider_shutdown(p, NULL), 0);
	for (int i = 0; i < 8; i++) {
		ck_assert_int_eq(wait_for(a[i], id), -HOLT_ECLOSED);
		acquire_free(a[i]);
	}
	ck_assert_uint_eq(fake_boxes(), 0);
	ck_assert_int_eq(provider_acquire_start(p, &w, NULL, NULL, &none, NULL), -HOLT_ECLOSED);
	provider_free(p);
	world_is_clean();
}
END_TEST

START_TEST(without_a_thread)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_acquire *a = start_with(p, NULL, 0, NULL, NULL, NULL);
	char id[ID_SIZE];

	ck_assert_int_eq(wait_for(a, id), 0);
	ck_assert_uint_eq(strlen(id), 8);
	ck_assert(is_active(p, id));
	acquire_free(a);
	/* C-42: nor does a reset keep it from being had; a shutdown does. */
	provider_reset(p);
	const struct scope_key named = key_of("u", "t"), alone = key_of("u", NULL);
	const struct acquire_wish w = {.key = &named}, w_alone = {.key = &alone};
	ck_assert_int_eq(provider_acquire_start(p, &w, NULL, NULL, &a, NULL), -HOLT_ECLOSED);
	a = start_with(p, NULL, 0, NULL, NULL, NULL);
	ck_assert_int_eq(wait_for(a, id), 0);
	ck_assert(is_active(p, id));
	acquire_free(a);
	ck_assert_int_eq(provider_shutdown(p, NULL), 0);
	ck_assert_int_eq(provider_acquire_start(p, &w_alone, NULL, NULL, &a, NULL), -HOLT_ECLOSED);
	provider_free(p);
	world_is_clean();
}
END_TEST

/* C-29: many at once for one id, from one loop: one create, and all have it */
START_TEST(many_for_one_thread)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_acquire *a[200];
	char first[ID_SIZE];
	char id[ID_SIZE];

	for (int i = 0; i < 200; i++)
		a[i] = start_with(p, "t", 60000, NULL, NULL, NULL);
	ck_assert_int_eq(wait_for(a[0], first), 0);
	for (int i = 0; i < 200; i++) {
		ck_assert_int_eq(wait_for(a[i], id), 0);
		ck_assert_str_eq(id, first);
		acquire_free(a[i]);
	}
	ck_assert_uint_eq(fake_calls(FAKE_CREATE), 1);
	shut(p);
	world_is_clean();
}
END_TEST

/* The Nth allocation fails. */
START_TEST(without_memory)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	const struct scope_key key = key_of("u", "t");
	const struct acquire_wish w = {.key = &key, .timeout_ms = 5000};
	unsigned failed = 0;
	char id[ID_SIZE];

	for (unsigned long n = 1; n < 60; n++) {
		struct holt_acquire *a = NULL;

		mem_fail_at(n);
		int r = provider_acquire_start(p, &w, NULL, NULL, &a, NULL);
		if (r == 0)
			r = wait_for(a, id);
		mem_fail_at(0);
		acquire_free(a);
		failed += r < 0;
		ck_assert_msg(r == 0 || r == -HOLT_ENO_MEMORY, "%lu: %d", n, r);
		if (r == 0)
			release(p, id);
		if (n % 2)
			fake_kill(id);
	}
	ck_assert_uint_ge(failed, 10);
	UNTIL(stats_of(p).acquiring == 0);
	shut(p);
	world_is_clean();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("provider_async");
	TCase *t = tcase_create("async");

	tcase_add_checked_fixture(t, before, NULL);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, result_by_wait_descriptor_and_callback);
	tcase_add_test(t, error_is_told_once);
	tcase_add_test(t, loop_ticks_while_an_acquire_waits);
	tcase_add_test(t, so_many_and_no_more);
	tcase_add_test(t, context_is_carried);
	tcase_add_test(t, deadline_while_queued);
	tcase_add_test(t, token_while_queued);
	tcase_add_test(t, abandoned_while_it_makes);
	tcase_add_test(t, token_goes_with_the_acquire);
	tcase_add_test(t, abandoned_while_it_waits);
	tcase_add_test(t, free_waits_for_the_abandoned);
	tcase_add_test(t, shutdown_ends_those_that_wait);
	tcase_add_test(t, without_a_thread);
	tcase_add_test(t, many_for_one_thread);
	tcase_add_test(t, without_memory);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
