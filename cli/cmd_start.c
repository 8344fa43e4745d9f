/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <getopt.h>

/* One that runs already is fine, as it is for docker. */
static int start_box(holt_box *box, const void *user, holt_error **reterr)
{
	holt_start_options options = HOLT_START_OPTIONS_INIT;
	holt_box_info info = HOLT_BOX_INFO_INIT;

	(void)user;
	options.flags = HOLT_START_DETACHED;
	const int r = holt_box_start(box, &options, NULL, reterr);
	if (r != -HOLT_EBUSY || holt_box_get_info(box, &info) < 0 || info.state != HOLT_BOX_RUNNING)
		return r;
	holt_error_free(*reterr);
	*reterr = NULL;
	return 0;
}

static int start_main(int argc, char **argv)
{
	const int status = cli_no_options("start", argc, argv);

	return status ? status : cli_each_box("start", argv + optind, start_box, NULL, 0);
}

const struct cli_verb verb_start = {
	.name = "start",
	.summary = "start boxes that are stopped",
	.group = CLI_BOXES,
	.help = "Usage: holt start BOX...\n\n"
		"Boots each box with the disk it had, and starts its program again; the program's\n"
		"output goes to 'holt logs'. A box that runs already is left as it is.\n\n"
		"Example:\n"
		"  holt start web && holt logs -f web\n",
	.main = start_main,
};
