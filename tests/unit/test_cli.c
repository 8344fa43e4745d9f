/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line makes of text: escapes, JSON, ages, and the numbers that users write. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

#define STR(s) (s), sizeof(s) - 1

static void expect_escape(const char *src, size_t len, unsigned flags, const char *want)
{
	char out[256];
	size_t used = 0;
	const size_t n = cli_escape(out, sizeof out, src, len, flags, &used);

	ck_assert_str_eq(out, want);
	ck_assert_uint_eq(n, strlen(want));
	ck_assert_uint_eq(used, len);
}

START_TEST(escape_keeps_text)
{
	expect_escape(STR("plain \\ text"), 0, "plain \\ text");
	expect_escape(STR("\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80"), 0,
		"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80");
	expect_escape(STR(""), 0, "");
}
END_TEST

START_TEST(escape_hides_commands)
{
	expect_escape(STR("\x1b]0;x\a"), 0, "\\x1b]0;x\\x07");
	expect_escape(STR("a\nb\tc\r"), 0, "a\\x0ab\\x09c\\x0d");
	expect_escape(STR("\0\x7f"), 0, "\\x00\\x7f");
	/* C1 controls, also as UTF-8; overlong; surrogate; beyond the last; direction overrides. */
	expect_escape(STR("\x9b\xc2\x9b"), 0, "\\x9b\\xc2\\x9b");
	expect_escape(STR("\xc0\x80\xe0\x80\x80"), 0, "\\xc0\\x80\\xe0\\x80\\x80");
	expect_escape(STR("\xed\xa0\x80"), 0, "\\xed\\xa0\\x80");
	expect_escape(STR("\xf4\x90\x80\x80\xff"), 0, "\\xf4\\x90\\x80\\x80\\xff");
	expect_escape(STR("\xe2\x80\xae"), 0, "\\xe2\\x80\\xae");
	/* A character that breaks off costs only its own bytes. */
	expect_escape(STR("\xe2\x82z\xe2\x82"), 0, "\\xe2\\x82z\\xe2\\x82");
}
END_TEST

START_TEST(escape_of_lines)
{
	expect_escape(STR("a\tb\r\nc\rd\n"), CLI_ESCAPE_LINES, "a\tb\nc\\x0dd\n");
	expect_escape(STR("\r"), CLI_ESCAPE_LINES, "\\x0d");
}
END_TEST

/* What a log's pieces end with is not judged before the rest is there. */
START_TEST(escape_waits_for_more)
{
	char out[64];
	size_t used = 9;

	cli_escape(out, sizeof out, STR("ab\xe2\x82"), CLI_ESCAPE_MORE, &used);
	ck_assert_str_eq(out, "ab");
	ck_assert_uint_eq(used, 2);
	cli_escape(out, sizeof out, STR("ab\r"), CLI_ESCAPE_LINES | CLI_ESCAPE_MORE, &used);
	ck_assert_str_eq(out, "ab");
	ck_assert_uint_eq(used, 2);
}
END_TEST

START_TEST(escape_stays_in_its_room)
{
	char out[12];
	size_t used = 0;

	memset(out, 'z', sizeof out);
	ck_assert_uint_eq(cli_escape(out, 11, STR("\x01\x02\x03\x04"), 0, &used), 8);
	ck_assert_str_eq(out, "\\x01\\x02");
	ck_assert_uint_eq(used, 2);
	ck_assert_int_eq(out[11], 'z');
}
END_TEST

START_TEST(cut_to_columns)
{
	char text[16];

	strcpy(text, "12345");
	cli_cut(text, sizeof text, 5);
	ck_assert_str_eq(text, "12345");
	strcpy(text, "123456");
	cli_cut(text, sizeof text, 5);
	ck_assert_str_eq(text, "1234\xe2\x80\xa6");
	strcpy(text, "\xc3\xbc\xc3\xbc\xc3\xbc");
	cli_cut(text, sizeof text, 2);
	ck_assert_str_eq(text, "\xc3\xbc\xe2\x80\xa6");
	ck_assert_uint_eq(cli_columns(text), 2);
	/* No room for the mark: cut all the same. */
	strcpy(text, "123");
	cli_cut(text, 4, 2);
	ck_assert_str_eq(text, "1");
}
END_TEST

START_TEST(ages)
{
	static const struct {
		int64_t seconds;
		const char *want;
	} cases[] = {{-5, "Less than a second"}, {0, "Less than a second"}, {1, "1 second"},
		{59, "59 seconds"}, {60, "About a minute"}, {119, "About a minute"},
		{120, "2 minutes"}, {3599, "59 minutes"}, {3600, "About an hour"},
		{7200, "2 hours"}, {172800, "2 days"}, {1209600, "2 weeks"}, {5184000, "2 months"},
		{63072000, "2 years"}, {INT64_MAX, "292471208677 years"}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char out[64];

		cli_format_age(out, sizeof out, cases[i].seconds);
		ck_assert_str_eq(out, cases[i].want);
	}
}
END_TEST

START_TEST(sizes)
{
	char out[64];

	cli_format_bytes(out, sizeof out, 999, 1000);
	ck_assert_str_eq(out, "999 B");
	cli_format_bytes(out, sizeof out, 1500, 1000);
	ck_assert_str_eq(out, "1.5 kB");
	cli_format_bytes(out, sizeof out, 512ull << 20, 1024);
	ck_assert_str_eq(out, "512.0 MiB");
	cli_format_bytes(out, sizeof out, UINT64_MAX, 1024);
	ck_assert_str_eq(out, "16777216.0 TiB");
}
END_TEST

static void expect_json(const char *json, int pretty, const char *want)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	ck_assert_ptr_nonnull(out);
	cli_json_print(out, json, pretty, 0);
	ck_assert_int_eq(fclose(out), 0);
	ck_assert_str_eq(text, want);
	free(text);
}

START_TEST(json_is_printed)
{
	expect_json("{\"a\":[1,{}],\"b\":{\"c\":\"x,{\\\"y\"},\"d\":[]}", 1,
		"{\n    \"a\": [\n        1,\n        {}\n    ],\n"
		"    \"b\": {\n        \"c\": \"x,{\\\"y\"\n    },\n    \"d\": []\n}");
	expect_json("{\"a\": [1, 2]}", 0, "{\"a\": [1, 2]}");
	/* Legal in JSON, and nothing for a terminal. */
	expect_json("\"\x7f\xc2\x9b\xe2\x80\xae\xc3\xbc\xff\"", 0,
		"\"\\u007f\\u009b\\u202e\xc3\xbc\\ufffd\"");
	/* Not well-formed, which may be seen, and may not be run beyond. */
	expect_json("{\"a\\", 1, "{\n    \"a\\");
}
END_TEST

static void expect_string(const char *data, size_t len, enum cli_json_bytes rule, const char *want)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	ck_assert_ptr_nonnull(out);
	cli_json_string(out, data, len, rule);
	ck_assert_int_eq(fclose(out), 0);
	ck_assert_str_eq(text, want);
	free(text);
}

START_TEST(json_of_bytes)
{
	expect_string(STR(""), CLI_JSON_PATH, "\"\"");
	expect_string(STR("a \"b\\\n\xc3\xbc\xf0\x9f\x98\x80"), CLI_JSON_PATH,
		"\"a \\\"b\\\\\\u000a\xc3\xbc\xf0\x9f\x98\x80\"");
	expect_string(STR("\x1b\xe2\x80\xae"), CLI_JSON_PATH, "\"\\u001b\\u202e\"");
	/* Latin-1, overlong, surrogate, beyond the last, and one that breaks off. */
	expect_string(STR("\xe9z\xc0\x80"), CLI_JSON_PATH, "\"\\u0000e9z\\u0000c0\\u000080\"");
	expect_string(STR("\xed\xa0\x80"), CLI_JSON_PATH, "\"\\u0000ed\\u0000a0\\u000080\"");
	expect_string(
		STR("\xf4\x90\x80\x80"), CLI_JSON_PATH, "\"\\u0000f4\\u000090\\u000080\\u000080\"");
	expect_string(STR("\xe2\x82"), CLI_JSON_PATH, "\"\\u0000e2\\u000082\"");
	expect_string(STR("\xe9\0z"), CLI_JSON_TEXT, "\"\\ufffd\\u0000z\"");
}
END_TEST

START_TEST(json_members)
{
	static const char json[] = "{\"id\": \"name\",\"name\":\"a\\\"b\",\"n\":12,\"e\":\"\"}";
	const char *value = NULL;

	ck_assert_uint_eq(cli_json_member(json, "name", &value), 4);
	ck_assert_int_eq(memcmp(value, "a\\\"b", 4), 0);
	ck_assert_uint_eq(cli_json_member(json, "n", &value), 2);
	ck_assert_int_eq(memcmp(value, "12", 2), 0);
	ck_assert_uint_eq(cli_json_member(json, "e", &value), 0);
	ck_assert_uint_eq(cli_json_member(json, "nam", &value), 0);
	ck_assert_str_eq(value, "");
	ck_assert_uint_eq(cli_json_member("{}", "name", &value), 0);
}
END_TEST

START_TEST(signals)
{
	static const struct {
		const char *text;
		int want;
	} cases[] = {{"9", 9}, {"64", 64}, {"TERM", SIGTERM}, {"SIGINT", SIGINT},
		{"sighup", SIGHUP}, {"RTMIN", 34}, {"SIGRTMIN+3", 37}, {"RTMAX-1", 63}};
	static const char *const bad[] = {"0", "65", "-1", "", "SIG", "FOO", "RTMIN+", "RTMIN-1",
		"RTMIN+31", "RTMAX+1", "TERM "};
	int number = 0;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		ck_assert_msg(cli_parse_signal(cases[i].text, &number) == 0, "%s", cases[i].text);
		ck_assert_int_eq(number, cases[i].want);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ck_assert_msg(cli_parse_signal(bad[i], &number) < 0, "'%s' is taken", bad[i]);
}
END_TEST

START_TEST(times)
{
	static const struct {
		const char *text;
		uint64_t want;
	} cases[] = {{"2023-11-14T22:13:20Z", 1700000000000000000},
		{"2023-11-14T22:13:20.5Z", 1700000000500000000},
		{"2023-11-14T22:13:20.123456789Z", 1700000000123456789},
		{"2023-11-14T23:43:20+01:30", 1700000000000000000},
		{"2023-11-14T20:13:20-02:00", 1700000000000000000},
		{"1700000000", 1700000000000000000}, {"1700000000.25", 1700000000250000000},
		{"0", 0}, {"99999999d", 0}};
	static const char *const bad[] = {"", "now", "10x", "-5m", "2023-11-14",
		"2023-11-14T22:13:20", "2023-11-14T22:13:20Zx", "1900-01-01T00:00:00Z"};
	uint64_t ns = 0;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		ck_assert_msg(cli_parse_time_ns(cases[i].text, &ns) == 0, "%s", cases[i].text);
		ck_assert_uint_eq(ns, cases[i].want);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ck_assert_msg(cli_parse_time_ns(bad[i], &ns) < 0, "'%s' is taken", bad[i]);
	const uint64_t now = cli_now_ns();
	ck_assert_int_eq(cli_parse_time_ns("10m", &ns), 0);
	ck_assert_uint_ge(ns + 600000000000u, now);
	ck_assert_uint_le(ns + 600000000000u, now + 60000000000u);
}
END_TEST

START_TEST(time_outs)
{
	static const struct {
		const char *text;
		uint64_t want_ms;
	} cases[] = {{"0", HOLT_FOREVER}, {"2s", 2000}, {"500ms", 500}, {"1m", 60000}, {"3", 3000},
		{"0.25", 250}, {"1H", 3600000}, {"2d", 172800000}};
	static const char *const bad[] = {
		"", "s", "-1", "0s", "0.2ms", "5x", "5msx", "5m s", "1e3"};
	uint64_t ms = 0;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		ck_assert_msg(cli_parse_timeout_ms(cases[i].text, &ms) == 0, "%s", cases[i].text);
		ck_assert_uint_eq(ms, cases[i].want_ms);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ck_assert_msg(cli_parse_timeout_ms(bad[i], &ms) < 0, "'%s' is taken", bad[i]);
}
END_TEST

START_TEST(dates)
{
	char out[64];

	cli_format_time(out, sizeof out, 1700000000000000009);
	ck_assert_str_eq(out, "2023-11-14T22:13:20.000000009Z");
	cli_format_time(out, sizeof out, -1);
	ck_assert_str_eq(out, "1969-12-31T23:59:59.999999999Z");
	cli_format_time(out, sizeof out, INT64_MIN);
	ck_assert_str_eq(out, "1677-09-21T00:12:43.145224192Z");
}
END_TEST

START_TEST(graces)
{
	uint64_t ms = 0;

	ck_assert_int_eq(cli_parse_grace_ms("0", &ms), 0);
	ck_assert_uint_eq(ms, HOLT_NO_GRACE);
	ck_assert_int_eq(cli_parse_grace_ms("1.5", &ms), 0);
	ck_assert_uint_eq(ms, 1500);
	ck_assert_int_lt(cli_parse_grace_ms("-1", &ms), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {escape_keeps_text, escape_hides_commands, escape_of_lines,
		escape_waits_for_more, escape_stays_in_its_room, cut_to_columns, ages, sizes,
		json_is_printed, json_of_bytes, json_members, signals, times, time_outs, dates,
		graces};
	Suite *s = suite_create("cli");
	TCase *c = tcase_create("cli");

	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
