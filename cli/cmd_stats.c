/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holt stats: a table of what boxes use, made anew each second. The share of the processor is what
 * was used between two tables; so a single table comes after a second, too. What a box does not
 * tell (it is paused, or does not answer) is shown as "--".
 */
#include "cli.h"

#include <getopt.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define BOXES_MAX   1024 /* in one table */
#define ID_MAX      72
#define INTERVAL_US 1000000

struct sample {
	char id[ID_MAX];
	holt_box_stats stats; /* all 0 where there are none */
};

struct stats {
	int json, once;
	char **names; /* ends with NULL; empty: all that run */
	size_t n_now;
	size_t n_before;
	struct sample now[BOXES_MAX];
	struct sample before[BOXES_MAX];
};

static struct stats stats;

static void print_json(holt_box *box, const holt_box_stats *s)
{
	const char *name = holt_box_name(box);

	/* Neither needs an escape. */
	(void)printf("{\"id\":\"%s\",\"name\":%s%s%s", holt_box_id(box), name ? "\"" : "",
		name ? name : "null", name ? "\"" : "");
	(void)printf(",\"uptime_us\":%" PRIu64 ",\"cpu_us\":%" PRIu64, s->uptime_us, s->cpu_us);
	(void)printf(",\"memory_used_bytes\":%" PRIu64 ",\"memory_total_bytes\":%" PRIu64,
		s->memory_used_bytes, s->memory_total_bytes);
	(void)printf(",\"disk_used_bytes\":%" PRIu64 ",\"disk_total_bytes\":%" PRIu64,
		s->disk_used_bytes, s->disk_total_bytes);
	(void)printf(",\"host_memory_bytes\":%" PRIu64 ",\"processes\":%" PRIu32
		     ",\"execs\":%" PRIu32 "}\n",
		s->host_memory_bytes, s->processes, s->execs);
}

static const struct sample *find_before(const char *id)
{
	for (size_t i = 0; i < stats.n_before; i++) {
		if (strcmp(stats.before[i].id, id) == 0)
			return &stats.before[i];
	}
	return NULL;
}

static void put_cpu(char *dst, size_t cap, const struct sample *now)
{
	const struct sample *before = find_before(now->id);

	if (!before || before->stats.uptime_us == 0 ||
		now->stats.uptime_us <= before->stats.uptime_us ||
		now->stats.cpu_us < before->stats.cpu_us)
		(void)snprintf(dst, cap, "--");
	else
		(void)snprintf(dst, cap, "%.1f%%",
			100.0 * (double)(now->stats.cpu_us - before->stats.cpu_us) /
				(double)(now->stats.uptime_us - before->stats.uptime_us));
}

static void put_use(char *dst, size_t cap, uint64_t used, uint64_t total)
{
	char a[32], b[32];

	cli_format_bytes(a, sizeof a, used, 1024);
	cli_format_bytes(b, sizeof b, total, 1024);
	(void)snprintf(dst, cap, "%s / %s", a, b);
}

static void add_row(struct cli_table *table, holt_box *box, const struct sample *now)
{
	const holt_box_stats *s = &now->stats;
	const char *name = holt_box_name(box);
	char id[16], cpu[32] = "--", memory[80] = "--", disk[80] = "--", host[32] = "--",
		     processes[32] = "--";
	const char *const cells[] = {id, name ? name : "", cpu, memory, disk, host, processes};

	(void)snprintf(id, sizeof id, "%.12s", now->id);
	if (s->uptime_us) {
		put_cpu(cpu, sizeof cpu, now);
		put_use(memory, sizeof memory, s->memory_used_bytes, s->memory_total_bytes);
		put_use(disk, sizeof disk, s->disk_used_bytes, s->disk_total_bytes);
		cli_format_bytes(host, sizeof host, s->host_memory_bytes, 1024);
		(void)snprintf(processes, sizeof processes, "%" PRIu32, s->processes);
	}
	cli_table_row(table, cells);
}

/* Measure a box; @must: that it does not run is an error. Returns a status. */
static int measure(holt_box *box, int must, struct cli_table *table)
{
	holt_box_stats measured = HOLT_BOX_STATS_INIT;
	holt_error *error = NULL;

	if (stats.n_now == BOXES_MAX)
		return CLI_OK;
	const int r = holt_box_get_stats(box, &measured, &error);
	const int ended = r == -HOLT_ECLOSED || r == -HOLT_ENOT_FOUND;
	if (r < 0 && must && (ended || stats.json))
		return cli_error(CLI_FAILED, error);
	holt_error_free(error);
	if (ended)
		return CLI_OK;
	struct sample *now = &stats.now[stats.n_now++];
	*now = (struct sample){0};
	(void)snprintf(now->id, sizeof now->id, "%s", holt_box_id(box));
	if (r == 0)
		now->stats = measured;
	if (stats.json && r == 0)
		print_json(box, &measured);
	else if (!stats.json)
		add_row(table, box, now);
	return CLI_OK;
}

static int measure_named(holt_home *home, const char *name, struct cli_table *table)
{
	holt_box *box = NULL;
	holt_error *error = NULL;

	if (holt_box_get(home, name, &box, &error) < 0)
		return cli_error(CLI_FAILED, error);
	const int status = measure(box, 1, table);
	holt_box_close(box);
	return status;
}

static int is_running(holt_box *box)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;

	return holt_box_get_info(box, &info) == 0 &&
	       (info.state == HOLT_BOX_RUNNING || info.state == HOLT_BOX_PAUSED);
}

static int measure_all(holt_home *home, struct cli_table *table)
{
	holt_box **boxes = NULL;
	holt_error *error = NULL;
	size_t n = 0;
	int status = CLI_OK;

	if (holt_box_list(home, &boxes, &n, &error) < 0)
		return cli_error(CLI_FAILED, error);
	for (size_t i = 0; i < n && status == CLI_OK; i++) {
		if (is_running(boxes[i]))
			status = measure(boxes[i], 0, table);
	}
	holt_box_list_free(boxes, n);
	return status;
}

/* One table; @line_end: NULL measures only. Returns a status. */
static int round_of(holt_home *home, const char *line_end)
{
	static const char *const heads[] = {
		"BOX ID", "NAME", "CPU", "MEMORY", "DISK", "ON HOST", "PROCESSES", NULL};
	struct cli_table table;
	int status = CLI_OK;

	cli_table_open(&table, heads);
	stats.n_now = 0;
	for (char **name = stats.names; *name && status == CLI_OK; name++)
		status = measure_named(home, *name, &table);
	if (!*stats.names)
		status = measure_all(home, &table);
	const int told = cli_table_close(&table, status ? NULL : line_end);
	memcpy(stats.before, stats.now, stats.n_now * sizeof stats.now[0]);
	stats.n_before = stats.n_now;
	return status ? status : told;
}

static int show(holt_home *home)
{
	const int screen = isatty(STDOUT_FILENO) && !stats.once && !stats.json;
	int status = CLI_OK;

	if (stats.once && !stats.json) {
		status = round_of(home, NULL);
		(void)usleep(INTERVAL_US);
	}
	while (status == CLI_OK) {
		/* Over the last table; what was longer there is wiped off. */
		if (screen)
			(void)fputs("\033[H", stdout);
		status = round_of(home, stats.json ? NULL : screen ? "\033[K\n" : "\n");
		if (screen)
			(void)fputs("\033[J", stdout);
		const int written = cli_finish();
		if (stats.once || written != CLI_OK)
			return status ? status : written;
		(void)usleep(INTERVAL_US);
	}
	return status;
}

static int stats_main(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'}, {"no-stream", no_argument, NULL, 'n'}, {0}};
	holt_home *home = NULL;
	holt_error *error = NULL;
	int c;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c == 'j')
			stats.json = 1;
		else if (c == 'n')
			stats.once = 1;
		else
			return cli_bad_option(CLI_USAGE, "stats", c, argv);
	}
	stats.names = argv + optind;
	if (holt_home_open(NULL, &home, &error) < 0)
		return cli_error(CLI_FAILED, error);
	const int status = show(home);
	holt_home_close(home);
	return status;
}

const struct cli_verb verb_stats = {
	.name = "stats",
	.summary = "show what boxes use",
	.group = CLI_LOOKING,
	.help = "Usage: holt stats [--no-stream] [--json] [BOX...]\n\n"
		"Shows processor, memory, disk and processes of the boxes that run, or of those\n"
		"named, each second anew.\n\n"
		"Options:\n"
		"      --json       one JSON object a line and box, in bytes and microseconds\n"
		"      --no-stream  once\n\n"
		"Example:\n"
		"  holt stats --no-stream --json web | jq .memory_used_bytes\n",
	.main = stats_main,
};
