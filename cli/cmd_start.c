/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <getopt.h>

/* One that runs already is fine, as it is for docker. */
static int start_box(holt_box *box, const void *flags, holt_error **reterr)
{
	holt_start_options options = HOLT_START_OPTIONS_INIT;
	holt_box_info info = HOLT_BOX_INFO_INIT;

	options.flags = *(const uint32_t *)flags;
	const int r = holt_box_start(box, &options, NULL, reterr);
	if (r != -HOLT_EBUSY || holt_box_get_info(box, &info) < 0 || info.state != HOLT_BOX_RUNNING)
		return r;
	holt_error_free(*reterr);
	*reterr = NULL;
	return 0;
}

static int start_main(int argc, char **argv)
{
	static const struct option options[] = {{"no-template", no_argument, NULL, 'n'}, {0}};
	uint32_t flags = HOLT_START_DETACHED;
	int c;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c != 'n')
			return cli_bad_option(CLI_USAGE, "start", c, argv);
		flags |= HOLT_START_NO_TEMPLATE;
	}
	return cli_each_box("start", argv + optind, start_box, &flags, 0);
}

const struct cli_verb verb_start = {
	.name = "start",
	.summary = "start boxes that are stopped",
	.group = CLI_BOXES,
	.help = "Usage: holt start [--no-template] BOX...\n\n"
		"Starts each box with the disk it had, and its program; the program's output goes\n"
		"to 'holt logs'. A box that runs already is left as it is.\n\n"
		"Options:\n"
		"  --no-template  boot, also where it could begin as a copy of a template\n\n"
		"Example:\n"
		"  holt start web && holt logs -f web\n",
	.main = start_main,
};
