/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many sandboxes there may be, and for how long they wait: replicas, eviction, the reaper.
 */
#include "provider_fixture.h"

static void before(void)
{
	fake_reset();
}

/* C-148, C-149 */
START_TEST(defaults)
{
	struct provider_config c;

	ck_assert_int_eq(provider_config_copy(NULL, &c, NULL), 0);
	ck_assert_uint_eq(c.replicas, 3);
	ck_assert_uint_eq(c.idle_ms, 600000);
	ck_assert_uint_eq(REAPER_INTERVAL_MS, 60000);
	ck_assert_uint_eq(REAPER_STOP_MS, 5000);
	provider_config_done(&c);
}
END_TEST

/* One for which nothing answers has to go as well, or it would be tried each time. */
START_TEST(hung_is_evicted)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "replicas: 1");
	char a[ID_SIZE];
	char b[ID_SIZE];

	acquire(p, "u", "a", a);
	release(p, a);
	fake_fail(FAKE_HOLD, HOLT_ETIMEOUT, 1);
	acquire(p, "u", "b", b);
	ck_assert(!fake_box(a).there && fake_box(b).there);
	ck_assert_uint_eq(stats_of(p).evicted, 1);
	ck_assert_uint_eq(stats_of(p).overshot, 0);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-150, C-154: the one that has waited for the longest time has to go */
START_TEST(oldest_warm_is_evicted)
{
	struct event_log log = EVENT_LOG;
	struct holt_provider *p = PROVIDER_TOLD(fake_process("one"), &log, "replicas: 2");
	char a[ID_SIZE];
	char b[ID_SIZE];
	char c[ID_SIZE];

	acquire(p, "u", "a", a);
	acquire(p, "u", "b", b);
	fake_advance(1000);
	release(p, b);
	fake_advance(1000);
	release(p, a);
	acquire(p, "u", "c", c);
	ck_assert(!fake_box(b).there && fake_box(a).there && fake_box(c).there);
	ck_assert_str_eq(fake_box(b).last_reason, "replica_enforcement");
	ck_assert_uint_eq(stats_of(p).evicted, 1);
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_DESTROYED, "replica_enforcement"), 1);
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_OVERSHOT, ""), 0);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-154: active ones never go: one too many is made, and told */
START_TEST(active_is_never_evicted)
{
	struct event_log log = EVENT_LOG;
	struct holt_provider *p = PROVIDER_TOLD(fake_process("one"), &log, "replicas: 2");
	struct holt_provider *q = PROVIDER(fake_process("two"), "replicas: 2");
	char a[ID_SIZE];
	char b[ID_SIZE];
	char c[ID_SIZE];

	acquire(p, "u", "a", a);
	acquire(q, "u", "b", b);
	acquire(p, "u", "c", c);
	ck_assert(is_active(p, a) && is_active(q, b) && is_active(p, c));
	ck_assert_uint_eq(fake_destroyed(), 0);
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_OVERSHOT, ""), 1);
	const holt_provider_stats s = stats_of(p);
	ck_assert_uint_eq(s.overshot, 1);
	ck_assert_uint_eq(s.active, 3);
	ck_assert_uint_eq(s.active_here, 2);
	ck_assert_uint_eq(s.replicas, 2);
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* C-154: what has a lease is active, although no process has it: it is never the one to go. */
START_TEST(leased_is_never_evicted)
{
	struct event_log log = EVENT_LOG;
	struct holt_provider *p = PROVIDER_TOLD(fake_process("one"), &log, "replicas: 1");
	const struct scope_key key = key_of("u", "a");
	const struct acquire_wish w = {.key = &key, .timeout_ms = 500, .lease_ms = 60000};
	char a[ID_SIZE];
	char b[ID_SIZE];

	ck_assert_int_eq(provider_acquire(p, &w, a, NULL), 0);
	release(p, a);
	ck_assert(!fake_box(a).held);
	acquire(p, "u", "b", b);
	ck_assert(fake_box(a).there);
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_OVERSHOT, ""), 1);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-154: one for each that is made, also where there are many too many; C-176: whoever's they are
 */
START_TEST(one_is_evicted_for_each)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "replicas: 10");
	struct holt_provider *q = PROVIDER(fake_process("two"), "replicas: 1");
	char id[ID_SIZE];
	char thread[8];

	for (int i = 0; i < 4; i++) {
		(void)snprintf(thread, sizeof thread, "t%d", i);
		acquire(p, "u", thread, id);
		release(p, id);
	}
	acquire(q, "u", "x", id);
	ck_assert_uint_eq(fake_destroyed(), 1);
	acquire(q, "u", "y", id);
	ck_assert_uint_eq(fake_destroyed(), 2);
	/* Its handle in the other provider is no obstacle: the thread gets another box. */
	acquire(p, "u", "t0", id);
	ck_assert_uint_eq(fake_calls(FAKE_CREATE), 7);
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

struct maker {
	struct holt_provider *p;
	char thread[16];
	int result;
	pthread_t pthread;
};

static void *maker_run(void *arg)
{
	struct maker *m = arg;
	char id[ID_SIZE];

	m->result = try_for(m->p, "u", m->thread, 10000, id, NULL);
	return NULL;
}

/* C-287: what is being made is counted, so two at the same time evict two */
START_TEST(makers_count_each_other)
{
	struct event_log log = EVENT_LOG;
	struct holt_provider *p = PROVIDER_TOLD(fake_process("one"), &log, "replicas: 4");
	struct holt_provider *q = PROVIDER_TOLD(fake_process("two"), &log, "replicas: 4");
	struct maker m[4];
	char id[ID_SIZE];

	for (int i = 0; i < 4; i++) {
		char thread[8];

		(void)snprintf(thread, sizeof thread, "w%d", i);
		acquire(p, "u", thread, id);
		release(p, id);
	}
	fake_gate(FAKE_START, true);
	for (int i = 0; i < 4; i++) {
		m[i] = (struct maker){.p = i % 2 ? p : q};
		(void)snprintf(m[i].thread, sizeof m[i].thread, "t%d", i);
		ck_assert_int_eq(pthread_create(&m[i].pthread, NULL, maker_run, &m[i]), 0);
	}
	fake_wait_for(FAKE_START, 4);
	ck_assert_uint_eq(fake_boxes(), 4);
	ck_assert_uint_eq(stats_of(p).making, 4);
	fake_gate(FAKE_START, false);
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(pthread_join(m[i].pthread, NULL), 0);
		ck_assert_int_eq(m[i].result, 0);
	}
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_OVERSHOT, ""), 0);
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* One that is just being acquired is not the victim. */
START_TEST(victim_that_somebody_takes_is_left)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "replicas: 2");
	struct maker m = {.p = p, .thread = "a"};
	char a[ID_SIZE];
	char b[ID_SIZE];
	char c[ID_SIZE];

	acquire(p, "u", "a", a);
	release(p, a);
	fake_advance(1000);
	acquire(p, "u", "b", b);
	release(p, b);
	fake_gate(FAKE_HOLD, true);
	ck_assert_int_eq(pthread_create(&m.pthread, NULL, maker_run, &m), 0);
	fake_wait_for(FAKE_HOLD, 1);
	struct maker n = {.p = p, .thread = "c"};
	ck_assert_int_eq(pthread_create(&n.pthread, NULL, maker_run, &n), 0);
	fake_wait_for(FAKE_HOLD, 2);
	fake_gate(FAKE_HOLD, false);
	ck_assert_int_eq(pthread_join(m.pthread, NULL), 0);
	ck_assert_int_eq(pthread_join(n.pthread, NULL), 0);
	ck_assert(is_active(p, a) && !fake_box(b).there);
	acquire(p, "u", "c", c);
	ck_assert(is_active(p, c));
	shut(p);
	world_is_clean();
}
END_TEST

/* C-183: what has to go is destroyed with its id's hold; its own thread comes behind that. */
START_TEST(victim_is_destroyed_with_its_ids_hold)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "replicas: 1");
	struct maker b = {.p = p, .thread = "b"};
	struct maker a = {.p = p, .thread = "a"};
	char id[ID_SIZE];

	acquire(p, "u", "a", id);
	release(p, id);
	fake_gate(FAKE_DESTROY, true);
	ck_assert_int_eq(pthread_create(&b.pthread, NULL, maker_run, &b), 0);
	fake_wait_for(FAKE_DESTROY, 1);
	const unsigned looks = fake_calls(FAKE_LOOK);
	ck_assert_int_eq(pthread_create(&a.pthread, NULL, maker_run, &a), 0);
	nap_ms(30);
	ck_assert_uint_eq(fake_calls(FAKE_LOOK), looks);
	fake_gate(FAKE_DESTROY, false);
	ck_assert_int_eq(pthread_join(a.pthread, NULL), 0);
	ck_assert_int_eq(pthread_join(b.pthread, NULL), 0);
	ck_assert(a.result == 0 && b.result == 0 && is_active(p, id));
	shut(p);
	world_is_clean();
}
END_TEST

/* A destruction that fails is no reason to make nothing, and is not told as one. */
START_TEST(eviction_that_fails)
{
	struct event_log log = EVENT_LOG;
	struct holt_provider *p = PROVIDER_TOLD(fake_process("one"), &log, "replicas: 1");
	char a[ID_SIZE];
	char b[ID_SIZE];

	acquire(p, "u", "a", a);
	release(p, a);
	fake_fail(FAKE_DESTROY, HOLT_EIO, 1);
	acquire(p, "u", "b", b);
	ck_assert(fake_box(a).there && is_active(p, b));
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_DESTROYED, "replica_enforcement"), 0);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-151, C-185: strictly longer; never an active one; files are gone with it */
START_TEST(reaper_ends_what_waited_too_long)
{
	struct event_log log = EVENT_LOG;
	struct holt_provider *p = PROVIDER_TOLD(fake_process("one"), &log, "idle_timeout: 10");
	char id[ID_SIZE];
	char other[ID_SIZE];

	acquire(p, "u", "t", id);
	acquire(p, "u", "active", other);
	release(p, id);
	fake_advance(10000);
	reaper_pass(p);
	ck_assert(fake_box(id).there);
	fake_advance(1);
	reaper_pass(p);
	ck_assert(!fake_box(id).there && is_active(p, other));
	ck_assert_str_eq(fake_box(id).last_reason, "idle_timeout");
	/* It was held before. */
	ck_assert_uint_eq(fake_calls(FAKE_HOLD), 1);
	ck_assert_uint_eq(stats_of(p).expired, 1);
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_DESTROYED, "idle_timeout"), 1);
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_box(id).number, 3);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-178: what a reset has parked is reaped later */
START_TEST(reaper_goes_on_after_a_reset)
{
	struct holt_provider *p = provider_with(
		fake_process("one"), NULL, 10, (const char *const[]){"idle_timeout: 10", NULL});
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	provider_reset(p);
	fake_advance(10001);
	UNTIL(!fake_box(id).there);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-152, C-156, C-157: one interval after the start, errors do not end it; C-184's "reaper" */
START_TEST(reaper_thread)
{
	struct holt_provider *p = provider_with(
		fake_process("one"), NULL, 100, (const char *const[]){"idle_timeout: 10", NULL});
	char id[ID_SIZE];

	ck_assert(p->reaper.started);
	const unsigned lists = fake_calls(FAKE_LIST);
	nap_ms(30);
	ck_assert_uint_eq(fake_calls(FAKE_LIST), lists);
	acquire(p, "u", "t", id);
	release(p, id);
	fake_fail(FAKE_LIST, HOLT_EIO, 1);
	fake_advance(20000);
	UNTIL(!fake_box(id).there);
	/* C-153 */
	shut(p);
	world_is_clean();
}
END_TEST

/* C-152, C-157: no time-out and nothing stopped: no thread */
START_TEST(no_reaper_without_a_timeout)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "idle_timeout: 0");
	char id[ID_SIZE];

	ck_assert(!p->reaper.started);
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_box(id).idle_ms, HOLT_FOREVER);
	release(p, id);
	fake_advance(INT64_C(1) << 40);
	reaper_pass(p);
	ck_assert(fake_box(id).there);
	shut(p);
	p = PROVIDER(fake_process("one"), "idle_timeout: -5");
	ck_assert(!p->reaper.started);
	shut(p);
	/* Disks can be too old all the same. */
	p = PROVIDER(fake_process("one"), "idle_timeout: 0", "on_idle: stop", "keep_disk_for: 1h");
	ck_assert(p->reaper.started);
	shut(p);
	world_is_clean();
}
END_TEST

/* The disk of what was stopped stays for so long. */
START_TEST(reaper_ends_old_disks)
{
	struct holt_provider *p = PROVIDER(
		fake_process("one"), "on_idle: stop", "keep_disk_for: 1h");
	struct holt_provider *q = PROVIDER(fake_process("two"));
	char id[ID_SIZE];
	char other[ID_SIZE];

	acquire(p, "u", "t", id);
	release(p, id);
	fake_stop(id);
	fake_advance(3600000);
	reaper_pass(p);
	ck_assert(fake_box(id).there);
	fake_advance(1);
	reaper_pass(p);
	ck_assert(!fake_box(id).there);
	/* Where none is kept, at once. */
	acquire(p, "u", "t2", other);
	release(p, other);
	fake_stop(other);
	reaper_pass(q);
	ck_assert(!fake_box(other).there);
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* What somebody takes at the same moment is his. */
START_TEST(reaper_meets_an_acquire)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "idle_timeout: 10");
	struct maker m = {.p = p, .thread = "t"};
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	release(p, id);
	fake_advance(20000);
	fake_gate(FAKE_HOLD, true);
	ck_assert_int_eq(pthread_create(&m.pthread, NULL, maker_run, &m), 0);
	fake_wait_for(FAKE_HOLD, 1);
	reaper_pass(p); /* does not wait: the id is held */
	fake_gate(FAKE_HOLD, false);
	ck_assert_int_eq(pthread_join(m.pthread, NULL), 0);
	ck_assert(is_active(p, id));
	ck_assert_uint_eq(fake_box(id).number, 1);
	shut(p);
	world_is_clean();
}
END_TEST

static void *pass_run(void *arg)
{
	reaper_pass(arg);
	return NULL;
}

/* What another process had between two looks has waited for a moment only. */
START_TEST(reaper_looks_again)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "idle_timeout: 10");
	struct holt_provider *q = PROVIDER(fake_process("two"), "idle_timeout: 10");
	pthread_t thread;
	char id[ID_SIZE];

	acquire(q, "u", "t", id);
	release(q, id);
	fake_advance(20000);
	fake_gate(FAKE_FIND, true);
	ck_assert_int_eq(pthread_create(&thread, NULL, pass_run, p), 0);
	fake_wait_for(FAKE_FIND, 1);
	acquire(q, "u", "t", id); /* by its own handle */
	release(q, id);
	fake_gate(FAKE_FIND, false);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert(fake_box(id).there && fake_box(id).number == 1);
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* Disks that wait are no replicas: nothing has to go for them. */
START_TEST(stopped_ones_do_not_count)
{
	struct event_log log = EVENT_LOG;
	struct holt_provider *p = PROVIDER_TOLD(
		fake_process("one"), &log, "replicas: 2", "on_idle: stop");
	char a[ID_SIZE];
	char id[ID_SIZE];

	acquire(p, "u", "a", a);
	release(p, a);
	fake_stop(a);
	acquire(p, "u", "b", id);
	release(p, id);
	acquire(p, "u", "c", id);
	ck_assert_uint_eq(fake_destroyed(), 0);
	ck_assert_uint_eq(stats_of(p).warm, 1);
	/* One that is started again does. */
	acquire(p, "u", "a", a);
	ck_assert_uint_eq(fake_box(a).number, 1);
	ck_assert_uint_eq(fake_destroyed(), 1);
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_OVERSHOT, ""), 0);
	shut(p);
	world_is_clean();
}
END_TEST

/* Handles of boxes that are gone are let go. */
START_TEST(reaper_lets_handles_go)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "idle_timeout: 10");
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	release(p, id);
	ck_assert_uint_eq(fake_handles(), 1);
	reaper_pass(p);
	ck_assert_uint_eq(fake_handles(), 1);
	fake_kill(id);
	reaper_pass(p);
	ck_assert_uint_eq(fake_handles(), 0);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-153, C-180: it does not end in time: nothing is shut down, and it may be tried again */
START_TEST(reaper_that_does_not_stop)
{
	struct holt_provider *p = provider_with(
		fake_process("one"), NULL, 20, (const char *const[]){"idle_timeout: 10", NULL});
	holt_error *error = NULL;
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	fake_gate(FAKE_LIST, true);
	fake_wait_for(FAKE_LIST, 1);
	const uint64_t begun_ms = clock_mono_ms();
	ck_assert_int_eq(provider_shutdown(p, &error), -HOLT_ETIMEOUT);
	ck_assert_uint_ge(clock_mono_ms() - begun_ms, 4900);
	ck_assert_uint_le(clock_mono_ms() - begun_ms, 8000);
	holt_error_free(error);
	ck_assert(is_active(p, id));
	acquire(p, "u", "t", id);
	fake_gate(FAKE_LIST, false);
	/* It goes on reaping. */
	const unsigned lists = fake_calls(FAKE_LIST);
	UNTIL(fake_calls(FAKE_LIST) > lists);
	release(p, id);
	fake_advance(20000);
	UNTIL(!fake_box(id).there);
	shut(p);
	ck_assert_uint_eq(fake_boxes(), 0);
	world_is_clean();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("provider_capacity");
	TCase *t = tcase_create("capacity");

	tcase_add_checked_fixture(t, before, NULL);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, defaults);
	tcase_add_test(t, oldest_warm_is_evicted);
	tcase_add_test(t, hung_is_evicted);
	tcase_add_test(t, active_is_never_evicted);
	tcase_add_test(t, leased_is_never_evicted);
	tcase_add_test(t, one_is_evicted_for_each);
	tcase_add_test(t, makers_count_each_other);
	tcase_add_test(t, victim_that_somebody_takes_is_left);
	tcase_add_test(t, victim_is_destroyed_with_its_ids_hold);
	tcase_add_test(t, eviction_that_fails);
	tcase_add_test(t, reaper_ends_what_waited_too_long);
	tcase_add_test(t, reaper_goes_on_after_a_reset);
	tcase_add_test(t, reaper_thread);
	tcase_add_test(t, no_reaper_without_a_timeout);
	tcase_add_test(t, reaper_ends_old_disks);
	tcase_add_test(t, reaper_meets_an_acquire);
	tcase_add_test(t, reaper_looks_again);
	tcase_add_test(t, stopped_ones_do_not_count);
	tcase_add_test(t, reaper_lets_handles_go);
	tcase_add_test(t, reaper_that_does_not_stop);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
