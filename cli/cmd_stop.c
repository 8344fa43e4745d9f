/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs that end what runs: stop, restart, kill. */
#include "cli.h"

#include <getopt.h>
#include <signal.h>

struct ending {
	uint64_t grace_ms;
	uint32_t start_flags;
};

static int stop_box(holt_box *box, const void *user, holt_error **reterr)
{
	const struct ending *e = user;

	return holt_box_stop(box, e->grace_ms, reterr);
}

static int restart_box(holt_box *box, const void *user, holt_error **reterr)
{
	const struct ending *e = user;
	holt_start_options options = HOLT_START_OPTIONS_INIT;

	options.flags = e->start_flags;
	const int r = stop_box(box, e, reterr);
	return r < 0 ? r : holt_box_start(box, &options, NULL, reterr);
}

static int kill_box(holt_box *box, const void *number, holt_error **reterr)
{
	return holt_box_kill(box, *(const int *)number, reterr);
}

/* stop and restart, which has one more option. */
static int end_main(
	const char *verb, const struct option *options, cli_box_fn act, int argc, char **argv)
{
	struct ending e = {.start_flags = HOLT_START_DETACHED};
	int c;

	while ((c = getopt_long(argc, argv, ":t:", options, NULL)) != -1) {
		if (c == 'n')
			e.start_flags |= HOLT_START_NO_TEMPLATE;
		else if (c != 't')
			return cli_bad_option(CLI_USAGE, verb, c, argv);
		else if (cli_parse_grace_ms(optarg, &e.grace_ms) < 0)
			return cli_usage(CLI_USAGE, verb,
				"-t is not a time such as 10 or 1m: '%.64s'", optarg);
	}
	return cli_each_box(verb, argv + optind, act, &e, 0);
}

static int stop_main(int argc, char **argv)
{
	static const struct option options[] = {{"timeout", required_argument, NULL, 't'}, {0}};

	return end_main("stop", options, stop_box, argc, argv);
}

static int restart_main(int argc, char **argv)
{
	static const struct option options[] = {{"no-template", no_argument, NULL, 'n'},
		{"timeout", required_argument, NULL, 't'}, {0}};

	return end_main("restart", options, restart_box, argc, argv);
}

static int kill_main(int argc, char **argv)
{
	static const struct option options[] = {{"signal", required_argument, NULL, 's'}, {0}};
	int number = SIGKILL;
	int c;

	while ((c = getopt_long(argc, argv, ":s:", options, NULL)) != -1) {
		if (c != 's')
			return cli_bad_option(CLI_USAGE, "kill", c, argv);
		if (cli_parse_signal(optarg, &number) < 0)
			return cli_usage(CLI_USAGE, "kill",
				"-s is not a signal such as INT, SIGINT or 2: '%.64s'", optarg);
	}
	return cli_each_box("kill", argv + optind, kill_box, &number, 0);
}

const struct cli_verb verb_kill = {
	.name = "kill",
	.summary = "kill boxes, or send signals to their programs",
	.group = CLI_BOXES,
	.help = "Usage: holt kill [-s SIGNAL] BOX...\n\n"
		"Options:\n"
		"  -s, --signal SIGNAL  INT, SIGINT or 2 (KILL, which ends the whole box)\n\n"
		"Example:\n"
		"  holt kill -s HUP web\n",
	.main = kill_main,
};

const struct cli_verb verb_restart = {
	.name = "restart",
	.summary = "stop boxes and start them again",
	.group = CLI_BOXES,
	.help = "Usage: holt restart [--no-template] [-t TIME] BOX...\n\n"
		"Options:\n"
		"      --no-template   boot, also where it could begin as a copy of a template\n"
		"  -t, --timeout TIME  kill what has not ended after TIME, such as 5 or 1m;\n"
		"                      0: at once (the box's own time)\n\n"
		"Example:\n"
		"  holt restart -t 2 web\n",
	.main = restart_main,
};

const struct cli_verb verb_stop = {
	.name = "stop",
	.summary = "stop boxes in good order",
	.group = CLI_BOXES,
	.help = "Usage: holt stop [-t TIME] BOX...\n\n"
		"Sends the box's stop signal to its program, kills what has not ended in time,\n"
		"and turns the box off. Its disk stays.\n\n"
		"Options:\n"
		"  -t, --timeout TIME  kill what has not ended after TIME, such as 5 or 1m;\n"
		"                      0: at once (the box's own time)\n\n"
		"Example:\n"
		"  holt stop -t 30 web db\n",
	.main = stop_main,
};
