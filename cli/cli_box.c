/* SPDX-License-Identifier: Apache-2.0 */
/* Finding boxes by what the user calls them. */
#include "cli.h"

#include <getopt.h>

int cli_no_options(const char *verb, int argc, char **argv)
{
	static const struct option none[] = {{0}};
	const int c = getopt_long(argc, argv, ":", none, NULL);

	return c == -1 ? CLI_OK : cli_bad_option(CLI_USAGE, verb, c, argv);
}

/* Returns 0 or the negative code of what has been told. */
static int act_on(holt_home *home, const char *name, cli_box_fn act, const void *user)
{
	holt_box *box = NULL;
	holt_error *error = NULL;

	int r = holt_box_get(home, name, &box, &error);
	if (r == 0)
		r = act(box, user, &error);
	holt_box_close(box);
	if (r < 0)
		(void)cli_error(CLI_FAILED, error);
	return r;
}

int cli_each_box(const char *verb, char **names, cli_box_fn act, const void *user, unsigned flags)
{
	holt_home *home = NULL;
	holt_error *error = NULL;
	int status = CLI_OK;

	if (!*names)
		return cli_usage(CLI_USAGE, verb, "no BOX given");
	if (holt_home_open(NULL, &home, &error) < 0)
		return cli_error(CLI_FAILED, error);
	for (; *names; names++) {
		const int r = act_on(home, *names, act, user);

		if (r < 0 && !(r == -HOLT_ENOT_FOUND && (flags & CLI_EACH_MAY_MISS)))
			status = CLI_FAILED;
		if (r == 0 && !(flags & CLI_EACH_QUIET))
			(void)printf("%s\n", *names);
		/* One may take long: what is done is told. */
		(void)fflush(stdout);
	}
	holt_home_close(home);
	return cli_finish_with(status);
}

int cli_open_box(const char *name, holt_home **ret_home, holt_box **ret_box)
{
	holt_error *error = NULL;

	if (holt_home_open(NULL, ret_home, &error) < 0)
		return cli_error(CLI_FAILED, error);
	if (holt_box_get(*ret_home, name, ret_box, &error) < 0) {
		holt_home_close(*ret_home);
		return cli_error(CLI_FAILED, error);
	}
	return CLI_OK;
}

void cli_close_box(holt_home *home, holt_box *box)
{
	holt_box_close(box);
	holt_home_close(home);
}
