/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holt sandbox: commands, files and searches in a box, as an agent wants them. A call that is
 * interrupted needs no care here: when this process ends, the box ends what it did for it.
 */
#include "sandbox_verbs.h"

#include <stdio.h>
#include <string.h>

int sandbox_failed(holt_error **reterr, int code, int errnum, const char *what)
{
	char message[256];

	holt_error_free(*reterr);
	*reterr = NULL;
	(void)snprintf(message, sizeof message, "%s%s%s", what, errnum ? ": " : "",
		errnum ? strerror(errnum) : "");
	(void)holt_error_set(reterr, code, errnum, NULL, NULL, message);
	return -1;
}

int sandbox_run(const struct sandbox_args *a, sandbox_fn *call)
{
	holt_home *home = NULL;
	holt_box *box = NULL;
	holt_sandbox *sandbox = NULL;
	holt_error *error = NULL;
	int status = -1;

	if (cli_open_box(a->box, &home, &box) != CLI_OK)
		return a->failure ? a->failure : CLI_RUN_FAILED;
	if (holt_sandbox_open(box, &a->open, &sandbox, &error) == 0)
		status = call(sandbox, a, &error);
	holt_sandbox_free(sandbox);
	cli_close_box(home, box);
	if (status < 0)
		return cli_error(a->failure ? a->failure : holt_error_exit_code(error), error);
	if (cli_finish() != CLI_OK)
		return a->failure ? a->failure : CLI_RUN_FAILED;
	return status;
}

/* All but exec. */
static int main_of(int argc, char **argv, const void *user)
{
	const struct sandbox_verb *verb = user;
	struct sandbox_args a = {
		.verb = verb->name, .failure = CLI_FAILED, .open = HOLT_SANDBOX_OPTIONS_INIT};
	const int status = sandbox_args_parse(&a, verb, argc, argv);

	return status ? status : sandbox_run(&a, verb->call);
}

#define VERB(verb, words, options, call, help)                                                     \
	{                                                                                          \
		verb, help, NULL, main_of, &(const struct sandbox_verb)                            \
		{                                                                                  \
			"sandbox " verb, words,                                                    \
				SANDBOX_TIMEOUT | SANDBOX_USER | SANDBOX_WORKDIR | (options), call \
		}                                                                                  \
	}

static const struct cli_subverb subverbs[] = {
	VERB("append", "BOX PATH", SANDBOX_EXCLUSIVE, sandbox_append, sandbox_append_help),
	VERB("download", "BOX PATH", SANDBOX_USER_DATA, sandbox_download, sandbox_download_help),
	{"exec", sandbox_exec_help, NULL, sandbox_exec_main, NULL},
	VERB("glob", "BOX ROOT PATTERN",
		SANDBOX_ALL | SANDBOX_DIRS | SANDBOX_JSON | SANDBOX_MAX_RESULTS | SANDBOX_NULL,
		sandbox_glob, sandbox_glob_help),
	VERB("grep", "BOX ROOT PATTERN",
		SANDBOX_ALL | SANDBOX_CASE_SENSITIVE | SANDBOX_GLOB | SANDBOX_JSON |
			SANDBOX_LITERAL | SANDBOX_MAX_RESULTS | SANDBOX_NULL,
		sandbox_grep, sandbox_grep_help),
	VERB("ls", "BOX PATH",
		SANDBOX_ALL | SANDBOX_DEPTH | SANDBOX_JSON | SANDBOX_MAX_ENTRIES | SANDBOX_NULL,
		sandbox_list, sandbox_list_help),
	VERB("mkdir", "BOX PATH", SANDBOX_PARENTS, sandbox_make_directory,
		sandbox_make_directory_help),
	VERB("mv", "BOX FROM TO", SANDBOX_NO_CLOBBER, sandbox_move, sandbox_move_help),
	VERB("read", "BOX PATH", SANDBOX_LINES, sandbox_read, sandbox_read_help),
	VERB("rm", "BOX PATH", SANDBOX_FORCE | SANDBOX_RECURSIVE, sandbox_remove,
		sandbox_remove_help),
	VERB("stat", "BOX PATH", SANDBOX_JSON | SANDBOX_NO_FOLLOW, sandbox_stat, sandbox_stat_help),
	VERB("update", "BOX PATH", SANDBOX_EXCLUSIVE, sandbox_write, sandbox_update_help),
	VERB("write", "BOX PATH", SANDBOX_EXCLUSIVE, sandbox_write, sandbox_write_help),
	{0},
};

static int sandbox_main(int argc, char **argv)
{
	return cli_subverbs(&verb_sandbox, subverbs, argc, argv);
}

const struct cli_verb verb_sandbox = {
	.name = "sandbox",
	.summary = "commands, files and searches in a box, for agents",
	.group = CLI_RUNNING,
	.help = "Usage: holt sandbox exec [OPTIONS] BOX [--] COMMAND\n"
		"       holt sandbox read [OPTIONS] BOX PATH\n"
		"       holt sandbox write [OPTIONS] BOX PATH\n"
		"       holt sandbox append [OPTIONS] BOX PATH\n"
		"       holt sandbox update [OPTIONS] BOX PATH\n"
		"       holt sandbox download [OPTIONS] BOX PATH\n"
		"       holt sandbox ls [OPTIONS] BOX PATH\n"
		"       holt sandbox stat [OPTIONS] BOX PATH\n"
		"       holt sandbox mkdir [OPTIONS] BOX PATH\n"
		"       holt sandbox rm [OPTIONS] BOX PATH\n"
		"       holt sandbox mv [OPTIONS] BOX FROM TO\n"
		"       holt sandbox glob [OPTIONS] BOX ROOT PATTERN\n"
		"       holt sandbox grep [OPTIONS] BOX ROOT PATTERN\n\n"
		"Works in a box as its user, from its directory, also where the image has no\n"
		"programs but a shell, or not even that. All have --timeout TIME (10m; 0 for\n"
		"none), -u USER and -w DIR. 'holt sandbox VERB --help' tells more.\n\n"
		"Example:\n"
		"  echo hello | holt sandbox write web notes/a.txt\n"
		"  holt sandbox grep --json web . hello\n",
	.main = sandbox_main,
	.has_subverbs = 1,
};
