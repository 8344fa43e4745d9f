/* SPDX-License-Identifier: Apache-2.0 */
/* The specification of a box's network: which parts go together, and its JSON from strangers. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/net_link.h"
#include "base/str.h"

static int parse(const char *text, struct net_spec *ret, holt_error **reterr)
{
	auto_json j = NULL;

	ck_assert_int_eq(json_parse(text, strlen(text), 1u << 20, "test", &j, NULL), 0);
	return net_spec_parse(j, ret, reterr);
}

START_TEST(modes)
{
	enum net_mode mode;
	auto_error error = NULL;
	static const enum net_mode all[] = {NET_ISOLATED, NET_OPEN, NET_ALLOWLIST};

	for (size_t i = 0; i < 3; i++) {
		ck_assert_int_eq(net_mode_parse(net_mode_name(all[i]), &mode, NULL), 0);
		ck_assert_int_eq(mode, all[i]);
	}
	ck_assert_int_eq(net_mode_parse("none", &mode, NULL), 0);
	ck_assert_int_eq(mode, NET_ISOLATED);
	ck_assert_int_eq(net_mode_parse("Open", &mode, &error), -HOLT_EINVALID);
	ck_assert_str_eq(holt_error_object(error), "Open");
	ck_assert_ptr_nonnull(strstr(holt_error_hint(error), "'allowlist'"));
}
END_TEST

START_TEST(there_and_back)
{
	static const char text[] = "{\"mode\":\"allowlist\",\"allow\":[\"Example.org.:443\","
				   "\"2001:db8::/32\"],\"publish\":[\"8080:80\"]}";
	static const char canonical[] =
		"{\"mode\":\"allowlist\",\"allow\":[\"example.org:443\","
		"\"[2001:db8::/32]\"],\"publish\":[\"127.0.0.1:8080:80/tcp\"]}";
	auto_net_spec spec = {0};
	auto_net_spec copy = {0};

	ck_assert_int_eq(parse(text, &spec, NULL), 0);
	ck_assert_int_eq(net_spec_copy(&spec, &copy), 0);
	for (unsigned i = 0; i < 2; i++) {
		auto_json j = net_spec_json(&copy);
		auto_free char *got = json_text(j);

		ck_assert_str_eq(got, canonical);
		net_spec_done(&copy);
		ck_assert_int_eq(parse(got, &copy, NULL), 0);
	}
}
END_TEST

START_TEST(empty_lists)
{
	auto_net_spec spec = {0};
	auto_json j = NULL;

	ck_assert_int_eq(
		parse("{\"mode\":\"open\",\"allow\":[],\"publish\":null}", &spec, NULL), 0);
	j = net_spec_json(&spec);
	auto_free char *text = json_text(j);
	ck_assert_str_eq(text, "{\"mode\":\"open\",\"allow\":[],\"publish\":[]}");
	net_spec_done(&spec);
	ck_assert_int_eq(parse("{\"mode\":\"allowlist\"}", &spec, NULL), 0);
}
END_TEST

static const struct {
	const char *text, *object;
} refused[] = {
	{"{}", NULL},
	{"{\"mode\":7}", NULL},
	{"{\"mode\":\"opened\"}", "opened"},
	{"{\"mode\":\"open\",\"allow\":\"a\"}", NULL},
	{"{\"mode\":\"open\",\"allow\":[\"a.org\"]}", "a.org"},
	{"{\"mode\":\"isolated\",\"allow\":[\"a.org\"]}", "a.org"},
	{"{\"mode\":\"isolated\",\"publish\":[\"1:1\"]}", "1:1"},
	{"{\"mode\":\"allowlist\",\"allow\":[7]}", NULL},
	{"{\"mode\":\"allowlist\",\"allow\":[\"a.org\",\"a b\"]}", "a b"},
	{"{\"mode\":\"open\",\"publish\":{}}", NULL},
	{"{\"mode\":\"open\",\"publish\":[\"1:1\",\"x\"]}", "x"},
	{"{\"mode\":\"open\",\"publish\":[\"1:1\",\"127.0.0.1:1:2\"]}", "127.0.0.1:1:2"},
	{"{\"mode\":\"open\",\"publish\":[\"1:5/udp\",\"2:5/udp\"]}", "2:5/udp"},
};

START_TEST(refuses_what_does_not_go_together)
{
	struct net_spec spec = {.mode = NET_OPEN};
	auto_error error = NULL;

	ck_assert_msg(
		parse(refused[_i].text, &spec, &error) == -HOLT_EINVALID, "%s", refused[_i].text);
	ck_assert(spec.mode == NET_OPEN && !spec.allow && !spec.publish);
	if (refused[_i].object)
		ck_assert_str_eq(holt_error_object(error), refused[_i].object);
}
END_TEST

START_TEST(one_guest_port_may_have_two)
{
	auto_net_spec spec = {0};

	ck_assert_int_eq(
		parse("{\"mode\":\"open\",\"publish\":[\"1:5\",\"2:5\",\"1:5/udp\",\"[::1]:1:5\","
		      "\"[::1]:1:5/udp\",\":5\",\":5\"]}",
			&spec, NULL),
		0);
}
END_TEST

/* A list of @n entries: the number of each between two texts. */
static char **many(size_t n, const char *before, const char *after)
{
	char **list = mem_array(n + 1, sizeof *list);

	for (size_t i = 0; i < n; i++) {
		char text[64];

		(void)snprintf(text, sizeof text, "%s%zu%s", before, i + 1, after);
		list[i] = str_dup(text);
	}
	return list;
}

START_TEST(limits)
{
	auto_net_spec spec = {.mode = NET_ALLOWLIST};
	auto_error error = NULL;

	spec.allow = many(NET_ALLOW_MAX, "h", ".org");
	spec.publish = many(NET_PUBLISH_MAX, "", ":80");
	ck_assert_int_eq(net_spec_check(&spec, &error), 0);
	strv_free(spec.allow);
	spec.allow = many(NET_ALLOW_MAX + 1, "h", ".org");
	ck_assert_int_eq(net_spec_check(&spec, &error), -HOLT_EINVALID);
	ck_assert_str_eq(holt_error_object(error), "h257.org");
	auto_json j = net_spec_json(&spec);
	struct net_spec back = {0};
	ck_assert_int_eq(net_spec_parse(j, &back, NULL), -HOLT_EINVALID);
	strv_free(spec.allow);
	spec.allow = NULL;
	strv_free(spec.publish);
	spec.publish = many(NET_PUBLISH_MAX + 1, "", ":80");
	ck_assert_int_eq(net_spec_check(&spec, NULL), -HOLT_EINVALID);
}
END_TEST

START_TEST(without_memory)
{
	auto_net_spec spec = {.mode = NET_ALLOWLIST};

	spec.allow = many(3, "h", ".org");
	spec.publish = many(3, "", ":80");
	for (unsigned nth = 1; nth <= 8; nth++) {
		struct net_spec copy = {0};

		mem_fail_at(nth);
		ck_assert_int_eq(net_spec_copy(&spec, &copy), -HOLT_ENO_MEMORY);
		ck_assert(!copy.allow && !copy.publish);
	}
	mem_fail_at(0);
}
END_TEST

int main(void)
{
	Suite *const suite = suite_create("net_link");
	TCase *const tc = tcase_create("net_link");

	tcase_add_test(tc, modes);
	tcase_add_test(tc, there_and_back);
	tcase_add_test(tc, empty_lists);
	tcase_add_loop_test(
		tc, refuses_what_does_not_go_together, 0, sizeof refused / sizeof *refused);
	tcase_add_test(tc, one_guest_port_may_have_two);
	tcase_add_test(tc, limits);
	tcase_add_test(tc, without_memory);
	suite_add_tcase(suite, tc);
	SRunner *const runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	const int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
