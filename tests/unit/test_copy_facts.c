/* SPDX-License-Identifier: Apache-2.0 */
/* What stands at a path of the host, and what a box says about its own, which may be anything. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/box_builtin.h"
#include "box/copy_facts.h"

static char dir[64];

static void setup(void)
{
	snprintf(dir, sizeof dir, "/tmp/holt-facts-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chdir(dir), 0);
	ck_assert_int_eq(mkdir("d", 0755), 0);
	ck_assert_int_eq(mkdir("d/e", 0755), 0);
	ck_assert_int_eq(fs_write_atomic(AT_FDCWD, "f", "x", 1, 0644), 0);
	ck_assert_int_eq(mkfifo("p", 0600), 0);
	ck_assert_int_eq(symlink("d", "to-d"), 0);
	ck_assert_int_eq(symlink("f", "to-f"), 0);
	ck_assert_int_eq(symlink("to-f", "to-to-f"), 0);
	ck_assert_int_eq(symlink("d/none", "dangling"), 0);
	ck_assert_int_eq(symlink("../dangling", "d/up"), 0);
	ck_assert_int_eq(symlink("none/none", "lost"), 0);
	ck_assert_int_eq(symlink("loop", "loop"), 0);
}

static void teardown(void)
{
	ck_assert_int_eq(chdir("/"), 0);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
}

static const struct {
	const char *path;
	int follow;
	enum copy_type type;
	const char *real; /* beneath the directory */
	int code;
} rows[] = {
	{"f", 0, COPY_FILE, "/f", 0},
	{"./f", 0, COPY_FILE, "/f", 0},
	{"d/../f", 0, COPY_FILE, "/f", 0},
	{"p", 0, COPY_FILE, "/p", 0},
	{"d", 0, COPY_DIR, "/d", 0},
	{"d/", 0, COPY_DIR, "/d", 0},
	{"d//", 0, COPY_DIR, "/d", 0},
	{"d/.", 0, COPY_DIR, "/d", 0},
	{"d/./", 0, COPY_DIR, "/d", 0},
	{".", 0, COPY_DIR, "", 0},
	{"./", 0, COPY_DIR, "", 0},
	{"d/e/..", 0, COPY_DIR, "/d", 0},
	{"to-d/e", 0, COPY_DIR, "/d/e", 0},
	{"to-d", 0, COPY_FILE, "/to-d", 0},
	{"to-d", 1, COPY_DIR, "/d", 0},
	{"to-d/", 0, COPY_DIR, "/d", 0},
	{"to-d/.", 0, COPY_DIR, "/d", 0},
	{"to-f", 0, COPY_FILE, "/to-f", 0},
	{"to-f", 1, COPY_FILE, "/f", 0},
	{"to-to-f", 1, COPY_FILE, "/f", 0},
	{"dangling", 0, COPY_FILE, "/dangling", 0},
	{"dangling", 1, COPY_MISSING, "/d/none", 0},
	{"d/up", 1, COPY_MISSING, "/d/none", 0},
	{"none", 0, COPY_MISSING, "/none", 0},
	{"none", 1, COPY_MISSING, "/none", 0},
	{"none/", 1, COPY_MISSING, "/none", 0},
	{"to-d/none", 0, COPY_MISSING, "/d/none", 0},
	{"none/none", 0, COPY_MISSING, NULL, HOLT_ENOT_FOUND},
	{"lost", 1, COPY_MISSING, NULL, HOLT_ENOT_FOUND},
	{"f/x", 0, COPY_MISSING, NULL, HOLT_EINVALID},
	{"loop", 1, COPY_MISSING, NULL, HOLT_EINVALID},
	{"", 0, COPY_MISSING, NULL, HOLT_ENOT_FOUND},
};

START_TEST(of_the_host)
{
	struct copy_facts facts;
	auto_error e = NULL;
	auto_free char *real = NULL;
	auto_free char *want = str_printf("%s%s", dir, rows[_i].real ? rows[_i].real : "");

	const int r = copy_facts_host(rows[_i].path, rows[_i].follow, &facts, &real, &e);
	ck_assert_msg(r == -rows[_i].code, "'%s': %d: %s", rows[_i].path, r, holt_error_message(e));
	if (r < 0) {
		ck_assert_str_ne(holt_error_stage(e), "");
		ck_assert_str_eq(holt_error_object(e), rows[_i].path);
		ck_assert_str_ne(holt_error_hint(e), "");
		return;
	}
	ck_assert_msg(facts.type == rows[_i].type, "'%s': type %d", rows[_i].path, facts.type);
	ck_assert_str_eq(facts.real, want);
	ck_assert_str_eq(facts.path, rows[_i].path);
}
END_TEST

START_TEST(of_the_hosts_root_and_devices)
{
	struct copy_facts facts;
	char *real = NULL;

	ck_assert_int_eq(copy_facts_host("/", false, &facts, &real, NULL), 0);
	ck_assert_int_eq(facts.type, COPY_DIR);
	ck_assert_str_eq(real, "/");
	mem_free(take_ptr(real));
	ck_assert_int_eq(copy_facts_host("/.", false, &facts, &real, NULL), 0);
	ck_assert_str_eq(real, "/");
	mem_free(take_ptr(real));
	ck_assert_int_eq(copy_facts_host("/no-such-name-here", false, &facts, &real, NULL), 0);
	ck_assert_str_eq(real, "/no-such-name-here");
	mem_free(take_ptr(real));
	ck_assert_int_eq(copy_facts_host("/dev/null", true, &facts, &real, NULL), 0);
	ck_assert_int_eq(facts.type, COPY_OTHER);
	mem_free(real);
}
END_TEST

static int parse(const char *text, size_t len, enum copy_type *type, const char **real)
{
	/* Exactly so long, for the sanitizer to see every step beyond. */
	char *copy = malloc(len ? len : 1);

	memcpy(copy, text, len);
	const int r = copy_facts_parse(copy, len, type, real);
	if (r == 0)
		*real = text + (*real - copy);
	free(copy);
	return r;
}

START_TEST(of_a_box)
{
	static const struct {
		char letter;
		enum copy_type type;
	} types[] = {{'f', COPY_FILE}, {'d', COPY_DIR}, {'l', COPY_FILE}, {'p', COPY_FILE},
		{'b', COPY_OTHER}, {'c', COPY_OTHER}, {'s', COPY_OTHER}, {'-', COPY_MISSING}};
	enum copy_type type;
	const char *real;

	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		char text[] = "? 644 0 0 1 2 3\0/a/b\0";
		text[0] = types[i].letter;
		ck_assert_int_eq(parse(text, sizeof text, &type, &real), 0);
		ck_assert_int_eq(type, types[i].type);
		ck_assert_str_eq(real, "/a/b");
		/* Cut anywhere before the second NUL it is nothing. */
		for (size_t len = 0; len < sizeof text - 2; len++)
			ck_assert_int_eq(parse(text, len, &type, &real), -EPROTO);
	}
	ck_assert_int_eq(parse("d \0/\0", 6, &type, &real), 0);
}
END_TEST

START_TEST(of_a_box_that_lies)
{
	static const struct {
		const char *text;
		size_t len;
	} lies[] = {
#define LIE(text) {(text), sizeof(text)}
		LIE(""), LIE("f"), LIE("f \0"), LIE("x 1\0/a\0"), LIE("ff 1\0/a\0"),
		LIE("f 1\0a\0"), LIE("f 1\0\0"), LIE("d 1\0/a/..\0"), LIE("d 1\0/..\0"),
		LIE("d 1\0/.\0"), LIE("d 1\0/a/\0"), LIE("\0/a\0")};
	enum copy_type type;
	const char *real;

	for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++)
		ck_assert_msg(parse(lies[i].text, lies[i].len, &type, &real) == -EPROTO, "%zu", i);
}
END_TEST

static int failure(const char *line, const struct exec_result *result, holt_error **ret)
{
	return box_builtin_failure(result, line, strlen(line), ret);
}

START_TEST(failures_of_a_built_in)
{
	static const struct {
		int errnum;
		int code;
	} codes[] = {{ENOENT, HOLT_ENOT_FOUND}, {EACCES, HOLT_EDENIED}, {EPERM, HOLT_EDENIED},
		{EROFS, HOLT_EDENIED}, {ENOSPC, HOLT_ELIMIT}, {EDQUOT, HOLT_ELIMIT},
		{ENOTDIR, HOLT_EINVALID}, {EISDIR, HOLT_EINVALID}, {EEXIST, HOLT_EINVALID},
		{EINVAL, HOLT_EINVALID}, {EIO, HOLT_EIO}, {0, HOLT_EIO}};
	const struct exec_result exit_1 = {.code = 1};

	for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
		auto_error e = NULL;
		auto_free char *line = str_printf(
			"%d\tunpack\t/a\\x0ab\tcannot write '/a\\x0ab'\nmore", codes[i].errnum);
		ck_assert_int_eq(failure(line, &exit_1, &e), -codes[i].code);
		ck_assert_int_eq(holt_error_errno(e), codes[i].errnum);
		ck_assert_str_eq(holt_error_message(e), "cannot write '/a\\x0ab'");
		ck_assert_str_eq(holt_error_stage(e), "unpack");
		ck_assert_str_eq(holt_error_object(e), "/a\\x0ab");
		ck_assert_str_ne(holt_error_hint(e), "");
	}
}
END_TEST

START_TEST(failures_that_make_no_sense)
{
	static const char *const lines[] = {"\n", "x", "99999\ta\tb\tc", "-1\t\t\t", "\t\t\t\t\t",
		"1", "2\t", "2\t\t\t", "\x1b[31m\t\x1b\t\x1b\t\x1b"};
	const struct exec_result exit_1 = {.code = 1};
	const struct exec_result killed = {.signaled = true, .code = 9};
	const struct exec_result oom = {.signaled = true, .code = 9, .flags = WIRE_EXIT_OOM};

	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		auto_error e = NULL;
		ck_assert_int_lt(failure(lines[i], &exit_1, &e), 0);
		ck_assert_str_ne(holt_error_message(e), "");
		ck_assert_str_ne(holt_error_stage(e), "");
		ck_assert_str_ne(holt_error_hint(e), "");
		ck_assert_ptr_null(strchr(holt_error_message(e), '\x1b'));
		ck_assert_ptr_null(strchr(holt_error_stage(e), '\x1b'));
		ck_assert_ptr_null(strchr(holt_error_object(e), '\x1b'));
	}
	ck_assert_int_eq(failure("", &exit_1, NULL), -HOLT_EIO);
	ck_assert_int_eq(failure("2\ta\tb\tc\n", &killed, NULL), -HOLT_EIO);
	ck_assert_int_eq(failure("", &oom, NULL), -HOLT_ELIMIT);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("copy_facts");
	TCase *tc = tcase_create("copy_facts");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, of_the_host, 0, sizeof rows / sizeof rows[0]);
	tcase_add_test(tc, of_the_hosts_root_and_devices);
	tcase_add_test(tc, of_a_box);
	tcase_add_test(tc, of_a_box_that_lies);
	tcase_add_test(tc, failures_of_a_built_in);
	tcase_add_test(tc, failures_that_make_no_sense);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	const int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
