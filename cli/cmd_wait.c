/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <getopt.h>

static int wait_box(holt_box *box, const void *user, holt_error **reterr)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;

	(void)user;
	const int r = holt_box_wait(box, HOLT_FOREVER, NULL, &info, reterr);
	if (r == 0)
		(void)printf("%d\n", info.exit_code);
	return r;
}

static int wait_main(int argc, char **argv)
{
	const int status = cli_no_options("wait", argc, argv);

	return status ? status
		      : cli_each_box("wait", argv + optind, wait_box, NULL, CLI_EACH_QUIET);
}

const struct cli_verb verb_wait = {
	.name = "wait",
	.summary = "wait for boxes to end",
	.group = CLI_BOXES,
	.help = "Usage: holt wait BOX...\n\n"
		"Waits for each box in turn and prints the exit code of its program: 137 for a\n"
		"box that was killed, 125 for one that failed. One that does not run has ended.\n\n"
		"Example:\n"
		"  code=$(holt wait web)\n",
	.main = wait_main,
};
