/* SPDX-License-Identifier: Apache-2.0 */
/* Paths, patterns and variables that are refused, those that are not, and what is ignored. */
#include <check.h>
#include <string.h>

#include "sandbox/contract.h"
#include "sandbox/env.h"
#include "sandbox/paths.h"

#include "base/mem.h"

static char long_path[65537];

static void check_refused(int r, holt_error **error, int code, const char *message)
{
	ck_assert_int_eq(r, -code);
	ck_assert_str_eq(holt_error_message(*error), message);
	ck_assert_str_ne(holt_error_stage(*error), "");
	ck_assert_str_ne(holt_error_hint(*error), "");
	holt_error_free(*error);
	*error = NULL;
}

/* C-72, C-73, C-291 */
START_TEST(paths_that_are_fine)
{
	static const char *const fine[] = {"/mnt/user-data/workspace/a.txt", "relative/ok.txt",
		"...", "..a", "a..", "/", ".", "/etc/passwd", "a\\b", "\\", "-x", "a\nb",
		"/a/.../b", "\xFF", " ..", "~", "//x"};

	for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++)
		ck_assert_int_eq(path_check(fine[i], NULL), 0);
	memset(long_path, 'x', 65535);
	ck_assert_int_eq(path_check(long_path, NULL), 0);
}
END_TEST

START_TEST(paths_that_are_refused)
{
	static const char *const traversals[] = {"..", "/..", "../x", "a/..", "a/../b",
		"/mnt/user-data/../etc/passwd", "..\\x", "a\\..\\b", "a\\../b", "a/..\\b", "\\..",
		"a//.."};
	holt_error *error = NULL;

	for (size_t i = 0; i < sizeof traversals / sizeof traversals[0]; i++) {
		char want[128] = "Access denied: path traversal detected in '";

		error = NULL;
		memcpy(want + strlen(want), traversals[i], strlen(traversals[i]) + 1);
		memcpy(want + strlen(want), "'", 2);
		const int r = path_check(traversals[i], &error);
		ck_assert_str_eq(holt_error_object(error), traversals[i]);
		check_refused(r, &error, HOLT_EDENIED, want);
	}
	error = NULL;
	check_refused(
		path_check("", &error), &error, HOLT_EINVALID, "path must be a non-empty string");
	memset(long_path, 'x', 65536);
	error = NULL;
	check_refused(path_check(long_path, &error), &error, HOLT_EINVALID,
		"path is longer than 65535 bytes");
}
END_TEST

/* C-100 */
START_TEST(downloads_come_from_one_place)
{
	static const char *const rows[][3] = {
		{"/mnt/user-data", "/mnt/user-data/outputs/a", "/mnt/user-data/outputs/a"},
		{"/mnt/user-data", "//mnt/user-data/x", "/mnt/user-data/x"},
		{"/mnt/user-data", "mnt/user-data/x", "/mnt/user-data/x"},
		{"/mnt/user-data", "/mnt/user-data", "/mnt/user-data"},
		{"/mnt/user-data/", "/mnt/user-data/x", "/mnt/user-data/x"},
		{"/", "/etc/passwd", "/etc/passwd"},
		{"//data//", "/data/x", "/data/x"},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		auto_free char *path = NULL;

		ck_assert_int_eq(path_of_download(rows[i][1], rows[i][0], &path, NULL), 0);
		ck_assert_str_eq(path, rows[i][2]);
	}
}
END_TEST

START_TEST(downloads_from_elsewhere_are_refused)
{
	static const char *const elsewhere[] = {"/etc/passwd", "/mnt/user-data-evil/x",
		"/mnt/skills/x", "/mnt", "/", "user-data/x", "/mnt/user-dat", "/mnt/./user-data/x",
		"/MNT/user-data/x", "/mnt//user-data/x"};

	for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++) {
		char want[128] = "Access denied: path must be under '/mnt/user-data': '";
		holt_error *error = NULL;
		char *path = NULL;

		memcpy(want + strlen(want), elsewhere[i], strlen(elsewhere[i]) + 1);
		memcpy(want + strlen(want), "'", 2);
		const int r = path_of_download(elsewhere[i], "/mnt/user-data", &path, &error);
		ck_assert_ptr_null(path);
		check_refused(r, &error, HOLT_EDENIED, want);
	}
	holt_error *error = NULL;
	char *path = NULL;
	check_refused(path_of_download("/mnt/user-data/../x", "/mnt/user-data", &path, &error),
		&error, HOLT_EDENIED,
		"Access denied: path traversal detected in '/mnt/user-data/../x'");
}
END_TEST

START_TEST(the_user_data_directory_is_absolute)
{
	ck_assert_int_eq(path_check_user_data("/x", NULL), 0);
	ck_assert_int_eq(path_check_user_data("x", NULL), -HOLT_EINVALID);
	ck_assert_int_eq(path_check_user_data("", NULL), -HOLT_EINVALID);
	ck_assert_int_eq(path_check_user_data("/x/..", NULL), -HOLT_EDENIED);
}
END_TEST

/* C-123, C-124: the last row of the table */
START_TEST(glob_patterns_that_name_nothing)
{
	static const char *const bad[] = {"", ".", "./", "./.", ".//", ".//./"};
	static const char *const fine[] = {
		"*", "**", "/", "/abs/*.py", "[", "..", ".*", "./a.py", "src/", " ", "...", "\\"};
	holt_error *error = NULL;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ck_assert_int_eq(glob_pattern_check(bad[i], NULL), -HOLT_EINVALID);
	for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++)
		ck_assert_int_eq(glob_pattern_check(fine[i], NULL), 0);
	check_refused(glob_pattern_check(".", &error), &error, HOLT_EINVALID,
		"glob pattern '.' names nothing");
	memset(long_path, 'x', 65536);
	ck_assert_int_eq(glob_pattern_check(long_path, NULL), -HOLT_EINVALID);
}
END_TEST

/* C-47 */
START_TEST(names_of_variables)
{
	static const char *const fine[] = {"A=1", "_=", "a_B9=x=y", "LONG_NAME=\n\xFF", NULL};
	static const char *const bad[] = {
		"BAD KEY=1", "1A=1", "A-B=1", "=1", "", "A\n=1", "A", "A\xC3\xA9=1", "A\n", " A=1"};

	ck_assert_int_eq(env_check(NULL, NULL), 0);
	ck_assert_int_eq(env_check(fine, NULL), 0);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		const char *const env[] = {"GOOD=1", bad[i], NULL};
		holt_error *error = NULL;

		ck_assert_int_eq(env_check(env, &error), -HOLT_EINVALID);
		ck_assert_ptr_nonnull(strstr(holt_error_message(error), "POSIX"));
		ck_assert_ptr_null(strstr(holt_error_message(error), "=1"));
		holt_error_free(error);
	}
}
END_TEST

/* C-48 */
START_TEST(merged_variables)
{
	static const char *const under[] = {"A=1", "B=1", "AB=1", NULL};
	static const char *const over[] = {"B=2", "C=", "C=3", NULL};
	static const char *const none[] = {NULL};
	const char **env = NULL;

	ck_assert_int_eq(env_merge(under, over, &env, NULL), 0);
	ck_assert_str_eq(env[0], "A=1");
	ck_assert_str_eq(env[1], "B=2");
	ck_assert_str_eq(env[2], "AB=1");
	ck_assert_str_eq(env[3], "C=3");
	ck_assert_ptr_null(env[4]);
	mem_free(env);
	ck_assert_int_eq(env_merge(NULL, none, &env, NULL), 0);
	ck_assert_ptr_null(env);
	for (unsigned long n = 1; env == NULL; n++) {
		mem_fail_at(n);
		const int r = env_merge(under, over, &env, NULL);
		mem_fail_at(0);
		ck_assert_int_eq(r, env ? 0 : -HOLT_ENO_MEMORY);
	}
	mem_free(env);
}
END_TEST

/* C-105 */
START_TEST(fifty_names_are_ignored)
{
	static const char *const some[] = {".git", "node_modules", "*.egg-info", "*~",
		".upload-*.part", "out", "logs", ".ruff_cache", "Thumbs.db"};
	const char *const *list = ignore_list();
	size_t n = 0;

	for (; list[n]; n++) {
		for (size_t i = 0; i < n; i++)
			ck_assert_str_ne(list[i], list[n]);
	}
	ck_assert_uint_eq(n, 50);
	for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
		size_t at = 0;

		while (list[at] && strcmp(list[at], some[i]) != 0)
			at++;
		ck_assert_ptr_nonnull(list[at]);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("paths_guard");
	TCase *t = tcase_create("all");

	tcase_add_test(t, paths_that_are_fine);
	tcase_add_test(t, paths_that_are_refused);
	tcase_add_test(t, downloads_come_from_one_place);
	tcase_add_test(t, downloads_from_elsewhere_are_refused);
	tcase_add_test(t, the_user_data_directory_is_absolute);
	tcase_add_test(t, glob_patterns_that_name_nothing);
	tcase_add_test(t, names_of_variables);
	tcase_add_test(t, merged_variables);
	tcase_add_test(t, fifty_names_are_ignored);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
