/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an acquire meets, cell by cell: the state of the id's box, and whether user, thread and
 * fingerprint are the same.
 */
/* long: one table, each cell of which is a test */
#include "acquirer_fixture.h"

#define T1  "d17a4c5874ec1bbb" /* no user, "t-1" */
#define ABC "b0ee04f880c4ff42" /* ("a:b", "c") and ("a", "b:c") */

static void before(void)
{
	fake_reset();
}

/* The rows "absent", C-155, C-158, C-159, C-19: made, with its directories, under its name. */
START_TEST(absent_is_made)
{
	struct event_log log = EVENT_LOG;
	struct holt_provider *p = PROVIDER_TOLD(fake_process("one"), &log);
	char id[ID_SIZE];

	ck_assert_str_eq(acquire(p, NULL, "t-1", id), T1);
	const struct fake_facts f = fake_box(T1);
	ck_assert(f.there && f.known && f.held && !f.has_user);
	ck_assert_str_eq(f.thread, "t-1");
	ck_assert_str_eq(f.directories,
		"/mnt/user-data/workspace;/mnt/user-data/uploads;/mnt/user-data/outputs;"
		"/mnt/skills;");
	ck_assert(is_active(p, id));
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_CREATED, ""), 1);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-48 */
START_TEST(environment_of_the_configuration_is_the_sandboxs)
{
	struct holt_provider *p = PROVIDER(
		fake_process("one"), "environment:", "  A: one", "  B: two");
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	ck_assert_str_eq(fake_box(id).env, "A=one;B=two;");
	shut(p);
}
END_TEST

/* warm, same key, same fingerprint: C-155, C-164, C-167, C-172, C-187 */
START_TEST(warm_is_reclaimed_after_a_proof)
{
	struct event_log log = EVENT_LOG;
	struct holt_provider *p = PROVIDER_TOLD(fake_process("one"), &log);
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	holt_sandbox *held = provider_get(p, id);
	release(p, id);
	ck_assert_ptr_null(provider_get(p, id));
	const struct fake_facts warm = fake_box(id);
	ck_assert_int_eq(warm.state, HOLT_POOL_WARM);
	/* What was got before can still be used. */
	holt_command *c = NULL;
	ck_assert_int_eq(holt_sandbox_execute(held, "x", NULL, &c, NULL), 0);
	holt_command_free(c);
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_box(id).number, warm.number);
	ck_assert_uint_eq(fake_calls(FAKE_PROVE), 1);
	holt_sandbox *again = provider_get(p, id);
	ck_assert_ptr_eq(again, held);
	holt_sandbox_free(held);
	holt_sandbox_free(again);
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_RECLAIMED, ""), 1);
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_RELEASED, ""), 1);
	ck_assert_uint_eq(fake_calls(FAKE_START), 1);
	shut(p);
	world_is_clean();
}
END_TEST

/* warm, same key, other fingerprint: C-177 is stricter here */
START_TEST(warm_of_another_configuration_is_replaced)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	release(p, id);
	fake_image("image-2");
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_box(id).number, 2);
	ck_assert_str_eq(fake_box(id).last_reason, "other_fingerprint");
	shut(p);
	world_is_clean();
}
END_TEST

/* warm, other key: C-6, C-17, C-22, C-167, C-171 */
START_TEST(warm_of_another_thread_is_a_collision)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_provider *q = PROVIDER(fake_process("two"));
	holt_error *error = NULL;
	char id[ID_SIZE];

	ck_assert_str_eq(acquire(p, "a:b", "c", id), ABC);
	release(p, id);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(try_for(i ? q : p, "a", "b:c", 500, id, &error), -HOLT_EEXISTS);
		ck_assert_ptr_nonnull(strstr(
			holt_error_message(error), "sandbox id collision for 'b0ee04f880c4ff42'"));
		ck_assert_ptr_nonnull(strstr(holt_error_message(error), "'a:b'"));
		ck_assert_ptr_nonnull(strstr(holt_error_message(error), "'b:c'"));
		holt_error_free(error);
		error = NULL;
		ck_assert_uint_eq(stats_of(i ? q : p).collisions, 1);
	}
	const struct fake_facts f = fake_box(ABC);
	ck_assert(f.there && f.number == 1 && f.state == HOLT_POOL_WARM);
	ck_assert_uint_eq(fake_destroyed(), 0);
	acquire(p, "a:b", "c", id);
	ck_assert_uint_eq(fake_box(ABC).number, 1);
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* C-6, C-22, C-286: all of the stored scope is compared, and none is not the empty one */
START_TEST(each_part_of_a_stored_scope_counts)
{
	static const struct {
		const char *user;
		const char *thread;
	} stored[] = {{NULL, "t-2"}, {NULL, ""}, {NULL, NULL}, {"", "t-1"}, {"None", "t-1"}};
	static const int states[] = {HOLT_POOL_WARM, HOLT_POOL_STOPPED};

	for (size_t i = 0; i < 2 * sizeof stored / sizeof *stored; i++) {
		const char *user = stored[i / 2].user;
		const char *thread = stored[i / 2].thread;
		char id[ID_SIZE];

		fake_reset();
		fake_foreign("holt-default-" T1, user, thread, FOREIGN, states[i % 2]);
		struct holt_provider *p = PROVIDER(fake_process("one"), "on_idle: stop");
		ck_assert_msg(try_for(p, NULL, "t-1", 500, id, NULL) == -HOLT_EEXISTS, "%s, %s",
			user, thread);
		ck_assert_uint_eq(fake_destroyed(), 0);
		provider_free(p);
		world_is_clean();
	}
}
END_TEST

/* active here, same key, same fingerprint: C-159 */
START_TEST(active_here_is_given_again)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];
	char again[ID_SIZE];

	acquire(p, "u", "t", id);
	acquire(p, "u", "t", again);
	ck_assert_str_eq(id, again);
	ck_assert_uint_eq(fake_calls(FAKE_CREATE), 1);
	ck_assert_uint_eq(fake_calls(FAKE_HOLD), 0);
	ck_assert_uint_eq(stats_of(p).reused, 1);
	/* It is not counted: the first release counts. */
	release(p, id);
	ck_assert(!is_active(p, id));
	shut(p);
	world_is_clean();
}
END_TEST

/* active here, same key, other fingerprint */
START_TEST(active_here_with_another_configuration_is_busy)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	holt_error *error = NULL;
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	fake_image("image-2");
	ck_assert_int_eq(try_for(p, "u", "t", 500, id, &error), -HOLT_EBUSY);
	ck_assert_ptr_nonnull(strstr(holt_error_message(error), "another configuration"));
	holt_error_free(error);
	ck_assert(is_active(p, id));
	shut(p);
	world_is_clean();
}
END_TEST

/* active here, other key: C-17, C-22 */
START_TEST(active_here_of_another_thread_is_a_collision)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	acquire(p, "a:b", "c", id);
	ck_assert_int_eq(try_for(p, "a", "b:c", 500, id, NULL), -HOLT_EEXISTS);
	ck_assert(is_active(p, ABC));
	shut(p);
	world_is_clean();
}
END_TEST

/* C-15 is another provider's; C-16, C-286, C-14, C-12: no user is not the empty one, and not the
 * one who is called "None" */
START_TEST(no_user_is_none_of_the_users)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];
	char other[ID_SIZE];

	ck_assert_str_eq(acquire(p, NULL, "t-1", id), T1);
	ck_assert_str_eq(acquire(p, "", "t-1", other), "57fb26360b48bcf0");
	ck_assert_int_eq(try_for(p, "None", "t-1", 500, other, NULL), -HOLT_EEXISTS);
	ck_assert_str_eq(acquire(p, "u-1", "t-1", other), "8ee1a188a789a4f6");
	shut(p);
	fake_reset();
	p = PROVIDER(fake_process("one"));
	ck_assert_str_eq(acquire(p, "None", "t-1", id), T1);
	ck_assert_int_eq(try_for(p, NULL, "t-1", 500, other, NULL), -HOLT_EEXISTS);
	release(p, id);
	ck_assert_int_eq(try_for(p, NULL, "t-1", 500, other, NULL), -HOLT_EEXISTS);
	shut(p);
	world_is_clean();
}
END_TEST

/* active elsewhere, same key, same fingerprint: waits until the deadline, then BUSY and who it is
 */
START_TEST(active_elsewhere_is_waited_for_until_the_deadline)
{
	struct holt_provider *p = PROVIDER(fake_process("process 11 (one)"));
	struct holt_provider *q = PROVIDER(fake_process("process 12 (two)"));
	holt_error *error = NULL;
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	const uint64_t begun_ms = clock_mono_ms();
	ck_assert_int_eq(try_for(q, "u", "t", 150, id, &error), -HOLT_EBUSY);
	ck_assert_uint_ge(clock_mono_ms() - begun_ms, 140);
	ck_assert_uint_le(clock_mono_ms() - begun_ms, 1500);
	ck_assert_str_eq(holt_error_object(error), "process 11 (one)");
	ck_assert_ptr_nonnull(strstr(holt_error_message(error), "process 11 (one)"));
	holt_error_free(error);
	ck_assert(is_active(p, id) && !is_active(q, id));
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

START_TEST(active_elsewhere_comes_when_it_is_released)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_provider *q = PROVIDER(fake_process("two"));
	struct acquirer a = {.p = q, .user = "u", .thread = "t", .timeout_ms = 10000};
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	acquirer_start(&a);
	UNTIL(fake_calls(FAKE_HOLD) == 1);
	release(p, id);
	ck_assert_int_eq(acquirer_join(&a), 0);
	ck_assert_uint_eq(fake_box(id).number, 1);
	ck_assert(is_active(q, id));
	shut(p);
	/* C-176, C-289: what is active elsewhere is nobody else's. */
	ck_assert(fake_box(id).there);
	shut(q);
	world_is_clean();
}
END_TEST

/* active elsewhere, its owner dead: as warm */
START_TEST(active_elsewhere_of_a_dead_process_is_warm)
{
	void *one = fake_process("one");
	struct holt_provider *p = PROVIDER(one);
	struct holt_provider *q = PROVIDER(fake_process("two"));
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	fake_crash(one);
	acquire(q, "u", "t", id);
	ck_assert_uint_eq(fake_box(id).number, 1);
	provider_free(p);
	ck_assert(is_active(q, id));
	/* Another configuration, another key: as warm, too. */
	void *two = fake_process("three");
	struct holt_provider *r = PROVIDER(two);
	acquire(r, "a:b", "c", id);
	acquire(r, "v", "t", id);
	fake_crash(two);
	fake_image("image-2");
	acquire(q, "v", "t", id);
	ck_assert_str_eq(fake_box(id).last_reason, "other_fingerprint");
	ck_assert_int_eq(try_for(q, "a", "b:c", 500, id, NULL), -HOLT_EEXISTS);
	provider_free(r);
	shut(q);
	world_is_clean();
}
END_TEST

/* active elsewhere, other fingerprint: BUSY at once */
START_TEST(active_elsewhere_with_another_configuration_is_busy)
{
	struct holt_provider *p = PROVIDER(fake_process("process 11 (one)"));
	struct holt_provider *q = PROVIDER(fake_process("two"), "memory_mib: 256");
	holt_error *error = NULL;
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	const uint64_t begun_ms = clock_mono_ms();
	ck_assert_int_eq(try_for(q, "u", "t", 5000, id, &error), -HOLT_EBUSY);
	ck_assert_uint_le(clock_mono_ms() - begun_ms, 2000);
	ck_assert_str_eq(holt_error_object(error), "process 11 (one)");
	holt_error_free(error);
	ck_assert(is_active(p, id));
	ck_assert_uint_eq(fake_destroyed(), 0);
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* active elsewhere, other key */
START_TEST(active_elsewhere_of_another_thread_is_a_collision)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_provider *q = PROVIDER(fake_process("two"));
	char id[ID_SIZE];

	acquire(p, "a:b", "c", id);
	ck_assert_int_eq(try_for(q, "a", "b:c", 5000, id, NULL), -HOLT_EEXISTS);
	ck_assert(is_active(p, ABC));
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* without stored key and fingerprint: destroyed, made; in each state. C-167, C-175 are overridden
 */
START_TEST(unknown_is_destroyed_and_made)
{
	static const int states[] = {HOLT_POOL_WARM, HOLT_POOL_ACTIVE, HOLT_POOL_STOPPED};

	for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
		struct holt_provider *p = PROVIDER(fake_process("one"));
		char id[ID_SIZE];

		fake_foreign("holt-default-" T1, NULL, NULL, NULL, states[i]);
		const unsigned number = fake_box(T1).number;
		acquire(p, NULL, "t-1", id);
		ck_assert_str_eq(fake_box(T1).last_reason, "unknown");
		ck_assert(fake_box(T1).known && fake_box(T1).number == number + 1);
		shut(p);
	}
	world_is_clean();
}
END_TEST

/* stopped, same key, same fingerprint: started, with its disk */
START_TEST(stopped_is_started_again)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "on_idle: stop");
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	ck_assert(fake_box(id).keep);
	ck_assert_int_eq(fake_box(id).on_idle, HOLT_POOL_IDLE_STOP);
	release(p, id);
	fake_stop(id);
	ck_assert_uint_eq(stats_of(p).stopped, 1);
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_box(id).number, 1);
	ck_assert_uint_eq(stats_of(p).reclaimed, 1);
	release(p, id);
	fake_stop(id);
	/* A host that cannot start it now is no reason to lose files. */
	fake_fail(FAKE_START, HOLT_ELIMIT, 1);
	ck_assert_int_eq(try_for(p, "u", "t", 500, id, NULL), -HOLT_ELIMIT);
	ck_assert_uint_eq(fake_box(id).number, 1);
	/* Nor is a machine that dies as it starts, which is tried two times more. */
	fake_fail(FAKE_START, HOLT_EGUEST_LOST, 3);
	holt_error *error = NULL;
	const struct scope_key key = key_of("u", "t");
	const struct acquire_wish w = {.key = &key, .timeout_ms = 500};
	ck_assert_int_eq(provider_acquire(p, &w, id, &error), -HOLT_EGUEST_LOST);
	ck_assert_ptr_nonnull(strstr(holt_error_hint(error), "files are kept"));
	holt_error_free(error);
	fake_fail(FAKE_START, HOLT_EGUEST_LOST, 2);
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_box(id).number, 1);
	shut(p);
	world_is_clean();
}
END_TEST

START_TEST(stopped_is_destroyed_where_nothing_is_kept)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	release(p, id);
	fake_stop(id);
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_box(id).number, 2);
	ck_assert_str_eq(fake_box(id).last_reason, "idle_timeout");
	shut(p);
}
END_TEST

START_TEST(stopped_of_another_thread_is_a_collision)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "on_idle: stop");
	char id[ID_SIZE];

	acquire(p, "a:b", "c", id);
	release(p, id);
	fake_stop(id);
	ck_assert_int_eq(try_for(p, "a", "b:c", 500, id, NULL), -HOLT_EEXISTS);
	ck_assert_int_eq(fake_box(ABC).state, HOLT_POOL_STOPPED);
	/* and with another configuration it is made anew, as a warm one */
	fake_image("image-2");
	acquire(p, "a:b", "c", id);
	ck_assert_str_eq(fake_box(id).last_reason, "other_fingerprint");
	shut(p);
}
END_TEST

/* What is stopped is held by nobody: who starts it while it is to be taken away has it. */
START_TEST(stopped_one_that_somebody_starts_meanwhile_is_his)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_provider *q = PROVIDER(fake_process("two"), "on_idle: stop");
	struct acquirer a = {.p = p, .user = "u", .thread = "t", .timeout_ms = 300};
	char id[ID_SIZE];

	acquire(q, "u", "t", id);
	release(q, id);
	fake_stop(id);
	fake_gate(FAKE_DISCARD, true);
	acquirer_start(&a);
	fake_wait_for(FAKE_DISCARD, 1);
	acquire(q, "u", "t", id);
	fake_gate(FAKE_DISCARD, false);
	ck_assert_int_eq(acquirer_join(&a), -HOLT_EBUSY);
	ck_assert_uint_eq(fake_box(id).number, 1);
	ck_assert_int_eq(fake_box(id).state, HOLT_POOL_ACTIVE);
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* Somebody else makes it at the same time: one create, and the other waits (C-159, C-160). */
START_TEST(made_elsewhere_at_the_same_time_is_made_once)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_provider *q = PROVIDER(fake_process("two"));
	struct acquirer a = {.p = p, .user = "u", .thread = "t", .timeout_ms = 10000};
	struct acquirer b = {.p = q, .user = "u", .thread = "t", .timeout_ms = 10000};
	char id[ID_SIZE];

	fake_gate(FAKE_START, true);
	acquirer_start(&a);
	fake_wait_for(FAKE_START, 1);
	ck_assert_int_eq(try_for(q, "u", "t", 60, id, NULL), -HOLT_EBUSY);
	acquirer_start(&b);
	nap_ms(30);
	fake_gate(FAKE_START, false);
	ck_assert_int_eq(acquirer_join(&a), 0);
	release(p, a.id);
	ck_assert_int_eq(acquirer_join(&b), 0);
	ck_assert_uint_eq(fake_box(a.id).number, 1);
	ck_assert_uint_eq(fake_calls(FAKE_CREATE), 1);
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* C-160: one create for one thread, and both have it; other threads have their own */
START_TEST(threads_of_a_process_share_one_create)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct acquirer a[8];

	fake_delay(FAKE_START, 20);
	for (int i = 0; i < 8; i++) {
		a[i] = (struct acquirer){.p = p,
			.user = "u",
			.thread = i < 6    ? "t"
				  : i == 6 ? "t6"
					   : "t7",
			.timeout_ms = 10000};
		acquirer_start(&a[i]);
	}
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(acquirer_join(&a[i]), 0);
	for (int i = 1; i < 6; i++)
		ck_assert_str_eq(a[i].id, a[0].id);
	ck_assert_str_ne(a[6].id, a[7].id);
	ck_assert_uint_eq(fake_calls(FAKE_CREATE), 3);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-158, C-161: what fails leaves nothing, and the next one tries again */
START_TEST(failed_start_leaves_nothing)
{
	static const enum fake_op at[] = {
		FAKE_FINGERPRINT, FAKE_LOCK, FAKE_LIST, FAKE_CREATE, FAKE_START, FAKE_OPEN};
	struct event_log log = EVENT_LOG;
	struct holt_provider *p = PROVIDER_TOLD(fake_process("one"), &log);
	char id[ID_SIZE];

	for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
		fake_fail(at[i], HOLT_EIO, 1);
		ck_assert_int_eq(try_for(p, "u", "t", 500, id, NULL), -HOLT_EIO);
		ck_assert_uint_eq(fake_boxes(), 0);
		ck_assert_uint_eq(fake_handles(), 0);
	}
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_DESTROYED, "create_failed"), 2);
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_CREATED, ""), 0);
	acquire(p, "u", "t", id);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-162, C-42 */
START_TEST(without_thread_each_is_another)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "on_idle: stop");
	char id[ID_SIZE];
	char other[ID_SIZE];

	acquire(p, "u", NULL, id);
	acquire(p, "u", NULL, other);
	ck_assert_uint_eq(strlen(id), 8);
	ck_assert_str_ne(id, other);
	ck_assert(is_active(p, id) && fake_box(id).known);
	/* Its disk is nobody's to come back for. */
	ck_assert(!fake_box(id).keep);
	ck_assert_int_eq(fake_box(id).on_idle, HOLT_POOL_IDLE_DESTROY);
	release(p, id);
	ck_assert_int_eq(fake_box(id).state, HOLT_POOL_WARM);
	provider_reset(p);
	acquire(p, "u", NULL, id);
	ck_assert_int_eq(try_for(p, "u", "t", 500, other, NULL), -HOLT_ECLOSED);
	ck_assert_int_eq(provider_shutdown(p, NULL), 0);
	ck_assert_int_eq(try_for(p, "u", NULL, 500, other, NULL), -HOLT_ECLOSED);
	provider_free(p);
	world_is_clean();
}
END_TEST

START_TEST(cancelled_while_it_waits)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_provider *q = PROVIDER(fake_process("two"));
	holt_cancel *cancel = NULL;
	struct acquirer a = {.p = q, .user = "u", .thread = "t", .timeout_ms = HOLT_FOREVER};
	char id[ID_SIZE];

	ck_assert_int_eq(cancel_new(&cancel, NULL), 0);
	a.cancel = cancel;
	acquire(p, "u", "t", id);
	acquirer_start(&a);
	UNTIL(fake_calls(FAKE_HOLD) == 1);
	cancel_trigger(cancel);
	ck_assert_int_eq(acquirer_join(&a), -HOLT_ECANCELLED);
	ck_assert(is_active(p, id));
	cancel_free(cancel);
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* What has begun is finished: a token that comes while it is made takes nothing away. */
START_TEST(cancelled_while_it_is_made)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	holt_cancel *cancel = NULL;
	struct acquirer a = {.p = p, .user = "u", .thread = "t", .timeout_ms = HOLT_FOREVER};

	ck_assert_int_eq(cancel_new(&cancel, NULL), 0);
	a.cancel = cancel;
	fake_gate(FAKE_START, true);
	acquirer_start(&a);
	fake_wait_for(FAKE_START, 1);
	cancel_trigger(cancel);
	fake_gate(FAKE_START, false);
	ck_assert_int_eq(acquirer_join(&a), 0);
	ck_assert(is_active(p, a.id));
	cancel_free(cancel);
	shut(p);
	world_is_clean();
}
END_TEST

START_TEST(refused_wishes)
{
	struct holt_config *c = NULL;
	struct holt_provider *p = PROVIDER(fake_process("one"));
	const struct scope_key bad = {.user = text_of_literal("\xff"), .user_len = 1};
	const struct acquire_wish w = {.key = &bad};
	char id[ID_SIZE];

	/* C-8 */
	ck_assert_int_eq(provider_acquire(p, &w, id, NULL), -HOLT_EINVALID);
	/* It is not there, also after it was pulled. */
	fake_fail(FAKE_FINGERPRINT, HOLT_ENOT_FOUND, 2);
	ck_assert_int_eq(try_for(p, "u", "t", 500, id, NULL), -HOLT_ENOT_FOUND);
	/* An image that is removed takes no active sandbox away. */
	acquire(p, "u", "t", id);
	fake_fail(FAKE_FINGERPRINT, HOLT_ENOT_FOUND, 1);
	acquire(p, "u", "t", id);
	shut(p);
	/* C-163: an image is needed by the first acquire, not before. */
	ck_assert_int_eq(settings_parse("", 0, NULL, &c, NULL), 0);
	const struct provider_wish none = {
		.pool = &fake_pool, .self = fake_process("two"), .config = c};
	ck_assert_int_eq(provider_open(&none, &p, NULL), 0);
	ck_assert_int_eq(try_for(p, "u", "t", 500, id, NULL), -HOLT_EINVALID);
	shut(p);
	settings_free(c);
	world_is_clean();
}
END_TEST

/* A lease that outlives its process: it is set with the acquire, renewed, and ended by anybody. */
START_TEST(lease_keeps_it_active)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_provider *q = PROVIDER(fake_process("two"), "memory_mib: 256");
	const struct scope_key key = key_of("u", "t");
	const struct acquire_wish w = {.key = &key, .timeout_ms = 500, .lease_ms = 60000};
	auto_error error = NULL;
	char id[ID_SIZE];

	ck_assert_int_eq(provider_acquire(p, &w, id, NULL), 0);
	ck_assert_int_eq(fake_box(id).lease_until_ms, fake_now_ms() + 60000);
	release(p, id);
	ck_assert_int_eq(fake_box(id).state, HOLT_POOL_ACTIVE);
	/* It is not destroyed for its configuration then; the same thread gets it. */
	ck_assert_int_eq(try_for(q, "u", "t", 300, id, &error), -HOLT_EBUSY);
	ck_assert_ptr_nonnull(strstr(holt_error_message(error), "by a lease"));
	ck_assert_ptr_nonnull(strstr(holt_error_hint(error), "holt sandbox release "));
	fake_advance(1000);
	ck_assert_int_eq(provider_acquire(p, &w, id, NULL), 0);
	ck_assert_int_eq(fake_box(id).lease_until_ms, fake_now_ms() + 60000);
	fake_advance(1000);
	ck_assert_int_eq(provider_acquire(p, &w, id, NULL), 0); /* active here: renewed, too */
	ck_assert_int_eq(fake_box(id).lease_until_ms, fake_now_ms() + 60000);
	release(p, id);
	ck_assert_int_eq(provider_end_lease(q, id, NULL), 0);
	ck_assert_int_eq(fake_box(id).state, HOLT_POOL_WARM);
	ck_assert_int_eq(provider_end_lease(q, "0123456789abcdef", NULL), -HOLT_ENOT_FOUND);
	ck_assert_int_eq(provider_end_lease(q, "../x", NULL), -HOLT_ENOT_FOUND);
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* A box that is another one each time is not looked at for ever. */
START_TEST(endless_changes_end)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	fake_fail(FAKE_CREATE, HOLT_EEXISTS, 1000);
	ck_assert_int_eq(try_for(p, "u", "t", 5000, id, NULL), -HOLT_EUNAVAILABLE);
	fake_fail(FAKE_CREATE, 0, 0);
	fake_fail(FAKE_START, HOLT_ECLOSED, 1000);
	ck_assert_int_eq(try_for(p, "u", "t", 5000, id, NULL), -HOLT_ECLOSED);
	ck_assert_uint_eq(fake_boxes(), 0);
	fake_fail(FAKE_START, 0, 0);
	acquire(p, "u", "t", id);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-169: a warm one that ends just now takes its time: it is waited for, however often it is looked
 * at, and not longer than the deadline. */
START_TEST(ending_is_waited_for)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	release(p, id);
	fake_fail(FAKE_HOLD, HOLT_ECLOSED, 2 * ACQUIRE_ROUNDS);
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_box(id).number, 1);
	release(p, id);
	fake_fail(FAKE_HOLD, HOLT_ECLOSED, 1000000);
	ck_assert_int_eq(try_for(p, "u", "t", 100, id, NULL), -HOLT_EBUSY);
	fake_fail(FAKE_HOLD, 0, 0);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-168: a warm one for which nothing answers, not even to say that it is held, gives way as if its
 * guest was dead; one that somebody has does not. */
START_TEST(hung_is_made_anew)
{
	void *other = fake_process("other");
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_provider *q = PROVIDER(other);
	char id[ID_SIZE];

	acquire(q, "u", "t", id);
	fake_fail(FAKE_HOLD, HOLT_ETIMEOUT, 1);
	ck_assert_int_eq(try_for(p, "u", "t", 5000, id, NULL), -HOLT_ETIMEOUT);
	ck_assert_uint_eq(fake_box(id).number, 1);
	release(q, id);
	fake_fail(FAKE_HOLD, HOLT_ETIMEOUT, 1);
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_box(id).number, 2);
	ck_assert_str_eq(fake_box(id).last_reason, "health_check_failed");
	ck_assert_uint_eq(stats_of(p).unhealthy, 1);
	release(p, id);
	/* Also where it is of no use anyway. */
	fake_image("image-2");
	fake_fail(FAKE_HOLD, HOLT_ETIMEOUT, 1);
	acquire(p, "u", "t", id);
	ck_assert_str_eq(fake_box(id).last_reason, "other_fingerprint");
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

/* What cannot even be parked looks as if it was active here: it gives way, too, and a shutdown
 * leaves none of it. What another provider has looks the same, and is let alone. */
START_TEST(hung_while_active_is_made_anew)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct holt_provider *q = PROVIDER(fake_process("two"));
	char id[ID_SIZE];
	char other[ID_SIZE];

	acquire(p, "u", "t", id);
	acquire(q, "u", "other", other);
	fake_stick(id, true);
	fake_stick(other, true);
	release(p, id);
	ck_assert_int_eq(fake_box(id).state, HOLT_POOL_ACTIVE);
	ck_assert_uint_eq(stats_of(p).released, 0);
	ck_assert_int_eq(try_for(p, "u", "other", 5000, id, NULL), -HOLT_ETIMEOUT);
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_box(id).number, 3);
	ck_assert_str_eq(fake_box(id).last_reason, "health_check_failed");
	fake_stick(id, true);
	release(p, id);
	shut(p);
	ck_assert(!fake_box(id).there && fake_box(other).there);
	shut(q);
	ck_assert_uint_eq(fake_boxes(), 0);
	world_is_clean();
}
END_TEST

/* The Nth allocation fails: an error or a sandbox, and nothing is left. */
START_TEST(without_memory)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];
	unsigned failed = 0;

	for (unsigned long n = 1; n < 200; n++) {
		mem_fail_at(n);
		const int r = try_for(p, "u", "t", 500, id, NULL);
		const int again = r == 0 ? provider_release(p, id, NULL) : 0;
		mem_fail_at(0);
		failed += r < 0 || again < 0;
		ck_assert_msg(r == 0 || r == -HOLT_ENO_MEMORY, "%lu: %d", n, r);
		if (again < 0)
			release(p, id);
		ck_assert_uint_le(fake_boxes(), 1);
		/* From an empty pool and from a warm one. */
		if (n % 2)
			fake_kill(id);
	}
	ck_assert_uint_ge(failed, 20);
	acquire(p, "u", "t", id);
	shut(p);
	world_is_clean();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("provider_acquire");
	TCase *t = tcase_create("acquire");

	tcase_add_checked_fixture(t, before, NULL);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, absent_is_made);
	tcase_add_test(t, environment_of_the_configuration_is_the_sandboxs);
	tcase_add_test(t, warm_is_reclaimed_after_a_proof);
	tcase_add_test(t, warm_of_another_configuration_is_replaced);
	tcase_add_test(t, warm_of_another_thread_is_a_collision);
	tcase_add_test(t, each_part_of_a_stored_scope_counts);
	tcase_add_test(t, active_here_is_given_again);
	tcase_add_test(t, active_here_with_another_configuration_is_busy);
	tcase_add_test(t, active_here_of_another_thread_is_a_collision);
	tcase_add_test(t, no_user_is_none_of_the_users);
	tcase_add_test(t, active_elsewhere_is_waited_for_until_the_deadline);
	tcase_add_test(t, active_elsewhere_comes_when_it_is_released);
	tcase_add_test(t, active_elsewhere_of_a_dead_process_is_warm);
	tcase_add_test(t, active_elsewhere_with_another_configuration_is_busy);
	tcase_add_test(t, active_elsewhere_of_another_thread_is_a_collision);
	tcase_add_test(t, unknown_is_destroyed_and_made);
	tcase_add_test(t, stopped_is_started_again);
	tcase_add_test(t, stopped_is_destroyed_where_nothing_is_kept);
	tcase_add_test(t, stopped_of_another_thread_is_a_collision);
	tcase_add_test(t, stopped_one_that_somebody_starts_meanwhile_is_his);
	tcase_add_test(t, made_elsewhere_at_the_same_time_is_made_once);
	tcase_add_test(t, threads_of_a_process_share_one_create);
	tcase_add_test(t, failed_start_leaves_nothing);
	tcase_add_test(t, without_thread_each_is_another);
	tcase_add_test(t, cancelled_while_it_waits);
	tcase_add_test(t, cancelled_while_it_is_made);
	tcase_add_test(t, refused_wishes);
	tcase_add_test(t, lease_keeps_it_active);
	tcase_add_test(t, endless_changes_end);
	tcase_add_test(t, ending_is_waited_for);
	tcase_add_test(t, hung_is_made_anew);
	tcase_add_test(t, hung_while_active_is_made_anew);
	tcase_add_test(t, without_memory);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
