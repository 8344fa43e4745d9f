/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PULL_ARGS_H
#define CLI_PULL_ARGS_H

#include "cli.h"

#define PULL_PASSWORD_MAX 65536 /* tokens of some registries have thousands of bytes */

/* The command line of a pull. */
struct pull_args {
	holt_pull_options pull;
	const char *ref;
	int json;
	int quiet;
	int password_stdin;
};

/* @verb is what usage errors call it. Returns CLI_OK or CLI_USAGE. */
int pull_args_parse(struct pull_args *a, const char *verb, int argc, char **argv);

/* The password that --password-stdin means: all of @in, without the newline at its end. Returns
 * CLI_OK, or CLI_FAILED after telling why. pull_args_forget overwrites it. */
int pull_args_password(struct pull_args *a, FILE *in);
void pull_args_forget(struct pull_args *a);

#endif
