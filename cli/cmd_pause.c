/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <getopt.h>

static int pause_box(holt_box *box, const void *user, holt_error **reterr)
{
	(void)user;
	return holt_box_pause(box, reterr);
}

static int unpause_box(holt_box *box, const void *user, holt_error **reterr)
{
	(void)user;
	return holt_box_unpause(box, reterr);
}

static int pause_main(int argc, char **argv)
{
	const int status = cli_no_options("pause", argc, argv);

	return status ? status : cli_each_box("pause", argv + optind, pause_box, NULL, 0);
}

static int unpause_main(int argc, char **argv)
{
	const int status = cli_no_options("unpause", argc, argv);

	return status ? status : cli_each_box("unpause", argv + optind, unpause_box, NULL, 0);
}

const struct cli_verb verb_pause = {
	.name = "pause",
	.summary = "hold boxes where they are",
	.group = CLI_BOXES,
	.help = "Usage: holt pause BOX...\n\n"
		"A paused box uses no processor. 'holt unpause' lets it go on.\n\n"
		"Example:\n"
		"  holt pause web\n",
	.main = pause_main,
};

const struct cli_verb verb_unpause = {
	.name = "unpause",
	.summary = "let paused boxes go on",
	.group = CLI_BOXES,
	.help = "Usage: holt unpause BOX...\n\n"
		"The clock of a box is right again before any of its programs goes on.\n\n"
		"Example:\n"
		"  holt unpause web\n",
	.main = unpause_main,
};
