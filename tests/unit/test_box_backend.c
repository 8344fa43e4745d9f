/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box as a backend of the sandbox contract, over the fake engine: each operation of the table.
 * What becomes of its file workers is in test_box_files.c, what a lying guest can do in
 * test_file_worker.c.
 */
#include "backend_fixture.h"

START_TEST(content_goes_round)
{
	struct sink s = {.len = 0};
	struct text more = {"four\n", 5};
	struct text bytes = {"\xff", 1};
	const holt_backend_read lines = {.first_line = 2, .last_line = 3};

	ok(put(in("a"), "one\ntwo\nthree\n", 0, E));
	check_text(in("a"), "one\ntwo\nthree\n");
	ok(box_backend.append(self, in("a"), 0, from_text, &more, &soon, E));
	ok(box_backend.read(self, in("a"), &lines, to_sink, &s, &soon, E));
	ck_assert_str_eq(s.data, "two\nthree\n");
	ok(box_backend.update(self, in("b/c/d"), HOLT_WRITE_PARENTS, from_text, &bytes, &soon, E));
	s.len = 0;
	ok(box_backend.download(self, in("b/c/d"), 1, to_sink, &s, &soon, E));
	ck_assert_str_eq(s.data, "\xff");
	/* Relative paths begin at the sandbox's directory; nothing is a content, too. */
	ok(put("e", "", 0, E));
	check_text(in("e"), "");
}
END_TEST

START_TEST(names_are_made_moved_removed)
{
	holt_file_info info = HOLT_FILE_INFO_INIT;

	ok(box_backend.make_directory(self, in("d/e"), HOLT_MKDIR_PARENTS, &soon, E));
	ok(box_backend.make_directory(self, in("d/e"), HOLT_MKDIR_PARENTS, &soon, E));
	fails(HOLT_EEXISTS, box_backend.make_directory(self, in("d"), 0, &soon, E));
	ok(put(in("d/f"), "12345", 0, E));
	ok(box_backend.stat(self, in("d/f"), 0, &soon, &info, E));
	ck_assert_int_eq(info.type, HOLT_FILE_REGULAR);
	ck_assert_uint_eq(info.size_bytes, 5);
	ck_assert_uint_eq(info.mode, 0644);
	ck_assert_uint_eq(info.uid, geteuid());
	ck_assert_int_gt(info.mtime_ns, 1700000000000000000);
	ok(box_backend.move(self, in("d/f"), in("g"), 0, &soon, E));
	ck_assert_int_eq(symlink("g", in("link")), 0);
	ok(box_backend.stat(self, in("link"), 0, &soon, &info, E));
	ck_assert_int_eq(info.type, HOLT_FILE_REGULAR);
	ok(box_backend.stat(self, in("link"), HOLT_STAT_NOFOLLOW, &soon, &info, E));
	ck_assert_int_eq(info.type, HOLT_FILE_SYMLINK);
	fails(HOLT_EEXISTS,
		box_backend.move(self, in("g"), in("link"), HOLT_MOVE_NOREPLACE, &soon, E));
	fails(HOLT_EINVALID, box_backend.remove(self, in("d"), 0, &soon, E));
	ok(box_backend.remove(self, in("d"), HOLT_REMOVE_RECURSIVE, &soon, E));
	fails(HOLT_ENOT_FOUND, box_backend.remove(self, in("d"), 0, &soon, E));
	ok(box_backend.remove(self, in("d"), HOLT_REMOVE_FORCE, &soon, E));
}
END_TEST

static const char *const ignore[] = {".git", "*.log", NULL};

START_TEST(searches_find_what_is_there)
{
	holt_backend_search what = {.root = work,
		.ignore = ignore,
		.max_results = 10,
		.max_depth = 1,
		.line_bytes = 10};
	holt_search_result result = HOLT_SEARCH_RESULT_INIT;
	struct found f = {.n = 0};

	ok(put(in("src/a.c"), "int one;\nINT two three four;\n", HOLT_WRITE_PARENTS, E));
	ok(put(in("src/x.log"), "int\n", 0, E));
	ok(put(in(".git/y.c"), "int\n", HOLT_WRITE_PARENTS, E));
	ok(box_backend.list(self, &what, to_found, &f, &soon, &result, E));
	ck_assert_str_eq(f.text, "/\nsrc/\n");
	ck_assert_uint_eq(result.count, 2);
	ck_assert_uint_eq(result.truncated, 0);
	what.max_results = 1;
	f = (struct found){.n = 0};
	ok(box_backend.list(self, &what, to_found, &f, &soon, &result, E));
	ck_assert_str_eq(f.text, "/\n");
	ck_assert_uint_eq(result.truncated, 1);
	what.max_results = 0;
	ok(box_backend.list(self, &what, to_found, &f, &soon, &result, E));
	ck_assert_uint_eq(result.count, 0);
	ck_assert_uint_eq(result.truncated, 1);

	what.max_results = 10;
	what.pattern = "*.c";
	f = (struct found){.n = 0};
	ok(box_backend.glob(self, &what, to_found, &f, &soon, &result, E));
	ck_assert_str_eq(f.text, "src/a.c\n");
	what.pattern = "s*";
	what.flags = HOLT_GLOB_DIRECTORIES;
	f = (struct found){.n = 0};
	ok(box_backend.glob(self, &what, to_found, &f, &soon, NULL, E));
	ck_assert_str_eq(f.text, "src/\n");

	what.pattern = "^int ";
	what.flags = 0;
	f = (struct found){.n = 0};
	ok(box_backend.grep(self, &what, to_matches, &f, &soon, &result, E));
	ck_assert_str_eq(f.text, "src/a.c:1:int one;\nsrc/a.c:2:INT two th\n");
	ck_assert_uint_eq(result.searched, 1);
	what.root = in("src/a.c");
	what.pattern = "^";
	what.flags = HOLT_GREP_LITERAL;
	f = (struct found){.n = 0};
	ok(box_backend.grep(self, &what, to_matches, &f, &soon, &result, E));
	ck_assert_str_eq(f.text, "");
	what.pattern = "INT";
	what.flags = HOLT_GREP_LITERAL | HOLT_GREP_CASE_SENSITIVE;
	ok(box_backend.grep(self, &what, to_matches, &f, &soon, &result, E));
	ck_assert_str_eq(f.text, ":2:INT two th\n");
}
END_TEST

START_TEST(failures_are_typed)
{
	const holt_backend_read all = {.max_bytes = 3};
	holt_backend_search what = {
		.root = work, .max_results = 10, .pattern = "(", .max_depth = 1};
	struct text t = {"x", 1};
	holt_file_info info = HOLT_FILE_INFO_INIT;
	holt_error *e = NULL;
	char *longer = malloc(70000);

	ok(put(in("a"), "four", 0, E));
	ck_assert_int_eq(box_backend.read(self, in("no\nne"), &all, to_nowhere, NULL, &soon, &e),
		-HOLT_ENOT_FOUND);
	ck_assert_int_eq(holt_error_errno(e), ENOENT);
	ck_assert_str_eq(holt_error_stage(e), "read");
	/* What comes from a guest does not reach a terminal as it is. */
	ck_assert_ptr_nonnull(strstr(holt_error_object(e), "no\\x0ane"));
	ck_assert_ptr_null(strchr(holt_error_message(e), '\n'));
	ck_assert_str_ne(holt_error_hint(e), "");
	holt_error_free(e);
	e = NULL;
	ck_assert_int_eq(
		box_backend.read(self, in("a"), &all, to_nowhere, NULL, &soon, &e), -HOLT_ELIMIT);
	ck_assert_int_eq(holt_error_errno(e), EFBIG);
	holt_error_free(e);
	fails(HOLT_EINVALID, box_backend.read(self, work, &all, to_nowhere, NULL, &soon, E));
	fails(HOLT_EINVALID, box_backend.stat(self, in("a/b"), 0, &soon, &info, E));
	fails(HOLT_EINVALID, box_backend.grep(self, &what, to_matches, &what, &soon, NULL, E));
	what.root = in("none");
	fails(HOLT_ENOT_FOUND, box_backend.list(self, &what, to_found, &what, &soon, NULL, E));
	fails(HOLT_EEXISTS,
		box_backend.write(self, in("a"), HOLT_WRITE_EXCLUSIVE, from_text, &t, &soon, E));
	check_text(in("a"), "four");
	/* Refused here, since no message holds them. */
	memset(longer, 'x', 69999);
	longer[69999] = 0;
	fails(HOLT_EINVALID, box_backend.stat(self, longer, 0, &soon, &info, E));
	fails(HOLT_EINVALID, box_backend.stat(self, "", 0, &soon, &info, E));
	fails(HOLT_EINVALID, box_backend.move(self, in("a"), longer, 0, &soon, E));
	free(longer);
}
END_TEST

START_TEST(what_the_user_may_not_read_is_an_error_and_no_result_that_lacks_it)
{
	const holt_backend_read all = {.first_line = 0};
	const holt_backend_search what = {
		.root = ".", .max_results = 10, .max_depth = 3, .pattern = "x", .line_bytes = 10};
	struct found f = {.n = 0};
	holt_file_info info = HOLT_FILE_INFO_INIT;
	holt_error *e = NULL;
	void *other = NULL;

	ok(put(in("open"), "x", 0, E));
	ok(put(in("closed/a"), "x", HOLT_WRITE_PARENTS, E));
	ck_assert_int_eq(chmod(in("closed"), 0), 0);
	/* Who is not root is stopped by the mode alone. */
	ok(box_backend_new(box, geteuid() == 0 ? "65534:65534" : NULL, work, &other, E));
	fails(HOLT_EDENIED, box_backend.read(other, "closed/a", &all, to_nowhere, NULL, &soon, E));
	fails(HOLT_EDENIED, box_backend.glob(other, &what, to_found, &f, &soon, NULL, E));
	fails(HOLT_EDENIED, box_backend.grep(other, &what, to_matches, &f, &soon, NULL, E));
	ck_assert_int_eq(
		box_backend.list(other, &what, to_found, &f, &soon, NULL, &e), -HOLT_EDENIED);
	ck_assert_int_eq(holt_error_errno(e), EACCES);
	ck_assert_ptr_nonnull(strstr(holt_error_hint(e), "incomplete"));
	holt_error_free(e);
	ok(box_backend.stat(other, "open", 0, &soon, &info, E));
	box_backend.close(other);
	ck_assert_int_eq(chmod(in("closed"), 0700), 0);
}
END_TEST

START_TEST(a_search_ends_with_whoever_wants_no_more)
{
	const holt_backend_search what = {.root = work, .max_results = 10, .max_depth = 3};
	struct found f = {.stop_at = 1};

	fails(HOLT_ECANCELLED, box_backend.list(self, &what, to_found, &f, &soon, NULL, E));
	ck_assert_uint_eq(f.n, 1);
	ok(put(in("a"), "x", 0, E));
}
END_TEST

START_TEST(commands_have_surroundings_and_an_end)
{
	struct output o = {.total = 0};
	holt_exit result = HOLT_EXIT_INIT;
	char want[256];

	ok(command("echo $WORD; pwd; echo err >&2; cat; exit 7", &forever, HOLT_FOREVER, &o,
		&result, E));
	snprintf(want, sizeof want, "value\n%s\n", work);
	ck_assert_str_eq(o.text[HOLT_STDOUT], want);
	ck_assert_str_eq(o.text[HOLT_STDERR], "err\n");
	ck_assert_int_eq(result.code, 7);
	o = (struct output){.total = 0};
	ok(command("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; kill -9 $$", &soon,
		HOLT_FOREVER, &o, &result, E));
	ck_assert_uint_eq(o.total, 6000000);
	ck_assert_int_eq(result.code, 137);
	ck_assert_int_eq(result.signal, SIGKILL);
}
END_TEST

START_TEST(a_command_ends_in_time)
{
	struct output o = {.total = 0};
	holt_exit result = HOLT_EXIT_INIT;
	const holt_call brief = {.timeout_ms = 300};
	uint64_t before = clock_mono_ms();

	ok(command("echo part; sleep 100 & sleep 100", &forever, 300, &o, &result, E));
	ck_assert_int_eq(result.code, 124);
	ck_assert_uint_eq(result.flags, HOLT_EXIT_TIMED_OUT);
	ck_assert_str_eq(o.text[HOLT_STDOUT], "part\n");
	ck_assert_uint_lt(clock_mono_ms() - before, 3000);
	before = clock_mono_ms();
	fails(HOLT_ETIMEOUT, command("sleep 100", &brief, HOLT_FOREVER, &o, &result, E));
	/* Also with something to do all the time. */
	fails(HOLT_ETIMEOUT, command("yes", &brief, HOLT_FOREVER, &o, &result, E));
	ck_assert_uint_lt(clock_mono_ms() - before, 5000);
	o.stop_at = o.total + 100000;
	fails(HOLT_ECANCELLED, command("yes", &forever, HOLT_FOREVER, &o, &result, E));
	ok(command("true", &soon, HOLT_FOREVER, &o, &result, E));
}
END_TEST

START_TEST(a_command_that_cannot_start_is_typed)
{
	static const char *const missing[] = {"/no/such/program", NULL};
	static const char *const directory[] = {"/etc", NULL};
	holt_backend_command c = {.argv = missing, .output = to_output};
	holt_exit result = HOLT_EXIT_INIT;
	void *other = NULL;

	c.timeout_ms = HOLT_FOREVER;
	fails(HOLT_ENOT_FOUND, box_backend.execute(self, &c, &soon, &result, E));
	c.argv = directory;
	fails(HOLT_EDENIED, box_backend.execute(self, &c, &soon, &result, E));
	/* The caller's own directory is not made. */
	ok(box_backend_new(box, NULL, in("new"), &other, E));
	c.argv = (const char *const[]){"/bin/true", NULL};
	fails(HOLT_EINVALID, box_backend.execute(other, &c, &soon, &result, E));
	holt_file_info info = HOLT_FILE_INFO_INIT;
	fails(HOLT_EINVALID, box_backend.stat(other, ".", 0, &soon, &info, E));
	fails(HOLT_EINVALID, box_backend.execute(other, &c, &soon, &result, E));
	box_backend.close(other);
	ok(box_backend_new(box, "no-such-user", NULL, &other, E));
	fails(HOLT_EINVALID, box_backend.stat(other, "/", 0, &soon, &info, E));
	box_backend.close(other);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {content_goes_round, names_are_made_moved_removed,
		searches_find_what_is_there, failures_are_typed,
		what_the_user_may_not_read_is_an_error_and_no_result_that_lacks_it,
		a_search_ends_with_whoever_wants_no_more, commands_have_surroundings_and_an_end,
		a_command_ends_in_time, a_command_that_cannot_start_is_typed};

	return run_backend_tests("box backend", tests, sizeof tests / sizeof tests[0]);
}
