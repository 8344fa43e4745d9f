/* SPDX-License-Identifier: Apache-2.0 */
/* holt system df: what the home takes of the disk, and what of that could go. */
#include "subverbs.h"

#include <getopt.h>

struct kind {
	const char *title;
	const char *name;
	const holt_space *space;
};

static int print_json(const struct kind *kinds, size_t n)
{
	(void)printf("{");
	for (size_t i = 0; i < n; i++) {
		const holt_space *s = kinds[i].space;

		(void)printf("%s\"%s\": {\"count\": %llu, \"active\": %llu, \"bytes\": %llu, "
			     "\"reclaimable_bytes\": %llu}",
			i ? ",\n " : "", kinds[i].name, (unsigned long long)s->count,
			(unsigned long long)s->active, (unsigned long long)s->bytes,
			(unsigned long long)s->reclaimable_bytes);
	}
	(void)printf("}\n");
	return 0;
}

/* "1.2 GB (34%)" */
static void format_part(char *dst, size_t size, const holt_space *s)
{
	char bytes[32];

	cli_format_bytes(bytes, sizeof bytes, s->reclaimable_bytes, 1000);
	if (s->bytes)
		(void)snprintf(dst, size, "%s (%d%%)", bytes,
			(int)(100.0 * (double)s->reclaimable_bytes / (double)s->bytes));
	else
		(void)snprintf(dst, size, "%s", bytes);
}

static int print_table(const struct kind *kinds, size_t n)
{
	static const char *const heads[] = {"TYPE", "TOTAL", "ACTIVE", "SIZE", "RECLAIMABLE", NULL};
	struct cli_table t;

	cli_table_open(&t, heads);
	for (size_t i = 0; i < n; i++) {
		const holt_space *s = kinds[i].space;
		char total[24];
		char active[24];
		char size[32];
		char part[48];

		(void)snprintf(total, sizeof total, "%llu", (unsigned long long)s->count);
		(void)snprintf(active, sizeof active, "%llu", (unsigned long long)s->active);
		cli_format_bytes(size, sizeof size, s->bytes, 1000);
		format_part(part, sizeof part, s);
		cli_table_row(&t, (const char *const[]){kinds[i].title, total, active, size, part});
	}
	return cli_table_close(&t, "\n");
}

static int df_main(int argc, char **argv, holt_home *home)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {0}};
	holt_home_space space = HOLT_HOME_SPACE_INIT;
	const struct kind kinds[] = {{"Images", "images", &space.images},
		{"Blobs", "blobs", &space.blobs}, {"Templates", "templates", &space.templates},
		{"Boxes", "boxes", &space.boxes}};
	holt_error *error = NULL;
	int json = 0;
	int c;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c != 'j')
			return cli_bad_option(CLI_USAGE, "system", c, argv);
		json = 1;
	}
	if (optind < argc)
		return cli_usage(CLI_USAGE, "system", "df takes no argument");
	if (holt_home_get_space(home, &space, &error) < 0)
		return cli_error(CLI_FAILED, error);
	if ((json ? print_json : print_table)(kinds, sizeof kinds / sizeof kinds[0]) < 0)
		return CLI_FAILED;
	return cli_finish();
}

static int system_main(int argc, char **argv)
{
	static const struct cli_subverb subverbs[] = {
		{.name = "df", .in_home = df_main},
		{0},
	};

	return cli_subverbs(&verb_system, subverbs, argc, argv);
}

const struct cli_verb verb_system = {
	.name = "system",
	.summary = "tell what the home takes of the disk",
	.group = CLI_HOST,
	.help = "Usage: holt system df [--json]\n\n"
		"Prints what images, pulled layers (blobs), templates and boxes take of the\n"
		"disk, and how much of it belongs to what is not in use: 'holt image prune',\n"
		"'holt template prune' and 'holt prune' remove it.\n\n"
		"Options:\n"
		"  --json  print a JSON object with bytes\n\n"
		"Example:\n"
		"  holt system df --json | jq .images.reclaimable_bytes\n",
	.main = system_main,
	.has_subverbs = 1,
};
