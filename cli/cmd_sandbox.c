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

/* A sandbox while a verb works with it. */
struct opened {
	struct pool pool;
	char id[HOLT_SANDBOX_ID_MAX + 1]; /* that we hold, or "" */
	holt_box *box;
	holt_sandbox *sandbox;
};

static int open_box(struct opened *o, const struct sandbox_args *a, holt_error **reterr)
{
	int r = pool_find_box(&o->pool, a->box, &o->box, reterr);

	if (r == 0)
		r = holt_sandbox_open(o->box, &a->open, &o->sandbox, reterr);
	return r;
}

/* The sandbox of a user's thread. */
static int open_scope(struct opened *o, const struct sandbox_args *a, holt_error **reterr)
{
	int r = pool_provider(&o->pool, &a->open, reterr);

	if (r == 0)
		r = sandbox_acquire_scope(&o->pool, a, NULL, o->id, reterr);
	if (r < 0)
		return r;
	o->sandbox = holt_provider_get(o->pool.provider, o->id);
	if (!o->sandbox)
		return sandbox_failed(
			reterr, HOLT_ECLOSED, 0, "the sandbox ended just now; try again");
	return 0;
}

static void close_opened(struct opened *o)
{
	holt_sandbox_free(o->sandbox);
	holt_box_close(o->box);
	if (*o->id)
		(void)holt_provider_release(o->pool.provider, o->id, NULL);
	pool_close(&o->pool);
}

int sandbox_run(const struct sandbox_args *a, sandbox_fn *call)
{
	struct opened o = {0};
	holt_error *error = NULL;
	int failure = a->failure ? a->failure : CLI_RUN_FAILED;
	int status = -1;

	int r = pool_open(&a->pool, &o.pool, &error);
	if (r == 0)
		r = a->for_user ? open_scope(&o, a, &error) : open_box(&o, a, &error);
	if (r == 0) {
		status = call(o.sandbox, a, &error);
		if (status < 0 && !a->failure)
			failure = holt_error_exit_code(error);
	}
	close_opened(&o);
	if (status < 0)
		return cli_error(failure, error);
	if (cli_finish() != CLI_OK)
		return failure;
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
				SANDBOX_TIMEOUT | SANDBOX_USER | SANDBOX_WORKDIR | SANDBOX_SCOPE | \
					(options),                                                 \
				call                                                               \
		}                                                                                  \
	}

#define POOL_VERB(verb, words, options, call, help)                                                \
	{                                                                                          \
		verb, help, NULL, sandbox_pool_main, &(const struct sandbox_pool_verb)             \
		{                                                                                  \
			{"sandbox " verb, words, SANDBOX_CONFIG | SANDBOX_POOL | (options), NULL}, \
				call                                                               \
		}                                                                                  \
	}

static const struct cli_subverb subverbs[] = {
	POOL_VERB("acquire", "", SANDBOX_SCOPE | SANDBOX_JSON | SANDBOX_TIMEOUT | SANDBOX_TTL,
		sandbox_acquire, sandbox_acquire_help),
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
	POOL_VERB("ps", "", SANDBOX_JSON | SANDBOX_QUIET, sandbox_ps, sandbox_ps_help),
	VERB("read", "BOX PATH", SANDBOX_LINES, sandbox_read, sandbox_read_help),
	POOL_VERB("release", "ID", SANDBOX_FOR | SANDBOX_THREAD, sandbox_release,
		sandbox_release_help),
	VERB("rm", "BOX PATH", SANDBOX_FORCE | SANDBOX_RECURSIVE, sandbox_remove,
		sandbox_remove_help),
	VERB("stat", "BOX PATH", SANDBOX_JSON | SANDBOX_NO_FOLLOW, sandbox_stat, sandbox_stat_help),
	POOL_VERB("stats", "", SANDBOX_JSON, sandbox_stats, sandbox_stats_help),
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
		"       holt sandbox grep [OPTIONS] BOX ROOT PATTERN\n"
		"       holt sandbox acquire [OPTIONS] --for USER --thread T\n"
		"       holt sandbox release [OPTIONS] ID\n"
		"       holt sandbox ps [OPTIONS]\n"
		"       holt sandbox stats [OPTIONS]\n\n"
		"Works in a box as its user, from its directory, also where the image has no\n"
		"programs but a shell, or not even that. All have --timeout TIME (10m; 0 for\n"
		"none), -u USER and -w DIR. 'holt sandbox VERB --help' tells more.\n\n"
		"BOX is a name, an id, or the id of a sandbox of the pool. In its place may stand\n"
		"--for USER --thread T, anywhere: the sandbox that this thread of this user has\n"
		"in the pool. It is made where there is none, held meanwhile, and then waits for\n"
		"the next call, whichever process makes that. These go with it:\n"
		"      --config FILE   configuration ($HOLT_CONFIG, else the defaults); see\n"
		"                      holt-config(1)\n"
		"      --image IMAGE   what a new one is made of (that of the configuration)\n"
		"      --pool NAME     of that pool (that of the configuration)\n"
		"      --pull WHEN     ask the registry for the image: missing, always or never\n"
		"                      (that of the configuration, else missing)\n\n"
		"Example:\n"
		"  echo hello | holt sandbox write web notes/a.txt\n"
		"  holt sandbox grep --json web . hello\n"
		"  holt sandbox exec --for ann --thread 7 --image demo 'date >>log; cat log'\n",
	.main = sandbox_main,
	.has_subverbs = 1,
};
