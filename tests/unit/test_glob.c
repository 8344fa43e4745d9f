/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/glob.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool matches(const char *pattern, const char *path)
{
	struct glob g;

	ck_assert_int_eq(glob_init(&g, pattern, strlen(pattern)), 0);
	const bool yes = glob_matches(&g, path, strlen(path));
	/* Whatever matches must be reachable. */
	for (const char *p = path; yes; p++) {
		const char *const slash = strchr(p, '/');
		if (!slash)
			break;
		ck_assert_msg(glob_beneath(&g, path, (size_t)(slash - path)),
			"'%s' would not be found with '%s'", path, pattern);
		p = slash;
	}
	ck_assert(!yes || glob_beneath(&g, "", 0));
	glob_done(&g);
	return yes;
}

struct row {
	const char *pattern;
	const char *path;
	bool want;
};

/* The table of the contract. */
static const struct row contract[] = {
	{"*.py", "d/e/a.py", true},
	{"*.PY", "a.py", false},
	{"src/*.js", "src/a.js", true},
	{"src/*.js", "x/src/a.js", false},
	{"src/*.js", "src/deep/b.js", false},
	{"src/**/*.js", "src/a.js", true},
	{"src/**/*.js", "src/d/b.js", true},
	{"src/**/*.js", "src/d/e/b.js", true},
	{"**/*.js", "a.js", true},
	{"**/*.js", "d/e/a.js", true},
	{"**/nested", "nested", true},
	{"**/nested", "a/nested", true},
	{"src/**", "src", true},
	{"src/**", "src/a/b", true},
	{"a/**/b", "a/b", true},
	{"a/**/**/b", "a/b", true},
	{"**/a/**", "a", true},
	{"*/*", "a/b/c", false},
	{"/abs/*.py", "abs/a.py", false},
	{"./a.py", "a.py", true},
	{"src//*.js", "src/a.js", true},
	{"src/", "src", true},
	{"*", "a/b", true},
	{"**", "a/b", true},
	{"a**b/c", "axxb/c", true},
	{"notes*", "notes.txt ", true},
	{"[ab].txt", "a.txt", true},
	{"[!ab].txt", "c.txt", true},
	{"[^ab].txt", "c.txt", false},
	{"a?c", "abc", true},
	{"a?c", "a/c", false},
	{".*", ".hid", true},
	{"*", ".hid", true},
	{"[", "[", true},
	{"\\*.txt", "*.txt", false},
	{"../*.py", "a.py", false},
};

static const struct row others[] = {
	/* Without a slash the name counts, with one the whole path. */
	{"a", "a/b", false},
	{"a", "b/a", true},
	{"src/", "x/src", false},
	{"src/.", "src", true},
	{"src/./a", "src/a", true},
	{"./", "a", false},
	{"/", "a", false},
	{"/**", "a", false},
	{"//a", "a", false},
	{"**/", "a/b", true},
	{"**/**", "a/b/c", true},
	{"./*", "a", true},
	{"./*", "a/b", false},
	/* Stars. */
	{"a*b*c", "a1b2b3c", true},
	{"a*b*c", "a1b2b3", false},
	{"*a*", "bab", true},
	{"a*a", "a", false},
	{"***", "x", true},
	{"a*", "b", false},
	{"*.tar.gz", "x.tar.gz", true},
	{"*.tar.gz", ".tar.gz", true},
	{"*.tar.gz", "tar.gz", false},
	{"?*", "", false},
	{"a**", "a", true},
	{"**a/x", "ba/x", true},
	{"**a/x", "d/ba/x", false},
	/* Segments behind "**" that have to be tried more than once. */
	{"**/a/b", "a/a/b", true},
	{"**/a/b/**/c", "a/b/a/b/x/c", true},
	{"**/a/*/c/**", "a/a/c/c/d", true},
	{"**/a/**/a/b", "a/x/a/a/b", true},
	{"x/**/y/**/z", "x/y/y/z", true},
	{"x/**/y/**/z", "x/z/y", false},
	{"**/b/*", "a/b/c/b", false},
	{"*/**/c", "c", false},
	{"*/**/c", "b/c", true},
	/* Sets. */
	{"[]]", "]", true},
	{"[!]]", "]", false},
	{"[!]]", "x", true},
	{"[]a]", "a", true},
	{"[a-c]", "b", true},
	{"[a-c]", "d", false},
	{"[a-]", "-", true},
	{"[-a]", "-", true},
	{"[c-a]", "b", false},
	{"[!c-a]", "b", true},
	{"[a-c-e]", "-", true},
	{"[a-c-e]", "d", false},
	{"[!a]", "a", false},
	{"[a", "[a", true},
	{"[!", "[!", true},
	{"[]", "[]", true},
	{"[!]", "[!]", true},
	{"x[a]y[", "xay[", true},
	{"[*]", "*", true},
	{"[*]", "a", false},
	{"[?]", "?", true},
	{"[[]", "[", true},
	{"*[0-9]", "a1", true},
	{"*[0-9]", "1a", false},
	/* A set does not reach over a slash. */
	{"[a/b]", "[a/b]", true},
	/* Characters are UTF-8, or single bytes. */
	{"?", "\xc3\xa4", true},
	{"?", "\xf0\x9f\x98\x80", true},
	{"??", "\xc3\xa4", false},
	{"[\xc3\xa4\xc3\xb6]", "\xc3\xb6", true},
	{"[\xc3\xa4\xc3\xb6]", "\xc3", false},
	{"[\xc3\xa0-\xc3\xbf]", "\xc3\xa4", true},
	{"?", "\xff", true},
	{"a?b",
		"a\xe4"
		"b",
		true},
	{"[!a]", "\xff", true},
	{"\xff*", "\xff\xfe", true},
	{"??", "\xed\xa0", true},
	{"?", "\xc0\x80", false},
	/* Nothing is trimmed, folded, or special. */
	{"*", "a\nb", true},
	{"a?b", "a\nb", true},
	{"* ", "x ", true},
	{"-*", "-x", true},
	{"a\\b", "a\\b", true},
	{"{a,b}", "a", false},
	{"~", "~", true},
};

START_TEST(contract_table)
{
	const struct row *const r = &contract[_i];

	ck_assert_msg(matches(r->pattern, r->path) == r->want, "'%s' '%s'", r->pattern, r->path);
}
END_TEST

START_TEST(more_rows)
{
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		ck_assert_msg(matches(others[i].pattern, others[i].path) == others[i].want,
			"'%s' '%s'", others[i].pattern, others[i].path);
}
END_TEST

static bool beneath(const char *pattern, const char *path)
{
	struct glob g;

	ck_assert_int_eq(glob_init(&g, pattern, strlen(pattern)), 0);
	const bool yes = glob_beneath(&g, path, strlen(path));
	glob_done(&g);
	return yes;
}

START_TEST(walks_only_where_it_may_find)
{
	ck_assert(beneath("*.c", ""));
	ck_assert(beneath("*.c", "any/where"));
	ck_assert(beneath("src/*.c", ""));
	ck_assert(beneath("src/*.c", "src"));
	ck_assert(!beneath("src/*.c", "doc"));
	ck_assert(!beneath("src/*.c", "src/deep"));
	ck_assert(!beneath("src/", "src"));
	ck_assert(beneath("src/**", "src"));
	ck_assert(beneath("src/**/x", "src/a/b/c"));
	ck_assert(!beneath("src/**/x", "srd/a"));
	ck_assert(beneath("*/b/**", "a"));
	ck_assert(beneath("*/b/**", "a/b"));
	ck_assert(!beneath("*/b/**", "a/c"));
	ck_assert(!beneath("/src", ""));
	ck_assert(!beneath("./", ""));
	ck_assert(beneath("**/x", "a/b"));
}
END_TEST

/* A plain, exponential reading of the rules, to compare with. */
static bool slow_names(const char *p, const char *s)
{
	if (*p == 0)
		return *s == 0;
	if (*p == '*')
		return slow_names(p + 1, s) || (*s && slow_names(p, s + 1));
	return *s && (*p == '?' || *p == *s) && slow_names(p + 1, s + 1);
}

static bool slow_paths(char *const *p, char *const *s)
{
	if (!*p)
		return !*s;
	if (strcmp(*p, "**") == 0)
		return slow_paths(p + 1, s) || (*s && slow_paths(p, s + 1));
	return *s && slow_names(*p, *s) && slow_paths(p + 1, s + 1);
}

/* Up to six words of the list, joined by slashes, and apart in @parts. */
static void make_path(const char *const *words, unsigned n, unsigned *seed, char *dst, char **parts)
{
	const unsigned count = 1 + (unsigned)rand_r(seed) % 6;

	dst[0] = 0;
	for (unsigned i = 0; i < count; i++) {
		const char *const w = words[(unsigned)rand_r(seed) % n];
		if (i > 0)
			memcpy(dst + strlen(dst), "/", 2);
		parts[i] = strcpy(malloc(8), w);
		memcpy(dst + strlen(dst), w, strlen(w) + 1);
	}
	parts[count] = NULL;
}

static void free_parts(char **parts)
{
	for (; *parts; parts++)
		free(*parts);
}

START_TEST(same_as_plain_reading_20000)
{
	static const char *const pats[] = {
		"**", "**", "a", "b", "*", "a*", "*b", "?", "a*a", "**b"};
	static const char *const names[] = {"a", "b", "ab", "aa", "aba"};
	unsigned seed = 20260101;
	unsigned yes = 0;

	for (int i = 0; i < 20000; i++) {
		char pattern[64], path[64];
		char *p[8], *s[8];
		make_path(pats, 10, &seed, pattern, p);
		make_path(names, 5, &seed, path, s);
		const bool want = strchr(pattern, '/')
					  ? slow_paths(p, s)
					  : slow_names(pattern, strrchr(path, '/')
									? strrchr(path, '/') + 1
									: path);
		ck_assert_msg(matches(pattern, path) == want, "'%s' '%s'", pattern, path);
		yes += want;
		free_parts(p);
		free_parts(s);
	}
	ck_assert_uint_gt(yes, 2000);
	ck_assert_uint_lt(yes, 18000);
}
END_TEST

/* As long as patterns and paths get, and nothing that fits at the end. */
START_TEST(stays_polynomial)
{
	static char pattern[65536];
	static char path[65536];
	static char name[256];
	const clock_t start = clock();

	for (size_t i = 0; i + 5 < 65000; i += 5)
		memcpy(pattern + i, "**/a/", 5);
	memcpy(pattern + 64995, "**/b", 5);
	for (size_t i = 0; i < 2000; i++)
		path[i] = i % 2 ? '/' : 'a';
	ck_assert(!matches(pattern, path));
	memcpy(path + 1999, "/b", 3);
	ck_assert(!matches(pattern, path));

	memset(name, 'a', 255);
	for (size_t i = 0; i < 65534; i++)
		pattern[i] = "a*"[i % 2];
	pattern[65534] = 'b';
	pattern[65535] = 0;
	ck_assert(!matches(pattern, name));
	memset(pattern, '[', 65534);
	ck_assert(!matches(pattern, name));
	ck_assert_int_lt((clock() - start) / CLOCKS_PER_SEC, 5);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("glob");
	TCase *t = tcase_create("glob");

	tcase_add_loop_test(t, contract_table, 0, (int)(sizeof(contract) / sizeof(contract[0])));
	tcase_add_test(t, more_rows);
	tcase_add_test(t, walks_only_where_it_may_find);
	tcase_add_test(t, same_as_plain_reading_20000);
	tcase_add_test(t, stays_polynomial);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
