/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper's stream table against hostile guests and careless clients (K47). */
#include "relay_fixture.h"

START_TEST(numbers_are_translated_both_ways)
{
	const uint32_t a = start(70, 100), b = start(71, 100);

	ck_assert_uint_ne(a, b);
	ck_assert_uint_ne(a, 0);
	ck_assert_int_eq(from_guest(started(b, 10)), 0);
	ck_assert_uint_eq(next(&client, WIRE_AS_CLIENT, WIRE_CONTROL).stream, 71);
	ck_assert_int_eq(from_guest(data(a, WIRE_STDOUT, 3)), 0);
	ck_assert_uint_eq(next(&client, WIRE_AS_CLIENT, WIRE_BULK).stream, 70);
	ck_assert_int_eq(from_client(data(71, WIRE_STDIN, 10)), 0);
	ck_assert_uint_eq(next(&guest, WIRE_AS_GUEST, WIRE_BULK).stream, b);
	ck_assert_int_eq(from_guest(plain(WIRE_OP_exit, a)), 0);
	ck_assert_uint_eq(next(&client, WIRE_AS_CLIENT, WIRE_BULK).stream, 70);
	ck_assert_uint_eq(relay_streams(relay), 1);
}
END_TEST

START_TEST(guest_keeps_to_its_credit)
{
	const uint32_t a = start(1, 100);

	ck_assert_int_eq(from_guest(data(a, WIRE_STDOUT, 60)), 0);
	ck_assert_int_eq(from_guest(data(a, WIRE_STDERR, 100)), 0);
	ck_assert_int_eq(from_guest(data(a, WIRE_STDOUT, 41)), -EPROTO);
	ck_assert_ptr_nonnull(strstr(what, "credit"));
	ck_assert_int_eq(from_client(credit(1, WIRE_STDOUT, 1)), 0);
	ck_assert_int_eq(from_guest(data(a, WIRE_STDOUT, 41)), 0);
	ck_assert_int_eq(from_guest(data(a, WIRE_STDOUT, 1)), -EPROTO);
}
END_TEST

START_TEST(guest_cannot_invent)
{
	const uint32_t a = start(1, 100);

	ck_assert_int_eq(from_guest(data(a + 1, WIRE_STDOUT, 1)), -EPROTO);
	ck_assert_int_eq(from_guest(plain(WIRE_OP_exit, a + 1)), -EPROTO);
	ck_assert_int_eq(from_guest(plain(WIRE_OP_fail, 0)), -EPROTO);
	ck_assert_int_eq(from_guest(plain(WIRE_OP_eof, a + 1)), -EPROTO);
	ck_assert_int_eq(from_guest(plain(WIRE_OP_hello, a)), -EPROTO);
	ck_assert_int_eq(from_guest(plain(WIRE_OP_setup_done, a)), -EPROTO);
	ck_assert_int_eq(from_guest(data(a, WIRE_STDIN, 1)), -EPROTO);
	ck_assert_int_eq(from_guest(started(a, WIRE_CREDIT_MAX + 1)), -EPROTO);
	ck_assert_int_eq(from_guest(started(a, 5)), 0);
	ck_assert_int_eq(from_guest(started(a, 5)), -EPROTO);
	ck_assert_int_eq(from_guest(credit(a, WIRE_STDOUT, 5)), -EPROTO);
	ck_assert_int_eq(from_guest(credit(a, WIRE_STDIN, WIRE_CREDIT_MAX)), -EPROTO);
	const struct wire_msg eof = {
		.op = WIRE_OP_eof, .stream = a, .eof = {.channel = WIRE_STDOUT}};
	ck_assert_int_eq(from_guest(eof), 0);
	ck_assert_int_eq(from_guest(eof), -EPROTO);
	ck_assert_int_eq(from_guest(data(a, WIRE_STDOUT, 1)), -EPROTO);
}
END_TEST

START_TEST(late_control_frames_of_the_dead_are_harmless)
{
	const uint32_t a = start(1, 100);

	ck_assert_int_eq(from_guest(plain(WIRE_OP_exit, a)), 0);
	ck_assert_int_eq(from_guest(started(a, 5)), 0);
	ck_assert_int_eq(from_guest(credit(a, WIRE_STDIN, 5)), 0);
	ck_assert_int_eq(from_guest(data(a, WIRE_STDOUT, 1)), -EPROTO);
	/* And so are a client's frames that crossed the exit. */
	ck_assert_int_eq(from_client(data(1, WIRE_STDIN, 1)), 0);
	ck_assert_int_eq(from_client(plain(WIRE_OP_signal, 1)), 0);
	nothing(&guest);
}
END_TEST

START_TEST(client_keeps_the_rules_too)
{
	start(1, 100);
	ck_assert_int_eq(
		from_client((struct wire_msg){.op = WIRE_OP_exec, .stream = 1, .exec = {0}}),
		-EPROTO);
	ck_assert_int_eq(
		from_client((struct wire_msg){.op = WIRE_OP_exec, .stream = 0, .exec = {0}}),
		-EPROTO);
	ck_assert_int_eq(from_client((struct wire_msg){.op = WIRE_OP_exec,
				 .stream = 2,
				 .exec = {.out_credit = WIRE_CREDIT_MAX + 1}}),
		-EPROTO);
	ck_assert_int_eq(from_client(data(1, WIRE_STDIN, 1)), -EPROTO);
	ck_assert_int_eq(from_client(credit(1, WIRE_STDIN, 1)), -EPROTO);
	ck_assert_int_eq(from_client(credit(1, WIRE_STDOUT, WIRE_CREDIT_MAX)), -EPROTO);
	ck_assert_int_eq(from_client(plain(WIRE_OP_setup, 1)), -EPROTO);
}
END_TEST

/* The client goes (0), or only leaves the stream and stays (1). */
START_TEST(leaving_kills_and_drains)
{
	const uint32_t a = start(1, 10);

	ck_assert_int_eq(from_guest(started(a, 5)), 0);
	(void)next(&client, WIRE_AS_CLIENT, WIRE_CONTROL);
	if (_i == 0) {
		relay_client_remove(relay, rc);
		rc = NULL;
	} else {
		ck_assert_int_eq(from_client(plain(WIRE_OP_leave, 1)), 0);
		ck_assert_int_eq(next(&client, WIRE_AS_CLIENT, WIRE_CONTROL).op, WIRE_OP_done);
		/* Twice is fine, and what was under way concerns nobody. */
		ck_assert_int_eq(from_client(plain(WIRE_OP_leave, 1)), 0);
		ck_assert_int_eq(next(&client, WIRE_AS_CLIENT, WIRE_CONTROL).op, WIRE_OP_done);
	}
	struct wire_msg msg = next(&guest, WIRE_AS_GUEST, WIRE_CONTROL);
	ck_assert_int_eq(msg.op, WIRE_OP_signal);
	ck_assert_uint_eq(msg.signal.signo, SIGKILL);
	ck_assert_uint_eq(msg.signal.flags, WIRE_SIGNAL_ALL);
	for (int i = WIRE_STDOUT; i <= WIRE_STDERR; i++) {
		msg = next(&guest, WIRE_AS_GUEST, WIRE_CONTROL);
		ck_assert_int_eq(msg.op, WIRE_OP_credit);
		ck_assert_uint_eq(msg.credit.bytes, WIRE_DATA_MAX);
	}
	/* What it still sends is taken, thrown away and replaced by fresh credit. */
	for (int i = 0; i < 100; i++) {
		ck_assert_int_eq(from_guest(data(a, WIRE_STDOUT, WIRE_DATA_MAX)), 0);
		ck_assert_int_eq(next(&guest, WIRE_AS_GUEST, WIRE_CONTROL).op, WIRE_OP_credit);
	}
	ck_assert_int_eq(from_guest(plain(WIRE_OP_exit, a)), 0);
	ck_assert_uint_eq(relay_streams(relay), 0);
	nothing(&client);
}
END_TEST

START_TEST(streams_have_a_limit)
{
	for (uint32_t i = 1; i <= WIRE_STREAMS_MAX; i++)
		start(i, 1);
	ck_assert_int_eq(from_client((struct wire_msg){
				 .op = WIRE_OP_exec, .stream = 5000, .exec = {.argv = argv_true}}),
		0);
	const struct wire_msg msg = next(&client, WIRE_AS_CLIENT, WIRE_CONTROL);
	ck_assert_int_eq(msg.op, WIRE_OP_fail);
	ck_assert_uint_eq(msg.fail.class_, WIRE_FAIL_LIMIT);
	ck_assert_uint_eq(msg.stream, 5000);
	nothing(&guest);
}
END_TEST

START_TEST(no_memory_is_an_error_not_a_crash)
{
	for (unsigned long n = 1; n < 12; n++) {
		mem_fail_at(n);
		const int r = from_client((struct wire_msg){.op = WIRE_OP_exec,
			.stream = (uint32_t)(100 + n),
			.exec = {.argv = argv_true}});
		mem_fail_at(0);
		ck_assert(r == 0 || r == -ENOMEM);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {numbers_are_translated_both_ways, guest_keeps_to_its_credit,
		guest_cannot_invent, late_control_frames_of_the_dead_are_harmless,
		client_keeps_the_rules_too, streams_have_a_limit,
		no_memory_is_an_error_not_a_crash};
	Suite *s = suite_create("relay");
	TCase *c = tcase_create("relay");

	tcase_add_checked_fixture(c, setup, teardown);
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
		tcase_add_test(c, tests[i]);
	tcase_add_loop_test(c, leaving_kills_and_drains, 0, 2);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
