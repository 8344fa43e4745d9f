/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SANDBOX_VERBS_H
#define CLI_SANDBOX_VERBS_H

#include "cli_pool.h"
#include "subverbs.h"

/*
 * holt sandbox: each of its verbs is a row in cmd_sandbox.c, which says what options and words it
 * has, and a function that makes one call of the library with them. Only exec parses by itself,
 * since its words and exit codes are those of 'holt exec'.
 */
enum sandbox_option {
	SANDBOX_ALL = 1 << 0,
	SANDBOX_CASE_SENSITIVE = 1 << 1,
	SANDBOX_DEPTH = 1 << 2,
	SANDBOX_DIRS = 1 << 3,
	SANDBOX_EXCLUSIVE = 1 << 4,
	SANDBOX_FORCE = 1 << 5,
	SANDBOX_GLOB = 1 << 6,
	SANDBOX_JSON = 1 << 7,
	SANDBOX_LINES = 1 << 8,
	SANDBOX_LITERAL = 1 << 9,
	SANDBOX_MAX_ENTRIES = 1 << 10,
	SANDBOX_MAX_RESULTS = 1 << 11,
	SANDBOX_NO_CLOBBER = 1 << 12,
	SANDBOX_NO_FOLLOW = 1 << 13,
	SANDBOX_NULL = 1 << 14,
	SANDBOX_PARENTS = 1 << 15,
	SANDBOX_RECURSIVE = 1 << 16,
	SANDBOX_TIMEOUT = 1 << 17,
	SANDBOX_USER = 1 << 18,
	SANDBOX_USER_DATA = 1 << 19,
	SANDBOX_WORKDIR = 1 << 20,
	/* Which pool, and whose sandbox of it. */
	SANDBOX_CONFIG = 1 << 21,
	SANDBOX_FOR = 1 << 22,
	SANDBOX_IMAGE = 1 << 23,
	SANDBOX_POOL = 1 << 24,
	SANDBOX_THREAD = 1 << 25,
	SANDBOX_QUIET = 1 << 26,
	SANDBOX_TTL = 1 << 27,
	SANDBOX_PULL = 1 << 28
};

#define SANDBOX_SCOPE                                                                 \
	(SANDBOX_CONFIG | SANDBOX_FOR | SANDBOX_IMAGE | SANDBOX_POOL | SANDBOX_PULL | \
		SANDBOX_THREAD)

#define WORDS_MAX 2

/* What a command line says, in the words of the library's options. */
struct sandbox_args {
	const char *verb; /* "sandbox read" */
	int failure; /* exit status where holt fails; 0: that of the error, as exec has it */
	const char *box; /* or NULL: that of a user's thread */
	const char *for_user, *thread;
	struct pool_choice pool;
	uint64_t ttl_ms;
	const char *words[WORDS_MAX]; /* behind the box */
	uint32_t given; /* enum sandbox_option */
	uint32_t flags; /* of the call */
	uint64_t timeout_ms;
	int64_t first_line, last_line;
	uint32_t depth;
	uint32_t max; /* entries or results */
	const char *glob;
	holt_sandbox_options open;
};

/* Make the call and print what comes of it. Returns an exit status, or -1 with an error. */
typedef int sandbox_fn(holt_sandbox *sandbox, const struct sandbox_args *a, holt_error **reterr);

struct sandbox_verb {
	const char *name; /* "sandbox read" */
	const char *words; /* "BOX PATH"; --for and --thread stand for the first one */
	uint32_t options; /* enum sandbox_option */
	sandbox_fn *call;
};

/* Returns CLI_OK, or CLI_USAGE after telling. */
int sandbox_args_parse(
	struct sandbox_args *a, const struct sandbox_verb *verb, int argc, char **argv);

/* Whether the options that say whose sandbox it is go together; @failure is the status where they
 * do not. */
int sandbox_args_check_scope(const struct sandbox_args *a, int failure);

/* Make a sandbox of the box, or of the one of a user's thread, which is held meanwhile, and call
 * @call. Returns the exit status; tells every error. */
int sandbox_run(const struct sandbox_args *a, sandbox_fn *call);

/* The call was ended by us: make the reason its error. @errnum may be 0. Returns -1. */
int sandbox_failed(holt_error **reterr, int code, int errnum, const char *what);

const char *sandbox_type_name(int32_t type);

int sandbox_exec_main(int argc, char **argv, const void *user);

/* What is done with a pool. As a sandbox_fn. */
typedef int sandbox_pool_fn(struct pool *pool, const struct sandbox_args *a, holt_error **reterr);

struct sandbox_pool_verb {
	struct sandbox_verb args; /* without a call */
	sandbox_pool_fn *call;
};

int sandbox_pool_main(int argc, char **argv, const void *user);

/* As holt_provider_acquire, for --for and --thread. */
int sandbox_acquire_scope(struct pool *pool, const struct sandbox_args *a,
	const holt_acquire_options *options, char ret_id[HOLT_SANDBOX_ID_MAX + 1],
	holt_error **reterr);

sandbox_pool_fn sandbox_acquire, sandbox_ps, sandbox_release, sandbox_stats;

sandbox_fn sandbox_append, sandbox_download, sandbox_glob, sandbox_grep, sandbox_list,
	sandbox_make_directory, sandbox_move, sandbox_read, sandbox_remove, sandbox_stat,
	sandbox_write;

extern const char sandbox_acquire_help[], sandbox_append_help[], sandbox_download_help[],
	sandbox_exec_help[], sandbox_glob_help[], sandbox_grep_help[], sandbox_list_help[],
	sandbox_make_directory_help[], sandbox_move_help[], sandbox_read_help[], sandbox_ps_help[],
	sandbox_release_help[], sandbox_remove_help[], sandbox_stat_help[], sandbox_stats_help[],
	sandbox_update_help[], sandbox_write_help[];

/* The options that all have, at the end of a list. */
#define SANDBOX_COMMON_HELP                                                          \
	"      --timeout TIME  give up after TIME, such as 500ms, 10 or 2m (10m);\n" \
	"                      0: never\n"                                           \
	"  -u, --user USER     name or number, with :GROUP if wanted\n"              \
	"  -w, --workdir DIR   where relative paths begin\n"                         \
	"With --for USER --thread T in place of BOX: see 'holt sandbox --help'.\n\n"

#endif
