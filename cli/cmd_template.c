/* SPDX-License-Identifier: Apache-2.0 */
/* holt template: the saved machines that boxes begin as copies of. */
#include "pull_view.h"
#include "subverbs.h"

#include <getopt.h>
#include <string.h>

#define ID_COLUMNS 12
#define CELL_MAX   4096

/* ---- build ---- */

static int bad(const char *what, const char *value)
{
	return cli_usage(CLI_USAGE, "template", "%s '%.64s'", what, value);
}

static int take_shape(int c, holt_template_options *o)
{
	switch (c) {
	case 'b':
		o->flags |= HOLT_TEMPLATE_BARE;
		return CLI_OK;
	case 'c':
		return cli_parse_count(optarg, &o->cpus) < 0
			       ? bad("--cpus is not a whole number:", optarg)
			       : CLI_OK;
	case 'd':
		return cli_parse_bytes(optarg, &o->disk_bytes) < 0
			       ? bad("--disk is not a size such as 10g:", optarg)
			       : CLI_OK;
	default: /* 'm' */
		return cli_parse_mib(optarg, &o->memory_mib) < 0
			       ? bad("--memory is not a size such as 512m or 2g:", optarg)
			       : CLI_OK;
	}
}

static int take_pull(int32_t *ret)
{
	return pull_view_policy(optarg, ret) < 0
		       ? bad("--pull is not missing, always or never:", optarg)
		       : CLI_OK;
}

static int build(
	holt_home *home, const char *image, const holt_template_options *o, int32_t pull, int quiet)
{
	holt_template *tpl = NULL;
	holt_error *error = NULL;

	if (pull_view_have(home, image, pull, quiet, NULL, &error) < 0 ||
		holt_template_build(home, image, o, &tpl, &error) < 0)
		return cli_error(CLI_FAILED, error);
	(void)printf("%s\n", holt_template_id(tpl));
	holt_template_free(tpl);
	return cli_finish();
}

static int build_main(int argc, char **argv, holt_home *home)
{
	static const struct option options[] = {{"bare", no_argument, NULL, 'b'},
		{"cpus", required_argument, NULL, 'c'}, {"disk", required_argument, NULL, 'd'},
		{"memory", required_argument, NULL, 'm'}, {"pull", required_argument, NULL, 'p'},
		{"quiet", no_argument, NULL, 'q'}, {0}};
	holt_template_options o = HOLT_TEMPLATE_OPTIONS_INIT;
	int32_t pull = HOLT_PULL_MISSING;
	int quiet = 0;
	int c;

	while ((c = getopt_long(argc, argv, ":m:q", options, NULL)) != -1) {
		int status = CLI_OK;

		if (c == 'q')
			quiet = 1;
		else if (c == 'p')
			status = take_pull(&pull);
		else if (c == '?' || c == ':')
			status = cli_bad_option(CLI_USAGE, "template", c, argv);
		else
			status = take_shape(c, &o);
		if (status)
			return status;
	}
	if (optind + 1 != argc)
		return cli_usage(CLI_USAGE, "template", "build takes one IMAGE");
	if (quiet)
		cli_be_quiet();
	return build(home, argv[optind], &o, pull, quiet);
}

/* ---- ls ---- */

static void add_row(struct cli_table *table, const holt_template *tpl, int64_t now_s)
{
	static char image[CELL_MAX];
	holt_template_info info = HOLT_TEMPLATE_INFO_INIT;
	char id[ID_COLUMNS + 1], memory[32], cpus[16], disk[32], size[32], spares[32], age[64],
		used[80];

	(void)holt_template_get_info(tpl, &info);
	const char *const kind = info.flags & HOLT_TEMPLATE_BARE ? "bare" : "full";
	const char *const cells[] = {id, image, kind, memory, cpus, disk, size, spares, used};
	(void)snprintf(id, sizeof id, "%s", holt_template_id(tpl));
	(void)cli_escape_str(image, sizeof image, holt_template_image(tpl));
	cli_format_bytes(memory, sizeof memory, (uint64_t)info.memory_mib << 20, 1024);
	(void)snprintf(cpus, sizeof cpus, "%u", info.cpus);
	cli_format_bytes(disk, sizeof disk, info.disk_bytes, 1024);
	cli_format_bytes(size, sizeof size, info.size_bytes, 1000);
	(void)snprintf(spares, sizeof spares, "%u/%u", info.spares_ready, info.spares_wanted);
	cli_format_age(age, sizeof age, now_s - info.used_s);
	(void)snprintf(used, sizeof used, "%s ago", age);
	cli_table_row(table, cells);
}

static int print_table(holt_template **list, size_t n)
{
	static const char *const heads[] = {"TEMPLATE ID", "IMAGE", "KIND", "MEMORY", "CPUS",
		"DISK", "SIZE", "SPARES", "USED", NULL};
	const int64_t now_s = (int64_t)(cli_now_ns() / 1000000000u);
	struct cli_table table;

	cli_table_open(&table, heads);
	for (size_t i = 0; i < n; i++)
		add_row(&table, list[i], now_s);
	return cli_finish_with(cli_table_close(&table, "\n"));
}

static int print_json(holt_template **list, size_t n)
{
	(void)printf("[");
	for (size_t i = 0; i < n; i++)
		(void)printf("%s%s", i ? ",\n" : "", holt_template_json(list[i]));
	(void)printf("]\n");
	return cli_finish();
}

static int print_ids(holt_template **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)printf("%s\n", holt_template_id(list[i]));
	return cli_finish();
}

static int ls_main(int argc, char **argv, holt_home *home)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'}, {"quiet", no_argument, NULL, 'q'}, {0}};
	int (*print)(holt_template * *list, size_t n) = print_table;
	holt_template **list = NULL;
	holt_error *error = NULL;
	size_t n = 0;
	int c;

	while ((c = getopt_long(argc, argv, ":q", options, NULL)) != -1) {
		if (c == 'j')
			print = print_json;
		else if (c == 'q')
			print = print_ids;
		else
			return cli_bad_option(CLI_USAGE, "template", c, argv);
	}
	if (optind < argc)
		return cli_usage(CLI_USAGE, "template", "ls takes no argument");
	if (holt_template_list(home, &list, &n, &error) < 0)
		return cli_error(CLI_FAILED, error);
	const int status = print(list, n);
	holt_template_list_free(list, n);
	return status;
}

/* ---- rm and prune ---- */

static int rm_main(int argc, char **argv, holt_home *home)
{
	int status = cli_no_options("template", argc, argv);

	if (status)
		return status;
	if (optind == argc)
		return cli_usage(CLI_USAGE, "template", "rm takes one or more TEMPLATEs");
	for (int i = optind; i < argc; i++) {
		holt_error *error = NULL;

		if (holt_template_remove(home, argv[i], &error) < 0)
			status = cli_error(CLI_FAILED, error);
		else
			(void)printf("%s\n", argv[i]);
	}
	return cli_finish_with(status);
}

static int prune(holt_home *home, uint64_t max_bytes)
{
	holt_error *error = NULL;
	uint64_t bytes = 0;
	size_t n = 0;
	char size[32];

	if (holt_template_prune(home, max_bytes, &n, &bytes, &error) < 0)
		return cli_error(CLI_FAILED, error);
	cli_format_bytes(size, sizeof size, bytes, 1000);
	(void)printf("%zu removed, %s\n", n, size);
	return cli_finish();
}

static int prune_main(int argc, char **argv, holt_home *home)
{
	static const struct option options[] = {{"max", required_argument, NULL, 'm'}, {0}};
	uint64_t max_bytes = HOLT_TEMPLATE_NO_LIMIT;
	int c;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c != 'm')
			return cli_bad_option(CLI_USAGE, "template", c, argv);
		if (strcmp(optarg, "0") == 0)
			max_bytes = 0;
		else if (cli_parse_bytes(optarg, &max_bytes) < 0)
			return bad("--max is not a size such as 2g:", optarg);
	}
	if (optind < argc)
		return cli_usage(CLI_USAGE, "template", "prune takes no argument");
	return prune(home, max_bytes);
}

/* ---- spares ---- */

static int spares_main(int argc, char **argv, holt_home *home)
{
	static const struct option options[] = {
		{"pull", required_argument, NULL, 'p'}, {"quiet", no_argument, NULL, 'q'}, {0}};
	holt_error *error = NULL;
	int32_t pull = HOLT_PULL_MISSING;
	uint32_t n = 0;
	int quiet = 0;
	int c;

	while ((c = getopt_long(argc, argv, ":q", options, NULL)) != -1) {
		if (c == 'q')
			quiet = 1;
		else if (c != 'p')
			return cli_bad_option(CLI_USAGE, "template", c, argv);
		else if (take_pull(&pull) != CLI_OK)
			return CLI_USAGE;
	}
	if (quiet)
		cli_be_quiet();
	if (optind + 2 != argc)
		return cli_usage(CLI_USAGE, "template", "spares takes an IMAGE and a number");
	const char *const number = argv[optind + 1];
	if (strcmp(number, "0") != 0 && cli_parse_count(number, &n) < 0)
		return bad("the number of spares is not a whole number:", number);
	if (pull_view_have(home, argv[optind], n ? pull : HOLT_PULL_NEVER, quiet, NULL, &error) <
			0 ||
		holt_template_spares(home, argv[optind], n, &error) < 0)
		return cli_error(CLI_FAILED, error);
	(void)printf("%u ready\n", n);
	return cli_finish();
}

/* ---- the verb ---- */

static int template_main(int argc, char **argv)
{
	static const struct cli_subverb subverbs[] = {
		{.name = "build", .in_home = build_main},
		{.name = "ls", .in_home = ls_main},
		{.name = "prune", .in_home = prune_main},
		{.name = "rm", .in_home = rm_main},
		{.name = "spares", .in_home = spares_main},
		{0},
	};

	return cli_subverbs(&verb_template, subverbs, argc, argv);
}

const struct cli_verb verb_template = {
	.name = "template",
	.summary = "make, list and remove the saved machines that boxes begin with",
	.group = CLI_HOST,
	.help = "Usage: holt template build [OPTIONS] IMAGE\n"
		"       holt template ls [--json] [-q]\n"
		"       holt template rm TEMPLATE...\n"
		"       holt template prune [--max SIZE]\n"
		"       holt template spares [-q] [--pull WHEN] IMAGE N\n\n"
		"A box begins as a copy of a template, if its image has one of its shape.\n"
		"The first 'holt run' makes that of the default shape. TEMPLATE is an id,\n"
		"the beginning of one, or an image, for all of its templates. prune removes those\n"
		"that are of no use any more. spares has N machines wait, started and paused.\n\n"
		"Options:\n"
		"      --bare         for 'holt start' of boxes that were started before\n"
		"      --cpus N       for boxes with N CPUs (1)\n"
		"      --disk SIZE    for boxes with such a disk (10g)\n"
		"      --json         ls: print JSON\n"
		"      --max SIZE     prune: also those used longest ago, until all take no more\n"
		"  -m, --memory SIZE  for boxes with so much memory (512m)\n"
		"      --pull WHEN    ask for IMAGE: missing (default), always or never\n"
		"  -q, --quiet        no progress; ls: ids only\n\n"
		"Example:\n"
		"  holt template build -m 2g demo && holt run -m 2g demo free\n",
	.main = template_main,
	.has_subverbs = 1,
};
