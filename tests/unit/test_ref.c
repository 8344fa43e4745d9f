/* SPDX-License-Identifier: Apache-2.0 */
/* Image references. */
#include "image_fixture.h"

#include "base/mem.h"
#include "image/ref.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

START_TEST(names_are_normalised)
{
	static const char *const table[][2] = {
		{"demo", "demo:latest"},
		{"demo:1.2", "demo:1.2"},
		{"a/b/c", "a/b/c:latest"},
		{"localhost/x", "localhost/x:latest"},
		{"localhost:5000/x:Tag_1.0-rc", "localhost:5000/x:Tag_1.0-rc"},
		{"registry.example.com:443/team/app", "registry.example.com:443/team/app:latest"},
		{"REG.example.com/app", "REG.example.com/app:latest"},
		{"docker.io/library/alpine:3", "alpine:3"},
		{"index.docker.io/library/alpine", "alpine:latest"},
		{"docker.io/user/app", "user/app:latest"},
		{"library/alpine", "alpine:latest"},
		{"ghcr.io/library/alpine", "ghcr.io/library/alpine:latest"},
		{"a__b.c-d---e_f", "a__b.c-d---e_f:latest"},
		{"beef", "beef:latest"},
		{"[::1]:5000/x", "[::1]:5000/x:latest"},
		{"[2001:DB8::1]/a/b:t", "[2001:DB8::1]/a/b:t"},
		{"Host/app", "Host/app:latest"},
		/* Short, these would be other images. */
		{"docker.io/localhost/x", "docker.io/localhost/x:latest"},
		{"docker.io/a.b/x", "docker.io/a.b/x:latest"},
		{"docker.io/library/localhost", "localhost:latest"},
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		auto_free char *name = NULL;
		auto_error error = NULL;
		ck_assert_msg(ref_normalise(table[i][0], &name, &error) == 0, "%s: %s", table[i][0],
			holt_error_message(error));
		ck_assert_str_eq(name, table[i][1]);
		/* What came out stays as it is. */
		auto_free char *again = NULL;
		ck_assert_int_eq(ref_normalise(name, &again, NULL), 0);
		ck_assert_str_eq(again, name);
	}
}
END_TEST

START_TEST(bad_names_are_refused)
{
	static const char *const table[] = {"", ":", ":x", "x:", "Demo", "a//b", "/a", "a/", "a b",
		"a:b:c", "-a", "a-", "a..b", "a___b", "a.-b", "x:-t", "x:.t", "x:a/b", "x:t\n", "é",
		"a@", "a@sha256:12", ("a@md5:" HEX), "sha256:abcd", "host:99999999/x",
		"ho_st.x:1/a", "-h.x/a", "[::1/x", "[]/x", "[::g]/x", "[::1]5/x", "[::1]:/x",
		"[::1]:5000", "host/App", "Host", "x\x1b[31m"};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		auto_free char *name = NULL;
		auto_error error = NULL;
		ck_assert_msg(
			ref_normalise(table[i], &name, &error) == -HOLT_EINVALID, "'%s'", table[i]);
		ck_assert_ptr_null(name);
		ck_assert_ptr_nonnull(
			strstr(holt_error_message(error), "not an image reference: "));
		ck_assert_str_ne(holt_error_hint(error), "");
		ck_assert_ptr_null(strchr(holt_error_message(error), '\x1b'));
	}
}
END_TEST

START_TEST(lengths_have_limits)
{
	char text[2000];
	char *name = NULL;

	memset(text, 'a', sizeof text);
	text[REF_REPOSITORY_MAX] = 0;
	ck_assert_int_eq(ref_normalise(text, &name, NULL), 0);
	mem_free(name);
	text[REF_REPOSITORY_MAX] = 'a';
	text[REF_REPOSITORY_MAX + 1] = 0;
	ck_assert_int_eq(ref_normalise(text, &name, NULL), -HOLT_EINVALID);
	memset(text, 'a', sizeof text);
	text[1] = ':';
	text[2 + REF_TAG_MAX] = 0;
	ck_assert_int_eq(ref_normalise(text, &name, NULL), 0);
	mem_free(name);
	text[2 + REF_TAG_MAX] = 'a';
	text[3 + REF_TAG_MAX] = 0;
	ck_assert_int_eq(ref_normalise(text, &name, NULL), -HOLT_EINVALID);
	memset(text, 'a', sizeof text);
	text[sizeof text - 1] = 0;
	ck_assert_int_eq(ref_normalise(text, &name, NULL), -HOLT_EINVALID);
}
END_TEST

START_TEST(digests_pin)
{
	auto_ref r = {0};
	auto_error error = NULL;
	char *name = NULL;

	ck_assert_int_eq(ref_parse("a/b:t@sha256:" HEX, &r, &error), 0);
	ck_assert_str_eq(r.repository, "a/b");
	ck_assert_str_eq(r.tag, "t");
	ck_assert_str_eq(r.digest, "sha256:" HEX);
	/* But they are no name to give. */
	ck_assert_int_eq(ref_normalise("a@sha256:" HEX, &name, &error), -HOLT_EINVALID);
}
END_TEST

START_TEST(digest_forms_are_known)
{
	const char *hex = NULL;

	ck_assert(ref_is_digest("sha256:" HEX, &hex));
	ck_assert_str_eq(hex, HEX);
	ck_assert(ref_is_digest("beef", &hex));
	ck_assert_str_eq(hex, "beef");
	ck_assert(ref_is_digest("sha256:0123", &hex));
	ck_assert(!ref_is_digest("bee", &hex));
	ck_assert(!ref_is_digest("BEEF", &hex));
	ck_assert(!ref_is_digest("beeg", &hex));
	ck_assert(!ref_is_digest(HEX "0", &hex));
	ck_assert(!ref_is_digest("", &hex));
	ck_assert(!ref_is_digest("sha256:", &hex));
}
END_TEST

START_TEST(references_have_a_place)
{
	static const char *const table[][3] = {
		{"alpine", "docker.io", "library/alpine"},
		{"alpine:3", "docker.io", "library/alpine"},
		{"user/app", "docker.io", "user/app"},
		{"docker.io/library/alpine", "docker.io", "library/alpine"},
		{"index.docker.io/a.b/x", "docker.io", "a.b/x"},
		{"docker.io/localhost/x", "docker.io", "localhost/x"},
		{"localhost/x", "localhost", "x"},
		{"localhost:5000/x:t@sha256:" HEX, "localhost:5000", "x"},
		{"[::1]:5000/x", "[::1]:5000", "x"},
		{"ghcr.io/a/b/c", "ghcr.io", "a/b/c"},
		{"Host/app", "Host", "app"},
		{"host/app", "docker.io", "host/app"},
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		auto_ref r = {0};
		auto_free char *registry = NULL;
		auto_free char *path = NULL;
		ck_assert_int_eq(ref_parse(table[i][0], &r, NULL), 0);
		ck_assert_int_eq(ref_locate(&r, &registry, &path, NULL), 0);
		ck_assert_str_eq(registry, table[i][1]);
		ck_assert_str_eq(path, table[i][2]);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {names_are_normalised, bad_names_are_refused,
		lengths_have_limits, digests_pin, digest_forms_are_known, references_have_a_place};

	return fixture_run("ref", tests, sizeof tests / sizeof tests[0], NULL, NULL, 30);
}
