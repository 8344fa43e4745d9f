/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_EXEC_ARGS_H
#define CLI_EXEC_ARGS_H

#include "foreground.h"

#define ENV_MAX       8192 /* variables of one command */
#define ENV_FILES_MAX 16
#define ENV_BYTES_MAX 2097152 /* of all files; one command cannot have more */

/* Options of a program, as run and exec have them. One per process: it is large. */
struct exec_args {
	struct foreground foreground;
	holt_exec_options exec;
	size_t n_env;
	size_t n_env_files;
	const char *env[ENV_MAX + 1];
	const char *env_files[ENV_FILES_MAX];
};

/* The values of long options without a letter; verbs of their own begin at OPT_OF_VERB. */
enum exec_option { OPT_ENV_FILE = 256, OPT_PIDS_LIMIT, OPT_REPLAY_SIZE, OPT_TIMEOUT, OPT_OF_VERB };

/* Take one option of getopt_long. Returns 0, or the status of a usage error. */
int exec_args_take(struct exec_args *a, int c, char **argv);

/* After the last one. The rest of the options is then filled in, but for argv. Returns as above. */
int exec_args_finish(struct exec_args *a);

/* cli_usage about an option of the verb. */
int exec_args_bad(const struct exec_args *a, const char *what, const char *value);

#endif
