/* SPDX-License-Identifier: Apache-2.0 */
/* holt config: what a provider makes of a configuration file, without a home or a box. */
#include "subverbs.h"

#include <getopt.h>
#include <string.h>

#define CELL_MAX 8192

static int print_table(holt_config *config)
{
	static const char *const heads[] = {"KEY", "VALUE", NULL};
	static char value[CELL_MAX];
	struct cli_table table;
	const char *key;

	cli_table_open(&table, heads);
	for (size_t i = 0; (key = holt_config_key(i)); i++) {
		const char *const text = holt_config_get(config, key);
		const char *const cells[] = {key, value};

		(void)cli_escape_str(value, sizeof value, text ? text : "-");
		cli_table_row(&table, cells);
	}
	const int status = cli_table_close(&table, "\n");
	for (const char *const *w = holt_config_warnings(config); *w; w++) {
		(void)cli_escape_str(value, sizeof value, *w);
		(void)fprintf(stderr, "holt: warning: %s\n", value);
	}
	return cli_finish_with(status);
}

static int print_json(holt_config *config)
{
	const char *const json = holt_config_json(config);
	const char *const *const warnings = holt_config_warnings(config);

	if (!json) {
		(void)fprintf(stderr, "holt: no memory for the configuration as JSON\n");
		return CLI_FAILED;
	}
	(void)printf("{\"config\":");
	cli_json_print(stdout, json, 0, 0);
	(void)printf(",\"warnings\":[");
	for (size_t i = 0; warnings[i]; i++) {
		(void)printf("%s", i ? "," : "");
		cli_json_string(stdout, warnings[i], strlen(warnings[i]), CLI_JSON_TEXT);
	}
	(void)printf("]}\n");
	return cli_finish();
}

static int check_main(int argc, char **argv, const void *user)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {0}};
	int (*print)(holt_config * config) = print_table;
	holt_config *config = NULL;
	holt_error *error = NULL;
	int c;

	(void)user;
	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c != 'j')
			return cli_bad_option(CLI_USAGE, "config", c, argv);
		print = print_json;
	}
	if (optind + 1 != argc)
		return cli_usage(CLI_USAGE, "config", "check takes one FILE");
	if (holt_config_load(argv[optind], &config, &error) < 0)
		return cli_error(CLI_FAILED, error);
	const int status = print(config);
	holt_config_free(config);
	return status;
}

static int config_main(int argc, char **argv)
{
	static const struct cli_subverb subverbs[] = {
		{.name = "check", .main = check_main},
		{0},
	};

	return cli_subverbs(&verb_config, subverbs, argc, argv);
}

const struct cli_verb verb_config = {
	.name = "config",
	.summary = "tell what a configuration file of sandboxes says",
	.group = CLI_HOST,
	.help = "Usage: holt config check [--json] FILE\n\n"
		"Reads the section 'sandbox' of a YAML file and prints what is in effect: each\n"
		"key with its value or its default. What does nothing is told as a warning.\n"
		"Fails with line and key where a value is wrong or a $VARIABLE is missing.\n"
		"No box is touched.\n\n"
		"Options:\n"
		"  --json  print a JSON object with 'config' and 'warnings'\n\n"
		"Example:\n"
		"  holt config check --json config.yaml | jq .config.replicas\n",
	.main = config_main,
	.has_subverbs = 1,
};
