/* SPDX-License-Identifier: Apache-2.0 */
/* When an acquire asks for the image of its sandbox, and whom that keeps waiting. */
#include "acquirer_fixture.h"

static void before(void)
{
	fake_reset();
}

START_TEST(missing_is_pulled_once)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	fake_image(NULL);
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_calls(FAKE_FETCH), 1);
	/* Whatever is there is enough: for another thread, and for one that comes back. */
	acquire(p, "u", "t2", id);
	release(p, id);
	acquire(p, "u", "t2", id);
	ck_assert_uint_eq(fake_calls(FAKE_FETCH), 1);
	/* An image that is gone takes no active sandbox away, and is not needed for it. */
	fake_image(NULL);
	acquire(p, "u", "t2", id);
	ck_assert_uint_eq(fake_calls(FAKE_FETCH), 1);
	shut(p);
	world_is_clean();
}
END_TEST

START_TEST(nameless_is_pulled_too)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	fake_image(NULL);
	acquire(p, "u", NULL, id);
	ck_assert_uint_eq(fake_calls(FAKE_FETCH), 1);
	shut(p);
	world_is_clean();
}
END_TEST

START_TEST(never_is_not_found)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "pull: never");
	char id[ID_SIZE];

	fake_image(NULL);
	ck_assert_int_eq(try_for(p, "u", "t", 500, id, NULL), -HOLT_ENOT_FOUND);
	ck_assert_uint_eq(fake_calls(FAKE_FETCH), 0);
	shut(p);
	world_is_clean();
}
END_TEST

/* Each new box asks; what lives is not touched before the name means something else. */
START_TEST(always_is_asked_before_each_box)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "pull: always");
	char id[ID_SIZE], other[ID_SIZE];

	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_calls(FAKE_FETCH), 1);
	/* The fingerprint of what was pulled, not of what was there before. */
	ck_assert_str_eq(fake_box(id).fingerprint, "pulled-0:512");
	acquire(p, "u", "t", id);
	release(p, id);
	acquire(p, "u", "t", id);
	ck_assert_uint_eq(fake_calls(FAKE_FETCH), 1);
	acquire(p, "u", "t2", other);
	ck_assert_uint_eq(fake_calls(FAKE_FETCH), 2);
	shut(p);
	world_is_clean();
}
END_TEST

START_TEST(failure_is_told_and_nothing_is_left)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	fake_image(NULL);
	fake_fail(FAKE_FETCH, HOLT_EDENIED, 1);
	ck_assert_int_eq(try_for(p, "u", "t", 500, id, NULL), -HOLT_EDENIED);
	ck_assert_uint_eq(fake_boxes(), 0);
	acquire(p, "u", "t", id);
	shut(p);
	world_is_clean();
}
END_TEST

/* One that pulls keeps nobody else waiting, and can be given up. */
START_TEST(a_pull_is_cancelled_and_holds_nobody_up)
{
	struct holt_provider *p = PROVIDER(fake_process("one"), "pull: always");
	struct holt_provider *q = PROVIDER(fake_process("two"), "pull: never");
	struct acquirer a = {.p = p, .user = "u", .thread = "slow", .timeout_ms = HOLT_FOREVER};
	char id[ID_SIZE];

	ck_assert_int_eq(cancel_new(&a.cancel, NULL), 0);
	acquire(p, "u", "there", id);
	/* Then the registry is slow. */
	fake_gate(FAKE_REGISTRY, true);
	acquirer_start(&a);
	UNTIL(fake_calls(FAKE_FETCH) == 2);
	acquire(p, "u", "there", id);
	release(p, id);
	acquire(p, "u", "there", id);
	acquire(q, "u", "another", id);
	cancel_trigger(a.cancel);
	ck_assert_int_eq(acquirer_join(&a), -HOLT_ECANCELLED);
	cancel_free(a.cancel);
	fake_gate(FAKE_REGISTRY, false);
	shut(p);
	shut(q);
	world_is_clean();
}
END_TEST

START_TEST(a_pull_ends_with_the_acquires_time)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	char id[ID_SIZE];

	fake_image(NULL);
	fake_gate(FAKE_REGISTRY, true);
	ck_assert_int_eq(try_for(p, "u", "t", 50, id, NULL), -HOLT_EBUSY);
	fake_gate(FAKE_REGISTRY, false);
	acquire(p, "u", "t", id);
	shut(p);
	world_is_clean();
}
END_TEST

START_TEST(a_pull_ends_with_the_provider)
{
	struct holt_provider *p = PROVIDER(fake_process("one"));
	struct acquirer a = {.p = p, .user = "u", .thread = "t", .timeout_ms = HOLT_FOREVER};

	fake_image(NULL);
	fake_gate(FAKE_REGISTRY, true);
	acquirer_start(&a);
	UNTIL(fake_calls(FAKE_FETCH) == 1);
	ck_assert_int_eq(provider_shutdown(p, NULL), 0);
	ck_assert_int_eq(acquirer_join(&a), -HOLT_ECLOSED);
	provider_free(p);
	fake_gate(FAKE_REGISTRY, false);
	world_is_clean();
}
END_TEST

/* Spares are of an image, too. */
START_TEST(spares_pull_first)
{
	fake_image(NULL);
	struct holt_provider *p = PROVIDER(fake_process("one"), "spares: 1");

	UNTIL(fake_calls(FAKE_PREPARE) == 1);
	ck_assert_uint_eq(fake_calls(FAKE_FETCH), 1);
	shut(p);
	fake_fail(FAKE_FETCH, HOLT_EUNAVAILABLE, 1);
	p = PROVIDER(fake_process("two"), "spares: 1");
	UNTIL(fake_calls(FAKE_FETCH) == 2);
	shut(p);
	ck_assert_uint_eq(fake_calls(FAKE_PREPARE), 1);
	world_is_clean();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("provider_pull");
	TCase *t = tcase_create("pull");

	tcase_add_checked_fixture(t, before, NULL);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, missing_is_pulled_once);
	tcase_add_test(t, nameless_is_pulled_too);
	tcase_add_test(t, never_is_not_found);
	tcase_add_test(t, always_is_asked_before_each_box);
	tcase_add_test(t, failure_is_told_and_nothing_is_left);
	tcase_add_test(t, a_pull_is_cancelled_and_holds_nobody_up);
	tcase_add_test(t, a_pull_ends_with_the_acquires_time);
	tcase_add_test(t, a_pull_ends_with_the_provider);
	tcase_add_test(t, spares_pull_first);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
