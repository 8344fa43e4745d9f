/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd_image.h"
#include "cmd_pull.h"
#include "subverbs.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void show_progress(uint64_t done, uint64_t total, void *user)
{
	static const unsigned mib = 1u << 20;

	(void)user;
	if (total)
		(void)fprintf(stderr, "\rimporting: %llu of %llu MiB ",
			(unsigned long long)(done / mib), (unsigned long long)(total / mib));
	else
		(void)fprintf(stderr, "\rimporting: %llu MiB ", (unsigned long long)(done / mib));
}

static int import_main(int argc, char **argv, holt_home *home)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'},
		{"name", required_argument, NULL, 'n'}, {"quiet", no_argument, NULL, 'q'}, {0}};
	holt_image_import_options o = HOLT_IMAGE_IMPORT_OPTIONS_INIT;
	holt_image *image = NULL;
	holt_error *error = NULL;
	int json = 0, quiet = 0;
	int c;

	while ((c = getopt_long(argc, argv, ":n:q", options, NULL)) != -1) {
		if (c == 'j')
			json = 1;
		else if (c == 'n')
			o.name = optarg;
		else if (c == 'q')
			quiet = 1;
		else
			return cli_bad_option(CLI_USAGE, "image", c, argv);
	}
	if (optind + 1 != argc)
		return cli_usage(CLI_USAGE, "image", "import takes one PATH");
	const int terminal = isatty(STDERR_FILENO) && !quiet;
	if (terminal)
		o.progress = show_progress;
	const int r = holt_image_import(home, argv[optind], &o, &image, &error);
	if (terminal)
		(void)fprintf(stderr, "\r%*s\r", 40, "");
	if (r < 0)
		return cli_error(CLI_FAILED, error);
	(void)printf("%s\n", json ? holt_image_json(image) : holt_image_digest(image));
	holt_image_free(image);
	return cli_finish();
}

static void print_row(const holt_image *image)
{
	const char *name = holt_image_name(image);
	const time_t when = (time_t)holt_image_imported_s(image);
	char size[32];
	char date[32] = "";
	struct tm tm;

	cli_format_bytes(size, sizeof size, holt_image_size_bytes(image), 1000);
	if (localtime_r(&when, &tm))
		(void)strftime(date, sizeof date, "%Y-%m-%d %H:%M", &tm);
	(void)printf("%-32s %.12s  %10s  %s\n", *name ? name : "<none>",
		holt_image_digest(image) + strlen("sha256:"), size, date);
}

static int ls_main(int argc, char **argv, holt_home *home)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'}, {"quiet", no_argument, NULL, 'q'}, {0}};
	holt_image **images = NULL;
	holt_error *error = NULL;
	size_t n = 0;
	int json = 0, quiet = 0;
	int c;

	while ((c = getopt_long(argc, argv, ":q", options, NULL)) != -1) {
		if (c == 'j')
			json = 1;
		else if (c == 'q')
			quiet = 1;
		else
			return cli_bad_option(CLI_USAGE, "image", c, argv);
	}
	if (optind < argc)
		return cli_usage(CLI_USAGE, "image", "ls takes no argument");
	if (holt_image_list(home, &images, &n, &error) < 0)
		return cli_error(CLI_FAILED, error);
	if (json)
		(void)printf("[");
	else if (!quiet)
		(void)printf("%-32s %-12s  %10s  %s\n", "NAME", "DIGEST", "SIZE", "IMPORTED");
	for (size_t i = 0; i < n; i++) {
		if (json)
			(void)printf("%s%s", i ? ",\n" : "", holt_image_json(images[i]));
		else if (quiet)
			(void)printf("%s\n", holt_image_digest(images[i]));
		else
			print_row(images[i]);
	}
	if (json)
		(void)printf("]\n");
	holt_image_list_free(images, n);
	return cli_finish();
}

static int inspect_main(int argc, char **argv, holt_home *home)
{
	int status = CLI_OK;
	int printed = 0;

	if (argc < 2)
		return cli_usage(CLI_USAGE, "image", "inspect takes one or more IMAGEs");
	(void)printf("[");
	for (int i = 1; i < argc; i++) {
		holt_image *image = NULL;
		holt_error *error = NULL;

		if (holt_image_get(home, argv[i], &image, &error) < 0) {
			status = cli_error(CLI_FAILED, error);
			continue;
		}
		(void)printf("%s%s", printed++ ? ",\n" : "", holt_image_json(image));
		holt_image_free(image);
	}
	(void)printf("]\n");
	return cli_finish_with(status);
}

static int rm_main(int argc, char **argv, holt_home *home)
{
	int status = CLI_OK;

	if (argc < 2)
		return cli_usage(CLI_USAGE, "image", "rm takes one or more IMAGEs");
	for (int i = 1; i < argc; i++) {
		holt_error *error = NULL;

		if (holt_image_remove(home, argv[i], &error) < 0)
			status = cli_error(CLI_FAILED, error);
		else
			(void)printf("%s\n", argv[i]);
	}
	return cli_finish_with(status);
}

static int tag_main(int argc, char **argv, holt_home *home)
{
	holt_error *error = NULL;

	if (argc != 3)
		return cli_usage(CLI_USAGE, "image", "tag takes an IMAGE and a NAME");
	if (holt_image_tag(home, argv[1], argv[2], &error) < 0)
		return cli_error(CLI_FAILED, error);
	return cli_finish();
}

struct pruned {
	int json;
	int quiet;
	int n;
};

static void tell_pruned(const char *name, const char *digest, uint64_t bytes, void *user)
{
	struct pruned *p = user;
	char size[32];

	cli_format_bytes(size, sizeof size, bytes, 1000);
	if (p->json)
		(void)printf("%s{\"digest\": \"%s\", \"name\": %s%s%s, \"bytes\": %llu}",
			p->n ? ",\n  " : "", digest, *name ? "\"" : "", *name ? name : "null",
			*name ? "\"" : "", (unsigned long long)bytes);
	else
		(void)printf("%-32s %.12s  %10s\n", *name ? name : "<none>",
			digest + strlen("sha256:"), size);
	p->n++;
}

static int prune(holt_home *home, holt_image_prune_options *o, int json)
{
	const int dry = (o->flags & HOLT_IMAGE_PRUNE_DRY_RUN) != 0;
	struct pruned p = {.json = json};
	holt_error *error = NULL;
	uint64_t bytes = 0;
	char size[32];

	o->removed = tell_pruned;
	o->user = &p;
	if (json)
		(void)printf("{\"images\": [");
	const int r = holt_image_prune(home, o, &bytes, &error);
	if (json)
		(void)printf("],\n \"bytes\": %llu}\n", (unsigned long long)bytes);
	if (r < 0)
		return cli_error(CLI_FAILED, error);
	cli_format_bytes(size, sizeof size, bytes, 1000);
	if (!json)
		(void)printf("%d %s, %s with layers that were kept\n", p.n,
			dry ? "would be removed" : "removed", size);
	return cli_finish();
}

static const char prune_help[] =
	"Usage: holt image prune [-a] [--max SIZE] [--dry-run] [--json]\n\n"
	"Removes images without a name, and layers that are kept of pulls. What a box or\n"
	"a template needs stays.\n\n"
	"Options:\n"
	"  -a, --all       also images with a name\n"
	"      --dry-run   tell what would go\n"
	"  -f, --force     as without, since nobody is asked\n"
	"      --json      print a JSON object with images and bytes\n"
	"      --max SIZE  instead, those used longest ago, layers before images, until all\n"
	"                  take no more\n\n"
	"Example:\n"
	"  holt image prune --all --dry-run\n";

static int prune_main(int argc, char **argv, holt_home *home)
{
	static const struct option options[] = {{"all", no_argument, NULL, 'a'},
		{"dry-run", no_argument, NULL, 'd'}, {"force", no_argument, NULL, 'f'},
		{"json", no_argument, NULL, 'j'}, {"max", required_argument, NULL, 'm'}, {0}};
	holt_image_prune_options o = HOLT_IMAGE_PRUNE_OPTIONS_INIT;
	int json = 0;
	int c;

	while ((c = getopt_long(argc, argv, ":af", options, NULL)) != -1) {
		if (c == 'a')
			o.flags |= HOLT_IMAGE_PRUNE_ALL;
		else if (c == 'd')
			o.flags |= HOLT_IMAGE_PRUNE_DRY_RUN;
		else if (c == 'j')
			json = 1;
		else if (c == 'm' && strcmp(optarg, "0") == 0)
			o.max_bytes = 1;
		else if (c == 'm' && cli_parse_bytes(optarg, &o.max_bytes) < 0)
			return cli_usage(CLI_USAGE, "image",
				"--max is not a size such as 2g: '%.64s'", optarg);
		else if (c != 'f' && c != 'm') /* nobody is asked, with or without -f */
			return cli_bad_option(CLI_USAGE, "image", c, argv);
	}
	if (optind < argc)
		return cli_usage(CLI_USAGE, "image", "prune takes no argument");
	return prune(home, &o, json);
}

static int image_main(int argc, char **argv)
{
	static const struct cli_subverb subverbs[] = {
		{.name = "export", .help = image_export_help, .main = image_export_main},
		{.name = "history", .in_home = image_history_main},
		{.name = "import", .in_home = import_main},
		{.name = "inspect", .in_home = inspect_main},
		{.name = "ls", .in_home = ls_main},
		{.name = "prune", .help = prune_help, .in_home = prune_main},
		{.name = "pull", .help = image_pull_help, .main = image_pull_main},
		{.name = "rm", .in_home = rm_main},
		{.name = "tag", .in_home = tag_main},
		{0},
	};

	return cli_subverbs(&verb_image, subverbs, argc, argv);
}

const struct cli_verb verb_image = {
	.name = "image",
	.summary = "pull, import, export, list, name and remove images",
	.group = CLI_HOST,
	.help = "Usage: holt image export IMAGE [-o FILE]\n"
		"       holt image history [--json] [--no-trunc] IMAGE\n"
		"       holt image import PATH [--name REF] [--json] [-q]\n"
		"       holt image inspect IMAGE...\n"
		"       holt image ls [--json] [-q]\n"
		"       holt image prune [-a] [--max SIZE] [--dry-run] [--json]\n"
		"       holt image pull [OPTIONS] REF\n"
		"       holt image rm IMAGE...\n"
		"       holt image tag IMAGE NAME\n\n"
		"PATH is an OCI image layout (a directory, or a tar of one), what docker save\n"
		"wrote, or a tar of a root file system, also compressed. IMAGE is a name, a\n"
		"digest, or the beginning of a digest. export, prune and pull have a --help of\n"
		"their own.\n\n"
		"Options:\n"
		"  -n, --name REF  name the image NAME[:TAG]; default: the name in the layout\n"
		"      --json      print JSON\n"
		"      --no-trunc  history: all of each command\n"
		"  -q, --quiet     import: no progress; ls: digests only\n\n"
		"Example:\n"
		"  holt image import rootfs.tar.gz --name tools && holt run tools ls /\n",
	.main = image_main,
	.has_subverbs = 1,
};
