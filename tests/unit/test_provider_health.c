/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a box that waited still lives: what counts as a sign of life, when none is asked for, and
 * what becomes of one that gives none.
 */
#include "provider_fixture.h"

static void before(void)
{
	fake_reset();
}

/* C-168, C-185: unhealthy: destroyed, made under the same id */
START_TEST(warm_and_unhealthy_is_made_anew)
{
	struct event_log log = EVENT_LOG;
	struct holt_provider *p = PROVIDER_TOLD(fake_process("one"), &log);
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	release(p, id);
	const unsigned number = fake_box(id).number;
	fake_hang(id, true);
	acquire(p, "u", "t", id);
	ck_assert_uint_ne(fake_box(id).number, number);
	ck_assert_str_eq(fake_box(id).last_reason, "health_check_failed");
	ck_assert_uint_eq(stats_of(p).unhealthy, 1);
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_DESTROYED, "health_check_failed"), 1);
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_CREATED, ""), 2);
	shut(p);
	world_is_clean();
}
END_TEST

/* A warm one that has gone by itself is absent. */
START_TEST(warm_and_gone_is_made_anew)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	release(p, id);
	fake_kill(id);
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_box(id).number, 2);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-168, C-169: exactly "ok", and its exit code */
START_TEST(health_by_command_is_exact)
{
	static const struct {
		const char *output;
		int code;
		bool healthy;
	} cases[] = {
		{"ok\n", 0, true},
		{"  ok \r\n", 0, true},
		{"ok\n", 1, false},
		{"Error: [Errno 32] Broken pipe", 0, false},
		{"lookup failed", 0, false},
		{"not healthy\nok", 0, false},
		{"", 0, false},
	};
	struct holt_provider *p = PROVIDER(fake_process("one"), "health_check: exec");
	char id[ID_SIZE];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		acquire(p, "u", "t", id);
		release(p, id);
		const unsigned number = fake_box(id).number;
		const unsigned calls = fake_calls(FAKE_EXECUTE);
		fake_answer(id, cases[i].output, cases[i].code);
		acquire(p, "u", "t", id);
		ck_assert_uint_ge(fake_calls(FAKE_EXECUTE), calls + 1);
		ck_assert_msg((fake_box(id).number == number) == cases[i].healthy, "case %zu", i);
		release(p, id);
		fake_kill(id);
	}
	ck_assert_uint_eq(fake_calls(FAKE_PROVE), 0);
	/* A failure that is terminal is found inside the acquire's own check: nothing deadlocks. */
	acquire(p, "u", "t", id);
	release(p, id);
	fake_sicken(id);
	acquire(p, "u", "t", id);
	ck_assert_str_eq(fake_box(id).last_reason, "health_check_failed");
	shut(p);
	world_is_clean();
}
END_TEST

struct reclaimer {
	struct holt_provider *p;
	int result;
	pthread_t thread;
};

static void *reclaim_run(void *arg)
{
	struct reclaimer *r = arg;
	char id[ID_SIZE];

	r->result = try_for(r->p, "u", "t", 10000, id, NULL);
	return NULL;
}

/* C-170, C-172 */
START_TEST(skip_window)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "health_check_skip_seconds: 2");
	struct holt_provider *q = PROVIDER(fake_process("two"), "health_check_skip_seconds: 2");
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	release(p, id);
	fake_advance(1999);
	acquire(p, "u", "t", id); /* strictly below the window */
	ck_assert_uint_eq(fake_calls(FAKE_PROVE), 0);
	release(p, id);
	fake_advance(2000);
	acquire(p, "u", "t", id); /* not below it any more */
	ck_assert_uint_eq(fake_calls(FAKE_PROVE), 1);
	release(p, id);
	fake_advance(-1);
	acquire(p, "u", "t", id); /* a clock that was set back tells nothing */
	ck_assert_uint_eq(fake_calls(FAKE_PROVE), 2);
	release(p, id);
	acquire(q, "u", "t", id); /* not released by this provider */
	ck_assert_uint_eq(fake_calls(FAKE_PROVE), 3);
	release(q, id);
	acquire(p, "u", "t", id); /* nor by this one the last time */
	ck_assert_uint_eq(fake_calls(FAKE_PROVE), 4);
	/* Closed by its user: another one, and checked. */
	holt_sandbox *s = provider_get(p, id);
	holt_sandbox_close(s);
	holt_sandbox_free(s);
	release(p, id);
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_calls(FAKE_PROVE), 5);
	s = provider_get(p, id);
	holt_command *c = NULL;
	ck_assert_int_eq(holt_sandbox_execute(s, "x", NULL, &c, NULL), 0);
	holt_command_free(c);
	holt_sandbox_free(s);
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* C-171: while it is proved it is held, and nobody else's; and what was taken away meanwhile is
 * looked for again. */
START_TEST(nobody_else_while_it_is_proved)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "idle_timeout: 10", "replicas: 1");
	struct holt_provider *q = PROVIDER(fake_process("two"), "idle_timeout: 10", "replicas: 1");
	struct reclaimer r = {.p = p};
	char id[ID_SIZE];
	char other[ID_SIZE];

	acquire(q, "u", "t", id);
	release(q, id);
	for (int killed = 0; killed < 2; killed++) {
		fake_gate(FAKE_PROVE, true);
		ck_assert_int_eq(pthread_create(&r.thread, NULL, reclaim_run, &r), 0);
		fake_wait_for(FAKE_PROVE, 1);
		fake_advance(20000);
		reaper_pass(q);
		acquire(q, "u", killed ? "x" : "y", other);
		ck_assert_int_eq(try_for(q, "u", "t", 50, other, NULL), -HOLT_EBUSY);
		ck_assert(fake_box(id).there && fake_box(id).number == 1);
		if (killed)
			fake_kill(id);
		fake_gate(FAKE_PROVE, false);
		ck_assert_int_eq(pthread_join(r.thread, NULL), 0);
		ck_assert_int_eq(r.result, 0);
		ck_assert(is_active(p, id));
		ck_assert_int_eq(fake_box(id).number == 1, !killed);
		release(p, id);
	}
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* The caller's time is over before the guest's: that says nothing about the box. */
START_TEST(short_deadline_is_no_verdict)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	release(p, id);
	fake_hang(id, true);
	ck_assert_int_eq(try_for(p, "u", "t", 300, id, NULL), -HOLT_ETIMEOUT);
	ck_assert_int_eq(fake_box(id).state, HOLT_POOL_WARM);
	fake_hang(id, false);
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_box(id).number, 1);
	shut(p);
	world_is_clean();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("provider_health");
	TCase *t = tcase_create("health");

	tcase_add_checked_fixture(t, before, NULL);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, warm_and_unhealthy_is_made_anew);
	tcase_add_test(t, warm_and_gone_is_made_anew);
	tcase_add_test(t, health_by_command_is_exact);
	tcase_add_test(t, skip_window);
	tcase_add_test(t, nobody_else_while_it_is_proved);
	tcase_add_test(t, short_deadline_is_no_verdict);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
