/* SPDX-License-Identifier: Apache-2.0 */
#include "search_client.h"

/*
 * Lines: grep by the built-in "files".
 */

static const struct wire_file_grep defaults = {
	.max_results = 1000, .line_max = 1000, .step_limit = 1000000, .time_ms = 20000};

static void grep_as(struct worker *w, const char *root, const char *pattern, const char *glob,
	struct wire_file_grep how)
{
	static const char *const ignored[] = {".git", "build", "*.log", NULL};

	how.root = text(root);
	how.pattern = text(pattern);
	how.glob = text(glob);
	how.ignore = packed_strs(ignored, 8);
	search(w, &(struct wire_msg){.op = WIRE_OP_file_grep, .file_grep = how});
}

static void grep(struct worker *w, const char *root, const char *pattern)
{
	grep_as(w, root, pattern, NULL, defaults);
}

static void put_text(const char *name, const char *s)
{
	put_file(name, s, strlen(s));
}

START_TEST(finds_lines)
{
	struct worker *const w = worker_start(NULL);

	local("mkdir -p t/d t/build t/.git && cd t && printf 'one\\nTwo\\nthree two\\n' >a && "
	      "printf 'two' >d/b && echo two >build/c && echo two >.git/c && echo two >x.log && "
	      "ln -s d/b l && ln -s d ld && mkfifo p && echo two >'x:9:y.txt' && : >empty");
	grep(w, "t", "two");
	FOUND("a:2:Two", "a:3:three two", "d/b:1:two", "x:9:y.txt:1:two");
	ck_assert_uint_eq(found.searched, 4);
	ck_assert_uint_eq(found.skipped, 0);
	ck_assert(!found.truncated);
	grep(w, "t", "^two$");
	FOUND("a:2:Two", "d/b:1:two", "x:9:y.txt:1:two");
	struct wire_file_grep how = defaults;
	how.flags = WIRE_GREP_CASE;
	grep_as(w, "t", "two", NULL, how);
	FOUND("a:3:three two", "d/b:1:two", "x:9:y.txt:1:two");
	how.flags = WIRE_GREP_LITERAL;
	grep_as(w, "t", "e t", NULL, how);
	FOUND("a:3:three two");
	grep_as(w, "t", "^two", NULL, how);
	FOUND();
	/* Ignored names above it do not count. */
	grep(w, "t/build", "two");
	FOUND("c:1:two");
	grep(w, "t/x.log", "two");
	FOUND(":1:two");
	grep(w, "t/l", "two");
	FOUND(":1:two");
	grep(w, "t/ld", "two");
	FOUND("b:1:two");
	grep(w, "t", "nothing");
	FOUND();
}
END_TEST

START_TEST(roots_and_faults)
{
	struct worker *const w = worker_start(NULL);

	local("mkdir t && ln -s none t/dang && mkfifo t/p");
	grep(w, "t/none", "x");
	found_fails(WIRE_FILE_FAIL_ERRNO, ENOENT, "search", "t/none");
	grep(w, "t/dang", "x");
	found_fails(WIRE_FILE_FAIL_ERRNO, ENOENT, "search", "t/dang");
	grep(w, "t/p", "x");
	found_fails(WIRE_FILE_FAIL_REQUEST, ENOTDIR, "search", "t/p");
	grep(w, "t", "(");
	found_fails(WIRE_FILE_FAIL_PATTERN, 0, "search", "");
	ck_assert_str_eq(found.text,
		"the pattern cannot be compiled: missing closing parenthesis, at byte 1");
	/* Before the root is looked at. */
	grep(w, "t/none", "*a");
	ck_assert_uint_eq(found.class, WIRE_FILE_FAIL_PATTERN);
	grep(w, "t", "x");
	FOUND();
}
END_TEST

START_TEST(globs)
{
	struct worker *const w = worker_start(NULL);

	local("mkdir -p t/src/deep t/vendor && cd t && for f in src/a.js src/deep/b.js vendor/c.js "
	      "d.js src/e.py; do echo x >$f; done");
	grep_as(w, "t", "x", "src/*.js", defaults);
	FOUND("src/a.js:1:x");
	ck_assert_uint_eq(found.searched, 1);
	grep_as(w, "t", "x", "src/**/*.js", defaults);
	FOUND("src/a.js:1:x", "src/deep/b.js:1:x");
	grep_as(w, "t", "x", "*.js", defaults);
	FOUND("d.js:1:x", "src/a.js:1:x", "src/deep/b.js:1:x", "vendor/c.js:1:x");
	/* Of a file that is the root, the name counts. */
	grep_as(w, "t/src/a.js", "x", "*.js", defaults);
	FOUND(":1:x");
	grep_as(w, "t/src/a.js", "x", "*.py", defaults);
	FOUND();
	grep_as(w, "t/src/a.js", "x", "src/*.js", defaults);
	FOUND();
}
END_TEST

START_TEST(truncated_is_exact)
{
	struct worker *const w = worker_start(NULL);
	struct wire_file_grep how = defaults;

	local("mkdir t && cd t && printf 'x\\nx\\n' >a && printf 'x\\ny\\nx\\n' >b && printf "
	      "'x\\n' >c.log");
	for (how.max_results = 0; how.max_results < 6; how.max_results++) {
		grep_as(w, "t", "x", NULL, how);
		ck_assert_uint_eq(found.n, how.max_results < 4 ? how.max_results : 4);
		ck_assert_int_eq(found.truncated, how.max_results < 4);
	}
	how.max_results = 0;
	grep_as(w, "t", "z", NULL, how);
	ck_assert(!found.truncated);
}
END_TEST

START_TEST(line_ends)
{
	struct worker *const w = worker_start(NULL);

	put_text("a", "x\r\nxy\r\r\n\r\nx\rx\r\nx\x0bx\nx\x0cx\nx\xe2\x80\xa8x\nx\r");
	grep(w, "a", "^x");
	FOUND(":1:x", ":2:xy", ":4:x\rx", ":5:x\x0bx", ":6:x\x0cx", ":7:x\xe2\x80\xa8x", ":8:x");
	grep(w, "a", "x$");
	FOUND(":1:x", ":4:x\rx", ":5:x\x0bx", ":6:x\x0cx", ":7:x\xe2\x80\xa8x", ":8:x");
	grep(w, "a", "^$");
	FOUND(":3:");
	grep(w, "a", "\\r");
	FOUND(":4:x\rx");
	grep(w, "a", "y");
	ck_assert_uint_eq(found.line_len, 2);
}
END_TEST

START_TEST(text_and_binary)
{
	struct worker *const w = worker_start(NULL);
	uint8_t *const data = calloc(1, 20000);

	ck_assert_int_eq(mkdir(in_base("t"), 0755), 0);
	put_file("t/binary", "x\0x\n", 4);
	put_text("t/latin", "gr\xfc\xdf x\n");
	memset(data, 'x', 20000);
	data[8191] = 0;
	put_file("t/late8191", data, 20000);
	data[8191] = 'x';
	data[8192] = 0;
	put_file("t/late8192", data, 20000);
	free(data);
	struct wire_file_grep how = defaults;
	how.line_max = 3;
	grep_as(w, "t", "x", NULL, how);
	FOUND("late8192:1:xxx", "latin:1:gr\xfc");
	ck_assert_uint_eq(found.searched, 2);
	ck_assert_uint_eq(found.skipped, 2);
	ck_assert_uint_eq(found.line_len, 6 + (found.line_len > 100 ? 20000 - 6 : 0));
	grep(w, "t/latin", "GR");
	FOUND(":1:gr\xfc\xdf x");
	grep(w, "t/binary", "x");
	FOUND();
	ck_assert_uint_eq(found.skipped, 1);
	how.line_max = 0;
	grep_as(w, "t/latin", "x", NULL, how);
	FOUND(":1:");
	how.line_max = UINT32_MAX;
	grep_as(w, "t/latin", "x", NULL, how);
	FOUND(":1:gr\xfc\xdf x");
}
END_TEST

/* Lines around the ends of the chunks that a file is read in. */
START_TEST(chunks)
{
	struct worker *const w = worker_start(NULL);
	enum { SIZE = 1200000 };
	char *const data = malloc(SIZE);

	for (size_t at = 262144 - 20; at < 262144 + 20; at++) {
		if (at % 5)
			continue;
		for (size_t i = 0; i < SIZE; i++)
			data[i] = i % 64 == 63 ? '\n' : 'a';
		memcpy(data + at, "\nxyz\r\n", 6);
		memcpy(data + SIZE - 3, "xyz", 3);
		put_file("f", data, SIZE);
		size_t line = 2;
		for (size_t i = 0; i < at; i++)
			line += data[i] == '\n';
		size_t last = 1;
		for (size_t i = 0; i < SIZE; i++)
			last += data[i] == '\n';
		grep(w, "f", "xyz$");
		ck_assert_uint_eq(found.n, 2);
		char want[64];
		(void)snprintf(want, sizeof(want), ":%zu:xyz", line);
		ck_assert_int_eq(
			strcmp(found.results[0], want) == 0 || strcmp(found.results[1], want) == 0,
			1);
		(void)snprintf(want, sizeof(want), ":%zu:", last);
		ck_assert(strncmp(found.results[0], want, strlen(want)) == 0 ||
			  strncmp(found.results[1], want, strlen(want)) == 0);
	}
	free(data);
}
END_TEST

START_TEST(long_lines)
{
	struct worker *const w = worker_start(NULL);
	const size_t most = 8 * MIB;
	char *const data = malloc(most + 100);

	ck_assert_ptr_nonnull(data);
	memset(data, 'a', most + 100);
	memcpy(data, "x1\n", 3);
	memcpy(data + 3 + most - 2, "x2\nx3", 5);
	put_file("f", data, 3 + most + 3);
	struct wire_file_grep how = defaults;
	how.line_max = 3;
	grep_as(w, "f", "x", NULL, how);
	FOUND(":1:x1", ":2:aaa", ":3:x3");
	ck_assert_uint_eq(found.skipped, 0);
	/* One byte more, with and without an end. */
	for (int end = 0; end < 2; end++) {
		memcpy(data + 3 + most - 2, end ? "aax\nx3" : "aaxaaa", 6);
		put_file("f", data, end ? 3 + most + 4 : 3 + most + 1);
		grep_as(w, "f", "x", NULL, how);
		FOUND(":1:x1");
		ck_assert_uint_eq(found.skipped, 1);
	}
	/* The last line may be as long without an end. */
	put_file("f", data, 3 + most);
	grep_as(w, "f", "a$", NULL, how);
	FOUND(":2:aaa");
	ck_assert_uint_eq(found.line_len, most);
	free(data);
}
END_TEST

START_TEST(limits)
{
	struct worker *const w = worker_start(NULL);
	struct wire_file_grep how = defaults;

	local("mkdir t && printf 'ok\\n\\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\\n' >t/f");
	const uint64_t start = now_ms();
	grep(w, "t", "^(a+)+$");
	found_fails(WIRE_FILE_FAIL_STEPS, 0, "search", "t/f");
	ck_assert_str_eq(found.text, "the pattern needs too many steps on line 3 of f");
	grep(w, "t/f", "^(a+)+$");
	found_fails(WIRE_FILE_FAIL_STEPS, 0, "search", "t/f");
	ck_assert_uint_lt(now_ms() - start, 10000);
	grep(w, "t", "ok");
	FOUND("f:1:ok");
	/* A clock that has to move on first. */
	local("i=0; while [ $i -lt 3000 ]; do echo x >t/$i; i=$((i+1)); done");
	how.time_ms = 1;
	how.max_results = 10;
	grep_as(w, "t", "none", NULL, how);
	ck_assert(found.failed);
	ck_assert_uint_eq(found.class, WIRE_FILE_FAIL_TIME);
	how.time_ms = 0;
	grep_as(w, "t", "none", NULL, how);
	FOUND();
	ck_assert_uint_eq(found.searched, 3001);
}
END_TEST

START_TEST(unreadable_files)
{
	struct worker *const w = worker_of_user();

	local("mkdir -p t/d && echo x >t/d/f && echo x >t/a.log && chmod 0 t/d/f t/a.log");
	grep(w, "t", "x");
	found_fails(WIRE_FILE_FAIL_ERRNO, EACCES, "search", "t/d/f");
	grep(w, "t/a.log", "x");
	found_fails(WIRE_FILE_FAIL_ERRNO, EACCES, "search", "t/a.log");
	grep_as(w, "t", "x", "*.c", defaults);
	FOUND();
	local("rm -f t/d/f && chmod 0 t/d");
	grep(w, "t", "x");
	found_fails(WIRE_FILE_FAIL_ERRNO, EACCES, "search", "t/d");
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("grep");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, files_setup, search_teardown);
	tcase_add_test(t, finds_lines);
	tcase_add_test(t, roots_and_faults);
	tcase_add_test(t, globs);
	tcase_add_test(t, truncated_is_exact);
	tcase_add_test(t, line_ends);
	tcase_add_test(t, text_and_binary);
	tcase_add_test(t, chunks);
	tcase_add_test(t, long_lines);
	tcase_add_test(t, limits);
	tcase_add_test(t, unreadable_files);
	return run_cases("files: grep", t);
}
