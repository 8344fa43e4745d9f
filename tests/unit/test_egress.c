/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of allow-lists: what they mean, the one form they are written in, and that whatever could
 * mean two things is refused with the right form. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/egress.h"
#include "base/err.h"

static struct egress_rule parsed(const char *text)
{
	struct egress_rule r = {0};
	auto_error error = NULL;

	ck_assert_msg(egress_parse(text, &r, &error) == 0, "'%s': %s", text,
		error ? holt_error_message(error) : "");
	return r;
}

static struct net_addr addr(const char *text)
{
	struct net_addr a;

	ck_assert_msg(net_addr_parse(text, &a), "'%s'", text);
	return a;
}

static const struct {
	const char *text, *canonical;
} accepted[] = {
	{"*.Example.ORG.:443", "*.example.org:443"},
	{"*.org", "*.org"},
	{"0.0.0.0/0", "0.0.0.0/0"},
	{"10.0.0.0/8", "10.0.0.0/8"},
	{"10.0.0.0/8:443", "10.0.0.0/8:443"},
	{"10.1.2.3", "10.1.2.3"},
	{"10.1.2.3/32", "10.1.2.3"},
	{"10.1.2.3:65535", "10.1.2.3:65535"},
	{"Example.ORG", "example.org"},
	{"[2001:db8::1]", "[2001:db8::1]"},
	{"[2001:db8::1]:443", "[2001:db8::1]:443"},
	{"[2001:DB8::]/32:443", "[2001:db8::/32]:443"},
	{"[2001:db8::/32]:443", "[2001:db8::/32]:443"},
	{"2001:db8::/33", "[2001:db8::/33]"},
	{"2001:db8:0:0:0:0:0:1", "[2001:db8::1]"},
	{"::/0", "[::/0]"},
	{"_dmarc.example.org", "_dmarc.example.org"},
	{"db", "db"},
	{"example.org.", "example.org"},
	{"example.org:1", "example.org:1"},
	{"xn--bcher-kva.example:443", "xn--bcher-kva.example:443"},
};

START_TEST(one_form)
{
	char text[EGRESS_TEXT];
	struct egress_rule r = parsed(accepted[_i].text);

	egress_text(&r, text);
	ck_assert_str_eq(text, accepted[_i].canonical);
	r = parsed(text);
	memset(text, 0, sizeof text);
	egress_text(&r, text);
	ck_assert_str_eq(text, accepted[_i].canonical);
}
END_TEST

static const char *const refused[] = {
	"",
	" ",
	"*",
	"*.",
	"*.*.org",
	"*example.org",
	"*.10.0.0.1",
	"-a.org",
	".",
	"..",
	".example.org",
	"/8",
	"0x7f.0x1",
	"0x7f000001",
	"10.0.0.0/33",
	"10.0.0.0/-1",
	"10.0.0.0/",
	"10.0.0.0/8/8",
	"10.0.0.1/8",
	"10.0.0.1:0",
	"10.0.0.1:65536",
	"10.0.0.1:80:80",
	"010.0.0.1",
	"127.1",
	"1.2.3",
	"1.2.3.4.",
	"1.2.3.4.5",
	"2130706433",
	"2001:db8::1/32",
	"::ffff:10.0.0.1",
	"::ffff:10.0.0.0/104",
	":443",
	"[10.0.0.1]:80",
	"[2001:db8::1",
	"[2001:db8::1]443",
	"[2001:db8::1]:",
	"[::1%eth0]:80",
	"[]",
	"[]:80",
	"[example.org]:80",
	"]",
	"a..b",
	"a-.org",
	"a/b",
	"a:b:c",
	"bücher.example",
	"example.org\n",
	"example.org other.org",
	"example.org/24",
	"example.org:",
	"example.org:+80",
	"example.org: 80",
	"example.org:0",
	"example.org:080x",
	"example.org:80,443",
	"example.org:80-90",
	"example.org:99999999999999999999",
	"example.org:http",
	"http://example.org",
	"user@example.org",
	"a.example.org\x7f",
	"\xff\xfe.org",
	"fd00::1::2",
	"www.*.org",
};

START_TEST(refuses_what_is_doubtful)
{
	struct egress_rule r = {.port = 7};
	auto_error error = NULL;

	ck_assert_msg(egress_parse(refused[_i], &r, &error) == -HOLT_EINVALID, "'%s'", refused[_i]);
	ck_assert_uint_eq(r.port, 7);
	ck_assert_int_eq(holt_error_code(error), HOLT_EINVALID);
	ck_assert_str_eq(holt_error_stage(error), "network");
	ck_assert_ptr_nonnull(holt_error_object(error));
	ck_assert_ptr_nonnull(holt_error_hint(error));
}
END_TEST

static void hint_has(const char *text, const char *part)
{
	struct egress_rule r;
	auto_error error = NULL;

	ck_assert_int_lt(egress_parse(text, &r, &error), 0);
	ck_assert_msg(strstr(holt_error_hint(error), part), "%s: %s", text, holt_error_hint(error));
	ck_assert_str_eq(holt_error_object(error), text);
}

START_TEST(hints_say_the_right_form)
{
	hint_has("10.1.2.3/8", "'10.0.0.0/8'");
	hint_has("10.1.2.3/8", "'10.1.2.3'");
	hint_has("*", "'open'");
	hint_has("http://example.org/", "'example.org:443'");
	hint_has("example.org:80-90", "each port");
	hint_has("::ffff:10.0.0.1", "IPv4");
}
END_TEST

/* K38: names are compared in ASCII; other forms are not guessed at. */
START_TEST(k38_idn_is_written_as_xn)
{
	const struct egress_rule r = parsed("xn--bcher-kva.example");
	char name[EGRESS_HOST_MAX + 1];

	hint_has("b\xc3\xbc"
		 "cher.example",
		"xn--");
	ck_assert(egress_name("XN--BCHER-KVA.example.", name));
	ck_assert(egress_matches_name(&r, name));
	ck_assert(!egress_name("b\xc3\xbc"
			       "cher.example",
		name));
}
END_TEST

START_TEST(long_names)
{
	char text[300];
	char name[EGRESS_HOST_MAX + 1];
	struct egress_rule r;

	memset(text, 'a', sizeof text);
	for (size_t i = 63; i < sizeof text; i += 64)
		text[i] = '.';
	text[253] = 0;
	ck_assert(egress_name(text, name));
	ck_assert_int_eq(egress_parse(text, &r, NULL), 0);
	text[253] = '.';
	text[254] = 0;
	ck_assert(egress_name(text, name)); /* the dot at the end does not count */
	text[253] = 'a';
	ck_assert(!egress_name(text, name));
	ck_assert_int_lt(egress_parse(text, &r, NULL), 0);
	memset(text, 'a', 64);
	text[64] = 0;
	ck_assert(!egress_name(text, name)); /* a label of 64 */
	memset(text, 'a', sizeof text);
	text[sizeof text - 1] = 0;
	ck_assert_int_lt(egress_parse(text, &r, NULL), 0);
}
END_TEST

START_TEST(names_match)
{
	const struct egress_rule host = parsed("example.org");
	const struct egress_rule domain = parsed("*.example.org:443");

	ck_assert(egress_matches_name(&host, "example.org"));
	ck_assert(!egress_matches_name(&host, "www.example.org"));
	ck_assert(!egress_matches_name(&host, "example.org.evil.net"));
	ck_assert(!egress_matches_name(&host, "notexample.org"));
	ck_assert(egress_matches_name(&domain, "www.example.org"));
	ck_assert(egress_matches_name(&domain, "a.b.example.org"));
	ck_assert(!egress_matches_name(&domain, "example.org"));
	ck_assert(!egress_matches_name(&domain, "notexample.org"));
	ck_assert(!egress_matches_name(&domain, ".example.org"));
	ck_assert(!egress_matches_name(&domain, "org"));
	ck_assert(!egress_matches_name(&domain, ""));
}
END_TEST

static bool within(const char *network, const char *address)
{
	const struct egress_rule r = parsed(network);
	const struct net_addr a = addr(address);

	return egress_matches_addr(&r, &a);
}

START_TEST(addresses_match)
{
	ck_assert(within("10.0.0.0/8", "10.255.255.255"));
	ck_assert(!within("10.0.0.0/8", "11.0.0.0"));
	ck_assert(within("10.0.0.128/25", "10.0.0.255"));
	ck_assert(!within("10.0.0.128/25", "10.0.0.127"));
	ck_assert(within("10.0.0.1", "10.0.0.1"));
	ck_assert(!within("10.0.0.1", "10.0.0.0"));
	ck_assert(within("0.0.0.0/0", "203.0.113.9"));
	ck_assert(!within("0.0.0.0/0", "2001:db8::1"));
	ck_assert(within("::/0", "2001:db8::1"));
	ck_assert(!within("::/0", "203.0.113.9"));
	ck_assert(within("2001:db8::/33", "2001:db8:7fff::1"));
	ck_assert(!within("2001:db8::/33", "2001:db8:8000::1"));
	ck_assert(!within("example.org", "10.0.0.1"));
}
END_TEST

START_TEST(addresses_as_text)
{
	static const char *const same[] = {"0.0.0.0", "255.255.255.255", "::", "fd00::1"};
	static const char *const no[] = {"", "1", "1.2.3", "1.2.3.4/8", "01.2.3.4", "::1%lo",
		"[::1]", " 1.2.3.4", "1.2.3.4 "};
	char text[NET_ADDR_TEXT];
	struct net_addr a;

	for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
		a = addr(same[i]);
		net_addr_text(&a, text);
		ck_assert_str_eq(text, same[i]);
	}
	for (size_t i = 0; i < sizeof no / sizeof *no; i++)
		ck_assert_msg(!net_addr_parse(no[i], &a), "'%s'", no[i]);
	a = addr("::ffff:10.0.0.1");
	ck_assert(net_addr_is4(&a));
}
END_TEST

int main(void)
{
	Suite *const suite = suite_create("egress");
	TCase *const tc = tcase_create("egress");

	tcase_add_loop_test(tc, one_form, 0, sizeof accepted / sizeof *accepted);
	tcase_add_loop_test(tc, refuses_what_is_doubtful, 0, sizeof refused / sizeof *refused);
	tcase_add_test(tc, hints_say_the_right_form);
	tcase_add_test(tc, k38_idn_is_written_as_xn);
	tcase_add_test(tc, long_names);
	tcase_add_test(tc, names_match);
	tcase_add_test(tc, addresses_match);
	tcase_add_test(tc, addresses_as_text);
	suite_add_tcase(suite, tc);
	SRunner *const runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	const int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
