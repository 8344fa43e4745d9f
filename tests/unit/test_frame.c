/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that are broken, lie, or belong to the small network between guest and helper. */
#include "filter_fixture.h"

/* The small network. */

START_TEST(arp_inside)
{
	OPEN();
	ck_assert_int_eq(out(frame_arp(1, G4, NET_GATEWAY4)), FILTER_PASS);
	ck_assert_int_eq(out(frame_arp(1, G4, NET_RESOLVER4)), FILTER_PASS);
	ck_assert_int_eq(out(frame_arp(2, G4, NET_GATEWAY4)), FILTER_PASS);
	ck_assert_int_eq(out(frame_arp(1, G4, G4)), FILTER_PASS);
	ck_assert_int_eq(out(frame_arp(1, "0.0.0.0", G4)), FILTER_PASS);
	ck_assert_int_eq(out(frame_arp(1, G4, "10.0.2.99")), FILTER_DROP);
	ck_assert_int_eq(out(frame_arp(1, G4, "192.168.1.1")), FILTER_DROP);
	ck_assert_int_eq(out(frame_arp(2, NET_GATEWAY4, G4)), FILTER_DROP);
	ck_assert_int_eq(out(frame_arp(3, G4, NET_GATEWAY4)), FILTER_DROP);
	struct built other = frame_arp(1, G4, NET_GATEWAY4);
	other.bytes[IP_AT + 8] ^= 4;
	ck_assert_int_eq(out(other), FILTER_DROP);
}
END_TEST

START_TEST(neighbours_inside)
{
	ALLOW("example.org");
	ck_assert_int_eq(out(frame_neighbour("fe80::15", "ff02::2", 133, NULL)), FILTER_PASS);
	ck_assert_int_eq(out(frame_neighbour("::", "ff02::2", 133, NULL)), FILTER_PASS);
	ck_assert_int_eq(
		out(frame_neighbour(G6, "ff02::1:ff00:2", 135, NET_GATEWAY6)), FILTER_PASS);
	ck_assert_int_eq(out(frame_neighbour(G6, NET_GATEWAY6, 135, NET_GATEWAY6)), FILTER_PASS);
	ck_assert_int_eq(out(frame_neighbour("::", "ff02::1:ff00:15", 135, G6)), FILTER_PASS);
	ck_assert_int_eq(
		out(frame_neighbour("fe80::15", "ff02::1:ff00:2", 135, "fe80::2")), FILTER_PASS);
	ck_assert_int_eq(out(frame_neighbour(G6, NET_GATEWAY6, 136, G6)), FILTER_PASS);
	ck_assert_int_eq(out(frame_neighbour("fe80::15", "fe80::2", 136, G6)), FILTER_PASS);
	/* Others' names and places. */
	ck_assert_int_eq(out(frame_neighbour(G6, NET_GATEWAY6, 136, NET_RESOLVER6)), FILTER_DROP);
	ck_assert_int_eq(out(frame_neighbour("fe80::2", NET_GATEWAY6, 136, G6)), FILTER_DROP);
	ck_assert_int_eq(out(frame_neighbour("2001:db8::1", "ff02::2", 133, NULL)), FILTER_DROP);
	ck_assert_int_eq(out(frame_neighbour(G6, "2001:db8::1", 135, NET_GATEWAY6)), FILTER_DROP);
	ck_assert_int_eq(
		out(frame_neighbour(G6, "ff02::1:ff00:2", 135, "2001:db8::2")), FILTER_DROP);
	ck_assert_int_eq(out(frame_neighbour(G6, "ff02::1", 134, G6)), FILTER_DROP);
	struct built far = frame_neighbour(G6, "ff02::1:ff00:2", 135, NET_GATEWAY6);
	far.bytes[IP_AT + 7] = 254;
	ck_assert_int_eq(out(far), FILTER_DROP);
	struct built shorter = frame_neighbour(G6, "ff02::1:ff00:2", 135, NULL);
	ck_assert_int_eq(out(shorter), FILTER_DROP);
}
END_TEST

START_TEST(gateway_answers_echo_only)
{
	OPEN();
	ck_assert_int_eq(ping(NET_GATEWAY4), FILTER_PASS);
	ck_assert_int_eq(ping(NET_GATEWAY6), FILTER_PASS);
	ck_assert_int_eq(tcp(NET_GATEWAY4, 80), FILTER_REFUSE);
	ck_assert_int_eq(tcp(NET_GATEWAY6, 80), FILTER_REFUSE);
	ck_assert_int_eq(tcp(NET_GATEWAY4, 53), FILTER_REFUSE);
	ck_assert_int_eq(udp(NET_GATEWAY4, 53), FILTER_REFUSE);
	ck_assert_int_eq(udp(NET_GATEWAY4, 67), FILTER_DROP);
	ck_assert_int_eq(udp(NET_GATEWAY4, 69), FILTER_DROP);
	ck_assert_int_eq(out(frame_icmp(G4, NET_GATEWAY4, 13, 0, 12)), FILTER_DROP);
	ck_assert_int_eq(out(frame_udp("0.0.0.0", 68, "255.255.255.255", 67, 240)), FILTER_DROP);
}
END_TEST

START_TEST(resolver_answers_names_only)
{
	static const char *const resolvers[] = {NET_RESOLVER4, NET_RESOLVER6};

	ALLOW("example.org");
	for (size_t i = 0; i < 2; i++) {
		ck_assert_int_eq(udp(resolvers[i], 53), FILTER_NAMES);
		ck_assert_uint_eq(part.len, 4);
		ck_assert_uint_eq(part.port, 40000);
		ck_assert_int_eq(part.ipv6, i);
		ck_assert_int_eq(tcp(resolvers[i], 53), FILTER_PASS);
		ck_assert_int_eq(tcp(resolvers[i], 853), FILTER_REFUSE);
		ck_assert_int_eq(tcp(resolvers[i], 443), FILTER_REFUSE);
		ck_assert_int_eq(udp(resolvers[i], 123), FILTER_REFUSE);
		ck_assert_int_eq(ping(resolvers[i]), FILTER_REFUSE);
	}
}
END_TEST

/* Frames that are broken, or somebody else's. */

START_TEST(only_the_guests_own_source)
{
	OPEN();
	ck_assert_int_eq(out(frame_tcp("10.0.2.16", 1, "8.8.8.8", 80, SYN)), FILTER_DROP);
	ck_assert_int_eq(out(frame_tcp("127.0.0.1", 1, "8.8.8.8", 80, SYN)), FILTER_DROP);
	ck_assert_int_eq(out(frame_udp("192.168.1.1", 1, NET_RESOLVER4, 53, 4)), FILTER_DROP);
	ck_assert_int_eq(out(frame_tcp("fe80::15", 1, "2001:db8::1", 80, SYN)), FILTER_DROP);
	ck_assert_int_eq(
		out(frame_tcp("fd68:6f6c:7400::16", 1, "2001:db8::1", 80, SYN)), FILTER_DROP);
	ck_assert_int_eq(out(frame_icmp("10.0.2.16", NET_GATEWAY4, 8, 0, 8)), FILTER_DROP);
}
END_TEST

START_TEST(every_shorter_frame_is_dropped)
{
	const struct built whole[] = {frame_tcp(G4, 1, "8.8.8.8", 80, SYN),
		frame_udp(G4, 1, "8.8.8.8", 80, 4), frame_tcp(G6, 1, "2001:db8::1", 80, SYN),
		frame_udp(G6, 1, NET_RESOLVER6, 53, 4), frame_icmp(G4, "8.8.8.8", 8, 0, 0),
		frame_arp(1, G4, NET_GATEWAY4),
		frame_neighbour(G6, "ff02::1:ff00:2", 135, NET_GATEWAY6)};

	OPEN();
	for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
		struct built b = whole[i];

		ck_assert_int_ne(out(b), FILTER_DROP);
		b.len += 20; /* padding */
		ck_assert_int_ne(out(b), FILTER_DROP);
		for (b.len = whole[i].len - 1; b.len > 0; b.len--)
			ck_assert_msg(out(b) == FILTER_DROP, "%zu: %zu", i, b.len);
	}
}
END_TEST

/* One byte of a good frame changed. */
static enum filter_verdict with(struct built b, size_t at, uint8_t value)
{
	b.bytes[at] = value;
	return out(b);
}

START_TEST(lying_headers_are_dropped)
{
	const struct built t = frame_tcp(G4, 1, "8.8.8.8", 80, SYN);
	const struct built u = frame_udp(G4, 1, "8.8.8.8", 80, 8);
	const struct built t6 = frame_tcp(G6, 1, "2001:db8::1", 80, SYN);

	OPEN();
	ck_assert_int_eq(with(t, 6, 3), FILTER_DROP); /* a group as the sender */
	ck_assert_int_eq(with(t, 13, 1), FILTER_DROP); /* another protocol */
	ck_assert_int_eq(with(t, IP_AT, 0x46), FILTER_DROP); /* options */
	ck_assert_int_eq(with(t, IP_AT, 0x44), FILTER_DROP);
	ck_assert_int_eq(with(t, IP_AT, 0x65), FILTER_DROP);
	ck_assert_int_eq(with(t, IP_AT + 3, 39), FILTER_DROP); /* shorter than TCP */
	ck_assert_int_eq(with(t, IP_AT + 3, 41), FILTER_DROP); /* longer than the frame */
	ck_assert_int_eq(with(t, IP_AT + 9, 41), FILTER_DROP); /* IPv6 inside */
	ck_assert_int_eq(with(t, IP_AT + 9, 47), FILTER_DROP);
	ck_assert_int_eq(with(t, IP_AT + 9, 58), FILTER_DROP);
	ck_assert_int_eq(with(t, t.inner + 12, 4 << 4), FILTER_DROP);
	ck_assert_int_eq(with(t, t.inner + 12, 6 << 4), FILTER_DROP);
	ck_assert_int_eq(with(t, t.inner + 13, 3), FILTER_DROP); /* SYN and FIN */
	ck_assert_int_eq(with(t, t.inner + 13, 6), FILTER_DROP); /* SYN and RST */
	ck_assert_int_eq(with(t, t.inner + 3, 0), FILTER_DROP); /* port 0 */
	ck_assert_int_eq(with(u, u.inner + 5, 7), FILTER_DROP);
	ck_assert_int_eq(with(u, u.inner + 5, 17), FILTER_DROP);
	ck_assert_int_eq(with(u, u.inner + 1, 0), FILTER_DROP);
	ck_assert_int_eq(with(t6, IP_AT + 6, 0), FILTER_DROP); /* hop-by-hop */
	ck_assert_int_eq(with(t6, IP_AT + 6, 43), FILTER_DROP); /* routing */
	ck_assert_int_eq(with(t6, IP_AT + 6, 44), FILTER_DROP); /* fragment */
	ck_assert_int_eq(with(t6, IP_AT + 6, 60), FILTER_DROP); /* destination options */
	ck_assert_int_eq(with(t6, IP_AT + 6, 59), FILTER_DROP);
	ck_assert_int_eq(with(t6, IP_AT + 6, 4), FILTER_DROP); /* IPv4 inside */
	ck_assert_int_eq(with(t6, IP_AT + 6, 1), FILTER_DROP);
	ck_assert_int_eq(with(t6, IP_AT + 5, 21), FILTER_DROP);
	ck_assert_int_eq(with(t6, IP_AT, 0x40), FILTER_DROP);
	ck_assert_uint_eq(told.n, 0);
}
END_TEST

static struct built fragment(struct built b, unsigned offset_bytes, bool more)
{
	frames_put16(b.bytes + IP_AT + 6, offset_bytes / 8 | (more ? 0x2000 : 0));
	return b;
}

START_TEST(fragments)
{
	const struct built u = frame_udp(G4, 1, "8.8.8.8", 80, 64);

	OPEN();
	ck_assert_int_eq(out(fragment(u, 0, true)), FILTER_PASS);
	ck_assert_int_eq(out(fragment(u, 64, false)), FILTER_PASS);
	ck_assert_int_eq(out(fragment(frame_icmp(G4, "8.8.8.8", 8, 0, 64), 0, true)), FILTER_PASS);
	ck_assert_int_eq(out(fragment(frame_tcp(G4, 1, "8.8.8.8", 80, SYN), 0, true)), FILTER_DROP);
	ck_assert_int_eq(
		out(fragment(frame_tcp(G4, 1, "8.8.8.8", 80, SYN), 8, false)), FILTER_DROP);
	ck_assert_int_eq(
		out(fragment(u, 65528, false)), FILTER_DROP); /* past the end of a packet */
	ck_assert_int_eq(out(fragment(frame_udp(G4, 1, "8.8.8.8", 80, 63), 0, true)), FILTER_DROP);
	ck_assert_int_eq(
		out(fragment(frame_udp(G4, 1, NET_RESOLVER4, 53, 64), 0, true)), FILTER_DROP);
	ck_assert_int_eq(
		out(fragment(frame_udp(G4, 1, NET_RESOLVER4, 53, 64), 64, false)), FILTER_DROP);
	ck_assert_int_eq(
		out(fragment(frame_icmp(G4, NET_GATEWAY4, 8, 0, 64), 0, true)), FILTER_DROP);
	ck_assert_int_eq(
		out(fragment(frame_udp(G4, 1, "127.0.0.1", 80, 64), 64, false)), FILTER_REFUSE);
	struct built evil = u;
	frames_put16(evil.bytes + IP_AT + 6, 0x8000);
	ck_assert_int_eq(out(evil), FILTER_DROP);
}
END_TEST

/* The first one must hold the ports, and later ones have none: all must be allowed. */
START_TEST(fragments_need_all_ports)
{
	ALLOW("8.8.8.8:80", "9.9.9.9");
	ck_assert_int_eq(udp("8.8.8.8", 80), FILTER_PASS);
	ck_assert_int_eq(
		out(fragment(frame_udp(G4, 40000, "8.8.8.8", 80, 64), 0, true)), FILTER_REFUSE);
	ck_assert_int_eq(
		out(fragment(frame_udp(G4, 40000, "8.8.8.8", 80, 64), 64, false)), FILTER_REFUSE);
	ck_assert_int_eq(
		out(fragment(frame_udp(G4, 40000, "9.9.9.9", 80, 64), 0, true)), FILTER_PASS);
	ck_assert_int_eq(
		out(fragment(frame_udp(G4, 40000, "9.9.9.9", 80, 64), 64, false)), FILTER_PASS);
	struct built small = frame_ip(17, G4, "9.9.9.9", 4);
	ck_assert_int_eq(out(fragment(small, 0, true)), FILTER_DROP);
}
END_TEST

int main(void)
{
	Suite *const suite = suite_create("frame");
	TCase *const tc = tcase_create("frame");

	tcase_add_checked_fixture(tc, NULL, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, arp_inside);
	tcase_add_test(tc, neighbours_inside);
	tcase_add_test(tc, gateway_answers_echo_only);
	tcase_add_test(tc, resolver_answers_names_only);
	tcase_add_test(tc, only_the_guests_own_source);
	tcase_add_test(tc, every_shorter_frame_is_dropped);
	tcase_add_test(tc, lying_headers_are_dropped);
	tcase_add_test(tc, fragments);
	tcase_add_test(tc, fragments_need_all_ports);
	suite_add_tcase(suite, tc);
	return run(suite);
}
