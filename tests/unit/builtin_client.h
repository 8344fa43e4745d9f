/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_BUILTIN_CLIENT_H
#define TESTS_UNIT_BUILTIN_CLIENT_H

#include "agent_client.h"

#include <limits.h>

/*
 * Built-ins of a real agent under the fake engine, run on a directory of the host that each test
 * gets for itself.
 */

static char base[] = "/tmp/holt-test-builtin-XXXXXX";
static char path_buf[4][PATH_MAX];

/* base/name; good for four calls. */
static const char *in_base(const char *name)
{
	static unsigned turn;
	char *const s = path_buf[turn++ % 4];

	(void)snprintf(s, PATH_MAX, "%s/%s", base, name);
	return s;
}

/* A shell command line in the directory of the test, run by the test itself. */
static void sh(const char *line)
{
	const struct job j = {.argv = {"/bin/sh", "-c", line}, .cwd = base};
	struct run r;

	job_run(&j, &r);
	ck_assert_msg(r.exited && r.exit.kind == WIRE_EXITED && r.exit.code == 0, "%s: %.*s", line,
		(int)r.out[1].len, (const char *)r.out[1].data);
	run_free(&r);
}

static void base_setup(void)
{
	setup();
	memcpy(base + strlen(base) - 6, "XXXXXX", 6);
	ck_assert_ptr_nonnull(mkdtemp(base));
}

static void base_teardown(void)
{
	sh("chmod -R u+rwx . && rm -rf \"$PWD\"");
	teardown();
}

struct input {
	const uint8_t *data;
	size_t len;
};

static void builtin_run(const char *const argv[6], const struct input *in, struct run *r)
{
	struct job j = {.flags = WIRE_EXEC_BUILTIN};

	for (int i = 0; i < 6; i++)
		j.argv[i] = argv[i];
	if (in) {
		j.in = in->data;
		j.in_len = in->len;
	}
	job_run(&j, r);
}

static void check_success(const struct run *r)
{
	ck_assert_msg(r->exited, "failed: %s", r->text);
	ck_assert_msg(r->exit.kind == WIRE_EXITED && r->exit.code == 0 && r->out[1].len == 0,
		"code %u: %.*s", r->exit.code, (int)r->out[1].len, (const char *)r->out[1].data);
}

/* The one line on stderr has this errno, stage and object (NULL: whatever). */
__attribute__((unused)) static void check_failure(
	struct run *r, int errnum, const char *stage, const char *object)
{
	char want[600];

	ck_assert_msg(r->exited, "failed: %s", r->text);
	ck_assert_uint_eq(r->exit.kind, WIRE_EXITED);
	ck_assert_msg(r->exit.code == 1, "code %u in the place of %s failure %d for '%s'",
		r->exit.code, stage, errnum, object ? object : "?");
	bytes_add(&r->out[1], "", 1);
	const char *const line = (const char *)r->out[1].data;
	ck_assert_msg(strchr(line, '\n') == line + strlen(line) - 1, "not one line: %s", line);
	(void)snprintf(want, sizeof(want), "%d\t%s\t%s%s", errnum, stage, object ? object : "",
		object ? "\t" : "");
	ck_assert_msg(strncmp(line, want, strlen(want)) == 0, "'%s' is not '%s'", line, want);
	int tabs = 0;
	for (const char *p = line; *p; p++)
		tabs += *p == '\t';
	ck_assert_int_eq(tabs, 3);
	run_free(r);
}

__attribute__((unused)) static void tar_in(
	const char *option, const char *dir, const struct bytes *tar)
{
	const struct input in = {tar->data, tar->len};
	struct run r;

	builtin_run(option ? (const char *[6]){"tar-in", option, dir}
			   : (const char *[6]){"tar-in", dir},
		&in, &r);
	check_success(&r);
	run_free(&r);
}

__attribute__((unused)) static int run_cases(const char *name, TCase *t)
{
	Suite *s = suite_create(name);

	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}

#endif
