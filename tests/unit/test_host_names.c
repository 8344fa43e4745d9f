/* SPDX-License-Identifier: Apache-2.0 */
/* K41: what a box gets of the host's resolv.conf. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/net_link.h"
#include "box/host_names.h"

static const char *search(const char *resolv, size_t cap)
{
	static char text[256];

	memset(text, 'x', sizeof text);
	host_search(resolv, text, cap);
	return text;
}

START_TEST(search_list)
{
	static const char *const cases[][2] = {{"", ""}, {"search", ""}, {"search \n", ""},
		{"nameserver 192.0.2.1\nsearch a.example b.example\noptions x",
			"a.example b.example"},
		{"search\ta.example \t b.example \r\n", "a.example b.example"},
		{"domain a.example", "a.example"},
		{"domain a.example\nsearch b.example\n", "b.example"},
		{"search b.example\ndomain a.example\n", "a.example"},
		{"search a.example\nsearch\n", "a.example"},
		{" search a.example\n#search b.example\nsearching c.example\n", ""}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		ck_assert_str_eq(search(cases[i][0], 256), cases[i][1]);
}
END_TEST

START_TEST(no_name_of_the_list_is_cut)
{
	ck_assert_str_eq(search("search aa.example bb.example\n", 21), "aa.example");
	ck_assert_str_eq(search("search aa.example bb.example\n", 22), "aa.example bb.example");
	ck_assert_str_eq(search("search aa.example\n", 10), "");
}
END_TEST

START_TEST(whether_it_names_a_server)
{
	ck_assert(host_names_server("search a\nnameserver 192.0.2.1\n"));
	ck_assert(host_names_server("nameserver\t::1"));
	ck_assert(!host_names_server(""));
	ck_assert(
		!host_names_server("#nameserver 192.0.2.1\n nameserver 192.0.2.1\nnameserver \n"));
	ck_assert(!host_names_server("nameservers 192.0.2.1\n"));
}
END_TEST

START_TEST(a_file_is_bounded_and_clean)
{
	char path[] = "/tmp/holt-host-names.XXXXXX";
	const int fd = mkstemp(path);
	FILE *f = fdopen(fd, "w");

	(void)fputs("a\xff\x01\x7f b\tc\n", f);
	for (unsigned i = 0; i < NET_TEXT_MAX; i += 10)
		(void)fputs("123456789\n", f);
	(void)fclose(f);
	auto_json text = host_file_text(path);
	(void)unlink(path);
	ck_assert_int_eq(strncmp(json_string_value(text), "a??? b\tc\n1", 10), 0);
	ck_assert_uint_le(json_string_length(text), NET_TEXT_MAX);
	ck_assert_uint_gt(json_string_length(text), NET_TEXT_MAX - 10);
	ck_assert_int_eq(json_string_value(text)[json_string_length(text) - 1], '\n');
	auto_json none = host_file_text(path);
	ck_assert_str_eq(json_string_value(none), "");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("host_names");
	TCase *t = tcase_create("host_names");
	SRunner *runner = srunner_create(s);

	suite_add_tcase(s, t);
	tcase_add_test(t, search_list);
	tcase_add_test(t, no_name_of_the_list_is_cut);
	tcase_add_test(t, whether_it_names_a_server);
	tcase_add_test(t, a_file_is_bounded_and_clean);
	srunner_run_all(runner, CK_ENV);
	const int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
