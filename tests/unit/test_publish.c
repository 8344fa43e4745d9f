/* SPDX-License-Identifier: Apache-2.0 */
/* Published ports as docker writes them (K42), and what is refused of it. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/publish.h"

static const struct {
	const char *text, *canonical;
} accepted[] = {
	{"0.0.0.0:53:53/udp", "0.0.0.0:53:53/udp"},
	{"0:80", "127.0.0.1:0:80/tcp"},
	{"127.0.0.1:8080:80/udp", "127.0.0.1:8080:80/udp"},
	{"127.0.0.1::80", "127.0.0.1:0:80/tcp"},
	{"65535:65535", "127.0.0.1:65535:65535/tcp"},
	{"8080:80", "127.0.0.1:8080:80/tcp"},
	{"8080:80/tcp", "127.0.0.1:8080:80/tcp"},
	{":80", "127.0.0.1:0:80/tcp"},
	{":80/udp", "127.0.0.1:0:80/udp"},
	{"[0:0:0:0:0:0:0:1]:8080:80", "[::1]:8080:80/tcp"},
	{"[::1]:8080:80", "[::1]:8080:80/tcp"},
	{"[::1]::80", "[::1]:0:80/tcp"},
	{"[::]:8080:80/udp", "[::]:8080:80/udp"},
};

START_TEST(one_form)
{
	struct publish_rule r;
	char text[PUBLISH_TEXT];

	for (unsigned again = 0; again < 2; again++) {
		ck_assert_msg(publish_parse(again ? text : accepted[_i].text, &r, NULL) == 0,
			"'%s'", accepted[_i].text);
		publish_text(&r, text);
		ck_assert_str_eq(text, accepted[_i].canonical);
	}
}
END_TEST

static const char *const refused[] = {
	"",
	" 8080:80",
	"+8080:80",
	"-1:80",
	"/udp",
	"127.0.0.1:8080:80:90",
	"127.0.0.1:8080:",
	"256.0.0.1:8080:80",
	"8080",
	"8080:",
	"8080:0",
	"8080:65536",
	"8080:80 ",
	"8080:80/",
	"8080:80/TCP",
	"8080:80/sctp",
	"8080:80/tcp/udp",
	"8080-8090:80-90",
	"8080:80-90",
	"80a:80",
	":",
	"::",
	":::",
	"::1:8080:80",
	":8080:80",
	"[127.0.0.1]:8080:80",
	"[::1:8080:80",
	"[::1%lo]:8080:80",
	"[::ffff:127.0.0.1]:8080:80",
	"[]:8080:80",
	"[:8080:80",
	"eth0:8080:80",
	"localhost:8080:80",
	"8080:80\n",
	"99999999999999999999:80",
	"\xff:80",
	"1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17:18:19:20:21:22:23:24:25:26:27:28:29:30",
};

START_TEST(refuses_what_is_doubtful)
{
	struct publish_rule r = {.guest_port = 7};
	auto_error error = NULL;

	ck_assert_msg(
		publish_parse(refused[_i], &r, &error) == -HOLT_EINVALID, "'%s'", refused[_i]);
	ck_assert_uint_eq(r.guest_port, 7);
	ck_assert_str_eq(holt_error_stage(error), "network");
	ck_assert_ptr_nonnull(holt_error_object(error));
	ck_assert_ptr_nonnull(holt_error_hint(error));
}
END_TEST

START_TEST(ranges_are_named)
{
	struct publish_rule r;
	auto_error error = NULL;

	ck_assert_int_lt(publish_parse("8080-8081:80-81", &r, &error), 0);
	ck_assert_ptr_nonnull(strstr(holt_error_message(error), "ranges"));
	ck_assert_str_eq(holt_error_object(error), "8080-8081:80-81");
}
END_TEST

int main(void)
{
	Suite *const suite = suite_create("publish");
	TCase *const tc = tcase_create("publish");

	tcase_add_loop_test(tc, one_form, 0, sizeof accepted / sizeof *accepted);
	tcase_add_loop_test(tc, refuses_what_is_doubtful, 0, sizeof refused / sizeof *refused);
	tcase_add_test(tc, ranges_are_named);
	suite_add_tcase(suite, tc);
	SRunner *const runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	const int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
