/* SPDX-License-Identifier: Apache-2.0 */
/* K38, K41: what is read of names in messages, and what an answer keeps. */
#include <stdbool.h>

#include "names_fixture.h"

static struct message m;
static struct names_question q;
static unsigned learnt, checked;

/* Not 10.x.x.x, not fd..:: */
static bool good(const struct net_addr *a)
{
	return net_addr_is4(a) ? a->bytes[12] != 10 : a->bytes[0] != 0xfd;
}

static bool learn(const struct net_addr *a, uint32_t ttl_s, void *user)
{
	ck_assert_ptr_eq(user, &m);
	ck_assert_uint_eq(ttl_s, 60);
	learnt++;
	return good(a);
}

static bool check(const struct net_addr *a, void *user)
{
	ck_assert_ptr_eq(user, &m);
	checked++;
	return good(a);
}

static void ask(const char *name, unsigned type)
{
	message_begin(&m, 7, name, type);
	ck_assert(names_parse_question(m.bytes, m.len, &q));
	message_turn(&m, 0);
	learnt = checked = 0;
}

static void filter(void)
{
	/* Just as long, so that a sanitizer sees its end; and room for what the header asks for. */
	uint8_t *const room = malloc(NAMES_ANSWER_MAX);

	memcpy(room, m.bytes, m.len);
	m.len = names_filter(room, m.len, &q, learn, check, &m);
	memcpy(m.bytes, room, m.len);
	free(room);
}

static void has(ns_sect section, int records, const char *want)
{
	char text[256];

	ck_assert_int_eq(message_texts(m.bytes, m.len, section, text, sizeof text), records);
	ck_assert_str_eq(text, want);
}

START_TEST(a_question_is_one_and_nothing_else)
{
	message_begin(&m, 0x1234, "Ab.Example.", ns_t_aaaa);
	ck_assert(names_parse_question(m.bytes, m.len, &q));
	ck_assert_str_eq(q.name, "Ab.Example");
	ck_assert_uint_eq(q.id, 0x1234);
	ck_assert_uint_eq(q.type, NAMES_AAAA);
	ck_assert_uint_eq(q.end, m.len);
	ck_assert_uint_eq(q.udp_max, NAMES_UDP_MAX);
	for (size_t len = 0; len < m.len; len++)
		ck_assert(!names_parse_question(m.bytes, len, &q));
	ck_assert(!names_parse_question(m.bytes, m.len + 1, &q));
	/* An answer, another kind of question, a piece of one. */
	for (unsigned flags = 0x8000; flags >= 0x0200; flags >>= 1) {
		const bool bad = flags & (0x8000 | 0x7800 | 0x0200);

		put16(m.bytes + 2, (uint16_t)flags);
		ck_assert_int_eq(!names_parse_question(m.bytes, m.len, &q), bad);
	}
	message_begin(&m, 1, "two.example", ns_t_a);
	put16(m.bytes + 4, 2);
	ck_assert(!names_parse_question(m.bytes, m.len, &q));
	message_begin(&m, 1, "answer.example", ns_t_a);
	message_address(&m, ANSWER, "answer.example", "192.0.2.1");
	ck_assert(!names_parse_question(m.bytes, m.len, &q));
}
END_TEST

START_TEST(a_name_is_written_out)
{
	/* A name that ends in a pointer, and one that points to itself. */
	static const uint8_t pointers[][2] = {{0xc0, 12}, {0xc0, 0}, {0xff, 0xff}, {0x40, 1}};

	for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++) {
		message_begin(&m, 1, "a.example", ns_t_a);
		memcpy(m.bytes + NAMES_HEADER + 2, pointers[i], 2);
		m.len = NAMES_HEADER + 4;
		put16(m.bytes + m.len, ns_t_a);
		put16(m.bytes + m.len + 2, ns_c_in);
		m.len += 4;
		ck_assert(!names_parse_question(m.bytes, m.len, &q));
	}
	/* A dot inside of a label is no end of one. */
	message_begin(&m, 1, "a\\.good.example", ns_t_a);
	ck_assert(names_parse_question(m.bytes, m.len, &q));
	ck_assert_str_eq(q.name, "a\\.good.example");
}
END_TEST

START_TEST(how_large_an_answer_may_be)
{
	static const unsigned sizes[][2] = {{100, 512}, {1232, 1232}, {65535, 65535}, {0, 512}};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		message_begin(&m, 1, "a.example", ns_t_a);
		message_add(&m, ADDITIONAL, ".", ns_t_opt, sizes[i][0], "", 0);
		ck_assert(names_parse_question(m.bytes, m.len, &q));
		ck_assert_uint_eq(q.udp_max, sizes[i][1]);
	}
}
END_TEST

START_TEST(an_answer_has_the_id_and_the_question)
{
	struct names_question other = {0};

	ask("A.example", ns_t_a);
	ck_assert(names_is_answer(m.bytes, m.len, &q, 7));
	ck_assert(!names_is_answer(m.bytes, m.len, &q, 8));
	ck_assert(!names_is_answer(m.bytes, m.len - 1, &q, 7));
	ck_assert(!names_is_answer(m.bytes, 4, &q, 7));
	other = q;
	other.type = NAMES_AAAA;
	ck_assert(!names_is_answer(m.bytes, m.len, &other, 7));
	other = q;
	other.class = ns_c_chaos;
	ck_assert(!names_is_answer(m.bytes, m.len, &other, 7));
	other = q;
	other.name[0] = 'b';
	ck_assert(!names_is_answer(m.bytes, m.len, &other, 7));
	other.name[0] = 'a';
	ck_assert(names_is_answer(m.bytes, m.len, &other, 7));
	put16(m.bytes + 2, 0x0100);
	ck_assert(!names_is_answer(m.bytes, m.len, &q, 7));
	put16(m.bytes + 2, 0xa800);
	ck_assert(!names_is_answer(m.bytes, m.len, &q, 7));
	/* Without a question it may be for any. */
	message_turn(&m, 0);
	put16(m.bytes + 4, 0);
	ck_assert(!names_is_answer(m.bytes, NAMES_HEADER, &q, 7));
}
END_TEST

START_TEST(k38_rebinding_in_the_answer)
{
	ask("a.example", ns_t_a);
	message_address(&m, ANSWER, "a.example", "192.0.2.1");
	filter();
	has(ns_s_an, 1, "192.0.2.1");
	message_address(&m, ANSWER, "a.example", "10.0.0.1");
	message_add(&m, ANSWER, "a.example", ns_t_txt, ns_c_in, "\1x", 2);
	message_address(&m, ANSWER, "a.example", "fd00::1");
	message_address(&m, ANSWER, "a.example", "2001:db8::1");
	learnt = 0;
	filter();
	ck_assert_uint_eq(learnt, 4);
	has(ns_s_an, 2, "192.0.2.1 2001:db8::1");
}
END_TEST

START_TEST(k38_rebinding_in_a_record_of_another_class_or_length)
{
	/* Some guests look at nothing but the type. */
	ask("a.example", ns_t_a);
	message_add(&m, ANSWER, "a.example", ns_t_a, ns_c_chaos, "\x0a\0\0\1", 4);
	message_add(&m, ANSWER, "a.example", ns_t_a, ns_c_any, "\x0a\0\0\1", 4);
	message_add(&m, ANSWER, "a.example", ns_t_a, ns_c_in, "\x0a\0\0\1\0", 5);
	message_add(&m, ANSWER, "a.example", ns_t_a, ns_c_in, "", 0);
	message_add(&m, ANSWER, "a.example", ns_t_aaaa, ns_c_in, "\x0a\0\0\1", 4);
	message_address(&m, ANSWER, "a.example", "192.0.2.1");
	filter();
	ck_assert_uint_eq(learnt, 1);
	has(ns_s_an, 1, "192.0.2.1");
}
END_TEST

START_TEST(k38_rebinding_besides_the_answer)
{
	for (enum section s = AUTHORITY; s <= ADDITIONAL; s += 2) {
		ask("a.example", ns_t_mx);
		message_add(&m, ANSWER, "a.example", ns_t_mx, ns_c_in, "\0\1\1m\0", 5);
		const size_t end = m.len;
		message_address(&m, s, "m", "192.0.2.1");
		const size_t all = m.len;
		filter();
		ck_assert_uint_eq(m.len, all);
		ck_assert_uint_eq(learnt, 0);
		ck_assert_uint_eq(checked, 1);
		message_address(&m, s, "m", "10.0.0.1");
		filter();
		ck_assert_uint_eq(m.len, end);
		has(ns_s_an, 1, "");
		has(ns_s_ns, 0, "");
		has(ns_s_ar, 0, "");
	}
}
END_TEST

START_TEST(k38_rebinding_in_hints_of_services)
{
	static const struct {
		const char *data;
		size_t len;
		bool good;
	} all[] = {
		{"\0\1\0", 3, true},
		{"\0\1\0\0\1\0\3\2h2", 10, true},
		{"\0\1\0\0\4\0\4\xc0\0\2\1", 11, true},
		{"\0\1\0\0\4\0\4\x0a\0\2\1", 11, false},
		{"\0\1\0\0\4\0\x08\xc0\0\2\1\x0a\0\0\1", 15, false},
		{"\0\1\0\0\6\0\x10\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 23, false},
		{"\0\1\1x\0\0\6\0\x10\x20\1\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 25, true},
		/* Broken ones. */
		{"\0\1\0\0\4\0\3\xc0\0\2", 10, false},
		{"\0\1\0\0\4\0\5\xc0\0\2\1", 11, false},
		{"\0\1\0\0\4", 5, false},
		{"\0\1\xc0\x0c", 4, true},
		{"\0\1\5x", 4, false},
		{"\0\1", 2, false},
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		for (unsigned type = NAMES_SVCB; type <= NAMES_HTTPS; type++) {
			ask("a.example", type);
			message_add(
				&m, ANSWER, "a.example", type, ns_c_in, all[i].data, all[i].len);
			filter();
			ck_assert_uint_eq(learnt, 0);
			ck_assert_msg(get16(m.bytes + ANSWER) == all[i].good, "%zu", i);
		}
	}
}
END_TEST

START_TEST(aliases_stay)
{
	ask("a.example", ns_t_a);
	message_add(&m, ANSWER, "a.example", ns_t_cname, ns_c_in, "\1b\7example\0", 11);
	message_address(&m, ANSWER, "b.example", "10.0.0.1");
	filter();
	has(ns_s_an, 1, "");
	/* One that leads nowhere ends all of it. */
	ask("a.example", ns_t_a);
	message_add(&m, ANSWER, "a.example", ns_t_cname, ns_c_in, "\xff\xff", 2);
	message_address(&m, ANSWER, "b.example", "10.0.0.1");
	filter();
	ck_assert_uint_eq(m.len, 0);
}
END_TEST

START_TEST(too_many_records_are_none)
{
	ask("a", ns_t_a);
	for (unsigned i = 0; i < NAMES_RECORDS_MAX; i++)
		message_address(&m, i % 2 ? ANSWER : ADDITIONAL, "a", "192.0.2.1");
	filter();
	ck_assert_uint_gt(m.len, 0);
	message_address(&m, ADDITIONAL, "a", "192.0.2.1");
	filter();
	ck_assert_uint_eq(m.len, 0);
}
END_TEST

START_TEST(every_beginning_of_an_answer)
{
	ask("a.example", ns_t_a);
	message_add(&m, ANSWER, "a.example", ns_t_cname, ns_c_in, "\1b\7example\0", 11);
	message_address(&m, ANSWER, "b.example", "10.0.0.1");
	message_add(&m, ADDITIONAL, "a.example", ns_t_aaaa, ns_c_in, "\0\1", 2);
	const size_t all = m.len;
	for (size_t len = q.end; len < all; len++) {
		uint8_t *const part = malloc(len);

		memcpy(part, m.bytes, len);
		ck_assert(!names_is_answer(part, len, &q, 7));
		ck_assert_uint_eq(names_filter(part, len, &q, learn, check, &m), 0);
		free(part);
	}
}
END_TEST

START_TEST(made_and_cut)
{
	uint8_t made[NAMES_QUESTION_MAX + 64];
	struct net_addr a[2];

	ask("a.example", ns_t_a);
	ck_assert(net_addr_parse("192.0.2.1", &a[0]) && net_addr_parse("192.0.2.2", &a[1]));
	m.len = names_make(m.bytes, &q, NAMES_OK, a, 2, 60, made);
	memcpy(m.bytes, made, m.len);
	has(ns_s_an, 2, "192.0.2.1 192.0.2.2");
	ck_assert(names_is_answer(m.bytes, m.len, &q, 7));
	ck_assert_uint_eq(names_cut(m.bytes, m.len, &q, m.len), m.len);
	ck_assert(!names_is_cut(m.bytes));
	m.len = names_cut(m.bytes, m.len, &q, m.len - 1);
	ck_assert_uint_eq(m.len, q.end);
	ck_assert(names_is_cut(m.bytes));
	has(ns_s_an, 0, "");
	m.len = names_make(m.bytes, &q, NAMES_NXDOMAIN, NULL, 0, 0, made);
	ck_assert_int_eq(names_code(made), NAMES_NXDOMAIN);
}
END_TEST

int main(void)
{
	Suite *const suite = suite_create("names_message");
	TCase *const tc = tcase_create("names_message");

	tcase_add_test(tc, a_question_is_one_and_nothing_else);
	tcase_add_test(tc, a_name_is_written_out);
	tcase_add_test(tc, how_large_an_answer_may_be);
	tcase_add_test(tc, an_answer_has_the_id_and_the_question);
	tcase_add_test(tc, k38_rebinding_in_the_answer);
	tcase_add_test(tc, k38_rebinding_in_a_record_of_another_class_or_length);
	tcase_add_test(tc, k38_rebinding_besides_the_answer);
	tcase_add_test(tc, k38_rebinding_in_hints_of_services);
	tcase_add_test(tc, aliases_stay);
	tcase_add_test(tc, too_many_records_are_none);
	tcase_add_test(tc, every_beginning_of_an_answer);
	tcase_add_test(tc, made_and_cut);
	suite_add_tcase(suite, tc);
	SRunner *const runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	const int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
