/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/pattern.h"
#include "guest/pattern_confine.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define STEPS 1000000

static struct pattern *compiled(const char *pattern, uint32_t flags)
{
	struct pattern_fault why = {0};
	struct pattern *const p = pattern_new(pattern, strlen(pattern), flags, STEPS, &why);

	ck_assert_msg(p, "'%s': %s", pattern, why.text);
	return p;
}

/* The numbers of the lines that match, as "1 3 ". */
static void lines_of(struct pattern *p, const char *text, size_t len, char *ret, size_t size)
{
	size_t start = 0;
	size_t end = 0;
	size_t last = 0;
	size_t n = 0;
	int rc = 0;

	*ret = 0;
	pattern_subject(p, text, len);
	while ((rc = pattern_next(p, &start, &end)) == PATTERN_FOUND) {
		unsigned line = 1;
		ck_assert(start >= last && end >= start && end <= len);
		ck_assert(start == 0 || text[start - 1] == '\n');
		ck_assert(end == len || text[end] == '\n');
		ck_assert_ptr_null(memchr(text + start, '\n', end - start));
		for (size_t i = 0; i < start; i++)
			line += text[i] == '\n';
		n += (size_t)snprintf(ret + n, size - n, "%u ", line);
		ck_assert_uint_lt(n, size);
		last = end + 1;
	}
	ck_assert_int_eq(rc, PATTERN_NONE);
}

/* In both ways of running it. */
static void check_lines(const char *pattern, uint32_t flags, const char *text, const char *want)
{
	for (uint32_t how = 0; how <= PATTERN_INTERPRET; how += PATTERN_INTERPRET) {
		char got[256];
		struct pattern *const p = compiled(pattern, flags | how);
		lines_of(p, text, strlen(text), got, sizeof(got));
		ck_assert_msg(strcmp(got, want) == 0, "'%s' in '%s': %s instead of %s", pattern,
			text, got, want);
		pattern_free(p);
	}
}

struct row {
	const char *pattern;
	const char *text;
	const char *want;
	uint32_t flags;
};

static const struct row rows[] = {
	{"b", "a\nb\nab\n", "2 3 ", 0},
	{"B", "a\nb\nab", "2 3 ", 0},
	{"B", "a\nb\nab", "", PATTERN_CASE},
	{"a", "", "", 0},
	{"", "a\n\nb", "1 2 3 ", 0},
	{"", "\n", "1 ", 0},
	{"^", "a\n\nb\n", "1 2 3 ", 0},
	{"$", "a\n\nb\n", "1 2 3 ", 0},
	{"^$", "a\n\nb\n", "2 ", 0},
	{"^b$", "b\nbb\nb", "1 3 ", 0},
	{"a.b", "a\nb\naxb", "3 ", 0},
	{"a\\sb", "a\nb\na b\na\tb", "3 4 ", 0},
	{"a[^x]b", "a\nb\nayb", "3 ", 0},
	{"a\\Wb", "a\nb\na-b", "3 ", 0},
	{"a\\Db", "a\nb\na-b", "3 ", 0},
	{"a[\\s,]b", "a\nb\na,b\na b", "3 4 ", 0},
	{"a[[:space:]]b", "a\nb\na b", "3 ", 0},
	{"a\\n", "a\n", "", 0},
	{"a\\s*$", "a  \nb\na", "1 3 ", 0},
	{"x\\s*", "x\n\n\ny", "1 ", 0},
	{"[^]]b", "]b\nab", "2 ", 0},
	{"[]a]b", "]b\nab\ncb", "1 2 ", 0},
	{"\\Aa", "a\na\nba", "1 2 ", 0},
	{"a\\z", "a\nab\na", "1 3 ", 0},
	{"a\\Z", "a\nab\na", "1 3 ", 0},
	{"(?s)a.b", "a\nb\naxb", "3 ", 0},
	{"(?i)B", "b\nc", "1 ", PATTERN_CASE},
	{"(?=a)b?a", "b\na", "2 ", 0},
	{"(*COMMIT)k", "ak\nk\nkk", "2 3 ", 0},
	{"a(?!b)", "a\nb\nab\nac", "1 4 ", 0},
	{"(?<!a)b", "a\nb\nab", "2 ", 0},
	{"(?<=a)b", "a\nb\nab", "3 ", 0},
	{"a\\Kb", "ab\nb", "1 ", 0},
	{"\\ba\\b", "a\nab\nb a\nba", "1 3 ", 0},
	{"(?P<n>a)(?P=n)", "aa\nab", "1 ", 0},
	{"(?<n>a)\\k<n>", "aa\nab", "1 ", 0},
	{"(a|b)\\1", "aa\nab\nbb", "1 3 ", 0},
	{"a++b", "aab\naa", "1 ", 0},
	{"(?>a+)b", "aab\naa\nb", "1 ", 0},
	{"colou?r", "color\ncolour\ncolr", "1 2 ", 0},
	{"\\d{2,}", "1\n12\n", "2 ", 0},
	{"-v", "-v\nv", "1 ", 0},
	{"a|^b", "ab\nb\ncb", "1 2 ", 0},
	/* A newline separates alternatives, each by itself. */
	{"a\nb", "a\nb\nc", "1 2 ", 0},
	{"a\nb", "a\nb\nc", "1 2 ", PATTERN_LITERAL},
	{"(a)\\1\n(b)\\1", "aa\nbb\nab", "1 2 ", 0},
	{"x\n\\Qa.", "a.\nax\nb", "1 2 ", 0},
	{"a\n", "b\nc", "1 2 ", 0},
	{"a|b\nc", "a\nc\nd", "1 2 ", PATTERN_CASE},
	/* Literals. */
	{"a.b", "axb\na.b", "2 ", PATTERN_LITERAL},
	{"(", "x\n(", "2 ", PATTERN_LITERAL},
	{"\\E", "E\n\\E\n\\e", "2 3 ", PATTERN_LITERAL},
	{"\\d", "1\n\\d\n\\D", "2 ", PATTERN_LITERAL | PATTERN_CASE},
	{" a#", "a#\n a#", "2 ", PATTERN_LITERAL},
	{"\xff", "a\nx\xffy", "2 ", PATTERN_LITERAL},
	{"\xff"
	 "A",
		"a\n\xff"
		"a",
		"2 ", PATTERN_LITERAL},
	{"\xc3\xa4", "\xc3\x84\n\xc3\xa4", "1 2 ", PATTERN_LITERAL},
	{"\xc3\xa4", "\xc3\x84\n\xc3\xa4", "2 ", PATTERN_LITERAL | PATTERN_CASE},
	/* Letters are Unicode's, where the text has any. */
	{"\xc3\xa4+b",
		"\xc3\x84\xc3\xa4"
		"b\nb",
		"1 ", 0},
	{"^\\w+$", "\xc3\xa4x\na-b", "1 ", 0},
	{"^.$", "\xc3\xa4\nab", "1 ", 0},
	{"k", "\xe2\x84\xaa\nx", "1 ", 0},
	{"\\x{e4}", "\xc3\xa4\na", "1 ", 0},
	{"[\xc3\xa0-\xc3\xbf]", "\xc3\xa4\na", "1 ", 0},
	{"^\\d$", "\xd9\xa3\nx", "1 ", 0},
	/* Bytes that are no UTF-8 do not hide what is beside them, and match nothing. */
	{"b",
		"\xff"
		"b\n\xe4\nb\xff",
		"1 3 ", 0},
	{"^.b",
		"\xff"
		"b\nab",
		"2 ", 0},
	/* Nothing but LF ends a line. */
	{"^b",
		"a\rb\na\x0b"
		"b\na\x0c"
		"b\na\xe2\x80\xa8"
		"b\na\xc2\x85"
		"b\nb",
		"6 ", 0},
	{"a.b",
		"a\rb\na\x0b"
		"b\na\x0c"
		"b\na\xe2\x80\xa8"
		"b\na\xc2\x85"
		"b\n",
		"1 2 3 4 5 ", 0},
	{"a\\sb",
		"a\rb\na\x0b"
		"b\na\x0c"
		"b\na\xe2\x80\xa8"
		"b\na\xc2\x85"
		"b\n",
		"1 2 3 4 5 ", 0},
	{"a[\\s]b",
		"a\rb\na\x0b"
		"b\na\x0c"
		"b\na\xe2\x80\xa8"
		"b\na\xc2\x85"
		"b\n",
		"1 2 3 4 5 ", 0},
};

START_TEST(lines)
{
	check_lines(rows[_i].pattern, rows[_i].flags, rows[_i].text, rows[_i].want);
}
END_TEST

START_TEST(faults)
{
	static const struct {
		const char *pattern;
		size_t offset;
	} bad[] = {{"(", 1}, {"[invalid", 8}, {"*a", 0}, {"a\n(b", 4}, {"a\\", 2}, {"\xff", 0},
		{"\\C", 2}, {"(?P<n>a)(?P<n>b)", 14}, {"a{99999}", 7}};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct pattern_fault why = {0};
		ck_assert_ptr_null(
			pattern_new(bad[i].pattern, strlen(bad[i].pattern), 0, STEPS, &why));
		ck_assert_msg(why.offset == bad[i].offset && *why.text, "'%s': %s at %zu",
			bad[i].pattern, why.text, why.offset);
	}
	static char big[65536];
	struct pattern_fault why = {0};
	memset(big, 'a', sizeof(big));
	/* What PCRE2 takes. */
	ck_assert_ptr_null(pattern_new(big, sizeof(big), PATTERN_LITERAL, STEPS, &why));
	ck_assert_msg(strstr(why.text, "too large"), "%s", why.text);
	struct pattern *const p = pattern_new(big, 30000, PATTERN_LITERAL, STEPS, &why);
	ck_assert_msg(p, "%s", why.text);
	pattern_free(p);
}
END_TEST

START_TEST(steps_are_limited)
{
	static const char text[] =
		"ok\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\naa\n";

	for (uint32_t how = 0; how <= PATTERN_INTERPRET; how += PATTERN_INTERPRET) {
		const clock_t start = clock();
		struct pattern *const p = compiled("^(a+)+$", how);
		size_t from = 0;
		size_t to = 0;
		pattern_subject(p, text, strlen(text));
		ck_assert_int_eq(pattern_next(p, &from, &to), PATTERN_STEPS);
		ck_assert_uint_eq(from, 3);
		pattern_subject(p, text, 3);
		ck_assert_int_eq(pattern_next(p, &from, &to), PATTERN_NONE);
		pattern_subject(p, text + strlen(text) - 3, 3);
		ck_assert_int_eq(pattern_next(p, &from, &to), PATTERN_FOUND);
		ck_assert_int_lt((clock() - start) / CLOCKS_PER_SEC, 5);
		pattern_free(p);
	}
}
END_TEST

/* Patterns are put together from these. */
static const char *const atoms[] = {"a", "b", ".", "\\s", "\\S", "\\W", "\\w", "\\D", "\\d", "[^a]",
	"[^]b]", "[a-c]", "[\\s1]", "[^\\s]", "[[:space:]x]", "[[:alpha:]]", "[]1-]", "^", "$",
	"\\b", "\\B", "(?=a)", "(?!b)", "(?<=a)", "(?<!1)", "(?<=\\s)", "(?:a|\\s)", "(a|b)",
	"(?>a+|b)", "(?P<n>b)", "(?:)", "(?i)", " ", "-", "\\.", "1", "\\t", "\\h", "\\H", "\\N",
	"k",
	/* These are not for many lines at once. */
	"\\n", "x\\1", "\\R", "\\A", "\\z", "\\Z", "\\G", "\\K", "(?s).", "[\\D]", "\\x20",
	"\\p{Lu}", "\\P{L}", "[\\t-\\r]", "(?s)", "\\v", "\\V", "\\X", "[^[:^alpha:]]", "\\Q^\\E",
	"(*COMMIT)", "(?#c)", "(?(?=a)a|b)", "[[:cntrl:]]"};
static const char *const wide_atoms[] = {"\xc3\xa4", "[\xc3\xa4\xc3\xb6]", "[^\xc3\xa4]", "\\x{e4}",
	"\\x{0212A}", "[\\x{41}-\\x{2fff}]"};
static const char *const quantifiers[] = {
	"", "", "", "", "*", "+", "?", "*?", "+?", "{2}", "*+", "++"};
static const char *const pieces[] = {"a", "b", "aa", "ab", "1", " ", "\t", "\n", "\n", "\n\n", "-",
	".", "]", "c", "x", "K", "\r", "\x0b",
	/* not ASCII */
	"\xc3\xa4", "\xc3\x84", "\xe2\x80\xa8", "\xe2\x84\xaa", "\xc2\xa0", "\xd9\xa3",
	/* not UTF-8 */
	"\xff", "\xc3", "\xa4"};
#define N(a) ((unsigned)(sizeof(a) / sizeof((a)[0])))

static void add(char *dst, const char *s)
{
	memcpy(dst + strlen(dst), s, strlen(s) + 1);
}

static void make_pattern(char *dst, unsigned n_atoms, unsigned *seed)
{
	const unsigned n = 1 + (unsigned)rand_r(seed) % 4;

	dst[0] = 0;
	for (unsigned i = 0; i < n; i++) {
		if (rand_r(seed) % 24 == 0)
			add(dst, wide_atoms[(unsigned)rand_r(seed) % N(wide_atoms)]);
		else
			add(dst, atoms[(unsigned)rand_r(seed) % n_atoms]);
		add(dst, quantifiers[(unsigned)rand_r(seed) % N(quantifiers)]);
		if (rand_r(seed) % 10 == 0)
			add(dst, "|");
	}
}

static void make_text(char *dst, unsigned n_pieces, unsigned *seed)
{
	const unsigned n = (unsigned)rand_r(seed) % 40;

	dst[0] = 0;
	for (unsigned i = 0; i < n; i++)
		add(dst, pieces[(unsigned)rand_r(seed) % n_pieces]);
}

/* Each line by itself, by PCRE2 as such. */
static bool lines_apart(const char *pattern, uint32_t options, const char *text, char *ret)
{
	int error = 0;
	size_t offset = 0;
	pcre2_code *const code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
		options | PCRE2_NO_START_OPTIMIZE | PCRE2_NO_DOTSTAR_ANCHOR | PCRE2_UTF |
			PCRE2_UCP | PCRE2_MATCH_INVALID_UTF,
		&error, &offset, NULL);
	pcre2_match_data *const data = pcre2_match_data_create(1, NULL);
	unsigned line = 1;
	size_t n = 0;

	if (code) {
		ck_assert_int_eq(pcre2_jit_compile(code, PCRE2_JIT_COMPLETE), 0);
		for (const char *s = text; *s; line++) {
			const size_t len = strcspn(s, "\n");
			if (pcre2_match(code, (PCRE2_SPTR)s, len, 0, 0, data, NULL) >= 0)
				n += (size_t)sprintf(ret + n, "%u ", line);
			s += len + (s[len] == '\n');
		}
	}
	ret[n] = 0;
	pcre2_match_data_free(data);
	pcre2_code_free(code);
	return code;
}

/* For reports, which shall be clear about bytes. */
static const char *escaped(const char *s)
{
	static char dst[4 * 512 + 1];
	size_t n = 0;

	for (; *s; s++)
		n += (size_t)snprintf(dst + n, sizeof(dst) - n,
			*s >= ' ' && *s < 127 ? "%c" : "\\x%02x", (uint8_t)*s);
	return dst;
}

struct tally {
	unsigned patterns;
	unsigned confined;
	unsigned matched; /* texts with a line that does */
};

/* About @n random patterns on four texts each. */
static struct tally compare(int n, unsigned seed, unsigned n_atoms)
{
	static char confined[1024];
	struct tally t = {0};

	for (int i = 0; i < n; i++) {
		char pattern[128], text[512], want[256], got[256];
		const uint32_t flags = i % 3 ? 0 : PATTERN_CASE;
		make_pattern(pattern, n_atoms, &seed);
		if (!lines_apart(pattern, flags ? 0 : PCRE2_CASELESS, "", want))
			continue;
		size_t len = 0;
		t.patterns++;
		t.confined += pattern_confine(pattern, strlen(pattern), false, confined, &len);
		struct pattern *const p = compiled(pattern, flags);
		for (int k = 0; k < 4; k++) {
			/* ASCII, UTF-8, anything. */
			make_text(text, k < 2 ? 18 : k == 2 ? 24 : N(pieces), &seed);
			(void)lines_apart(pattern, flags ? 0 : PCRE2_CASELESS, text, want);
			lines_of(p, text, strlen(text), got, sizeof(got));
			ck_assert_msg(strcmp(got, want) == 0, "/%s/ in \"%s\": %s instead of %s",
				pattern, escaped(text), got, want);
			t.matched += *want != 0;
		}
		pattern_free(p);
	}
	return t;
}

/* The argument of pattern_confine.c. */
START_TEST(same_as_line_by_line_16000)
{
	const int n = getenv("HOLT_LONG") ? 60000 : 4000;
	struct tally t = compare(n, 1, 41);

	ck_assert_uint_gt(t.patterns, (unsigned)n * 3 / 4);
	ck_assert_uint_gt(t.matched, t.patterns);
	/* All but those with \N{2}. */
	ck_assert_uint_gt(t.confined, t.patterns * 99 / 100);
	t = compare(n, 2, N(atoms));
	ck_assert_uint_gt(t.matched, t.patterns);
	ck_assert_uint_lt(t.confined, t.patterns * 3 / 4);
}
END_TEST

/* What is common stays fast. */
START_TEST(common_patterns_are_confined)
{
	static const char *const common[] = {"one|two", "def \\w+\\(self", "^import\\s+os$",
		"class\\s+(?P<name>\\w+)", "[^\"]*\"[^\"]*\"", "\\bfoo\\b", "(?i)error", "a{2,3}",
		"^\\s*#include <[^>]+>", "https?://[^\\s]+", "(?<!\\w)x(?!\\w)",
		"[\\w.-]+@[\\w.-]+", "[\\x{4e00}-\\x{9fff}]+", "\\x{0001F600}", "\\x{20}",
		"\\$\\{[A-Z_]+\\}", "^[[:space:]]*return"};
	static const char *const not [] = {"\\n", "(?s)a.b", "\\x0a", "[\\x00-\\x20]", "(?x) a",
		"\\012", "\\Aa", "a\\Z", "\\Qa\\E", "(*SKIP)a", "(?R)?a", "[\t-z]", "[\\W]",
		"\\x{a}", "\\x{00A}", "\\x{1f}", "[\\x{0}-\\x{20}]", "a\nb"};
	char dst[2048];
	size_t len = 0;

	for (size_t i = 0; i < N(common); i++)
		ck_assert_msg(pattern_confine(common[i], strlen(common[i]), true, dst, &len), "%s",
			common[i]);
	for (size_t i = 0; i < N(not ); i++)
		ck_assert_msg(
			!pattern_confine(not [i], strlen(not [i]), true, dst, &len), "%s", not [i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pattern");
	TCase *t = tcase_create("pattern");

	tcase_set_timeout(t, 100);
	tcase_add_loop_test(t, lines, 0, (int)N(rows));
	tcase_add_test(t, faults);
	tcase_add_test(t, steps_are_limited);
	tcase_add_test(t, same_as_line_by_line_16000);
	tcase_add_test(t, common_patterns_are_confined);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
