/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holt events: what happened, a line each. A line for people is cut out of the event's JSON as it
 * stands: escapes in it stay escapes.
 */
#include "cli.h"

#include <getopt.h>
#include <string.h>

#define LINE_MAX_BYTES 4096

struct events {
	int json;
	uint64_t since_ns; /* UINT64_MAX: from now on */
	uint64_t until_ns; /* UINT64_MAX: for ever */
};

static void print_member(const char *event, const char *name, const char *before)
{
	const char *value = NULL;
	char shown[LINE_MAX_BYTES];
	const size_t len = cli_json_member(event, name, &value);

	if (len == 0)
		return;
	(void)cli_escape(shown, sizeof shown, value, len, 0, NULL);
	(void)printf("%s%s", before, shown);
}

/* "2026-11-30T12:00:00.123456789Z box die 0123456789ab name=web exit_code=1" */
static void print_line(const char *event)
{
	static const char *const more[][2] = {{"name", " name="}, {"old_name", " old_name="},
		{"image", " image="}, {"exit_code", " exit_code="}, {"reason", " reason="},
		{"signal", " signal="}, {"host", " host="}, {"address", " address="},
		{"port", " port="}, {"proto", " proto="}, {"count", " count="},
		{"left_out", " left_out="}, {"text", " text="}};
	const char *id = NULL;
	const int id_len = (int)cli_json_member(event, "id", &id);

	print_member(event, "time", "");
	print_member(event, "type", " ");
	print_member(event, "action", " ");
	(void)printf(" %.*s", id_len < 12 ? id_len : 12, id);
	for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
		print_member(event, more[i][0], more[i][1]);
	(void)printf("\n");
}

/* Whether the event belongs to the time that was asked for. */
static int is_wanted(const struct events *e, const char *event)
{
	const char *value = NULL;
	char text[64];
	uint64_t time_ns = 0;
	const size_t len = cli_json_member(event, "time", &value);

	(void)snprintf(text, sizeof text, "%.*s", (int)(len < 63 ? len : 63), value);
	return cli_parse_time_ns(text, &time_ns) < 0 || time_ns <= e->until_ns;
}

static uint64_t left_ms(const struct events *e)
{
	const uint64_t now_ns = cli_now_ns();

	if (e->until_ns == UINT64_MAX)
		return HOLT_FOREVER;
	return e->until_ns > now_ns ? (e->until_ns - now_ns) / 1000000 + 1 : 0;
}

static int show(const struct events *e, holt_events *listener, holt_error **reterr)
{
	for (;;) {
		const uint64_t timeout_ms = left_ms(e);
		const char *event = NULL;
		const int r = holt_events_next(listener, timeout_ms, NULL, &event, reterr);

		if (r < 0)
			return r;
		if (!event && timeout_ms == 0)
			return 0;
		if (!event)
			continue;
		if (!is_wanted(e, event))
			return 0;
		if (e->json) {
			cli_json_print(stdout, event, 0, 0);
			(void)printf("\n");
		} else {
			print_line(event);
		}
		if (fflush(stdout) != 0)
			return 0;
	}
}

static int parse(struct events *e, int argc, char **argv)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'},
		{"since", required_argument, NULL, 's'}, {"until", required_argument, NULL, 'u'},
		{0}};
	int c;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c == 'j') {
			e->json = 1;
			continue;
		}
		if (c != 's' && c != 'u')
			return cli_bad_option(CLI_USAGE, "events", c, argv);
		if (cli_parse_time_ns(optarg, c == 's' ? &e->since_ns : &e->until_ns) < 0)
			return cli_usage(CLI_USAGE, "events",
				"--%s is not a time such as 10m or 2026-11-30T12:00:00Z: '%.64s'",
				c == 's' ? "since" : "until", optarg);
	}
	if (optind < argc)
		return cli_usage(CLI_USAGE, "events", "unexpected argument '%.64s'", argv[optind]);
	return CLI_OK;
}

static int events_main(int argc, char **argv)
{
	struct events e = {.since_ns = UINT64_MAX, .until_ns = UINT64_MAX};
	holt_home *home = NULL;
	holt_events *listener = NULL;
	holt_error *error = NULL;

	int status = parse(&e, argc, argv);
	if (status)
		return status;
	if (holt_home_open(NULL, &home, &error) < 0)
		return cli_error(CLI_FAILED, error);
	int r = holt_events_open(home, e.since_ns, &listener, &error);
	if (r == 0)
		r = show(&e, listener, &error);
	holt_events_close(listener);
	holt_home_close(home);
	status = r < 0 ? cli_error(CLI_FAILED, error) : CLI_OK;
	return cli_finish_with(status);
}

const struct cli_verb verb_events = {
	.name = "events",
	.summary = "tell what happens to boxes",
	.group = CLI_LOOKING,
	.help = "Usage: holt events [--since TIME] [--until TIME] [--json]\n\n"
		"Prints a line for each thing that happens to a box, until it is interrupted.\n\n"
		"Options:\n"
		"      --json        one JSON object a line\n"
		"      --since TIME  begin with what was then, as far as it is kept\n"
		"      --until TIME  end then, at once where that is past\n\n"
		"TIME is 2026-11-30T12:00:00Z, seconds since 1970, or so long ago: 10m, 1.5h.\n\n"
		"Example:\n"
		"  holt events --since 1h --until 0s --json | jq .action\n",
	.main = events_main,
};
