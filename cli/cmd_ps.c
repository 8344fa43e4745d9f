/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holt ps: one listing and one look at each box, nothing that could wait for one.
 */
#include "cli.h"

#include <getopt.h>
#include <string.h>

#define COMMAND_COLUMNS 20 /* of a command, in quotes */
#define ID_COLUMNS      12
#define CELL_MAX        4096

struct ps {
	int all, ids, json, names, whole;
	int ports; /* some box has published ones */
	int64_t now_s;
};

static int is_listed(const struct ps *ps, const holt_box_info *info)
{
	switch (info->state) {
	case HOLT_BOX_STARTING:
	case HOLT_BOX_RUNNING:
	case HOLT_BOX_PAUSED:
	case HOLT_BOX_STOPPING:
		return 1;
	case HOLT_BOX_GONE:
		return 0;
	default:
		return ps->all;
	}
}

/* "Exited (137) 2 minutes ago (killed)". That its program ended goes without saying; when it was
 * is not known of a box that nobody saw end. */
static void put_exited(char *dst, size_t cap, const holt_box_info *info, int64_t now_s)
{
	const char *reason = holt_end_reason_name(info->end_reason);
	const int odd = info->end_reason != HOLT_END_PROGRAM && *reason;
	char age[64];

	cli_format_age(age, sizeof age, now_s - info->ended_s);
	(void)snprintf(dst, cap, "Exited (%d)%s%s%s%s%s%s", info->exit_code,
		info->ended_s ? " " : "", info->ended_s ? age : "", info->ended_s ? " ago" : "",
		odd ? " (" : "", odd ? reason : "", odd ? ")" : "");
}

static void put_status(char *dst, size_t cap, const holt_box_info *info, int64_t now_s)
{
	char age[64];

	cli_format_age(age, sizeof age, now_s - info->started_s);
	if (info->state == HOLT_BOX_EXITED) {
		put_exited(dst, cap, info, now_s);
	} else if (info->state == HOLT_BOX_RUNNING || info->state == HOLT_BOX_PAUSED) {
		(void)snprintf(dst, cap, "Up %s%s", age,
			info->state == HOLT_BOX_PAUSED ? " (Paused)" : "");
	} else {
		(void)snprintf(dst, cap, "%s", holt_box_state_name(info->state));
		dst[0] = (char)(dst[0] - 'a' + 'A');
	}
}

static void put_command(char *dst, size_t cap, const char *const *words, int whole)
{
	char text[CELL_MAX - 8];
	size_t len = 0;

	text[0] = 0;
	for (size_t i = 0; words && words[i] && len + 1 < sizeof text; i++) {
		if (i)
			text[len++] = ' ';
		len += cli_escape_str(text + len, sizeof text - len, words[i]);
	}
	if (!whole)
		cli_cut(text, sizeof text, COMMAND_COLUMNS - 2);
	(void)snprintf(dst, cap, "\"%s\"", text);
}

/* "127.0.0.1:8080->80/tcp, ...", as docker has it. */
static void put_ports(char *dst, size_t cap, holt_box *box)
{
	const char *const *ports = NULL;
	size_t len = 0;

	dst[0] = 0;
	if (holt_box_ports(box, &ports, NULL) < 0)
		return;
	for (size_t i = 0; ports[i] && len < cap; i++) {
		const char *guest = strrchr(ports[i], ':');
		const int n = guest ? (int)(guest - ports[i]) : 0;

		len += (size_t)snprintf(dst + len, cap - len, "%s%.*s->%s", i ? ", " : "", n,
			ports[i], guest ? guest + 1 : ports[i]);
	}
}

static void add_row(
	struct cli_table *table, const struct ps *ps, holt_box *box, const holt_box_info *info)
{
	static char image[CELL_MAX], command[CELL_MAX], ports[CELL_MAX];
	const char *name = holt_box_name(box);
	char id[128], age[64], created[80], status[160];
	const char *const cells[] = {id, image, command, created, status,
		ps->ports ? ports
		: name    ? name
			  : "",
		name ? name : ""};

	(void)snprintf(id, sizeof id, "%.*s", ps->whole ? 127 : ID_COLUMNS, holt_box_id(box));
	(void)cli_escape_str(image, sizeof image, holt_box_image(box));
	put_command(command, sizeof command, holt_box_command(box), ps->whole);
	cli_format_age(age, sizeof age, ps->now_s - info->created_s);
	(void)snprintf(created, sizeof created, "%s ago", age);
	put_status(status, sizeof status, info, ps->now_s);
	put_ports(ports, sizeof ports, box);
	cli_table_row(table, cells);
}

static int print_json(holt_box *box)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;
	const char *json = NULL;
	holt_error *error = NULL;

	if (holt_box_json(box, &json, &error) < 0)
		return cli_error(CLI_FAILED, error);
	/* It may have gone since it was found worth listing. */
	if (holt_box_get_info(box, &info) == 0 && info.state == HOLT_BOX_GONE)
		return CLI_OK;
	cli_json_print(stdout, json, 0, 0);
	(void)printf("\n");
	return CLI_OK;
}

static int show_box(
	struct cli_table *table, const struct ps *ps, holt_box *box, const holt_box_info *info)
{
	const char *name = holt_box_name(box);

	if (ps->json)
		return print_json(box);
	if (ps->ids || (ps->names && !name))
		(void)printf("%.*s\n", ps->whole ? 127 : ID_COLUMNS, holt_box_id(box));
	else if (ps->names)
		(void)printf("%s\n", name);
	else
		add_row(table, ps, box, info);
	return CLI_OK;
}

/* Their column is shown where it says something. */
static int has_ports(holt_box **boxes, size_t n)
{
	const char *const *ports = NULL;

	for (size_t i = 0; i < n; i++) {
		if (holt_box_ports(boxes[i], &ports, NULL) == 0 && ports[0])
			return 1;
	}
	return 0;
}

static int show(struct ps *ps, holt_box **boxes, size_t n)
{
	static const char *const heads[] = {
		"BOX ID", "IMAGE", "COMMAND", "CREATED", "STATUS", "NAMES", NULL};
	static const char *const with_ports[] = {
		"BOX ID", "IMAGE", "COMMAND", "CREATED", "STATUS", "PORTS", "NAMES", NULL};
	struct cli_table table;
	int status = CLI_OK;

	ps->ports = has_ports(boxes, n);
	cli_table_open(&table, ps->ports ? with_ports : heads);
	for (size_t i = 0; i < n; i++) {
		holt_box_info info = HOLT_BOX_INFO_INIT;

		if (holt_box_get_info(boxes[i], &info) == 0 && is_listed(ps, &info) &&
			show_box(&table, ps, boxes[i], &info) != CLI_OK)
			status = CLI_FAILED;
	}
	const int is_table = !ps->json && !ps->ids && !ps->names;
	const int told = cli_table_close(&table, is_table ? "\n" : NULL);
	return cli_finish_with(status ? status : told);
}

static int parse(struct ps *ps, int argc, char **argv)
{
	static const struct option options[] = {{"all", no_argument, NULL, 'a'},
		{"json", no_argument, NULL, 'j'}, {"names", no_argument, NULL, 'n'},
		{"no-trunc", no_argument, NULL, 'w'}, {"quiet", no_argument, NULL, 'q'}, {0}};
	int c;

	while ((c = getopt_long(argc, argv, ":aq", options, NULL)) != -1) {
		switch (c) {
		case 'a':
			ps->all = 1;
			break;
		case 'j':
			ps->json = 1;
			break;
		case 'n':
			ps->names = 1;
			break;
		case 'q':
			ps->ids = 1;
			break;
		case 'w':
			ps->whole = 1;
			break;
		default:
			return cli_bad_option(CLI_USAGE, "ps", c, argv);
		}
	}
	if (optind < argc)
		return cli_usage(CLI_USAGE, "ps", "unexpected argument '%.64s'", argv[optind]);
	return CLI_OK;
}

static int ps_main(int argc, char **argv)
{
	struct ps ps = {.now_s = (int64_t)(cli_now_ns() / 1000000000u)};
	holt_home *home = NULL;
	holt_box **boxes = NULL;
	holt_error *error = NULL;
	size_t n = 0;

	int status = parse(&ps, argc, argv);
	if (status)
		return status;
	if (holt_home_open(NULL, &home, &error) < 0)
		return cli_error(CLI_FAILED, error);
	if (holt_box_list(home, &boxes, &n, &error) < 0)
		status = cli_error(CLI_FAILED, error);
	else
		status = show(&ps, boxes, n);
	holt_box_list_free(boxes, n);
	holt_home_close(home);
	return status;
}

const struct cli_verb verb_ps = {
	.name = "ps",
	.summary = "list boxes",
	.group = CLI_LOOKING,
	.help = "Usage: holt ps [-a] [-q | --names | --json] [--no-trunc]\n\n"
		"Lists the boxes that run, the newest first, with their published ports where\n"
		"there are any.\n\n"
		"Options:\n"
		"  -a, --all       also those that do not run, and why they ended\n"
		"      --json      one JSON object a line, as 'holt inspect' has it\n"
		"      --names     names only, ids of boxes without one\n"
		"      --no-trunc  whole ids and commands\n"
		"  -q, --quiet     ids only\n\n"
		"Example:\n"
		"  holt stop $(holt ps -q)\n",
	.main = ps_main,
};
