/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the filter lets pass, by mode and address: the never reachable, the small network, lists,
 * names and their time, flows, published ports, and what is told of refusals. The rows of K38 are
 * tests of their own. Which name a TLS client means in SNI and which one in Host (and fronting of
 * domains) is not in what packets show, and is not covered.
 */
#include "filter_fixture.h"

/* Never reachable. */

static const char *const never[] = {
	"0.0.0.0",
	"0.1.2.3",
	"10.0.2.1",
	"10.0.2.4",
	"10.0.2.15",
	"127.0.0.1",
	"127.255.255.254",
	"169.254.0.1",
	"169.254.169.254",
	"169.254.170.2",
	"240.0.0.1",
	"255.255.255.254",
	"192.0.2.77" /* of the host */,
	"::",
	"::1",
	"::127.0.0.1",
	"::8.8.8.8",
	"::ffff:0:127.0.0.1",
	"::ffff:0:8.8.8.8",
	"64:ff9b::127.0.0.1",
	"64:ff9b::169.254.169.254",
	"64:ff9b::10.0.2.2",
	"64:ff9b::192.0.2.77",
	"64:ff9b::224.0.0.1",
	"64:ff9b:1::8.8.8.8",
	"64:ff9b:1:7f00:0:100::",
	"2002:7f00:1::1",
	"2002:a9fe:a9fe::",
	"2002:c000:24d::1" /* 192.0.2.77 */,
	"2001:0:7f00:1::1",
	"2001::80ff:fffe" /* client 127.0.0.1 */,
	"2001::3fff:fdb2" /* 192.0.2.77 */,
	"2001:db8:ffff::5efe:127.0.0.1",
	"2001:db8:ffff::200:5efe:169.254.169.254",
	"fe80::1",
	"fe80::2",
	"febf::1",
	"fec0::1",
	"feff::1",
	"fd68:6f6c:7400::1",
	"fd68:6f6c:7400::15",
	"2001:db8:77::77" /* of the host */,
};

static void set_host(void)
{
	const struct net_addr host[] = {addr("192.0.2.77"), addr("2001:db8:77::77")};

	filter_set_host(f, host, 2);
}

static void unreachable(const char *to)
{
	set_host();
	ck_assert_msg(tcp(to, 80) == FILTER_REFUSE, "tcp %s", to);
	ck_assert_msg(udp(to, 80) == FILTER_REFUSE, "udp %s", to);
	ck_assert_msg(ping(to) == FILTER_REFUSE, "ping %s", to);
	ck_assert_msg(tcp(to, 53) == FILTER_REFUSE, "tcp 53 %s", to);
	ck_assert_msg(!learn("example.org", to, 60), "learn %s", to);
	ck_assert_msg(tcp(to, 81) == FILTER_REFUSE, "tcp %s", to);
}

START_TEST(never_with_open)
{
	OPEN();
	unreachable(never[_i]);
}
END_TEST

/* Also where everything is listed. */
START_TEST(never_with_a_list_of_all)
{
	ALLOW("0.0.0.0/0", "::/0", "example.org", "127.0.0.0/8", "fe80::/10", "::1");
	unreachable(never[_i]);
}
END_TEST

START_TEST(mapped_addresses_are_no_ipv6)
{
	OPEN();
	ck_assert_int_eq(tcp("::ffff:8.8.8.8", 80), FILTER_DROP);
	ck_assert_int_eq(tcp("::ffff:127.0.0.1", 80), FILTER_DROP);
	ck_assert(!learn("a.org", "::ffff:127.0.0.1", 60));
}
END_TEST

static const char *const groups[] = {"224.0.0.1", "239.255.255.250", "255.255.255.255",
	"10.0.2.255", "ff02::1", "ff02::fb", "ff0e::1"};

START_TEST(groups_are_dropped)
{
	ALLOW("0.0.0.0/0", "::/0", "example.org");
	ck_assert_int_eq(udp(groups[_i], 5353), FILTER_DROP);
	ck_assert_int_eq(tcp(groups[_i], 80), FILTER_DROP);
	ck_assert_int_eq(ping(groups[_i]), FILTER_DROP);
	ck_assert(!learn("example.org", groups[_i], 60));
	ck_assert_uint_eq(told.n, 0);
}
END_TEST

static const char *const world[] = {"8.8.8.8", "10.0.1.255", "10.0.3.0", "100.64.0.1",
	"126.255.255.255", "128.0.0.1", "169.253.255.255", "169.255.0.1", "172.16.0.1",
	"192.168.1.1", "192.0.2.78", "223.255.255.255", "2001:db8::1", "2606:4700::1111",
	"64:ff9b::8.8.8.8", "2002:808:808::1", "2001:0:808:808::f7f7:f7f7", "fd00::1",
	"fd68:6f6c:7401::1", "fe7f::1"};

START_TEST(open_reaches_the_rest)
{
	OPEN();
	set_host();
	ck_assert_int_eq(tcp(world[_i], 443), FILTER_PASS);
	ck_assert_int_eq(udp(world[_i], 443), FILTER_PASS);
	/* The stack has no echo by IPv6, and waiting for it would be in vain. */
	ck_assert_int_eq(ping(world[_i]), strchr(world[_i], ':') ? FILTER_REFUSE : FILTER_PASS);
	ck_assert(learn("a.org", world[_i], 1));
	ck_assert_uint_eq(told.n, 0);
}
END_TEST

START_TEST(host_addresses_are_replaced)
{
	const struct net_addr other = addr("8.8.8.8");

	OPEN();
	set_host();
	filter_set_host(f, &other, 1);
	ck_assert_int_eq(tcp("8.8.8.8", 80), FILTER_REFUSE);
	ck_assert_int_eq(tcp("192.0.2.77", 80), FILTER_PASS);
	filter_set_host(f, NULL, 0);
	ck_assert_int_eq(tcp("8.8.8.8", 80), FILTER_PASS);
}
END_TEST

/* What cannot be known is not taken for nothing. */
START_TEST(too_many_host_addresses_close)
{
	struct net_addr *const many = calloc(FILTER_HOST_MAX + 1, sizeof *many);

	OPEN();
	filter_set_host(f, many, FILTER_HOST_MAX + 1);
	ck_assert_int_eq(tcp("8.8.8.8", 80), FILTER_REFUSE);
	mem_fail_at(1);
	filter_set_host(f, many, 1);
	mem_fail_at(0);
	ck_assert_int_eq(tcp("8.8.8.8", 80), FILTER_REFUSE);
	filter_set_host(f, many, FILTER_HOST_MAX);
	ck_assert_int_eq(tcp("8.8.8.8", 80), FILTER_PASS);
	free(many);
}
END_TEST

START_TEST(a_new_host_address_ends_flows)
{
	const struct net_addr late = addr("203.0.113.5");

	ALLOW("203.0.113.5");
	ck_assert_int_eq(tcp("203.0.113.5", 80), FILTER_PASS);
	ck_assert_int_eq(out(frame_tcp(G4, 40000, "203.0.113.5", 80, ACK)), FILTER_PASS);
	filter_set_host(f, &late, 1);
	ck_assert_int_eq(out(frame_tcp(G4, 40000, "203.0.113.5", 80, ACK)), FILTER_REFUSE);
}
END_TEST

/* Allow-lists. */

START_TEST(k38_ip_literal)
{
	ALLOW("example.org", "198.51.100.0/24", "203.0.113.7:443");
	ck_assert(learn("example.org", "192.0.2.1", 60));
	ck_assert_int_eq(tcp("192.0.2.1", 80), FILTER_PASS);
	ck_assert_int_eq(tcp("192.0.2.2", 80), FILTER_REFUSE);
	ck_assert_str_eq(told.address, "192.0.2.2");
	ck_assert_str_eq(told.proto, "tcp");
	ck_assert_uint_eq(told.port, 80);
	ck_assert_str_eq(told.name, "");
	ck_assert_int_eq(tcp("198.51.100.255", 1), FILTER_PASS);
	ck_assert_int_eq(tcp("198.51.101.0", 1), FILTER_REFUSE);
	ck_assert_int_eq(tcp("203.0.113.7", 443), FILTER_PASS);
	ck_assert_int_eq(tcp("203.0.113.7", 80), FILTER_REFUSE);
	ck_assert_int_eq(udp("203.0.113.7", 443), FILTER_PASS);
	ck_assert_int_eq(ping("203.0.113.7"), FILTER_REFUSE); /* one port is not the address */
	ck_assert_int_eq(ping("198.51.100.1"), FILTER_PASS);
}
END_TEST

START_TEST(k38_ipv6)
{
	ALLOW("example.org:443", "[2001:db8:1::/48]:80");
	ck_assert_int_eq(tcp("2001:db8:2::1", 443), FILTER_REFUSE);
	ck_assert(learn("example.org", "2001:db8:2::1", 60));
	ck_assert_int_eq(tcp("2001:db8:2::1", 443), FILTER_PASS);
	ck_assert_int_eq(tcp("2001:db8:2::1", 80), FILTER_REFUSE);
	ck_assert_str_eq(told.name, "example.org");
	ck_assert_int_eq(tcp("2001:db8:1::9", 80), FILTER_PASS);
	ck_assert_int_eq(tcp("2001:db8:1::9", 443), FILTER_REFUSE);
	/* The IPv4 address does not bring its IPv6 disguises. */
	ck_assert(learn("example.org", "192.0.2.1", 60));
	ck_assert_int_eq(tcp("64:ff9b::192.0.2.1", 443), FILTER_REFUSE);
	ck_assert_int_eq(tcp("2002:c000:201::1", 443), FILTER_REFUSE);
}
END_TEST

START_TEST(k38_dns_to_others_udp_tcp_dot_doh)
{
	static const char *const others[] = {"8.8.8.8", "2001:4860:4860::8888"};

	ALLOW("example.org");
	for (size_t i = 0; i < 2; i++) {
		ck_assert_int_eq(udp(others[i], 53), FILTER_REFUSE);
		ck_assert_int_eq(tcp(others[i], 53), FILTER_REFUSE);
		ck_assert_int_eq(tcp(others[i], 853), FILTER_REFUSE);
		ck_assert_int_eq(udp(others[i], 853), FILTER_REFUSE);
		ck_assert_int_eq(tcp(others[i], 443), FILTER_REFUSE);
		ck_assert_int_eq(udp(others[i], 443), FILTER_REFUSE);
	}
	ck_assert(!filter_may_ask(f, "dns.google"));
	ALLOW("8.8.8.8:53");
	ck_assert_int_eq(udp("8.8.8.8", 53), FILTER_PASS);
	ck_assert_int_eq(tcp("8.8.8.8", 853), FILTER_REFUSE);
}
END_TEST

START_TEST(k38_rebinding_ttl_0_flip)
{
	ALLOW("rebind.example");
	set_host();
	ck_assert(learn("rebind.example", "192.0.2.1", 0));
	ck_assert_int_eq(tcp("192.0.2.1", 80), FILTER_PASS);
	/* The second answer points inside: it is not learnt, and the first one does not help. */
	ck_assert(!learn("rebind.example", "127.0.0.1", 0));
	ck_assert(!learn("rebind.example", "169.254.169.254", 0));
	ck_assert(!learn("rebind.example", "192.0.2.77", 0));
	ck_assert(!learn("rebind.example", "::1", 0));
	ck_assert(!learn("rebind.example", NET_GATEWAY4, 0));
	ck_assert_int_eq(tcp("127.0.0.1", 80), FILTER_REFUSE);
	ck_assert_int_eq(tcp("192.0.2.77", 80), FILTER_REFUSE);
	/* To another address outside: it is what the name says now, and the old one ends. */
	now += 1000;
	ck_assert(learn("rebind.example", "192.0.2.2", 0));
	ck_assert_int_eq(out(frame_tcp(G4, 40001, "192.0.2.2", 80, SYN)), FILTER_PASS);
	now += PIN_MIN_S * 1000;
	ck_assert_int_eq(out(frame_tcp(G4, 40002, "192.0.2.1", 80, SYN)), FILTER_REFUSE);
	ck_assert_int_eq(out(frame_tcp(G4, 40003, "192.0.2.2", 80, SYN)), FILTER_REFUSE);
}
END_TEST

START_TEST(k38_host_alias)
{
	ALLOW("host.docker.internal", "host.containers.internal", "localhost", "0.0.0.0/0");
	set_host();
	ck_assert(!learn("host.docker.internal", "192.0.2.77", 60));
	ck_assert(!learn("host.containers.internal", NET_GATEWAY4, 60));
	ck_assert(!learn("localhost", "127.0.0.1", 60));
	ck_assert_int_eq(tcp(NET_GATEWAY4, 22), FILTER_REFUSE);
	ck_assert_int_eq(tcp("192.0.2.77", 22), FILTER_REFUSE);
	ck_assert_int_eq(tcp("127.0.0.1", 22), FILTER_REFUSE);
}
END_TEST

START_TEST(k38_metadata_ip)
{
	ALLOW("169.254.169.254", "metadata.google.internal", "fd00:ec2::254", "0.0.0.0/0");
	ck_assert_int_eq(tcp("169.254.169.254", 80), FILTER_REFUSE);
	ck_assert_int_eq(tcp("169.254.170.2", 80), FILTER_REFUSE);
	ck_assert_int_eq(tcp("64:ff9b::169.254.169.254", 80), FILTER_REFUSE);
	ck_assert(!learn("metadata.google.internal", "169.254.169.254", 60));
}
END_TEST

/* The name that is asked for decides; the alias is no name that anybody may ask for. */
START_TEST(k38_cname)
{
	ALLOW("www.example.org");
	ck_assert(filter_may_ask(f, "www.example.org"));
	ck_assert(!filter_may_ask(f, "cdn.example.net"));
	ck_assert(learn("www.example.org", "192.0.2.9", 60));
	ck_assert(!learn("cdn.example.net", "192.0.2.10", 60));
	ck_assert_int_eq(tcp("192.0.2.9", 80), FILTER_PASS);
	ck_assert_int_eq(tcp("192.0.2.10", 80), FILTER_REFUSE);
}
END_TEST

START_TEST(k38_trailing_dot_and_upper_case)
{
	ALLOW("Example.ORG.", "*.Sub.example.net.:443");
	ck_assert(filter_may_ask(f, "example.org"));
	ck_assert(filter_may_ask(f, "EXAMPLE.org."));
	ck_assert(filter_may_ask(f, "a.SUB.example.NET."));
	ck_assert(!filter_may_ask(f, "sub.example.net."));
	ck_assert(!filter_may_ask(f, "example.org.."));
	ck_assert(!filter_may_ask(f, "example.org.evil.test."));
	ck_assert(learn("EXAMPLE.ORG.", "192.0.2.1", 60));
	ck_assert_int_eq(tcp("192.0.2.1", 80), FILTER_PASS);
}
END_TEST

START_TEST(k38_idn)
{
	ALLOW("xn--bcher-kva.example");
	ck_assert(filter_may_ask(f, "XN--BCHER-KVA.example"));
	ck_assert(!filter_may_ask(f, "b\xc3\xbc"
				     "cher.example"));
	ck_assert(!filter_may_ask(f, "bucher.example"));
	ck_assert_str_eq(told.proto, "dns");
	ck_assert_str_eq(told.name, "bucher.example");
}
END_TEST

START_TEST(an_empty_list_allows_nothing)
{
	filter_begin(NET_ALLOWLIST, NULL, NULL);
	ck_assert(!filter_may_ask(f, "example.org"));
	ck_assert(!learn("example.org", "192.0.2.1", 60));
	ck_assert_int_eq(tcp("192.0.2.1", 80), FILTER_REFUSE);
	ck_assert_int_eq(ping(NET_GATEWAY4), FILTER_PASS);
}
END_TEST

START_TEST(names_share_an_address)
{
	ALLOW("a.org:80", "b.org:443", "c.org");
	ck_assert(learn("a.org", "192.0.2.1", 20));
	ck_assert(learn("b.org", "192.0.2.1", 60));
	ck_assert_int_eq(tcp("192.0.2.1", 80), FILTER_PASS);
	ck_assert_int_eq(tcp("192.0.2.1", 443), FILTER_PASS);
	ck_assert_int_eq(tcp("192.0.2.1", 22), FILTER_REFUSE);
	now += 21000;
	ck_assert_int_eq(out(frame_tcp(G4, 40001, "192.0.2.1", 80, SYN)), FILTER_REFUSE);
	ck_assert_int_eq(out(frame_tcp(G4, 40001, "192.0.2.1", 443, SYN)), FILTER_PASS);
	ck_assert(learn("c.org", "192.0.2.1", 60));
	ck_assert_int_eq(tcp("192.0.2.1", 22), FILTER_PASS);
}
END_TEST

START_TEST(flows_outlive_their_pin)
{
	ALLOW("a.org");
	ck_assert(learn("a.org", "192.0.2.1", 10));
	ck_assert_int_eq(tcp("192.0.2.1", 80), FILTER_PASS);
	ck_assert_int_eq(udp("192.0.2.1", 443), FILTER_PASS);
	in(frame_tcp("192.0.2.1", 80, G4, 40000, SYN | ACK));
	now += 11000;
	ck_assert_int_eq(out(frame_tcp(G4, 40000, "192.0.2.1", 80, ACK)), FILTER_PASS);
	ck_assert_int_eq(udp("192.0.2.1", 443), FILTER_PASS);
	ck_assert_int_eq(out(frame_tcp(G4, 40001, "192.0.2.1", 80, ACK)), FILTER_REFUSE);
	ck_assert_int_eq(out(frame_udp(G4, 40001, "192.0.2.1", 443, 4)), FILTER_REFUSE);
	/* To begin again is to begin. */
	ck_assert_int_eq(tcp("192.0.2.1", 80), FILTER_REFUSE);
	now += FLOW_TCP_IDLE_MS - 1;
	ck_assert_int_eq(out(frame_tcp(G4, 40000, "192.0.2.1", 80, ACK)), FILTER_PASS);
	ck_assert_int_eq(udp("192.0.2.1", 443), FILTER_REFUSE); /* idle for too long */
	now += FLOW_TCP_IDLE_MS;
	ck_assert_int_eq(out(frame_tcp(G4, 40000, "192.0.2.1", 80, ACK)), FILTER_REFUSE);
}
END_TEST

static size_t flows(void)
{
	size_t n = 0, pins = 0;

	filter_sizes(f, now, &n, &pins);
	return n;
}

START_TEST(flows_end)
{
	ALLOW("192.0.2.0/24");
	ck_assert_int_eq(tcp("192.0.2.1", 80), FILTER_PASS);
	in(frame_tcp("192.0.2.1", 80, G4, 40000, SYN | ACK));
	ck_assert_uint_eq(flows(), 1);
	/* Half closed is not closed. */
	ck_assert_int_eq(out(frame_tcp(G4, 40000, "192.0.2.1", 80, 1 | ACK)), FILTER_PASS);
	now += 600000;
	in(frame_tcp("192.0.2.1", 80, G4, 40000, ACK));
	ck_assert_uint_eq(flows(), 1);
	in(frame_tcp("192.0.2.1", 80, G4, 40000, 1 | ACK));
	ck_assert_int_eq(out(frame_tcp(G4, 40000, "192.0.2.1", 80, ACK)), FILTER_PASS);
	now += FLOW_ENDED_MS;
	ck_assert_uint_eq(flows(), 0);
	/* A reset ends it, whoever sends it, and a flood after it does not keep it. */
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(tcp("192.0.2.1", 80), FILTER_PASS);
		if (i == 0)
			in(frame_tcp("192.0.2.1", 80, G4, 40000, 4));
		else
			(void)out(frame_tcp(G4, 40000, "192.0.2.1", 80, 4));
		for (unsigned ms = 0; ms < FLOW_ENDED_MS; ms += 1000, now += 1000)
			(void)out(frame_tcp(G4, 40000, "192.0.2.1", 80, ACK));
		ck_assert_uint_eq(flows(), 0);
	}
	/* Nobody answers. */
	ck_assert_int_eq(tcp("192.0.2.1", 80), FILTER_PASS);
	now += FLOW_OPENING_MS;
	ck_assert_uint_eq(flows(), 0);
}
END_TEST

START_TEST(tables_are_bounded)
{
	char address[32];
	size_t n, pins;

	ALLOW("10.0.0.0/8", "a.org");
	for (unsigned i = 0; i < FLOWS_MAX + 100; i++) {
		(void)snprintf(address, sizeof address, "10.1.%u.%u", i >> 8, i & 255);
		ck_assert_int_eq(tcp(address, 80), FILTER_PASS);
		ck_assert(learn("a.org", address, 60));
	}
	filter_sizes(f, now, &n, &pins);
	ck_assert_uint_eq(n, FLOWS_MAX);
	ck_assert_uint_eq(pins, PINS_MAX);
	for (unsigned i = 0; i < 100; i++) {
		char name[32];

		(void)snprintf(name, sizeof name, "n%u.a.org", i);
		ck_assert(!learn(name, "10.1.0.0", 60));
	}
	now += FLOW_TCP_IDLE_MS;
	filter_sizes(f, now, &n, &pins);
	ck_assert_uint_eq(n + pins, 0);
}
END_TEST

START_TEST(a_pin_has_few_names)
{
	ALLOW("*.org");
	for (unsigned i = 0; i < 3 * PIN_NAMES; i++) {
		char name[32];

		(void)snprintf(name, sizeof name, "n%u.org", i);
		ck_assert(learn(name, "192.0.2.1", 60 + i));
	}
	ck_assert_int_eq(tcp("192.0.2.1", 80), FILTER_PASS);
	now += 1000 * (60 + 3 * PIN_NAMES - 2);
	ck_assert_int_eq(out(frame_tcp(G4, 40001, "192.0.2.1", 80, SYN)), FILTER_PASS);
	now += 1000;
	ck_assert_int_eq(out(frame_tcp(G4, 40002, "192.0.2.1", 80, SYN)), FILTER_REFUSE);
}
END_TEST

START_TEST(times_to_live_are_clamped)
{
	ALLOW("a.org");
	ck_assert(learn("a.org", "192.0.2.1", 0));
	ck_assert(learn("a.org", "192.0.2.2", UINT32_MAX));
	now += PIN_MIN_S * 1000 - 1;
	ck_assert_int_eq(tcp("192.0.2.1", 80), FILTER_PASS);
	now += 1;
	ck_assert_int_eq(tcp("192.0.2.1", 81), FILTER_REFUSE);
	now += (PIN_MAX_S - PIN_MIN_S) * 1000 - 1;
	ck_assert_int_eq(tcp("192.0.2.2", 80), FILTER_PASS);
	now += 1;
	ck_assert_int_eq(tcp("192.0.2.2", 81), FILTER_REFUSE);
	/* A shorter answer does not take time away from who asked first. */
	ck_assert(learn("a.org", "192.0.2.3", 100));
	ck_assert(learn("a.org", "192.0.2.3", 1));
	now += 50000;
	ck_assert_int_eq(tcp("192.0.2.3", 80), FILTER_PASS);
}
END_TEST

START_TEST(without_memory_nothing_opens)
{
	const struct net_spec spec = {.mode = NET_OPEN};

	for (unsigned nth = 1; nth <= 6; nth++) {
		struct filter *none = NULL;
		auto_error error = NULL;

		mem_fail_at(nth);
		ck_assert_int_eq(filter_new(&spec, tell, &told, &none, &error), -HOLT_ENO_MEMORY);
		mem_fail_at(0);
		ck_assert_ptr_null(none);
	}
	ALLOW("a.org", "192.0.2.9");
	mem_fail_at(1);
	ck_assert(!learn("a.org", "192.0.2.1", 60));
	mem_fail_at(1);
	ck_assert_int_eq(tcp("192.0.2.9", 80), FILTER_DROP);
	mem_fail_at(1);
	ck_assert_int_eq(tcp("192.0.2.1", 80), FILTER_REFUSE);
	mem_fail_at(0);
	ck_assert_int_eq(tcp("192.0.2.9", 80), FILTER_PASS);
}
END_TEST

START_TEST(isolated_has_no_filter)
{
	const struct net_spec spec = {.mode = NET_ISOLATED};
	struct filter *none = NULL;
	auto_error error = NULL;

	ck_assert_int_eq(filter_new(&spec, tell, &told, &none, &error), -HOLT_EINVALID);
	ck_assert_ptr_null(none);
}
END_TEST

/* Published ports. */

static void answers(const char *peer, const char *guest)
{
	ck_assert_int_eq(out(frame_tcp(guest, 80, peer, 5000, SYN | ACK)), FILTER_REFUSE);
	in(frame_tcp(peer, 5000, guest, 80, SYN));
	ck_assert_int_eq(out(frame_tcp(guest, 80, peer, 5000, SYN | ACK)), FILTER_PASS);
	ck_assert_int_eq(out(frame_tcp(guest, 80, peer, 5000, ACK)), FILTER_PASS);
	ck_assert_int_eq(out(frame_tcp(guest, 80, peer, 5001, ACK)), FILTER_REFUSE);
	ck_assert_int_eq(out(frame_tcp(guest, 81, peer, 5000, ACK)), FILTER_REFUSE);
	/* The guest does not begin one by it. */
	ck_assert_int_eq(out(frame_tcp(guest, 80, peer, 5000, SYN)), FILTER_REFUSE);
	in(frame_udp(peer, 5000, guest, 53, 4));
	ck_assert_int_eq(out(frame_udp(guest, 53, peer, 5000, 4)), FILTER_PASS);
	ck_assert_int_eq(out(frame_udp(guest, 54, peer, 5000, 4)), FILTER_REFUSE);
}

/* K42: who may not be called may call, and is answered; from the host it is the gateway or one of
 * the host's own addresses. */
START_TEST(k42_published_ports_answer)
{
	static const char *const peers[] = {NET_GATEWAY4, NET_GATEWAY6, "192.0.2.77",
		"2001:db8:77::77", "198.51.100.1", "2001:db8:9::9"};

	filter_begin(NET_ALLOWLIST, LIST("example.org"), LIST("8080:80", "53:53/udp"));
	set_host();
	answers(peers[_i], is6(peers[_i]) ? G6 : G4);
}
END_TEST

START_TEST(open_answers_published_ports)
{
	filter_begin(NET_OPEN, NULL, LIST("8080:80", "53:53/udp"));
	set_host();
	answers(NET_GATEWAY4, G4);
	ck_assert_int_eq(tcp("8.8.8.8", 80), FILTER_PASS);
}
END_TEST

START_TEST(other_ports_have_no_answers)
{
	filter_begin(NET_ALLOWLIST, LIST("example.org"), LIST("8080:80"));
	in(frame_tcp("198.51.100.1", 5000, G4, 22, SYN));
	ck_assert_int_eq(out(frame_tcp(G4, 22, "198.51.100.1", 5000, SYN | ACK)), FILTER_REFUSE);
	in(frame_udp("198.51.100.1", 5000, G4, 80, 4));
	ck_assert_int_eq(out(frame_udp(G4, 80, "198.51.100.1", 5000, 4)), FILTER_REFUSE);
	in(frame_tcp("198.51.100.1", 5000, G4, 80, SYN | ACK));
	ck_assert_int_eq(out(frame_tcp(G4, 80, "198.51.100.1", 5000, ACK)), FILTER_REFUSE);
	ck_assert_uint_eq(flows(), 0);
}
END_TEST

/* Refusals. */

START_TEST(refusals_are_told_once_a_minute)
{
	ALLOW("example.org");
	for (unsigned i = 0; i < 5; i++)
		ck_assert_int_eq(tcp("192.0.2.1", 80), FILTER_REFUSE);
	ck_assert_uint_eq(told.n, 1);
	ck_assert_uint_eq(told.count, 1);
	ck_assert_int_eq(tcp("192.0.2.1", 81), FILTER_REFUSE);
	ck_assert_uint_eq(told.n, 2);
	ck_assert_int_eq(udp("192.0.2.1", 80), FILTER_REFUSE);
	ck_assert_str_eq(told.proto, "udp");
	ck_assert_int_eq(ping("192.0.2.1"), FILTER_REFUSE);
	ck_assert_str_eq(told.proto, "icmp");
	ck_assert_uint_eq(told.n, 4);
	/* The count comes later, with any frame. */
	now += REFUSALS_MINUTE_MS;
	ck_assert_int_eq(ping(NET_GATEWAY4), FILTER_PASS);
	ck_assert_uint_eq(told.n, 5);
	ck_assert_uint_eq(told.count, 4);
	ck_assert_uint_eq(told.port, 80);
	ck_assert_str_eq(told.proto, "tcp");
	/* And what is not refused any more is forgotten. */
	now += REFUSALS_MINUTE_MS;
	ck_assert_int_eq(ping(NET_GATEWAY4), FILTER_PASS);
	ck_assert_uint_eq(told.n, 5);
	ck_assert_int_eq(tcp("192.0.2.1", 80), FILTER_REFUSE);
	ck_assert_uint_eq(told.n, 6);
	ck_assert_uint_eq(told.count, 1);
}
END_TEST

START_TEST(refused_names_are_told)
{
	char longer[600];

	ALLOW("example.org");
	(void)ping(NET_GATEWAY4);
	ck_assert(!filter_may_ask(f, "Other.ORG."));
	ck_assert(!filter_may_ask(f, "other.org"));
	ck_assert_uint_eq(told.n, 1);
	ck_assert_str_eq(told.name, "other.org");
	ck_assert_str_eq(told.proto, "dns");
	memset(longer, 'x', sizeof longer);
	longer[sizeof longer - 1] = 0;
	ck_assert(!filter_may_ask(f, longer));
	ck_assert_uint_eq(strlen(told.name), EGRESS_HOST_MAX);
}
END_TEST

START_TEST(a_scan_is_no_flood)
{
	ALLOW("example.org");
	for (unsigned minute = 1; minute <= 3; minute++) {
		for (unsigned port = 1; port <= 20000; port++)
			ck_assert_int_eq(tcp("192.0.2.1", port), FILTER_REFUSE);
		ck_assert_uint_eq(told.n, minute * REFUSALS_TOLD);
		now += REFUSALS_MINUTE_MS;
	}
}
END_TEST

int main(void)
{
	Suite *const suite = suite_create("filter");
	TCase *const tc = tcase_create("filter");

	tcase_add_checked_fixture(tc, NULL, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, never_with_open, 0, (int)(sizeof never / sizeof *never));
	tcase_add_loop_test(tc, never_with_a_list_of_all, 0, (int)(sizeof never / sizeof *never));
	tcase_add_test(tc, mapped_addresses_are_no_ipv6);
	tcase_add_loop_test(tc, groups_are_dropped, 0, (int)(sizeof groups / sizeof *groups));
	tcase_add_loop_test(tc, open_reaches_the_rest, 0, (int)(sizeof world / sizeof *world));
	tcase_add_test(tc, host_addresses_are_replaced);
	tcase_add_test(tc, too_many_host_addresses_close);
	tcase_add_test(tc, a_new_host_address_ends_flows);
	tcase_add_test(tc, k38_ip_literal);
	tcase_add_test(tc, k38_ipv6);
	tcase_add_test(tc, k38_dns_to_others_udp_tcp_dot_doh);
	tcase_add_test(tc, k38_rebinding_ttl_0_flip);
	tcase_add_test(tc, k38_host_alias);
	tcase_add_test(tc, k38_metadata_ip);
	tcase_add_test(tc, k38_cname);
	tcase_add_test(tc, k38_trailing_dot_and_upper_case);
	tcase_add_test(tc, k38_idn);
	tcase_add_test(tc, an_empty_list_allows_nothing);
	tcase_add_test(tc, names_share_an_address);
	tcase_add_test(tc, flows_outlive_their_pin);
	tcase_add_test(tc, flows_end);
	tcase_add_test(tc, tables_are_bounded);
	tcase_add_test(tc, a_pin_has_few_names);
	tcase_add_test(tc, times_to_live_are_clamped);
	tcase_add_test(tc, without_memory_nothing_opens);
	tcase_add_test(tc, isolated_has_no_filter);
	tcase_add_loop_test(tc, k42_published_ports_answer, 0, 6);
	tcase_add_test(tc, open_answers_published_ports);
	tcase_add_test(tc, other_ports_have_no_answers);
	tcase_add_test(tc, refusals_are_told_once_a_minute);
	tcase_add_test(tc, refused_names_are_told);
	tcase_add_test(tc, a_scan_is_no_flood);
	suite_add_tcase(suite, tc);
	return run(suite);
}
