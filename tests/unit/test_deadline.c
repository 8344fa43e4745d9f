/* SPDX-License-Identifier: Apache-2.0 */
/* A deadline as a token: which of its reasons comes first, and that its thread ends. */
#include <check.h>
#include <time.h>

#include "base/clock.h"
#include "base/deadline.h"

static void nap_ms(unsigned ms)
{
	const struct timespec t = {.tv_nsec = (long)ms * 1000000};

	(void)nanosleep(&t, NULL);
}

START_TEST(comes)
{
	struct deadline d;
	const uint64_t begun_ms = clock_mono_ms();

	ck_assert_int_eq(deadline_begin(&d, 50, NULL), 0);
	ck_assert(!cancel_fired(&d.join.token));
	while (!cancel_fired(&d.join.token))
		nap_ms(1);
	ck_assert_uint_ge(clock_mono_ms() - begun_ms, 50);
	ck_assert(deadline_end(&d));
}
END_TEST

START_TEST(is_not_waited_for)
{
	struct deadline d;
	const uint64_t begun_ms = clock_mono_ms();

	ck_assert_int_eq(deadline_begin(&d, 60000, NULL), 0);
	ck_assert(!deadline_end(&d));
	ck_assert_uint_lt(clock_mono_ms() - begun_ms, 10000);
}
END_TEST

START_TEST(other_token_comes_first)
{
	holt_cancel *cancel = NULL;
	struct deadline d;

	ck_assert_int_eq(cancel_new(&cancel, NULL), 0);
	ck_assert_int_eq(deadline_begin(&d, 60000, cancel), 0);
	cancel_trigger(cancel);
	ck_assert(cancel_fired(&d.join.token));
	ck_assert(!deadline_end(&d));
	/* One that has fired before. */
	ck_assert_int_eq(deadline_begin(&d, HOLT_FOREVER, cancel), 0);
	ck_assert(cancel_fired(&d.join.token));
	ck_assert(!deadline_end(&d));
	cancel_free(cancel);
}
END_TEST

START_TEST(none_at_all)
{
	struct deadline d;

	ck_assert_int_eq(deadline_begin(&d, HOLT_FOREVER, NULL), 0);
	ck_assert(!cancel_fired(&d.join.token));
	ck_assert(!deadline_end(&d));
	ck_assert_int_eq(deadline_begin(&d, 0, NULL), 0);
	while (!cancel_fired(&d.join.token))
		nap_ms(1);
	ck_assert(deadline_end(&d));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("deadline");
	TCase *t = tcase_create("deadline");
	SRunner *runner = srunner_create(s);

	tcase_add_test(t, comes);
	tcase_add_test(t, is_not_waited_for);
	tcase_add_test(t, other_token_comes_first);
	tcase_add_test(t, none_at_all);
	suite_add_tcase(s, t);
	srunner_run_all(runner, CK_ENV);
	const int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
