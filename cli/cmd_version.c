/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <stdio.h>

static int version_main(int argc, char **argv)
{
	if (argc > 1)
		return cli_usage(CLI_USAGE, "version", "unexpected argument '%.64s'", argv[1]);
	(void)printf("holt %s\n", holt_version());
	return cli_finish();
}

const struct cli_verb verb_version = {
	.name = "version",
	.summary = "print the version",
	.group = CLI_HOST,
	.help = "Usage: holt version\n\nPrints the version of holt.\n\nExample:\n  holt version\n",
	.main = version_main,
};
