/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_client.h"

/*
 * What the agent takes for a network, by a real agent under the fake engine, which leaves the
 * host's own network alone. What it does with it is looked at on machines: tests/vm/network.bats.
 */

static struct wire_network whole(void)
{
	struct wire_network n = {.up = 1, .mtu = 1500};

	n.address = text("10.0.2.15/24");
	n.gateway = text("10.0.2.2");
	n.address6 = text("fd68:6f6c:7400::15/64");
	n.gateway6 = text("fd68:6f6c:7400::2");
	n.resolver = text("10.0.2.3");
	n.search = text("a.example b.example");
	return n;
}

/* The answer: "" for done, else the object of the failure. */
static const char *ask(struct wire_network n)
{
	static char object[64];
	struct wire_msg m;

	send_msg(&(struct wire_msg){.op = WIRE_OP_network, .stream = 5, .network = n});
	do
		ck_assert(recv_msg(&m, now_ms() + WAIT_MS));
	while (m.op == WIRE_OP_log || m.op == WIRE_OP_stage);
	ck_assert_uint_eq(m.stream, 5);
	if (m.op == WIRE_OP_done)
		return "";
	ck_assert_str_eq(wire_op_name(m.op), "fail");
	ck_assert_uint_eq(m.fail.class_, WIRE_FAIL_INVALID);
	ck_assert_int_eq(memcmp(m.fail.stage.data, "network", 7), 0);
	(void)snprintf(object, sizeof(object), "%.*s", (int)m.fail.object.len,
		(const char *)m.fail.object.data);
	return object;
}

START_TEST(takes_what_is_whole)
{
	struct wire_network n = whole();

	ck_assert_str_eq(ask(n), "");
	n.address6 = n.gateway6 = n.search = text("");
	ck_assert_str_eq(ask(n), "");
	n.up = WIRE_NETWORK_TEMPLATE;
	ck_assert_str_eq(ask(n), "");
	ck_assert_str_eq(ask((struct wire_network){0}), "");
	n.mtu = 65535;
	ck_assert_str_eq(ask(n), "");
}
END_TEST

START_TEST(refuses_what_is_not)
{
	static const char *const addresses[] = {"10.0.2.15", "10.0.2.15/33", "10.0.2.15/",
		"10.0.2.15/-1", "10.0.2.15/8x", "10.0.2/24", "fd00::1/64", "x/24"};
	struct wire_network n;

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		n = whole();
		n.address = text(addresses[i]);
		ck_assert_msg(*ask(n), "'%s' is taken for an address", addresses[i]);
	}
	n = whole();
	n.gateway = text("nobody");
	ck_assert_str_eq(ask(n), "nobody");
	n = whole();
	n.address6 = text("fd00::1/129");
	ck_assert(*ask(n));
	n = whole();
	n.mtu = 1279;
	ck_assert_str_eq(ask(n), "mtu");
	n.mtu = 65536;
	ck_assert_str_eq(ask(n), "mtu");
	n = whole();
	n.search = text("a\nnameserver 192.0.2.1");
	ck_assert_str_eq(ask(n), "search");
	n = whole();
	n.resolver = (struct wire_bytes){.data = (const uint8_t *)"1\0002", .len = 3};
	ck_assert_str_eq(ask(n), "resolver");
}
END_TEST

/* Behind park and before setup there is nobody to have it; what asks then is told. */
START_TEST(not_before_the_setup)
{
	struct wire_msg m;

	machine_open();
	hello(WIRE_VERSION, WIRE_OLDEST);
	send_msg(&(struct wire_msg){.op = WIRE_OP_network, .stream = 5, .network = whole()});
	expect(WIRE_OP_fail, &m);
	ck_assert_uint_eq(m.stream, 5);
	teardown();
}
END_TEST

/* By this a host knows that it may ask. */
START_TEST(says_that_it_can)
{
	struct wire_msg m;

	machine_open();
	expect(WIRE_OP_hello, &m);
	ck_assert(m.hello.features & WIRE_FEATURE_NETWORK);
	teardown();
}
END_TEST

int main(void)
{
	TCase *set_up = tcase_create("set up");
	TCase *fresh = tcase_create("fresh");
	Suite *s = suite_create("network");

	tcase_set_timeout(set_up, 60);
	tcase_set_timeout(fresh, 60);
	tcase_add_checked_fixture(set_up, setup, teardown);
	tcase_add_test(set_up, takes_what_is_whole);
	tcase_add_test(set_up, refuses_what_is_not);
	tcase_add_test(fresh, not_before_the_setup);
	tcase_add_test(fresh, says_that_it_can);
	suite_add_tcase(s, set_up);
	suite_add_tcase(s, fresh);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
