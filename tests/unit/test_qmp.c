/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's monitor: what is understood, in which order, and that nonsense of every kind ends it. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "vmm/qmp.h"

#define GREETING                                                                           \
	"{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 22, \"minor\": 2, \"major\": 7}, " \
	"\"package\": \"Debian 1:7.2\"}, \"capabilities\": [\"oob\"]}}\r\n"
#define RETURN(id) "{\"return\": {}, \"id\": " #id "}\r\n"
#define REFUSE(id, class, desc) \
	"{\"error\": {\"class\": \"" class "\", \"desc\": \"" desc "\"}, \"id\": " #id "}\r\n"
#define EVENT(name) \
	"{\"timestamp\": {\"seconds\": 1, \"microseconds\": 2}, \"event\": \"" name "\"}\r\n"
#define LONG_NAME    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define CAPABILITIES "{\"execute\":\"qmp_capabilities\",\"id\":1}\n"

/* Both ends of a conversation: what was written, and a line for everything that was heard. */
struct talk {
	struct qmp q;
	char out[8192];
	char heard[8192];
	int write_result;
	unsigned writes;
	int fd; /* of the last one */
	bool done_in_callback;
	bool command_in_callback;
};

static void hear(struct talk *t, const char *text)
{
	const size_t len = strlen(t->heard);

	(void)snprintf(t->heard + len, sizeof t->heard - len, "%s\n", text);
}

static int on_write(const void *data, size_t len, int fd, void *user)
{
	struct talk *t = user;
	const size_t have = strlen(t->out);

	t->writes++;
	t->fd = fd;
	if (t->write_result < 0)
		return t->write_result;
	ck_assert_uint_lt(have + len, sizeof t->out);
	memcpy(t->out + have, data, len);
	t->out[have + len] = '\0';
	return 0;
}

static void on_event(const char *name, const json_t *data, void *user)
{
	struct talk *t = user;
	auto_free char *text = data ? json_text(data) : str_dup("-");
	auto_free char *line = str_printf("event %s %s", name, text);

	hear(t, line);
	if (t->done_in_callback)
		qmp_done(&t->q);
}

static void on_reply(const json_t *data, const holt_error *error, void *user)
{
	struct talk *t = user;
	auto_free char *text = data ? json_text(data) : str_dup("-");
	auto_free char *line = str_printf(
		"reply %s%s", error ? "error: " : "", error ? holt_error_message(error) : text);

	ck_assert(!error || (*holt_error_stage(error) && *holt_error_object(error) &&
				    *holt_error_hint(error)));
	hear(t, line);
	if (t->command_in_callback) {
		t->command_in_callback = false;
		ck_assert_int_eq(qmp_command(&t->q, "next", NULL, on_reply, t, NULL), 0);
	}
	if (t->done_in_callback)
		qmp_done(&t->q);
}

static const struct qmp_ops ops = {.write = on_write, .on_event = on_event};

static void begin(struct talk *t)
{
	*t = (struct talk){.q = QMP_INIT};
	ck_assert_int_eq(qmp_init(&t->q, &ops, t, NULL), 0);
}

static int feed(struct talk *t, const char *text)
{
	return qmp_feed(&t->q, text, strlen(text), NULL);
}

static void command(struct talk *t, const char *name)
{
	ck_assert_int_eq(qmp_command(&t->q, name, NULL, on_reply, t, NULL), 0);
}

/* A fresh one that is past its greeting, with nothing under way. */
static void begin_ready(struct talk *t)
{
	begin(t);
	ck_assert_int_eq(feed(t, GREETING RETURN(1)), 0);
	t->out[0] = '\0';
}

START_TEST(a_conversation_split_at_every_byte)
{
	static const char server[] = GREETING RETURN(1)
		EVENT("STOP") "{\"return\": {\"running\": false}, \"id\": 2}\r\n" RETURN(3);
	const size_t len = sizeof server - 1;

	for (size_t split = 0; split <= len; split++) {
		struct talk t;

		begin(&t);
		command(&t, "stop");
		ck_assert_int_eq(qmp_command(&t.q, "cont", "{\"a\":1}", on_reply, &t, NULL), 0);
		ck_assert_str_eq(t.out, "");
		ck_assert_int_eq(qmp_feed(&t.q, server, split, NULL), 0);
		ck_assert_int_eq(qmp_feed(&t.q, server + split, len - split, NULL), 0);
		ck_assert_str_eq(t.out,
			CAPABILITIES "{\"execute\":\"stop\",\"id\":2}\n"
				     "{\"execute\":\"cont\",\"id\":3,\"arguments\":{\"a\":1}}\n");
		ck_assert_str_eq(t.heard, "event STOP -\nreply {\"running\":false}\nreply {}\n");
		qmp_done(&t.q);
	}
}
END_TEST

START_TEST(byte_by_byte)
{
	static const char server[] = GREETING RETURN(1) EVENT("RESUME");
	struct talk t;

	begin(&t);
	for (size_t i = 0; i < sizeof server - 1; i++)
		ck_assert_int_eq(qmp_feed(&t.q, server + i, 1, NULL), 0);
	ck_assert_str_eq(t.out, CAPABILITIES);
	ck_assert_str_eq(t.heard, "event RESUME -\n");
	qmp_done(&t.q);
}
END_TEST

START_TEST(one_command_at_a_time)
{
	struct talk t;

	begin_ready(&t);
	command(&t, "stop");
	command(&t, "cont");
	ck_assert_str_eq(t.out, "{\"execute\":\"stop\",\"id\":2}\n");
	ck_assert_int_eq(feed(&t, EVENT("STOP")), 0);
	ck_assert_str_eq(t.out, "{\"execute\":\"stop\",\"id\":2}\n");
	ck_assert_int_eq(feed(&t, RETURN(2)), 0);
	ck_assert_str_eq(t.out, "{\"execute\":\"stop\",\"id\":2}\n"
				"{\"execute\":\"cont\",\"id\":3}\n");
	qmp_done(&t.q);
	ck_assert_str_eq(t.heard, "event STOP -\nreply {}\n"
				  "reply error: the connection to QEMU's monitor ended\n");
}
END_TEST

START_TEST(a_descriptor_goes_with_its_own_command)
{
	struct talk t;

	begin_ready(&t);
	ck_assert_int_lt(t.fd, 0);
	command(&t, "stop");
	ck_assert_int_eq(qmp_command_fd(&t.q, "getfd", "{}", 77, on_reply, &t, NULL), 0);
	command(&t, "cont");
	ck_assert_int_lt(t.fd, 0);
	ck_assert_int_eq(feed(&t, RETURN(2)), 0);
	ck_assert_int_eq(t.fd, 77);
	ck_assert_int_eq(feed(&t, REFUSE(3, "GenericError", "no")), 0);
	ck_assert_int_lt(t.fd, 0);
	qmp_done(&t.q);
}
END_TEST

START_TEST(answers_out_of_order_end_it)
{
	static const char *const bad[] = {RETURN(3), RETURN(1), RETURN(0), RETURN(-2),
		RETURN(9223372036854775807), RETURN(99999999999999999999), RETURN(2.0), RETURN("2"),
		"{\"return\": {}}\n", REFUSE(3, "GenericError", "x"),
		"{\"error\": {\"class\": \"GenericError\", \"desc\": \"x\"}}\n"};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		auto_error e = NULL;
		struct talk t;

		begin_ready(&t);
		command(&t, "stop");
		command(&t, "cont");
		ck_assert_int_eq(qmp_feed(&t.q, bad[i], strlen(bad[i]), &e), -HOLT_EPROTOCOL);
		ck_assert_str_eq(holt_error_stage(e), "qmp");
		ck_assert_str_ne(holt_error_hint(e), "");
		ck_assert_str_eq(t.heard, "");
		ck_assert_int_eq(feed(&t, RETURN(2)), -HOLT_ECLOSED);
		ck_assert_int_eq(qmp_command(&t.q, "quit", NULL, NULL, NULL, NULL), -HOLT_ECLOSED);
		qmp_done(&t.q);
		ck_assert_str_eq(t.heard, "reply error: the connection to QEMU's monitor ended\n"
					  "reply error: the connection to QEMU's monitor ended\n");
	}
}
END_TEST

static int last_code;
static void on_refusal(const json_t *data, const holt_error *error, void *user)
{
	last_code = holt_error_code(error);
	on_reply(data, error, user);
}

START_TEST(refusals_are_typed_and_escaped)
{
	char text[4096];
	struct talk t;

	begin_ready(&t);
	ck_assert_int_eq(qmp_command(&t.q, "cont", NULL, on_refusal, &t, NULL), 0);
	ck_assert_int_eq(feed(&t, REFUSE(2, "GenericError", "no \\u001b[31mway\\n")), 0);
	ck_assert_int_eq(last_code, HOLT_EIO);
	ck_assert_str_eq(
		t.heard, "reply error: QEMU refused 'cont': no \\x1b[31mway\\x0a (GenericError)\n");
	t.heard[0] = '\0';
	ck_assert_int_eq(qmp_command(&t.q, "x", NULL, on_refusal, &t, NULL), 0);
	ck_assert_int_eq(feed(&t, REFUSE(3, "CommandNotFound", "unknown")), 0);
	ck_assert_int_eq(last_code, HOLT_EUNSUPPORTED);
	/* Long words are cut. */
	t.heard[0] = '\0';
	ck_assert_int_eq(qmp_command(&t.q, "x", NULL, on_refusal, &t, NULL), 0);
	(void)snprintf(text, sizeof text, REFUSE(4, "%0999d", "%02999d"), 0, 0);
	ck_assert_int_eq(feed(&t, text), 0);
	ck_assert_uint_lt(strlen(t.heard), 1024);
	ck_assert_ptr_nonnull(strstr(t.heard, "QEMU refused 'x': 000"));
	/* It goes on after that. */
	command(&t, "stop");
	ck_assert_int_eq(feed(&t, RETURN(5)), 0);
	qmp_done(&t.q);
}
END_TEST

START_TEST(refused_capabilities_end_it)
{
	auto_error e = NULL;
	struct talk t;
	static const char server[] = GREETING REFUSE(1, "CommandNotFound", "no");

	begin(&t);
	command(&t, "stop");
	ck_assert_int_eq(qmp_feed(&t.q, server, sizeof server - 1, &e), -HOLT_EUNSUPPORTED);
	ck_assert_str_eq(holt_error_object(e), "qmp_capabilities");
	ck_assert_str_eq(t.out, CAPABILITIES);
	qmp_done(&t.q);
	ck_assert_str_eq(t.heard, "reply error: the connection to QEMU's monitor ended\n");
}
END_TEST

START_TEST(nonsense_ends_it)
{
	static const char *const bad[] = {"\n", "\r\n", "x\n", "[]\n", "{}\n", "null\n", "7\n",
		"{\"QMP\": {}\n", "{\"QMP\": {}} {}\n", GREETING, "{\"QMP\": []}\n",
		"{\"event\": 7}\n", "{\"event\": \"\"}\n", "{\"event\": \"stop\"}\n",
		"{\"event\": \"A B\"}\n", "{\"event\": \"STOP\\u0000\"}\n",
		"{\"event\": \"STOP\", \"data\": []}\n",
		"{\"event\": \"STOP\", \"event\": \"STOP\"}\n",
		"{\"event\": \"STOP\", \"return\": {}, \"id\": 2}\n",
		"{\"event\": \"" LONG_NAME "\"}\n", "{\"error\": {}, \"id\": 2}\n",
		"{\"error\": [], \"id\": 2}\n", "{\"error\": {\"class\": \"x\"}, \"id\": 2}\n",
		"{\"error\": {\"class\": 1, \"desc\": \"x\"}, \"id\": 2}\n",
		"{\"return\": {}, \xff}\n"};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		auto_error e = NULL;
		struct talk t;

		begin_ready(&t);
		command(&t, "stop");
		const int r = qmp_feed(&t.q, bad[i], strlen(bad[i]), &e);
		ck_assert_msg(r == -HOLT_EPROTOCOL, "case %zu gives %d", i, r);
		ck_assert_str_eq(t.heard, "");
		qmp_done(&t.q);
	}
}
END_TEST

START_TEST(nothing_comes_before_the_greeting)
{
	static const char *const bad[] = {
		EVENT("STOP"), RETURN(1), "\n", REFUSE(1, "GenericError", "x")};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct talk t;

		begin(&t);
		ck_assert_int_eq(feed(&t, bad[i]), -HOLT_EPROTOCOL);
		ck_assert_str_eq(t.heard, "");
		ck_assert_uint_eq(t.writes, 0);
		qmp_done(&t.q);
	}
}
END_TEST

/* @n bytes of @fill, between @before and @after. */
static int feed_long(const char *before, char fill, size_t n, const char *after)
{
	struct talk t;
	char *text = malloc(n);
	int r = 0;

	ck_assert_ptr_nonnull(text);
	memset(text, fill, n);
	begin_ready(&t);
	r = feed(&t, before);
	for (size_t at = 0; at < n && r == 0; at += 4096)
		r = qmp_feed(&t.q, text + at, n - at < 4096 ? n - at : 4096, NULL);
	if (r == 0)
		r = feed(&t, after);
	ck_assert_uint_le(t.q.line.len, QMP_LINE_MAX);
	qmp_done(&t.q);
	free(text);
	return r;
}

START_TEST(lines_are_bounded)
{
	static const char head[] = "{\"event\": \"STOP\", \"data\": {\"x\": \"";
	static const char tail[] = "\"}}\n";
	const size_t most = QMP_LINE_MAX - strlen(head) - strlen(tail);

	ck_assert_int_eq(feed_long(head, 'a', most, tail), 0);
	ck_assert_int_eq(feed_long(head, 'a', most + 1, tail), -HOLT_EPROTOCOL);
	ck_assert_int_eq(feed_long("", 'a', QMP_LINE_MAX * 4, ""), -HOLT_EPROTOCOL);
	/* No end in sight, but within the limit: waits. */
	ck_assert_int_eq(feed_long("", ' ', QMP_LINE_MAX, ""), 0);
}
END_TEST

START_TEST(nesting_bombs)
{
	ck_assert_int_eq(feed_long("{\"event\":\"STOP\",\"data\":{\"x\":", '[', 60000, "\n"),
		-HOLT_EPROTOCOL);
	ck_assert_int_eq(feed_long("", '{', 60000, "\n"), -HOLT_EPROTOCOL);
}
END_TEST

START_TEST(a_flood_of_events_takes_no_memory)
{
	struct talk t;

	begin_ready(&t);
	for (int i = 0; i < 20000; i++) {
		ck_assert_int_eq(feed(&t, EVENT("WAKEUP")), 0);
		t.heard[0] = '\0';
	}
	ck_assert_uint_lt(t.q.line.cap, 1024);
	qmp_done(&t.q);
}
END_TEST

START_TEST(commands_are_bounded)
{
	auto_free char *arguments = str_printf("{\"x\":\"%04100d\"}", 0);
	auto_error e = NULL;
	struct talk t;

	begin(&t);
	ck_assert_int_eq(qmp_command(&t.q, "x", arguments, on_reply, &t, &e), -HOLT_ELIMIT);
	ck_assert_str_eq(holt_error_object(e), "x");
	for (int i = 1; i < QMP_QUEUE_MAX; i++) /* the capabilities wait too */
		command(&t, "stop");
	ck_assert_int_eq(qmp_command(&t.q, "stop", NULL, on_reply, &t, NULL), -HOLT_EBUSY);
	ck_assert_str_eq(t.heard, "");
	qmp_done(&t.q);
	qmp_done(&t.q);
}
END_TEST

START_TEST(failed_writes)
{
	struct talk t;

	begin(&t);
	t.write_result = -EPIPE;
	ck_assert_int_eq(feed(&t, GREETING), -HOLT_EIO);
	qmp_done(&t.q);

	/* In the call of the command itself: it is refused and never called back. */
	begin_ready(&t);
	t.write_result = -EAGAIN;
	ck_assert_int_lt(qmp_command(&t.q, "stop", NULL, on_reply, &t, NULL), 0);
	ck_assert_int_eq(feed(&t, EVENT("STOP")), -HOLT_ECLOSED);
	qmp_done(&t.q);
	ck_assert_str_eq(t.heard, "");
}
END_TEST

START_TEST(callbacks_may_command_and_end)
{
	struct talk t;

	begin_ready(&t);
	command(&t, "stop");
	t.command_in_callback = true;
	ck_assert_int_eq(feed(&t, RETURN(2)), 0);
	ck_assert_str_eq(t.out, "{\"execute\":\"stop\",\"id\":2}\n"
				"{\"execute\":\"next\",\"id\":3}\n");
	command(&t, "later");
	t.done_in_callback = true;
	/* What follows in the same bytes is not looked at any more. */
	ck_assert_int_eq(feed(&t, RETURN(3) "garbage\n" EVENT("STOP")), 0);
	ck_assert_str_eq(t.heard, "reply {}\nreply {}\n"
				  "reply error: the connection to QEMU's monitor ended\n");

	begin_ready(&t);
	command(&t, "stop");
	t.done_in_callback = true;
	ck_assert_int_eq(feed(&t, EVENT("SHUTDOWN") RETURN(2)), 0);
	ck_assert_str_eq(t.heard, "event SHUTDOWN -\n"
				  "reply error: the connection to QEMU's monitor ended\n");
}
END_TEST

START_TEST(lack_of_memory_is_an_error)
{
	for (unsigned long nth = 1;; nth++) {
		auto_error e = NULL;
		struct talk t = {.q = QMP_INIT};
		mem_fail_at(nth);
		int r = qmp_init(&t.q, &ops, &t, &e);
		if (r == 0)
			r = qmp_command(&t.q, "stop", NULL, NULL, NULL, &e);
		if (r == 0)
			r = qmp_feed(&t.q, GREETING RETURN(1), strlen(GREETING RETURN(1)), &e);
		mem_fail_at(0);
		qmp_done(&t.q);
		if (r == 0) {
			ck_assert_uint_gt(nth, 4);
			return;
		}
		ck_assert_int_eq(r, -HOLT_ENO_MEMORY);
		ck_assert_uint_lt(nth, 100);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {a_conversation_split_at_every_byte, byte_by_byte,
		one_command_at_a_time, a_descriptor_goes_with_its_own_command,
		answers_out_of_order_end_it, refusals_are_typed_and_escaped,
		refused_capabilities_end_it, nonsense_ends_it, nothing_comes_before_the_greeting,
		lines_are_bounded, nesting_bombs, a_flood_of_events_takes_no_memory,
		commands_are_bounded, failed_writes, callbacks_may_command_and_end,
		lack_of_memory_is_an_error};
	Suite *s = suite_create("qmp");
	TCase *c = tcase_create("qmp");

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
