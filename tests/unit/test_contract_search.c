/* SPDX-License-Identifier: Apache-2.0 */
/* Listing and searching through the contract: roots, maxima, lines, what is refused. */
#include "contract_fixture.h"

#define N(array) (sizeof(array) / sizeof(array)[0])

static struct {
	size_t n;
	size_t stop_at; /* 0: never */
	char path[8][256];
	int type[8];
	uint64_t line_number[8];
	char line[8][1100];
	size_t line_len[8];
} got;

static int on_entry(const holt_entry *e, void *user)
{
	ck_assert_ptr_eq(user, &got);
	ck_assert_uint_lt(got.n, N(got.path));
	ck_assert_uint_eq(e->path_len, strlen(e->path));
	memcpy(got.path[got.n], e->path, e->path_len + 1);
	got.type[got.n++] = e->type;
	return got.n == got.stop_at;
}

static int on_match(const holt_match *m, void *user)
{
	ck_assert_ptr_eq(user, &got);
	ck_assert_uint_lt(got.n, N(got.path));
	memcpy(got.path[got.n], m->path, m->path_len + 1);
	got.line_number[got.n] = m->line_number;
	memcpy(got.line[got.n], m->line, m->line_len);
	got.line_len[got.n++] = m->line_len;
	return got.n == got.stop_at;
}

static void start(void)
{
	setup();
	memset(&got, 0, sizeof got);
}

static const struct piece tree[] = {{HOLT_FILE_DIRECTORY, NULL, 0, ""},
	{HOLT_FILE_REGULAR, NULL, 0, "f1"}, {HOLT_FILE_DIRECTORY, NULL, 0, "a"},
	{HOLT_FILE_REGULAR, NULL, 0, "a/ x\ny "}};

static void list(const char *root, const holt_list_options *o, holt_search_result *ret)
{
	got.n = 0;
	answer(&(struct answer){.pieces = tree, .n_pieces = N(tree)});
	ck_assert_int_eq(holt_sandbox_list(sandbox, root, o, on_entry, &got, ret, NULL), 0);
}

/* C-110, C-116 */
START_TEST(the_root_as_it_was_asked_for)
{
	static const char *const rows[][3] = {{"/w", "/w", "/w/f1"}, {"/w/", "/w/", "/w/f1"},
		{"/", "/", "/f1"}, {"rel", "rel", "rel/f1"}, {".", ".", "./f1"},
		{"/w//", "/w//", "/w//f1"}};

	for (size_t i = 0; i < N(rows); i++) {
		holt_search_result r = HOLT_SEARCH_RESULT_INIT;

		list(rows[i][0], NULL, &r);
		ck_assert_str_eq(stub.path, rows[i][0]);
		ck_assert_uint_eq(got.n, 4);
		ck_assert_uint_eq(r.count, 4);
		ck_assert_uint_eq(r.truncated, 0);
		ck_assert_str_eq(got.path[0], rows[i][1]);
		ck_assert_int_eq(got.type[0], HOLT_FILE_DIRECTORY);
		ck_assert_str_eq(got.path[1], rows[i][2]);
		ck_assert_int_eq(got.type[1], HOLT_FILE_REGULAR);
	}
	list("/w", NULL, NULL);
	ck_assert_str_eq(got.path[3], "/w/a/ x\ny ");
}
END_TEST

/* C-105, C-111, C-115 */
START_TEST(what_a_backend_is_asked_for)
{
	holt_list_options o = HOLT_LIST_OPTIONS_INIT;

	list("/w", NULL, NULL);
	ck_assert_uint_eq(stub.search.max_depth, 2);
	ck_assert_uint_eq(stub.search.max_results, 10000);
	ck_assert_ptr_eq(stub.search.ignore, holt_sandbox_ignored());
	ck_assert_str_eq(holt_sandbox_ignored()[0], ".git");
	o.max_depth = HOLT_LIST_DEPTH_ROOT;
	o.max_entries = HOLT_LIST_ENTRIES_CONTRACT;
	list("/w", &o, NULL);
	ck_assert_uint_eq(stub.search.max_depth, 0);
	ck_assert_uint_eq(stub.search.max_results, 500);
	o.max_depth = HOLT_DEPTH_MAX + 1;
	ck_assert_int_eq(
		holt_sandbox_list(sandbox, "/w", &o, on_entry, &got, NULL, NULL), -HOLT_EINVALID);
	o.max_depth = 1;
	o.max_entries = HOLT_LIST_ENTRIES_MAX + 1;
	ck_assert_int_eq(
		holt_sandbox_list(sandbox, "/w", &o, on_entry, &got, NULL, NULL), -HOLT_EINVALID);
}
END_TEST

START_TEST(maxima_of_glob_and_grep)
{
	holt_glob_options g = HOLT_GLOB_OPTIONS_INIT;
	holt_grep_options p = HOLT_GREP_OPTIONS_INIT;

	ck_assert_int_eq(
		holt_sandbox_glob(sandbox, "/w", "*", NULL, on_entry, &got, NULL, NULL), 0);
	ck_assert_uint_eq(stub.search.max_results, 200);
	ck_assert_str_eq(stub.search.pattern, "*");
	g.max_results = HOLT_NO_RESULTS;
	g.flags = HOLT_GLOB_DIRECTORIES;
	ck_assert_int_eq(holt_sandbox_glob(sandbox, "/w", "*", &g, on_entry, &got, NULL, NULL), 0);
	ck_assert_uint_eq(stub.search.max_results, 0);
	ck_assert_uint_eq(stub.search.flags, HOLT_GLOB_DIRECTORIES);
	g.max_results = HOLT_RESULTS_MAX + 1;
	ck_assert_int_eq(holt_sandbox_glob(sandbox, "/w", "*", &g, on_entry, &got, NULL, NULL),
		-HOLT_EINVALID);
	ck_assert_int_eq(
		holt_sandbox_grep(sandbox, "/w", "x", NULL, on_match, &got, NULL, NULL), 0);
	ck_assert_uint_eq(stub.search.max_results, 100);
	ck_assert_uint_ge(stub.search.line_bytes, 4 * 201);
	ck_assert_ptr_null(stub.search.glob);
	p.max_results = HOLT_RESULTS_MAX;
	p.flags = HOLT_GREP_LITERAL | HOLT_GREP_CASE_SENSITIVE;
	p.glob = "*.py";
	ck_assert_int_eq(
		holt_sandbox_grep(sandbox, "/w", "[invalid", &p, on_match, &got, NULL, NULL), 0);
	ck_assert_uint_eq(stub.search.max_results, HOLT_RESULTS_MAX);
	ck_assert_uint_eq(stub.search.flags, p.flags);
	ck_assert_str_eq(stub.search.glob, "*.py");
	ck_assert_str_eq(stub.search.pattern, "[invalid");
	ck_assert_ptr_eq(stub.search.ignore, holt_sandbox_ignored());
	p.flags = HOLT_GREP_ALL;
	ck_assert_int_eq(holt_sandbox_grep(sandbox, "/w", "x", &p, on_match, &got, NULL, NULL), 0);
	ck_assert_ptr_null(stub.search.ignore[0]);
	ck_assert_uint_eq(stub.search.flags, 0);
	p.flags = HOLT_GREP_ALL << 1;
	ck_assert_int_eq(holt_sandbox_grep(sandbox, "/w", "x", &p, on_match, &got, NULL, NULL),
		-HOLT_EINVALID);
}
END_TEST

START_TEST(patterns_that_are_refused)
{
	static char long_pattern[HOLT_PATTERN_BYTES_MAX + 2];
	holt_grep_options p = HOLT_GREP_OPTIONS_INIT;
	holt_error *error = NULL;
	int r;

	memset(long_pattern, 'x', sizeof long_pattern - 1);
	r = holt_sandbox_glob(sandbox, "/w", "", NULL, on_entry, &got, NULL, &error);
	check_error(r, &error, HOLT_EINVALID, "names nothing");
	r = holt_sandbox_glob(sandbox, "/w", ".", NULL, on_entry, &got, NULL, &error);
	check_error(r, &error, HOLT_EINVALID, "names nothing");
	r = holt_sandbox_grep(sandbox, "/w", "", NULL, on_match, &got, NULL, &error);
	check_error(r, &error, HOLT_EINVALID, "1 to 65535 bytes");
	r = holt_sandbox_grep(sandbox, "/w", long_pattern, NULL, on_match, &got, NULL, &error);
	check_error(r, &error, HOLT_EINVALID, "1 to 65535 bytes");
	p.glob = ".";
	r = holt_sandbox_grep(sandbox, "/w", "x", &p, on_match, &got, NULL, &error);
	check_error(r, &error, HOLT_EINVALID, "names nothing");
	r = holt_sandbox_grep(sandbox, "/../w", "x", NULL, on_match, &got, NULL, &error);
	check_error(r, &error, HOLT_EDENIED, "path traversal");
	r = holt_sandbox_glob(sandbox, "", "x", NULL, on_entry, &got, NULL, &error);
	check_error(r, &error, HOLT_EINVALID, "non-empty");
	r = holt_sandbox_list(sandbox, "a\\..", NULL, on_entry, &got, NULL, &error);
	check_error(r, &error, HOLT_EDENIED, "path traversal");
	ck_assert_int_eq(atomic_load(&stub.calls), 0);
	/* Regular expressions are the backend's to refuse. */
	answer_error(HOLT_EINVALID, "missing )");
	r = holt_sandbox_grep(sandbox, "/w", "(", NULL, on_match, &got, NULL, &error);
	check_error(r, &error, HOLT_EINVALID, "missing )");
}
END_TEST

static void grep_line(const char *line, size_t len, const char *want, size_t want_len)
{
	const struct piece p[] = {{3, line, len, "a:1"}};

	got.n = 0;
	answer(&(struct answer){.pieces = p, .n_pieces = 1});
	ck_assert_int_eq(
		holt_sandbox_grep(sandbox, "/w", "x", NULL, on_match, &got, NULL, NULL), 0);
	ck_assert_str_eq(got.path[0], "/w/a:1");
	ck_assert_uint_eq(got.line_number[0], 3);
	ck_assert_uint_eq(got.line_len[0], want_len);
	ck_assert_int_eq(memcmp(got.line[0], want, want_len), 0);
}

static size_t repeat(char *dst, const char *s, size_t n)
{
	const size_t len = strlen(s);

	for (size_t i = 0; i < n; i++)
		memcpy(dst + i * len, s, len);
	return n * len;
}

/* C-137 */
START_TEST(lines_are_cut_by_characters)
{
	static const char *const chars[] = {"x", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
		"\xFF" /* one that is none counts, too */};
	char line[1100];
	char want[1100];

	for (size_t i = 0; i < N(chars); i++) {
		size_t len = repeat(line, chars[i], 200);

		grep_line(line, len, line, len);
		memcpy(line + len, "\r\r\n", 3);
		grep_line(line, len + 3, line, len);
		len = repeat(line, chars[i], 201);
		size_t n = repeat(want, chars[i], 197);
		memcpy(want + n, "...", 3);
		grep_line(line, len, want, n + 3);
	}
	grep_line("a\0b\r", 4, "a\0b", 3);
	grep_line("", 0, "", 0);
	grep_line("\r\r", 2, "", 0);
	grep_line("head\xE2\x80\xA8tail", 11, "head\xE2\x80\xA8tail", 11);
}
END_TEST

/* C-141 */
START_TEST(a_single_file_names_itself)
{
	const struct piece p[] = {{1, "hit", 3, ""}};
	holt_search_result r = HOLT_SEARCH_RESULT_INIT;

	answer(&(struct answer){.pieces = p, .n_pieces = 1});
	ck_assert_int_eq(
		holt_sandbox_grep(sandbox, "/w/a.log", "x", NULL, on_match, &got, &r, NULL), 0);
	ck_assert_str_eq(got.path[0], "/w/a.log");
	ck_assert(r.count == 1 && r.searched == 7 && r.skipped == 2 && r.truncated == 0);
}
END_TEST

/* C-128, C-145 */
START_TEST(truncated_is_what_the_backend_says)
{
	holt_search_result r = HOLT_SEARCH_RESULT_INIT;

	answer(&(struct answer){.pieces = tree, .n_pieces = 2, .truncated = 5});
	ck_assert_int_eq(holt_sandbox_glob(sandbox, "/w", "*", NULL, on_entry, &got, &r, NULL), 0);
	ck_assert(r.truncated == 1 && r.count == 2);
	answer(&(struct answer){.pieces = NULL});
	ck_assert_int_eq(
		holt_sandbox_glob(sandbox, "/w", "**/*.missing", NULL, on_entry, &got, &r, NULL),
		0);
	ck_assert(r.truncated == 0 && r.count == 0);
}
END_TEST

START_TEST(more_than_the_maximum_is_not_handed_over)
{
	holt_glob_options g = HOLT_GLOB_OPTIONS_INIT;
	holt_search_result r = HOLT_SEARCH_RESULT_INIT;

	answer(&(struct answer){.pieces = tree, .n_pieces = N(tree)});
	g.max_results = 2;
	ck_assert_int_eq(holt_sandbox_glob(sandbox, "/w", "*", &g, on_entry, &got, &r, NULL), 0);
	ck_assert(got.n == 2 && r.count == 2 && r.truncated == 1);
	got.n = 0;
	g.max_results = HOLT_NO_RESULTS;
	ck_assert_int_eq(holt_sandbox_glob(sandbox, "/w", "*", &g, on_entry, &got, &r, NULL), 0);
	ck_assert(got.n == 0 && r.count == 0 && r.truncated == 1);
}
END_TEST

START_TEST(functions_end_the_search)
{
	holt_search_result r = HOLT_SEARCH_RESULT_INIT;
	holt_error *error = NULL;

	r.count = 99;
	for (int deaf = 0; deaf < 2; deaf++) {
		got.n = 0;
		got.stop_at = 2;
		answer(&(struct answer){.pieces = tree, .n_pieces = N(tree), .deaf = deaf});
		const int code = holt_sandbox_list(sandbox, "/w", NULL, on_entry, &got, &r, &error);
		ck_assert_uint_eq(got.n, 2);
		ck_assert_str_eq(holt_error_object(error), "/w");
		check_error(code, &error, HOLT_ECANCELLED, "");
	}
	ck_assert_uint_eq(r.count, 99);
}
END_TEST

/* C-113, C-119 */
START_TEST(failures_are_never_empty_results)
{
	holt_error *error = NULL;

	answer(&(struct answer){.code = HOLT_EDENIED,
		.errnum = EACCES,
		.message = "cannot read",
		.object = "/w/secret",
		.pieces = tree,
		.n_pieces = 2});
	int r = holt_sandbox_list(sandbox, "/w", NULL, on_entry, &got, NULL, &error);
	ck_assert_uint_eq(got.n, 2);
	ck_assert_str_eq(holt_error_object(error), "/w/secret");
	check_error(r, &error, HOLT_EDENIED, "cannot read");
	answer_error(HOLT_ENOT_FOUND, "no '/w'");
	r = holt_sandbox_grep(sandbox, "/w", "x", NULL, on_match, &got, NULL, &error);
	check_error(r, &error, HOLT_ENOT_FOUND, "no '/w'");
}
END_TEST

START_TEST(a_path_has_a_limit)
{
	static char path[(1 << 20) + 10];
	const struct piece p[] = {{1, "", 0, path}};
	holt_error *error = NULL;

	memset(path, 'p', sizeof path - 1);
	answer(&(struct answer){.pieces = p, .n_pieces = 1});
	const int r = holt_sandbox_list(sandbox, "/w", NULL, on_entry, &got, NULL, &error);
	check_error(r, &error, HOLT_ELIMIT, "longer than 1048576 bytes");
}
END_TEST

START_TEST(arguments)
{
	holt_search_result r = HOLT_SEARCH_RESULT_INIT;
	holt_list_options o = HOLT_LIST_OPTIONS_INIT;

	ck_assert_int_eq(
		holt_sandbox_list(NULL, "/w", NULL, on_entry, NULL, NULL, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(
		holt_sandbox_list(sandbox, NULL, NULL, on_entry, NULL, NULL, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(
		holt_sandbox_list(sandbox, "/w", NULL, NULL, NULL, NULL, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_sandbox_glob(sandbox, "/w", NULL, NULL, on_entry, NULL, NULL, NULL),
		-HOLT_EINVALID);
	ck_assert_int_eq(holt_sandbox_grep(sandbox, "/w", "x", NULL, NULL, NULL, NULL, NULL),
		-HOLT_EINVALID);
	r.struct_size = 4;
	ck_assert_int_eq(
		holt_sandbox_list(sandbox, "/w", NULL, on_entry, NULL, &r, NULL), -HOLT_EINVALID);
	o.struct_size = 1;
	ck_assert_int_eq(
		holt_sandbox_list(sandbox, "/w", &o, on_entry, NULL, NULL, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(atomic_load(&stub.calls), 0);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
	unsigned long n = 0;
	int r = -1;

	answer(&(struct answer){.pieces = tree, .n_pieces = N(tree)});
	while (r < 0) {
		got.n = 0;
		mem_fail_at(++n);
		r = holt_sandbox_list(sandbox, "/w", NULL, on_entry, &got, NULL, NULL);
		mem_fail_at(0);
		ck_assert(r == 0 || r == -HOLT_ENO_MEMORY);
	}
	ck_assert_uint_ge(n, 2);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("contract_search");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, start, teardown);
	tcase_add_test(t, the_root_as_it_was_asked_for);
	tcase_add_test(t, what_a_backend_is_asked_for);
	tcase_add_test(t, maxima_of_glob_and_grep);
	tcase_add_test(t, patterns_that_are_refused);
	tcase_add_test(t, lines_are_cut_by_characters);
	tcase_add_test(t, a_single_file_names_itself);
	tcase_add_test(t, truncated_is_what_the_backend_says);
	tcase_add_test(t, more_than_the_maximum_is_not_handed_over);
	tcase_add_test(t, functions_end_the_search);
	tcase_add_test(t, failures_are_never_empty_results);
	tcase_add_test(t, a_path_has_a_limit);
	tcase_add_test(t, arguments);
	tcase_add_test(t, every_allocation_may_fail);
	suite_add_tcase(s, t);
	return run_suite(s);
}
