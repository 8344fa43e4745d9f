/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs that remove boxes: rm and prune. */
#include "cli.h"

#include <getopt.h>
#include <unistd.h>

/* The only option of both. Returns a status. */
static int parse_force(const char *verb, int argc, char **argv, int *ret)
{
	static const struct option options[] = {{"force", no_argument, NULL, 'f'}, {0}};
	int c;

	*ret = 0;
	while ((c = getopt_long(argc, argv, ":f", options, NULL)) != -1) {
		if (c != 'f')
			return cli_bad_option(CLI_USAGE, verb, c, argv);
		*ret = 1;
	}
	return CLI_OK;
}

static int rm_box(holt_box *box, const void *force, holt_error **reterr)
{
	return holt_box_remove(box, *(const int *)force, reterr);
}

static int rm_main(int argc, char **argv)
{
	int force = 0;
	const int status = parse_force("rm", argc, argv, &force);

	if (status)
		return status;
	return cli_each_box("rm", argv + optind, rm_box, &force, force ? CLI_EACH_MAY_MISS : 0);
}

/* Returns a status. One that has been started, or removed, meanwhile is not to be pruned. */
static int prune_box(holt_box *box)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;
	holt_error *error = NULL;

	if (holt_box_get_info(box, &info) < 0 ||
		(info.state != HOLT_BOX_EXITED && info.state != HOLT_BOX_CREATED))
		return CLI_OK;
	const int r = holt_box_remove(box, 0, &error);
	if (r == 0)
		(void)printf("%s\n", holt_box_id(box));
	if (r == 0 || r == -HOLT_EBUSY) {
		holt_error_free(error);
		return CLI_OK;
	}
	return cli_error(CLI_FAILED, error);
}

static int prune_all(void)
{
	holt_home *home = NULL;
	holt_box **boxes = NULL;
	holt_error *error = NULL;
	size_t n = 0;
	int status = CLI_OK;

	if (holt_home_open(NULL, &home, &error) < 0)
		return cli_error(CLI_FAILED, error);
	if (holt_box_list(home, &boxes, &n, &error) < 0)
		status = cli_error(CLI_FAILED, error);
	for (size_t i = 0; i < n; i++) {
		if (prune_box(boxes[i]) != CLI_OK)
			status = CLI_FAILED;
	}
	holt_box_list_free(boxes, n);
	holt_home_close(home);
	return cli_finish_with(status);
}

static int is_sure(void)
{
	(void)fputs("Remove every box that does not run, with its disk? [y/N] ", stdout);
	(void)fflush(stdout);
	const int answer = getchar();
	return answer == 'y' || answer == 'Y';
}

static int prune_main(int argc, char **argv)
{
	int force = 0;
	const int status = parse_force("prune", argc, argv, &force);

	if (status)
		return status;
	if (optind < argc)
		return cli_usage(CLI_USAGE, "prune", "unexpected argument '%.64s'", argv[optind]);
	if (!force && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
		return cli_usage(
			CLI_USAGE, "prune", "there is no terminal to ask at; -f does not ask");
	return force || is_sure() ? prune_all() : CLI_FAILED;
}

const struct cli_verb verb_prune = {
	.name = "prune",
	.summary = "remove all boxes that do not run",
	.group = CLI_BOXES,
	.help = "Usage: holt prune [-f]\n\n"
		"Removes every box that does not run, with its disk and its log, and prints their\n"
		"ids.\n\n"
		"Options:\n"
		"  -f, --force  do not ask\n\n"
		"Example:\n"
		"  holt prune -f\n",
	.main = prune_main,
};

const struct cli_verb verb_rm = {
	.name = "rm",
	.summary = "remove boxes",
	.group = CLI_BOXES,
	.help = "Usage: holt rm [-f] BOX...\n\n"
		"Removes boxes that do not run, with their disks and their logs.\n\n"
		"Options:\n"
		"  -f, --force  kill those that run; one that is not there is no failure\n\n"
		"Example:\n"
		"  holt rm -f web\n",
	.main = rm_main,
};
