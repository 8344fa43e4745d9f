/* SPDX-License-Identifier: Apache-2.0 */
/* What a guest is told of a frame that was refused. */
#include <check.h>
#include <stdlib.h>

#include "frames.h"
#include "net/inet_sum.h"
#include "net/reject.h"

#define G4   "10.0.2.15"
#define G6   "fd68:6f6c:7400::15"
#define AT4  (IP_AT + 20)
#define AT6  (IP_AT + 40)
#define RST  4
#define SYN  2
#define ACK  16
#define FAR4 "192.0.2.9"
#define FAR6 "2001:db8::9"

static struct reject_rate rate;
static uint8_t answer[REJECT_MAX];
static uint64_t now;

static void setup(void)
{
	rate = (struct reject_rate){0};
	now = 1000000;
}

static size_t reject(const struct built *b)
{
	/* Just as long, so that a sanitizer sees its end. */
	uint8_t *const exact = malloc(b->len ? b->len : 1);

	memcpy(exact, b->bytes, b->len);
	const size_t n = reject_frame(&rate, exact, b->len, now, answer);
	free(exact);
	return n;
}

/* From the address that was meant to the guest, with sums that are right. */
static void check_ip(size_t n, bool six, uint8_t proto)
{
	const uint8_t *const ip = answer + IP_AT;
	const size_t head = six ? 40 : 20;
	uint8_t from[16], to[16];

	ck_assert_uint_gt(n, IP_AT + head);
	ck_assert_int_eq(inet_pton(six ? AF_INET6 : AF_INET, six ? FAR6 : FAR4, from), 1);
	ck_assert_int_eq(inet_pton(six ? AF_INET6 : AF_INET, six ? G6 : G4, to), 1);
	ck_assert_mem_eq(ip + (six ? 8 : 12), from, six ? 16 : 4);
	ck_assert_mem_eq(ip + (six ? 24 : 16), to, six ? 16 : 4);
	ck_assert_uint_eq(ip[six ? 6 : 9], proto);
	ck_assert_uint_eq(six ? 40u + get16(ip + 4) : get16(ip + 2), n - IP_AT);
	if (!six)
		ck_assert_uint_eq(inet_sum_close(inet_sum_add(0, ip, 20)), 0);
	if (six || proto == 6)
		ck_assert_uint_eq(inet_sum_transport(from, to, six ? 16 : 4, proto, ip + head,
					  n - IP_AT - head),
			0);
	else
		ck_assert_uint_eq(inet_sum_close(inet_sum_add(0, ip + head, n - IP_AT - head)), 0);
}

START_TEST(a_reset_fits_the_segment)
{
	for (unsigned six = 0; six < 2; six++) {
		const size_t at = six ? AT6 : AT4;
		struct built b = frame_tcp(six ? G6 : G4, 4000, six ? FAR6 : FAR4, 80, SYN);

		put32(b.bytes + at + 4, 0xffffffff);
		put32(b.bytes + at + 8, 77);
		check_ip(reject(&b), six, 6);
		ck_assert_uint_eq(get16(answer + at), 80);
		ck_assert_uint_eq(get16(answer + at + 2), 4000);
		ck_assert_uint_eq(answer[at + 13], RST | ACK);
		ck_assert_uint_eq(get32(answer + at + 8), 0);
		b.bytes[at + 13] = ACK;
		check_ip(reject(&b), six, 6);
		ck_assert_uint_eq(answer[at + 13], RST);
		ck_assert_uint_eq(get32(answer + at + 4), 77);
		b.bytes[at + 13] = RST;
		ck_assert_uint_eq(reject(&b), 0);
	}
}
END_TEST

START_TEST(others_are_told_that_it_is_prohibited)
{
	for (unsigned six = 0; six < 2; six++) {
		const size_t at = six ? AT6 : AT4;
		const struct built b = frame_udp(six ? G6 : G4, 4000, six ? FAR6 : FAR4, 80, 1400);
		const struct built ping = frame_icmp(
			six ? G6 : G4, six ? FAR6 : FAR4, six ? 128 : 8, 0, 8);

		const size_t n = reject(&b);
		check_ip(n, six, six ? 58 : 1);
		ck_assert_uint_le(n, REJECT_MAX);
		ck_assert_uint_eq(answer[at], six ? 1 : 3);
		ck_assert_uint_eq(answer[at + 1], six ? 1 : 13);
		ck_assert_mem_eq(answer + at + 8, b.bytes + IP_AT, n - at - 8);
		check_ip(reject(&ping), six, six ? 58 : 1);
	}
}
END_TEST

START_TEST(an_error_is_no_answer_to_an_error)
{
	const struct built four = frame_icmp(G4, FAR4, 3, 1, 28);
	const struct built reply = frame_icmp(G4, FAR4, 0, 0, 8);
	const struct built six = frame_icmp(G6, FAR6, 1, 0, 48);
	struct built part = frame_udp(G4, 4000, FAR4, 80, 64);

	ck_assert_uint_eq(reject(&four), 0);
	ck_assert_uint_eq(reject(&reply), 0);
	ck_assert_uint_eq(reject(&six), 0);
	/* A later fragment. */
	frames_put16(part.bytes + IP_AT + 6, 8);
	ck_assert_uint_eq(reject(&part), 0);
}
END_TEST

START_TEST(no_frame_is_read_beyond_its_end)
{
	const struct built all[] = {frame_tcp(G4, 1, FAR4, 2, SYN), frame_tcp(G6, 1, FAR6, 2, SYN),
		frame_udp(G4, 1, FAR4, 2, 9), frame_icmp(G6, FAR6, 128, 0, 9),
		frame_arp(1, G4, FAR4)};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		for (size_t len = 0; len < all[i].len; len++) {
			struct built b = all[i];

			b.len = len;
			now += 1000;
			ck_assert_uint_eq(reject(&b), 0);
			/* A packet that claims to end where the frame does. */
			if (len > IP_AT + 40 && b.bytes[12] == 0x08)
				frames_put16(b.bytes + IP_AT + 2, (unsigned)(len - IP_AT));
			else if (len > IP_AT + 40)
				frames_put16(b.bytes + IP_AT + 4, (unsigned)(len - IP_AT - 40));
			ck_assert_uint_le(reject(&b), REJECT_MAX);
		}
	}
	/* A TCP header that is longer than all of it. */
	struct built b = frame_tcp(G4, 1, FAR4, 2, SYN);
	b.bytes[AT4 + 12] = 15 << 4;
	ck_assert_uint_eq(reject(&b), 0);
}
END_TEST

START_TEST(a_flood_gets_few_answers)
{
	const struct built b = frame_udp(G4, 4000, FAR4, 80, 8);
	unsigned n = 0;

	for (unsigned i = 0; i < 100000; i++)
		n += reject(&b) > 0;
	ck_assert_uint_eq(n, REJECT_BURST);
	for (unsigned ms = 0; ms < 1000; ms++) {
		now++;
		for (unsigned i = 0; i < 10; i++)
			n += reject(&b) > 0;
	}
	ck_assert_uint_ge(n, REJECT_BURST + REJECT_PER_SECOND - 1);
	ck_assert_uint_le(n, REJECT_BURST + REJECT_PER_SECOND);
	/* However long it was quiet. */
	now += UINT32_MAX;
	n = 0;
	for (unsigned i = 0; i < 1000; i++)
		n += reject(&b) > 0;
	ck_assert_uint_eq(n, REJECT_BURST);
}
END_TEST

int main(void)
{
	Suite *const suite = suite_create("reject");
	TCase *const tc = tcase_create("reject");

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, a_reset_fits_the_segment);
	tcase_add_test(tc, others_are_told_that_it_is_prohibited);
	tcase_add_test(tc, an_error_is_no_answer_to_an_error);
	tcase_add_test(tc, no_frame_is_read_beyond_its_end);
	tcase_add_test(tc, a_flood_gets_few_answers);
	suite_add_tcase(suite, tc);
	SRunner *const runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	const int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
