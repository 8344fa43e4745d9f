/* SPDX-License-Identifier: Apache-2.0 */
#include "search_client.h"

/*
 * Names: listing and globbing by the built-in "files".
 */

static const char *const ignored[] = {".git", "node_modules", "build", "*.log", NULL};

static void list_at_most(struct worker *w, const char *root, uint32_t depth, uint64_t max)
{
	search(w, &(struct wire_msg){.op = WIRE_OP_file_list,
			  .file_list = {.max_depth = depth,
				  .max_results = max,
				  .root = text(root),
				  .ignore = packed_strs(ignored, 8)}});
}

static void list(struct worker *w, const char *root, uint32_t depth)
{
	list_at_most(w, root, depth, 10000);
}

static void glob_at_most(
	struct worker *w, const char *root, const char *pattern, uint32_t flags, uint64_t max)
{
	search(w, &(struct wire_msg){.op = WIRE_OP_file_glob,
			  .file_glob = {.flags = flags,
				  .max_results = max,
				  .root = text(root),
				  .pattern = text(pattern),
				  .ignore = packed_strs(ignored, 8)}});
}

static void glob(struct worker *w, const char *root, const char *pattern)
{
	glob_at_most(w, root, pattern, 0, 10000);
}

static void make_tree(void)
{
	local("mkdir -p t/a/b t/build/x t/node_modules/m t/.git && cd t && "
	      "touch f1 'sp ' a/f2 a/b/f3 build/x/o debug.log .git/config && "
	      "ln -s a lnk && ln -s a/f2 flnk && ln -s nowhere dang && mkfifo p");
}

START_TEST(list_depths)
{
	struct worker *const w = worker_start(NULL);

	make_tree();
	list(w, "t", 0);
	FOUND("d:");
	list(w, "t", 1);
	FOUND("d:", "d:a", "f:f1", "f:sp ");
	list(w, "t", 2);
	FOUND("d:", "d:a", "d:a/b", "f:a/f2", "f:f1", "f:sp ");
	list(w, "t/", 1000);
	FOUND("d:", "d:a", "d:a/b", "f:a/b/f3", "f:a/f2", "f:f1", "f:sp ");
	ck_assert(!found.truncated);
	/* The root is what was asked for, whatever it is called. */
	list(w, "t/build", 2);
	FOUND("d:", "d:x", "f:x/o");
	list(w, "t/debug.log", 2);
	FOUND("f:");
	list(w, in_base("t/a"), 1);
	FOUND("d:", "d:b", "f:f2");
	/* A link to it is followed, as others are not. */
	list(w, "t/lnk", 1);
	FOUND("d:", "d:b", "f:f2");
	list(w, "t/flnk", 1);
	FOUND("f:");
	local("mkdir e && touch e/x.log");
	list(w, "e", 5);
	FOUND("d:");
	list(w, "/", 0);
	FOUND("d:");
}
END_TEST

START_TEST(missing_roots)
{
	struct worker *const w = worker_start(NULL);

	make_tree();
	list(w, "t/none", 2);
	found_fails(WIRE_FILE_FAIL_ERRNO, ENOENT, "list", "t/none");
	list(w, "t/dang", 2);
	found_fails(WIRE_FILE_FAIL_ERRNO, ENOENT, "list", "t/dang");
	list(w, "t/f1/x", 2);
	found_fails(WIRE_FILE_FAIL_ERRNO, ENOTDIR, "list", "t/f1/x");
	list(w, "t/p", 2);
	found_fails(WIRE_FILE_FAIL_REQUEST, ENOTDIR, "list", "t/p");
	glob(w, "t/none", "*");
	found_fails(WIRE_FILE_FAIL_ERRNO, ENOENT, "search", "t/none");
	glob(w, "t/dang", "*");
	found_fails(WIRE_FILE_FAIL_ERRNO, ENOENT, "search", "t/dang");
	glob(w, "t/f1", "*");
	FOUND();
	glob(w, "t/p", "*");
	FOUND();
	glob(w, "t", "*");
	ck_assert_uint_eq(found.n, 4);
}
END_TEST

/* The maximum counts the root of a list, too. */
START_TEST(truncated_is_exact)
{
	struct worker *const w = worker_start(NULL);

	local("mkdir t && cd t && touch a b c d x.log y.log && mkdir node_modules && touch "
	      "node_modules/e");
	for (uint64_t max = 0; max < 8; max++) {
		list_at_most(w, "t", 9, max);
		ck_assert_uint_eq(found.n, max < 5 ? max : 5);
		ck_assert_int_eq(found.truncated, max < 5);
		glob_at_most(w, "t", "*", 0, max);
		ck_assert_uint_eq(found.n, max < 4 ? max : 4);
		ck_assert_int_eq(found.truncated, max < 4);
	}
	glob_at_most(w, "t", "none", 0, 0);
	ck_assert(!found.truncated);
}
END_TEST

START_TEST(glob_patterns)
{
	struct worker *const w = worker_start(NULL);

	local("mkdir -p t/src/d/e t/vendor/src t/d/e t/build && cd t && touch src/a.js src/d/b.js "
	      "src/d/e/b.js vendor/src/a.js a.js d/e/a.js build/x.js .hid src/x.log && "
	      "ln -s a.js l.js && ln -s src lsrc");
	glob(w, "t", "src/*.js");
	FOUND("f:src/a.js");
	glob(w, "t", "src/**/*.js");
	FOUND("f:src/a.js", "f:src/d/b.js", "f:src/d/e/b.js");
	glob(w, "t", "**/a.js");
	FOUND("f:a.js", "f:d/e/a.js", "f:src/a.js", "f:vendor/src/a.js");
	glob(w, "t", "b.js");
	FOUND("f:src/d/b.js", "f:src/d/e/b.js");
	glob(w, "t", "./*");
	FOUND("f:.hid", "f:a.js");
	glob(w, "t", "**/*.missing");
	FOUND();
	glob(w, "t", "/a.js");
	FOUND();
	glob(w, "t", "*.log");
	FOUND();
	glob_at_most(w, "t", "src/**", WIRE_GLOB_DIRS, 100);
	FOUND("d:src", "d:src/d", "d:src/d/e", "f:src/a.js", "f:src/d/b.js", "f:src/d/e/b.js");
	glob_at_most(w, "t", "**", WIRE_GLOB_DIRS, 3);
	ck_assert_uint_eq(found.n, 3);
	ck_assert(found.truncated);
	glob(w, "t/build", "*");
	FOUND("f:x.js");
	glob(w, "t/lsrc", "*.js");
	FOUND("f:a.js", "f:d/b.js", "f:d/e/b.js");
	glob(w, "t/lsrc/", "./*.js");
	FOUND("f:a.js");
}
END_TEST

START_TEST(names_are_bytes)
{
	static const char *const names[] = {"-n", "a\nb", "a:9:b", "\xe4\xff", "\xe6\x97\xa5",
		" x ", "'\"", "\\", "x\x0by", "*"};
	struct worker *const w = worker_start(NULL);
	char longest[NAME_MAX + 1] = {0};

	ck_assert_int_eq(mkdir(in_base("t"), 0755), 0);
	memset(longest, 'n', NAME_MAX);
	char name[NAME_MAX + 3];
	(void)snprintf(name, sizeof(name), "t/%s", longest);
	put_file(name, "", 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		(void)snprintf(name, sizeof(name), "t/%s", names[i]);
		put_file(name, "", 0);
		glob(w, "t", names[i][0] == '*' ? "[*]" : names[i]);
		(void)snprintf(name, sizeof(name), "f:%s", names[i]);
		FOUND(name);
	}
	list(w, "t", 1);
	ck_assert_uint_eq(found.n, sizeof(names) / sizeof(names[0]) + 2);
	glob(w, "t", "nnn*");
	(void)snprintf(name, sizeof(name), "f:%s", longest);
	FOUND(name);
}
END_TEST

START_TEST(deep_trees)
{
	struct worker *const w = worker_start(NULL);

	/* The file lies 1000 deep, in the last directory that is read. */
	int fd = make_deep("t", 999, "d");
	ck_assert_int_ge(openat(fd, "bottom", O_CREAT | O_WRONLY | O_CLOEXEC, 0644), 0);
	glob(w, "t", "bottom");
	ck_assert_uint_eq(found.n, 1);
	list(w, "t", 1000);
	ck_assert_uint_eq(found.n, 1001);
	/* One more directory can be listed, but not read. */
	ck_assert_int_eq(mkdirat(fd, "d", 0755), 0);
	list(w, "t", 1000);
	ck_assert_uint_eq(found.n, 1002);
	list(w, "t", 1001);
	ck_assert(found.failed);
	ck_assert_uint_eq(found.class, WIRE_FILE_FAIL_LIMIT);
	glob(w, "t", "bottom");
	ck_assert_uint_eq(found.class, WIRE_FILE_FAIL_LIMIT);
	/* Where nothing can match nobody looks. */
	glob(w, "t", "d/*");
	ck_assert(!found.failed);
	(void)close(fd);
	list(w, "t", 1);
	ck_assert_uint_eq(found.n, 2);
}
END_TEST

START_TEST(long_paths)
{
	struct worker *const w = worker_start(NULL);
	char name[NAME_MAX + 1] = {0};

	/* 255 directories make a path of 65,279 bytes, one file more 65,535. */
	memset(name, 'n', NAME_MAX);
	const int fd = make_deep("t", 255, name);
	const int file = openat(fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	ck_assert_int_ge(file, 0);
	(void)close(file);
	list(w, "t", 1000);
	ck_assert_uint_eq(found.n, 257);
	ck_assert_uint_eq(strlen(found.results[256]), WIRE_PATH_MAX + 2);
	ck_assert_int_eq(unlinkat(fd, name, 0), 0);
	ck_assert_int_eq(mkdirat(fd, name, 0755), 0);
	const int last = openat(fd, name, O_PATH | O_CLOEXEC);
	ck_assert_int_eq(mkdirat(last, "x", 0755), 0);
	list(w, "t", 1000);
	ck_assert(found.failed);
	ck_assert_uint_eq(found.class, WIRE_FILE_FAIL_LIMIT);
	(void)close(last);
	(void)close(fd);
}
END_TEST

START_TEST(unreadable_directories)
{
	struct worker *const w = worker_of_user();

	local("mkdir -p t/secret/x t/open t/build && touch t/open/f && chmod 0 t/secret t/build");
	list(w, "t", 2);
	found_fails(WIRE_FILE_FAIL_ERRNO, EACCES, "list", "t/secret");
	ck_assert_ptr_nonnull(strstr(found.text, "cannot read the directory 't/secret'"));
	glob(w, "t", "*");
	found_fails(WIRE_FILE_FAIL_ERRNO, EACCES, "search", "t/secret");
	list(w, "t/secret", 1);
	found_fails(WIRE_FILE_FAIL_ERRNO, EACCES, "list", "t/secret");
	list(w, "t/secret/x", 1);
	found_fails(WIRE_FILE_FAIL_ERRNO, EACCES, "list", "t/secret/x");
	/* What is not read need not be readable. */
	list(w, "t", 1);
	FOUND("d:", "d:open", "d:secret");
	list(w, "t/secret", 0);
	FOUND("d:");
	glob(w, "t", "open/*");
	FOUND("f:open/f");
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("search");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, files_setup, search_teardown);
	tcase_add_test(t, list_depths);
	tcase_add_test(t, missing_roots);
	tcase_add_test(t, truncated_is_exact);
	tcase_add_test(t, glob_patterns);
	tcase_add_test(t, names_are_bytes);
	tcase_add_test(t, deep_trees);
	tcase_add_test(t, long_paths);
	tcase_add_test(t, unreadable_directories);
	return run_cases("files: search", t);
}
