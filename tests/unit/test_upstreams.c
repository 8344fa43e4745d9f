/* SPDX-License-Identifier: Apache-2.0 */
/* K41: what a host's resolv.conf may say. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "net/upstreams.h"

static void check_server(const struct upstreams *u, size_t i, int family, const char *want)
{
	char text[INET6_ADDRSTRLEN];
	const struct sockaddr_in *in = (const void *)&u->list[i].address;
	const struct sockaddr_in6 *in6 = (const void *)&u->list[i].address;

	ck_assert_int_eq(u->list[i].address.ss_family, family);
	ck_assert_int_eq(ntohs(in->sin_port), 53);
	(void)inet_ntop(family,
		family == AF_INET ? (const void *)&in->sin_addr : (const void *)&in6->sin6_addr,
		text, sizeof text);
	ck_assert_str_eq(text, want);
}

START_TEST(servers_in_order)
{
	struct upstreams u;

	upstreams_parse("# nameserver 1.1.1.1\n;nameserver 1.1.1.2\nsearch a b\n"
			"nameserver 127.0.0.53\r\nnameserver\t2001:db8::53 # x\n"
			"nameserver fe80::1%1\nnameserver no.address\nnameserver 192.0.2.53",
		&u);
	ck_assert_uint_eq(u.n, 4);
	check_server(&u, 0, AF_INET, "127.0.0.53");
	check_server(&u, 1, AF_INET6, "2001:db8::53");
	check_server(&u, 2, AF_INET6, "fe80::1");
	ck_assert_uint_eq(((const struct sockaddr_in6 *)&u.list[2].address)->sin6_scope_id, 1);
	check_server(&u, 3, AF_INET, "192.0.2.53");
}
END_TEST

START_TEST(empty_and_too_many)
{
	struct upstreams u;

	upstreams_parse("", &u);
	ck_assert_uint_eq(u.n, 0);
	ck_assert_uint_eq(u.attempts, UPSTREAMS_ATTEMPTS);
	upstreams_parse("\n\nnameserver\n", &u);
	ck_assert_uint_eq(u.n, 0);
	upstreams_parse("nameserver 1.0.0.1\nnameserver 1.0.0.2\nnameserver 1.0.0.3\n"
			"nameserver 1.0.0.4\nnameserver 1.0.0.5\nnameserver 1.0.0.6\n"
			"nameserver 1.0.0.7\nnameserver 1.0.0.8\nnameserver 1.0.0.9\n",
		&u);
	ck_assert_uint_eq(u.n, UPSTREAMS_MAX);
}
END_TEST

START_TEST(options_within_reason)
{
	struct upstreams u;

	upstreams_parse("options timeout:99 attempts:0 rotate use-vc edns0 ndots:5\n", &u);
	ck_assert_uint_eq(u.timeout_ms, 3000);
	ck_assert_uint_eq(u.attempts, 1);
	ck_assert(u.rotate);
	ck_assert(u.use_tcp);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("upstreams");
	TCase *t = tcase_create("upstreams");
	SRunner *r = srunner_create(s);

	tcase_add_test(t, servers_in_order);
	tcase_add_test(t, empty_and_too_many);
	tcase_add_test(t, options_within_reason);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
