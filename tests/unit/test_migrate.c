/* SPDX-License-Identifier: Apache-2.0 */
/* Freezing and waking: what is said to the monitor, and what its events mean. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "vmm/migrate.h"
#include "vmm/qemu_argv.h"

#define STATE 77

struct monitor {
	struct qmp q;
	struct buf out;
	unsigned replies;
	unsigned errors;
};

static int on_write(const void *data, size_t len, int fd, void *user)
{
	struct monitor *m = user;

	return fd < 0 ? buf_append(&m->out, data, len)
		      : buf_printf(&m->out, "[%d]%.*s", fd, (int)len, (const char *)data);
}

static void on_reply(const json_t *data, const holt_error *error, void *user)
{
	struct monitor *m = user;

	(void)data;
	m->replies++;
	m->errors += error != NULL;
}

static void begin(struct monitor *m)
{
	static const struct qmp_ops ops = {.write = on_write};

	*m = (struct monitor){.out = BUF_INIT(4096)};
	ck_assert_int_eq(qmp_init(&m->q, &ops, m, NULL), 0);
}

/* Greet and answer everything that comes, the @nth command with a refusal (0: none). */
static void answer(struct monitor *m, unsigned n_commands, unsigned refuse)
{
	static const char greeting[] = "{\"QMP\": {}}\n";

	ck_assert_int_eq(qmp_feed(&m->q, greeting, strlen(greeting), NULL), 0);
	for (unsigned id = 1; id <= n_commands + 1; id++) {
		char line[128];
		(void)snprintf(line, sizeof line,
			refuse && id == refuse + 1
				? "{\"error\": {\"class\": \"GenericError\", \"desc\": "
				  "\"no\"}, \"id\": %u}\n"
				: "{\"return\": {}, \"id\": %u}\n",
			id);
		ck_assert_int_eq(qmp_feed(&m->q, line, strlen(line), NULL), 0);
	}
}

static void end(struct monitor *m)
{
	qmp_done(&m->q);
	buf_done(&m->out);
}

START_TEST(freeze_saves_into_a_descriptor)
{
	struct monitor m;

	begin(&m);
	ck_assert_int_eq(migrate_freeze(&m.q, STATE, on_reply, &m, NULL), 0);
	answer(&m, MIGRATE_FREEZE_COMMANDS, 0);
	ck_assert_str_eq((char *)m.out.data,
		"{\"execute\":\"qmp_capabilities\",\"id\":1}\n"
		"{\"execute\":\"migrate-set-capabilities\",\"id\":2,\"arguments\":"
		"{\"capabilities\":[{\"capability\":\"x-ignore-shared\",\"state\":true},"
		"{\"capability\":\"events\",\"state\":true}]}}\n"
		"[77]{\"execute\":\"getfd\",\"id\":3,\"arguments\":{\"fdname\":\"state\"}}\n"
		"{\"execute\":\"migrate\",\"id\":4,\"arguments\":{\"uri\":\"fd:state\"}}\n");
	ck_assert_uint_eq(m.replies, MIGRATE_FREEZE_COMMANDS);
	ck_assert_uint_eq(m.errors, 0);
	end(&m);
}
END_TEST

START_TEST(restore_loads_from_a_number)
{
	struct monitor m;

	begin(&m);
	ck_assert_int_eq(migrate_restore(&m.q, on_reply, &m, NULL), 0);
	answer(&m, MIGRATE_RESTORE_COMMANDS, 0);
	ck_assert_str_eq((char *)m.out.data,
		"{\"execute\":\"qmp_capabilities\",\"id\":1}\n"
		"{\"execute\":\"migrate-set-capabilities\",\"id\":2,\"arguments\":"
		"{\"capabilities\":[{\"capability\":\"x-ignore-shared\",\"state\":true}]}}\n"
		"{\"execute\":\"migrate-incoming\",\"id\":3,\"arguments\":{\"uri\":\"fd:14\"}}\n");
	ck_assert_int_eq(QEMU_FD_STATE, 14);
	ck_assert_uint_eq(m.replies, MIGRATE_RESTORE_COMMANDS);
	ck_assert_uint_eq(m.errors, 0);
	end(&m);
}
END_TEST

START_TEST(every_refusal_is_told)
{
	for (unsigned nth = 1; nth <= MIGRATE_FREEZE_COMMANDS; nth++) {
		struct monitor m;

		begin(&m);
		ck_assert_int_eq(migrate_freeze(&m.q, STATE, on_reply, &m, NULL), 0);
		answer(&m, MIGRATE_FREEZE_COMMANDS, nth);
		ck_assert_uint_eq(m.replies, MIGRATE_FREEZE_COMMANDS);
		ck_assert_uint_eq(m.errors, 1);
		end(&m);
	}
}
END_TEST

START_TEST(what_cannot_be_asked_is_an_error)
{
	struct monitor m;
	auto_error freeze = NULL;
	auto_error restore = NULL;

	begin(&m);
	qmp_done(&m.q);
	ck_assert_int_eq(migrate_freeze(&m.q, STATE, on_reply, &m, &freeze), -HOLT_ECLOSED);
	ck_assert_int_eq(migrate_restore(&m.q, on_reply, &m, &restore), -HOLT_ECLOSED);
	ck_assert_uint_eq(m.replies, 0);
	end(&m);
}
END_TEST

START_TEST(events)
{
	static const struct {
		const char *name;
		const char *data;
		enum migrate_status status;
	} cases[] = {
		{"MIGRATION", "{\"status\":\"setup\"}", MIGRATE_NONE},
		{"MIGRATION", "{\"status\":\"active\"}", MIGRATE_NONE},
		{"MIGRATION", "{\"status\":\"completed\"}", MIGRATE_DONE},
		{"MIGRATION", "{\"status\":\"failed\"}", MIGRATE_FAILED},
		{"MIGRATION", "{\"status\":\"cancelled\"}", MIGRATE_FAILED},
		{"MIGRATION", "{\"status\":7}", MIGRATE_NONE},
		{"MIGRATION", "{}", MIGRATE_NONE},
		{"MIGRATION_PASS", "{\"status\":\"completed\"}", MIGRATE_NONE},
		{"STOP", "{\"status\":\"failed\"}", MIGRATE_NONE},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		json_t *data = NULL;

		ck_assert_int_eq(
			json_parse(cases[i].data, strlen(cases[i].data), 256, "data", &data, NULL),
			0);
		ck_assert_int_eq(migrate_progress(cases[i].name, data), cases[i].status);
		json_decref(data);
	}
	ck_assert_int_eq(migrate_progress("MIGRATION", NULL), MIGRATE_NONE);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {freeze_saves_into_a_descriptor, restore_loads_from_a_number,
		every_refusal_is_told, what_cannot_be_asked_is_an_error, events};
	Suite *s = suite_create("migrate");
	TCase *c = tcase_create("migrate");

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
