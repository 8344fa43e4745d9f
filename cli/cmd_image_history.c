/* SPDX-License-Identifier: Apache-2.0 */
/* holt image history: how an image was made, step by step. */
#include "cmd_image.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_COLUMNS 60 /* of a command, unless all of it is wanted */

/* The escapes of JSON stay as they are. */
static void format_member(
	char *dst, size_t size, const char *line, const char *name, size_t columns)
{
	const char *value = NULL;
	const size_t len = cli_json_member(line, name, &value);

	if (len > columns)
		(void)snprintf(dst, size, "%.*s...", (int)columns, value);
	else
		(void)snprintf(dst, size, "%.*s", (int)len, value);
}

static void print_json(const char *lines)
{
	(void)printf("[");
	for (const char *end; (end = strchr(lines, '\n')); lines = end + 1)
		(void)printf("%.*s%s", (int)(end - lines), lines, end[1] ? ",\n" : "");
	(void)printf("]\n");
}

static int print_table(const char *lines, int whole)
{
	static const char *const heads[] = {"CREATED", "CREATED BY", "LAYER", "COMMENT", NULL};
	static char by[65536];
	static char comment[65536];
	const size_t columns = whole ? sizeof by - 8 : SHORT_COLUMNS;
	const size_t len = strlen(lines);
	FILE *in = len ? fmemopen((char *)(uintptr_t)lines, len, "r") : NULL;
	struct cli_table t;
	char *line = NULL;
	size_t room = 0;

	cli_table_open(&t, heads);
	while (in && getline(&line, &room, in) > 0) {
		char created[20]; /* to the second */
		format_member(created, sizeof created, line, "created", sizeof created);
		format_member(by, sizeof by, line, "created_by", columns);
		format_member(comment, sizeof comment, line, "comment", columns);
		cli_table_row(
			&t, (const char *const[]){created, by,
				    strstr(line, "\"empty_layer\":true") ? "no" : "yes", comment});
	}
	free(line);
	if (in)
		(void)fclose(in);
	return cli_table_close(&t, "\n");
}

static int print(holt_home *home, const char *ref, int json, int whole)
{
	holt_image *image = NULL;
	holt_error *error = NULL;
	const char *lines = NULL;
	int status = CLI_OK;

	if (holt_image_get(home, ref, &image, &error) < 0)
		return cli_error(CLI_FAILED, error);
	if (holt_image_history(home, image, &lines, &error) < 0) {
		holt_image_free(image);
		return cli_error(CLI_FAILED, error);
	}
	if (json)
		print_json(lines);
	else
		status = print_table(lines, whole);
	holt_image_free(image);
	return cli_finish_with(status);
}

int image_history_main(int argc, char **argv, holt_home *home)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'}, {"no-trunc", no_argument, NULL, 'w'}, {0}};
	int json = 0, whole = 0;
	int c;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c == 'j')
			json = 1;
		else if (c == 'w')
			whole = 1;
		else
			return cli_bad_option(CLI_USAGE, "image", c, argv);
	}
	if (optind + 1 != argc)
		return cli_usage(CLI_USAGE, "image", "history takes one IMAGE");
	return print(home, argv[optind], json, whole);
}
