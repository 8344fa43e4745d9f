/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SUBVERBS_H
#define CLI_SUBVERBS_H

#include "cli.h"

/* A row of a verb's table of verbs, which ends with one without a name. */
struct cli_subverb {
	const char *name;
	const char *help; /* NULL: that of the verb */
	/* One of these two; argv[0] is the name. */
	int (*in_home)(int argc, char **argv, holt_home *home);
	int (*main)(int argc, char **argv, const void *user);
	const void *user; /* handed to main */
};

/* Do what the first word says. Returns the exit status. */
int cli_subverbs(
	const struct cli_verb *verb, const struct cli_subverb *table, int argc, char **argv);

#endif
