/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/pattern.h"
#include "guest/pattern_python.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N(a) ((unsigned)(sizeof(a) / sizeof((a)[0])))

enum verdict { NO, YES, REFUSED };

/* What re.compile(PATTERN, re.IGNORECASE).search(LINE) of Python 3.11 says. */
static const struct {
	const char *pattern;
	const char *line;
	enum verdict want;
} rows[] = {
	{"\\u4e00", "\xe4\xb8\x80", YES},
	{"\\u4e00", "u4e00", NO},
	{"\\u4E00", "\xe4\xb8\x80", YES},
	{"\\u00411", "A1", YES},
	{"\\u0041", "a", YES},
	{"^\\u00e9{2}$", "\xc3\xa9\xc3\x89", YES},
	{"\\u002e", "a", NO},
	{"\\u000a", "n", NO},
	{"\\U0001F600", "\xf0\x9f\x98\x80", YES},
	{"\\U0001f600", "\xf0\x9f\x98\x81", NO},
	{"\\U0001F6000",
		"\xf0\x9f\x98\x80"
		"0",
		YES},
	{"\\U0010FFFF", "\xf4\x8f\xbf\xbf", YES},
	{"\\U00110000", "a", REFUSED},
	{"[\\u4e00-\\u9fff]", "\xe4\xb8\xad", YES},
	{"[\\u4e00-\\u9fff]", "u4e-9f", NO},
	{"[^\\u4e00-\\u9fff]", "\xe4\xb8\xad", NO},
	{"[^\\u4e00-\\u9fff]", "\xe4\xb8\xadx", YES},
	{"[\\U0001F600-\\U0001F64F]", "\xf0\x9f\x98\x90", YES},
	{"[]\\u0041]b", "]b", YES},
	{"[\\]\\u0041]b", "Ab", YES},
	{"[^]\\u0041]b", "Ab", NO},
	{"\\u212a", "k", YES},
	{"\\\\u0041", "A", NO},
	{"\\\\u0041", "\\u0041", YES},
	{"\\\\\\u0041", "\\A", YES},
	{"[\\\\u0041]+$", "A", NO},
	{"[\\\\u0041]+$", "\\u", YES},
	{"\\u", "", REFUSED},
	{"\\u004", "", REFUSED},
	{"\\u004g", "", REFUSED},
	{"\\U0001F60", "", REFUSED},
	{"[\\u00]", "", REFUSED},
	{"\\u{41}", "", REFUSED},
	{"^a{,3}$", "aaa", YES},
	{"^a{,3}$", "", YES},
	{"^a{,3}$", "aaaa", NO},
	{"^a{,3}$", "a{,3}", NO},
	{"^a{,}$", "aaaa", YES},
	{"^a{,}$", "", YES},
	{"^a{,}$", "a{,}", NO},
	{"^a{,0}$", "a", NO},
	{"^a{,02}$", "aa", YES},
	{"^a{,3}?$", "aa", YES},
	{"^a{,2}+a", "aa", NO},
	{"^(ab){,2}$", "abab", YES},
	{"^[ab]{,2}$", "ab", YES},
	{"^[ab]{,2}$", "aba", NO},
	{"^\\d{,2}$", "12", YES},
	{"^\\u4e00{,2}$", "\xe4\xb8\x80\xe4\xb8\x80", YES},
	{"^\\\\{,2}$", "\\\\", YES},
	{"^\\x41{,2}$", "aa", YES},
	{"^a{{,2}$", "a{{", YES},
	{"^a{,2}{$", "aa{", YES},
	{"^(?P<n>a)(?P=n){,2}$", "aaa", YES},
	{"a(?#[){,2}b", "b", YES},
	{"(?x) ^ a {,2} $", "aa", YES},
	{"(?x)a{,2} # [", "b", YES},
	{"{,3}", "", REFUSED},
	{"^{,3}", "a", REFUSED},
	{"a|{,3}", "a", REFUSED},
	{"({,3})", "a", REFUSED},
	{"a{,3}{,2}", "a", REFUSED},
	{"a{,3", "a{,3", YES},
	{"a{,x}", "a{,x}", YES},
	{"a{ ,3}", "a{ ,3}", YES},
	{"a{}", "a{}", YES},
	{"a\\{,3}", "a{,3}", YES},
	{"^a\\{,3}", "a", NO},
	{"^[{,3}]$", "3", YES},
	{"^[{,3}]$", "{,3}", NO},
	{"^[]{,3}]$", "]", YES},
	{"^[]{,3}]$", "0", NO},
	{"^[^]{,3}]$", "0", YES},
	{"^[^]{,3}]$", "3", NO},
	{"^[\\]{,3}]$", "0", NO},
	{"^[a]{,3}]$", "a]", YES},
	{"^[[{,3}]$", "0", NO},
	{"^[[]{,3}$", "[[", YES},
};

static enum verdict verdict(const char *pattern, const char *line, uint32_t flags)
{
	struct pattern_fault why;
	size_t start = 0;
	size_t end = 0;
	char text[64];
	struct pattern *const p = pattern_new(pattern, strlen(pattern), flags, 1000000, &why);

	if (!p)
		return REFUSED;
	(void)stpcpy(stpcpy(text, line), "\n");
	pattern_subject(p, text, strlen(text));
	const int rc = pattern_next(p, &start, &end);
	pattern_free(p);
	ck_assert_int_ge(rc, 0);
	return rc == PATTERN_FOUND ? YES : NO;
}

START_TEST(as_in_python)
{
	for (uint32_t how = 0; how <= PATTERN_INTERPRET; how += PATTERN_INTERPRET) {
		const enum verdict got = verdict(rows[_i].pattern, rows[_i].line, how);
		ck_assert_msg(got == rows[_i].want, "'%s' in '%s': %d instead of %d",
			rows[_i].pattern, rows[_i].line, got, rows[_i].want);
	}
}
END_TEST

/* A newline separates alternatives, in each of which it begins anew. */
START_TEST(alternatives)
{
	ck_assert_int_eq(verdict("x\n^a{,2}$", "aa", 0), YES);
	ck_assert_int_eq(verdict("\\Qx\n^a{,2}$", "aa", 0), YES);
	ck_assert_int_eq(verdict("(?#)x\n\\u4e00", "\xe4\xb8\x80", 0), YES);
	ck_assert_int_eq(verdict("a\n{,2}", "a", 0), REFUSED);
}
END_TEST

START_TEST(literals_are_left_alone)
{
	ck_assert_int_eq(verdict("a{,2}", "a{,2}", PATTERN_LITERAL), YES);
	ck_assert_int_eq(verdict("a{,2}", "aa", PATTERN_LITERAL), NO);
	ck_assert_int_eq(verdict("\\u0041", "\\u0041", PATTERN_LITERAL), YES);
	ck_assert_int_eq(verdict("\\u0041", "A", PATTERN_LITERAL), NO);
}
END_TEST

/* Where a fault is is told in the words that came. */
START_TEST(faults)
{
	static const struct {
		const char *pattern;
		size_t offset;
	} bad[] = {{"{,3}", 3}, {"\\u0041(", 7}, {"a{,2}(", 6}, {"a{,}b{,}c{,}(", 13},
		{"\\u0041\n\\u0041(", 14}, {"\\u0041{,3}*a)", 10}, {"[\\u0041-", 8},
		{"\\u00e4[\\u0042-\\u0041]", 20}, {"\\ud800", 6}, {"a\\U00110000b", 11},
		{"\\u004", 2}, {"x\\N{BULLET}", 3}, {"\\u0041\\", 7}};

	for (size_t i = 0; i < N(bad); i++) {
		struct pattern_fault why = {0};
		ck_assert_ptr_null(pattern_new(bad[i].pattern, strlen(bad[i].pattern), 0, 0, &why));
		ck_assert_msg(why.offset == bad[i].offset, "'%s': %s at %zu", bad[i].pattern,
			why.text, why.offset);
	}
}
END_TEST

/* What becomes of each, whatever stands around it. The first ones stay as they are. */
static const struct {
	const char *from;
	const char *to;
} parts[] = {{"a", NULL}, {"(", NULL}, {")", NULL}, {"|", NULL}, {"*", NULL}, {"{2}", NULL},
	{"{2,}", NULL}, {"{2,3}", NULL}, {"{}", NULL}, {"{,x}", NULL}, {"{,2,}", NULL},
	{"{,-2}", NULL}, {"{ ,2}", NULL}, {"{,2 }", NULL}, {"\\{,2}", NULL}, {"]", NULL},
	{"}", NULL}, {"-", NULL}, {"\\\\", NULL}, {"\\[", NULL}, {"\\d", NULL}, {"\\Z", NULL},
	{"u0041", NULL}, {"\\\\u0041", NULL}, {"\\u-", NULL}, {"\\u123-", NULL}, {"\\U-", NULL},
	{"\\U1234567-", NULL}, {"\\u{0041}", NULL}, {"\\x{41}", NULL}, {"\\p{Lu}", NULL},
	{"\\x{,2}", NULL}, {"\\N{,2}", NULL}, {"\\k{,2}", NULL}, {"\\c{,2}", NULL},
	{"\\c\\u0041", NULL}, {"[{,2}]", NULL}, {"[]{,2}]", NULL}, {"[^]{,2}]", NULL},
	{"[^^]", NULL}, {"[\\]{,2}]", NULL}, {"[[:alpha:]{,2}]", NULL}, {"[[:^digit:]{,2}]", NULL},
	{"[^[:<:]{,2}]", NULL}, {"[[:]", NULL}, {"[[:a]", NULL}, {"[a[b{,2}]", NULL},
	{"[\\Q]\\u0041{,2}\\E{,2}]", NULL}, {"[\\E]{,2}]", NULL}, {"[^\\Q\\E]{,2}]", NULL},
	{"[\\c]{,2}]", NULL}, {"\\Q{,2}[\\u0041(?#\\E", NULL}, {"\\E", NULL},
	{"(?#{,2}[\\Q\\u0041\\)", NULL}, {"(*MARK:{,2}[)", NULL}, {"(*:{,2}\\u0041)", NULL},
	{"(?C'{,2}[')", NULL}, {"(?:", NULL}, {"(?P<n>", NULL}, {"(*pla:", NULL}, {"^", NULL},
	{"\xe4\xb8\x80", NULL}, {"\\\xe4\xb8\x80", NULL}, {"\xff", NULL},
	/* These do not. */
	{"\\u0041", "\\x{0041}"}, {"\\uaBcD", "\\x{aBcD}"}, {"\\U0001F600", "\\x{0001F600}"},
	{"{,2}", "{0,2}"}, {"{,}", "{0,}"}, {"{,007}", "{0,007}"}, {"{{,2}", "{{0,2}"},
	{"[\\u0041{,2}-\\U0001F600]", "[\\x{0041}{,2}-\\x{0001F600}]"},
	{"[^]\\u0041]", "[^]\\x{0041}]"}, {"[[:a:]\\u0041]", "[[:a:]\\x{0041}]"},
	{"\\\\\\u0041", "\\\\\\x{0041}"}, {"\\d{,2}", "\\d{0,2}"}, {"\\N-{,2}", "\\N-{0,2}"},
	{"\\pL{,2}", "\\pL{0,2}"}, {"\\g{-1}{,2}", "\\g{-1}{0,2}"}, {"\\ca{,2}", "\\ca{0,2}"},
	{"(*pla:{,2}", "(*pla:{0,2}"}, {"(*UTF){,2}", "(*UTF){0,2}"}};
#define PARTS_KEPT (N(parts) - 18)

/* With no byte more than there may be. */
static char *rewritten(const char *text, size_t len, size_t *ret_len)
{
	char *const dst = malloc(PATTERN_PYTHON_MAX(len) + 1);

	ck_assert_ptr_nonnull(dst);
	*ret_len = pattern_python(text, len, dst);
	ck_assert_uint_le(*ret_len, PATTERN_PYTHON_MAX(len));
	return dst;
}

/* The first @n_parts, put together at random; between them each place is where it was. */
static void check_parts(unsigned n_parts, unsigned *seed)
{
	char from[512] = "", to[512] = "";
	size_t ends[16][2];
	size_t len = 0;
	const unsigned n = (unsigned)rand_r(seed) % 16;

	for (unsigned i = 0; i < n; i++) {
		const unsigned k = (unsigned)rand_r(seed) % n_parts;
		strcat(from, parts[k].from);
		strcat(to, parts[k].to ? parts[k].to : parts[k].from);
		ends[i][0] = strlen(from);
		ends[i][1] = strlen(to);
	}
	char *const got = rewritten(from, strlen(from), &len);
	ck_assert_msg(len == strlen(to) && memcmp(got, to, len) == 0, "'%s': '%.*s', not '%s'",
		from, (int)len, got, to);
	free(got);
	for (unsigned i = 0; i < n; i++)
		ck_assert_uint_eq(
			pattern_python_origin(from, strlen(from), ends[i][1]), ends[i][0]);
}

START_TEST(parts_6000)
{
	unsigned seed = 1;

	ck_assert_ptr_null(parts[PARTS_KEPT - 1].to);
	ck_assert_ptr_nonnull(parts[PARTS_KEPT].to);
	for (int i = 0; i < 3000; i++) {
		check_parts(PARTS_KEPT, &seed);
		check_parts(N(parts), &seed);
	}
}
END_TEST

/* Any bytes: what comes is never longer than it may be, no place is beyond its end, and what has
 * nothing in it that begins a change stays. */
START_TEST(bytes_20000)
{
	static const char some[] = "\\\\\\{{{,,,}}}[[]]^:a:u0041U()?#*CQEx2";
	unsigned seed = 2;

	for (int i = 0; i < 20000; i++) {
		char text[40];
		size_t len = 0;
		const size_t n = (size_t)rand_r(&seed) % sizeof(text);
		for (size_t k = 0; k < n; k++)
			text[k] = some[(size_t)rand_r(&seed) % sizeof(some)];
		char *const exact = malloc(n + !n);
		ck_assert_ptr_nonnull(exact);
		memcpy(exact, text, n);
		char *const got = rewritten(exact, n, &len);
		if (!memmem(text, n, "{,", 2) && !memmem(text, n, "\\u", 2) &&
			!memmem(text, n, "\\U", 2))
			ck_assert(len == n && memcmp(got, text, n) == 0);
		ck_assert_uint_eq(pattern_python_origin(exact, n, len), n);
		ck_assert_uint_le(pattern_python_origin(exact, n, len / 2), n);
		free(got);
		free(exact);
	}
}
END_TEST

/* The longest pattern that there can be, made of what has to be looked through to its end. */
START_TEST(time_is_linear)
{
	static const char *const again[] = {"{,}", "{,1", "{,{,", "[[:", "[[:a", "[", "\\Q", "\\E",
		"(?#", "(*A", "(", "\\u", "\\u004", "\\U0000004", "\\", "[\\Q", "1"};
	static char text[65535];

	for (size_t i = 0; i < N(again); i++) {
		const clock_t start = clock();
		size_t len = 0;
		for (size_t k = 0; k < sizeof(text); k++)
			text[k] = again[i][k % strlen(again[i])];
		memcpy(text, "{,", 2);
		free(rewritten(text, sizeof(text), &len));
		(void)pattern_python_origin(text, sizeof(text), len);
		ck_assert_msg((clock() - start) / (CLOCKS_PER_SEC / 1000) < 500, "%s", again[i]);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pattern_python");
	TCase *t = tcase_create("pattern_python");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, as_in_python, 0, (int)N(rows));
	tcase_add_test(t, alternatives);
	tcase_add_test(t, literals_are_left_alone);
	tcase_add_test(t, faults);
	tcase_add_test(t, parts_6000);
	tcase_add_test(t, bytes_20000);
	tcase_add_test(t, time_is_linear);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
