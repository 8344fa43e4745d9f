/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <getopt.h>

static int inspect_box(holt_box *box, const void *user, holt_error **reterr)
{
	static int printed;
	const char *json = NULL;

	(void)user;
	const int r = holt_box_json(box, &json, reterr);
	if (r < 0)
		return r;
	(void)printf("%s\n", printed++ ? "," : "");
	cli_json_print(stdout, json, 1, 1);
	return 0;
}

static int inspect_main(int argc, char **argv)
{
	int status = cli_no_options("inspect", argc, argv);

	if (status)
		return status;
	if (optind == argc)
		return cli_usage(CLI_USAGE, "inspect", "no BOX given");
	(void)printf("[");
	status = cli_each_box("inspect", argv + optind, inspect_box, NULL, CLI_EACH_QUIET);
	(void)printf("\n]\n");
	if (status == 0)
		return cli_finish();
	(void)fflush(stdout); /* whatever failed has been told */
	return status;
}

const struct cli_verb verb_inspect = {
	.name = "inspect",
	.summary = "print all that is known about boxes",
	.group = CLI_LOOKING,
	.help = "Usage: holt inspect BOX...\n\n"
		"Prints one JSON array with an object for each box.\n\n"
		"Example:\n"
		"  holt inspect web | jq '.[0].state.status'\n",
	.main = inspect_main,
};
