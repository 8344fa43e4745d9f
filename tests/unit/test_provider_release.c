/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways out of the active map: release, a sandbox that is found to be dead, reset, shutdown, and
 * the end of a provider.
 */
#include "provider_fixture.h"

static void before(void)
{
	fake_reset();
}

/* One call of a sandbox: 0, or its code. */
static int use(holt_sandbox *s)
{
	holt_command *c = NULL;
	const int r = holt_sandbox_execute(s, "x", NULL, &c, NULL);

	holt_command_free(c);
	return r;
}

/* C-164, C-155: unknown ids and second releases are fine */
START_TEST(release_parks)
{
	struct event_log log = EVENT_LOG;
	struct holt_provider *p = PROVIDER_TOLD(fake_process("one"), &log);
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	fake_advance(5000);
	release(p, id);
	ck_assert_int_eq(fake_box(id).state, HOLT_POOL_WARM);
	ck_assert_int_eq(fake_box(id).since_ms, fake_now_ms());
	release(p, id);
	release(p, "0123456789abcdef");
	release(p, "nobody");
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_RELEASED, ""), 1);
	ck_assert_uint_eq(stats_of(p).released, 1);
	shut(p);
	world_is_clean();
}
END_TEST

/* A box that has died by itself is forgotten. */
START_TEST(release_of_a_dead_one)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	fake_kill(id);
	release(p, id);
	ck_assert(!is_active(p, id));
	acquire(p, "u", "t", id);
	/* Where parking fails otherwise, letting go does it. */
	fake_fail(FAKE_PARK, HOLT_EIO, 1);
	release(p, id);
	ck_assert_int_eq(fake_box(id).state, HOLT_POOL_WARM);
	ck_assert_uint_eq(fake_handles(), 0);
	shut(p);
	world_is_clean();
}
END_TEST

struct call {
	struct holt_provider *p;
	const char *id;
	pthread_t pthread;
	int result;
	atomic_int over;
};

static void *release_run(void *arg)
{
	struct call *c = arg;

	c->result = provider_release(c->p, c->id, NULL);
	atomic_store(&c->over, 1);
	return NULL;
}

static void *acquire_run(void *arg)
{
	struct call *c = arg;
	char id[ID_SIZE];

	c->result = try_for(c->p, "u", "t", 10000, id, NULL);
	atomic_store(&c->over, 1);
	return NULL;
}

static void *shutdown_run(void *arg)
{
	struct call *c = arg;

	c->result = provider_shutdown(c->p, NULL);
	atomic_store(&c->over, 1);
	return NULL;
}

static void begin(struct call *c, void *(*run)(void *))
{
	atomic_store(&c->over, 0);
	ck_assert_int_eq(pthread_create(&c->pthread, NULL, run, c), 0);
}

static int finish(struct call *c)
{
	ck_assert_int_eq(pthread_join(c->pthread, NULL), 0);
	return c->result;
}

static bool is_shut(struct holt_provider *p)
{
	(void)pthread_mutex_lock(&p->lock);
	const bool shut_ = p->shut;
	(void)pthread_mutex_unlock(&p->lock);
	return shut_;
}

/* C-166, C-288: a release waits for an acquire of its id, and an acquire for a release */
START_TEST(release_has_the_ids_hold)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	release(p, id);
	fake_gate(FAKE_PROVE, true);
	struct call a = {.p = p};
	struct call r = {.p = p, .id = id};
	begin(&a, acquire_run);
	fake_wait_for(FAKE_PROVE, 1);
	begin(&r, release_run);
	nap_ms(30);
	ck_assert_int_eq(atomic_load(&r.over), 0);
	fake_gate(FAKE_PROVE, false);
	ck_assert_int_eq(finish(&a), 0);
	ck_assert_int_eq(finish(&r), 0);
	ck_assert(!is_active(p, id));
	/* An acquire that comes while it is parked gets it as a warm one. */
	acquire(p, "u", "t", id);
	fake_gate(FAKE_PARK, true);
	begin(&r, release_run);
	fake_wait_for(FAKE_PARK, 1);
	begin(&a, acquire_run);
	nap_ms(30);
	ck_assert_int_eq(atomic_load(&a.over), 0);
	ck_assert(!is_active(p, id));
	fake_gate(FAKE_PARK, false);
	ck_assert_int_eq(finish(&r), 0);
	ck_assert_int_eq(finish(&a), 0);
	ck_assert(is_active(p, id));
	ck_assert_uint_eq(fake_box(id).number, 1);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-173, C-182: not to be got any more at once; the next acquire makes another under the same id */
START_TEST(dead_sandbox_is_invalidated)
{
	struct event_log log = EVENT_LOG;
	struct holt_provider *p = PROVIDER_TOLD(fake_process("one"), &log);
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	holt_sandbox *s = provider_get(p, id);
	fake_gate(FAKE_DESTROY, true);
	fake_sicken(id);
	ck_assert_int_eq(use(s), -HOLT_EGUEST_LOST);
	ck_assert_ptr_null(provider_get(p, id));
	ck_assert_int_eq(use(s), -HOLT_ECLOSED);
	/* C-183: destroyed with the id's hold, so that the next one comes behind it. */
	fake_wait_for(FAKE_DESTROY, 1);
	struct call a = {.p = p};
	begin(&a, acquire_run);
	nap_ms(30);
	ck_assert_uint_eq(fake_calls(FAKE_CREATE), 1);
	fake_gate(FAKE_DESTROY, false);
	ck_assert_int_eq(finish(&a), 0);
	ck_assert_uint_eq(fake_box(id).number, 2);
	ck_assert_str_eq(fake_box(id).last_reason, "invalidated");
	UNTIL(events_of(&log, HOLT_PROVIDER_DESTROYED, "invalidated") == 1);
	ck_assert_uint_eq(stats_of(p).invalidated, 1);
	holt_sandbox_free(s);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-182: what could not be destroyed is, by whoever meets it next */
START_TEST(dead_sandbox_that_stays)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	holt_sandbox *s = provider_get(p, id);
	fake_fail(FAKE_DESTROY, HOLT_EIO, 1);
	fake_sicken(id);
	fake_hang(id, true);
	ck_assert_int_eq(use(s), -HOLT_EGUEST_LOST);
	UNTIL(fake_calls(FAKE_DESTROY) == 1);
	holt_sandbox_free(s);
	ck_assert(fake_box(id).there);
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_box(id).number, 2);
	ck_assert_str_eq(fake_box(id).last_reason, "health_check_failed");
	shut(p);
	world_is_clean();
}
END_TEST

/* C-174, C-288: by instance, not by id */
START_TEST(old_sandbox_does_not_touch_the_new_one)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	holt_sandbox *old = provider_get(p, id);
	release(p, id);
	fake_hang(id, true); /* the health check fails: another box */
	fake_image("image-2");
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_box(id).number, 2);
	ck_assert_int_lt(use(old), 0);
	ck_assert(is_active(p, id));
	holt_sandbox *s = provider_get(p, id);
	ck_assert_int_eq(use(s), 0);
	holt_sandbox_free(s);
	holt_sandbox_free(old);
	nap_ms(20);
	ck_assert_uint_eq(fake_box(id).number, 2);
	shut(p);
	world_is_clean();
}
END_TEST

/* One that was not closed, because another process has replaced the box. */
START_TEST(old_sandbox_after_another_process_made_a_new_one)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_provider *q = PROVIDER(fake_process("two"), "memory_mib: 256");
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	holt_sandbox *old = provider_get(p, id);
	release(p, id);
	acquire(q, "u", "t", id);
	ck_assert_int_eq(use(old), -HOLT_EGUEST_LOST);
	nap_ms(20);
	ck_assert(is_active(q, id));
	ck_assert_uint_eq(fake_box(id).number, 2);
	holt_sandbox_free(old);
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* C-174: of the same provider, whose box was replaced meanwhile: neither what is active under the
 * id now, nor what is parked under it, goes for the failure of what was there before. */
START_TEST(old_sandbox_after_a_new_one_of_its_own_provider)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_provider *q = PROVIDER(fake_process("two"), "memory_mib: 256");
	char id[ID_SIZE];

	for (int parked = 0; parked < 2; parked++) {
		acquire(p, "u", "t", id);
		holt_sandbox *old = provider_get(p, id);
		release(p, id);
		acquire(q, "u", "t", id);
		release(q, id);
		acquire(p, "u", "t", id);
		const unsigned number = fake_box(id).number;
		if (parked)
			release(p, id);
		ck_assert_int_eq(use(old), -HOLT_EGUEST_LOST);
		nap_ms(20);
		ck_assert_int_eq(is_active(p, id), !parked);
		ck_assert(fake_box(id).there && fake_box(id).number == number);
		holt_sandbox_free(old);
		release(p, id);
	}
	ck_assert_uint_eq(stats_of(p).invalidated, 0);
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* A failure of one that is parked takes the warm box along, unless another process has it by now.
 */
START_TEST(dead_while_parked)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_provider *q = PROVIDER(fake_process("two"));
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	holt_sandbox *s = provider_get(p, id);
	release(p, id);
	fake_sicken(id);
	ck_assert_int_eq(use(s), -HOLT_EGUEST_LOST);
	UNTIL(!fake_box(id).there);
	holt_sandbox_free(s);

	acquire(p, "u", "t2", id);
	s = provider_get(p, id);
	release(p, id);
	acquire(q, "u", "t2", id);
	fake_sicken(id);
	ck_assert_int_eq(use(s), -HOLT_EGUEST_LOST);
	nap_ms(30);
	ck_assert(fake_box(id).there);
	holt_sandbox_free(s);
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* C-188: a time-out says nothing about the sandbox */
START_TEST(slow_is_not_dead)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	holt_sandbox *s = provider_get(p, id);
	fake_hang(id, true);
	(void)use(s);
	ck_assert(is_active(p, id));
	holt_sandbox_free(s);
	shut(p);
}
END_TEST

/* C-178 */
START_TEST(reset_parks_what_is_active)
{
	struct event_log log = EVENT_LOG;
	struct holt_provider *p = PROVIDER_TOLD(
		fake_process("one"), &log, "health_check_skip_seconds: 60");
	struct holt_provider *q = PROVIDER(fake_process("two"), "health_check_skip_seconds: 60");
	char id[ID_SIZE];
	char other[ID_SIZE];

	acquire(p, "u", "t3", id);
	release(p, id);
	acquire(p, "u", "t", id);
	acquire(p, "u", "t2", other);
	holt_sandbox *s = provider_get(p, id);
	provider_reset(p);
	ck_assert(!is_active(p, id) && !is_active(p, other));
	/* Nobody comes back for what was warm before, either. */
	ck_assert_uint_eq(fake_handles(), 0);
	ck_assert_int_eq(fake_box(id).state, HOLT_POOL_WARM);
	ck_assert_int_eq(fake_box(other).state, HOLT_POOL_WARM);
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_RELEASED, ""), 3);
	/* What was got can still be used, a release is fine, and there are no more acquires. */
	ck_assert_int_eq(use(s), 0);
	release(p, id);
	ck_assert_int_eq(try_for(p, "u", "t", 500, id, NULL), -HOLT_ECLOSED);
	provider_reset(p);
	/* Not exempt from the health check. */
	acquire(q, "u", "t", id);
	ck_assert_uint_eq(fake_calls(FAKE_PROVE), 1);
	holt_sandbox_free(s);
	/* A later shutdown ends what was released here last. */
	ck_assert_int_eq(provider_shutdown(p, NULL), 0);
	ck_assert(!fake_box(other).there);
	ck_assert(is_active(q, id));
	provider_free(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* C-179, C-176, C-289 */
START_TEST(shutdown_ends_ours_and_nobody_elses)
{
	struct event_log log = EVENT_LOG;
	struct holt_provider *p = PROVIDER_TOLD(fake_process("one"), &log, "replicas: 10");
	struct holt_provider *q = PROVIDER(fake_process("two"), "replicas: 10");
	char ids[6][ID_SIZE];

	acquire(p, "u", "active", ids[0]);
	acquire(p, "u", "warm", ids[1]);
	release(p, ids[1]);
	acquire(q, "u", "its active", ids[2]);
	acquire(q, "u", "its warm", ids[3]);
	release(q, ids[3]);
	/* Of p, then of q. */
	acquire(p, "u", "handed on", ids[4]);
	release(p, ids[4]);
	acquire(q, "u", "handed on", ids[4]);
	release(q, ids[4]);
	acquire(p, "u", NULL, ids[5]);
	holt_sandbox *s = provider_get(p, ids[0]);
	ck_assert_int_eq(provider_shutdown(p, NULL), 0);
	ck_assert_int_eq(provider_shutdown(p, NULL), 0);
	ck_assert(!fake_box(ids[0]).there && !fake_box(ids[1]).there && !fake_box(ids[5]).there);
	ck_assert(fake_box(ids[2]).there && fake_box(ids[3]).there && fake_box(ids[4]).there);
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_DESTROYED, "shutdown"), 3);
	ck_assert_int_eq(use(s), -HOLT_ECLOSED);
	holt_sandbox_free(s);
	ck_assert_ptr_null(provider_get(p, ids[0]));
	ck_assert_int_eq(try_for(p, "u", "t", 500, ids[0], NULL), -HOLT_ECLOSED);
	release(p, ids[0]);
	provider_free(p);
	shut(q);
	ck_assert_uint_eq(fake_boxes(), 0);
	world_is_clean();
}
END_TEST

START_TEST(shutdown_keep_parks)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "on_shutdown: keep");
	char id[ID_SIZE];
	char warm[ID_SIZE];

	acquire(p, "u", "t", id);
	acquire(p, "u", "t2", warm);
	release(p, warm);
	shut(p);
	ck_assert_int_eq(fake_box(id).state, HOLT_POOL_WARM);
	ck_assert_int_eq(fake_box(warm).state, HOLT_POOL_WARM);
	/* C-175: whoever comes next finds them, after a proof. */
	p = PROVIDER(fake_process("two"));
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_box(id).number, 1);
	ck_assert_uint_eq(fake_calls(FAKE_PROVE), 1);
	shut(p);
	fake_reset();
	world_is_clean();
}
END_TEST

/* A warm one that is just being acquired stays, too, and is whoever's comes next. */
START_TEST(shutdown_keep_during_a_reclaim)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "on_shutdown: keep");
	struct call a = {.p = p};
	struct call s = {.p = p};
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	release(p, id);
	fake_gate(FAKE_PROVE, true);
	begin(&a, acquire_run);
	fake_wait_for(FAKE_PROVE, 1);
	begin(&s, shutdown_run);
	UNTIL(is_shut(p));
	fake_gate(FAKE_PROVE, false);
	ck_assert_int_eq(finish(&a), -HOLT_ECLOSED);
	ck_assert_int_eq(finish(&s), 0);
	provider_free(p);
	p = PROVIDER(fake_process("two"));
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_box(id).number, 1);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-181, C-237: what is being made at that moment is not leaked, and its acquire is refused */
START_TEST(shutdown_during_a_create)
{
	static const enum fake_op at[] = {
		FAKE_FINGERPRINT, FAKE_LOCK, FAKE_CREATE, FAKE_START, FAKE_OPEN};

	for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
		struct holt_provider *p = PROVIDER(fake_process("one"));
		struct call a = {.p = p};
		struct call s = {.p = p};

		fake_gate(at[i], true);
		begin(&a, acquire_run);
		fake_wait_for(at[i], 1);
		begin(&s, shutdown_run);
		UNTIL(is_shut(p));
		ck_assert_int_eq(atomic_load(&s.over), 0);
		fake_gate(at[i], false);
		ck_assert_int_eq(finish(&a), -HOLT_ECLOSED);
		ck_assert_int_eq(finish(&s), 0);
		ck_assert_uint_eq(fake_boxes(), 0);
		provider_free(p);
	}
	world_is_clean();
}
END_TEST

/* C-176, C-289: a warm one of ours that another process takes at that moment is his. */
START_TEST(shutdown_meets_another_process)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_provider *q = PROVIDER(fake_process("two"));
	struct call s = {.p = p};
	char id[ID_SIZE];

	acquire(q, "u", "t", id);
	release(q, id);
	acquire(p, "u", "t", id);
	release(p, id);
	fake_gate(FAKE_FIND, true);
	begin(&s, shutdown_run);
	fake_wait_for(FAKE_FIND, 1);
	acquire(q, "u", "t", id); /* by its own handle */
	fake_gate(FAKE_FIND, false);
	ck_assert_int_eq(finish(&s), 0);
	ck_assert(fake_box(id).there && is_active(q, id));
	provider_free(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* Who waits for another process is woken. */
START_TEST(shutdown_while_one_waits)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_provider *q = PROVIDER(fake_process("two"));
	struct call a = {.p = q};
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	begin(&a, acquire_run);
	UNTIL(fake_calls(FAKE_HOLD) == 1);
	const uint64_t begun_ms = clock_mono_ms();
	ck_assert_int_eq(provider_shutdown(q, NULL), 0);
	ck_assert_uint_le(clock_mono_ms() - begun_ms, 3000);
	ck_assert_int_eq(finish(&a), -HOLT_ECLOSED);
	ck_assert(is_active(p, id));
	provider_free(q);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-165: a release that meets a shutdown ends the box, or parks it where that is wanted */
static void release_during_shutdown_with(bool keep)
{
	struct holt_provider *p = PROVIDER(
		fake_process("one"), keep ? "on_shutdown: keep" : "on_shutdown: destroy");
	struct call a = {.p = p};
	struct call s = {.p = p};
	char other[ID_SIZE];
	char id[ID_SIZE];

	acquire(p, "u", "other", other);
	fake_gate(FAKE_START, true);
	begin(&a, acquire_run);
	fake_wait_for(FAKE_START, 1);
	begin(&s, shutdown_run);
	UNTIL(is_shut(p));
	ck_assert_int_eq(try_for(p, "v", "x", 100, id, NULL), -HOLT_ECLOSED);
	release(p, other);
	if (keep)
		ck_assert_int_eq(fake_box(other).state, HOLT_POOL_WARM);
	else
		ck_assert_str_eq(fake_box(other).last_reason, "shutdown");
	ck_assert_int_eq(atomic_load(&s.over), 0);
	fake_gate(FAKE_START, false);
	ck_assert_int_eq(finish(&a), -HOLT_ECLOSED);
	ck_assert_int_eq(finish(&s), 0);
	provider_free(p);
	ck_assert_int_eq(fake_box(other).there, keep);
	fake_kill(other);
	world_is_clean();
}

START_TEST(release_during_shutdown)
{
	release_during_shutdown_with(false);
	release_during_shutdown_with(true);
}
END_TEST

/* The end of a provider is that of its process: all becomes warm. */
START_TEST(free_parks)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	holt_sandbox *s = provider_get(p, id);
	provider_free(p);
	ck_assert_int_eq(fake_box(id).state, HOLT_POOL_WARM);
	/* A sandbox outlives its provider, and tells nobody then. */
	ck_assert_int_eq(use(s), 0);
	fake_sicken(id);
	ck_assert_int_eq(use(s), -HOLT_EGUEST_LOST);
	holt_sandbox_free(s);
	world_is_clean();
}
END_TEST

/* C-155, C-202: memory only */
START_TEST(get_asks_nobody)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	const unsigned calls = fake_all_calls();
	for (int i = 0; i < 100; i++) {
		holt_sandbox *s = provider_get(p, id);

		ck_assert_ptr_nonnull(s);
		ck_assert_str_eq(holt_sandbox_id(s), id);
		holt_sandbox_free(s);
		ck_assert_ptr_null(provider_get(p, "0123456789abcdef"));
	}
	ck_assert_uint_eq(fake_all_calls(), calls);
	shut(p);
}
END_TEST

/* Handles are kept of so many warm ones only; the others are found by name. */
START_TEST(handles_are_bounded)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "replicas: 1000");
	char id[ID_SIZE];
	char thread[16];

	for (int i = 0; i < 100; i++) {
		(void)snprintf(thread, sizeof thread, "t%d", i);
		acquire(p, "u", thread, id);
		release(p, id);
	}
	ck_assert_uint_eq(fake_handles(), PARKED_MAX);
	acquire(p, "u", "t0", id);
	acquire(p, "u", "t99", id);
	ck_assert_uint_eq(fake_calls(FAKE_CREATE), 100);
	shut(p);
	ck_assert_uint_eq(fake_boxes(), 0);
	world_is_clean();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("provider_release");
	TCase *t = tcase_create("release");

	tcase_add_checked_fixture(t, before, NULL);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, release_parks);
	tcase_add_test(t, release_of_a_dead_one);
	tcase_add_test(t, release_has_the_ids_hold);
	tcase_add_test(t, dead_sandbox_is_invalidated);
	tcase_add_test(t, dead_sandbox_that_stays);
	tcase_add_test(t, old_sandbox_does_not_touch_the_new_one);
	tcase_add_test(t, old_sandbox_after_another_process_made_a_new_one);
	tcase_add_test(t, old_sandbox_after_a_new_one_of_its_own_provider);
	tcase_add_test(t, dead_while_parked);
	tcase_add_test(t, slow_is_not_dead);
	tcase_add_test(t, reset_parks_what_is_active);
	tcase_add_test(t, shutdown_ends_ours_and_nobody_elses);
	tcase_add_test(t, shutdown_keep_parks);
	tcase_add_test(t, shutdown_keep_during_a_reclaim);
	tcase_add_test(t, shutdown_during_a_create);
	tcase_add_test(t, shutdown_meets_another_process);
	tcase_add_test(t, shutdown_while_one_waits);
	tcase_add_test(t, release_during_shutdown);
	tcase_add_test(t, free_parks);
	tcase_add_test(t, get_asks_nobody);
	tcase_add_test(t, handles_are_bounded);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
