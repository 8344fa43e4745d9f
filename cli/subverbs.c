/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs that have verbs of their own: "holt image ls". */
#include "subverbs.h"

#include <string.h>

#define NAMES_MAX 256

/* "a, b or c". */
static void list_names(const struct cli_subverb *table, char *dst, size_t cap)
{
	size_t len = 0;

	dst[0] = 0;
	for (; table->name && len < cap; table++) {
		const char *const join = !len ? "" : table[1].name ? ", " : " or ";
		const int n = snprintf(dst + len, cap - len, "%s%s", join, table->name);

		len += n > 0 ? (size_t)n : 0;
	}
}

static int unknown(const struct cli_verb *verb, const struct cli_subverb *table, const char *name)
{
	char names[NAMES_MAX];

	list_names(table, names, sizeof names);
	return *name ? cli_usage(CLI_USAGE, verb->name, "'%.64s' is not %s", name, names)
		     : cli_usage(CLI_USAGE, verb->name, "say %s", names);
}

static int run_in_home(const struct cli_subverb *sub, int argc, char **argv)
{
	holt_home *home = NULL;
	holt_error *error = NULL;

	if (holt_home_open(NULL, &home, &error) < 0)
		return cli_error(CLI_FAILED, error);
	const int status = sub->in_home(argc, argv, home);
	holt_home_close(home);
	return status;
}

int cli_subverbs(
	const struct cli_verb *verb, const struct cli_subverb *table, int argc, char **argv)
{
	const char *const name = argc > 1 ? argv[1] : "";
	const struct cli_subverb *sub = table;

	while (sub->name && strcmp(sub->name, name) != 0)
		sub++;
	if (!sub->name)
		return unknown(verb, table, name);
	if (argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0)) {
		(void)fputs(sub->help ? sub->help : verb->help, stdout);
		return cli_finish();
	}
	return sub->main ? sub->main(argc - 1, argv + 1, sub->user)
			 : run_in_home(sub, argc - 1, argv + 1);
}
