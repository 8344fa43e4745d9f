/* SPDX-License-Identifier: Apache-2.0 */
/* Commands, and what happens to a box besides operations of its sandbox: archives that come in,
 * copies that go out, an end. */
#include "case.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENV_MAX 16

/* ---- commands ---- */

static bool get_env(struct run *run, json_t *step, const char **env)
{
	json_t *list = json_object_get(step, "env");
	struct bytes one;
	size_t i = 0;

	for (; i < json_array_size(list) && i < ENV_MAX; i++) {
		if (!value_get(run, json_array_get(list, i), &one))
			return false;
		env[i] = one.data;
	}
	env[i] = NULL;
	return true;
}

static bool expect_command(struct run *run, json_t *expect, const holt_command *command)
{
	holt_exit end = HOLT_EXIT_INIT;
	json_t *code = json_object_get(expect, "code");
	const long long want = code ? (long long)json_integer_value(code) : 0;
	size_t out_len = 0;
	size_t err_len = 0;
	size_t text_len = 0;
	uint64_t total = 0;
	char *text = NULL;
	const char *out = holt_command_output(command, HOLT_STDOUT, &out_len, &total);
	const char *err = holt_command_output(command, HOLT_STDERR, &err_len, NULL);

	if (holt_command_exit(command, &end) != 0 ||
		holt_command_text(command, &text, &text_len, NULL) != 0)
		return case_fail(run, "a command has no end or no text");
	bool ok = expect_bytes(run, expect, "stdout", out, out_len) &&
		  expect_bytes(run, expect, "stderr", err, err_len) &&
		  expect_bytes(run, expect, "text", text, text_len) &&
		  expect_has(run, expect, "text_has", text, text_len) &&
		  expect_uint(run, expect, "stdout_len", out_len) &&
		  expect_uint(run, expect, "stdout_total", total) &&
		  expect_flag(run, expect, "timed_out", false,
			  (end.flags & HOLT_EXIT_TIMED_OUT) != 0) &&
		  expect_flag(run, expect, "output_left", false,
			  (end.flags & HOLT_EXIT_OUTPUT_LEFT) != 0);
	if (ok && want != end.code)
		ok = case_fail(run, "exit code %d, not %lld: %s", end.code, want, text);
	holt_free(text);
	return ok;
}

static bool get_command(struct run *run, json_t *step, const char **env, holt_command_options *ret)
{
	uint64_t capture = 0;

	*ret = (holt_command_options)HOLT_COMMAND_OPTIONS_INIT;
	ret->timeout_ms = CASE_OP_MS;
	ret->env = json_object_get(step, "env") ? env : NULL;
	if (!get_env(run, step, env) || !value_uint(run, step, "timeout_ms", &ret->timeout_ms) ||
		!value_uint(run, step, "capture_bytes", &capture))
		return false;
	ret->capture_bytes = (uint32_t)capture;
	return true;
}

static bool op_execute(struct run *run, json_t *step, json_t *expect)
{
	const char *env[ENV_MAX + 1];
	const char *command = NULL;
	holt_command_options options;
	holt_command *done = NULL;
	holt_error *error = NULL;
	bool more = false;

	if (!value_text(run, step, "command", true, &command) ||
		!get_command(run, step, env, &options))
		return false;
	const int r = holt_sandbox_execute(run->sandbox, command, &options, &done, &error);
	bool ok = expect_result(run, expect, r, error, &more);
	if (ok && more)
		ok = expect_command(run, expect, done);
	holt_command_free(done);
	holt_error_free(error);
	return ok;
}

/* The text that clients get who know no codes, also where the command did not run. */
static bool op_execute_text(struct run *run, json_t *step, json_t *expect)
{
	const char *env[ENV_MAX + 1];
	const char *command = NULL;
	holt_command_options options;
	holt_error *error = NULL;
	char *text = NULL;
	size_t len = 0;
	bool more = false;

	if (!value_text(run, step, "command", true, &command) ||
		!get_command(run, step, env, &options))
		return false;
	const int r = holt_sandbox_execute_text(
		run->sandbox, command, &options, &text, &len, &error);
	bool ok = expect_result(run, expect, r, error, &more);
	if (ok && more)
		ok = expect_bytes(run, expect, "text", text, len) &&
		     expect_has(run, expect, "text_has", text, len);
	holt_free(text);
	holt_error_free(error);
	return ok;
}

/* ---- the box ---- */

static bool op_tar(struct run *run, json_t *step, json_t *expect)
{
	holt_error *error = NULL;
	const char *at = NULL;
	bool owners = false;
	bool more = false;
	int fd = -1;

	if (!value_text(run, step, "at", false, &at) ||
		!tar_make(run, json_object_get(step, "entries"), &fd, &owners))
		return false;
	const int r = holt_copy_in_tar(
		run->box, fd, at ? at : run->dir, owners ? HOLT_COPY_ARCHIVE : 0, NULL, &error);
	const bool ok = expect_result(run, expect, r, error, &more);
	holt_error_free(error);
	(void)close(fd);
	return ok;
}

/* A file on the host, as it was copied out. */
static bool same_copy(struct run *run, int dir, const char *name, struct bytes want)
{
	const int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct pile got = {0};
	char chunk[4096];
	ssize_t n = 0;

	if (fd < 0)
		return case_fail(run, "a copied file is not there: %s", strerror(errno));
	while ((n = read(fd, chunk, sizeof chunk)) > 0)
		pile_add(&got, chunk, (size_t)n);
	(void)close(fd);
	const bool ok = n == 0 && got.len == want.len &&
			(want.len == 0 || memcmp(got.data, want.data, want.len) == 0);
	free(got.data);
	return ok || case_fail(run, "a copied file holds something else");
}

static bool same_copies(struct run *run, json_t *files, const char *dir)
{
	const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool ok = fd >= 0 || case_fail(run, "no directory was copied");

	for (size_t i = 0; ok && i < json_array_size(files); i++) {
		json_t *file = json_array_get(files, i);
		struct bytes name;
		struct bytes content;

		ok = value_get(run, json_array_get(file, 0), &name) &&
		     value_get(run, json_array_get(file, 1), &content) &&
		     same_copy(run, fd, name.data, content);
	}
	if (fd >= 0)
		(void)close(fd);
	return ok;
}

/* A directory to the host, where it has to hold files: [[NAME, CONTENT], ...]. */
static bool op_copy_out(struct run *run, json_t *step, json_t *expect)
{
	char target[CASE_PATH_MAX];
	holt_error *error = NULL;
	const char *path = NULL;
	static unsigned number;
	bool more = false;

	if (!value_text(run, step, "path", true, &path))
		return false;
	(void)snprintf(target, sizeof target, "%s/out-%u", run->world->dir, number++);
	const int r = holt_copy_out(run->box, path, target, 0, NULL, &error);
	const bool ok = expect_result(run, expect, r, error, &more) &&
			(!more || same_copies(run, json_object_get(expect, "files"), target));
	holt_error_free(error);
	return ok;
}

static bool op_close(struct run *run, json_t *step, json_t *expect)
{
	(void)step;
	(void)expect;
	if (run->sandbox == run->world->sandbox)
		return case_fail(run, "bad data: only a case's own sandbox is closed");
	holt_sandbox_close(run->sandbox);
	return true;
}

static bool do_with_box(holt_box *box, const char *what, int *ret, holt_error **reterr)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;

	if (strcmp(what, "pause") == 0)
		*ret = holt_box_pause(box, reterr);
	else if (strcmp(what, "unpause") == 0)
		*ret = holt_box_unpause(box, reterr);
	else if (strcmp(what, "stop") == 0)
		*ret = holt_box_stop(box, HOLT_NO_GRACE, reterr);
	else if (strcmp(what, "rm") == 0)
		*ret = holt_box_remove(box, 1, reterr);
	else if (strcmp(what, "kill") == 0 && holt_box_get_info(box, &info) == 0)
		*ret = kill(info.vmm_pid, SIGKILL);
	else
		return false;
	return true;
}

static bool op_box(struct run *run, json_t *step, json_t *expect)
{
	holt_error *error = NULL;
	const char *what = NULL;
	bool more = false;
	int r = 0;

	if (run->box == run->world->box)
		return case_fail(run, "bad data: only a case's own box is treated so");
	if (!value_text(run, step, "do", true, &what))
		return false;
	if (!do_with_box(run->box, what, &r, &error))
		return case_fail(run, "bad data: a box does not '%s'", what);
	const bool ok = expect_result(run, expect, r, error, &more);
	holt_error_free(error);
	return ok;
}

/* How often the sandbox has told that it is gone. */
static bool op_terminal(struct run *run, json_t *step, json_t *expect)
{
	(void)step;
	return expect_uint(run, expect, "calls", *run->terminal_calls);
}

const struct op ops_of_box[] = {
	{"box", op_box, "do", ""},
	{"close", op_close, "", ""},
	{"copy_out", op_copy_out, "path", "files"},
	{"execute", op_execute, "command env timeout_ms capture_bytes",
		"code stdout stderr text text_has text_lacks stdout_len stdout_total timed_out "
		"output_left"},
	{"execute_text", op_execute_text, "command env timeout_ms capture_bytes", "text text_has"},
	{"tar", op_tar, "at entries", ""},
	{"terminal", op_terminal, "", "calls"},
	{NULL, NULL, NULL, NULL},
};
