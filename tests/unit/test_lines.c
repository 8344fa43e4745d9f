/* SPDX-License-Identifier: Apache-2.0 */
/* What is left of lines: the contract's golden file, and that pieces do not matter. */
#include <check.h>
#include <string.h>

#include "sandbox/lines.h"

static char got[4096];
static size_t got_len;

static int collect(const void *data, size_t len, void *user)
{
	ck_assert_uint_gt(len, 0);
	ck_assert_uint_le(got_len + len, sizeof got);
	memcpy(got + got_len, data, len);
	got_len += len;
	return user ? 5 : 0;
}

static void check_lines(const char *in, size_t len, const char *want)
{
	for (size_t step = 1; step <= len + 1; step++) {
		struct lines l = {0};

		got_len = 0;
		for (size_t at = 0; at < len; at += step) {
			const size_t n = len - at < step ? len - at : step;

			ck_assert_int_eq(lines_feed(&l, in + at, n, collect, NULL), 0);
		}
		ck_assert_uint_eq(got_len, strlen(want));
		ck_assert_int_eq(memcmp(got, want, got_len), 0);
	}
}

#define LINES(in, want) check_lines(in, sizeof(in) - 1, want)

/* C-81 to C-84 */
START_TEST(ends_of_lines)
{
	LINES("line 2\nline 3\nline 4\n", "line 2\nline 3\nline 4");
	LINES("line 4\nline 5", "line 4\nline 5");
	LINES("", "");
	LINES("\n", "");
	LINES("\n\n", "\n");
	LINES("a\n\nb\n", "a\n\nb");
	LINES("\n\na", "\n\na");
	LINES("a\r\nb\r\n", "a\nb");
	LINES("a\r\r\r\nb", "a\nb");
	LINES("trailing cr\r", "trailing cr");
	LINES("a\rb\n", "a\rb");
	LINES("a\r\rb\r", "a\r\rb");
	LINES("\r\n\r\n", "\n");
	LINES("\rx", "\rx");
	LINES("x\n\r", "x\n");
}
END_TEST

START_TEST(only_lf_ends_a_line)
{
	LINES("progress 10%\rprogress 100%\npage one\fpage two\nhead\xE2\x80\xA8tail\r\n"
	      "next\xC2\x85line\n",
		"progress 10%\rprogress 100%\npage one\fpage two\nhead\xE2\x80\xA8tail\n"
		"next\xC2\x85line");
	LINES("a\vb\x1C\x1D\x1E\xE2\x80\xA9\n", "a\vb\x1C\x1D\x1E\xE2\x80\xA9");
}
END_TEST

START_TEST(a_long_run_of_cr_inside_a_line_comes_back)
{
	struct lines l = {0};
	char crs[1000];

	memset(crs, '\r', sizeof crs);
	got_len = 0;
	ck_assert_int_eq(lines_feed(&l, crs, sizeof crs, collect, NULL), 0);
	ck_assert_int_eq(lines_feed(&l, crs, sizeof crs, collect, NULL), 0);
	ck_assert_uint_eq(got_len, 0);
	ck_assert_int_eq(lines_feed(&l, "x", 1, collect, NULL), 0);
	ck_assert_uint_eq(got_len, 2001);
	ck_assert_int_eq(memcmp(got, crs, sizeof crs), 0);
	ck_assert_int_eq(got[2000], 'x');
}
END_TEST

START_TEST(the_function_ends_it)
{
	struct lines l = {0};
	int mark = 0;

	got_len = 0;
	ck_assert_int_eq(lines_feed(&l, "one\ntwo", 7, collect, &mark), 5);
	ck_assert_uint_eq(got_len, 3);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("lines");
	TCase *t = tcase_create("all");

	tcase_add_test(t, ends_of_lines);
	tcase_add_test(t, only_lf_ends_a_line);
	tcase_add_test(t, a_long_run_of_cr_inside_a_line_comes_back);
	tcase_add_test(t, the_function_ends_it);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
