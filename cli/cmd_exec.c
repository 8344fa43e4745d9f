/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holt exec: one more program in a running box. With -d it runs on and is known by a number; with
 * --attach somebody takes it over, by that number, as often as wanted.
 */
#include "exec_args.h"

#include <getopt.h>
#include <string.h>

static struct exec {
	struct exec_args args;
	const char *box;
	int attach;
	int program; /* options were given that only a start can use */
	uint32_t number; /* to attach to */
} exec = {.args = {.exec = HOLT_EXEC_OPTIONS_INIT}};

enum { OPT_ATTACH = OPT_OF_VERB };

static int take_option(int c, char **argv)
{
	if (c != OPT_ATTACH) {
		exec.program |= c != 'i' && c != 't';
		return exec_args_take(&exec.args, c, argv);
	}
	exec.attach = 1;
	/* 0 is the program of the box. */
	if (strcmp(optarg, "0") == 0 || cli_parse_count(optarg, &exec.number) == 0)
		return 0;
	return exec_args_bad(&exec.args, "--attach is not the number of an exec:", optarg);
}

static int check_words(int n)
{
	if (n == 0)
		return cli_usage(CLI_RUN_FAILED, "exec", "no BOX given");
	if (exec.attach && (n > 1 || exec.program))
		return cli_usage(CLI_RUN_FAILED, "exec",
			"--attach takes one BOX, and -i and -t only: its program runs already");
	if (!exec.attach && n == 1)
		return cli_usage(CLI_RUN_FAILED, "exec", "no COMMAND given");
	return 0;
}

static int parse(int argc, char **argv)
{
	static const struct option options[] = {{"attach", required_argument, NULL, OPT_ATTACH},
		{"detach", no_argument, NULL, 'd'}, {"env", required_argument, NULL, 'e'},
		{"env-file", required_argument, NULL, OPT_ENV_FILE},
		{"interactive", no_argument, NULL, 'i'},
		{"pids-limit", required_argument, NULL, OPT_PIDS_LIMIT},
		{"replay-size", required_argument, NULL, OPT_REPLAY_SIZE},
		{"timeout", required_argument, NULL, OPT_TIMEOUT}, {"tty", no_argument, NULL, 't'},
		{"user", required_argument, NULL, 'u'}, {"workdir", required_argument, NULL, 'w'},
		{0}};
	int c;

	while ((c = getopt_long(argc, argv, "+:de:itu:w:", options, NULL)) != -1) {
		const int status = take_option(c, argv);
		if (status)
			return status;
	}
	const int status = check_words(argc - optind);
	if (status)
		return status;
	exec.box = argv[optind];
	exec.args.exec.argv = (const char *const *)(argv + optind + 1);
	return exec_args_finish(&exec.args);
}

static void tell_gap(uint64_t bytes, const char *stream)
{
	if (bytes)
		(void)fprintf(stderr, "holt: %llu bytes of %s were no longer kept\n",
			(unsigned long long)bytes, stream);
}

static int attach(struct foreground *f, holt_box *box, holt_error **reterr)
{
	uint64_t lost[2];
	holt_exec *e = NULL;

	f->attached = 1;
	if (holt_exec_attach(box, exec.number, f->cancel, &e, reterr) < 0)
		return -1;
	const int code = foreground_pump(f, e, reterr);
	lost[0] = holt_exec_gap(e, HOLT_STDOUT);
	lost[1] = holt_exec_gap(e, HOLT_STDERR);
	holt_exec_free(e);
	tell_gap(lost[0], "stdout");
	tell_gap(lost[1], "stderr");
	return code;
}

static int start(struct foreground *f, holt_box *box, holt_error **reterr)
{
	holt_exec *e = NULL;
	int code = CLI_OK;

	exec.args.exec.cancel = f->cancel;
	if (f->detach)
		exec.args.exec.flags |= HOLT_EXEC_KEEP;
	if (holt_exec_start(box, &exec.args.exec, &e, reterr) < 0)
		return -1;
	if (f->detach)
		(void)printf("%u\n", holt_exec_number(e));
	else
		code = foreground_pump(f, e, reterr);
	holt_exec_free(e);
	return f->detach && cli_finish() != CLI_OK ? CLI_RUN_FAILED : code;
}

static int exec_in_box(struct foreground *f, holt_home *home, holt_error **reterr)
{
	holt_box *box = NULL;
	int code = -1;

	if (holt_box_get(home, exec.box, &box, reterr) == 0)
		code = exec.attach ? attach(f, box, reterr) : start(f, box, reterr);
	holt_box_close(box);
	return code;
}

static int exec_main(int argc, char **argv)
{
	exec.args.foreground.verb = "exec";
	exec.args.foreground.work = exec_in_box;
	const int status = parse(argc, argv);
	return status ? status : foreground_run(&exec.args.foreground);
}

const struct cli_verb verb_exec = {
	.name = "exec",
	.summary = "run one more command in a box",
	.group = CLI_RUNNING,
	.help = "Usage: holt exec [OPTIONS] BOX COMMAND [ARG...]\n"
		"       holt exec --attach N [-i] [-t] BOX\n\n"
		"Runs a command with the variables, user and directory of the box's program.\n\n"
		"Options:\n"
		"      --attach N          take over command N of -d (0: the box's own),\n"
		"                          beginning with the oldest output that is kept\n"
		"  -d, --detach            let it run on, and print its number\n"
		"  -e, --env K[=V]         set a variable; without =V take holt's own value\n"
		"      --env-file FILE     a K[=V] a line\n"
		"  -i, --interactive       connect stdin\n"
		"      --pids-limit N      processes and threads at once (4096)\n"
		"      --replay-size SIZE  newest output kept for --attach, with -d (256k)\n"
		"      --timeout TIME      kill the command after TIME, such as 10, 1.5s or 2m\n"
		"  -t, --tty               on a terminal of its own; with -i it has yours\n"
		"  -u, --user USER         name or number, with :GROUP if wanted\n"
		"  -w, --workdir DIR       where it begins\n\n"
		"Exit status: as that of 'holt run'.\n\n"
		"Example:\n"
		"  holt exec -it web sh\n",
	.main = exec_main,
};
