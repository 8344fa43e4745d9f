/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One turn of an agent: get the thread's sandbox, run a command in it, let it go. The next turn of
 * the same thread finds its files, from this process or another one.
 *
 *     cc turn.c -o turn $(pkg-config --cflags --libs holt)
 *     ./turn demo ann 7 'date >>visits; cat visits'
 */
#include <holt.h>

#include <stdio.h>
#include <string.h>

/* What to do about a failure depends on its code, never on its text. */
static const char *advice(int code)
{
	switch (code) {
	case -HOLT_EBUSY:
		return "another process has the sandbox: try again later";
	case -HOLT_EEXISTS:
		return "another user and thread has the same id: use another thread";
	case -HOLT_ENOT_FOUND:
		return "import the image";
	default:
		return "";
	}
}

static int run(holt_sandbox *sandbox, const char *line, holt_error **error)
{
	holt_command_options ten_seconds = HOLT_COMMAND_OPTIONS_INIT;
	holt_command *command = NULL;
	size_t len = 0;

	ten_seconds.timeout_ms = 10000;
	int r = holt_sandbox_execute(sandbox, line, &ten_seconds, &command, error);
	if (r == 0) {
		const char *out = holt_command_output(command, HOLT_STDOUT, &len, NULL);
		(void)fwrite(out, 1, len, stdout); /* any bytes */
	}
	holt_command_free(command);
	return r;
}

static int turn(
	holt_provider *provider, const holt_scope *scope, const char *line, holt_error **error)
{
	char id[HOLT_SANDBOX_ID_MAX + 1];
	int r = holt_provider_acquire(provider, scope, NULL, id, error);

	if (r < 0)
		return r;
	/* NULL where it was found to be dead since: the next turn gets a fresh one. */
	holt_sandbox *sandbox = holt_provider_get(provider, id);
	if (sandbox)
		r = run(sandbox, line, error);
	holt_sandbox_free(sandbox);
	/* It is warm now. Without this call it would be at the end of the process. */
	const int released = holt_provider_release(provider, id, r == 0 ? error : NULL);
	return r == 0 ? released : r;
}

int main(int argc, char **argv)
{
	holt_scope scope = HOLT_SCOPE_INIT;
	holt_provider *provider = NULL;
	holt_config *config = NULL;
	holt_error *error = NULL;
	holt_home *home = NULL;

	if (argc != 5) {
		fprintf(stderr, "usage: turn IMAGE USER THREAD COMMAND\n");
		return 2;
	}
	scope.user = argv[2];
	scope.user_len = strlen(argv[2]);
	scope.thread = argv[3];
	scope.thread_len = strlen(argv[3]);

	/* A service makes one provider at its start and has it until its end. */
	int r = holt_config_parse("", 0, NULL, &config, &error); /* or holt_config_load */
	if (r == 0)
		r = holt_config_set(config, "image", argv[1], &error);
	if (r == 0)
		r = holt_home_open(NULL, &home, &error);
	if (r == 0)
		r = holt_provider_open(home, config, NULL, &provider, &error);
	holt_config_free(config);
	if (r == 0)
		r = turn(provider, &scope, argv[4], &error);
	if (r < 0)
		fprintf(stderr, "turn: %s: %s\nhint: %s\n", holt_error_object(error),
			holt_error_message(error), *advice(r) ? advice(r) : holt_error_hint(error));
	holt_error_free(error);
	holt_provider_free(provider); /* its sandboxes live on; holt_provider_shutdown ends them */
	holt_home_close(home);
	return r < 0;
}
