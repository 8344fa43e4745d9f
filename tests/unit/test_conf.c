/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files as trees: what is taken, what is refused and where, and the limits. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/conf.h"
#include "base/mem.h"
#include "base/str.h"

/* The tree as text: "{a: 'x', b: [1, ~]}", plain scalars without quotes. */
static void write_node(struct buf *b, const struct conf_node *n)
{
	int r = 0;

	if (n->key)
		r = buf_printf(b, "%s: ", n->key);
	if (r == 0 && n->type == CONF_SCALAR)
		r = buf_printf(b, n->plain ? "%s" : "'%s'", n->text);
	if (n->type != CONF_SCALAR) {
		r = buf_appends(b, n->type == CONF_MAP ? "{" : "[");
		for (const struct conf_node *m = n->first; m; m = m->next) {
			ck_assert_ptr_eq(m->parent, n);
			ck_assert((m->next == NULL) == (m == n->last));
			write_node(b, m);
			if (m->next)
				r = buf_appends(b, ", ");
		}
		r = buf_appends(b, n->type == CONF_MAP ? "}" : "]");
	}
	ck_assert_int_eq(r, 0);
}

static struct conf *parse(const char *text)
{
	struct conf *c = NULL;
	auto_error error = NULL;

	const int r = conf_parse(text, strlen(text), "f.yaml", &c, &error);
	ck_assert_msg(r == 0, "%s: %s", text, error ? holt_error_message(error) : "");
	ck_assert_ptr_null(error);
	return c;
}

static void check_tree(const char *text, const char *want)
{
	auto_conf c = parse(text);
	auto_buf b = BUF_INIT(65536);

	if (!want) {
		ck_assert_ptr_null(conf_root(c));
		return;
	}
	write_node(&b, conf_root(c));
	ck_assert_str_eq((const char *)b.data, want);
}

static void check_bad(const char *text, int code, const char *part)
{
	struct conf *c = NULL;
	auto_error error = NULL;

	const int r = conf_parse(text, strlen(text), "f.yaml", &c, &error);
	ck_assert_msg(r == -code, "%s: %d", text, r);
	ck_assert_ptr_null(c);
	ck_assert_msg(strstr(holt_error_message(error), part), "'%s' is not in '%s'", part,
		holt_error_message(error));
	ck_assert_ptr_nonnull(strstr(holt_error_message(error), "'f.yaml'"));
	ck_assert_str_eq(holt_error_object(error), "f.yaml");
	ck_assert_str_eq(holt_error_stage(error), "config");
}

START_TEST(trees)
{
	check_tree("", NULL);
	check_tree("# nothing\n\n", NULL);
	check_tree("---\n...\n", "");
	check_tree("a", "a");
	check_tree("a: b\n", "{a: b}");
	check_tree("\xef\xbb\xbf"
		   "a: b\n",
		"{a: b}");
	check_tree("a:\nb: ~\nc: \"x\"\nd: 'y z'\n", "{a: , b: ~, c: 'x', d: 'y z'}");
	check_tree("- 1\n- [2, 3]\n- {k: v}\n", "[1, [2, 3], {k: v}]");
	check_tree("s:\n  t:\n    u: 1\n  v: []\nw: {}\n", "{s: {t: {u: 1}, v: []}, w: {}}");
	check_tree("t: |\n  one\n  two\n", "{t: 'one\ntwo\n'}");
	check_tree("t: >-\n  one\n  two\n", "{t: 'one two'}");
	check_tree("a: !!str 5\nb: ! 6\nc: !!int \"7\"\n", "{a: '5', b: '6', c: 7}");
	check_tree("\"q k\": 1\n5: 2\n", "{q k: 1, 5: 2}");
	check_tree("a: \"\\u00e9\\t\"\r\nb: 2\r\n", "{a: '\xc3\xa9\t', b: 2}");
	check_tree("<<: x\n", "{<<: x}");
}
END_TEST

START_TEST(lines_are_those_of_the_keys)
{
	auto_conf c = parse("# c\na: 1\nb:\n  - x\n  - c: |\n      y\n");
	const struct conf_node *b = conf_get(conf_root(c), "b");

	ck_assert_uint_eq(conf_get(conf_root(c), "a")->line, 2);
	ck_assert_uint_eq(b->line, 3);
	ck_assert_uint_eq(b->first->line, 4);
	ck_assert_uint_eq(b->last->line, 5);
	ck_assert_uint_eq(conf_get(b->last, "c")->line, 5);
	ck_assert_ptr_null(conf_get(conf_root(c), "c"));
	ck_assert_ptr_null(conf_get(b, "x"));
	ck_assert_ptr_null(conf_get(NULL, "x"));
}
END_TEST

START_TEST(a_walk_meets_every_node_once)
{
	auto_conf c = parse("a: 1\nb: {c: [2, 3], d: 4}\ne: 5\n");
	const struct conf_node *root = conf_root(c), *b = conf_get(root, "b");
	char seen[64] = "";
	size_t n = 0;

	for (const struct conf_node *at = root; at; at = conf_walk(at, root))
		n += at->type == CONF_SCALAR;
	ck_assert_uint_eq(n, 5);
	for (const struct conf_node *at = b; at; at = conf_walk(at, b)) {
		if (at->type == CONF_SCALAR)
			(void)strncat(seen, at->text, 1);
	}
	ck_assert_str_eq(seen, "234");
	ck_assert_ptr_null(conf_walk(b->last, b->last));
}
END_TEST

START_TEST(aliases_are_copies)
{
	check_tree("a: &x 1\nb: *x\n", "{a: 1, b: 1}");
	check_tree("a: &x {k: [1, {l: 'm'}], n: []}\nb: [*x, *x]\n",
		"{a: {k: [1, {l: 'm'}], n: []}, "
		"b: [{k: [1, {l: 'm'}], n: []}, {k: [1, {l: 'm'}], n: []}]}");
	check_tree("- &a [1]\n- &b [*a, *a]\n- [*b, 2]\n", "[[1], [[1], [1]], [[[1], [1]], 2]]");
	check_bad("a: *x\n", HOLT_EINVALID, "'x' is an alias of nothing, in line 1");
	check_bad("a: &x [*x]\n", HOLT_EINVALID, "'x' is an alias of what it is in, in line 1");
	check_bad("a: &x 1\nb: &x 2\n", HOLT_EINVALID, "'x' is an anchor a second time, in line 2");
	check_bad("&x a: 1\n", HOLT_EINVALID, "an anchor at a key, in line 1");
	check_bad("a: &x 1\n*x : 2\n", HOLT_EINVALID, "an alias in place of a key, in line 2");
}
END_TEST

START_TEST(what_is_refused)
{
	check_bad("a: 1\na: 2\n", HOLT_EINVALID, "'a' is there a second time, in line 2");
	check_bad("x:\n  a: 1\n  \"a\": 2\n", HOLT_EINVALID, "second time, in line 3");
	check_bad("a: [1\n", HOLT_EINVALID, "no valid YAML: did not find");
	check_bad("a: b: c\n", HOLT_EINVALID, "in line 1");
	check_bad("a:\n\t- b\n", HOLT_EINVALID, "in line 2");
	check_bad("a: \"x\n", HOLT_EINVALID, "no valid YAML");
	check_bad("a: \xff\n", HOLT_EINVALID, "no valid YAML: invalid leading UTF-8 octet");
	check_bad("a: \xed\xa0\x80\n", HOLT_EINVALID, "no valid YAML");
	check_bad("a: \x01\n", HOLT_EINVALID, "control characters are not allowed");
	check_bad("a: \"x\\0y\"\n", HOLT_EINVALID, "a NUL character, in line 1");
	check_bad("\"x\\0y\": 1\n", HOLT_EINVALID, "a NUL character, in line 1");
	check_bad("a: 1\n---\nb: 2\n", HOLT_EINVALID, "a second document begins, in line 2");
	check_bad("a: !!python/object:os.system x\n", HOLT_EINVALID, "is a tag without meaning");
	check_bad("a: !x [1]\n", HOLT_EINVALID, "'!x' is a tag without meaning, in line 1");
	check_bad("[1, 2]: 3\n", HOLT_EINVALID, "a map or list in place of a key");
	check_bad("? {a: 1}\n: 3\n", HOLT_EINVALID, "a map or list in place of a key");
	check_bad("%YAML 3.0\n---\na: 1\n", HOLT_EINVALID, "incompatible YAML document");
}
END_TEST

static struct conf *parse_long(const char *begin, const char *middle, size_t n, const char *end)
{
	auto_buf b = BUF_INIT(4u << 20);
	struct conf *c = NULL;

	ck_assert_int_eq(buf_appends(&b, begin), 0);
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(buf_appends(&b, middle), 0);
	ck_assert_int_eq(buf_appends(&b, end), 0);
	const int r = conf_parse((const char *)b.data, b.len, "f.yaml", &c, NULL);
	ck_assert(r == 0 || r == -HOLT_ELIMIT);
	ck_assert((r == 0) == (c != NULL));
	return c;
}

START_TEST(limits)
{
	struct conf *c = NULL;

	/* Depth, in both styles. */
	conf_free(c = parse_long("", "[", CONF_DEPTH_MAX, "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"));
	ck_assert_ptr_nonnull(c);
	ck_assert_ptr_null(parse_long("", "[", CONF_DEPTH_MAX + 1, ""));
	ck_assert_ptr_null(parse_long("", "[", 500000, ""));
	ck_assert_ptr_null(parse_long("", "- ", 400000, "x"));
	/* Values: the list is one of them. */
	conf_free(c = parse_long("[", "a,", CONF_NODES_MAX - 1, "]"));
	ck_assert_ptr_nonnull(c);
	ck_assert_ptr_null(parse_long("[", "a,", CONF_NODES_MAX, "]"));
	/* Bytes. */
	conf_free(c = parse_long("a: 1\n", "#\n", (CONF_BYTES_MAX - 6) / 2, "\n"));
	ck_assert_ptr_nonnull(c);
	ck_assert_ptr_null(parse_long("a: 1\n", "#\n", CONF_BYTES_MAX / 2, ""));
	check_bad("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", HOLT_ELIMIT,
		"more than 32 levels of maps and lists, in line 1");
}
END_TEST

START_TEST(aliases_count)
{
	auto_buf laughs = BUF_INIT(65536), anchors = BUF_INIT(65536), deep = BUF_INIT(65536);

	/* Nine times nine times nine ... */
	ck_assert_int_eq(buf_appends(&laughs, "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"), 0);
	for (int i = 1; i < 12; i++) {
		ck_assert_int_eq(buf_printf(&laughs, "a%d: &a%d [", i, i), 0);
		for (int j = 0; j < 9; j++)
			ck_assert_int_eq(buf_printf(&laughs, "*a%d,", i - 1), 0);
		ck_assert_int_eq(buf_appends(&laughs, "]\n"), 0);
	}
	check_bad((const char *)laughs.data, HOLT_ELIMIT, "more than 16384 values, in line 1");

	for (unsigned i = 0; i <= CONF_ANCHORS_MAX; i++)
		ck_assert_int_eq(buf_printf(&anchors, "- &a%u x\n", i), 0);
	check_bad((const char *)anchors.data, HOLT_ELIMIT, "more than 256 anchors, in line 257");

	/* Each one level deeper than the one before. */
	ck_assert_int_eq(buf_appends(&deep, "- &a0 x\n"), 0);
	for (unsigned i = 1; i < CONF_DEPTH_MAX; i++)
		ck_assert_int_eq(buf_printf(&deep, "- &a%u [*a%u]\n", i, i - 1), 0);
	conf_free(parse((const char *)deep.data));
	ck_assert_int_eq(buf_printf(&deep, "- [*a%u]\n", CONF_DEPTH_MAX - 1), 0);
	check_bad((const char *)deep.data, HOLT_ELIMIT, "more than 32 levels");
}
END_TEST

START_TEST(kinds_of_scalars)
{
	static const struct {
		const char *text;
		enum conf_kind kind;
	} table[] = {
		{"~", CONF_NULL},
		{"null", CONF_NULL},
		{"NULL", CONF_NULL},
		{"", CONF_NULL},
		{"nULL", CONF_TEXT},
		{"'null'", CONF_TEXT},
		{"true", CONF_BOOL},
		{"No", CONF_BOOL},
		{"OFF", CONF_BOOL},
		{"y", CONF_TEXT},
		{"\"true\"", CONF_TEXT},
		{"0", CONF_INT},
		{"600", CONF_INT},
		{"-5", CONF_INT},
		{"+5", CONF_INT},
		{"1_000", CONF_INT},
		{"0x1F", CONF_INT},
		{"0b101", CONF_INT},
		{"017", CONF_INT},
		{"08", CONF_TEXT},
		{"1:30", CONF_INT},
		{"'5'", CONF_TEXT},
		{"5s", CONF_TEXT},
		{"0x", CONF_TEXT},
		{"0xg", CONF_TEXT},
		{"_1", CONF_TEXT},
		{"1.5", CONF_FLOAT},
		{".5", CONF_FLOAT},
		{"5.", CONF_FLOAT},
		{"-1.5e+3", CONF_FLOAT},
		{"1.e-3", CONF_FLOAT},
		{"1e3", CONF_TEXT},
		{"1.5e3", CONF_TEXT},
		{"1.5e+", CONF_TEXT},
		{".inf", CONF_FLOAT},
		{"-.INF", CONF_FLOAT},
		{".nan", CONF_FLOAT},
		{".", CONF_TEXT},
		{"1.2.3", CONF_TEXT},
		{"1:30.5", CONF_FLOAT},
		{"python:3.12-slim", CONF_TEXT},
		{"10G", CONF_TEXT},
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		auto_free char *text = str_printf("a: %s\n", table[i].text);
		auto_conf c = parse(text);
		const enum conf_kind kind = conf_kind(conf_get(conf_root(c), "a"));

		ck_assert_msg(kind == table[i].kind, "%s: %d", table[i].text, (int)kind);
	}
	for (int i = 0; i < 2; i++) {
		bool value = i == 0;

		ck_assert(conf_text_bool(i ? "on" : "FALSE", &value));
		ck_assert(value == (i == 1));
		ck_assert(!conf_text_bool("2", &value));
	}
}
END_TEST

START_TEST(names_in_errors_are_escaped)
{
	struct conf *c = NULL;
	auto_error error = NULL;

	ck_assert_int_eq(conf_parse("a: [", 4, "f\x1b[1m", &c, &error), -HOLT_EINVALID);
	ck_assert_ptr_null(strchr(holt_error_message(error), '\x1b'));
	ck_assert_ptr_nonnull(strstr(holt_error_message(error), "'f\\x1b[1m'"));
}
END_TEST

START_TEST(every_allocation_may_fail)
{
	const char *const text = "a: &x {b: [1, two]}\nc: [*x, *x]\n";
	struct conf *c = NULL;
	unsigned long n = 0;

	while (!c) {
		auto_error error = NULL;

		mem_fail_at(++n);
		const int r = conf_parse(text, strlen(text), "f", &c, &error);
		mem_fail_at(0);
		ck_assert(r == 0 || r == -HOLT_ENO_MEMORY);
		ck_assert((r == 0) == (c != NULL));
	}
	ck_assert_uint_gt(n, 20);
	conf_free(c);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {trees, lines_are_those_of_the_keys,
		a_walk_meets_every_node_once, aliases_are_copies, what_is_refused, limits,
		aliases_count, kinds_of_scalars, names_in_errors_are_escaped,
		every_allocation_may_fail};
	Suite *s = suite_create("conf");
	TCase *t = tcase_create("all");

	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(t, tests[i]);
	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
