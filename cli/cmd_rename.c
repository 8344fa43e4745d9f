/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <getopt.h>

static int rename_main(int argc, char **argv)
{
	holt_home *home = NULL;
	holt_box *box = NULL;
	holt_error *error = NULL;

	int status = cli_no_options("rename", argc, argv);
	if (status)
		return status;
	if (argc - optind != 2)
		return cli_usage(CLI_USAGE, "rename", "takes one BOX and its new NAME");
	status = cli_open_box(argv[optind], &home, &box);
	if (status)
		return status;
	if (holt_box_rename(box, argv[optind + 1], &error) < 0)
		status = cli_error(CLI_FAILED, error);
	cli_close_box(home, box);
	return status;
}

const struct cli_verb verb_rename = {
	.name = "rename",
	.summary = "give a box another name",
	.group = CLI_BOXES,
	.help = "Usage: holt rename BOX NAME\n\n"
		"NAME has letters, digits, '_', '.' and '-', at most 63.\n\n"
		"Example:\n"
		"  holt rename web web-old\n",
	.main = rename_main,
};
