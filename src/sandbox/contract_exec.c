/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/contract.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "sandbox/env.h"
#include "sandbox/running.h"
#include "sandbox/text.h"
#include "base/banned.h"

/*
 * Commands. Each is one string for a shell of its own: "bash -lc", or "sh -lc" in an image without
 * bash, by name in the command's PATH, else in /bin. Which one worked is remembered, so that only
 * the first command of an image asks for several; where the one that is remembered is gone, all are
 * asked for again.
 *
 * The first thing that is looked at are the names of variables, also on a closed sandbox.
 *
 * Two clocks: the command's, which the backend keeps and which ends in a result (124, with the
 * output so far), and the call's, a little later, for a backend that gives no answer.
 */

/* What a backend has to report a time-out, so that the call returns within one second of it. */
#define EXECUTE_GRACE_MS 900u

struct capture {
	struct buf kept;
	uint64_t total;
};

struct holt_command {
	holt_exit exit;
	uint64_t timeout_ms;
	struct capture out;
	struct capture err;
};

/* What the backend's output goes through. */
struct execution {
	struct running run;
	const struct contract_command *what;
	struct holt_command *command;
};

static int keep(struct running *run, struct capture *c, const void *data, size_t len)
{
	const size_t room = c->kept.max - c->kept.len;

	c->total += len;
	if (buf_append(&c->kept, data, len < room ? len : room) < 0)
		return running_fail_memory(run);
	return 0;
}

static int on_output(int stream, const void *data, size_t len, void *user)
{
	struct execution *e = user;
	struct capture *c = stream == HOLT_STDERR ? &e->command->err : &e->command->out;

	if (e->run.stopped || e->run.own)
		return 1;
	if (len == 0)
		return 0;
	if (!e->what->output)
		return keep(&e->run, c, data, len);
	c->total += len;
	return running_stop(&e->run, e->what->output(stream, data, len, e->what->user));
}

static int run_in(struct execution *e, const char *shell, const char *const *env, holt_exit *ret,
	holt_error **reterr)
{
	/* Only a command that looks like an option needs to be told apart from one. */
	const bool odd = strspn(e->what->command, "-+") > 0;
	const char *const argv[] = {
		shell, "-lc", odd ? "--" : e->what->command, odd ? e->what->command : NULL, NULL};
	holt_sandbox *s = e->run.sandbox;
	const holt_backend_command command = {.argv = argv,
		.env = env,
		.timeout_ms = running_again(&e->run, EXECUTE_GRACE_MS),
		.output = on_output,
		.user = e};

	return s->backend.execute(s->self, &command, &e->run.call, ret, reterr);
}

static int no_shell(holt_sandbox *s, holt_error **reterr)
{
	holt_error_free(*reterr);
	*reterr = NULL;
	(void)err_make(reterr, HOLT_ENOT_FOUND, "the image has no shell");
	err_stage(reterr, "exec");
	err_object(reterr, s->id);
	err_hint(reterr, "use an image with bash or sh, or start programs without a shell");
	return -HOLT_ENOT_FOUND;
}

/* Begin with the shell that is remembered, else with the best one. */
static int run_shell(
	struct execution *e, const char *const *env, holt_exit *ret, holt_error **reterr)
{
	/* A variable may name other places for programs: the usual one comes behind it. */
	static const char *const names[] = {"bash", "sh", "/bin/bash", "/bin/sh"};
	const int n_names = (int)(sizeof names / sizeof names[0]);
	int *memory = &e->run.sandbox->shell;
	const int known = __atomic_load_n(memory, __ATOMIC_RELAXED);
	int r = -HOLT_ENOT_FOUND;

	for (int i = known ? -1 : 0; i < n_names && r == -HOLT_ENOT_FOUND; i++) {
		const int used = i < 0 ? known - 1 : i;

		if (i >= 0 && i == known - 1)
			continue;
		holt_error_free(*reterr);
		*reterr = NULL;
		r = run_in(e, names[used], env, ret, reterr);
		if (r != -HOLT_ENOT_FOUND && known != used + 1)
			__atomic_store_n(memory, used + 1, __ATOMIC_RELAXED);
	}
	if (r != -HOLT_ENOT_FOUND)
		return r;
	__atomic_store_n(memory, 0, __ATOMIC_RELAXED);
	return no_shell(e->run.sandbox, reterr);
}

static int execute(struct execution *e, const char *const *env, holt_error **reterr)
{
	holt_exit end = HOLT_EXIT_INIT;
	holt_error *error = NULL;
	int r = running_begin(
		&e->run, e->run.sandbox, &e->what->call, "exec", e->run.sandbox->id, reterr);

	if (r < 0)
		return r;
	r = run_shell(e, env, &end, &error);
	r = running_end(&e->run, r, error, reterr);
	if (r == 0)
		e->command->exit = end;
	return r;
}

int contract_execute(holt_sandbox *sandbox, const struct contract_command *what,
	struct holt_command **ret, holt_error **reterr)
{
	int r = env_check(what->env, reterr);

	if (r < 0)
		return r;
	auto_free const char **env = NULL;
	r = env_merge((const char *const *)sandbox->env, what->env, &env, reterr);
	if (r < 0)
		return r;
	struct holt_command *command = mem_zalloc(sizeof *command);
	if (!command)
		return err_nomem(reterr);
	command->timeout_ms = what->call.timeout_ms;
	command->out.kept = command->err.kept = BUF_INIT(what->capture_bytes);
	struct execution e = {.run.sandbox = sandbox, .what = what, .command = command};
	r = execute(&e, env, reterr);
	if (r == 0)
		*ret = command;
	else
		contract_command_free(command);
	return r;
}

int contract_execute_text(holt_sandbox *sandbox, const struct contract_command *what, char **ret,
	size_t *ret_len, holt_error **reterr)
{
	struct holt_command *command = NULL;
	auto_error error = NULL;
	int r = env_check(what->env, reterr);

	if (r < 0)
		return r;
	r = contract_execute(sandbox, what, &command, &error);
	if (command) {
		r = contract_command_text(command, ret, ret_len, reterr);
		contract_command_free(command);
		return r;
	}
	if (r == -HOLT_ENO_MEMORY)
		return err_nomem(reterr);
	char *text = contract_error_text(error);
	if (!text)
		return err_nomem(reterr);
	*ret_len = strlen(text);
	*ret = text;
	return 0;
}

void contract_command_exit(const struct holt_command *command, holt_exit *ret)
{
	*ret = command->exit;
}

const char *contract_command_output(
	const struct holt_command *command, int stream, size_t *ret_len, uint64_t *ret_total)
{
	const struct capture *c = stream == HOLT_STDERR ? &command->err : &command->out;

	*ret_len = c->kept.len;
	if (ret_total)
		*ret_total = c->total;
	return c->kept.data ? (const char *)c->kept.data : "";
}

int contract_command_text(
	const struct holt_command *command, char **ret, size_t *ret_len, holt_error **reterr)
{
	struct text_stream streams[2];

	for (int i = 0; i < 2; i++)
		streams[i].data = contract_command_output(
			command, i ? HOLT_STDERR : HOLT_STDOUT, &streams[i].len, &streams[i].total);
	char *text = text_compose(
		&streams[0], &streams[1], &command->exit, command->timeout_ms, ret_len);
	if (!text)
		return err_nomem(reterr);
	*ret = text;
	return 0;
}

void contract_command_free(struct holt_command *command)
{
	if (!command)
		return;
	buf_done(&command->out.kept);
	buf_done(&command->err.kept);
	mem_free(command);
}
