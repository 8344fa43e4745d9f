/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of the contract: times, commands with their ends and cuts, UTF-8 with replacement. */
#include <check.h>
#include <string.h>

#include "sandbox/text.h"

#include "base/mem.h"

#define R "\xEF\xBF\xBD"

static void check_compose(const char *out, const char *err, int code, const char *want)
{
	const struct text_stream o = {out, strlen(out), strlen(out)};
	const struct text_stream e = {err, strlen(err), strlen(err)};
	const holt_exit exit = {.struct_size = sizeof exit, .code = code};
	size_t len = 0;
	char *text = text_compose(&o, &e, &exit, 600000, &len);

	ck_assert_str_eq(text, want);
	ck_assert_uint_eq(len, strlen(want));
	mem_free(text);
}

/* C-50 to C-53 */
START_TEST(output_and_exit_code)
{
	check_compose("a\n", "b\n", 0, "a\n\nb\n");
	check_compose("a\n", "", 0, "a\n");
	check_compose("", "b", 0, "b");
	check_compose("", "", 0, "(no output)");
	check_compose("", "", 3, "Command exited with code 3");
	check_compose("5 passed, 1 error\n", "", 1, "5 passed, 1 error\n\nExit Code: 1");
	check_compose("a", "b", 137, "a\nb\nExit Code: 137");
	check_compose(" ", "", 0, " ");
}
END_TEST

static char *compose_late(const char *out, uint64_t timeout_ms)
{
	const struct text_stream o = {out, strlen(out), strlen(out)};
	const struct text_stream e = {"", 0, 0};
	const holt_exit exit = {.code = 124, .flags = HOLT_EXIT_TIMED_OUT};
	size_t len = 0;

	return text_compose(&o, &e, &exit, timeout_ms, &len);
}

/* C-59, C-292 */
START_TEST(time_out_after_the_output)
{
	static const char after[] =
		"part\n\nCommand timed out after 2 seconds and was terminated. ";
	static const char alone[] = "Command timed out after 1.5 seconds and was terminated. ";
	auto_free char *with = compose_late("part\n", 2000);
	auto_free char *without = compose_late("", 1500);

	ck_assert_int_eq(strncmp(with, after, strlen(after)), 0);
	ck_assert_int_eq(strncmp(without, alone, strlen(alone)), 0);
	ck_assert_ptr_nonnull(strstr(with, "background"));
	ck_assert_ptr_null(strstr(with, "Exit Code"));
	/* A program's own 124 is one like any other. */
	check_compose("x", "", 124, "x\nExit Code: 124");
}
END_TEST

START_TEST(times)
{
	static const struct {
		uint64_t ms;
		const char *text;
	} rows[] = {{1000, "1 second"}, {2000, "2 seconds"}, {1500, "1.5 seconds"},
		{600000, "600 seconds"}, {250, "0.25 seconds"}, {1, "0.001 seconds"},
		{0, "0 seconds"}, {90061001, "90061 seconds"}, {HOLT_FOREVER, "any time"}};
	char text[TEXT_TIME_SIZE];

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		text_time(text, sizeof text, rows[i].ms);
		ck_assert_str_eq(text, rows[i].text);
	}
}
END_TEST

/* C-61 */
START_TEST(a_cut_stream_tells_how_much_there_was)
{
	const struct text_stream o = {"0123456789", 10, 25};
	const struct text_stream e = {"err", 3, 4};
	const holt_exit exit = {.code = 2};
	size_t len = 0;
	auto_free char *text = text_compose(&o, &e, &exit, 1000, &len);

	ck_assert_str_eq(text,
		"0123456789\n... [output truncated after 10 of 25 bytes; remaining output "
		"discarded] ...\nerr\n... [output truncated after 3 of 4 bytes; remaining output "
		"discarded] ...\nExit Code: 2");
}
END_TEST

/* What Python's bytes.decode(errors="replace") gives. */
START_TEST(replacement_of_what_is_no_utf8)
{
	static const char *const rows[][2] = {
		{"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80",
			"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"},
		{"\xFF", R},
		{"a\x80"
		 "b",
			"a" R "b"},
		{"\xC3", R}, /* cut in the middle */
		{"\xE2\x82", R},
		{"\xF0\x9F\x98", R},
		{"\xE2\x82"
		 "x",
			R "x"},
		{"\xF0\x9F\xC3\xA9", R "\xC3\xA9"},
		{"\xC0\xAF", R R}, /* overlong */
		{"\xE0\x80\xAF", R R R},
		{"\xE0\x9F\xBF", R R R},
		{"\xED\xA0\x80", R R R}, /* a surrogate */
		{"\xED\x9F\xBF", "\xED\x9F\xBF"},
		{"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},
		{"\xF4\x90\x80\x80", R R R R},
		{"\xF5\x80", R R},
		{"\xF0\x80\x80\x80", R R R R},
		{"\xC3\xC3\xA9", R "\xC3\xA9"},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		check_compose(rows[i][0], "", 0, rows[i][1]);
}
END_TEST

START_TEST(nul_bytes_stay)
{
	const struct text_stream o = {"a\0b", 3, 3};
	const struct text_stream e = {"", 0, 0};
	const holt_exit exit = {0};
	size_t len = 0;
	auto_free char *text = text_compose(&o, &e, &exit, 1000, &len);

	ck_assert_uint_eq(len, 3);
	ck_assert_int_eq(memcmp(text, "a\0b", 4), 0);
}
END_TEST

START_TEST(counting_characters)
{
	ck_assert_uint_eq(text_chars("abc", 3, 2), 2);
	ck_assert_uint_eq(text_chars("abc", 3, 9), 3);
	ck_assert_uint_eq(text_chars("", 0, 9), 0);
	ck_assert_uint_eq(text_chars("\xC3\xA9\xE2\x82\xAC!", 6, 2), 5);
	/* Each byte that belongs to none is one. */
	ck_assert_uint_eq(text_chars("\xE2\x82!", 3, 2), 2);
	ck_assert_uint_eq(text_chars("\xFF\xFF\xC3\xA9", 4, 3), 4);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
	const struct text_stream o = {"\xFFx", 2, 9};
	const struct text_stream e = {"y", 1, 1};
	const holt_exit exit = {.code = 1};
	size_t len = 0;
	char *text = NULL;
	unsigned n = 0;

	while (!text) {
		mem_fail_at(++n);
		text = text_compose(&o, &e, &exit, 1000, &len);
		mem_fail_at(0);
	}
	ck_assert_uint_ge(n, 2);
	mem_free(text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("text");
	TCase *t = tcase_create("all");

	tcase_add_test(t, output_and_exit_code);
	tcase_add_test(t, time_out_after_the_output);
	tcase_add_test(t, times);
	tcase_add_test(t, a_cut_stream_tells_how_much_there_was);
	tcase_add_test(t, replacement_of_what_is_no_utf8);
	tcase_add_test(t, nul_bytes_stay);
	tcase_add_test(t, counting_characters);
	tcase_add_test(t, every_allocation_may_fail);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
