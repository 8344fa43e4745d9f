/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/ignore.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The contract's list, as an example. */
static const char *const list[] = {".git", ".svn", ".hg", ".bzr", "node_modules", "__pycache__",
	".venv", "venv", ".env", "env", ".tox", ".nox", ".eggs", "*.egg-info", "site-packages",
	"dist", "build", ".next", ".nuxt", ".output", ".turbo", "target", "out", ".idea", ".vscode",
	"*.swp", "*.swo", "*~", ".project", ".classpath", ".settings", ".DS_Store", "Thumbs.db",
	"desktop.ini", "*.lnk", "*.log", "*.tmp", "*.temp", ".upload-*.part", "*.bak", "*.cache",
	".cache", "logs", ".coverage", "coverage", ".nyc_output", "htmlcov", ".pytest_cache",
	".mypy_cache", ".ruff_cache"};
#define LIST_LEN (sizeof(list) / sizeof(list[0]))

static char packed[WIRE_STRS_MAX * 16];

static void init(struct ignore *ig, const char *const *patterns, size_t n)
{
	struct wire_strs strs = {.data = (const uint8_t *)packed, .count = (uint32_t)n};

	for (size_t i = 0; i < n; i++) {
		const size_t len = strlen(patterns[i]) + 1;
		ck_assert_uint_lt(strs.len + len, sizeof(packed));
		memcpy(packed + strs.len, patterns[i], len);
		strs.len += (uint32_t)len;
	}
	ck_assert_int_eq(ignore_init(ig, &strs), 0);
}

static bool ignored(const struct ignore *ig, const char *name)
{
	return ignore_matches(ig, name, strlen(name));
}

START_TEST(contract_list)
{
	static const char *const yes[] = {".git", "a.log", "x~", "~", ".upload-9.part",
		"foo.egg-info", ".log", "node_modules", ".ruff_cache", ".upload-.part", "a b.tmp",
		"\xff.swp", "x.cache", ".cache", "a\n.log"};
	static const char *const no[] = {".GIT", "Dist", "x.LOG", "~a", "builds", "environment",
		"a.tmp.txt", ".gitignore", "log", ".upload-9.part2", "x.upload-9.part", "gi", "",
		".upload-part", "git", "logs2", "a/.git"};
	struct ignore ig;

	init(&ig, list, LIST_LEN);
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		ck_assert_msg(ignored(&ig, yes[i]), "%s", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		ck_assert_msg(!ignored(&ig, no[i]), "%s", no[i]);
	ignore_done(&ig);
}
END_TEST

START_TEST(other_forms)
{
	static const char *const forms[] = {"a*", "*", "x?z", "[0-9]*", "p*q*r", ""};
	struct ignore ig;

	init(&ig, NULL, 0);
	ck_assert(!ignored(&ig, "a"));
	ignore_done(&ig);
	init(&ig, forms, 1);
	ck_assert(ignored(&ig, "abc") && !ignored(&ig, "bc"));
	ignore_done(&ig);
	init(&ig, forms + 1, 1);
	ck_assert(ignored(&ig, "anything"));
	ignore_done(&ig);
	init(&ig, forms + 2, 4);
	ck_assert(ignored(&ig, "xyz") && ignored(&ig, "7up") && ignored(&ig, "p.q.r"));
	ck_assert(!ignored(&ig, "xz") && !ignored(&ig, "up7") && !ignored(&ig, "p.r.q"));
	ignore_done(&ig);
}
END_TEST

/* Names whose length is beyond the mask. */
START_TEST(long_names)
{
	static char name[256];
	struct ignore ig;
	const char *const one = name;

	memset(name, 'n', 200);
	init(&ig, &one, 1);
	ck_assert(ignored(&ig, name));
	name[199] = 0;
	ck_assert(!ignored(&ig, name));
	ignore_done(&ig);
}
END_TEST

/* The same as trying all patterns, for as many as a list can have and names close to them. */
START_TEST(same_as_trying_all)
{
	static char text[WIRE_STRS_MAX][12];
	static const char *many[WIRE_STRS_MAX];
	unsigned seed = 1;
	unsigned yes = 0;
	struct ignore ig;

	for (int i = 0; i < WIRE_STRS_MAX; i++) {
		for (int k = 0; k < 2 + i % 4; k++)
			text[i][k] = "abcdefghij*"[(unsigned)rand_r(&seed) % (i % 3 ? 10 : 11)];
		many[i] = text[i];
	}
	/* One that is nothing but stars would match all. */
	for (int i = 0; i < WIRE_STRS_MAX; i++)
		if (strspn(text[i], "*") == strlen(text[i]))
			text[i][0] = 'z';
	init(&ig, many + 5, 40);
	for (int n = 0; n < 5000; n++) {
		char name[8] = "";
		bool want = false;
		for (int k = 0; k < 1 + n % 5; k++)
			name[k] = (char)('a' + (unsigned)rand_r(&seed) % 10);
		for (int i = 5; i < 45; i++) {
			struct glob_segment s;
			glob_segment_init(&s, text[i], strlen(text[i]));
			want = want || glob_segment_matches(&s, name, strlen(name));
		}
		ck_assert_msg(ignored(&ig, name) == want, "%s", name);
		yes += want;
	}
	ck_assert_uint_gt(yes, 100);
	ck_assert_uint_lt(yes, 4900);
	ignore_done(&ig);
	init(&ig, many, WIRE_STRS_MAX);
	for (int i = 0; i < WIRE_STRS_MAX; i++)
		ck_assert(strchr(text[i], '*') || ignored(&ig, text[i]));
	ignore_done(&ig);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ignore");
	TCase *t = tcase_create("ignore");

	tcase_add_test(t, contract_list);
	tcase_add_test(t, other_forms);
	tcase_add_test(t, long_names);
	tcase_add_test(t, same_as_trying_all);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
