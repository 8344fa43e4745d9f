/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A provider as a whole: opening, what it finds, what it tells, and the checks of its public
 * functions.
 */
#include "holt/provider.h"
#include "holt/sys/pool.h"
#include "provider_fixture.h"

static void before(void)
{
	fake_reset();
}

#define KNOWN   "0000000000000001"
#define UNKNOWN "0000000000000002"

/* C-175 with the overriding rule: what nobody knows is destroyed, what is of others is left alone
 */
START_TEST(open_sweeps_unknown_ones)
{
	struct event_log log = EVENT_LOG;

	fake_foreign("holt-default-" KNOWN, "u", "t", FOREIGN, HOLT_POOL_WARM);
	fake_foreign("holt-default-" UNKNOWN, NULL, NULL, NULL, HOLT_POOL_WARM);
	fake_foreign("holt-default-0000000a", NULL, NULL, NULL, HOLT_POOL_ACTIVE);
	fake_foreign("holt-default-0000000000000003", NULL, NULL, NULL, HOLT_POOL_MAKING);
	fake_foreign("holt-default-mine", NULL, NULL, NULL, HOLT_POOL_WARM);
	fake_foreign("holt-default-x-0000000000000004", NULL, NULL, NULL, HOLT_POOL_WARM);
	fake_foreign("holt-other-0000000000000005", NULL, NULL, NULL, HOLT_POOL_WARM);
	fake_foreign("something", NULL, NULL, NULL, HOLT_POOL_WARM);
	struct holt_provider *p = PROVIDER_TOLD(fake_process("one"), &log);
	ck_assert_uint_eq(fake_boxes(), 6);
	ck_assert(fake_box(KNOWN).there && !fake_box(UNKNOWN).there);
	ck_assert(!fake_box("0000000a").there && fake_box("0000000000000003").there);
	ck_assert_uint_eq(events_of(&log, HOLT_PROVIDER_DESTROYED, "unknown"), 2);
	/* C-176, C-289: a shutdown leaves what was not released here. */
	shut(p);
	ck_assert_uint_eq(fake_boxes(), 6);
	world_is_clean();
}
END_TEST

/* C-175: a pool that cannot be listed is a warning */
START_TEST(open_without_a_listing)
{
	char id[ID_SIZE];

	fake_fail(FAKE_LIST, HOLT_EIO, 1);
	struct holt_provider *p = PROVIDER(fake_process("one"));
	acquire(p, "u", "t", id);
	shut(p);
	world_is_clean();
}
END_TEST

/* C-175, C-176: what a dead process left is found, proved and reclaimed by the same thread */
START_TEST(restart_finds_warm_ones)
{
	void *one = fake_process("one");
	struct holt_provider *p = PROVIDER(one);
	char id[ID_SIZE];
	char other[ID_SIZE];

	acquire(p, "u", "t", id);
	acquire(p, "u", "t2", other);
	release(p, other);
	fake_crash(one);
	provider_free(p);
	p = PROVIDER(fake_process("two"));
	const holt_provider_stats s = stats_of(p);
	ck_assert_uint_eq(s.warm, 2);
	ck_assert_uint_eq(s.active_here, 0);
	ck_assert_ptr_null(provider_get(p, id));
	acquire(p, "u", "t", id);
	acquire(p, "u", "t2", other);
	ck_assert_uint_eq(fake_box(id).number, 1);
	ck_assert_uint_eq(fake_box(other).number, 2);
	ck_assert_uint_eq(fake_calls(FAKE_PROVE), 2);
	shut(p);
	ck_assert_uint_eq(fake_boxes(), 0);
	world_is_clean();
}
END_TEST

/* Pools of one home are apart, also where their names begin alike. */
START_TEST(pools_are_apart)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "pool: a", "replicas: 1");
	struct holt_provider *q = PROVIDER(fake_process("two"), "pool: a-b", "replicas: 1");
	char id[ID_SIZE];

	acquire(q, "u", "t", id);
	release(q, id);
	acquire(p, "u", "t", id);
	release(p, id);
	acquire(p, "u", "t2", id);
	ck_assert_uint_eq(stats_of(q).warm, 1);
	ck_assert_uint_eq(stats_of(p).warm + stats_of(p).active, 1);
	shut(p);
	ck_assert_uint_eq(stats_of(q).warm, 1);
	shut(q);
	world_is_clean();
}
END_TEST

/* "spares" makes the pool ready in the background; a failure of that is none of opening. */
START_TEST(spares_are_prepared)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "spares: 2");

	UNTIL(fake_calls(FAKE_PREPARE) == 1);
	shut(p);
	fake_fail(FAKE_PREPARE, HOLT_EIO, 1);
	p = PROVIDER(fake_process("one"), "spares: 1");
	UNTIL(fake_calls(FAKE_PREPARE) == 2);
	provider_free(p);
	p = PROVIDER(fake_process("one"));
	nap_ms(20);
	ck_assert_uint_eq(fake_calls(FAKE_PREPARE), 2);
	shut(p);
	world_is_clean();
}
END_TEST

static int count(const holt_pool_entry *e, void *user)
{
	unsigned *n = user;

	ck_assert_ptr_nonnull(e->name);
	return ++*n == 3;
}

START_TEST(list_and_stats)
{
	struct holt_provider *p = PROVIDER(fake_process("process 3 (x)"), "replicas: 9");
	holt_provider_stats s = HOLT_PROVIDER_STATS_INIT;
	holt_error *error = NULL;
	unsigned n = 0;
	char id[ID_SIZE];

	acquire(p, "u", "a", id);
	acquire(p, "u", "b", id);
	release(p, id);
	fake_foreign("holt-default-mine", NULL, NULL, NULL, HOLT_POOL_WARM);
	ck_assert_int_eq(holt_provider_list(p, count, &n, NULL), 0);
	ck_assert_uint_eq(n, 2);
	acquire(p, "u", "c", id);
	fake_stop(id);
	n = 0;
	ck_assert_int_eq(holt_provider_list(p, count, &n, NULL), -HOLT_ECANCELLED);
	ck_assert_int_eq(holt_provider_get_stats(p, &s, NULL), 0);
	ck_assert_uint_eq(s.active, 1);
	ck_assert_uint_eq(s.warm, 1);
	ck_assert_uint_eq(s.stopped, 1);
	ck_assert_uint_eq(s.created, 3);
	ck_assert_uint_eq(s.acquiring, 0);
	fake_fail(FAKE_LIST, HOLT_EIO, 1);
	ck_assert_int_eq(holt_provider_get_stats(p, &s, &error), -HOLT_EIO);
	holt_error_free(error);
	ck_assert_uint_eq(s.created, 3);
	shut(p);
	world_is_clean();
}
END_TEST

START_TEST(names)
{
	ck_assert_str_eq(holt_provider_event_name(HOLT_PROVIDER_CREATED), "created");
	ck_assert_str_eq(holt_provider_event_name(HOLT_PROVIDER_OVERSHOT), "overshot");
	ck_assert_str_eq(holt_provider_event_name(5), "?");
	ck_assert_str_eq(holt_provider_event_name(-1), "?");
	ck_assert_str_eq(holt_pool_state_name(HOLT_POOL_MAKING), "making");
	ck_assert_str_eq(holt_pool_state_name(HOLT_POOL_STOPPED), "stopped");
	ck_assert_str_eq(holt_pool_state_name(4), "?");
}
END_TEST

static struct holt_provider *public_open(const holt_provider_options *options)
{
	struct holt_config *c = config_of(NULL);
	holt_provider *p = NULL;

	ck_assert_int_eq(
		holt_provider_open_pool(&fake_pool, fake_process("one"), c, options, &p, NULL), 0);
	settings_free(c);
	return p;
}

/* The public way through it all. */
START_TEST(public_functions)
{
	static const char *const dirs = "/data/workspace;/data/uploads;/data/outputs;/mnt/skills;";
	holt_sandbox_options sandbox = HOLT_SANDBOX_OPTIONS_INIT;
	holt_provider_options options = HOLT_PROVIDER_OPTIONS_INIT;
	holt_scope scope = HOLT_SCOPE_INIT;
	holt_acquire *a = NULL;
	char id[HOLT_SANDBOX_ID_MAX + 1];
	int fd = -1;

	sandbox.user_data = "/data";
	sandbox.user = "agent";
	options.sandbox = &sandbox;
	holt_provider *p = public_open(&options);
	scope.user = "u";
	scope.user_len = 1;
	scope.thread = "t";
	scope.thread_len = 1;
	ck_assert_int_eq(holt_provider_acquire(p, &scope, NULL, id, NULL), 0);
	ck_assert_str_eq(fake_box(id).directories, dirs);
	ck_assert_str_eq(fake_box(id).owner, "agent");
	ck_assert_int_eq(holt_provider_acquire_start(p, &scope, NULL, NULL, NULL, &a, NULL), 0);
	ck_assert_int_eq(holt_acquire_event_fd(a, &fd, NULL), 0);
	ck_assert_int_eq(holt_acquire_wait(a, HOLT_FOREVER, id, NULL), 0);
	holt_acquire_free(a);
	holt_sandbox *s = holt_provider_get(p, id);
	ck_assert_ptr_nonnull(s);
	holt_sandbox_free(s);
	ck_assert_int_eq(holt_provider_end_lease(p, id, NULL), 0);
	ck_assert_int_eq(holt_provider_release(p, id, NULL), 0);
	ck_assert_int_eq(holt_lease_acquire(p, "run", &scope, 1, NULL, id, NULL), 0);
	ck_assert_int_eq(holt_lease_release(p, "run", NULL), 0);
	ck_assert_ptr_null(holt_provider_get(p, id));
	holt_provider_reset(p);
	ck_assert_int_eq(holt_provider_shutdown(p, NULL), 0);
	holt_provider_free(p);
	world_is_clean();
}
END_TEST

#define REFUSED(call)                                     \
	do {                                              \
		holt_error *e_ = NULL;                    \
		ck_assert_int_eq((call), -HOLT_EINVALID); \
		holt_error_free(e_);                      \
	} while (0)

START_TEST(arguments_are_checked)
{
	holt_provider *p = public_open(NULL);
	holt_provider *q = NULL;
	holt_scope scope = HOLT_SCOPE_INIT;
	holt_acquire_options o = HOLT_ACQUIRE_OPTIONS_INIT;
	holt_acquire *a = NULL;
	holt_provider_stats s = {0};
	holt_pool part = fake_pool;
	holt_sandbox_options sandbox = HOLT_SANDBOX_OPTIONS_INIT;
	holt_provider_options options = HOLT_PROVIDER_OPTIONS_INIT;
	char owner[HOLT_LEASE_OWNER_BYTES_MAX + 2];
	char id[HOLT_SANDBOX_ID_MAX + 1] = "untouched";
	unsigned n = 0;
	int fd = 0;

	memset(owner, 'o', sizeof owner);
	owner[sizeof owner - 1] = '\0';
	scope.thread = "t";
	scope.thread_len = 1;
	part.prove = NULL;
	REFUSED(holt_provider_open_pool(NULL, NULL, NULL, NULL, &q, &e_));
	REFUSED(holt_provider_open_pool(&fake_pool, NULL, NULL, NULL, NULL, &e_));
	REFUSED(holt_provider_open_pool(&part, NULL, NULL, NULL, &q, &e_));
	REFUSED(holt_provider_acquire(NULL, &scope, NULL, id, &e_));
	REFUSED(holt_provider_acquire(p, NULL, NULL, id, &e_));
	REFUSED(holt_provider_acquire(p, &scope, NULL, NULL, &e_));
	o.lease_ms = UINT64_C(86400001);
	REFUSED(holt_provider_acquire(p, &scope, &o, id, &e_));
	REFUSED(holt_provider_acquire_start(p, &scope, &o, NULL, NULL, &a, &e_));
	REFUSED(holt_provider_acquire_start(NULL, &scope, NULL, NULL, NULL, &a, &e_));
	REFUSED(holt_acquire_wait(NULL, 0, id, &e_));
	REFUSED(holt_acquire_event_fd(NULL, &fd, &e_));
	holt_acquire_free(NULL);
	ck_assert_ptr_null(holt_provider_get(NULL, "x"));
	ck_assert_ptr_null(holt_provider_get(p, NULL));
	REFUSED(holt_provider_release(NULL, "x", &e_));
	REFUSED(holt_provider_release(p, NULL, &e_));
	ck_assert_int_eq(holt_provider_release(p, owner, NULL), 0);
	REFUSED(holt_provider_end_lease(p, NULL, &e_));
	ck_assert_int_eq(holt_provider_end_lease(p, owner, NULL), -HOLT_ENOT_FOUND);
	REFUSED(holt_lease_acquire(p, "", &scope, 1, NULL, id, &e_));
	REFUSED(holt_lease_acquire(p, owner, &scope, 1, NULL, id, &e_));
	REFUSED(holt_lease_acquire(p, NULL, &scope, 1, NULL, id, &e_));
	REFUSED(holt_lease_release(p, NULL, &e_));
	REFUSED(holt_provider_get_stats(p, NULL, &e_));
	REFUSED(holt_provider_get_stats(p, &s, &e_)); /* no struct_size */
	REFUSED(holt_provider_list(p, NULL, &n, &e_));
	REFUSED(holt_provider_shutdown(NULL, &e_));
	scope.thread = NULL;
	REFUSED(holt_provider_acquire(p, &scope, NULL, id, &e_)); /* none, with a length */
	scope.thread_len = 0;
	REFUSED(holt_lease_acquire(p, "run", &scope, 1, NULL, id, &e_));
	sandbox.user_data = "relative";
	options.sandbox = &sandbox;
	REFUSED(holt_provider_open_pool(&fake_pool, NULL, NULL, &options, &q, &e_));
	sandbox.user_data = NULL;
	sandbox.flags = 1u << 30;
	REFUSED(holt_provider_open_pool(&fake_pool, NULL, NULL, &options, &q, &e_));
	scope.struct_size = 0;
	REFUSED(holt_provider_acquire(p, &scope, NULL, id, &e_));
	holt_provider_reset(NULL);
	holt_provider_free(NULL);
	ck_assert_str_eq(id, "untouched");
	ck_assert_uint_eq(fake_boxes(), 0);
	holt_provider_free(p);
	world_is_clean();
}
END_TEST

START_TEST(open_without_memory)
{
	struct holt_config *c = config_of(NULL);
	unsigned failed = 0;

	for (unsigned long n = 1; n < 100; n++) {
		holt_provider *p = NULL;

		mem_fail_at(n);
		const int r = holt_provider_open_pool(
			&fake_pool, fake_process("one"), c, NULL, &p, NULL);
		mem_fail_at(0);
		ck_assert_msg(r == 0 || r == -HOLT_ENO_MEMORY, "%lu: %d", n, r);
		failed += r < 0;
		holt_provider_free(p);
	}
	ck_assert_uint_ge(failed, 15);
	settings_free(c);
	world_is_clean();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("provider");
	TCase *t = tcase_create("provider");

	tcase_add_checked_fixture(t, before, NULL);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, open_sweeps_unknown_ones);
	tcase_add_test(t, open_without_a_listing);
	tcase_add_test(t, restart_finds_warm_ones);
	tcase_add_test(t, pools_are_apart);
	tcase_add_test(t, spares_are_prepared);
	tcase_add_test(t, list_and_stats);
	tcase_add_test(t, names);
	tcase_add_test(t, public_functions);
	tcase_add_test(t, arguments_are_checked);
	tcase_add_test(t, open_without_memory);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
