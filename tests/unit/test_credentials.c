/* SPDX-License-Identifier: Apache-2.0 */
/* What docker's configuration and its helpers say about who we are. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "dir_fixture.h"
#include "image/credentials.h"

static void begin(void)
{
	setup();
	ck_assert_int_eq(setenv("DOCKER_CONFIG", dir, 1), 0);
	char *path = NULL;
	ck_assert_int_gt(asprintf(&path, "%s:/usr/bin:/bin", dir), 0);
	ck_assert_int_eq(setenv("PATH", path, 1), 0);
	free(path);
}

static void config(const char *text)
{
	put_file(dir_fd, "config.json", text, strlen(text));
}

static void helper(const char *name, const char *script)
{
	auto_free char *file = str_printf("docker-credential-%s", name);
	auto_free char *text = str_printf("#!/bin/sh\n%s\n", script);

	put_file(dir_fd, file, text, strlen(text));
	ck_assert_int_eq(chmod(in_dir(file), 0700), 0);
}

/* "user:password", "token TOKEN", "nobody". */
static void expect(const char *registry, const char *want)
{
	auto_credentials c = {0};
	auto_error error = NULL;
	const int r = credentials_find(registry, NULL, &c, &error);

	ck_assert_msg(r == 0, "%s: %s", registry, error ? holt_error_message(error) : "");
	auto_free char *got = c.identity_token ? str_printf("token %s", c.identity_token)
			      : c.user         ? str_printf("%s:%s", c.user, c.password)
					       : str_dup("nobody");
	ck_assert_str_eq(got, want);
}

static void expect_error(int code, const char *part)
{
	auto_credentials c = {0};
	auto_error error = NULL;

	ck_assert_int_eq(credentials_find("r.example", NULL, &c, &error), -code);
	ck_assert_msg(
		strstr(holt_error_message(error), part) != NULL, "%s", holt_error_message(error));
	ck_assert_ptr_null(strstr(holt_error_message(error), "hunter2"));
	ck_assert_ptr_null(c.user);
}

START_TEST(nothing_is_no_error)
{
	expect("r.example", "nobody");
	config("{}");
	expect("r.example", "nobody");
	config("{\"auths\": {}, \"credsStore\": \"\", \"credHelpers\": {}, \"HttpHeaders\": {}}");
	expect("r.example", "nobody");
	config("{\"auths\": {\"r.example\": {}}}");
	expect("r.example", "nobody");
}
END_TEST

START_TEST(auths_are_read)
{
	/* me:hunter2 */
	config("{\"auths\": {"
	       "\"r.example\": {\"auth\": \"bWU6aHVudGVyMg==\"},"
	       "\"https://s.example/v1/\": {\"auth\": \"YTpiOmM=\"},"
	       "\"t.example:5000\": {\"username\": \"u\", \"password\": \"p\"},"
	       "\"i.example\": {\"auth\": \"bWU6\", \"identitytoken\": \"tok\"},"
	       "\"e.example\": {\"auth\": \"bWU6\"},"
	       "\"n.example/team\": {\"auth\": \"bWU6aHVudGVyMg==\"},"
	       "\"https://index.docker.io/v1/\": {\"auth\": \"aHViOmh1Yg==\"}}}");
	expect("r.example", "me:hunter2");
	expect("R.EXAMPLE", "me:hunter2");
	expect("s.example", "a:b:c");
	expect("t.example:5000", "u:p");
	expect("t.example", "nobody");
	expect("i.example", "token tok");
	expect("e.example", "me:");
	expect("n.example", "nobody");
	expect("docker.io", "hub:hub");
	expect("xr.example", "nobody");
	config("{\"auths\": {\"docker.io\": {\"auth\": \"aHViOmh1Yg==\"}}}");
	expect("docker.io", "hub:hub");
}
END_TEST

START_TEST(home_is_the_place_by_default)
{
	ck_assert_int_eq(mkdir(in_dir(".docker"), 0700), 0);
	const char *text = "{\"auths\": {\"r.example\": {\"auth\": \"YTpi\"}}}";
	put_file(dir_fd, ".docker/config.json", text, strlen(text));
	ck_assert_int_eq(unsetenv("DOCKER_CONFIG"), 0);
	ck_assert_int_eq(setenv("HOME", dir, 1), 0);
	expect("r.example", "a:b");
}
END_TEST

START_TEST(broken_files_are_told_without_their_text)
{
	static const char *const texts[] = {
		"",
		"{\"auths\": {\"r.example\": {\"auth\": hunter2}}}",
		"[\"hunter2\"]",
		"{\"auths\": [\"hunter2\"]}",
		"{\"auths\": {\"r.example\": \"hunter2\"}}",
		"{\"auths\": {\"r.example\": {\"auth\": 1}}}",
		"{\"auths\": {\"r.example\": {\"auth\": \"hunter2!\"}}}",
		"{\"auths\": {\"r.example\": {\"auth\": \"bWU\"}}}",
		"{\"auths\": {\"r.example\": {\"auth\": \"bWU=\"}}}",
		"{\"auths\": {\"r.example\": {\"auth\": \"OmI=\"}}}",
		"{\"auths\": {\"r.example\": {\"auth\": \"YQA6Yg==\"}}}",
		"{\"auths\": {\"r.example\": {\"auth\": \"YTpi====\"}}}",
		"{\"auths\": {\"r.example\": {\"username\": [], \"password\": \"hunter2\"}}}",
		"{\"credHelpers\": []}",
		"{\"credHelpers\": {\"r.example\": 1}}",
		"{\"credHelpers\": {\"r.example\": \"../../bin/sh\"}}",
		"{\"credHelpers\": {\"r.example\": \"\"}}",
		"{\"credsStore\": 1}",
		"{\"credsStore\": \"a b\"}",
	};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		config(texts[i]);
		expect_error(HOLT_EINVALID, "config.json'");
	}
}
END_TEST

START_TEST(helpers_are_asked)
{
	config("{\"credsStore\": \"all\", \"credHelpers\": {\"r.example\": \"one\"},"
	       "\"auths\": {\"f.example\": {\"auth\": \"YTpi\"}}}");
	helper("one", "read -r s; [ $# = 1 ] && [ $1 = get ] || exit 3\n"
		      "echo \"{\\\"ServerURL\\\":\\\"$s\\\",\\\"Username\\\":\\\"one\\\","
		      "\\\"Secret\\\":\\\"of $s\\\"}\"");
	helper("all",
		"read -r s; case $s in\n"
		"t.example) echo '{\"Username\":\"<token>\",\"Secret\":\"tok\"}';;\n"
		"https://index.docker.io/v1/) echo '{\"Username\":\"hub\",\"Secret\":\"h\"}';;\n"
		"*) echo credentials not found in native keychain; exit 1;;\nesac");
	expect("r.example", "one:of r.example");
	expect("t.example", "token tok");
	expect("docker.io", "hub:h");
	expect("other.example", "nobody");
	expect("f.example", "a:b"); /* the helper knows nothing, the file does */
}
END_TEST

START_TEST(helpers_may_fail)
{
	config("{\"credsStore\": \"bad\"}");
	expect_error(HOLT_ENOT_FOUND, "docker-credential-bad");
	static const char *const scripts[] = {"echo hunter2; exit 1", "echo hunter2", "exit 2",
		"kill -9 $$", "echo '{\"Username\": 1, \"Secret\": \"hunter2\"}'"};
	for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
		helper("bad", scripts[i]);
		expect_error(HOLT_EUNAVAILABLE, "docker-credential-bad");
	}
	helper("bad", "while :; do echo hunter2hunter2hunter2hunter2; done");
	expect_error(HOLT_ELIMIT, "docker-credential-bad");
}
END_TEST

START_TEST(waiting_for_a_helper_can_be_cancelled)
{
	const volatile int flag = 1;
	auto_credentials c = {0};
	auto_error error = NULL;
	const uint64_t start = clock_mono_ms();

	config("{\"credsStore\": \"slow\"}");
	helper("slow", "exec sleep 20");
	ck_assert_int_eq(credentials_find("r.example", &flag, &c, &error), -HOLT_ECANCELLED);
	ck_assert_uint_lt(clock_mono_ms() - start, 2000);
}
END_TEST

static void *cancel_later(void *flag)
{
	(void)usleep(700000);
	__atomic_store_n((int *)flag, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* It has answered, and closed its output, and does not end. */
START_TEST(a_helper_that_lives_on_can_be_cancelled)
{
	auto_credentials c = {0};
	int cancel = 0;
	pthread_t thread;
	const uint64_t began_ms = clock_mono_ms();

	config("{\"credsStore\": \"x\"}");
	helper("x", "cat >/dev/null; echo '{\"Username\":\"me\",\"Secret\":\"s\"}'; exec >&-; exec "
		    "sleep 100");
	ck_assert_int_eq(pthread_create(&thread, NULL, cancel_later, &cancel), 0);
	ck_assert_int_eq(credentials_find("r.example", &cancel, &c, NULL), -HOLT_ECANCELLED);
	ck_assert_uint_lt(clock_mono_ms() - began_ms, 5000);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_ptr_null(c.user);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_an_error_also_where_nobody_wants_its_text)
{
	auto_credentials c = {0};

	ck_assert_int_eq(mkdir(in_dir("config.json"), 0700), 0);
	ck_assert_int_lt(credentials_find("r.example", NULL, &c, NULL), 0);
	ck_assert_ptr_null(c.user);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("credentials");
	TCase *c = tcase_create("credentials");
	const TTest *const tests[] = {nothing_is_no_error, auths_are_read,
		home_is_the_place_by_default, broken_files_are_told_without_their_text,
		helpers_are_asked, helpers_may_fail, waiting_for_a_helper_can_be_cancelled,
		a_helper_that_lives_on_can_be_cancelled,
		a_file_that_cannot_be_read_is_an_error_also_where_nobody_wants_its_text};

	tcase_add_checked_fixture(c, begin, teardown);
	tcase_set_timeout(c, 30);
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
