/* SPDX-License-Identifier: Apache-2.0 */
/* The options of holt sandbox: what words mean, where they stand, and which are none. */
#include <check.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>

#include "cli/sandbox_verbs.h"

static const struct sandbox_verb all = {
	.name = "sandbox all", .words = "BOX ONE TWO", .options = UINT32_MAX};
static const struct sandbox_verb reading = {
	.name = "sandbox read", .words = "BOX PATH", .options = SANDBOX_LINES | SANDBOX_TIMEOUT};

/* Words up to a NULL; returns the status. */
static int parse(struct sandbox_args *a, const struct sandbox_verb *verb, ...)
{
	static char name[] = "verb";
	char *argv[16] = {name};
	int argc = 1;
	va_list ap;

	*a = (struct sandbox_args){.verb = verb->name, .open = HOLT_SANDBOX_OPTIONS_INIT};
	va_start(ap, verb);
	while ((argv[argc] = va_arg(ap, char *)))
		argc++;
	va_end(ap);
	optind = 0;
	ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr));
	return sandbox_args_parse(a, verb, argc, argv);
}

START_TEST(words_and_options_in_any_order)
{
	struct sandbox_args a;

	ck_assert_int_eq(parse(&a, &all, "-r", "box", "--depth", "3", "x", "-f0", "y", "--json",
				 "-u", "me", NULL),
		CLI_OK);
	ck_assert_str_eq(a.box, "box");
	ck_assert_str_eq(a.words[0], "x");
	ck_assert_str_eq(a.words[1], "y");
	ck_assert_str_eq(a.open.user, "me");
	ck_assert_uint_eq(a.depth, 3);
	ck_assert_uint_eq(a.flags, HOLT_REMOVE_RECURSIVE | HOLT_REMOVE_FORCE);
	ck_assert_uint_eq(a.given, SANDBOX_RECURSIVE | SANDBOX_DEPTH | SANDBOX_FORCE |
					   SANDBOX_NULL | SANDBOX_JSON | SANDBOX_USER);
	/* Behind "--" nothing is an option. */
	ck_assert_int_eq(parse(&a, &all, "box", "--", "-r", "--json", NULL), CLI_OK);
	ck_assert_str_eq(a.words[0], "-r");
	ck_assert_str_eq(a.words[1], "--json");
	ck_assert_uint_eq(a.given, 0);
}
END_TEST

START_TEST(words_are_counted)
{
	struct sandbox_args a;

	ck_assert_int_eq(parse(&a, &all, "box", "x", NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, &reading, NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, &reading, "box", "x", "y", NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, &reading, "box", "", NULL), CLI_OK);
	/* Options of other verbs. */
	ck_assert_int_eq(parse(&a, &reading, "--json", "box", "x", NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, &reading, "-r", "box", "x", NULL), CLI_USAGE);
}
END_TEST

/* The library's 0 is its default, so a user's 0 has another name there. */
START_TEST(zero_is_none)
{
	struct sandbox_args a;

	ck_assert_int_eq(parse(&a, &all, "--depth", "0", "--timeout", "0", "--max-results", "0",
				 "b", "x", "y", NULL),
		CLI_OK);
	ck_assert_uint_eq(a.depth, HOLT_LIST_DEPTH_ROOT);
	ck_assert_uint_eq(a.timeout_ms, HOLT_FOREVER);
	ck_assert_uint_eq(a.max, HOLT_NO_RESULTS);
	ck_assert_int_eq(parse(&a, &all, "--max-entries", "0", "b", "x", "y", NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, &all, "--max-entries", "1000000", "b", "x", "y", NULL), CLI_OK);
	ck_assert_uint_eq(a.max, HOLT_LIST_ENTRIES_MAX);
	ck_assert_int_eq(
		parse(&a, &all, "--max-entries", "1000001", "b", "x", "y", NULL), CLI_USAGE);
}
END_TEST

START_TEST(lines)
{
	static const struct {
		const char *text;
		int64_t first, last;
	} cases[] = {{"2:5", 2, 5}, {"2:", 2, 0}, {":5", 1, 5}, {"3", 3, 3}, {"5:2", 5, 2},
		/* From too early is from the beginning; up to line 0 is nothing. */
		{"-1:2", -1, 2}, {"2:0", 2, -1}, {"2:-7", 2, -1}, {":0", 1, -1}, {"0", 0, -1}};
	static const char *const bad[] = {
		"", ":", "-", "x", "2-5", "1:2:3", "1:x", " 1", "1: 2", "99999999999999999999"};
	struct sandbox_args a;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		ck_assert_int_eq(
			parse(&a, &reading, "--lines", cases[i].text, "b", "x", NULL), CLI_OK);
		ck_assert_msg(a.first_line == cases[i].first && a.last_line == cases[i].last,
			"'%s' is %lld to %lld", cases[i].text, (long long)a.first_line,
			(long long)a.last_line);
		ck_assert_uint_eq(a.flags, HOLT_READ_LINES);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ck_assert_msg(parse(&a, &reading, "--lines", bad[i], "b", "x", NULL) == CLI_USAGE,
			"'%s' is taken", bad[i]);
}
END_TEST

/* --for and --thread stand for the first word. */
START_TEST(a_scope_in_place_of_the_box)
{
	static const struct sandbox_verb release = {.name = "sandbox release",
		.words = "ID",
		.options = SANDBOX_FOR | SANDBOX_THREAD | SANDBOX_POOL};
	static const struct sandbox_verb ps = {
		.name = "sandbox ps", .words = "", .options = SANDBOX_POOL};
	struct sandbox_args a;

	ck_assert_int_eq(parse(&a, &all, "x", "--thread", "7", "y", "--for", "", "--pool", "p",
				 "--image", "i", "--config", "c", "--pull", "never", NULL),
		CLI_OK);
	ck_assert_str_eq(a.pool.pull, "never");
	ck_assert_ptr_null(a.box);
	ck_assert_str_eq(a.words[0], "x");
	ck_assert_str_eq(a.words[1], "y");
	ck_assert_str_eq(a.for_user, "");
	ck_assert_str_eq(a.thread, "7");
	ck_assert_str_eq(a.pool.pool, "p");
	ck_assert_str_eq(a.pool.image, "i");
	ck_assert_str_eq(a.pool.config, "c");
	ck_assert_int_eq(parse(&a, &release, "--for", "u", "--thread", "t", NULL), CLI_OK);
	ck_assert_int_eq(parse(&a, &release, "id", NULL), CLI_OK);
	ck_assert_str_eq(a.box, "id");
	ck_assert_ptr_null(a.for_user);
	ck_assert_int_eq(parse(&a, &ps, NULL), CLI_OK);
	ck_assert_int_eq(parse(&a, &ps, "x", NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, &release, "--for", "u", "--thread", "t", "id", NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, &release, NULL), CLI_USAGE);
	ck_assert_int_eq(
		parse(&a, &all, "box", "x", "y", "--for", "u", "--thread", "t", NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, &all, "--for", "u", "x", "y", NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, &all, "--thread", "t", "b", "x", "y", NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, &all, "--image", "i", "b", "x", "y", NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, &all, "--pull", "never", "b", "x", "y", NULL), CLI_USAGE);
	ck_assert_int_eq(
		parse(&a, &all, "--for", "u", "--thread", "t", "--pull", "newer", "x", "y", NULL),
		CLI_USAGE);
}
END_TEST

START_TEST(a_lease_is_at_most_a_day)
{
	struct sandbox_args a;

	ck_assert_int_eq(parse(&a, &all, "--ttl", "24h", "b", "x", "y", NULL), CLI_OK);
	ck_assert_uint_eq(a.ttl_ms, HOLT_LEASE_MS_MAX);
	ck_assert_int_eq(parse(&a, &all, "--ttl", "86400.001", "b", "x", "y", NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, &all, "--ttl", "0", "b", "x", "y", NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, &all, "--ttl", "soon", "b", "x", "y", NULL), CLI_USAGE);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {words_and_options_in_any_order, words_are_counted,
		zero_is_none, lines, a_scope_in_place_of_the_box, a_lease_is_at_most_a_day};
	Suite *s = suite_create("sandbox_args");
	TCase *c = tcase_create("sandbox_args");

	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
