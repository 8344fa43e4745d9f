/* SPDX-License-Identifier: Apache-2.0 */
/* registries.yaml, and where a registry is asked. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "dir_fixture.h"
#include "image/registries.h"

static int read_text(const char *text, struct registries **ret, holt_error **error)
{
	put_file(dir_fd, "r.yaml", text, strlen(text));
	return registries_read(in_dir("r.yaml"), ret, error);
}

/* "[mirror ]URL (HOST)[ insecure][ ca=FILE]" a line. */
static void expect(const struct registries *r, const char *registry, const char *want)
{
	struct registry_endpoint *e = NULL;
	size_t n = 0;
	auto_buf b = BUF_INIT(4096);

	ck_assert_int_eq(registries_endpoints(r, registry, &e, &n, NULL), 0);
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(
			buf_printf(&b, "%s%s (%s)%s%s%s\n", e[i].mirror ? "mirror " : "", e[i].url,
				e[i].host, e[i].insecure ? " insecure" : "",
				e[i].ca_file ? " ca=" : "", e[i].ca_file ? e[i].ca_file : ""),
			0);
	ck_assert_str_eq((char *)b.data, want);
	registry_endpoints_free(e, n);
}

START_TEST(without_a_file_registries_are_asked_directly)
{
	struct registries *r = NULL;

	ck_assert_int_eq(registries_read(in_dir("none.yaml"), &r, NULL), 0);
	for (int i = 0; i < 2; i++) {
		const struct registries *which = i ? r : NULL;
		expect(which, "docker.io", "https://registry-1.docker.io (docker.io)\n");
		expect(which, "ghcr.io", "https://ghcr.io (ghcr.io)\n");
		expect(which, "r.example:5000", "https://r.example:5000 (r.example:5000)\n");
		expect(which, "localhost:5000", "http://localhost:5000 (localhost:5000)\n");
		expect(which, "127.0.0.2:5", "http://127.0.0.2:5 (127.0.0.2:5)\n");
		expect(which, "[::1]:5", "http://[::1]:5 ([::1]:5)\n");
		expect(which, "127.0.0.1.example",
			"https://127.0.0.1.example (127.0.0.1.example)\n");
		expect(which, "localhost.example",
			"https://localhost.example (localhost.example)\n");
		expect(which, "10.0.0.1", "https://10.0.0.1 (10.0.0.1)\n");
	}
	registries_free(r);
}
END_TEST

START_TEST(mirrors_come_first)
{
	struct registries *r = NULL;

	ck_assert_int_eq(
		read_text("registries:\n"
			  "  docker.io:\n"
			  "    mirrors: [https://m.example/, http://127.0.0.1:5000/cache]\n"
			  "  m.example:\n"
			  "    ca_file: /m.pem\n"
			  "  r.example:5000:\n"
			  "    insecure: true\n"
			  "    ca_file: /r.pem\n"
			  "  localhost:5000:\n"
			  "    ca_file: /l.pem\n"
			  "  localhost:5001: {insecure: yes, mirrors: []}\n",
			&r, NULL),
		0);
	expect(r, "docker.io",
		"mirror https://m.example (m.example) ca=/m.pem\n"
		"mirror http://127.0.0.1:5000/cache (127.0.0.1:5000)\n"
		"https://registry-1.docker.io (docker.io)\n");
	expect(r, "R.example:5000", "https://R.example:5000 (R.example:5000) insecure ca=/r.pem\n");
	expect(r, "localhost:5000", "https://localhost:5000 (localhost:5000) ca=/l.pem\n");
	expect(r, "localhost:5001", "https://localhost:5001 (localhost:5001) insecure\n");
	registries_free(r);
}
END_TEST

START_TEST(little_is_enough)
{
	static const char *const texts[] = {"", "# nothing\n", "registries:\n", "registries: {}\n",
		"registries: {a.example: {}}\n"};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct registries *r = NULL;
		ck_assert_int_eq(read_text(texts[i], &r, NULL), 0);
		expect(r, "a.example", "https://a.example (a.example)\n");
		registries_free(r);
	}
}
END_TEST

START_TEST(mistakes_are_told_with_their_line)
{
	static const char *const texts[] = {
		"[a]",
		"other: 1",
		"registries: [a]",
		"registries: {a.example: 1}",
		"registries: {a.example: {insecur: true}}",
		"registries: {a.example: {insecure: maybe}}",
		"registries: {a.example: {insecure: 'true'}}",
		"registries: {a.example: {insecure: [true]}}",
		"registries: {a.example: {ca_file: relative.pem}}",
		"registries: {a.example: {ca_file: []}}",
		"registries: {a.example: {mirrors: https://m.example}}",
		"registries: {a.example: {mirrors: [m.example]}}",
		"registries: {a.example: {mirrors: ['ftp://m.example']}}",
		"registries: {a.example: {mirrors: ['https://u:p@m.example']}}",
		"registries: {a.example: {mirrors: ['https://m.example?x=y']}}",
		"registries: {a.example: {mirrors: ['https://m.example/a b']}}",
		"registries: {a.example: {mirrors: ['https://']}}",
		"registries: {a.example: {mirrors: [[x]]}}",
		"registries: {'a b': {}}",
		"registries: {'a.example/x': {}}",
		"registries: {'': {}}",
		"registries: {a.example: {mirrors: [http://a, http://a, http://a, http://a, "
		"http://a, "
		"http://a, http://a, http://a, http://a]}}",
		"registries: {",
	};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct registries *r = NULL;
		auto_error error = NULL;
		ck_assert_msg(read_text(texts[i], &r, &error) == -HOLT_EINVALID, "%s", texts[i]);
		ck_assert_ptr_null(r);
		ck_assert_ptr_nonnull(strstr(holt_error_message(error), "r.yaml"));
		ck_assert_ptr_nonnull(strstr(holt_error_message(error), ", in line "));
	}
}
END_TEST

START_TEST(registries_have_a_limit)
{
	auto_buf b = BUF_INIT(65536);
	struct registries *r = NULL;

	ck_assert_int_eq(buf_appends(&b, "registries:\n"), 0);
	for (unsigned i = 0; i < REGISTRIES_MAX; i++)
		ck_assert_int_eq(buf_printf(&b, "  r%u.example: {}\n", i), 0);
	ck_assert_int_eq(read_text((char *)b.data, &r, NULL), 0);
	registries_free(take_ptr(r));
	ck_assert_int_eq(buf_appends(&b, "  more.example: {}\n"), 0);
	ck_assert_int_eq(read_text((char *)b.data, &r, NULL), -HOLT_EINVALID);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("registries");
	TCase *c = tcase_create("registries");
	const TTest *const tests[] = {without_a_file_registries_are_asked_directly,
		mirrors_come_first, little_is_enough, mistakes_are_told_with_their_line,
		registries_have_a_limit};

	tcase_add_checked_fixture(c, setup, teardown);
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
