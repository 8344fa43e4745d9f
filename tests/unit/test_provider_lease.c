/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several owners of one sandbox: who comes, who leaves, and who is the last.
 */
#include "provider_fixture.h"

static void before(void)
{
	fake_reset();
}

static int lease(
	struct holt_provider *p, const char *owner, const char *thread, bool park, char id[ID_SIZE])
{
	const struct scope_key key = key_of("u", thread);
	const struct acquire_wish w = {.key = &key, .timeout_ms = 5000};

	return lease_acquire(p, owner, park, &w, id, NULL);
}

static void leave(struct holt_provider *p, const char *owner)
{
	ck_assert_int_eq(lease_release(p, owner, NULL), 0);
}

/* C-215, C-216 */
START_TEST(last_owner_parks)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];
	char other[ID_SIZE];

	ck_assert_int_eq(lease(p, "run-1", "t", true, id), 0);
	ck_assert_int_eq(lease(p, "run-2", "t", true, other), 0);
	ck_assert_str_eq(id, other);
	leave(p, "run-1");
	leave(p, "run-1");
	ck_assert(is_active(p, id));
	leave(p, "run-2");
	ck_assert(!is_active(p, id));
	ck_assert_int_eq(fake_box(id).state, HOLT_POOL_WARM);
	leave(p, "nobody");
	shut(p);
	world_is_clean();
}
END_TEST

/* C-216, C-271: an upload holds it and does not ask for parking; who did before is remembered */
START_TEST(upload_does_not_park)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	ck_assert_int_eq(lease(p, "upload", "t", false, id), 0);
	leave(p, "upload");
	ck_assert(is_active(p, id));
	ck_assert_int_eq(lease(p, "run", "t", true, id), 0);
	ck_assert_int_eq(lease(p, "upload", "t", false, id), 0);
	leave(p, "run");
	ck_assert(is_active(p, id));
	leave(p, "upload");
	ck_assert(!is_active(p, id));
	/* What was remembered was of that time only. */
	ck_assert_int_eq(lease(p, "upload", "t", false, id), 0);
	leave(p, "upload");
	ck_assert(is_active(p, id));
	/* The same owner may ask for more. */
	ck_assert_int_eq(lease(p, "upload", "t", false, id), 0);
	ck_assert_int_eq(lease(p, "upload", "t", true, id), 0);
	leave(p, "upload");
	ck_assert(!is_active(p, id));
	shut(p);
	world_is_clean();
}
END_TEST

/* C-217: the same owner gets the same without an acquire, as long as it is active */
START_TEST(same_owner_again)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];
	char again[ID_SIZE];

	ck_assert_int_eq(lease(p, "run", "t", true, id), 0);
	const unsigned calls = fake_all_calls();
	ck_assert_int_eq(lease(p, "run", "t", true, again), 0);
	ck_assert_str_eq(id, again);
	ck_assert_uint_eq(fake_all_calls(), calls);
	leave(p, "run");
	ck_assert(!is_active(p, id));
	shut(p);
	world_is_clean();
}
END_TEST

/* C-217: a binding to what is gone is dropped without a release */
START_TEST(stale_binding)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	holt_command *c = NULL;
	char id[ID_SIZE];

	ck_assert_int_eq(lease(p, "old", "t", true, id), 0);
	ck_assert_int_eq(lease(p, "run", "t", true, id), 0);
	fake_sicken(id);
	holt_sandbox *s = provider_get(p, id);
	ck_assert_int_eq(holt_sandbox_execute(s, "x", NULL, &c, NULL), -HOLT_EGUEST_LOST);
	holt_sandbox_free(s);
	ck_assert_int_eq(lease(p, "run", "t", true, id), 0);
	ck_assert_uint_eq(fake_box(id).number, 2);
	/* The one who had the old box has nothing to do with the new one. */
	leave(p, "old");
	ck_assert(is_active(p, id));
	leave(p, "run");
	ck_assert(!is_active(p, id));
	/* And the other way round: it does not hold the new one up. */
	ck_assert_int_eq(lease(p, "old", "t", true, id), 0);
	release(p, id);
	ck_assert_int_eq(lease(p, "run", "t", true, id), 0);
	leave(p, "run");
	leave(p, "old");
	ck_assert(!is_active(p, id));
	/* Nor does it end another box that somebody has who is no owner. */
	ck_assert_int_eq(lease(p, "old", "t", true, id), 0);
	fake_kill(id);
	release(p, id);
	acquire(p, "u", "t", id);
	leave(p, "old");
	ck_assert(is_active(p, id));
	shut(p);
	world_is_clean();
}
END_TEST

/* C-217: an owner does not move */
START_TEST(owner_does_not_move)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	const struct scope_key other = key_of(NULL, "t");
	const struct acquire_wish w = {.key = &other, .timeout_ms = 5000};
	char id[ID_SIZE];

	ck_assert_int_eq(lease(p, "run", "t", true, id), 0);
	ck_assert_int_eq(lease(p, "run", "t2", true, id), -HOLT_EINVALID);
	ck_assert_int_eq(lease_acquire(p, "run", true, &w, id, NULL), -HOLT_EINVALID);
	ck_assert_uint_eq(fake_boxes(), 1);
	leave(p, "run");
	ck_assert_int_eq(lease(p, "run", "t2", true, id), 0);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-218: what fails or is cancelled binds nobody */
START_TEST(failed_acquire_binds_nobody)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	fake_fail(FAKE_START, HOLT_EIO, 1);
	ck_assert_int_eq(lease(p, "run", "t", true, id), -HOLT_EIO);
	leave(p, "run");
	ck_assert_int_eq(lease(p, "run", "t2", true, id), 0);
	for (unsigned long n = 1; n < 80; n++) {
		mem_fail_at(n);
		const int r = lease(p, "many", "t", true, id);
		mem_fail_at(0);
		ck_assert_msg(r == 0 || r == -HOLT_ENO_MEMORY, "%lu: %d", n, r);
		leave(p, "many");
		ck_assert_uint_eq(stats_of(p).active_here, 1);
		if (n % 2)
			fake_kill("fe0dc8182dec7b77");
	}
	shut(p);
	world_is_clean();
}
END_TEST

struct racer {
	struct holt_provider *p;
	int number;
	atomic_int *inside;
	pthread_t thread;
};

static void *race(void *arg)
{
	struct racer *r = arg;
	char owner[16];
	char id[ID_SIZE];

	(void)snprintf(owner, sizeof owner, "run-%d", r->number);
	for (int i = 0; i < 200; i++) {
		ck_assert_int_eq(lease(r->p, owner, "t", true, id), 0);
		/* As long as one has it, nobody parks it. */
		ck_assert(is_active(r->p, id));
		ck_assert_int_eq(lease_release(r->p, owner, NULL), 0);
	}
	return NULL;
}

/* C-215: coming and going of one scope is one after the other */
START_TEST(owners_race)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct racer r[6];

	for (int i = 0; i < 6; i++) {
		r[i] = (struct racer){.p = p, .number = i};
		ck_assert_int_eq(pthread_create(&r[i].thread, NULL, race, &r[i]), 0);
	}
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(pthread_join(r[i].thread, NULL), 0);
	ck_assert_uint_eq(fake_calls(FAKE_CREATE), 1);
	ck_assert_uint_eq(stats_of(p).active_here, 0);
	ck_assert_ptr_null(p->owners);
	ck_assert_ptr_null(p->groups);
	ck_assert_uint_eq(serializer_count(p->lease_turns), 0);
	shut(p);
	world_is_clean();
}
END_TEST

struct leaser {
	struct holt_provider *p;
	pthread_t thread;
	int result;
};

static void *lease_run(void *arg)
{
	struct leaser *l = arg;
	char id[ID_SIZE];

	l->result = lease(l->p, "slow", "slow", true, id);
	return NULL;
}

/* C-215: owners of other scopes do not wait for each other */
START_TEST(scopes_go_side_by_side)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct leaser l = {.p = p};
	char id[ID_SIZE];

	acquire(p, "u", "t", id);
	fake_gate(FAKE_START, true);
	ck_assert_int_eq(pthread_create(&l.thread, NULL, lease_run, &l), 0);
	fake_wait_for(FAKE_START, 1);
	ck_assert_int_eq(lease(p, "run", "t", true, id), 0);
	leave(p, "run");
	fake_gate(FAKE_START, false);
	ck_assert_int_eq(pthread_join(l.thread, NULL), 0);
	ck_assert_int_eq(l.result, 0);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-190: owners go with a reset and with a shutdown */
START_TEST(reset_forgets_owners)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	ck_assert_int_eq(lease(p, "run", "t", true, id), 0);
	provider_reset(p);
	ck_assert_int_eq(fake_box(id).state, HOLT_POOL_WARM);
	leave(p, "run");
	ck_assert_int_eq(lease(p, "run", "t", true, id), -HOLT_ECLOSED);
	shut(p);
	world_is_clean();
}
END_TEST

struct again {
	struct holt_provider *p;
	unsigned told;
};

static void on_told(const holt_provider_event *e, void *user)
{
	struct again *a = user;
	char id[ID_SIZE];

	/* C-190: a function that calls back does not wait for itself. */
	if (a->told++ == 0) {
		ck_assert_int_eq(lease(a->p, "inner", "t", true, id), 0);
		ck_assert_str_eq(id, e->id);
		ck_assert_int_eq(lease_release(a->p, "inner", NULL), 0);
		ck_assert_int_eq(try_for(a->p, "u", "t", 1000, id, NULL), 0);
	}
}

START_TEST(callbacks_may_call_back)
{
	struct again again = {0};
	struct holt_config *c = config_of(NULL);
	const struct provider_wish w = {.pool = &fake_pool,
		.self = fake_process("one"),
		.config = c,
		.event = on_told,
		.user = &again,
		.now_ms = fake_now_ms};
	char id[ID_SIZE];

	ck_assert_int_eq(provider_open(&w, &again.p, NULL), 0);
	settings_free(c);
	ck_assert_int_eq(lease(again.p, "run", "t", true, id), 0);
	ck_assert_uint_ge(again.told, 1);
	leave(again.p, "run");
	acquire(again.p, "u", "t", id);
	again.told = 0;
	release(again.p, id);
	ck_assert_uint_ge(again.told, 1);
	shut(again.p);
	world_is_clean();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("provider_lease");
	TCase *t = tcase_create("lease");

	tcase_add_checked_fixture(t, before, NULL);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, last_owner_parks);
	tcase_add_test(t, upload_does_not_park);
	tcase_add_test(t, same_owner_again);
	tcase_add_test(t, stale_binding);
	tcase_add_test(t, owner_does_not_move);
	tcase_add_test(t, failed_acquire_binds_nobody);
	tcase_add_test(t, owners_race);
	tcase_add_test(t, scopes_go_side_by_side);
	tcase_add_test(t, reset_forgets_owners);
	tcase_add_test(t, callbacks_may_call_back);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
